"""What `recoup show` and `recoup ledger` print of steps."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import structs
from tests.altered import altered
from tests.unit.test_fold import fail, finish, fresh, start, tell

from recoup.cli.live import _Plain
from recoup.cli.look import print_ledger
from recoup.kernel.prefix import ledger_document
from recoup.model import events as ev
from recoup.model.events import Event
from recoup.model.instant import Instant
from recoup.model.plan import Repeat
from recoup.model.run import RunState
from recoup.model.workspace import Missing
from recoup.reports.timeline import mark_of


def printed(state: RunState, capsys: pytest.CaptureFixture[str]) -> list[str]:
    print_ledger(ledger_document(state))
    return capsys.readouterr().out.splitlines()


def test_steps_that_were_not_run_for_one_reason_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(tell(fresh(35), start(0), finish(0), start(1), fail(1)), capsys)
    assert "  ·  2-34  33 steps, s2 to s34: not_run" in lines
    assert sum("after the frontier" in line for line in lines) == 1
    assert len(lines) == 7


def test_two_steps_that_were_not_run_are_named_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(tell(fresh(4), start(0), finish(0), start(1), fail(1)), capsys)
    assert sum("after the frontier" in line for line in lines) == 2


def test_a_step_is_not_called_failed_when_nobody_knows_whether_it_was_done(
    capsys: pytest.CaptureFixture[str],
) -> None:
    state = fresh()
    pay = structs.replace(state.plan.steps[0], repeat=Repeat.NEVER)
    state = altered(state, plan__steps=(pay, *state.plan.steps[1:]))
    state = tell(state, start(0), structs.replace(fail(0), outcome_known=False))
    document = msgspec.to_builtins(ledger_document(state))
    assert (document["steps"][0]["verdict"], document["steps"][0]["outcomeKnown"]) == ("failed", False)
    lines = printed(state, capsys)
    assert lines[1].split()[:4] == ["?", "0", "s0", "unknown"]
    assert not any("failed" in line for line in lines)
    assert mark_of(state, state.steps[0])[0] == "?"
    known = msgspec.to_builtins(ledger_document(tell(state, start(0, 2), finish(0, 2))))
    assert "outcomeKnown" not in known["steps"][0]


def test_what_checkpoints_lack_is_said_once() -> None:
    def lacks(index: int, *paths: str) -> Event:
        missing = tuple(Missing(path, "too large") for path in paths)
        payload = ev.CheckpointIncomplete(
            step_id=f"s{index}", step_index=index, attempt=1, missing=missing, missing_count=len(paths)
        )
        return Event("run:r", index + 1, Instant(0, 0, ""), payload.TYPE, payload, b"{}")

    lines = _Plain()
    said = [lines.line(event) for event in (lacks(0, "a"), lacks(1, "a"), lacks(2, "a", "b"))]
    assert [line.text if line else None for line in said] == [
        "s0: the checkpoint lacks 1 path, such as a (too large)",
        None,
        "s2: the checkpoint lacks 2 paths, such as a (too large)",
    ]
