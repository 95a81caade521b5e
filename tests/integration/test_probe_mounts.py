"""Mounts that are really mounted: a tmpfs is taken away, a command hangs, a file system gives no answer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.integration.probe_peers import (
    attempts,
    failures,
    house_of,
    last_fault,
    processes_below,
    recovers,
    runs,
)

from recoup.model.probe import Action, Phase
from recoup.probe.kinds.mount import is_mounted, mount_points


def why_not() -> str:
    """Nothing: this user can mount here."""
    if sys.platform != "linux" or shutil.which("mount") is None:
        return "there is no mount here"
    if os.geteuid() != 0:
        return "only root may mount a tmpfs"
    trial = subprocess.run(
        ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False
    )
    return "" if trial.returncode == 0 else f"a tmpfs cannot be mounted here: {trial.stderr.decode().strip()}"


WHY_NOT = why_not()
needs_mount = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "it can be had")


def scratch(root: Path, more: str = "") -> str:
    (root / "my scratch").mkdir()
    words = f"path: my scratch, source: none, type: tmpfs, options: 'size=64k', every: 10s{more}"
    return f"{{version: 1, resources: [{{id: scratch, mount: {{{words}}}}}]}}"


@needs_mount
async def test_a_mount_that_was_taken_away_is_made_again_and_nothing_is_left_in_the_end(
    tmp_path: Path,
) -> None:
    place = tmp_path / "my scratch"
    async with house_of(tmp_path, scratch(tmp_path)).running() as house:
        await runs(house, "scratch")
        assert os.statvfs(place).f_blocks * os.statvfs(place).f_bsize == 64 << 10
        subprocess.run(["umount", place], check=True)
        await house.pass_time(11)
        await recovers(house, "scratch")
        fault = last_fault(house, "scratch")
        assert (fault.fault_class, fault.error_code) == ("mount_missing", "not_mounted")
        await house.pass_time(30)
        await runs(house, "scratch")
        assert is_mounted(place)
        assert [one.action for one in attempts(house, "scratch")] == [Action.REMOUNT]
    assert not is_mounted(place)


@needs_mount
async def test_what_was_mounted_before_is_taken_as_it_is_and_stays(tmp_path: Path) -> None:
    text, place = scratch(tmp_path), tmp_path / "my scratch"
    subprocess.run(["mount", "-t", "tmpfs", "none", place], check=True)
    try:
        (place / "kept").write_text("mine")
        async with house_of(tmp_path, text).running() as house:
            await runs(house, "scratch")
            assert (place / "kept").read_text() == "mine"
        assert (place / "kept").read_text() == "mine"
    finally:
        subprocess.run(["umount", place], check=True)


@needs_mount
async def test_a_mount_that_is_in_use_is_not_torn_away(tmp_path: Path) -> None:
    text, place = scratch(tmp_path), tmp_path / "my scratch"
    slow = tmp_path / "bin"
    slow.mkdir()
    (slow / "stat").write_text("#!/bin/sh\nexec sleep 1000\n")
    house = house_of(tmp_path, scratch_that_hangs(text))
    async with house.running():
        await runs(house, "scratch")
        with (place / "open").open("w"):
            (slow / "stat").chmod(0o755)
            house.world.environ["PATH"] = f"{slow}:{os.environ['PATH']}"  # type: ignore[index]
            await house.pass_time(11)
            await recovers(house, "scratch")
            assert last_fault(house, "scratch").fault_class == "mount_hangs"
            await house.pass_time(30)
            await house.until(lambda: bool(failures(house, "scratch")))
            assert "busy" in failures(house, "scratch")[0].reason and is_mounted(place)
        house.world.environ["PATH"] = os.environ["PATH"]  # type: ignore[index]
        await house.pass_time(90)
        await runs(house, "scratch")
    assert not is_mounted(place)


def scratch_that_hangs(text: str) -> str:
    return text.replace("every: 10s", "every: 10s, timeout: 1s")


async def test_a_mount_command_that_hangs_holds_nobody_up(tmp_path: Path) -> None:
    text = (
        "{version: 1, resources: ["
        "{id: scratch, mount: {path: nowhere, command: [sleep, '4711'], timeout: 300ms}},"
        "{id: other, endpoint: {file: where, address: '127.0.0.1:1'}}]}"
    )
    async with house_of(tmp_path, text).running() as house:
        await runs(house, "other")
        await recovers(house, "scratch")
        fault = last_fault(house, "scratch")
        assert (fault.fault_class, fault.error_code) == ("mount_missing", "wall_timeout")
        assert house.phase("other") == Phase.RUNNING
    assert not [one for one in processes_below(os.getpid()) if "4711" in one.argv]


async def test_a_command_that_says_it_mounted_something_is_not_believed(tmp_path: Path) -> None:
    text = "{version: 1, resources: [{id: scratch, mount: {path: nowhere, command: ['true']}}]}"
    async with house_of(tmp_path, text).running() as house:
        await recovers(house, "scratch")
        assert "ended well, but nothing is mounted" in last_fault(house, "scratch").reason


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1))
def test_the_kernels_table_is_read_with_its_escapes(name: str) -> None:
    escaped = "".join(f"\\{ord(one):03o}" if one in " \t\n\\#" else one for one in f"/mnt/{name}")
    table = f"22 1 0:20 / / rw - ext4 /dev/vda rw\n36 22 0:31 / {escaped} rw,noatime - tmpfs none rw\n"
    assert mount_points(table) == {"/", f"/mnt/{name}"}
