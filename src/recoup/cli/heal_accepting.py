"""What accepting heals would change or has changed, in words and as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from recoup.errors import UsageError
from recoup.kernel.reviewing import HealState, Word, heal_document
from recoup.operations.heal_acceptance import Acceptance
from recoup.operations.heals import Heal
from recoup.terminal.moments import minute
from recoup.terminal.writer import hand_over, note, print_json, say


def show_diffs(acceptance: Acceptance) -> None:
    for diff in acceptance.diffs().values():
        hand_over(diff)


def question(acceptance: Acceptance) -> str:
    plans = ", ".join(acceptance.diffs()) or "no plan: they say it already"
    return f"Accept {', '.join(heal.name for heal in acceptance.heals)} and change {plans}?"


def report(
    acceptance: Acceptance, by: str, patch: Path | None, as_json: bool, *, dry_run: bool = False
) -> None:
    if as_json:
        print_json(_document(acceptance, by, patch, dry_run))
        return
    diffs = acceptance.diffs()
    for heal in acceptance.heals:
        before = acceptance.words.get(heal.name)
        became = "would be accepted" if dry_run else "is accepted"
        say(f"{heal.name} " + (f"was accepted {_who(before)} already" if before else became))
    for path in diffs:
        became = "would be changed" if dry_run else "changed"
        say(f"{path}: {became}" if patch is None else f"{path}: to be changed by {patch}")
    if acceptance.heals and not diffs:
        say("nothing is changed: the plan says it already")
    for heal, why in acceptance.left:
        say(f"left alone: {heal.name}: {why}")
    if not acceptance.heals and not acceptance.left:
        note("no heal is there to be accepted")


def refused(heal: Heal, word: Word) -> UsageError:
    return UsageError(
        f"{heal.name} was rejected {_who(word)}: {word.reason}",
        hint="Nothing was changed. If it is right after all, change the target in the plan by hand.",
    )


def write_patch(path: Path, text: str) -> None:
    """To the byte: what ends lines in the plan ends them in the patch."""
    try:
        with path.open("xb") as file:
            file.write(text.encode())
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}", hint="Choose another place for --patch."
        ) from None


def _document(acceptance: Acceptance, by: str, patch: Path | None, dry_run: bool) -> dict[str, Any]:
    changed = patch is None and not dry_run
    diffs = acceptance.diffs()
    return {
        "dryRun": dry_run,
        "accepted": [] if dry_run else [_accepted(acceptance, heal, by) for heal in acceptance.heals],
        "acceptable": [heal.name for heal in acceptance.heals],
        "leftAlone": [{"heal": heal.name, "why": why} for heal, why in acceptance.left],
        "plans": [{"plan": path, "diff": diff, "changed": changed} for path, diff in diffs.items()],
        "patch": None if patch is None else str(patch),
    }


def _accepted(acceptance: Acceptance, heal: Heal, by: str) -> dict[str, Any]:
    before = acceptance.words.get(heal.name)
    said = {"state": HealState.ACCEPTED.value, "by": before.by if before else by}
    document: dict[str, Any] = msgspec.to_builtins(heal_document(heal.workflow, heal.reviewed))
    return document | said | {"already": before is not None}


def _who(word: Word) -> str:
    return f"by {word.by or 'someone'} on {minute(word.at.iso())}"
