"""A local port that answers: this probe listens and passes connections on, or a program of the file's own listens."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from typing import Final

from recoup.files.folders import make_folder
from recoup.kernel.probe_health import Sign
from recoup.model.probe import Action, BindingKind, Check, Fault
from recoup.probe.atomic_file import write_whole
from recoup.probe.checks.tcp import code_of
from recoup.probe.kinds.forward import Forward
from recoup.probe.kinds.program import Program, unless_over, until
from recoup.probe.port_owner import who_listens
from recoup.probe.ports import Done, Site

LOST: Final = "binding_lost"
TAKEN: Final = "binding_port_taken"
LOOK_S: Final = 5.0


def address_file(files: Path) -> Path:
    """In a binding's folder: host:port as bound now. Endpoints read it."""
    return files / "address"


class ForwardHolder:
    """Listens itself."""

    def __init__(self, site: Site, kind: BindingKind) -> None:
        self._site = site
        self._kind = kind
        self._forward: Forward | None = None

    @property
    def own_check(self) -> Check | None:
        return Check(every_s=self._kind.every_s, timeout_s=LOOK_S, failures=1)

    @property
    def settle_s(self) -> float:
        return 0

    async def look(self) -> Sign:
        """By a connection to itself, which is not passed on."""
        if self._forward is None:
            return Sign(
                good=False, reason=f"{self._shown} is not bound", error_code="closed", fault_class=LOST
            )
        try:
            await self._forward.look()
        except OSError as error:
            words = f"{self._shown} does not accept connections: {error.strerror or error}"
            return Sign(good=False, reason=words, error_code=code_of(error), fault_class=LOST)
        return Sign(good=True)

    async def start(self) -> Done:
        assert self._forward is None, "one listener at a time"
        forward = Forward(self._kind)
        try:
            port = await forward.listen()
        except OSError as error:
            await forward.close()
            return not_bound(self._kind, error)
        self._forward = forward
        return remember_address(self._site, self._kind.host, port)

    async def stop(self) -> Done:
        forward, self._forward = self._forward, None
        if forward is not None:
            await forward.close()
        address_file(self._site.files).unlink(missing_ok=True)
        return Done()

    async def act(self, action: Action) -> Done:
        assert action in BindingKind.ACTIONS, f"a binding cannot {action}"
        await self.stop()
        return await self.start()

    async def downgrade(self, mode: str) -> Done:
        raise AssertionError(f"a binding knows no lesser way: {mode}")

    @property
    def _shown(self) -> str:
        return f"{self._kind.host}:{self._kind.port}"


class CommandBindingHolder:
    """Has a program listen."""

    def __init__(self, site: Site, kind: BindingKind) -> None:
        self._site = site
        self._kind = kind
        self._program: Program | None = None
        self._bound = False

    @property
    def own_check(self) -> Check | None:
        return Check(every_s=self._kind.every_s, timeout_s=LOOK_S, failures=1)

    @property
    def settle_s(self) -> float:
        return 0

    async def look(self) -> Sign:
        program = self._program
        if program is None or program.over.is_set():
            words = program.words if program else "it does not run"
            return Sign(good=False, reason=words, error_code="closed", fault_class=LOST)
        if await self._answers():
            return Sign(good=True)
        words = f"{self._shown} does not accept connections"
        return Sign(good=False, reason=words, error_code="closed", fault_class=LOST)

    async def start(self) -> Done:
        stopped = await self.stop()
        if not stopped.ok:
            return stopped
        if who_listens(self._kind.port, self._kind.host) is not None:
            return not_bound(self._kind, OSError(errno.EADDRINUSE, ""))
        self._program = program = Program(self._site, self._kind.command, self._ended)
        done = await program.start()
        if done.ok and await unless_over(
            program, asyncio.create_task(until(self._answers)), self._kind.timeout_s
        ):
            self._bound = True
            return remember_address(self._site, self._kind.host, self._kind.port)
        failed = self._failure(program) if done.ok else done
        await self.stop()
        return failed

    async def stop(self) -> Done:
        self._bound = False
        address_file(self._site.files).unlink(missing_ok=True)
        done = await self._program.stop() if self._program is not None else Done()
        if done.ok:
            self._program = None  # otherwise it is there, and stays the only one
        return done

    async def act(self, action: Action) -> Done:
        assert action in BindingKind.ACTIONS, f"a binding cannot {action}"
        return await self.start()

    async def downgrade(self, mode: str) -> Done:
        raise AssertionError(f"a binding knows no lesser way: {mode}")

    def _failure(self, program: Program) -> Done:
        if program.over.is_set():
            return Done(ok=False, reason=program.words, error_code=program.code, fault_class=LOST)
        reason = f"{self._shown} does not accept connections within {self._kind.timeout_s:g} s"
        return Done(ok=False, reason=reason, error_code="timeout", fault_class=LOST)

    def _ended(self) -> None:
        if self._bound and self._program is not None:
            self._bound = False
            words, code = self._program.words, self._program.code
            self._site.fault(Fault(fault_class=LOST, reason=words, error_code=code))

    async def _answers(self) -> bool:
        try:
            _, writer = await asyncio.open_connection(self._kind.host, self._kind.port)
        except OSError:
            return False
        writer.transport.abort()
        return True

    @property
    def _shown(self) -> str:
        return f"{self._kind.host}:{self._kind.port}"


def not_bound(kind: BindingKind, error: OSError) -> Done:
    shown = f"{kind.host}:{kind.port}"
    if error.errno != errno.EADDRINUSE:
        words = f"{shown} cannot be bound: {error.strerror or error}"
        return Done(ok=False, reason=words, error_code=code_of(error), fault_class=LOST)
    who = who_listens(kind.port, kind.host) or "another process"
    words = f"{shown} is held by {who}: stop it, or name another port"
    return Done(ok=False, reason=words, error_code="EADDRINUSE", fault_class=TAKEN)


def remember_address(site: Site, host: str, port: int) -> Done:
    """For the endpoints that name it."""
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        make_folder(site.files)
        write_whole(address_file(site.files), f"{shown}\n".encode())
    except OSError as error:
        words = f"{site.files}: {os.strerror(error.errno or 0)}"
        return Done(ok=False, reason=words, error_code=code_of(error), fault_class=LOST)
    return Done()
