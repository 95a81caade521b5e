"""How heals are accepted: what each changes in its plan, shown before anything is said or written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from recoup.documents.plan_change import PlanText, patch_of, read_plan_text, root_of
from recoup.errors import RecoupError, UsageError
from recoup.kernel.reviewing import SURE_MIN, HealState, Word, heal_document
from recoup.model.policy import Policy
from recoup.operations.heal_acceptance import accepted_text, must_be_unchanged, replace_plan
from recoup.operations.heals import Heal, Heals
from recoup.ports import Redactor
from recoup.terminal.moments import minute
from recoup.terminal.writer import hand_over, note, print_json, say


def plan_path(heal: Heal, plan: Path | None) -> Path:
    if plan is None and heal.plan_source is None:
        raise UsageError(
            f"where the plan of {heal.workflow!r} is was not recorded", hint="Say where it is: --plan FILE"
        )
    return plan if plan is not None else Path(str(heal.plan_source))


class Accepting:
    """Some heals on their way into their plans. `one`: what cannot be accepted is an error, not left alone."""

    def __init__(
        self, desk: Heals, policy: Policy, plan: Path | None, redactor: Redactor, *, one: bool
    ) -> None:
        self._desk = desk
        self._redactor = redactor
        self._policy = policy
        self._plan = plan
        self._one = one
        self.heals: list[Heal] = []
        self._left: list[tuple[Heal, str]] = []
        self._words: dict[str, Word] = {}
        """What was said before, by the name of the heal."""
        self._by = ""
        self._before: dict[Path, PlanText] = {}
        self._after: dict[Path, PlanText] = {}

    def prepare(self, found: Sequence[Heal]) -> None:
        for heal in found:
            self._take(heal)

    def _take(self, heal: Heal) -> None:
        try:
            _must_be_acceptable(heal, sure_only=not self._one)
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
            self._left.append((heal, error.message))

    async def carry_out(self, by: str, patch: Path | None) -> None:
        """First the word, then the file: whoever is interrupted between the two says the same again."""
        self._by = by
        accepted = [heal for heal in self.heals if await self._accept(heal, by)]
        if len(accepted) < len(self.heals):
            self.heals, self._after = [], {}
            for heal in accepted:
                self._take(heal)
        if patch is not None:
            _write_patch(patch, "".join(self.diffs().values()))
            return
        for path, after in self._after.items():
            if after.raw != self._before[path].raw:
                replace_plan(self._before[path], after)

    async def _accept(self, heal: Heal, by: str) -> bool:
        word = await self._desk.accept(heal, by)
        if word is None:
            return True
        if word.state is HealState.ACCEPTED:
            self._words[heal.name] = word
            return True
        if self._one:
            raise _refused(heal, word)
        self._left.append((heal, _refused(heal, word).message))
        return False

    # In words

    def diffs(self) -> dict[str, str]:
        """One for each plan that is changed."""
        pairs = [(self._before[path], after) for path, after in self._after.items()]
        made = {str(old.path): patch_of(old, new, root_of(old.path.resolve())) for old, new in pairs}
        return {path: diff for path, diff in made.items() if diff}

    def show(self) -> None:
        for diff in self.diffs().values():
            hand_over(diff)

    def question(self) -> str:
        plans = ", ".join(self.diffs()) or "no plan: they say it already"
        return f"Accept {', '.join(heal.name for heal in self.heals)} and change {plans}?"

    def report(self, patch: Path | None, as_json: bool, *, dry_run: bool = False) -> None:
        if as_json:
            print_json(self._document(patch, dry_run))
            return
        diffs = self.diffs()
        for heal in self.heals:
            before = self._words.get(heal.name)
            became = "would be accepted" if dry_run else "is accepted"
            say(f"{heal.name} " + (f"was accepted {_who(before)} already" if before else became))
        for path in diffs:
            became = "would be changed" if dry_run else "changed"
            say(f"{path}: {became}" if patch is None else f"{path}: to be changed by {patch}")
        if self.heals and not diffs:
            say("nothing is changed: the plan says it already")
        for heal, why in self._left:
            say(f"left alone: {heal.name}: {why}")
        if not self.heals and not self._left:
            note("no heal is there to be accepted")

    def _document(self, patch: Path | None, dry_run: bool) -> dict[str, Any]:
        changed = patch is None and not dry_run
        plans = [{"plan": path, "diff": diff, "changed": changed} for path, diff in self.diffs().items()]
        return {
            "dryRun": dry_run,
            "accepted": [] if dry_run else [self._accepted(heal) for heal in self.heals],
            "acceptable": [heal.name for heal in self.heals],
            "leftAlone": [{"heal": heal.name, "why": why} for heal, why in self._left],
            "plans": plans,
            "patch": None if patch is None else str(patch),
        }

    def _accepted(self, heal: Heal) -> dict[str, Any]:
        before = self._words.get(heal.name)
        said = {"state": HealState.ACCEPTED.value, "by": before.by if before else self._by}
        document: dict[str, Any] = msgspec.to_builtins(heal_document(heal.workflow, heal.reviewed))
        return document | said | {"already": before is not None}


def _must_be_acceptable(heal: Heal, *, sure_only: bool) -> None:
    one = heal.reviewed
    if one.word is not None and one.state is HealState.REJECTED:
        raise _refused(heal, one.word)
    if sure_only and not one.heal.verified:
        raise UsageError("nothing proved it", hint=f"If it is right: recoup heals accept {heal.name}")
    if sure_only and not one.is_sure:
        permille = math.floor(1000 * one.heal.confidence)  # never up to what it is less than
        raise UsageError(
            f"{permille / 1000:.1%} sure, which is less than {SURE_MIN:.0%}",
            hint=f"If it is right: recoup heals accept {heal.name}",
        )


def _refused(heal: Heal, word: Word) -> UsageError:
    return UsageError(
        f"{heal.name} was rejected {_who(word)}: {word.reason}",
        hint="Nothing was changed. If it is right after all, change the target in the plan by hand.",
    )


def _who(word: Word) -> str:
    return f"by {word.by or 'someone'} on {minute(word.at.iso())}"


def _write_patch(path: Path, text: str) -> None:
    """To the byte: what ends lines in the plan ends them in the patch."""
    try:
        with path.open("xb") as file:
            file.write(text.encode())
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}", hint="Choose another place for --patch."
        ) from None
