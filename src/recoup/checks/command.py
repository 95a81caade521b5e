"""A short command that looks at the world, kept like any other process tree."""

from __future__ import annotations

from typing import Final

from recoup.checks.kind import Surroundings
from recoup.model.ids import ProcessIdentity
from recoup.model.process import Ended, EndedBy, ProcessSpec
from recoup.runtimes.capture import Capture
from recoup.runtimes.taking import took_too_much

_PRINTED_BYTES_MAX: Final = 256 << 10


async def keep(around: Surroundings, argv: tuple[str, ...], stdin: bytes = b"") -> tuple[Ended, Capture]:
    """How it ended within the time for checks, and what it printed."""
    scene, printed = around.scene, Capture(_PRINTED_BYTES_MAX)
    spec = ProcessSpec(
        argv=argv,
        cwd=scene.cwd,
        env=scene.env,
        wall_timeout_s=scene.check_timeout_s,
        idle_timeout_s=None,
        grace_s=1,
        stdin=stdin,
        processes_max=scene.policy.step_processes_max,
        memory_max_bytes=scene.policy.step_memory_max_bytes,
    )
    ended = await around.keeper.keep(
        spec,
        before_exec=_at_once,
        lifeline=around.lifeline,
        output=lambda _stream, chunk: printed.feed(chunk),
        stop=around.stop,
    )
    return ended, printed


async def _at_once(_keeper: ProcessIdentity) -> None:
    """A check changes nothing that must be recorded before it begins."""


def end_words(ended: Ended, printed: Capture, timeout_s: float) -> str:
    return f"{_how(ended, timeout_s)}: {_last_line(printed)}"


def _how(ended: Ended, timeout_s: float) -> str:
    if ended.ended_by is EndedBy.WALL_TIMEOUT:
        return f"took over {timeout_s:g} s"
    if ended.ended_by is EndedBy.EXIT:
        return f"exit code {ended.exit_code}"
    return took_too_much(ended) or ended.ended_by.value


def _last_line(printed: Capture) -> str:
    lines = printed.captured().text().strip().splitlines()
    return lines[-1] if lines else "printed nothing"
