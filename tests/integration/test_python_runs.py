"""Runs driven from Python code: results, events, cancellation, and functions of the program itself."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import pytest

import recoup
from recoup.errors import NotFound, UsageError
from recoup.model.events import AttemptLaunched, Event
from recoup.model.run import RunStatus

SECRET = "-".join(["correct", "horse", "battery", "staple"])
STATION = """
import pathlib, recoup, time

@recoup.step
def fetch(customer: str, many: int = 1) -> dict[str, object]:
    return {"customer": customer, "many": many}

@recoup.step
def total(many: int) -> int:
    return many + 1

@recoup.step(max_attempts=1)
def refuse():
    raise recoup.Deterministic("no such customer")

@recoup.step
def typo(row):
    return totl(row)  # type: ignore[name-defined]  # noqa: F821

@recoup.step
def hide(pin):
    shown = [name for name in ("cmdline", "environ") if pin in pathlib.Path("/proc/self", name).read_text()]
    return {"length": len(pin), "shown": shown}

@recoup.step
def hang():
    time.sleep(60)
"""


@pytest.fixture
def station(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    (tmp_path / "station.py").write_text(STATION)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "station", raising=False)
    for name in [name for name in os.environ if name.startswith("RECOUP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("RECOUP_HOME", str(tmp_path / "home"))
    (tmp_path / "policy.yaml").write_text("version: 1\nstop_grace_seconds: 0.2\n")
    monkeypatch.setenv("RECOUP_POLICY", str(tmp_path / "policy.yaml"))
    monkeypatch.chdir(tmp_path)
    return importlib.import_module("station")


async def test_a_run_gives_back_what_its_steps_gave(station: ModuleType) -> None:
    plan = recoup.Plan(
        "sums",
        [
            station.fetch.with_(customer="${{ inputs.customer }}", many="${{ inputs.many }}"),
            station.total.with_(many="${{ steps.fetch.outputs.many }}"),
        ],
        inputs={"customer": {"required": True}, "many": "1"},
    )
    seen: list[Event] = []
    result = await recoup.run(plan, {"customer": "acme", "many": 3}, on_event=seen.append)
    assert (result.status, result.exit_code, result.succeeded) == (RunStatus.SUCCEEDED, 0, True)
    assert result.outputs == {"fetch": {"customer": "acme", "many": 3}, "total": {"result": 4}}
    assert (result.document["runId"], result.document["status"]) == (result.run_id, "succeeded")
    assert [seen[0].type, seen[-1].type] == ["task.run.submitted", "task.run.succeeded"]


def test_a_failure_is_a_result_and_no_exception(station: ModuleType, tmp_path: Path) -> None:
    result = recoup.run_sync(recoup.Plan("refusal", [station.refuse]), home=tmp_path / "other")
    assert (result.status, result.exit_code, result.succeeded) == (RunStatus.FAILED, 1, False)
    assert "no such customer" in result.reason
    assert (tmp_path / "other" / "runs" / result.run_id).is_dir()
    assert not (tmp_path / "home").exists()


async def test_a_plan_file_can_be_run_by_its_path(station: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(
        "version: 1\nname: file\nsteps: [{id: one, python: 'station:total', with: {many: 1}}]\n"
    )
    assert (await recoup.run("plan.yaml")).outputs == {"one": {"result": 2}}
    with pytest.raises(NotFound, match=r"no plan gone\.yaml"):
        await recoup.run("gone.yaml")


def test_a_mistake_in_a_function_is_made_once(station: ModuleType, tmp_path: Path) -> None:
    """The same code with the same arguments raises it again: neither another attempt nor another delivery helps."""
    plan = recoup.Plan("typo", [station.typo.with_(row={"total": 3})])
    seen: list[Event] = []
    result = recoup.run_sync(plan, home=tmp_path / "other", on_event=seen.append)
    assert (result.status, result.document["failureClass"], result.document["retryable"]) == (
        "failed",
        "deterministic_contract",
        False,
    )
    assert [one.type for one in seen].count("task.step.attempt.started") == 1


async def test_wrong_inputs_are_refused_before_anything_is_recorded(station: ModuleType) -> None:
    plan = recoup.Plan("p", [station.refuse], inputs={"customer": {"required": True}})
    with pytest.raises(UsageError, match="customer"):
        await recoup.run(plan)
    with pytest.raises(UsageError, match="is a list"):
        await recoup.run(plan, {"customer": ["a"]})
    with pytest.raises(UsageError, match=r"await recoup\.run"):
        recoup.run_sync(plan)


async def test_a_secret_input_reaches_the_function_and_nothing_else(
    station: ModuleType, tmp_path: Path
) -> None:
    hide = station.hide.with_(pin="${{ inputs.pin }}")
    result = await recoup.run(recoup.Plan("pin", [hide], inputs={"pin": {"secret": True}}), {"pin": SECRET})
    assert result.outputs == {"hide": {"length": len(SECRET), "shown": []}}
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in kept if SECRET.encode() in path.read_bytes()]


async def test_a_cancelled_run_stops_its_step_and_can_be_resumed(station: ModuleType, tmp_path: Path) -> None:
    launched = asyncio.Event()

    def watch(event: Event) -> None:
        if isinstance(event.payload, AttemptLaunched):
            launched.set()

    running = asyncio.create_task(recoup.run(recoup.Plan("long", [station.hang]), on_event=watch))
    await asyncio.wait_for(launched.wait(), 20)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert last_run(tmp_path)["exitCode"] == 130


async def test_what_on_event_raises_stops_the_run_and_is_raised_again(
    station: ModuleType, tmp_path: Path
) -> None:
    def fail(event: Event) -> None:
        if isinstance(event.payload, AttemptLaunched):
            raise ZeroDivisionError("in on_event")

    with pytest.raises(ZeroDivisionError, match="in on_event"):
        await recoup.run(recoup.Plan("long", [station.hang]), on_event=fail)
    assert last_run(tmp_path)["exitCode"] == 130


def last_run(root: Path) -> dict[str, object]:
    command = [
        sys.executable,
        "-m",
        "recoup.cli.main",
        "--home",
        str(root / "home"),
        "show",
        "last",
        "--json",
    ]
    said = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root).stdout
    document: dict[str, object] = json.loads(said)
    return document


PROGRAM = """
import recoup

@recoup.step
def greet(name: str) -> str:
    return f"hello {name}"

def work():
    result = recoup.run_sync(recoup.Plan("greeting", [greet.with_(name="you")]), home="home")
    print(result.reason if not result.succeeded else result.outputs["greet"]["result"])

"""


@pytest.mark.parametrize("how", [["program.py"], ["-m", "program"]])
def test_a_program_can_run_functions_of_its_own(tmp_path: Path, how: list[str]) -> None:
    (tmp_path / "program.py").write_text(PROGRAM + "if __name__ == '__main__':\n    work()\n")
    assert ran(tmp_path, *how) == "hello you\n"


def test_a_program_that_would_run_itself_for_ever_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM + "work()\n")
    said = ran(tmp_path, "program.py")
    assert "starts a run while it is being imported" in said
    assert '__name__ == "__main__"' in said
    assert len(list((tmp_path / "home" / "runs").iterdir())) == 1


def ran(folder: Path, *how: str) -> str:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("RECOUP_")}
    done = subprocess.run(
        [sys.executable, *how],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environ,
        timeout=60,
        check=True,
    )
    return textwrap.dedent(done.stdout)


GUIDE = Path(__file__).parents[2] / "docs" / "howto" / "python-steps.md"


def blocks_of_the_guide() -> list[str]:
    return re.findall(r"```(?:python|yaml)\n(.*?)```", GUIDE.read_text(), re.S)


def test_what_the_guide_shows_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    functions, plan, program = blocks_of_the_guide()
    for name, text in (("invoices.py", functions), ("plan.yaml", plan), ("program.py", program)):
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    result = recoup.run_sync("plan.yaml", {"customer": "acme"}, home=tmp_path / "state")
    assert result.outputs == {"fetch": {"count": 6, "totals": [12.5, 7.0]}, "check": {"result": 19.5}}
    assert ran(tmp_path, "program.py") == "succeeded 20\n"
