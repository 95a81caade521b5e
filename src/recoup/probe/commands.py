"""Short commands of a resource: kept like everything else that is started, limited in time, their last words noted."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from recoup.errors import KeeperError
from recoup.model.ids import ProcessIdentity
from recoup.model.process import EndedBy, ProcessSpec
from recoup.probe.output import Lines
from recoup.probe.ports import Site

GRACE_S: Final = 1.0
WORDS_MAX: Final = 300
OUTPUT_BYTES_MAX: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended. `reason` and `error_code` are about its failure."""

    ok: bool
    reason: str = ""
    error_code: str | None = None
    stdout: bytes = b""
    """Its beginning, as printed: not to be stored."""
    unkillable: bool = False


class LastWords:
    """The last line that somebody printed: mostly the one that says why."""

    def __init__(self) -> None:
        self._said: deque[str] = deque(maxlen=1)
        self._lines = Lines(self._take)

    def feed(self, stream: str, chunk: bytes) -> None:
        self._lines.feed(stream, chunk)

    @property
    def words(self) -> str:
        self._lines.feed("stderr", b"\n")
        return self._said[0] if self._said else ""

    def _take(self, line: bytes) -> None:
        words = line.decode("utf-8", "replace").strip()[:WORDS_MAX]
        if words:
            self._said.append(words)


async def run_command(site: Site, argv: Sequence[str], timeout_s: float) -> Ran:
    """In the probe file's folder. Returns within its time and the moment that killing takes."""
    last, printed = LastWords(), bytearray()

    def take(stream: str, chunk: bytes) -> None:
        if stream == "stdout":
            printed.extend(chunk[: OUTPUT_BYTES_MAX - len(printed)])
        else:
            last.feed(stream, chunk)

    try:
        ended = await site.world.keeper.keep(
            _spec(site, argv, timeout_s),
            before_exec=_go,
            lifeline=site.lifeline,
            output=take,
            stop=asyncio.Event(),
        )
    except KeeperError as error:
        return Ran(ok=False, reason=f"{argv[0]}: {error.message}", error_code="unkillable", unkillable=True)
    if ended.ended_by is EndedBy.EXIT and ended.exit_code == 0:
        return Ran(ok=True, stdout=bytes(printed))
    code = f"exit_{ended.exit_code}" if ended.ended_by is EndedBy.EXIT else str(ended.ended_by)
    return Ran(ok=False, reason=f"{argv[0]}: {ended.detail or last.words or code}", error_code=code)


def _spec(site: Site, argv: Sequence[str], timeout_s: float) -> ProcessSpec:
    return ProcessSpec(
        argv=tuple(argv),
        cwd=str(site.folder),
        env={**site.world.environ, **site.mark},
        wall_timeout_s=timeout_s,
        idle_timeout_s=None,
        grace_s=GRACE_S,
    )


async def _go(_keeper: ProcessIdentity) -> None:
    """It is over before anything else is done: the ledger need not know who keeps it."""
