"""Starts git: with our configuration and no other, a limit on its time, and nobody to ask."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO

from recoup import children
from recoup.errors import MachineTrouble, WorkspaceError
from recoup.machine import is_full, write_trouble
from recoup.workspace.disk import DISK_FULL_HINT

STDERR_BYTES_MAX = 2_000
END_TIMEOUT_S = 10
OWNER_ONLY_UMASK = 0o077
# Steps find the modes that they would find in a clone of the user's own.
USERS_UMASK = -1

_CONFIG = Path(__file__).with_name("gitconfig")
# Beats the configuration of the repository that a command runs in, which the file above does not.
_OVERRIDES = (
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.attributesFile=/dev/null",
)
# A hint, and never more: what git says about the machine clears the source, what it does not say blames nobody.
_DISK_FULL = ("No space left on device", "Disk quota exceeded")
_MACHINE = (
    "Out of memory",
    "out of memory",
    "Cannot allocate memory",
    "Too many open files",
    "unable to fork",
    "died of signal",
    "invalid index-pack output",
    "Input/output error",
    "Read-only file system",
)
_PASSED_ON = ("PATH", "TMPDIR", "LD_LIBRARY_PATH")
# Would make git look at another repository than the one that it is asked about.
_OF_ONE_REPOSITORY = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_CEILING_DIRECTORIES",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM",
    "GIT_PREFIX",
)


class GitFailed(WorkspaceError):
    """git itself gave up; `stderr` is why. Never that it was killed. Whose fault it is depends on what it was to do:
    see `in_our_place`."""

    def __init__(self, verb: str, code: int, stderr: str) -> None:
        super().__init__(f"git {verb} failed ({code}): {stderr or 'it did not say why'}")
        self.stderr = stderr


class Stopped(WorkspaceError):
    """The caller was cancelled."""


class Git:
    """The git processes of one operation. `stop` ends them, from any thread, and lets no other begin."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._stopped = False

    def run(
        self,
        *args: str | bytes | Path,
        stdin: bytes = b"",
        cwd: Path | None = None,
        env: Mapping[str, str | bytes] | None = None,
        umask: int = OWNER_ONLY_UMASK,
        of_the_user: bool = False,
    ) -> bytes:
        """`of_the_user`: with their configuration, to ask what they allow; what runs must read nothing else."""
        base = users_environment() if of_the_user else environment()
        env = {**base, **(env or {})}
        with self._started(args, cwd=cwd, env=env, umask=umask, stdin=subprocess.PIPE) as process:
            output, error = self._communicated(process, args, stdin)
        if process.returncode != 0:
            raise failure(verb(args), process.returncode, error)
        return output

    @contextmanager
    def talking(
        self,
        *args: str | bytes | Path,
        cwd: bytes | None = None,
        stdin: IO[bytes] | None = None,
    ) -> Iterator[Conversation]:
        """A process to write to and read from, killed at the end; it is given the same time as any other."""
        with (
            tempfile.TemporaryFile() as errors,
            self._started(args, cwd=cwd, stdin=stdin or subprocess.PIPE, stderr=errors) as process,
        ):
            timer = threading.Timer(self.timeout_s, _kill, (process,))
            timer.daemon = True
            timer.start()
            try:
                yield Conversation(process, verb(args), errors)
            finally:
                timer.cancel()

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            for process in self._running:
                _kill(process)

    def go_on(self) -> None:
        """Raises if the operation was stopped: to be called in long loops."""
        if self._stopped:
            raise Stopped("stopped")

    @contextmanager
    def _started(
        self,
        args: Sequence[str | bytes | Path],
        *,
        stdin: int | IO[bytes],
        cwd: Path | bytes | None = None,
        env: Mapping[str, str | bytes] | None = None,
        umask: int = OWNER_ONLY_UMASK,
        stderr: int | IO[bytes] = subprocess.PIPE,
    ) -> Iterator[subprocess.Popen[bytes]]:
        process = self._start(args, stdin=stdin, cwd=cwd, env=env, umask=umask, stderr=stderr)
        try:
            yield process
        finally:
            self._end(process)

    def _start(
        self,
        args: Sequence[str | bytes | Path],
        *,
        stdin: int | IO[bytes],
        cwd: Path | bytes | None,
        env: Mapping[str, str | bytes] | None,
        umask: int,
        stderr: int | IO[bytes],
    ) -> subprocess.Popen[bytes]:
        with self._lock:
            self.go_on()
            with children.starting() as own:
                process = subprocess.Popen(
                    [_program(), *_OVERRIDES, *args],
                    stdin=stdin,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    cwd=cwd,
                    env=environment() if env is None else env,
                    umask=umask,
                    start_new_session=True,  # Ctrl-C is for the driver; it also gives us one group to kill.
                )
                own.add(process.pid)
            self._running.add(process)
        return process

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        if process.poll() is None:
            _kill(process)
        for pipe in (process.stdin, process.stdout, process.stderr):
            _close(pipe)
        process.wait()
        children.buried(process.pid)
        with self._lock:
            self._running.discard(process)

    def _communicated(
        self, process: subprocess.Popen[bytes], args: Sequence[str | bytes | Path], stdin: bytes
    ) -> tuple[bytes, bytes]:
        try:
            return process.communicate(stdin, timeout=self.timeout_s)
        except subprocess.TimeoutExpired:
            raise MachineTrouble(
                f"git {verb(args)} did not end within {self.timeout_s:g} s",
                hint="Is the disk or the repository on a slow or broken file system? Then: recoup resume RUN",
            ) from None


class Conversation:
    """One git process that answers while it runs."""

    def __init__(self, process: subprocess.Popen[bytes], name: str, errors: IO[bytes]) -> None:
        assert process.stdout is not None, "talking() always reads"
        self.stdin = process.stdin
        self.stdout = process.stdout
        self._process = process
        self._name = name
        self._errors = errors

    def finished(self) -> None:
        """After the last answer: raises if git was not content."""
        code = self._process.wait()
        if code != 0:
            raise self.ended_early()

    def ended_early(self) -> WorkspaceError:
        """Why there was no answer."""
        # Its output ended, so it is about to end by itself; killed, it would not tell why.
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_TIMEOUT_S)
        _kill(self._process)
        code = self._process.wait()
        self._errors.seek(0)
        return failure(self._name, code, self._errors.read(1 << 20))


def environment() -> dict[str, str | bytes]:
    """From nothing: no GIT_* of the user's, no configuration of the user's or the system's."""
    passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {
        **passed,
        "HOME": "/nonexistent",
        "LC_ALL": "C",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": str(_CONFIG),
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "false",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        # Older gits do not know the line above, and would fetch with a command that the repository names.
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_DEFAULT_REF_FORMAT": "files",
        "GIT_PAGER": "cat",
    }


def users_environment() -> dict[str, str | bytes]:
    """As the user's own git would find it in a shell, with words that we can read."""
    kept = {name: value for name, value in os.environ.items() if name not in _OF_ONE_REPOSITORY}
    return {**kept, "LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}


def verb(args: Sequence[str | bytes | Path]) -> str:
    """The command among the options before it."""
    words = iter(args)
    for word in words:
        if word in ("-C", "-c"):
            next(words)
        elif not os.fsencode(word).startswith(b"-"):
            return os.fsdecode(word)
    return "?"


def failure(name: str, code: int, stderr: bytes) -> WorkspaceError:
    """Of a git that reads: killed, or short of something, it says nothing about what it read."""
    words = stderr.decode("utf-8", "replace").strip()[-STDERR_BYTES_MAX:]
    if any(hint in words for hint in _DISK_FULL):
        return MachineTrouble(f"git {name}: the disk is full", hint=DISK_FULL_HINT)
    if code < 0 or any(hint in words for hint in _MACHINE):
        return MachineTrouble(
            f"git {name} could not finish ({code}): {words or 'it was killed, or took too long'}",
            hint="Is the machine short of memory, files or time, or its disk unsound? Then: recoup resume RUN",
        )
    return GitFailed(name, code, words)


@contextmanager
def in_our_place(folder: Path) -> Iterator[None]:
    """Around git commands that write below `folder`, which is ours. A failure there is never the source's fault: the
    machine is asked at once, before anything is cleared away and makes room again. Raises MachineTrouble."""
    try:
        yield
    except GitFailed as error:
        raise trouble_below(folder, error.message) from error


@contextmanager
def unless_in_trouble(folder: Path) -> Iterator[None]:
    """The same where the caller knows what else a failure can mean: GitFailed is left to it if the machine is well."""
    try:
        yield
    except GitFailed as error:
        if write_trouble(folder) is None:
            raise
        raise trouble_below(folder, error.message) from error


def trouble_below(folder: Path, what: str) -> MachineTrouble:
    words = write_trouble(folder)
    if words is None:
        return MachineTrouble(
            what, hint="Check the disk of the state folder: recoup doctor. Then: recoup resume RUN"
        )
    return MachineTrouble(f"{what}; {words}", hint=DISK_FULL_HINT if is_full(words) else "")


def _program() -> str:
    path = shutil.which("git")
    if path is None:
        raise MachineTrouble(
            "git was not found", hint="Install git 2.32 or later and see that it is on the PATH."
        )
    return path


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return


def _close(pipe: IO[bytes] | None) -> None:
    if pipe is not None:
        try:
            pipe.close()
        except BrokenPipeError:
            return


@cache
def git_version() -> str | None:
    """As git tells it; None where there is no git."""
    try:
        done = subprocess.run(["git", "--version"], capture_output=True, text=True, timeout=END_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
