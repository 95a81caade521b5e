"""How tolerant an attempt in the browser may be, which heals are allowed, and whether two pages are the same."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from recoup.kernel.canonical import digest
from recoup.kernel.elapsed import elapsed_s
from recoup.kernel.modes import caution
from recoup.kernel.waiting import LearnedWaits
from recoup.model.events import (
    Event,
    Payload,
    ResolutionDetails,
    TargetAdapted,
    TargetHealed,
    TargetObserved,
    TargetRejected,
)
from recoup.model.instant import Instant
from recoup.model.memory import Found, Key
from recoup.model.mode import Mode
from recoup.model.outcome import Seen
from recoup.model.plan import Action, BrowserAction, BrowserVerb, Plan, Repeat, Step
from recoup.model.policy import Policy
from recoup.model.target import (
    FORMAT,
    TIMING,
    Element,
    Fingerprint,
    Floors,
    HealMode,
    Resolution,
    Target,
    element_words,
)

DAY_S = 86_400
OBSERVED_MAX = 2_000
"""Targets of one workflow that are remembered."""
NAMES_ALIKE = 0.9
"""The share of names that two pictures of the same page have in common at least: clocks and counters change."""


def heal_mode(step: Step, plan: Plan, run: HealMode | None, policy: Policy) -> HealMode:
    """The most particular word counts; but what a run is told for all its steps is never exceeded."""
    said = step.heal.mode or plan.heal.mode or policy.heal
    if run is None:
        return said
    order = list(HealMode)
    return min(said, run, key=order.index)


def level(step: Step, plan: Plan, attempts_in_delivery: int, mode: Mode, policy: Policy) -> int:
    """The first attempt is strict, each further one more tolerant, as far as the mode and the plan let it."""
    most = min(caution(mode, policy).tolerance_level_max, policy.heal_level_max)
    for said in (plan.heal.max_level, step.heal.max_level):
        most = most if said is None else min(most, said)
    return min(attempts_in_delivery, most)


def floors(mode: Mode, policy: Policy) -> Floors:
    careful = caution(mode, policy)
    return Floors(careful.confidence_floor, careful.margin_min)


def needs_proof(step: Step, mode: Mode) -> bool:
    """A heal that nothing would prove is refused where the workflow is not well."""
    return mode is not Mode.RUNNING and not step.expect


def target_digest(target: Target) -> str:
    return digest(msgspec.to_builtins(target))


class KnownTargets:
    """What the workflow's targets looked like when they were last found, how often they were healed, and how long the
    slow ones take. A fold of the stream of the workflow's targets."""

    def __init__(self, events: Iterable[Event] = (), *, base: Found | None = None) -> None:
        self._observed: dict[Key, Element] = dict(base.observed) if base else {}
        self._healed: list[Instant] = list(base.healed) if base else []
        self.waits = LearnedWaits(base.took_ms if base else None)
        for event in events:
            self.add(event.payload, event.at)

    def add(self, payload: Payload, at: Instant) -> None:
        self.waits.add(payload)
        if isinstance(payload, TargetObserved):
            key = (payload.step_id, payload.target_digest)
            self._observed.pop(key, None)
            self._observed[key] = payload.element
            if len(self._observed) > OBSERVED_MAX:
                del self._observed[next(iter(self._observed))]
        elif is_heal(payload):
            self._healed = [*self._healed, at][-OBSERVED_MAX:]

    @property
    def found(self) -> Found:
        return Found(dict(self._observed), tuple(self._healed), self.waits.took_ms)

    def observed(self, step_id: str, target: Target) -> Element | None:
        return self._observed.get((step_id, target_digest(target)))

    def heals_within_a_day(self, now: Instant) -> int:
        return sum(elapsed_s(at, now, DAY_S) < DAY_S for at in self._healed)


def is_heal(payload: Payload) -> bool:
    """It counts against the limits: something else than what was written was taken, or typed."""
    return isinstance(payload, TargetHealed) or (
        isinstance(payload, TargetAdapted) and payload.strategy == FORMAT
    )


def too_many_heals(in_run: int, in_day: int, policy: Policy) -> str:
    """Why no more may be healed; "" when more may."""
    if in_run >= policy.max_heals_per_run:
        return f"max_heals_per_run ({policy.max_heals_per_run}) is used up"
    if in_day >= policy.max_heals_per_day:
        return f"max_heals_per_day ({policy.max_heals_per_day}) is used up"
    return ""


def details(resolution: Resolution) -> ResolutionDetails:
    profile, best = resolution.profile, resolution.chosen or resolution.best
    return ResolutionDetails(
        healing_attempt=profile.level,
        healing_profile={
            "min_ratio": profile.min_ratio,
            "pad_mul": profile.padding,
            "expand_roles": profile.expands_roles,
            "attempt_level": profile.level,
        },
        role_aliases_used=resolution.role_aliases_used,
        fuzzy_threshold_used=profile.min_ratio,
        spatial_padding_used=profile.padding,
        clamped=resolution.clamped,
        found_by=resolution.strategy,
        confidence=None if best is None else round(best.confidence, 4),
        margin=None if best is None else round(resolution.margin, 4),
        considered=resolution.considered,
        vetoes=resolution.vetoes,
        duration_ms=round(resolution.duration_ms, 3),
    )


def details_of(seen: Seen | None) -> ResolutionDetails | None:
    return details(seen.resolution) if seen is not None and seen.resolution is not None else None


def seen_at_the_end(seen: Seen | None) -> dict[str, Any]:
    """What the end of an attempt that passed says about what it saw."""
    return {"resolution": details_of(seen), "page": seen.page if seen is not None else None}


def healed_words(payload: TargetHealed) -> str:
    taken = element_words(payload.after) if payload.after else "another element"
    proof = "verified" if payload.verified else "unverified"
    return f"took {taken} for {payload.target}: {proof}, {payload.confidence:.0%} sure, {payload.margin:.0%} ahead"


def adapted_words(payload: TargetAdapted) -> str:
    proof = "verified" if payload.verified else "unverified"
    if payload.strategy == TIMING:
        return f"{payload.target} came after {(payload.took_ms or 0) / 1000:.1f} s: {proof}"
    return f"typed the {payload.value_kind} for {payload.target} as {payload.after}, not as {payload.before}: {proof}"


def rejected_words(payload: TargetRejected) -> str:
    nearest = f"; nearest: {element_words(payload.best)}" if payload.best else ""
    sure = f" ({payload.confidence:.0%} sure)" if payload.best and payload.confidence is not None else ""
    return f"nothing was taken for {payload.target}: {payload.reason}{nearest}{sure}"


# Pages


def why_another_page(recorded: Fingerprint, found: Fingerprint) -> str:
    """In words; "" where it is the same page."""
    if found.url != recorded.url:
        return "the page is at another address"
    if found.title != recorded.title:
        return "the page has another title"
    wanted, there = set(recorded.names), set(found.names)
    alike = len(wanted & there) / max(1, len(wanted | there))
    if wanted != there and alike < NAMES_ALIKE:
        return f"the page shows other things: {alike:.0%} of the names are the same"
    return ""


def needs_tabs(steps: Sequence[Step], frontier: int) -> bool:
    """A step from `frontier` on turns to a tab that is open by then."""
    return any(_turns_to_tab(action) for step in steps[frontier:] for action in _actions(step))


def _actions(step: Step) -> list[Action]:
    return [step.action, *(one.action for one in (*step.rescue, *step.on_empty, *step.always))]


def _turns_to_tab(action: Action) -> bool:
    return isinstance(action, BrowserAction) and action.verb is BrowserVerb.TAB and action.value != "new"


def page_comes_from(steps: Sequence[Step], frontier: int, skipped: Collection[int] = ()) -> int | None:
    """The step from which on the page before `frontier` was made: the last one that went somewhere; if a step after
    that turns to another tab, the last one before any step did so. None: no step before it has a page."""
    done = [index for index in range(frontier) if index not in skipped]
    before = [index for index in done if isinstance(steps[index].action, BrowserAction)]
    went = [index for index in before if goes_somewhere(steps[index])]
    begins = went[-1] if went else next(iter(before), None)
    if begins is None or not needs_tabs(steps, begins):
        return begins
    turned = next((index for index in before if turns(steps[index])), frontier)
    return next((index for index in reversed(went) if index < turned), before[0])


def page_made_by(steps: Sequence[Step], frontier: int, skipped: Collection[int] = ()) -> list[int]:
    """The steps that made the page before `frontier`, from the last one that went somewhere. What others do beside them
    is not in the page."""
    begins = page_comes_from(steps, frontier, skipped)
    if begins is None:
        return []
    return [index for index in range(begins, frontier) if index not in skipped and _makes_pages(steps[index])]


def page_made_since_sign_out(
    steps: Sequence[Step],
    frontier: int,
    left: Mapping[int, Fingerprint],
    found: Fingerprint,
    skipped: Collection[int] = (),
) -> list[int]:
    """The steps that make the page before `frontier`, whose address leads to `found` now. `left`: the page that each
    step has left. If `found` is a page from before the last `goto`, a session is over, and the step that led on from
    there (a sign-in) is needed again. Steps between it and the last `goto` are not: the `goto` leaves their page."""
    made_by = page_made_by(steps, frontier, skipped)
    before = [
        index for index, page in left.items() if made_by and index < made_by[0] and _is_like(page, found)
    ]
    if not before:
        return made_by
    led_on = next((index for index in sorted(left) if index > before[-1]), before[-1])
    return [*page_made_by(steps, min(led_on + 1, made_by[0]), skipped), *made_by]


def _is_like(recorded: Fingerprint, found: Fingerprint) -> bool:
    """Perhaps at another address: that of a sign-in often names where it leads to."""
    if not recorded.names:
        return recorded == found
    return not why_another_page(msgspec.structs.replace(recorded, url=found.url), found)


def page_can_be_made_again(steps: Sequence[Step], frontier: int, skipped: Collection[int] = ()) -> bool:
    """In a new browser, before the step at the frontier: what made it may be repeated."""
    if frontier >= len(steps) or not isinstance(steps[frontier].action, BrowserAction):
        return False
    made_by = page_made_by(steps, frontier, skipped)
    return bool(made_by) and all(steps[index].repeat is Repeat.SAFE for index in made_by)


def _makes_pages(step: Step) -> bool:
    """Whether the page may be another one after it."""
    looks = (BrowserVerb.READ, BrowserVerb.SCREENSHOT)
    return isinstance(step.action, BrowserAction) and step.action.verb not in looks


def turns(step: Step) -> bool:
    """To another tab."""
    return isinstance(step.action, BrowserAction) and step.action.verb is BrowserVerb.TAB


def goes_somewhere(step: Step) -> bool:
    """It does not continue where an earlier step has left the page."""
    return isinstance(step.action, BrowserAction) and step.action.verb is BrowserVerb.GOTO
