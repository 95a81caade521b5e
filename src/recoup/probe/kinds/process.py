"""A process that should run: one tree at a time, the old one proven dead before the new one begins."""

from __future__ import annotations

import asyncio
import signal
from typing import Final

from recoup.errors import KeeperError, LeaseLost, LedgerError
from recoup.kernel.probe_health import Sign
from recoup.model.ids import ProcessIdentity
from recoup.model.probe import COMPLETED, Action, Check, Fault, ProcessKind
from recoup.model.process import Ended, EndedBy, ProcessSpec
from recoup.probe.output import OutputLog, Sluice
from recoup.probe.ports import Done, Site

YEARS_S: Final = 10 * 365 * 86_400.0
"""As long as the probe lives."""
EXITED: Final = "process_exited"
NOT_STARTED: Final = "process_not_started"


class ProcessHolder:
    """One command in the hands of a keeper."""

    def __init__(self, site: Site, kind: ProcessKind) -> None:
        self._site = site
        self._kind = kind
        self._stop = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None
        self._log = OutputLog(site.files / "output.log", site.world.redactor, kind.log_bytes_max)
        self._sluice = Sluice(asyncio.get_running_loop().time)
        self._dropped = 0

    @property
    def own_check(self) -> Check | None:
        return None

    @property
    def settle_s(self) -> float:
        return self._kind.settle_s

    async def look(self) -> Sign:
        return Sign(good=self._keeping is not None and not self._keeping.done())

    async def start(self) -> Done:
        assert self._keeping is None or self._keeping.done(), "there is at most one tree"
        self._stop = asyncio.Event()
        launched = asyncio.Event()
        async with self._site.world.launching:
            self._keeping = asyncio.create_task(self._keep(self._stop, launched))
            waiting = asyncio.create_task(launched.wait())
            try:
                await asyncio.wait({waiting, self._keeping}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                waiting.cancel()
        return Done() if launched.is_set() else await self._failed_start(self._keeping)

    async def stop(self) -> Done:
        """The tree is told to stop, has its grace, is killed; returns when no process of it is left."""
        if self._keeping is None:
            return Done()
        self._stop.set()
        try:
            await self._keeping
        except KeeperError as error:
            return Done(ok=False, reason=error.message, error_code="unkillable")
        except LedgerError:
            pass  # nothing was executed
        self._keeping = None
        self._log.close()
        return Done()

    async def act(self, action: Action) -> Done:
        assert action is Action.RESTART, f"a process is restarted; it cannot {action}"
        stopped = await self.stop()
        return await self.start() if stopped.ok else stopped

    async def downgrade(self, mode: str) -> Done:
        raise AssertionError(f"a process knows no lesser way: {mode}")

    async def _keep(self, stop: asyncio.Event, launched: asyncio.Event) -> None:
        async def before_exec(keeper: ProcessIdentity) -> None:
            await self._site.launched(keeper)
            launched.set()

        ended = await self._site.world.keeper.keep(
            self._spec(),
            before_exec=before_exec,
            lifeline=self._site.lifeline,
            output=self._take,
            stop=stop,
        )
        self._note(ended)
        if not stop.is_set():
            self._site.fault(fault_of(ended, self._kind))

    def _spec(self) -> ProcessSpec:
        site, kind = self._site, self._kind
        return ProcessSpec(
            argv=kind.command,
            cwd=str(site.path(kind.cwd)),
            env={**site.world.environ, **kind.env, **site.mark},
            wall_timeout_s=YEARS_S,
            idle_timeout_s=None,
            grace_s=kind.stop_grace_s,
        )

    async def _failed_start(self, keeping: asyncio.Task[None]) -> Done:
        self._keeping = None
        try:
            await keeping
        except LeaseLost:
            raise
        except (KeeperError, LedgerError) as error:
            return Done(ok=False, reason=error.message, error_code="not_launched")
        return Done(ok=False, reason="it was told to stop before it began", error_code="stopped")

    def _take(self, stream: str, chunk: bytes) -> None:
        kept = self._sluice.passes(chunk)
        if not kept:
            return
        if self._sluice.dropped != self._dropped:
            self._log.note(f"{self._sluice.dropped - self._dropped} bytes left out: more than a log may take")
            self._dropped = self._sluice.dropped
        self._log.feed(stream, kept)
        self._site.heard(stream, kept)

    def _note(self, ended: Ended) -> None:
        self._log.note(f"{self._site.world.clock.now().iso()} {words_of(ended)}")
        self._log.close()


def fault_of(ended: Ended, kind: ProcessKind) -> Fault:
    """What the end of a process means that nobody asked to end."""
    words = words_of(ended)
    if ended.ended_by is EndedBy.SPAWN_FAILED:
        return Fault(fault_class=NOT_STARTED, reason=words, error_code="spawn_failed")
    if ended.exit_code == 0 and 0 in kind.never_restart_on:
        return Fault(fault_class=COMPLETED, reason=words, final=True)
    never = ended.exit_code is not None and ended.exit_code in kind.never_restart_on
    return Fault(fault_class=EXITED, reason=words, error_code=code_of(ended), final=never)


def words_of(ended: Ended) -> str:
    if ended.ended_by is EndedBy.SPAWN_FAILED:
        return f"it could not be started: {ended.detail}"
    left = (
        "1 process that it left was" if ended.killed == 1 else f"{ended.killed} processes that it left were"
    )
    more = f", {left} killed" if ended.killed else ""
    if ended.signal:
        return f"it was ended by {_signal_name(ended.signal)}{more}"
    if ended.exit_code is None:
        return f"it ended, and nobody saw how{more}"
    return f"it exited with {ended.exit_code}{more}"


def code_of(ended: Ended) -> str:
    if ended.signal is None and ended.exit_code is None:
        return "exit_unknown"
    return f"signal_{ended.signal}" if ended.signal else f"exit_{ended.exit_code}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
