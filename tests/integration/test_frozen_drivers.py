"""F6: a driver frozen right before any call that makes, names or removes a file of its run, and replaced meanwhile.
Awake again it changes nothing that its heir has."""

from __future__ import annotations

import asyncio
import errno
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.repositories import new_repository

from recoup.aside import BARRED_MAX, enter
from recoup.engine.claim import Claimed, claim, claim_above
from recoup.errors import LeaseLost, StateError
from recoup.evidence.run_folder import RunFolder
from recoup.evidence.vault import Vault
from recoup.model.workspace import GitSource, Snapshot
from recoup.redaction.redactor import SecretRedactor
from recoup.runtimes.step_log import StepLog
from recoup.testing.clock import FakeClock
from recoup.testing.house import House, plan_of
from recoup.testing.runtime import ScriptedRuntime
from recoup.workspace.workspaces import GitWorkspaces

CALLS = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.symlink", "os.link", "open"}
CALLS_MAX = 400
REDACTOR = SecretRedactor()


def killed() -> None:
    """Instead of what others do meanwhile: there is no waking."""


class Freezer:
    """Stops whoever is about to make such a call for the so-manieth time, until somebody else has done their work."""

    def __init__(self) -> None:
        self._left = 0
        self._meanwhile: Callable[[], None] | None = None
        self._folder = ""

    def hear(self, event: str, args: tuple[Any, ...]) -> None:
        if self._meanwhile is None or event not in CALLS or not _writes(event, args, self._folder):
            return
        self._left -= 1
        if self._left == 0:
            meanwhile, self._meanwhile = self._meanwhile, None
            if meanwhile is killed:
                raise KeyboardInterrupt
            other = threading.Thread(target=meanwhile)
            other.start()
            other.join()

    @contextmanager
    def freezing(self, call: int, folder: Path, meanwhile: Callable[[], None]) -> Iterator[None]:
        self._left, self._folder, self._meanwhile = call, str(folder), meanwhile
        try:
            yield
        finally:
            self._meanwhile = None


def _writes(event: str, args: tuple[Any, ...], folder: str) -> bool:
    if event == "open" and not (
        isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    ):
        return False
    return any(
        os.fsdecode(path).startswith(folder)
        for path in args[:2]
        if isinstance(path, str | bytes | os.PathLike)
    )


FREEZER = Freezer()
sys.addaudithook(FREEZER.hear)  # for good: nobody can take one away


def everything(run: Path) -> dict[str, Any]:
    """Every file and link of the run that only its driver may change: by name, inode and what is in it."""
    return {
        str(path.relative_to(run)): (
            path.lstat().st_ino,
            path.readlink() if path.is_symlink() else path.read_bytes(),
        )
        for path in sorted(run.rglob("*"))
        if (path.is_symlink() or path.is_file()) and not _is_named_by_content(path.relative_to(run).parts)
    }


def _is_named_by_content(parts: tuple[str, ...]) -> bool:
    return parts[:3] == ("private", "store.git", "objects") or parts[:2] in {
        ("private", "manifests"),
        ("private", "clock"),
    }


Deed = Callable[[Path, Path], Awaitable[object]]
"""What a driver does in a run's folder, with its own folder in it."""


async def _unchecked(_run: Path) -> None: ...


async def frozen_at_every_call(
    prepared: Callable[[int], Awaitable[Path]],
    deed: Deed,
    check: Callable[[Path], Awaitable[None]] = _unchecked,
) -> int:
    """How many calls there were. The heir does the same deed while the driver stands still."""
    for call in range(1, CALLS_MAX):
        run = await prepared(call)
        left: list[dict[str, Any]] = []

        def replaced(run: Path = run, left: list[dict[str, Any]] = left) -> None:
            asyncio.run(_done(deed, run, enter(run, 2)))
            left.append(everything(run))

        own = enter(run, 1)
        with FREEZER.freezing(call, run, replaced):
            try:
                await deed(run, own)
                was_lost = False
            except LeaseLost:
                was_lost = True
        if not left:
            assert not was_lost
            return call - 1
        assert everything(run) == left[0], f"frozen before call {call}"
        await check(run)
    raise AssertionError("it never came to its end")


async def _done(deed: Deed, run: Path, own: Path) -> None:
    await deed(run, own)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return new_repository(tmp_path / "users", {"README": "first\n"})


async def test_whoever_was_replaced_while_making_a_workspace_leaves_that_of_the_heir_alone(
    tmp_path: Path, repository: Path
) -> None:
    async def prepared(call: int) -> Path:
        return _folder(tmp_path / f"run-{call}")

    async def deed(run: Path, own: Path) -> None:
        await GitWorkspaces(run, aside=own).create(GitSource(str(repository)))

    assert await frozen_at_every_call(prepared, deed) > 10


async def test_whoever_was_replaced_while_restoring_and_swapping_takes_no_workspace_from_the_heir(
    tmp_path: Path, repository: Path
) -> None:
    stored: dict[Path, Snapshot] = {}

    async def prepared(call: int) -> Path:
        run = _folder(tmp_path / f"run-{call}")
        baseline = await GitWorkspaces(run).create(GitSource(str(repository)))
        stored[run] = Snapshot(tree=baseline.tree, manifest=baseline.manifest)
        return run

    async def deed(run: Path, own: Path) -> None:
        workspaces = GitWorkspaces(run, aside=own)
        await workspaces.swap(await workspaces.restore(stored[run]), keep=0)

    assert await frozen_at_every_call(prepared, deed) > 5


async def test_whoever_was_replaced_while_storing_a_checkpoint_leaves_that_of_the_heir_whole(
    tmp_path: Path, repository: Path
) -> None:
    stored: dict[str, Snapshot] = {}

    async def prepared(call: int) -> Path:
        run = _folder(tmp_path / f"run-{call}")
        workspaces = GitWorkspaces(run)
        await workspaces.create(GitSource(str(repository)))
        (workspaces.path(1) / "made").write_text("by the step\n")
        return run

    async def deed(run: Path, own: Path) -> None:
        stored[own.name] = await GitWorkspaces(run, aside=own).snapshot(1)

    async def check(run: Path) -> None:
        heir = GitWorkspaces(run, aside=run / ".epoch-2")
        assert await heir.matches(await heir.restore(stored[".epoch-2"]), stored[".epoch-2"])

    assert await frozen_at_every_call(prepared, deed, check) > 4


async def test_whoever_was_replaced_while_writing_papers_writes_none_over_those_of_the_heir(
    tmp_path: Path,
) -> None:
    async def prepared(call: int) -> Path:
        files = RunFolder(_folder(tmp_path / f"run-{call}"))
        files.output_path(0, 1)
        files.write_patch(0, REDACTOR.redact("the one before\n"))
        _log(files, None)
        return files.root

    async def deed(run: Path, own: Path) -> None:
        files = RunFolder(run, own)
        files.output_path(0, 2)
        files.write_patch(0, REDACTOR.redact(f"by {own.name}\n"))
        files.write_step_state(0, REDACTOR.redact(own.name))
        files.write_attempt_state(0, 1, REDACTOR.redact(own.name))
        files.write_retry_context(0, 2, REDACTOR.redact(own.name))
        files.forget_output(0, 1)
        files.redact_log(0, REDACTOR)
        Vault(files.private / "secrets", b"k" * 32, own).put("steps.a.outputs.pin", own.name)

    assert await frozen_at_every_call(prepared, deed) > 10


@pytest.mark.parametrize("there_is_one", [False, True], ids=["the first attempt", "a later one"])
async def test_whoever_was_replaced_while_opening_a_log_writes_nothing_into_that_of_the_heir(
    tmp_path: Path, there_is_one: bool
) -> None:
    async def prepared(call: int) -> Path:
        files = RunFolder(_folder(tmp_path / f"run-{call}"))
        if there_is_one:
            _log(files, None)
        return files.root

    async def deed(run: Path, own: Path) -> None:
        files = RunFolder(run, own)
        files.take_log(0)
        _log(files, own)

    assert await frozen_at_every_call(prepared, deed) > 2


def test_what_a_frozen_driver_has_in_hand_for_its_log_is_not_written_after_it_was_replaced(
    tmp_path: Path,
) -> None:
    first = RunFolder(tmp_path / "run").driven(1)
    with StepLog(first.log_path(0), REDACTOR, 1 << 20, "--- one", first.aside) as log:
        log.feed("stdout", b"before\n")
        heir = RunFolder(tmp_path / "run").driven(2)
        heir.take_log(0)
        log.feed("stdout", b"too late\n")
    assert heir.log_path(0).read_text() == "--- one\nbefore\n"


def test_a_driver_that_enters_after_its_heir_is_told_so_even_when_that_has_gone(tmp_path: Path) -> None:
    RunFolder(tmp_path / "run").driven(7)
    with pytest.raises(LeaseLost, match="another driver"):
        RunFolder(tmp_path / "run").driven(6)
    assert [path.name for path in (tmp_path / "run").iterdir()] == [".epoch-7"]


def test_what_drivers_left_is_gone_when_the_next_one_has_entered(tmp_path: Path) -> None:
    for epoch in (1, 2, 3):
        own = RunFolder(tmp_path / "run").driven(epoch).aside
        assert own is not None
        assert list(own.iterdir()) == []
        (own / ".half-written").write_text("x")
        (own / ".a-link").symlink_to("nowhere")


def test_whoever_is_killed_while_it_enters_leaves_no_way_for_those_before_it(tmp_path: Path) -> None:
    for call in range(1, CALLS_MAX):
        run = _folder(tmp_path / f"run-{call}")
        first, was_killed = enter(run, 1), False
        with FREEZER.freezing(call, run, killed):
            try:
                enter(run, 2)
            except KeyboardInterrupt:
                was_killed = True
        assert list(enter(run, 3).iterdir()) == []
        with pytest.raises(NotADirectoryError):
            (first / ".made-by-git").mkdir(parents=True)
        if not was_killed:
            assert call > 4
            return
    raise AssertionError("it never came to its end")


@pytest.mark.parametrize("bars", [False, True], ids=["taken", "and barred"])
def test_whoever_enters_while_another_does_misses_nothing_that_it_takes(tmp_path: Path, bars: bool) -> None:
    run = _folder(tmp_path / "run")
    enter(run, 1)
    second = _folder(run / ".epoch-2")

    def takes() -> None:
        """It looked before the third came, and stood still since."""
        (run / ".epoch-1").rename(second / "left-1-0000")
        if bars:
            (run / ".epoch-1").touch()

    with FREEZER.freezing(2, run, takes):
        own = enter(run, 3)
    assert list(own.iterdir()) == []
    assert [path.is_file() for path in (run / ".epoch-1", run / ".epoch-2")] == [True, True]


async def test_what_was_half_built_goes_with_the_first_checkpoint(tmp_path: Path, repository: Path) -> None:
    run = _folder(tmp_path / "run")
    (enter(run, 1) / ".workspace.0000.tmp" / "deep").mkdir(parents=True)
    own = enter(run, 2)
    await GitWorkspaces(run, aside=own).create(GitSource(str(repository)))
    assert list(own.iterdir()) == []


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def _log(files: RunFolder, own: Path | None) -> None:
    with suppress(OSError), StepLog(files.log_path(0), REDACTOR, 1 << 20, f"--- {own and own.name}", own):
        pass


def test_names_of_drivers_that_went_long_ago_do_not_pile_up(tmp_path: Path) -> None:
    run = _folder(tmp_path / "run")
    for epoch in (1, 2, 3, BARRED_MAX + 3):
        enter(run, epoch)
    assert sorted(path.name for path in run.iterdir()) == [f".epoch-{BARRED_MAX + 3}", ".epoch-3"]


def test_a_name_that_is_no_epoch_is_left_alone(tmp_path: Path) -> None:
    run = _folder(tmp_path / "run")
    (run / ".epoch-1 (copy)").mkdir()
    enter(run, 1)
    assert enter(run, 2).is_dir()
    assert (run / ".epoch-1 (copy)").is_dir()


def test_a_log_goes_on_where_files_have_one_name_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    files = RunFolder(tmp_path / "run").driven(1)
    _log(files, files.aside)
    monkeypatch.setattr(os, "link", refused)
    _log(files, files.aside)
    assert files.log_path(0).read_text() == "--- .epoch-1\n" * 2


async def test_a_folder_that_was_driven_under_far_higher_epochs_is_not_this_ledgers(tmp_path: Path) -> None:
    house = House(tmp_path, ScriptedRuntime(), FakeClock())
    taken = await claim(house.world, await house.submit(plan_of("a")))
    assert isinstance(taken, Claimed)
    with pytest.raises(StateError, match=r"under epoch 5000, .* knows of 1 only"):
        await claim_above(house.world, taken, 5_000)
    assert (await claim_above(house.world, taken, 3)).lease.epoch == 4
    await house.ledger.close()
