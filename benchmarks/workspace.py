"""Cost of a workspace: creating it, checking it after a step, restoring it; compared with git's own commands.

A generated repository of 5,000 small files. The bare commands promise less: they convert line endings, ignore empty
folders and modes, and do not verify what they wrote. Bar: at most two seconds to find that a step has changed nothing.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from benchmarks.durable_steps import in_folder
from benchmarks.peers.environments import PLACE
from benchmarks.progress import doing
from benchmarks.report import Figure, against, of_rounds, scaled
from recoup.model.workspace import GitSource
from recoup.workspace.workspaces import GitWorkspaces

T = TypeVar("T")
FILES = scaled(5_000, 500)
FOLDERS = 50
ROUNDS = scaled(7, 2)
UNCHANGED_MAX_S = 2.0


def run() -> list[Figure]:
    PLACE.mkdir(exist_ok=True)
    return in_folder(lambda folder: asyncio.run(measured(folder)))


async def measured(folder: Path) -> list[Figure]:
    doing(f"making {FILES:,} files")
    repository = made(folder / "repository")
    turns = Turns()
    for number in range(ROUNDS):
        doing(f"workspaces and bare git by turns: round {number + 1} of {ROUNDS}")
        await one_turn(folder / str(number), repository, turns)
    return [
        turns.figure(f"a workspace of {FILES:,} files created", "git clone"),
        turns.figure("a step that changed nothing, checked", "git add and write-tree", UNCHANGED_MAX_S),
        turns.figure("a step that changed ten files, stored", "git add and write-tree"),
        turns.figure("restored and verified", "git read-tree and checkout-index"),
    ]


class Turns:
    """Seconds of ours and of the bare command, by what was done."""

    def __init__(self) -> None:
        self.ours: dict[str, list[float]] = {}
        self.bare: dict[str, list[float]] = {}

    def figure(self, name: str, peer: str, bar: float | None = None) -> Figure:
        beside = against(peer, self.ours[name], self.bare[name], at_most=True, bare=True, paired=True)
        return of_rounds(name, self.ours[name], "s", bar, at_most=True, peers=[beside])


async def one_turn(folder: Path, repository: Path, turns: Turns) -> None:
    folder.mkdir()
    workspaces, clone = GitWorkspaces(folder / "run"), folder / "clone"

    async def both(name: str, ours: Callable[[], Awaitable[T]], *bare: tuple[str, ...]) -> T:
        began_s = time.perf_counter()
        done = await ours()
        turns.ours.setdefault(name, []).append(time.perf_counter() - began_s)
        began_s = time.perf_counter()
        for words in bare:
            git(clone if clone.exists() else folder, *words)
        turns.bare.setdefault(name, []).append(time.perf_counter() - began_s)
        return done

    source = GitSource(str(repository))
    await both(
        f"a workspace of {FILES:,} files created",
        lambda: workspaces.create(source),
        ("clone", "-q", "--no-hardlinks", str(repository), str(clone)),
    )
    look = (("add", "-A"), ("write-tree",))
    await both("a step that changed nothing, checked", lambda: workspaces.snapshot(1), *look)
    for place in (workspaces.path(1), clone):
        for number in range(10):
            (place / "0" / f"{number * FOLDERS}.txt").write_text(f"changed {number}\n" * 40)
    changed = await both("a step that changed ten files, stored", lambda: workspaces.snapshot(1), *look)
    aside = folder / "aside"
    aside.mkdir()
    await both(
        "restored and verified",
        lambda: workspaces.restore(changed),
        ("read-tree", "HEAD"),
        ("checkout-index", "-a", f"--prefix={aside}/"),
    )


def made(repository: Path) -> Path:
    for number in range(FILES):
        path = repository / str(number % FOLDERS) / f"{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"line {number}\n" * 40)
    git(repository, "init", "-q", "-b", "main")
    git(repository, "add", "-A")
    git(repository, "-c", "user.name=b", "-c", "user.email=b@b", "commit", "-q", "-m", "files")
    return repository


def git(folder: Path, *words: str) -> None:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    subprocess.run(["git", *words], cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL)
