"""A dialog with a program of our own, over its standard input and output."""

from __future__ import annotations

import asyncio
import os
from typing import Final

from recoup.files.folders import make_folder
from recoup.kernel.probe_health import Sign
from recoup.model.probe import Action, ChannelKind, Check, Fault
from recoup.probe.checks.tcp import code_of
from recoup.probe.kinds.channel import FAULT_CLASSES, LOOK_MARGIN_S
from recoup.probe.kinds.links.dialog import Pings
from recoup.probe.kinds.program import Program, unless_over
from recoup.probe.output import Lines
from recoup.probe.ports import Done, Site

SETTLE_S: Final = 1.0
STDIN: Final = "RECOUP_DIALOG"
_WITH_STDIN: Final = ("/bin/sh", "-c", f'exec "$@" <"${STDIN}"', "dialog")
"""Keepers give programs an input that has ended; this one goes on."""
DISCONNECTED: Final = FAULT_CLASSES["dialog"]


class DialogHolder:
    """One program that is asked whether it is there."""

    def __init__(self, site: Site, kind: ChannelKind) -> None:
        self._site = site
        self._kind = kind
        self._stdin = site.files / "stdin"
        self._writing = -1
        self._pings = Pings()
        self._program: Program | None = None
        self._connected = False

    @property
    def own_check(self) -> Check | None:
        timeout_s = self._kind.connect_timeout_s + LOOK_MARGIN_S
        return Check(every_s=self._kind.every_s, timeout_s=timeout_s, failures=1)

    @property
    def settle_s(self) -> float:
        return 0 if self._kind.pings else SETTLE_S

    async def look(self) -> Sign:
        failed = await self._ask()
        if failed is None:
            return Sign(good=True)
        return Sign(good=False, reason=failed.reason, error_code=failed.error_code, fault_class=DISCONNECTED)

    async def start(self) -> Done:
        stopped = await self.stop()
        if not stopped.ok:
            return stopped
        done = await self._launch()
        failed = await self._ask() if done.ok else done
        if failed is None:
            self._connected = True
            return Done()
        await self.stop()
        return failed

    async def stop(self) -> Done:
        self._connected = False
        done = await self._program.stop() if self._program is not None else Done()
        if not done.ok:
            return done  # it is there, and stays the only one
        self._program = None
        if self._writing >= 0:
            os.close(self._writing)
            self._writing = -1
            self._stdin.unlink(missing_ok=True)
        return done

    async def act(self, action: Action) -> Done:
        assert action in ChannelKind.ACTIONS, f"a channel cannot {action}"
        return await self.start()

    async def downgrade(self, mode: str) -> Done:
        raise AssertionError(f"a dialog knows no lesser way: {mode}")

    async def _launch(self) -> Done:
        assert self._program is None, "there is at most one program"
        try:
            self._open_stdin()
        except OSError as error:
            return _failed(f"{self._stdin}: {error.strerror}", code_of(error))
        lines = Lines(self._pings.hear)
        self._program = Program(
            self._site,
            (*_WITH_STDIN, *self._kind.command),
            self._ended,
            {STDIN: str(self._stdin)},
            lambda stream, chunk: lines.feed(stream, chunk) if stream == "stdout" else None,
        )
        return await self._program.start()

    def _open_stdin(self) -> None:
        """Open for both, so that it neither waits for a reader nor ends with one."""
        make_folder(self._stdin.parent)
        self._stdin.unlink(missing_ok=True)
        os.mkfifo(self._stdin, 0o600)
        self._writing = os.open(self._stdin, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    async def _ask(self) -> Done | None:
        """None: it is there."""
        program = self._program
        if program is None or program.over.is_set():
            return _failed(program.words if program else "it does not run", "closed")
        if not self._kind.pings:
            return None
        limit_s = self._kind.connect_timeout_s
        try:
            if await unless_over(program, asyncio.create_task(self._ping()), limit_s):
                return None
        except OSError as error:
            return _failed(f"it reads nothing: {error.strerror}", code_of(error))
        if program.over.is_set():
            return _failed(program.words, program.code)
        return _failed(f"a ping was not answered within {limit_s:g} s", "timeout")

    async def _ping(self) -> None:
        ping_id, message = self._pings.ask()
        try:
            os.write(self._writing, message + b"\n")
            await self._pings.answer(ping_id)
        finally:
            self._pings.forget(ping_id)

    def _ended(self) -> None:
        if self._connected and self._program is not None:
            self._connected = False
            words, code = self._program.words, self._program.code
            self._site.fault(Fault(fault_class=DISCONNECTED, reason=words, error_code=code))


def _failed(reason: str, code: str | None) -> Done:
    return Done(ok=False, reason=reason, error_code=code, fault_class=DISCONNECTED)
