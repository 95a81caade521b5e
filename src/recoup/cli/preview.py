"""What would be reused and what would run, said before it happens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from recoup.errors import UsageError
from recoup.kernel.reuse import ASKED, IF_PAGE_HOLDS
from recoup.kernel.wording import one_line
from recoup.terminal.writer import note, print_json, say

if TYPE_CHECKING:
    from recoup.kernel.reuse import Reuse, StepReuse

_NAMES_MAX = 10


def check_allowed(reuse: Reuse) -> None:
    """Before anything is recorded."""
    if reuse.refusal is not None:
        raise UsageError(reuse.refusal, hint=reuse.hint)


def print_preview(reuse: Reuse, *, as_json: bool) -> None:
    """The whole answer, for `--dry-run`."""
    check_allowed(reuse)
    if as_json:
        print_json(reuse.document())
        return
    uncertain = [step for step in reuse.steps if step.reused and step.expected in (IF_PAGE_HOLDS, ASKED)]
    line = f"run {reuse.run_id}: {reuse.count} of {len(reuse.steps)} steps would be reused"
    say(line + (f", {len(uncertain)} of them if the page is unchanged" if uncertain else ""))
    for step in reuse.steps:
        sign, verb = _look(step)
        say(one_line(f"  {sign} {step.step_index:>3}  {step.step_id:<24} {verb:<7} {step.reason}"))
    for sentence in _about_page(reuse):
        say(one_line(sentence))


def _look(step: StepReuse) -> tuple[str, str]:
    """A sign and a verb."""
    if step.expected == ASKED:
        return "?", "asks"
    if not step.reused:
        return "▶", "runs"
    if step.repeated_for is not None:
        return "↻", "repeats"
    return ("?" if step.expected == IF_PAGE_HOLDS else "✓"), "reused"


def _about_page(reuse: Reuse) -> Iterator[str]:
    page = reuse.page
    if page is None:
        return
    yield f"{page.needed_by} needs the page: it is restored and compared with what was proven there (?, ↻)."
    if page.asks_about:
        unless = ", unless the page shows that this was done" if page.unless_shown else ""
        question = f"whether {', '.join(page.asks_about)} may be performed again to restore it{unless}"
        yield f"The run will stop and ask {question}."
    refuted = f"the step that it refutes ({page.since} or a later one)"
    yield f"If it shows something else, {refuted} and all after it are performed."


def say_preview(reuse: Reuse, *, quiet: bool) -> None:
    """One line, before a run begins."""
    check_allowed(reuse)
    if quiet:
        return
    kept = [step for step in reuse.steps if step.reused]
    rest = [step for step in reuse.steps if not step.reused]
    line = f"reuses {len(kept)} of {len(reuse.steps)} steps of run {reuse.run_id}"
    line += f": {_names(kept)}" if kept else ""
    line += (
        " (if the page is unchanged)" if any(step.expected in (IF_PAGE_HOLDS, ASKED) for step in kept) else ""
    )
    line += f"; begins at {rest[0].step_id}: {rest[0].reason}" if rest else "; nothing is left to run"
    line += f"; then {_names(rest[1:])}" if rest[1:] else ""
    note(one_line(line))


def _names(steps: list[StepReuse]) -> str:
    more = len(steps) - _NAMES_MAX
    shown = ", ".join(step.step_id for step in steps[:_NAMES_MAX])
    return f"{shown} and {more} more" if more > 0 else shown
