"""The targets of one run's browser steps: how each may be found, and what is recorded and learned from finding it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import msgspec

from recoup.errors import Conflict
from recoup.kernel.breaker import standing
from recoup.kernel.healing import (
    KnownTargets,
    floors,
    heal_mode,
    is_heal,
    level,
    needs_proof,
    target_digest,
    too_many_heals,
)
from recoup.kernel.memory import (
    FROM_LESSON,
    FROM_MEMORY,
    TargetMemory,
    by_its_screen,
    identity,
    learned,
    may_learn,
    rollback,
    screen_is_new,
    snapshot_before,
)
from recoup.kernel.modes import caution
from recoup.model import events as ev
from recoup.model.ids import targets_stream, workflow_stream
from recoup.model.instant import Instant
from recoup.model.memory import WhichScreen
from recoup.model.mode import Health, Mode
from recoup.model.outcome import Looking, Outcome, Seen
from recoup.model.plan import Action, BrowserAction, Step
from recoup.model.policy import Policy
from recoup.model.run import StepRecord, WorkflowState
from recoup.model.storage import Append, Judging, Ruled, StreamAppend
from recoup.model.target import FORMAT, TIMING, Element, HealMode, Resolution, Target, target_words
from recoup.ports import Recalls
from recoup.steps.browser.recall import recall
from recoup.steps.hooks import NO_FACTS, Beside, KindFacts, RunInHand

CONFLICTS_MAX = 5


class RunTargets:
    """What one run's driver knows about the targets of its workflow."""

    def __init__(self, run: RunInHand, recalls: Recalls) -> None:
        self._run = run
        self._recalls = recalls
        self._known: KnownTargets | None = None
        self._memory = TargetMemory()
        self._health = Health()
        """Of the workflow, when a target was last looked for."""

    async def looking(self, step: Step, record: StepRecord, action: Action, policy: Policy) -> Looking | None:
        """For the target of this attempt; None where it has none."""
        if not isinstance(action, BrowserAction) or action.target is None:
            return None
        known, now = await self._known_targets(), self._run.clock.now()
        plan, state = self._run.plan, self._run.state
        self._health = (await self._run.ledger.workflow_state(state.workflow)).health
        mode = standing(self._health, now).mode
        wanted = HealMode.OFF if action.hidden else heal_mode(step, plan, state.submission.heal, policy)
        limit = too_many_heals(state.counts.heals, known.heals_within_a_day(now), policy)
        return Looking(
            level=level(step, plan, record.spent.attempts_in_delivery, mode, policy),
            level_max=level(step, plan, policy.step_max_attempts - 1, mode, policy),
            heal=HealMode.REPORT if limit and wanted is HealMode.APPLY else wanted,
            floors=floors(mode, policy),
            needs_proof=needs_proof(step, mode),
            observed=known.observed(step.id, _written(step)),
            limit=limit,
            remembered=self._memory.usable(_key(step)),
            lessons=self._lessons(step),
            forbidden=self._memory.forbidden(_key(step)),
            proposed=self._proposed(step),
            wait_s=known.waits.wait_s(_key(step), policy),
            expects=bool(step.expect),
        )

    def _proposed(self, step: Step) -> tuple[Element, ...]:
        """What was learned for this or other targets and is like what is looked for."""
        described = _written(step).recorded or (
            self._known.observed(step.id, _written(step)) if self._known else None
        )
        if described is None or not len(self._memory):
            return ()
        return self._recalls.proposed(self._run.state.workflow, self._memory.state, described)

    def _lessons(self, step: Step) -> tuple[Element, ...]:
        """As it was last found to the letter, and what was learned in its place."""
        seen = self._known.observed(step.id, _written(step)) if self._known else None
        learned = self._memory.lessons(_key(step))
        return learned if seen is None or _written(step).recorded is None else (seen, *learned)

    async def _known_targets(self) -> KnownTargets:
        if self._known is None:
            run = self._run
            recalled = await recall(run.ledger, self._recalls, run.state.workflow, run.clock, run.policy)
            self._known, self._memory, trouble = recalled
            if trouble:
                await self._tell_trouble(trouble)
        return self._known

    async def _tell_trouble(self, trouble: str) -> None:
        """What was stored is damaged. All of it is in the ledger, but a disk that forgets asks for care. The
        transaction looks at the mode: one that stops the workflow must not be lifted by this."""
        words = f"what was learned is damaged on this machine, and was read anew: {trouble}"

        def judge(state: WorkflowState, _begins: bool, now: Instant) -> Ruled:
            if standing(state.health, now).mode is not Mode.RUNNING:
                return Ruled()
            told = ev.WorkflowModeChanged(mode=Mode.DEGRADED, previous=state.health.mode, reason=words[:500])
            return Ruled((self._run.draft(told),))

        judging = Judging(self._run.state.workflow, judge)
        await self._run.ledger.append(Append(at=self._run.clock.now(), streams=(), judging=judging))

    def _which(self, step: Step, seen: Seen) -> WhichScreen | None:
        """The step's own screen, if it is that; otherwise the nearest one. Many steps share a page."""
        own = self._own_screen(step, seen)
        if seen.screen is None or (own is not None and not own.low_confidence):
            return own
        return self._recalls.which(self._memory.screens, seen.screen)

    def _own_screen(self, step: Step, seen: Seen) -> WhichScreen | None:
        own = self._memory.screens.get(step.id)
        if own is None or seen.screen is None:
            return None
        return self._recalls.which({step.id: own}, seen.screen)

    # Afterwards

    def explained(self, step: Step, outcome: Outcome) -> Outcome:
        """A failure to find the target, with what the screen says about it."""
        if outcome.seen is None:
            return outcome
        kind, detail = by_its_screen(outcome.kind, outcome.detail, step.id, self._which(step, outcome.seen))
        return msgspec.structs.replace(outcome, kind=kind, detail=detail)

    def facts(
        self, step: Step, record: StepRecord, seen: Seen | None, evidence: tuple[str, ...], *, proven: bool
    ) -> KindFacts:
        """About the target of an attempt that passed."""
        if seen is None or seen.resolution is None or seen.resolution.chosen is None:
            return NO_FACTS
        about = self._about(step, record)
        adapted = _adapted(about, step, seen, proven)
        counted = [one for one in adapted if is_heal(one)]
        if seen.resolution.healed:
            healed = _healed(about, step, self._compared(step, seen), evidence, proven)
            screen = self._screen(step, seen, about) if proven else []
            kept = [_in_short(healed), *counted, *self._lesson(step, healed), *screen]
            return self._facts([healed, *adapted], kept)
        return self._facts(adapted, [*counted, *(self._as_written(about, step, seen) if proven else ())])

    def _facts(self, facts: Sequence[ev.Payload], kept: Sequence[ev.Payload]) -> KindFacts:
        """`kept`: for the stream of the workflow's targets. How the workflow fares is counted from where a version of
        what it has learned begins, so its own stream is told of those, too."""
        workflow = self._run.state.workflow
        versions = tuple([one for one in kept if isinstance(one, ev.MemorySnapshot)])
        beside = (
            Beside(workflow_stream(workflow), versions),
            Beside(targets_stream(workflow), tuple(kept)),
        )
        return KindFacts(tuple(facts), tuple([one for one in beside if one.payloads]))

    def _as_written(self, about: dict[str, Any], step: Step, seen: Seen) -> list[ev.Payload]:
        """What is kept of a target that was found as it was written, as far as it is news."""
        target, kept = _written(step), list[ev.Payload]()
        if self._known is None or seen.observed is None or not self._learns():
            return kept
        if self._known.observed(step.id, target) != self._as_recorded(seen.observed):
            kept.append(
                ev.TargetObserved(**about, target_digest=target_digest(target), element=seen.observed)
            )
        if seen.took_ms is not None and self._known.waits.is_worth_telling(_key(step), seen.took_ms):
            kept.append(ev.TargetTimed(**about, target_digest=target_digest(target), took_ms=seen.took_ms))
        return [*kept, *self._screen(step, seen, about)]

    def _as_recorded(self, element: Element) -> Element:
        """Elements that earlier runs observed are known by their records alone, which are redacted."""
        return msgspec.json.decode(self._run.redactor.seal(element).data, type=Element)

    def _screen(self, step: Step, seen: Seen, about: dict[str, Any]) -> list[ev.Payload]:
        """What the page looked like, if that is new."""
        may = self._learns() and self._wants_lessons(step)
        if seen.screen is None or not may:
            return []
        if not screen_is_new(self._own_screen(step, seen)):
            return []
        return [ev.ScreenLearned(**about, screen=seen.screen)]

    def _wants_lessons(self, step: Step) -> bool:
        said = [learn for learn in (step.heal.learn, self._run.plan.heal.learn) if learn is not None]
        return said[0] if said else True

    def _learns(self) -> bool:
        return caution(self._mode(), self._run.policy).learning

    def _mode(self) -> Mode:
        return standing(self._health, self._run.clock.now()).mode

    def _lesson(self, step: Step, healed: ev.TargetHealed) -> list[ev.Payload]:
        """What the heal teaches, if it may, and if it is not known."""
        if self._memory.knows(_key(step), healed.identity):
            return []
        policy = self._run.policy
        if not may_learn(healed, self._mode(), policy, wanted=self._wants_lessons(step)):
            return []
        if self._memory.snapshot_due(policy.snapshot_changes):
            return [snapshot_before(self._memory, self._health, policy), learned(healed)]
        return [learned(healed)]

    async def take_back(self) -> None:
        """What was learned and made things worse, if that is so and nobody has done it yet. It is no run's own affair:
        the run that found it out may be over."""
        for _ in range(CONFLICTS_MAX):
            workflow = await self._run.ledger.workflow_state(self._run.state.workflow)
            if workflow.health.lesson is None or not workflow.health.lesson.due:
                return
            await self._known_targets()
            # Something may be told of the workflow meanwhile, perhaps just this: look again.
            with contextlib.suppress(Conflict):
                await self._take_back(workflow)

    async def _take_back(self, workflow: WorkflowState) -> None:
        back, mode = rollback(self._memory, workflow.health, self._run.policy)
        told, name = self._run.draft(back), self._run.state.workflow
        streams = (
            StreamAppend(targets_stream(name), (told,)),
            StreamAppend(workflow_stream(name), (told, self._run.draft(mode)), workflow.seq),
        )
        await self._run.ledger.append(Append(at=self._run.clock.now(), streams=streams))
        self._remember(back)

    def rejected(
        self, step: Step, record: StepRecord, seen: Seen | None, evidence: tuple[str, ...]
    ) -> KindFacts:
        """About the target of an attempt that failed: none was taken for it, or one that proved nothing. What was
        remembered and did not help counts against it."""
        resolution = seen.resolution if seen else None
        if seen is None or resolution is None:
            return NO_FACTS
        compared = self._compared(step, seen)
        if resolution.chosen is not None:
            about = self._about(step, record)
            adapted = _adapted(about, step, seen, proven=False)
            counted = [one for one in adapted if is_heal(one)]
            if not resolution.healed:
                return self._facts(adapted, counted)
            healed = _healed(about, step, compared, evidence, proven=False)
            counts = resolution.strategy in (FROM_MEMORY, FROM_LESSON)
            told = [_in_short(healed)] if counts else []
            return self._facts([healed, *adapted], [*told, *counted])
        return self._facts([self._nothing_taken(step, record, compared, resolution, evidence)], [])

    def _nothing_taken(
        self, step: Step, record: StepRecord, seen: Seen, resolution: Resolution, evidence: tuple[str, ...]
    ) -> ev.TargetRejected:
        best, next_best = resolution.best, resolution.runner_up
        return ev.TargetRejected(
            **self._about(step, record),
            reason=resolution.reason,
            target=target_words(_written(step)),
            confidence=best.confidence if best else None,
            margin=resolution.margin if best else None,
            before=seen.before,
            best=best.element if best else None,
            runner_up=next_best.element if next_best else None,
            evidence=evidence,
        )

    def _compared(self, step: Step, seen: Seen) -> Seen:
        """With what the target was compared with."""
        target = _written(step)
        known = self._known.observed(step.id, target) if self._known else None
        return msgspec.structs.replace(seen, before=target.recorded or known)

    def remember(self, facts: KindFacts) -> None:
        """After they were recorded."""
        for part in facts.beside:
            if part.stream == targets_stream(self._run.state.workflow):
                for payload in part.payloads:
                    self._remember(payload)

    def _remember(self, payload: ev.Payload) -> None:
        if self._known is not None:
            self._known.add(payload, self._run.clock.now())
            self._memory.add(payload)

    def _about(self, step: Step, record: StepRecord) -> dict[str, Any]:
        attempt = record.open.attempt if record.open else record.spent.attempts
        return {
            "step_id": step.id,
            "step_index": record.index,
            "attempt": attempt,
            "run_id": self._run.run_id,
        }


def _key(step: Step) -> tuple[str, str]:
    return step.id, target_digest(_written(step))


def _written(step: Step) -> Target:
    assert isinstance(step.action, BrowserAction) and step.action.target is not None
    return step.action.target


def _healed(
    about: dict[str, Any], step: Step, seen: Seen, evidence: tuple[str, ...], proven: bool
) -> ev.TargetHealed:
    resolution = seen.resolution
    assert resolution is not None and resolution.chosen is not None
    next_best = resolution.runner_up
    return ev.TargetHealed(
        **about,
        reason=f"found by {resolution.strategy}, not as it was written",
        target=target_words(_written(step)),
        verified=proven,
        confidence=resolution.chosen.confidence,
        margin=resolution.margin,
        found_by=resolution.strategy,
        before=seen.before,
        after=resolution.chosen.element,
        runner_up=next_best.element if next_best else None,
        runner_up_confidence=next_best.confidence if next_best else None,
        candidates=resolution.candidates,
        evidence=evidence,
        target_digest=target_digest(_written(step)),
        identity=identity(resolution.chosen.element),
        led_by=resolution.led_by,
    )


def _adapted(about: dict[str, Any], step: Step, seen: Seen, proven: bool) -> list[ev.Payload]:
    """What else was needed for a target that was there."""
    words, told = target_words(_written(step)), list[ev.Payload]()
    if seen.waited:
        reason = "it came late"
        told.append(
            ev.TargetAdapted(
                **about, reason=reason, target=words, strategy=TIMING, verified=proven, took_ms=seen.took_ms
            )
        )
    if seen.rewritten is not None:
        kind, before, after = seen.rewritten.kind, seen.rewritten.before, seen.rewritten.after
        told.append(
            ev.TargetAdapted(
                **about,
                reason="the field did not take the value as it was written",
                target=words,
                strategy=FORMAT,
                verified=proven,
                value_kind=kind,
                before=before,
                after=after,
            )
        )
    return told


def _in_short(healed: ev.TargetHealed) -> ev.TargetHealed:
    """For those who count."""
    return msgspec.structs.replace(healed, before=None, after=None, runner_up=None, candidates=())
