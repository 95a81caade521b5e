"""What accepting heals makes of their plans."""

from __future__ import annotations

import asyncio
import math
import os
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from recoup.documents.plan_change import PlanText, patch_of, read_plan_text, root_of, with_target
from recoup.documents.recorded_plan import literal
from recoup.errors import RecoupError, StateError, UsageError
from recoup.files.named import read_named
from recoup.kernel.healing import target_digest
from recoup.kernel.memory import tells_enough
from recoup.kernel.references import OPENING
from recoup.kernel.reviewing import SURE_MIN, HealState, Word
from recoup.model.plan import Plan
from recoup.model.policy import Policy
from recoup.model.target import SHORT, Element, Target
from recoup.operations.heals import Heal, Heals, forgotten, heals_of
from recoup.ports import Redactor
from recoup.redaction.masks import holds_mask
from recoup.shapes.aria_roles import ROLES
from recoup.shapes.page_keys import NAMING
from recoup.targets.renaming import renamed

if TYPE_CHECKING:
    from recoup.app import App


def plan_path(heal: Heal, plan: Path | None) -> Path:
    """Raises UsageError."""
    if plan is None and heal.plan_source is None:
        raise UsageError(
            f"where the plan of {heal.workflow!r} is was not recorded", hint="Say where it is: --plan FILE"
        )
    return plan if plan is not None else Path(str(heal.plan_source))


async def acceptance_of(
    app: App,
    found: Sequence[Heal],
    plan: Path | None,
    refused: Callable[[Heal, Word], UsageError],
    *,
    one: bool,
) -> Acceptance:
    """By the policy as it is seen: who looks through heals makes no generation of a policy file."""
    policy = (await app.generations.seen())[0]
    acceptance = Acceptance(heals_of(app), policy, plan, app.redactor, refused, one=one)
    acceptance.prepare(found)
    return acceptance


class Acceptance:
    """Some heals on their way into their plans. `one`: what cannot be accepted is an error, not left alone.
    `refused`: the error for a heal that was rejected before."""

    def __init__(
        self,
        desk: Heals,
        policy: Policy,
        plan: Path | None,
        redactor: Redactor,
        refused: Callable[[Heal, Word], UsageError],
        *,
        one: bool,
    ) -> None:
        self._desk = desk
        self._policy = policy
        self._plan = plan
        self._redactor = redactor
        self._refused = refused
        self._one = one
        self.heals: list[Heal] = []
        self.left: list[tuple[Heal, str]] = []
        self.words: dict[str, Word] = {}
        """What was said before, by the name of the heal."""
        self._before: dict[Path, PlanText] = {}
        self._after: dict[Path, PlanText] = {}

    def prepare(self, found: Sequence[Heal]) -> None:
        for heal in found:
            self._take(heal)

    def diffs(self) -> dict[str, str]:
        """One for each plan that is changed."""
        pairs = [(self._before[path], after) for path, after in self._after.items()]
        made = {str(old.path): patch_of(old, new, root_of(old.path.resolve())) for old, new in pairs}
        return {path: diff for path, diff in made.items() if diff}

    async def carry_out(self, actor: str, write_patch: Callable[[str], None] | None) -> None:
        """First the verdict, then the file: after an interruption between the two the same command completes it.
        `write_patch` takes the change instead of the plans."""
        accepted = [heal for heal in self.heals if await self._accept(heal, actor)]
        if len(accepted) < len(self.heals):
            self.heals, self._after = [], {}
            for heal in accepted:
                self._take(heal)
        if write_patch is not None:
            write_patch("".join(self.diffs().values()))
            return
        for path, after in self._after.items():
            if after.raw != self._before[path].raw:
                replace_plan(self._before[path], after)

    def _take(self, heal: Heal) -> None:
        try:
            self._must_be_acceptable(heal)
            path = plan_path(heal, self._plan)
            if path not in self._before:
                self._before[path] = read_plan_text(path, self._policy)
            if not self._one:
                must_be_unchanged(heal, self._before[path], self._redactor)
            text = self._after.get(path, self._before[path])
            self._after[path] = accepted_text(heal, text, self._policy)
            self.heals.append(heal)
        except RecoupError as error:
            if self._one:
                raise
            self.left.append((heal, error.message))

    async def _accept(self, heal: Heal, actor: str) -> bool:
        word = await self._desk.accept(heal, actor)
        if word is None:
            return True
        if word.state is HealState.ACCEPTED:
            self.words[heal.name] = word
            return True
        if self._one:
            raise self._refused(heal, word)
        self.left.append((heal, self._refused(heal, word).message))
        return False

    def _must_be_acceptable(self, heal: Heal) -> None:
        one = heal.reviewed
        if one.word is not None and one.state is HealState.REJECTED:
            raise self._refused(heal, one.word)
        if not self._one and not one.heal.verified:
            raise UsageError("nothing proved it", hint=f"If it is right: recoup heals accept {heal.name}")
        if not self._one and not one.is_sure:
            permille = math.floor(1000 * one.heal.confidence)  # never up to what it is less than
            raise UsageError(
                f"{permille / 1000:.1%} sure, which is less than {SURE_MIN:.0%}",
                hint=f"If it is right: recoup heals accept {heal.name}",
            )


async def patch_for(app: App, heal: Heal, plan: Path | None = None) -> tuple[str, str]:
    """What accepting it changes in its plan; why there is nothing, in words. `plan`: where that is now."""
    path = plan or (None if heal.plan_source is None else Path(heal.plan_source))
    if path is None:
        return "", "where the plan is was not recorded"
    try:
        policy = (await app.generations.seen())[0]
        before = await asyncio.to_thread(read_plan_text, path, policy)
        after = await asyncio.to_thread(accepted_text, heal, before, policy)
    except RecoupError as error:
        return "", error.message
    patch = patch_of(before, after, root_of(before.path))
    return patch, "" if patch else "the plan says it already"


async def shown_patch(app: App, heal: Heal) -> tuple[str, str]:
    """For those who only look, too: what the run hides is hidden in it."""
    patch, problem = await patch_for(app, heal)
    redact = (await app.redactor_of(heal.fact.run_id)).redact
    return redact(patch).text, redact(problem).text


def accepted_text(heal: Heal, text: PlanText, policy: Policy) -> PlanText:
    """The plan in which the step names the element that was taken; the same plan where it does so already. Raises
    UsageError, in words, where the plan is not the one that was healed."""
    fact, written = heal.fact, _written(heal, text)
    if fact.after is None:
        raise forgotten(heal)
    wanted = accepted_target(heal, written)
    if wanted == written:
        return text
    if target_digest(written) != fact.target_digest:
        raise UsageError(
            f"{text.path}: step {fact.step_id!r} has another target now than the one that was healed ({fact.target})",
            hint="Nothing was changed. Run the plan as it is now; what it heals then can be accepted.",
        )
    return with_target(text, fact.step_id, wanted, policy)


def must_be_unchanged(heal: Heal, text: PlanText, redactor: Redactor) -> None:
    """For acceptance without a review: the plan is the one that was run, except for targets that were accepted since.
    Raises UsageError."""
    if heal.plan is None:
        raise forgotten(heal)
    # The heal knows the recorded plan, which is redacted.
    now = msgspec.json.decode(redactor.seal(text.plan).data, type=Plan)
    if _without_targets(heal.plan) not in (_without_targets(text.plan), _without_targets(now)):
        raise UsageError(
            f"{text.path} was changed since that run",
            hint="Look at it: recoup heals show " + heal.name,
        )


def _without_targets(plan: Plan) -> Any:
    told = msgspec.to_builtins(plan)
    for step in told["steps"]:
        step["action"].pop("target", None)
    return told


def _written(heal: Heal, text: PlanText) -> Target:
    if text.plan.name != heal.workflow:
        raise UsageError(
            f"{text.path} is the plan of {text.plan.name!r}, but {heal.name} is of {heal.workflow!r}",
            hint="Name the plan that was run: --plan FILE",
        )
    written = text.target(heal.fact.step_id)
    if written is None:
        raise UsageError(
            f"{text.path} has no step {heal.fact.step_id!r} with a target any more",
            hint="Name the plan that was run: --plan FILE",
        )
    return written


def accepted_target(heal: Heal, written: Target) -> Target:
    """What is to stand in the plan. Nothing hidden gets there, and nothing that would be read as a reference."""
    fact = heal.fact
    assert fact.after is not None, "what was taken is known"
    naming = [key for key in NAMING if OPENING in str(getattr(written, key, "") or "") and key != "recorded"]
    if naming:
        raise UsageError(
            f"the target of step {fact.step_id!r} is named by what the run was given ({', '.join(naming)})",
            hint="Change it by hand: the name of one element must not stand for those of all runs.",
        )
    after = _unmasked(fact.after)
    others = [_unmasked(fact.runner_up)] if fact.runner_up is not None else []
    wanted = renamed(written, fact.before, after, others, ROLES)
    if wanted.recorded is not None and not tells_enough(wanted.recorded):
        raise UsageError(
            f"nothing names the element of {heal.name} that may stand in a plan",
            hint="Name it by hand, or give it a test id on the page.",
        )
    kept = {key: getattr(written, key) for key in SHORT}
    said = {key: words for key in SHORT if (words := getattr(wanted, key)) is not None}
    return msgspec.structs.replace(
        wanted, **{key: words if words == kept[key] else literal(words) for key, words in said.items()}
    )


def _unmasked(element: Element) -> Element:
    return msgspec.convert(_without_masks(msgspec.to_builtins(element)), Element)


def _without_masks(value: Any) -> Any:
    match value:
        case str():
            return "" if holds_mask(value) else value
        case dict():
            return {key: _without_masks(item) for key, item in value.items() if not _is_masked(item)}
        case list() | tuple():
            return [_without_masks(item) for item in value if not _is_masked(item)]
    return value


def _is_masked(value: Any) -> bool:
    return isinstance(value, str) and holds_mask(value)


def replace_plan(before: PlanText, after: PlanText) -> None:
    """Whole or not at all, and only if nobody has changed it meanwhile."""
    path = before.path.resolve()
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        if read_named(path, len(before.raw) + 1) != before.raw:
            raise UsageError(
                f"{before.path} was changed meanwhile: it was left as it is",
                hint="Say it again, for the file as it is.",
            )
        _write(temporary, after.raw, path.stat().st_mode & 0o777)
        temporary.replace(path)
    except OSError as error:
        raise StateError(
            f"the plan {before.path} cannot be written: {error.strerror}", hint="Give --patch FILE instead."
        ) from None
    finally:
        temporary.unlink(missing_ok=True)


def _write(path: Path, data: bytes, mode: int) -> None:
    with path.open("xb") as file:
        os.fchmod(file.fileno(), mode)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
