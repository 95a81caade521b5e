"""`recoup` commands as forks of the one process that has everything loaded, for tests that await them."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from examples.stage import Launch
from tests.commands import Commands, Started


def forked(commands: Commands) -> Launch:
    """What a `Stage` starts commands with, where each would take half a second to load."""

    async def launch(words: Sequence[str], env: Mapping[str, str], folder: Path) -> Awaited:
        started = await asyncio.to_thread(commands.start, *words, env=env, cwd=folder)
        return Awaited(started, await _reader(started.stdout), await _reader(started.stderr))

    return launch


class Awaited:
    """What `asyncio.subprocess.Process` offers, of a child of somebody else."""

    def __init__(self, started: Started, stdout: asyncio.StreamReader, stderr: asyncio.StreamReader) -> None:
        self._started = started
        self._over = asyncio.Event()
        self.pid = started.pid
        self.stdout, self.stderr = stdout, stderr
        asyncio.get_running_loop().add_reader(started.fileno(), self._end)

    @property
    def returncode(self) -> int | None:
        return self._started.returncode

    async def wait(self) -> int:
        await self._over.wait()
        return self._started.wait()

    async def communicate(self) -> tuple[bytes, bytes]:
        out, err, _ = await asyncio.gather(self.stdout.read(), self.stderr.read(), self.wait())
        return out, err

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            self._started.send_signal(number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._started.fileno())
        self._started.wait()
        self._over.set()


async def _reader(pipe: IO[str]) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader
