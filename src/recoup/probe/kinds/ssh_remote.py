"""A session on another machine, held by ssh itself under a keeper.

It has two modes. `ide_primary` carries everything an editor needs: the session and its forwarded ports. If that cannot
be had, `terminal_fallback` is the bare session. ssh is a control master: its socket is there once the other side has
let us in, and answers as long as ssh is alive; ssh itself ends when the other side is silent for too long.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from pathlib import Path
from typing import Final

from recoup.kernel.probe_health import Sign
from recoup.model.probe import Action, ChannelKind, Check, Fault
from recoup.probe.kinds.program import Program, unless_over, until
from recoup.probe.kinds.ssh_control import control_folder, master_answers
from recoup.probe.ports import Done, Site

ATTACH_FAILED: Final = "ssh_remote_attach_failed"
DISCONNECTED: Final = "ssh_remote_disconnected"
SETTLE_S: Final = 1.0
ALIVE_EVERY_S: Final = 5
ALIVE_FAILURES: Final = 3
MODE: Final = "RECOUP_CHANNEL_MODE"
_CODES: Final = (
    ("Permission denied", "permission_denied"),
    ("Host key verification failed", "host_key_unknown"),
    ("Connection refused", "ECONNREFUSED"),
    ("timed out", "ETIMEDOUT"),
    ("Could not resolve", "unknown_host"),
    ("cannot listen to port", "forward_failed"),
    ("Address already in use", "forward_failed"),
    ("forwarding", "forward_failed"),
)


class SshHolder:
    """One session in one mode."""

    def __init__(self, site: Site, kind: ChannelKind) -> None:
        self._site = site
        self._kind = kind
        self._program: Program | None = None
        self._socket: Path | None = None
        self._attached = False
        self._began_s = 0.0

    @property
    def own_check(self) -> Check | None:
        return Check(every_s=self._kind.every_s, timeout_s=self._kind.connect_timeout_s, failures=1)

    @property
    def settle_s(self) -> float:
        """A command of the file's own has no socket that would tell."""
        return SETTLE_S if self._kind.command else 0

    async def look(self) -> Sign:
        program = self._program
        if program is None or program.over.is_set():
            words = program.words if program else "it does not run"
            return Sign(good=False, reason=words, error_code="closed", fault_class=DISCONNECTED)
        if self._socket is not None and not await master_answers(self._socket):
            reason = "ssh does not answer on its control socket"
            return Sign(good=False, reason=reason, error_code="no_master", fault_class=DISCONNECTED)
        return Sign(good=True)

    async def start(self) -> Done:
        return await self._anew(self._site.mode() or self._kind.mode)

    async def stop(self) -> Done:
        self._attached = False
        done = await self._program.stop() if self._program is not None else Done()
        if not done.ok:
            return done  # it is there, and stays the only one
        self._program = None
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.unlink(missing_ok=True)
                self._socket.parent.rmdir()
        return done

    async def act(self, action: Action) -> Done:
        assert action in ChannelKind.ACTIONS, f"a channel cannot {action}"
        return await self._anew(self._site.mode() or self._kind.mode)

    async def downgrade(self, mode: str) -> Done:
        return await self._anew(mode)

    async def _anew(self, mode: str) -> Done:
        stopped = await self.stop()
        return await self._attach(mode) if stopped.ok else stopped

    async def _attach(self, mode: str) -> Done:
        assert self._program is None, "there is at most one session"
        try:
            argv = self._argv(mode)
        except OSError as error:
            return Done(ok=False, reason=str(error), error_code="no_socket", fault_class=ATTACH_FAILED)
        self._program = program = Program(self._site, argv, self._ended, {MODE: mode})
        self._began_s = asyncio.get_running_loop().time()
        done = await program.start()
        if done.ok and await self._let_in(program):
            self._attached = True
            return Done()
        failed = self._failure(program, mode) if done.ok else done
        await self.stop()
        return failed

    async def _let_in(self, program: Program) -> bool:
        if self._socket is None:
            return True
        waiting = asyncio.create_task(until(partial(master_answers, self._socket)))
        return await unless_over(program, waiting, self._kind.connect_timeout_s)

    def _failure(self, program: Program, mode: str) -> Done:
        limit_s = self._kind.connect_timeout_s
        over = program.over.is_set()
        words = program.words if over else f"not let in within {limit_s:g} s"
        code = code_in(words, program.code) if over else "timeout"
        return Done(ok=False, reason=f"{mode}: {words}", error_code=code, fault_class=ATTACH_FAILED)

    def _argv(self, mode: str) -> tuple[str, ...]:
        if self._kind.command:
            return self._kind.command
        self._socket = control_folder(str(self._site.files.absolute())) / "master"
        self._socket.unlink(missing_ok=True)
        return ssh_command(self._kind, self._site, mode, self._socket)

    def _ended(self) -> None:
        """While it is being attached, whoever waits for that will see it."""
        if self._attached and self._program is not None:
            self._attached = False
            words, code = self._program.words, code_in(self._program.words, self._program.code)
            self._site.fault(Fault(fault_class=self._fault_class(), reason=words, error_code=code))

    def _fault_class(self) -> str:
        """A command of the file's own that ends before it has settled was never let in."""
        age_s = asyncio.get_running_loop().time() - self._began_s
        return ATTACH_FAILED if age_s < self.settle_s else DISCONNECTED


def ssh_command(kind: ChannelKind, site: Site, mode: str, socket: Path) -> tuple[str, ...]:
    """Nobody is there to be asked, and a forward that fails is a failure of the whole."""
    options = {
        "BatchMode": "yes",
        "ConnectTimeout": str(max(1, round(kind.connect_timeout_s))),
        "ControlMaster": "yes",
        "ControlPath": str(socket),
        "ControlPersist": "no",
        "ExitOnForwardFailure": "yes",
        "ServerAliveInterval": str(ALIVE_EVERY_S),
        "ServerAliveCountMax": str(ALIVE_FAILURES),
    }
    if kind.known_hosts_file:
        options["UserKnownHostsFile"] = str(site.path(kind.known_hosts_file))
    words = ["ssh", "-N", "-T", "-p", str(kind.port)]
    for name, value in options.items():
        words += ["-o", f"{name}={value}"]
    if kind.identity_file:
        words += ["-o", "IdentitiesOnly=yes", "-i", str(site.path(kind.identity_file))]
    if mode == "ide_primary":
        words += [word for forward in kind.forwards for word in ("-L", forward)]
    else:
        words += ["-o", "ClearAllForwardings=yes"]  # those of the user's own configuration too
    if kind.user:
        words += ["-l", kind.user]
    return (*words, "--", kind.host)


def code_in(words: str, otherwise: str | None) -> str | None:
    return next((code for said, code in _CODES if said in words), otherwise)
