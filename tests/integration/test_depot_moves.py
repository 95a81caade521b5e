"""Runs that move between machines: two homes that share a ledger, a depot and a key, and nothing else."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from tests.repositories import git, new_repository

from recoup.app import App, open_app
from recoup.documents.plan_file import parse_plan
from recoup.engine.driver import Driver
from recoup.engine.world import Watcher
from recoup.errors import DepotError, LeaseLost, RecoupError, SettingsError, UsageError
from recoup.model import events as ev
from recoup.model.events import Event
from recoup.model.plan import Plan
from recoup.model.run import RunState
from recoup.operations.recording import preview, record
from recoup.settings import read_settings
from recoup.testing.postgres import PostgresServer
from recoup.workspace.workspaces import GitWorkspaces

KEY = "one key " + "for all machines"
TOKEN = "correct-horse" + "-battery-staple"

MAKE = r"""
mkdir -p deep/er empty/inner closed
printf 'one\0two' > deep/er/binary
echo run > tool; chmod 0751 tool
echo mine > private; chmod 0600 private
ln -s deep/er/binary link; ln -s nowhere/at/all dangling
chmod 0700 closed
printf x > "$(printf 'name-\377')"
git -c user.name=n -c user.email=e@x commit -qam second --allow-empty
git -c user.name=n -c user.email=e@x stash list
"""


class Machine:
    """One home. Everything else is shared."""

    def __init__(self, root: Path, name: str, key: str | None = KEY, **environ: str) -> None:
        self.root = root
        self.home = root / name
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": os.environ.get("HOME", str(root)),
            "RECOUP_HOME": str(self.home),
            "RECOUP_DATABASE": str(root / "shared" / "ledger.db"),
            "RECOUP_EVIDENCE": str(root / "shared" / "depot"),
            **({"RECOUP_KEY": key} if key else {}),
            **environ,
        }

    def open(self) -> AbstractAsyncContextManager[App]:
        return open_app(read_settings(self.environ, self.root), self.environ)

    async def submit(self, plan: Plan, **given: str) -> str:
        async with self.open() as app:
            return await record(app, plan, given, None)

    async def drive(self, run_id: str, seen: Callable[[App, Driver, Event], None] | None = None) -> RunState:
        drivers: list[Driver] = []
        async with self.open() as app:

            def event(one: Event) -> None:
                if seen is not None:
                    seen(app, drivers[0], one)

            return await app.driving.drive(run_id, Watcher(event=event), drivers.append)

    def workspace(self, run_id: str) -> Path:
        return self.home / "runs" / run_id / "workspace"

    def vanish(self) -> None:
        subprocess.run(["chmod", "-R", "u+rwx", str(self.home)], check=True)
        shutil.rmtree(self.home)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    repository = new_repository(tmp_path / "repository", {"src/main.txt": "first\n"})
    git(repository, "tag", "v1")
    return repository


@pytest.fixture
def machines(tmp_path: Path) -> tuple[Machine, Machine]:
    (tmp_path / "shared").mkdir()
    return Machine(tmp_path, "a"), Machine(tmp_path, "b")


def plan_at(folder: Path, *steps: str, workspace: str = "", more: str = "") -> Plan:
    lines = "\n".join(f"  - {step}" for step in steps)
    return parse_plan(f"version: 1\nname: moves\n{workspace}\n{more}\nsteps:\n{lines}\n", "plan", str(folder))


def moving(source: Path, folder: Path) -> Plan:
    (folder / "make.sh").write_text(MAKE)
    return plan_at(
        folder,
        f"{{id: make, run: 'bash -e {folder}/make.sh'}}",
        "{id: change, run: 'echo two >> src/main.txt; rm -f private'}",
        "{id: last, run: 'git log --format=%s > log; cat src/main.txt'}",
        workspace=f"workspace: {{git: {source}}}",
    )


def small(folder: Path) -> Plan:
    """Two steps that leave a line each."""
    (folder / "folder").mkdir(exist_ok=True)
    steps = [f"{{id: {word}, run: 'echo {word} >> log'}}" for word in ("one", "two")]
    return plan_at(folder, *steps, workspace=f"workspace: {{folder: {folder}/folder}}")


def tree_of(root: Path) -> dict[str, tuple[str, ...]]:
    """All there is, to the byte; but for what git notes in its index about this disk."""
    found: dict[str, tuple[str, ...]] = {}
    for folder, folders, files in os.walk(os.fsencode(root.resolve())):
        for name in (*folders, *files):
            path = folder + b"/" + name
            shown = os.path.relpath(path, os.fsencode(root.resolve())).hex()
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                found[shown] = ("link", os.fsencode(Path(os.fsdecode(path)).readlink()).hex())
            elif stat.S_ISDIR(mode):
                found[shown] = ("folder", oct(mode))
            elif not path.endswith(b"/.git/index"):
                found[shown] = ("file", oct(mode), Path(os.fsdecode(path)).read_bytes().hex())
    return found


def stop_after(step: str) -> Callable[[App, Driver, Event], None]:
    def seen(_app: App, driver: Driver, event: Event) -> None:
        if isinstance(event.payload, ev.AttemptFinished) and event.payload.step_id == step:
            driver.interrupt("the machine goes away")

    return seen


async def test_a_run_is_gone_on_with_elsewhere_and_restored_to_the_byte(
    machines: tuple[Machine, Machine], source: Path, tmp_path: Path
) -> None:
    a, b = machines
    run_id = await a.submit(moving(source, tmp_path))
    state = await a.drive(run_id, stop_after("change"))
    assert [step.verdict for step in state.steps[:2]] == ["unverified", "unverified"]
    before = tree_of(a.workspace(run_id))
    a.vanish()
    shutil.rmtree(source)  # what the run was made of is not needed any more
    restored: list[dict[str, tuple[str, ...]]] = []

    def seen(app: App, _driver: Driver, event: Event) -> None:
        if isinstance(event.payload, ev.CheckpointRestored):
            path = app.runs.files(run_id).root / "workspaces" / f"{event.payload.workspace:04d}"
            restored.append(tree_of(path))

    state = await b.drive(run_id, seen)
    assert state.status == "succeeded"
    assert restored == [before]
    assert (b.workspace(run_id) / "log").read_text() == "second\nfirst\n"
    assert [step.spent.attempts for step in state.steps] == [1, 1, 1]
    status = subprocess.run(
        ["git", "-C", str(b.workspace(run_id)), "fsck", "--strict"], capture_output=True, text=True
    )
    assert status.returncode == 0, status.stderr


async def test_a_run_that_comes_back_does_not_go_on_in_what_it_left_there(
    machines: tuple[Machine, Machine], source: Path, tmp_path: Path
) -> None:
    a, b = machines
    plan = plan_at(
        tmp_path,
        "{id: one, run: 'echo 1 >> log'}",
        "{id: two, run: 'echo 2 >> log'}",
        "{id: three, run: 'echo 3 >> log'}",
        workspace=f"workspace: {{git: {source}}}",
    )
    run_id = await a.submit(plan)
    await a.drive(run_id, stop_after("one"))
    (a.workspace(run_id) / "log").write_text("left by a step that was under way\n")
    await b.drive(run_id, stop_after("two"))
    state = await a.drive(run_id)
    assert state.status == "succeeded"
    assert (a.workspace(run_id) / "log").read_text() == "1\n2\n3\n"


async def test_a_driver_that_was_replaced_before_it_began_removes_nothing(
    machines: tuple[Machine, Machine], tmp_path: Path
) -> None:
    a, b = machines
    run_id = await a.submit(small(tmp_path))
    await a.drive(run_id, stop_after("one"))
    await b.drive(run_id)
    async with a.open() as app:
        state = await app.runs.state(run_id)
        files, heirs = app.runs.files(run_id).driven(99), app.runs.files(run_id).driven(100)
        before = tree_of(files.root)
        assert app.shipping is not None
        with pytest.raises(LeaseLost):
            await app.shipping.enter(state, files, GitWorkspaces(files.root, aside=files.aside), 99)
        assert tree_of(files.root) == before
        await app.shipping.enter(state, heirs, GitWorkspaces(heirs.root, aside=heirs.aside), 100)
        assert not a.workspace(run_id).is_symlink()


async def test_the_log_of_an_attempt_that_was_left_is_copied_beside_the_event_loop(
    machines: tuple[Machine, Machine], tmp_path: Path
) -> None:
    """Or the leases of other runs in the same worker would run out meanwhile: a log may be large."""
    a, _ = machines
    run_id = await a.submit(plan_at(tmp_path, "{id: one, run: 'echo begun; test -e done || sleep 600'}"))

    def stop(_app: App, driver: Driver, event: Event) -> None:
        if isinstance(event.payload, ev.AttemptLaunched):
            driver.interrupt("enough for now")

    await a.drive(run_id, stop)
    (tmp_path / "done").touch()
    log, threads = a.home / "runs" / run_id / "artifacts/logs/steps/step-0000.log", set[threading.Thread]()

    def hear(event: str, args: tuple[Any, ...]) -> None:
        if event == "os.rename" and str(args[1]) == str(log):
            threads.add(threading.current_thread())

    sys.addaudithook(hear)
    assert (await a.drive(run_id)).status == "succeeded"
    assert threads
    assert threading.main_thread() not in threads


async def test_a_run_stays_in_its_workspace_where_it_was_driven_last(
    machines: tuple[Machine, Machine], tmp_path: Path
) -> None:
    a, _ = machines
    run_id = await a.submit(small(tmp_path))
    await a.drive(run_id, stop_after("one"))
    events: list[str] = []
    state = await a.drive(run_id, lambda _app, _driver, event: events.append(event.type))
    assert state.status == "succeeded"
    assert "checkpoint.restored" not in events


async def test_a_parcel_that_was_lost_moves_the_frontier_back(
    machines: tuple[Machine, Machine], tmp_path: Path
) -> None:
    a, b = machines
    run_id = await a.submit(small(tmp_path))
    state = await a.drive(run_id, stop_after("one"))
    a.vanish()
    assert state.steps[0].results.checkpoint is not None
    (lost,) = (tmp_path / "shared" / "depot").rglob(f"{state.steps[0].results.checkpoint.tree}-*")
    lost.unlink()
    state = await b.drive(run_id)
    assert state.status == "succeeded"
    assert [step.spent.attempts for step in state.steps] == [2, 1]
    assert (b.workspace(run_id) / "log").read_text() == "one\ntwo\n"


async def test_a_run_submitted_here_is_driven_there_with_its_secrets(
    machines: tuple[Machine, Machine], tmp_path: Path
) -> None:
    a, b = machines
    shown = tmp_path / "shown"
    plan = plan_at(
        tmp_path,
        "{id: make, run: 'echo pass=$GIVEN-made', env: {GIVEN: '${{ inputs.token }}'}, "
        "outputs: {pass: {regex: 'pass=(.*)', secret: true}}}",
        f"{{id: use, run: 'echo $MADE > {shown}', env: {{MADE: '${{{{ steps.make.outputs.pass }}}}'}}}}",
        more="inputs: {token: {secret: true}}",
    )
    run_id = await a.submit(plan, token=TOKEN)
    a.vanish()
    await b.drive(run_id, stop_after("make"))
    b.vanish()
    c = Machine(tmp_path, "c")
    assert (await c.drive(run_id)).status == "succeeded"
    assert shown.read_text() == f"{TOKEN}-made\n"
    stored = [path.read_bytes() for path in (tmp_path / "shared").rglob("*") if path.is_file()]
    assert len(stored) > 2
    assert not [data for data in stored if TOKEN.encode() in data]


async def test_a_plan_that_holds_a_secret_moves_too(
    machines: tuple[Machine, Machine], tmp_path: Path
) -> None:
    a, b = machines
    shown = tmp_path / "shown"
    a.environ["MY_TOKEN"] = TOKEN
    run_id = await a.submit(plan_at(tmp_path, f"{{id: say, run: 'echo {TOKEN} > {shown}'}}"))
    a.vanish()
    assert (await b.drive(run_id)).status == "succeeded"
    assert shown.read_text() == f"{TOKEN}\n"


async def test_evidence_is_found_on_every_machine(machines: tuple[Machine, Machine], tmp_path: Path) -> None:
    a, b = machines
    run_id = await a.submit(plan_at(tmp_path, "{id: say, run: 'echo proof', expect: [{exit: 0}]}"))
    (handle,) = (await a.drive(run_id)).steps[0].results.evidence
    a.vanish()
    async with b.open() as app:
        assert b"proof" in await app.evidence.get(handle)
        assert (b.home / "evidence" / handle[7:9] / handle[7:]).exists()
        shutil.rmtree(b.home / "evidence")
        (kept,) = (tmp_path / "shared" / "depot" / "evidence").rglob(handle[7:])
        kept.write_bytes(kept.read_bytes().replace(b"proof", b"forged"))
        with pytest.raises(RecoupError, match=r"altered|gone"):
            await app.evidence.get(handle)


async def test_proven_steps_are_reused_from_a_run_that_was_driven_elsewhere(
    machines: tuple[Machine, Machine], source: Path, tmp_path: Path
) -> None:
    from recoup.fleet.linked import Reusing

    a, b = machines
    plan = plan_at(
        tmp_path,
        "{id: one, run: 'echo 1 > one', expect: [{file: one}]}",
        "{id: two, run: 'echo 2 > two', expect: [{file: two}]}",
        f"{{id: three, run: 'test -e {tmp_path}/mended && cat one two > three', expect: [{{file: three}}], max_attempts: 1}}",
        workspace=f"workspace: {{git: {source}}}",
    )
    run_id = await a.submit(plan)
    assert (await a.drive(run_id)).status == "failed"
    a.vanish()
    (tmp_path / "mended").touch()
    async with b.open() as app:
        reuse = await preview(app, plan, {}, None, Reusing(run_id))
        assert reuse.count == 2
        again = await record(app, plan, {}, None, Reusing(run_id))
    assert not [
        path
        for path in (tmp_path / "shared" / "depot" / "runs").iterdir()
        if path.name not in (run_id, again)
    ]
    state = await b.drive(again, stop_after("one"))
    assert state.status == "succeeded"
    assert [step.reused_from for step in state.steps] == [run_id, run_id, None]
    assert (b.workspace(again) / "three").read_text() == "1\n2\n"
    b.vanish()


async def test_without_the_key_a_run_is_refused_and_stays_as_it_is(
    machines: tuple[Machine, Machine], tmp_path: Path
) -> None:
    a, _ = machines
    run_id = await a.submit(small(tmp_path))
    await a.drive(run_id, stop_after("one"))
    for other, words in (
        (Machine(tmp_path, "keyless", key=None), "RECOUP_KEY is not set"),
        (Machine(tmp_path, "wrong", key="another"), "another key"),
    ):
        with pytest.raises(SettingsError, match=words) as refused:
            await other.drive(run_id)
        assert "RECOUP_KEY" in refused.value.hint
    a.vanish()
    assert (await Machine(tmp_path, "right").drive(run_id)).status == "succeeded"


async def test_what_needs_a_key_is_not_fit_for_the_fleet_without_one(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    keyless = Machine(tmp_path, "a", key=None)
    with_workspace, plain = small(tmp_path), plan_at(tmp_path, "{id: a, run: 'true'}")
    async with keyless.open() as app:
        assert app.shipping is not None
        app.shipping.must_be_fit(plain, None)
        for plan, private in ((with_workspace, None), (plain, "text that is redacted")):
            with pytest.raises(SettingsError, match="RECOUP_KEY"):
                app.shipping.must_be_fit(plan, private)
    run_id = await keyless.submit(with_workspace)
    assert (await keyless.drive(run_id)).status == "succeeded"
    assert not (tmp_path / "shared" / "depot").exists(), "nothing private leaves the machine"
    run_id = await keyless.submit(with_workspace)
    with pytest.raises(SettingsError, match="not in the depot"):
        await Machine(tmp_path, "b").drive(run_id)


async def test_a_repository_that_this_machine_cannot_reach_is_named(
    machines: tuple[Machine, Machine], source: Path, tmp_path: Path
) -> None:
    a, b = machines
    run_id = await a.submit(moving(source, tmp_path))
    source.rename(tmp_path / "elsewhere")
    state = await b.drive(run_id)
    assert state.status == "failed"
    assert state.reason is not None
    assert f"there is no folder {source}" in state.reason


async def test_a_handed_over_workspace_is_not_given_up_on_another_machine(
    machines: tuple[Machine, Machine], tmp_path: Path
) -> None:
    from recoup.model.storage import Control

    a, b = machines
    run_id = await a.submit(small(tmp_path))
    await a.drive(run_id, stop_after("one"))

    async def control(machine: Machine, name: str) -> None:
        async with machine.open() as app:
            one = Control(
                id=f"c-{name}",
                run_id=run_id,
                action=name,
                reason="because",
                actor="me",
                at=app.world.clock.now(),
            )
            await app.ledger.send_control(one)
            assert await app.driving.carry_out(one) is not None

    await control(a, "takeover")
    (a.workspace(run_id) / "by-hand").write_text("mine\n")
    with pytest.raises(UsageError, match="handed over") as refused:
        await b.drive(run_id)
    assert "there" in refused.value.hint
    await control(a, "resume")
    await a.drive(run_id)
    assert (a.workspace(run_id) / "by-hand").read_text() == "mine\n"


async def test_a_depot_that_cannot_be_written_leaves_the_run_resumable(
    machines: tuple[Machine, Machine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recoup.depot.patience.PAUSES_S", ())
    a, b = machines
    run_id = await a.submit(small(tmp_path))
    depot = tmp_path / "shared" / "depot"
    depot.rename(tmp_path / "kept")
    depot.write_text("not a folder")
    with pytest.raises(DepotError, match="cannot be used"):
        await a.drive(run_id)
    depot.unlink()
    (tmp_path / "kept").rename(depot)
    await a.drive(run_id, stop_after("one"))
    a.vanish()
    assert (await b.drive(run_id)).status == "succeeded"


async def test_all_parcels_of_a_run_are_removed_and_no_others(
    machines: tuple[Machine, Machine], tmp_path: Path
) -> None:
    a, _ = machines
    one, two = [await a.submit(small(tmp_path)) for _ in range(2)]
    await a.drive(one)
    runs = tmp_path / "shared" / "depot" / "runs"
    async with a.open() as app:
        assert app.shipping is not None
        assert await app.shipping.remove_run(one) == 5
        assert await app.shipping.remove_run(one) == 0
    assert [path.name for path in runs.iterdir()] == [two]


CHILD = """
import asyncio, os, signal, sys
from pathlib import Path
from recoup.app import open_app
from recoup.depot.folder import FolderDepot
from recoup.engine.world import Watcher
from recoup.settings import read_settings

run_id, dies_at = sys.argv[1], int(sys.argv[2])
puts, put = 0, FolderDepot.put

async def mortal(self, name, data):
    global puts
    await put(self, name, data)
    puts += 1
    if puts == dies_at:
        os.kill(os.getpid(), signal.SIGKILL)

FolderDepot.put = mortal

async def main():
    async with open_app(read_settings(os.environ, Path.cwd()), os.environ) as app:
        await app.driving.drive(run_id, Watcher())

asyncio.run(main())
"""


@pytest.mark.parametrize("dies_at", [3, *(pytest.param(one, marks=pytest.mark.soak) for one in (1, 2, 4))])
async def test_a_driver_killed_between_sending_and_recording_loses_nothing(
    machines: tuple[Machine, Machine], tmp_path: Path, dies_at: int
) -> None:
    """1: the source; 2: the baseline; 3 and 4: the checkpoints of the two steps."""
    a, b = machines
    run_id = await a.submit(small(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", CHILD, run_id, str(dies_at)],
        env=a.environ,
        cwd=tmp_path,
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    a.vanish()
    state = await b.drive(run_id)
    assert state.status == "succeeded"
    assert (b.workspace(run_id) / "log").read_text() == "one\ntwo\n"


async def test_a_file_server_that_hangs_holds_up_nobody(tmp_path: Path) -> None:
    from recoup.depot.folder import FolderDepot
    from recoup.depot.patience import PatientDepot

    os.mkfifo(tmp_path / "hangs")
    depot = PatientDepot(FolderDepot(tmp_path), timeout_s=0.2)
    waiting = [depot.get("hangs") for _ in range(3)]
    answers = await asyncio.gather(*waiting, depot.put("other", b"1"), return_exceptions=True)
    assert [type(answer) for answer in answers] == [DepotError, DepotError, DepotError, type(None)]
    assert await depot.get("other") == b"1"
    os.close(os.open(tmp_path / "hangs", os.O_RDWR))


async def test_a_run_moves_with_nothing_shared_but_the_database(
    postgres: PostgresServer, tmp_path: Path, source: Path
) -> None:
    shared = {"RECOUP_DATABASE": postgres.prepared_database(), "RECOUP_EVIDENCE": ""}
    a, b = Machine(tmp_path, "a", **shared), Machine(tmp_path, "b", **shared)
    run_id = await a.submit(moving(source, tmp_path))
    await a.drive(run_id, stop_after("make"))
    before = tree_of(a.workspace(run_id))
    a.vanish()
    restored: list[dict[str, tuple[str, ...]]] = []

    def seen(app: App, _driver: Driver, event: Event) -> None:
        if isinstance(event.payload, ev.CheckpointRestored):
            restored.append(
                tree_of(app.runs.files(run_id).root / "workspaces" / f"{event.payload.workspace:04d}")
            )

    assert (await b.drive(run_id, seen)).status == "succeeded"
    assert restored == [before]
