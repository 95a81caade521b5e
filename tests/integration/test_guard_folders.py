"""Folders of guards are removed only where nobody can miss them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from recoup.model.ids import ProcessIdentity
from recoup.model.process import Abandoned
from recoup.processes.guard import Guard
from recoup.processes.guard_folders import MARK_FILE, PROFILE_FILE, abandoned_folders, remove_folders
from recoup.processes.identity import boot_id, host_id, own_identity
from recoup.processes.marks import driver_of, new_marker
from recoup.processes.sweep import abandoned

OTHER_BOOT = "0" * 36


@pytest.fixture(scope="module")
def dead() -> ProcessIdentity:
    """A process that was here."""
    code = "from recoup.processes.marks import new_marker; print(new_marker())"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    identity = driver_of(said.strip())
    assert identity is not None
    return identity


def marked(folder: Path, driver: ProcessIdentity, name: str = "recoup-browser-x") -> Path:
    """What a guard of this driver has left."""
    left = folder / name
    left.mkdir(mode=0o700)
    named = (driver.host, driver.boot_id, str(driver.pid), str(driver.start_ticks))
    (left / MARK_FILE).write_text(".".join(("0" * 32, *named)))
    (left / "deadline").write_bytes(b"12345678")
    return left


def aged(left: Path) -> Path:
    for path in (left / "deadline", left):
        os.utime(path, (1, 1))
    return left


def sleeping(env: dict[str, str]) -> subprocess.Popen[bytes]:
    """A process with this environment, once others can see it: for a moment of its beginning it shows none."""
    process = subprocess.Popen(["/bin/sleep", "300"], env=env)
    while not Path(f"/proc/{process.pid}/environ").read_bytes():
        time.sleep(0.01)
    return process


def remove_abandoned_folders(folders: list[Path]) -> int:
    found = abandoned_folders(folders)
    remove_folders(found)
    return len(found)


def test_a_marker_names_the_process_that_made_it() -> None:
    assert driver_of(new_marker()) == own_identity()
    assert new_marker() != new_marker()


@pytest.mark.parametrize("marker", ["", "0" * 32, "x", new_marker() + "0" * 30, new_marker() + "\n"])
def test_another_marker_names_nobody(marker: str) -> None:
    assert driver_of(marker) is None


def test_what_a_dead_driver_left_is_removed_with_its_profile(tmp_path: Path, dead: ProcessIdentity) -> None:
    left, profile = marked(tmp_path, dead), tmp_path / "playwright_chromiumdev_profile-x"
    (profile / "Default").mkdir(parents=True)
    (left / PROFILE_FILE).write_text(str(profile))
    assert remove_abandoned_folders([tmp_path]) == 1
    assert list(tmp_path.iterdir()) == []


def test_what_an_earlier_boot_left_is_removed(tmp_path: Path) -> None:
    aged(marked(tmp_path, ProcessIdentity(host_id(), OTHER_BOOT, 1, 1)))
    assert remove_abandoned_folders([tmp_path]) == 1


@pytest.mark.parametrize(
    ("driver", "is_old"),
    [
        (own_identity(), False),
        (ProcessIdentity("f" * 32, boot_id(), 1, 1), True),
        (ProcessIdentity(host_id(), OTHER_BOOT, 1, 1), False),
    ],
    ids=["living", "elsewhere", "of a machine with the same name, and in use"],
)
def test_what_may_be_in_use_stays(tmp_path: Path, driver: ProcessIdentity, is_old: bool) -> None:
    left = marked(tmp_path, driver)
    if is_old:
        aged(left)
    assert remove_abandoned_folders([tmp_path]) == 0
    assert left.exists()


def test_the_folder_of_an_open_guard_stays(tmp_path: Path) -> None:
    guard = Guard("/bin/true", "run-1", 0)
    try:
        assert driver_of((guard.folder / MARK_FILE).read_text()) == own_identity()
        assert guard.folder not in abandoned_folders([guard.folder.parent])
    finally:
        remove_folders([guard.folder])


def test_a_folder_stays_while_one_of_its_processes_lives(tmp_path: Path, dead: ProcessIdentity) -> None:
    left = marked(tmp_path, dead)
    env = {"RECOUP_KEEPER": (left / MARK_FILE).read_text()}
    with sleeping(env) as living:
        try:
            assert remove_abandoned_folders([tmp_path]) == 0
        finally:
            living.kill()
    assert remove_abandoned_folders([tmp_path]) == 1


def test_only_processes_of_this_user_whose_driver_is_dead_are_abandoned(
    dead: ProcessIdentity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = (marked(tmp_path, dead) / MARK_FILE).read_text()
    envs = [
        {"RECOUP_KEEPER": mark, "RECOUP_RUN_ID": run}
        for mark, run in ((left, "gone"), (new_marker(), "here"))
    ]
    processes = [sleeping(env) for env in envs]
    try:
        assert Abandoned(dead, "gone") in abandoned()
        assert not [one for one in abandoned() if one.driver == own_identity()]
        other = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: other)
        assert Abandoned(dead, "gone") not in abandoned()
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_folders_of_other_users_stay(
    tmp_path: Path, dead: ProcessIdentity, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, own = marked(tmp_path, dead), os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    assert remove_abandoned_folders([tmp_path]) == 0
    assert left.exists()


def test_no_link_is_followed(tmp_path: Path, dead: ProcessIdentity) -> None:
    temp, victim = tmp_path / "temp", marked(tmp_path, dead, "victim")
    temp.mkdir()
    (temp / "recoup-browser-link").symlink_to(victim)
    unmarked = temp / "recoup-browser-unmarked"
    unmarked.mkdir()
    (unmarked / MARK_FILE).symlink_to(victim / MARK_FILE)
    assert remove_abandoned_folders([temp]) == 0
    left = marked(temp, dead)
    (left / "inside").symlink_to(victim)
    (temp / "playwright_chromiumdev_profile-link").symlink_to(victim)
    (left / PROFILE_FILE).write_text(str(temp / "playwright_chromiumdev_profile-link"))
    assert remove_abandoned_folders([temp]) == 1
    assert (victim / MARK_FILE).exists()


def test_nothing_but_a_profile_is_removed_beside_the_folder(tmp_path: Path, dead: ProcessIdentity) -> None:
    left, precious = marked(tmp_path, dead), tmp_path / "precious"
    precious.mkdir()
    (left / PROFILE_FILE).write_text(str(precious))
    assert remove_abandoned_folders([tmp_path]) == 1
    assert precious.exists()


def test_a_folder_that_is_not_there_is_no_trouble(tmp_path: Path) -> None:
    assert remove_abandoned_folders([tmp_path / "nowhere"]) == 0
