"""Rows beside the events that cannot be read: caches and coordination. One of them never takes a list down."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.commands import Commands
from tests.integration.gateway_house import gateway
from tests.scenario.conftest import Cli

DONE = "version: 1\nname: done\nsteps: [{id: one, run: echo hello}]\n"
ASKS = "version: 1\nname: asks\nsteps: [{id: one, run: echo hi}, {id: ask, approve: {message: 'Go?'}}]\n"
FAR_US = 9_000_000_000_000_000_000
BYTES = "x'ff'"
TEXT = "CAST(x'ff' AS TEXT)"
"""Stored as a text, and no UTF-8."""

RUNS = [
    f"submitted_at_us = {FAR_US}",
    "submitted_at_us = -1",
    "submitted_at_us = 'abc'",
    "submitted_at_us = x'ff'",
    f"workflow = {BYTES}",
    f"workflow = {TEXT}",
    f"reason = {TEXT}",
    "status = 'bogus'",
    "failure_class = 'bogus'",
    "delivery = 'x', step_count = -5",
    f"ended_at_us = -{FAR_US}, due_us = {FAR_US}, needs = x'ff', worker = x'ff'",
]
LEASES = [
    "owner = '{'",
    "owner = x'ff'",
    f"wall_us = {FAR_US}",
    "boot_id = x'ff'",
    "ttl_s = 'abc'",
    "ttl_s = 1e300",
    "epoch = 'x'",
]
LEASE = "INSERT OR REPLACE INTO leases (run_id, epoch, owner, wall_us, boot_us, boot_id, ttl_s) VALUES (?, 7, ?, 1, 1, 'b', 30.0)"
OWNER = '{"host": "elsewhere", "bootId": "b", "pid": 1, "startTicks": 1}'
WORKERS = ["'{', 1800000000000000, 1, 'b'", "x'ff', 1800000000000000, 1, 'b'", f"'{{}}', {FAR_US}, -1, ''"]
ESCALATIONS = [
    f"'run:zz', 'r', {BYTES}, 'bogus', 1",
    f"'zz', {BYTES}, '{{}}', 'open', {FAR_US}",
    "'reported:p', 'r', '[]', 'open', 'abc'",
    "'reported:p', 'r', 'null', 'open', 1",
]
ATTEMPTS = [
    f"started_at_us = {FAR_US}, ended_at_us = -{FAR_US}",
    f"state = 'zz', verdict = {BYTES}, phase = {TEXT}, strategy = 7",
]
LISTS = [["runs"], ["runs", "--json"], ["queue"], ["workers"], ["workers", "--json"], ["escalations", "list"]]
PATHS = ["/", "/runs", "/fleet", "/escalations", "/approvals", "/metrics", "/api/runs", "/api/tallies"]
PATHS += [
    "/api/history",
    "/api/queue",
    "/api/workers",
    "/api/escalations",
    "/api/workflows",
    "/api/runs/count",
]


class Home(NamedTuple):
    cli: Cli
    runs: list[str]
    """The newest first: one that waits for an answer, and one that is done."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, commands: Commands) -> Home:
    folder = tmp_path_factory.mktemp("work")
    cli = Cli(folder / "home", folder, commands)
    cli("run", cli.plan(DONE, "done.yaml"))
    cli("run", cli.plan(ASKS, "asks.yaml"))
    return Home(cli, [one["runId"] for one in cli("runs", "--json").json])


@pytest.fixture
def damaged(whole: Home, tmp_path: Path) -> Callable[..., Cli]:
    """A copy of the home in which these statements changed rows."""

    def damage(*statements: tuple[str, tuple[object, ...]]) -> Cli:
        home = tmp_path / "home"
        shutil.copytree(whole.cli.home, home, symlinks=True)
        with closing(sqlite3.connect(home / "ledger.db")) as database, database:
            for sql, values in statements:
                assert database.execute(sql, values).rowcount >= 1, sql
        return Cli(home, whole.cli.folder, whole.cli.commands, dict(whole.cli.env))

    return damage


def must_be_listed(cli: Cli, runs: list[str]) -> None:
    for command in LISTS:
        result = cli(*command)
        assert (result.code, "Traceback" in result.err) == (0, False), (command, result.err)
    assert sorted(one["runId"] for one in cli("runs", "--json").json) == sorted(runs)
    lines = cli("runs").out.splitlines()
    assert all(any(run in line for line in lines) for run in runs)


@pytest.mark.parametrize("change", RUNS)
def test_a_damaged_row_of_a_run_is_listed_and_so_are_all_others(
    whole: Home, damaged: Callable[..., Cli], change: str
) -> None:
    run = whole.runs[0]
    cli = damaged((f"UPDATE runs SET {change} WHERE run_id = ?", (run,)))
    must_be_listed(cli, whole.runs)
    for command in (["show"], ["ledger"], ["report"], ["logs"]):
        result = cli(*command, run)
        assert (result.code, result.err) == (0, ""), command


@pytest.mark.parametrize("change", [RUNS[0], ", ".join([*RUNS[2:5:2], *RUNS[7:]])])
def test_every_page_lists_a_run_whose_row_is_damaged(
    whole: Home, damaged: Callable[..., Cli], change: str
) -> None:
    run = whole.runs[0]
    cli = damaged((f"UPDATE runs SET {change} WHERE run_id = ?", (run,)))
    with gateway(cli.home, "--workers", "0") as served, served.client() as client:
        for path in [*PATHS, f"/runs/{run}", f"/api/runs/{run}"]:
            assert client.get(path).status_code == 200, path
        page = client.get("/api/runs?limit=1").json()
        others = client.get("/api/runs", params={"cursor": page["nextCursor"]}).json()
        listed = [one["runId"] for one in page["items"] + others["items"]]
        assert sorted(listed) == sorted(whole.runs)


@pytest.mark.parametrize("change", LEASES)
def test_a_lease_that_cannot_be_read_is_shown_and_nobody_acts_on_its_run(
    whole: Home, damaged: Callable[..., Cli], change: str
) -> None:
    run = whole.runs[0]
    cli = damaged((LEASE, (run, OWNER)), (f"UPDATE leases SET {change} WHERE run_id = ?", (run,)))
    must_be_listed(cli, whole.runs)
    shown = cli("show", run)
    assert (shown.code, f"the row of run {run} in leases cannot be read" in shown.out) == (0, True)
    assert f"UPDATE leases SET owner = NULL WHERE run_id = '{run}'" in shown.out
    for command in (
        ["ledger", run],
        ["report", run],
        ["logs", run],
        ["control", run, "approve", "--dry-run"],
    ):
        result = cli(*command)
        assert (result.code, "Traceback" in result.err) == (0, False), (command, result.err)
    acts = (
        ["resume", run],
        ["control", run, "approve", "--reason", "yes"],
        ["run", cli.plan(ASKS, "asks.yaml"), "--reuse", run],
    )
    for command in acts:
        result = cli(*command)
        assert (result.code, "in leases cannot be read" in result.err) == (1, True), (command, result.err)
        assert "Traceback" not in result.err
    with closing(sqlite3.connect(cli.home / "ledger.db")) as database, database:
        assert database.execute("SELECT count(*) FROM controls").fetchone() == (0,), (
            "nothing was left to wait"
        )
        database.execute("UPDATE leases SET owner = NULL, epoch = 7 WHERE run_id = ?", (run,))
    assert cli("control", run, "approve", "--reason", "yes").code == 0


def test_the_gateway_refuses_to_act_where_a_lease_cannot_be_read(
    whole: Home, damaged: Callable[..., Cli]
) -> None:
    run = whole.runs[0]
    cli = damaged((LEASE, (run, "{")))
    with gateway(cli.home, "--workers", "0") as served, served.client() as client:
        shown = [f"/runs/{run}", f"/api/runs/{run}", f"/api/runs/{run}/controls", f"/api/runs/{run}/report"]
        for path in [*PATHS, *shown]:
            assert client.get(path).status_code == 200, path
        wish = {"action": "approve", "reason": "yes"}
        refused = client.post(f"/api/runs/{run}/control", json=wish)
        assert refused.status_code == 409, refused.text
        assert refused.json()["type"] == "urn:recoup:problem:unreadable"
        assert "leases" in refused.json()["detail"]


def test_worker_rows_that_cannot_be_read_hide_no_other(whole: Home, damaged: Callable[..., Cli]) -> None:
    inserts = [f"INSERT INTO workers VALUES ('broken {at}', {one})" for at, one in enumerate(WORKERS)]
    cli = damaged(*((one, ()) for one in inserts))
    told = cli("workers")
    assert (told.code, told.out.count("cannot be read")) == (0, 2), "one without a time is forgotten"
    must_be_listed(cli, whole.runs)
    assert cli("worker", "--until-idle", timeout=120).code == 0
    with gateway(cli.home, "--workers", "1") as served, served.client() as client:
        for path in PATHS:
            assert client.get(path).status_code == 200, path
        workers = client.get("/api/workers").json()["items"]
        broken = [one for one in workers if one["workerId"].startswith("broken")]
        assert len(workers) == len(broken) + 1
        assert all("cannot be read" in one["trouble"] for one in broken)


def test_escalations_that_cannot_be_read_are_still_listed(whole: Home, damaged: Callable[..., Cli]) -> None:
    columns, names = (
        "id, stream, reason, body, said, raised_at_us",
        [f"e{at}" for at in range(len(ESCALATIONS))],
    )
    inserts = [
        f"INSERT INTO escalations ({columns}) VALUES ('{name}', {values})"
        for name, values in zip(names, ESCALATIONS, strict=True)
    ]
    cli = damaged(*((one, ()) for one in inserts))
    must_be_listed(cli, whole.runs)
    told = cli("escalations", "list").out
    assert all(name in told for name in names)
    with gateway(cli.home, "--workers", "0") as served, served.client() as client:
        for path in [
            *PATHS,
            *(f"{at}/{name}" for at in ("/api/escalations", "/escalations") for name in names),
        ]:
            assert client.get(path).status_code == 200, path


def test_damaged_rows_of_attempts_are_listed(whole: Home, damaged: Callable[..., Cli]) -> None:
    run = whole.runs[0]
    cli = damaged((f"UPDATE attempts SET {', '.join(ATTEMPTS)} WHERE run_id = ?", (run,)))
    with gateway(cli.home, "--workers", "0") as served, served.client() as client:
        for path in [*PATHS, f"/runs/{run}", f"/api/runs/{run}/attempts", f"/api/runs/{run}/attempts/one/1"]:
            assert client.get(path).status_code == 200, path
