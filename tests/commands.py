"""`recoup` commands in processes of their own, without the time that each of them would take to load.

One process loads everything once, and every command is a fork of it: with its own arguments, environment, folder and
streams, its own signals and its own exit code. Whoever tests how a command starts, or needs it to be a child of the test,
starts a new interpreter instead.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

PROJECT = Path(__file__).parents[1]
MESSAGE_BYTES_MAX = 150_000
_CHUNK = 1 << 16
_LOADED = (
    "recoup.app",
    "recoup.audit.exporting",
    "recoup.documents.plan_file",
    "recoup.documents.plan_words",
    "recoup.documents.policy_file",
    "recoup.dispatch.opening",
    "recoup.dispatch.local",
    "recoup.dispatch.postgres",
    "recoup.depot.opening",
    "recoup.depot.postgres",
    "recoup.depot.shipping",
    "recoup.fleet.overview",
    "recoup.fleet.worker",
    "recoup.ledger.postgres.ledger",
    "recoup.redaction.patterns.stage",
    "recoup.reports.reporter",
    "recoup.metrics.opening",
)
_LOADED_FOR = {
    "heals": ("recoup.cli.heal_accepting",),
    "probe": ("recoup.probe.supervisor", "recoup.probe.gateway.link"),
    "serve": (
        "recoup.gateway.serving",
        "recoup.learning.screens",
        "recoup.metrics.collector",
        "recoup.runtimes.browser.runtime",
    ),
}
"""The same, once somebody asks for that command: most never do, and these take long."""
_READ_AT_START = ("PYTHON", "LANG", "LC_", "LD_", "COVERAGE")
"""Variables that only a new interpreter obeys begin with these."""


class Command(NamedTuple):
    """What a fork is to become."""

    words: list[str]
    environ: dict[str, str]
    folder: str


def new_interpreter(*words: str) -> list[str]:
    return [sys.executable, "-m", "recoup.cli.main", *words]


# In the test


@dataclass
class Commands:
    """The process that has everything loaded, asked through a socket."""

    control: socket.socket

    def run(
        self, *words: str, env: Mapping[str, str], cwd: str | Path, timeout: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """As `subprocess.run` does with nothing to read and its output captured. Raises TimeoutExpired: it is killed."""
        if any(_is_read_at_start(name, value) for name, value in env.items()):
            return _run_anew(words, env, cwd, timeout)
        started = self.start(*words, env=env, cwd=cwd)
        try:
            out, err = started.communicate(timeout)
        except subprocess.TimeoutExpired:
            started.kill()
            started.communicate()
            raise
        assert started.returncode is not None
        return subprocess.CompletedProcess(list(words), started.returncode, out, err)

    def start(self, *words: str, env: Mapping[str, str], cwd: str | Path) -> Started:
        """As `subprocess.Popen` does with nothing to read and its output in pipes."""
        early = [name for name, value in env.items() if _is_read_at_start(name, value)]
        assert not early, f"only a new interpreter obeys {early}"
        told, out, err = (os.pipe() for _ in range(3))
        with Path(os.devnull).open() as nothing:
            writers = [out[1], err[1], told[1]]
            self._ask(Command(list(words), dict(env), str(cwd)), [nothing.fileno(), *writers])
        for writer in writers:
            os.close(writer)
        return Started(words, told[0], out[0], err[0])

    def run_on(self, terminal: int, *words: str, env: Mapping[str, str], cwd: str | Path) -> Started:
        """With a terminal for its output, which does not control it."""
        told, nowhere = os.pipe(), os.pipe()
        with Path(os.devnull).open() as nothing:
            self._ask(
                Command(list(words), dict(env), str(cwd)), [nothing.fileno(), terminal, terminal, told[1]]
            )
        for end in (told[1], nowhere[1]):
            os.close(end)
        return Started(words, told[0], nowhere[0], os.dup(nowhere[0]))

    def _ask(self, command: Command, streams: list[int]) -> None:
        message = json.dumps(command).encode()
        assert len(message) < MESSAGE_BYTES_MAX, "a command with so much to it needs a new interpreter"
        socket.send_fds(self.control, [message], streams)


@contextlib.contextmanager
def loaded_commands() -> Iterator[Commands]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "PYTHONPATH") if name in os.environ}
    with ours, theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.commands", str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            cwd=PROJECT,
            env=kept,
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        try:
            yield Commands(ours)
        finally:
            ours.close()
            process.wait(20)


class Started:
    """A command under way: what `subprocess.Popen[str]` offers, for a child of somebody else."""

    def __init__(self, words: Sequence[str], told: int, out: int, err: int) -> None:
        self.words = list(words)
        self.returncode: int | None = None
        self.stdout, self.stderr = (os.fdopen(handle, encoding="utf-8") for handle in (out, err))
        self._told = told
        self._said = os.read(told, _CHUNK)
        """Its id, and then how it ended."""
        self.pid = int(self._said.split()[0])
        self._process = _opened(self.pid)

    def fileno(self) -> int:
        """Can be read when it has ended, until that was asked for."""
        return self._told

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is not None:
            return self.returncode
        if not select.select([self._told], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(self.words, timeout or 0)
        while piece := os.read(self._told, _CHUNK):
            self._said += piece
        os.close(self._told)
        if self._process is not None:
            os.close(self._process)
        self.returncode = int(self._said.split()[1])
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """The rest of what it says, once it has ended. Raises TimeoutExpired: it goes on."""
        deadline_s = time.monotonic() + (timeout or 3600)
        files = [file for file in (self.stdout, self.stderr) if not file.closed]
        read = _read_all([file.fileno() for file in files], self.words, deadline_s)
        texts = {file: text.decode() for file, text in zip(files, read, strict=True)}
        for file in files:
            file.close()
        self.wait(max(0.0, deadline_s - time.monotonic()))
        return texts.get(self.stdout, ""), texts.get(self.stderr, "")

    def send_signal(self, number: int) -> None:
        if self.poll() is None and self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _opened(pid: int) -> int | None:
    """Whoever is meant: the number may soon be another's."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


def _read_all(readers: list[int], words: list[str], deadline_s: float) -> list[bytes]:
    """Until each has ended."""
    read = {reader: bytearray() for reader in readers}
    left = set(readers)
    while left:
        ready = select.select(list(left), [], [], max(0.0, deadline_s - time.monotonic()))[0]
        if not ready:
            raise subprocess.TimeoutExpired(words, 0, *(bytes(read[reader]) for reader in readers))
        for reader in ready:
            chunk = os.read(reader, _CHUNK)
            read[reader] += chunk
            if not chunk:
                left.discard(reader)
    return [bytes(read[reader]) for reader in readers]


def _is_read_at_start(name: str, value: str) -> bool:
    return name.startswith(_READ_AT_START) and os.environ.get(name) != value


def _run_anew(
    words: tuple[str, ...], env: Mapping[str, str], cwd: str | Path, timeout: float
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        new_interpreter(*words),
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
    )


# In the process that has everything loaded, and in its forks


def main(control: socket.socket) -> None:
    """Comes back from `serve` in every fork, so that each ends as a command does: by the end of the interpreter."""
    load()
    command = serve(control)
    if command is not None:
        from recoup.cli.main import main as recoup

        become(command)
        end_as_a_command_does(recoup)


def end_as_a_command_does(recoup: Callable[[], None]) -> None:
    """But for the last part of an interpreter's end, which takes every module apart: in a fork that copies them all."""
    code: object = None
    try:
        recoup()
    except SystemExit as end:
        code = end.code
    assert code is None or isinstance(code, int), "whatever else an interpreter would print"
    threading._shutdown()  # type: ignore[attr-defined]  # it waits for threads, and for what they have registered
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        code = code or 120
    os._exit(code or 0)


def load() -> None:
    from recoup.cli.main import _COMMANDS

    for name in {*_LOADED, *(place.partition(":")[0] for place, _ in _COMMANDS.values())}:
        importlib.import_module(name)
    from recoup.documents.plan_file import parse_plan

    parse_plan("{version: 1, name: a, steps: [{run: 'true'}]}")  # also makes the shapes, which takes a while
    gc.freeze()


def load_for(command: Command) -> None:
    for word in _LOADED_FOR.keys() & command.words:
        for name in _LOADED_FOR[word]:
            importlib.import_module(name)


def serve(control: socket.socket) -> Command | None:
    """Forks for every command that is asked for: gives the command in the fork, and None once nobody can ask."""
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    tell: dict[int, int] = {}
    while True:
        ready = select.select([control.fileno(), woken], [], [])[0]
        if woken in ready:
            os.read(woken, _CHUNK)
            _tell_ends(tell)
        if control.fileno() not in ready:
            continue
        message, streams, _, _ = socket.recv_fds(control, MESSAGE_BYTES_MAX, 4)
        if not message:
            return None
        command = Command(*json.loads(message))
        load_for(command)
        child = os.fork()
        if child == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            control.close()
            _take(streams[:3], [*streams[3:], woken, waker, *tell.values()])
            return command
        tell[child] = streams.pop()
        os.write(tell[child], f"{child} ".encode())
        for stream in streams:
            os.close(stream)


def _take(streams: list[int], others: list[int]) -> None:
    """As stdin, stdout and stderr; a fork that kept the others would keep somebody waiting."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    for handle in (*streams, *others):
        os.close(handle)


def _tell_ends(tell: dict[int, int]) -> None:
    for child in list(tell):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            handle = tell.pop(child)
            with contextlib.suppress(BrokenPipeError):  # whoever asked has given up
                os.write(handle, str(os.waitstatus_to_exitcode(status)).encode())
            os.close(handle)


def become(command: Command) -> None:
    os.chdir(command.folder)
    os.environ.clear()
    os.environ.update(command.environ)
    time.tzset()
    sys.path[0] = command.folder
    main_file = sys.modules["recoup.cli.main"].__file__
    assert main_file is not None
    sys.argv = [main_file, *command.words]


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
