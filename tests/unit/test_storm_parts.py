"""The parts of a storm keep the promises of the ports that they stand for."""

from __future__ import annotations

import random
from pathlib import Path

from recoup.model.policy import Policy, WrittenPolicy
from recoup.model.workspace import Adopted, FolderSource, Snapshot
from recoup.simulation.scripted import StormWorkspaces
from recoup.simulation.worker import PolicyOnDisk


async def test_checkpoints_of_another_run_are_adopted_up_to_the_first_that_is_missing(tmp_path: Path) -> None:
    runs: dict[str, StormWorkspaces] = {}
    for name in ("old", "new"):
        runs[name] = StormWorkspaces(tmp_path, random.Random(0), runs.get)
        await runs[name].create(FolderSource("."))
    runs["old"].touch("workspace-1", "paid")
    good, lost = await runs["old"].snapshot(1), Snapshot("0" * 16, "m")
    assert await runs["new"].adopt(tmp_path / "old", [good]) == Adopted(1)
    restored = await runs["new"].restore(good)
    assert await runs["new"].matches(restored, good)
    broken = await runs["new"].adopt(tmp_path / "old", [good, lost, good])
    assert (broken.count, "is not kept in old" in str(broken.problem)) == (1, True)
    assert (await runs["new"].adopt(tmp_path / "nobody", [good])).count == 0


def test_a_policy_file_says_what_was_written_last_and_tells_each_change_once() -> None:
    disk = PolicyOnDisk("policy@storm")
    assert disk.read().policy is None
    assert disk.look() is None
    written = WrittenPolicy("d", Policy())
    disk.write(written)
    assert disk.look() == written
    assert disk.look() is None
    assert disk.read() == written
