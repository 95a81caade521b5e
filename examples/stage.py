"""What every story needs: a folder of its own, `recoup` as a user calls it, a voice, and a way to be wrong aloud."""

import asyncio
import json
import os
import shlex
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

POLL_S = 0.05
SHOWN_LINES_MAX = 14
SHOWN_CHARS_MAX = 150
PATIENCE_S = 100
"""Long: a machine that has much to do breaks no promise."""


class StoryBroken(AssertionError):
    """Something that the story promises did not hold."""


@dataclass(frozen=True)
class Said:
    """What a command said, and how it ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


class Child(Protocol):
    """A `recoup` that was started: so much of an `asyncio.subprocess.Process` as a story needs."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...
    @property
    def stdout(self) -> asyncio.StreamReader | None: ...
    @property
    def stderr(self) -> asyncio.StreamReader | None: ...
    async def wait(self) -> int: ...
    async def communicate(self) -> tuple[bytes, bytes]: ...
    def send_signal(self, signal: int, /) -> None: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...


Launch = Callable[[Sequence[str], Mapping[str, str], Path], Awaitable[Child]]
"""Starts `recoup` with these words and this environment, in this folder."""


async def launched(words: Sequence[str], env: Mapping[str, str], folder: Path) -> Child:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "recoup", *words),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=folder,
        env=env,
    )


@dataclass
class Stage:
    """Where one story is told. `short` leaves waits and repetitions out, never what is promised."""

    folder: Path
    short: bool = False
    pictures: Path | None = None
    quiet: bool = False
    env: dict[str, str] = field(default_factory=dict)
    launch: Launch = launched
    began: float = field(default_factory=time.monotonic)

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def chapter(self, title: str) -> None:
        self._print(f"\n\033[1m== {title}\033[0m  ({time.monotonic() - self.began:.0f} s)")

    def say(self, text: str) -> None:
        self._print(text)

    def promise(self, sentence: str, holds: bool) -> None:
        """Print what holds; stop the story where it does not."""
        if not holds:
            raise StoryBroken(f"this does not hold: {sentence}; what happened is in {self.folder}")
        self._print(f"   \033[32m✓\033[0m {sentence}")

    async def recoup(self, *words: str, codes: tuple[int, ...] = (0,), within_s: float = PATIENCE_S) -> Said:
        """Call `recoup` as a user would, to its end."""
        self._print(f"   $ recoup {shlex.join(words)}")
        child = await self.start(*words)
        try:
            out, err = await asyncio.wait_for(child.communicate(), within_s)
        except TimeoutError:
            raise StoryBroken(f"recoup {' '.join(words)} did not end within {within_s:g} s") from None
        finally:
            await ended(child)
        said = Said(child.returncode or 0, out.decode(), err.decode())
        self._show(said.out if len(said.out) < 4_000 else "")
        if said.code not in codes:
            raise StoryBroken(f"recoup {' '.join(words)} ended with {said.code}:\n{said.err[-2_000:]}")
        return said

    async def start(self, *words: str, env: Mapping[str, str] | None = None) -> Child:
        """Start `recoup` and leave it running; whoever starts it ends it."""
        whole = os.environ | {"RECOUP_HOME": str(self.home)} | self.env | dict(env or {})
        return await self.launch(words, whole, self.folder)

    def _show(self, text: str) -> None:
        lines = text.splitlines()
        for line in lines[:SHOWN_LINES_MAX]:
            self._print(f"     {line if len(line) <= SHOWN_CHARS_MAX else line[:SHOWN_CHARS_MAX] + '…'}")
        if len(lines) > SHOWN_LINES_MAX:
            self._print(f"     … {len(lines) - SHOWN_LINES_MAX} more lines")

    def _print(self, text: str) -> None:
        if not self.quiet:
            print(text, flush=True)


async def until(ask: Callable[[], Awaitable[T | None]], what: str, within_s: float = PATIENCE_S) -> T:
    """Ask until there is an answer; a story never waits for ever."""
    last = time.monotonic() + within_s
    while time.monotonic() < last:
        answer = await ask()
        if answer:
            return answer
        await asyncio.sleep(POLL_S)
    raise StoryBroken(f"waited {within_s:g} s in vain: {what}")


async def ended(child: Child, grace_s: float = 5) -> None:
    """End a child that still runs, gently first."""
    if child.returncode is not None:
        return
    with suppress(ProcessLookupError):
        child.terminate()
    try:
        await asyncio.wait_for(child.wait(), grace_s)
    except TimeoutError:
        child.kill()
        await child.wait()


async def heard(
    child: Child,
    is_last: Callable[[Any], bool],
    tell_of: Callable[[Any], None] = lambda _one: None,
    within_s: float = 120,
) -> list[Any]:
    """What a child that prints JSON lines says, as far as the line that is waited for."""
    assert child.stdout is not None, "a child without a voice cannot be heard"
    said: list[Any] = []
    try:
        async with asyncio.timeout(within_s):
            while not said or not is_last(said[-1]):
                line = await child.stdout.readline()
                if not line:
                    raise StoryBroken(f"it ended too early: {said[-1:]}")
                said.append(json.loads(line))
                tell_of(said[-1])
    except TimeoutError:
        raise StoryBroken(f"waited {within_s:g} s for its word; the last was {said[-1:]}") from None
    return said
