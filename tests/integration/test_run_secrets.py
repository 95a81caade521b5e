"""Secrets of runs in a process that stays: hidden in every record of their run, and forgotten with it."""

from __future__ import annotations

import asyncio
import gc
import os
import secrets
from pathlib import Path
from typing import Any

import pytest

from recoup.app import App, open_app
from recoup.documents.plan_file import plan_from_data
from recoup.engine.world import Watcher
from recoup.errors import RecoupError
from recoup.model.plan import Plan
from recoup.model.run import RunState, RunStatus
from recoup.operations.control import ControlRequest, send
from recoup.operations.recording import record
from recoup.redaction.forms import VALUE_CHARACTERS_MAX
from recoup.settings import read_settings


def opened(home: Path, **more: str) -> Any:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    environ = {**kept, "RECOUP_HOME": str(home), **more}
    return open_app(read_settings(environ, home.parent), environ)


def plan_of(folder: Path, *steps: dict[str, Any], **more: Any) -> Plan:
    folder.mkdir(exist_ok=True)
    return plan_from_data({"version": 1, "name": "hides", **more, "steps": list(steps)}, "plan", folder)


def fetched() -> dict[str, Any]:
    """A step with a secret output, which it also prints."""
    return {
        "id": "login",
        "run": 'echo "got it: $(cat value)"; echo "token=$(cat value)" >> "$RECOUP_OUTPUT"',
        "outputs": {"token": {"secret": True}},
    }


def with_value(folder: Path, value: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "value").write_text(value)
    return folder


async def carried_out(app: App, plan: Plan, **inputs: str) -> RunState:
    run_id = await record(app, plan, inputs, None)
    return await app.driving.drive(run_id, Watcher())


def kept(home: Path) -> dict[Path, bytes]:
    return {
        path: path.read_bytes()
        for path in home.rglob("*")
        if path.is_file() and not {"private", "workspaces"} & set(path.relative_to(home).parts)
    }


async def test_a_process_that_has_driven_many_runs_hides_the_next_and_remembers_none(tmp_path: Path) -> None:
    values = [secrets.token_hex(16) for _ in range(8)]
    async with opened(tmp_path / "home") as app:
        for value in values:
            plan = plan_of(with_value(tmp_path / "work", value), fetched())
            state = await carried_out(app, plan)
            assert state.status is RunStatus.SUCCEEDED
        await asyncio.sleep(0)  # what the last driver has left to do
        gc.collect()
        assert len(app.hiding.redactors) == 0
        assert app.redactor.found_in(" ".join(values).encode()) == ()
    files = kept(tmp_path / "home")
    assert not [path for path, data in files.items() for value in values if value.encode() in data]
    assert any(b"got it: [redacted]" in data for data in files.values())


async def test_runs_at_the_same_time_do_not_know_each_others_secrets_and_neither_leaks(
    tmp_path: Path,
) -> None:
    one, other = secrets.token_hex(16), secrets.token_hex(16)
    met = "until [ -e ../{} ]; do sleep 0.02; done"
    async with opened(tmp_path / "home") as app:
        plans = []
        for name, there, value in (("a", "b", one), ("b", "a", other)):
            folder = with_value(tmp_path / name, value)
            wait = {"id": "meet", "run": f"touch ../met-{name}; {met.format(f'met-{there}')}; cat value"}
            plans.append(plan_of(folder, fetched(), wait))
        states = await asyncio.gather(*(carried_out(app, plan) for plan in plans))
    assert [state.status for state in states] == [RunStatus.SUCCEEDED] * 2
    files = kept(tmp_path / "home")
    assert not [path for path, data in files.items() if one.encode() in data or other.encode() in data]


@pytest.mark.parametrize("ends", ["well", "badly"])
async def test_a_secret_output_that_cannot_be_hidden_fails_the_attempt_and_is_not_kept(
    tmp_path: Path, ends: str
) -> None:
    value = secrets.token_hex(VALUE_CHARACTERS_MAX // 2 + 8)
    folder = with_value(tmp_path / "work", value)
    step: dict[str, Any] = {
        "id": "login",
        "run": 'cat value; printf %s "{\\"token\\": \\"$(cat value)\\"}" > out.json',
        "outputs": {"token": {"json": "out.json", "path": "token", "secret": True}},
    }
    if ends == "badly":
        step["run"] += "; cat value >&2; exit 3"
    async with opened(tmp_path / "home") as app:
        state = await carried_out(app, plan_of(folder, {**step, "max_attempts": 1}))
    assert state.status is RunStatus.FAILED
    assert "the secret output token cannot be kept out of the records" in (
        state.steps[0].failure.summary or ""
    )
    pieces = [value[at : at + 40].encode() for at in range(0, len(value), 4_000)]
    files = kept(tmp_path / "home")
    assert not [path for path, data in files.items() for piece in pieces if piece in data]


async def test_words_of_people_are_redacted_by_what_the_run_hides_after_its_driver_is_gone(
    tmp_path: Path,
) -> None:
    value = secrets.token_hex(16)
    plan = plan_of(with_value(tmp_path / "work", value), fetched(), {"id": "ask", "approve": "May it go on?"})
    async with opened(tmp_path / "home") as app:
        state = await carried_out(app, plan)
        assert state.status is RunStatus.WAITING
        gc.collect()
        sent = await send(
            app,
            ControlRequest(
                run_id=state.run_id, action="cancel", reason=f"the token was {value}", actor="ada"
            ),
        )
        assert sent.reason == "the token was [redacted]"


async def test_a_refused_submission_does_not_say_what_its_inputs_hide(tmp_path: Path) -> None:
    value = "pin-" + secrets.token_hex(12)
    step = {"id": "a", "run": f"echo {value}"}
    inputs = {"pin": {"secret": True}, "word": {"default": "x"}}
    plan = plan_of(tmp_path / "work", step, inputs=inputs, workspace={"git": f"./{value}"})
    async with opened(tmp_path / "home") as app:
        with pytest.raises(RecoupError) as refused:
            await record(app, plan, {"pin": value}, None)
    assert value not in f"{refused.value} {refused.value.message} {refused.value.args}"
    assert "[redacted]" in refused.value.message
