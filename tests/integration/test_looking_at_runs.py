"""`recoup runs`, `show`, `events --follow`: who drives a run and what it said last, on a real ledger."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from recoup.app import App, open_app
from recoup.cli.control import control
from recoup.cli.look import _status_words, follow_run
from recoup.documents.plan_file import parse_plan
from recoup.engine.world import Watcher
from recoup.errors import NotFound, UsageError
from recoup.kernel.wording import clean, one_line, plain_log
from recoup.model.events import Event
from recoup.operations import control as operations
from recoup.operations import events
from recoup.operations.recording import record
from recoup.settings import read_settings

PLAN = "{version: 1, name: tiny, steps: [{id: ask, approve: {message: 'Go on?'}}]}"
GIVES_OUT = (
    "{{version: 1, name: gives, steps: [{{id: give, run: 'echo pass={}', outputs: "
    "{{pass: {{regex: 'pass=(.*)', secret: true}}}}}}, {{id: ask, approve: {{message: 'Go on?'}}}}]}}"
)
LONG_S = 3_600.0


@asynccontextmanager
async def opened(tmp_path: Path) -> AsyncIterator[App]:
    settings = read_settings({"RECOUP_HOME": str(tmp_path / "home")}, tmp_path)
    async with open_app(settings, {}) as app:
        yield app


@asynccontextmanager
async def waiting_run(tmp_path: Path, plan: str = PLAN) -> AsyncIterator[tuple[App, str]]:
    async with opened(tmp_path) as app:
        run_id = await record(app, parse_plan(plan, "plan", tmp_path), {}, None)
        await app.driving.drive(run_id, Watcher())
        yield app, run_id


async def test_whoever_follows_a_run_is_told_what_came_with_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with waiting_run(tmp_path) as (app, run_id):
        held = await app.ledger.claim(run_id, app.world.census.own_identity(), LONG_S, app.world.clock.now())
        assert held is not None
        read, told, looks = events.run_event_pages, list[Event](), count(1)

        async def ends_behind_the_first_look(*run: Any, **place: Any) -> AsyncIterator[Sequence[Event]]:
            async for page in read(*run, **place):
                yield page
            if next(looks) == 1:
                await app.ledger.release(held)
                wish = operations.ControlRequest(run_id=run_id, action="cancel", reason="enough", actor="ada")
                assert await operations.answered(app, await operations.send(app, wish), 60) is not None

        monkeypatch.setattr(events, "run_event_pages", ends_behind_the_first_look)
        assert await follow_run(app, run_id, 1, told.append)
        assert told[-1].type == "task.run.cancelled"
        assert [event.seq for event in told] == list(range(2, told[-1].seq + 1))


@pytest.mark.parametrize(("ttl_s", "words"), [(LONG_S, "running"), (0.0, "stopped")])
async def test_a_run_is_driven_elsewhere_only_as_long_as_its_lease_lasts(
    tmp_path: Path, ttl_s: float, words: str
) -> None:
    async with waiting_run(tmp_path) as (app, run_id):
        elsewhere = msgspec.structs.replace(app.world.census.own_identity(), host="elsewhere", boot_id="b")
        assert await app.ledger.claim(run_id, elsewhere, ttl_s, app.world.clock.now()) is not None
        (row,) = (await app.ledger.runs(limit=1)).rows
        assert await _status_words(app, msgspec.structs.replace(row, status="running")) == words


async def test_what_was_said_to_a_control_is_looked_for_backwards_and_only_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with waiting_run(tmp_path) as (app, run_id):
        wish = operations.ControlRequest(run_id=run_id, action="retry_step", reason="x", actor="ada")
        first, second = [
            await operations.answered(app, await operations.send(app, wish), 60) for _ in range(2)
        ]
        assert first is not None and second is not None
        monkeypatch.setattr(operations, "_PAGE_EVENTS", 1)
        for control in (first, second):
            assert "ask is a gate" in await operations.detail_of(app, control)
        monkeypatch.setattr(operations, "_EVENTS_BACK_MAX", 1)
        assert [bool(await operations.detail_of(app, one)) for one in (first, second)] == [False, True]


async def test_a_control_is_sent_without_reading_the_whole_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with waiting_run(tmp_path) as (app, run_id):
        read, asked = app.ledger.read, list[tuple[int, int]]()

        async def noted(stream: str, after: int = 0, limit: int = 1_000) -> list[Event]:
            asked.append((after, limit))
            return await read(stream, after, limit)

        monkeypatch.setattr(app.ledger, "read", noted)
        await operations.must_have_step(app, run_id, "ask")
        await operations.send(
            app,
            operations.ControlRequest(
                run_id=run_id, action="retry_step", reason="x", actor="ada", step_id="ask"
            ),
        )
        assert asked == [(0, 1), (0, 1)]
        with pytest.raises(NotFound, match="has no step 'other'"):
            await operations.must_have_step(app, run_id, "other")
        with pytest.raises(NotFound, match="there is no run 'run-0'"):
            await operations.must_have_step(app, "run-0", "ask")


async def test_what_a_step_gave_out_as_a_secret_is_hidden_in_what_is_said_of_its_run(tmp_path: Path) -> None:
    """Whoever says it knows nothing of it but the ledger and the run's files."""
    made = "correct-" + "horse-battery"
    async with waiting_run(tmp_path, GIVES_OUT.format(made)) as (_, run_id):
        pass
    async with opened(tmp_path) as app:
        wish = operations.ControlRequest(run_id=run_id, action="pause", reason=f"{made} leaked", actor="ada")
        assert made not in (await operations.send(app, wish)).reason


@pytest.mark.parametrize("hostile", ["\x1b]0;owned\x07", "\x1b]0;owned\x1b\\", "\x9d0;owned\x9c", "\x9b2J"])
def test_what_a_step_prints_cannot_speak_to_the_terminal(hostile: str) -> None:
    for printed in (clean(f"a{hostile}b"), plain_log(f"a{hostile}b"), one_line(f"a{hostile}b")):
        assert not set(printed) & {"\x1b", "\x07", "\x9b", "\x9c", "\x9d"}


def test_an_answer_that_nobody_asked_for_is_refused() -> None:
    done = CliRunner().invoke(control, ["last", "pause", "--as", "done", "--reason", "x"])
    assert isinstance(done.exception, UsageError) and "--as is for settle only" in done.exception.message
