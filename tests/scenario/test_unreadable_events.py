"""One stored event that cannot be decoded: its own run is marked and left alone, everything else is as before."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.commands import Commands
from tests.integration.gateway_house import gateway
from tests.scenario.conftest import Cli, Result

ALPHA = "version: 1\nname: alpha\nsteps: [{id: one, run: echo hello}, {id: two, run: 'true'}]\n"
BETA = """
version: 1
name: beta
steps:
  - {id: flaky, run: 'test -e seen || { touch seen; echo connection reset by peer >&2; exit 1; }'}
  - {id: bad, run: exit 3}
"""
GAMMA = "version: 1\nname: gamma\nsteps: [{id: one, run: echo hi}, {id: ask, approve: {message: 'Go?'}}]\n"
DAMAGES = (
    "random bytes",
    "truncated",
    "unknown type",
    "type of random bytes",
    "wrong field types",
    "not an object",
    "numbers too large",
    "numbers below nothing",
    "a time out of range",
    "a time that is text",
)
MISSING = "missing"


@dataclass
class Home:
    """A populated home, and what its commands said while it was whole."""

    cli: Cli
    documents: dict[str, Any]
    shown: dict[str, list[str]]

    @property
    def runs(self) -> list[str]:
        return list(self.documents)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, commands: Commands) -> Home:
    folder = tmp_path_factory.mktemp("work")
    cli = Cli(folder / "home", folder, commands)
    cli.obey(backoff_ms=10)
    for name, plan in (("a", ALPHA), ("b", BETA), ("c", GAMMA)):
        cli("run", cli.plan(plan, f"{name}.yaml"))
    cli("submit", cli.plan(ALPHA, "a.yaml"))
    documents = {one["runId"]: one for one in cli("runs", "--json").json}
    assert len(documents) == 4
    return Home(cli, documents, {run: shown_words(cli, run) for run in documents})


def shown_words(cli: Cli, run: str) -> list[str]:
    """Without what the clock and the place of the home change."""
    lines = cli("show", run).out.replace(str(cli.home), "HOME").splitlines()
    return [line for line in lines if not line.startswith("time ")]


@pytest.fixture
def damaged(whole: Home, tmp_path: Path) -> Callable[[int, str, bytes], Cli]:
    """A copy of the home in which one event was damaged."""

    def damage(number: int, how: str, noise: bytes = b"\xff\x00{") -> Cli:
        home = tmp_path / f"home-{number}-{how.replace(' ', '-')}"
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(whole.cli.home, home, symlinks=True)
        spoil(home / "ledger.db", number, how, noise)
        return Cli(home, whole.cli.folder, whole.cli.commands, dict(whole.cli.env))

    return damage


def spoil(path: Path, number: int, how: str, noise: bytes) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        (payload,) = database.execute("SELECT payload FROM events WHERE id = ?", (number,)).fetchone()
        if how == MISSING:
            database.execute("DELETE FROM events WHERE id = ?", (number,))
            return
        changes = {
            "random bytes": ("payload", noise),
            "truncated": ("payload", payload.encode()[: len(payload) // 2]),
            "unknown type": ("type", b"task.run.dreamt"),
            "type of random bytes": ("type", noise),
            "wrong field types": (
                "payload",
                json.dumps({key: [1.5] for key in json.loads(payload)}).encode(),
            ),
            "not an object": ("payload", b"[]"),
            "numbers too large": ("payload", with_numbers(payload, 9999)),
            "numbers below nothing": ("payload", with_numbers(payload, -3)),
            "a time out of range": ("wall_us", 10**18),
            "a time that is text": ("wall_us", b"yesterday"),
        }
        column, value = changes[how]
        stored = "CAST(? AS TEXT)" if isinstance(value, bytes) else "?"
        database.execute(f"UPDATE events SET {column} = {stored} WHERE id = ?", (value, number))


def with_numbers(payload: str, number: int) -> bytes:
    """Every whole number in it is another one: still an event of its type, and one that cannot be."""
    changed = [(key, number if type(value) is int else value) for key, value in json.loads(payload).items()]
    return json.dumps(dict(changed)).encode()


def places(home: Path) -> list[tuple[int, str]]:
    """The number and the stream of each event."""
    with closing(sqlite3.connect(home / "ledger.db")) as database:
        query = (
            "SELECT events.id, name FROM events JOIN streams ON streams.id = place >> 32 ORDER BY events.id"
        )
        return database.execute(query).fetchall()


def must_be_clean(result: Result, about: object) -> None:
    assert "Traceback" not in result.err, (about, result.err)
    assert result.code in (0, 1, 2, 3, 4, 5), (about, result.code, result.err)


COMMANDS = (
    ("runs",), ("queue",), ("workers",), ("escalations", "list"), ("mode",), ("mode", "--json"), ("heals", "list"),
    ("policy", "show"), ("audit", "export"), ("audit", "verify"), ("simulate", "--policy", "policy.json"),
    ("prune", "--older-than", "1d", "--dry-run"), ("memory", "versions", "alpha"),
)  # fmt: skip
OF_A_RUN = (("events",), ("events", "--json"), ("ledger", "--json"), ("logs",), ("report",))


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_every_run_whose_own_events_are_whole_is_shown_as_before(
    whole: Home, damaged: Callable[[int, str, bytes], Cli], data: st.DataObject
) -> None:
    number, stream = data.draw(st.sampled_from(places(whole.cli.home)))
    how = data.draw(st.sampled_from((*DAMAGES, MISSING)))
    cli = damaged(number, how, data.draw(st.binary(min_size=1, max_size=40)))

    listed = cli("runs", "--json")
    assert listed.code == 0, listed.err
    documents = {one["runId"]: one for one in listed.json}
    assert list(documents) == whole.runs
    for run in whole.runs:
        if stream == f"run:{run}":
            continue
        assert documents[run] == whole.documents[run]
        assert shown_words(cli, run) == whole.shown[run]
    other = data.draw(st.sampled_from(COMMANDS))
    must_be_clean(cli(*other), other)
    of_run = data.draw(st.sampled_from(OF_A_RUN))
    for run in (stream.removeprefix("run:"), whole.runs[0]) if stream.startswith("run:") else whole.runs[:1]:
        must_be_clean(cli(of_run[0], run, *of_run[1:]), of_run)


@pytest.mark.parametrize("how", DAMAGES)
def test_the_run_itself_says_which_event_cannot_be_read(
    whole: Home, damaged: Callable[[int, str, bytes], Cli], how: str
) -> None:
    run = whole.runs[-1]
    number = [number for number, stream in places(whole.cli.home) if stream == f"run:{run}"][2]
    cli = damaged(number, how, b"\xff\x00{")

    document = next(one for one in cli("runs", "--json").json if one["runId"] == run)
    assert (document["unreadable"]["seq"], document["status"]) == (3, "succeeded")
    assert document["unreadable"]["reason"]
    assert "event 3" in next(line for line in cli("runs").out.splitlines() if run in line)
    shown = cli("show", run)
    assert (shown.code, "event 3" in shown.out, "Upgrade Recoup" in shown.out) == (0, True, True)
    lines = cli("events", run, "--json").lines
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    if "type" not in how and "number" not in how:  # otherwise its payload can be shown as it is
        assert [line["seq"] for line in lines if "unreadable" in line] == [3]
        assert "cannot be read" in cli("events", run).out
    resumed = cli("resume", run)
    assert (resumed.code, "event 3 of run:" in resumed.err) == (1, True)


@pytest.mark.parametrize(("place", "named"), [(0, 2), (2, 4)])
def test_a_run_with_a_missing_event_is_shown_up_to_it(
    whole: Home, damaged: Callable[[int, str, bytes], Cli], place: int, named: int
) -> None:
    run = whole.runs[-1]
    numbers = [number for number, stream in places(whole.cli.home) if stream == f"run:{run}"]
    cli = damaged(numbers[place], MISSING, b"")

    document = next(one for one in cli("runs", "--json").json if one["runId"] == run)
    assert (document["unreadable"]["seq"], document["status"]) == (named, "succeeded")
    assert f"event {place + 1} is missing" in document["unreadable"]["reason"]
    assert f"event {named}" in next(line for line in cli("runs").out.splitlines() if run in line)
    for command in ("show", "ledger", "logs", "events"):
        shown = cli(command, run)
        assert (shown.code, shown.err) == (0, ""), command
    assert [line["seq"] for line in cli("events", run, "--json").lines] == [
        seq for seq in range(1, len(numbers) + 1) if seq != place + 1
    ]
    report = cli("report", run)
    assert report.code == (1 if place == 0 else 0), report.err
    must_be_clean(report, "report")
    resumed = cli("resume", run)
    assert (resumed.code, f"event {named} of run:" in resumed.err) == (1, True)


def test_a_run_without_any_event_is_still_listed_and_shown(
    whole: Home, damaged: Callable[[int, str, bytes], Cli]
) -> None:
    run = whole.runs[-1]
    numbers = [number for number, stream in places(whole.cli.home) if stream == f"run:{run}"]
    cli = damaged(numbers[0], MISSING, b"")
    for number in numbers[1:]:
        spoil(cli.home / "ledger.db", number, MISSING, b"")

    documents = {one["runId"]: one for one in cli("runs", "--json").json}
    assert list(documents) == whole.runs
    assert documents[run]["unreadable"]["seq"] == 1
    assert "event 1" in next(line for line in cli("runs").out.splitlines() if run in line)
    for command in ("show", "ledger", "logs", "events"):
        assert cli(command, run).code == 0, command
    for command in ("report", "resume"):
        must_be_clean(cli(command, run), command)
    left_out = cli("simulate", "--policy", "policy.json", "--json")
    assert left_out.json["unreadable"] == [run]


@pytest.mark.parametrize("how", [*DAMAGES, MISSING])
@pytest.mark.parametrize("place", [0, -1])
def test_each_command_answers_whatever_the_event_of_a_run(
    whole: Home, damaged: Callable[[int, str, bytes], Cli], place: int, how: str
) -> None:
    run = whole.runs[-1]
    number = [number for number, stream in places(whole.cli.home) if stream == f"run:{run}"][place]
    cli = damaged(number, how, b"\xff\x00{")

    for command in COMMANDS:
        must_be_clean(cli(*command), command)
    for command in OF_A_RUN:
        must_be_clean(cli(command[0], run, *command[1:]), command)


@pytest.mark.parametrize("how", ["random bytes", "unknown type"])
def test_a_worker_leaves_the_run_alone_says_so_once_and_drives_the_others(
    whole: Home, damaged: Callable[[int, str, bytes], Cli], how: str
) -> None:
    waiting = next(run for run, one in whole.documents.items() if one["status"] == "queued")
    number = next(number for number, stream in places(whole.cli.home) if stream == f"run:{waiting}")
    cli = damaged(number, how, b"{")
    other = cli("submit", cli.plan(GAMMA.replace("gamma", "delta"), "d.yaml")).out.strip()

    done = cli("worker", "--until-idle", "--json", timeout=120)

    assert done.code == 0, done.err
    told = [line for line in done.lines if line.get("runId") == waiting and line["event"] == "left"]
    assert len(told) == 1
    assert "left alone: event 1 of run:" in told[0]["words"]
    statuses = {one["runId"]: one["status"] for one in cli("runs", "--json").json}
    assert (statuses[other], statuses[waiting]) == ("waiting", "queued")


def test_an_event_of_a_workflow_that_cannot_be_read_stops_that_workflow_alone(
    whole: Home, damaged: Callable[[int, str, bytes], Cli]
) -> None:
    number = next(number for number, stream in places(whole.cli.home) if stream == "workflow:alpha")
    cli = damaged(number, "truncated", b"")

    modes = {one["workflow"]: one for one in cli("mode", "--json").json}
    assert (modes["alpha"]["mode"], modes["beta"]["mode"]) == ("unreadable", "running")
    assert modes["alpha"]["unreadable"]["seq"] >= 1
    for refused in (cli("run", cli.plan(ALPHA, "a.yaml")), cli("resume", "last")):
        assert refused.code == 1
        assert "Traceback" not in refused.err
        assert "event 1 of workflow:alpha" in refused.err
        assert "Upgrade Recoup" in refused.err
    refused = cli("run", cli.plan(ALPHA, "a.yaml"), "--json")
    assert (refused.code, refused.document["exitCode"]) == (1, 1)
    assert cli("run", cli.plan(GAMMA, "c.yaml")).code == 5


def test_a_worker_leaves_the_runs_of_a_workflow_that_cannot_be_read_alone(
    whole: Home, damaged: Callable[[int, str, bytes], Cli]
) -> None:
    number = next(number for number, stream in places(whole.cli.home) if stream == "workflow:alpha")
    cli = damaged(number, "truncated", b"")
    other = cli("submit", cli.plan(GAMMA.replace("gamma", "delta"), "d.yaml")).out.strip()
    done = cli("worker", "--until-idle", timeout=120)
    assert done.code == 0, done.err
    assert "left alone: event 1 of workflow:alpha" in done.err
    assert {one["runId"]: one["status"] for one in cli("runs", "--json").json}[other] == "waiting"


def test_an_unreadable_policy_stops_what_would_act_on_it_until_a_newer_one_follows(
    whole: Home, damaged: Callable[[int, str, bytes], Cli]
) -> None:
    number = next(number for number, stream in places(whole.cli.home) if stream == "policy")
    cli = damaged(number, "random bytes", b"\xff")
    file = cli.env.pop("RECOUP_POLICY")

    assert cli("runs", "--json").code == 0
    assert cli("policy", "show").code == 0
    refused = cli("run", cli.plan(GAMMA, "c.yaml"))
    assert (refused.code, "of policy" in refused.err, "Traceback" in refused.err) == (1, True, False)
    cli.env["RECOUP_POLICY"] = file
    assert cli("run", cli.plan(GAMMA, "c.yaml")).code == 5


@pytest.mark.parametrize(
    "how", ["random bytes", "numbers too large", "a time out of range", "a time that is text", MISSING]
)
@pytest.mark.parametrize("stream", ["run:", "workflow:", "policy"])
def test_every_page_and_document_of_the_gateway_can_still_be_read(
    whole: Home, damaged: Callable[[int, str, bytes], Cli], stream: str, how: str
) -> None:
    of_stream = [one for one in places(whole.cli.home) if one[1].startswith(stream)]
    number, name = of_stream[-1] if "time" in how else of_stream[2 if stream == "run:" else 0]
    cli = damaged(number, how, b"\xff\x00{")
    pages = [
        "/",
        "/runs",
        "/workflows",
        "/escalations",
        "/approvals",
        "/audit",
        "/policy",
        "/heals",
        "/fleet",
    ]
    lists = ["/api/runs", "/api/tallies", "/api/queue", "/api/workers", "/api/escalations", "/api/workflows"]
    lists += ["/api/history", "/api/policy", "/api/events", "/metrics"]
    with gateway(cli.home, "--workers", "0") as served, served.client() as client:
        for path in [*pages, *lists]:
            assert client.get(path).status_code == 200, path
        marked = [one["runId"] for one in client.get("/api/runs").json()["items"] if one["unreadable"]]
        assert marked == ([name.removeprefix("run:")] if stream == "run:" else [])
        for run in whole.runs:
            assert client.get(f"/runs/{run}").status_code == 200
            assert client.get(f"/api/runs/{run}/events").status_code == 200
            document = client.get(f"/api/runs/{run}").json()
            assert run in marked or document == whole.documents[run]


@pytest.mark.parametrize(
    ("how", "place"), [("random bytes", 0), ("numbers too large", 2), (MISSING, 0), (MISSING, 2)]
)
def test_the_gateway_shows_a_marked_run_and_refuses_to_act_on_it(
    whole: Home, damaged: Callable[[int, str, bytes], Cli], how: str, place: int
) -> None:
    run = next(run for run, one in whole.documents.items() if one["status"] == "waiting")
    number = [number for number, stream in places(whole.cli.home) if stream == f"run:{run}"][place]
    cli = damaged(number, how, b"\xff")
    seq = place + 2 if how == MISSING else place + 1
    shown = ["", "/steps", "/events", "/attempts", "/controls", "/controls?stepId=one"]
    of_steps = ["/logs/one", "/attempts/one/1"]
    with gateway(cli.home, "--workers", "0") as served, served.client() as client:
        for path in shown:
            assert client.get(f"/api/runs/{run}{path}").status_code == 200, path
        for path in [*of_steps, "/patches/one"]:
            assert client.get(f"/api/runs/{run}{path}").status_code in (200, 404), path
        for view in ("steps", "timeline", "log", "changes", "compare", "events", "plan"):
            assert client.get(f"/runs/{run}?view={view}").status_code == 200, view
        controls = client.get(f"/api/runs/{run}/controls?stepId=one").json()["items"]
        assert {one["action"] for one in controls} >= {"approve", "cancel", "resume_from_step", "new_run"}
        assert not any(one["allowed"] for one in controls)
        assert all(f"event {seq} " in one["why"] for one in controls)

        wish = {"action": "cancel", "reason": "no more"}
        refused = [
            client.post(f"/api/runs/{run}/control", json=wish),
            client.post("/api/runs", json={"reuse": run}),
        ]
        if place == 0:
            refused += [client.get(f"/api/runs/{run}/report"), client.get(f"/runs/{run}/report")]
        else:
            assert client.get(f"/api/runs/{run}/report").status_code == 200
        for answer in refused:
            assert answer.status_code == 409, answer.text
        for answer in refused[:3]:
            problem = answer.json()
            assert problem["type"] == "urn:recoup:problem:unreadable"
            assert problem["unreadable"] == {
                "stream": f"run:{run}",
                "seq": seq,
                "type": problem["unreadable"]["type"],
            }
            assert f"event {seq} of run:{run}" in problem["detail"]
        listed = {"action": "cancel", "reason": "no more", "runIds": [run]}
        (one,) = client.post("/api/runs/bulk", json=listed).json()["items"]
        assert (one["outcome"], f"event {seq} " in one["detail"]) == ("refused", True)
