"""What a function may call while it is a step: where it is, how far it is, and what its failure means.

Loaded into the process of every step that says `import recoup`, so it imports next to nothing.
"""

from __future__ import annotations

import os
import time
from _json import encode_basestring as _quoted  # the public module takes 8 ms of every attempt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from recoup.errors import UsageError

NOTE_CHARS_MAX = 500
"""However it is written down, a line of it fits into what a pipe takes in one piece."""
PAUSE_S = 0.05


class Transient(Exception):
    """Raised by a step: trying again can help."""

    __module__ = "recoup"


class Deterministic(Exception):
    """Raised by a step: trying again cannot help; somebody must change something first."""

    __module__ = "recoup"


class Cooldown(Exception):
    """Raised by a step: trying again can help, but not before so many seconds have passed."""

    __module__ = "recoup"

    def __init__(self, seconds: float, message: str = "") -> None:
        if not 0 <= seconds < float("inf"):
            raise ValueError(f"Cooldown takes a number of seconds from 0 on, not {seconds!r}")
        super().__init__(seconds, message)
        self.seconds = float(seconds)
        self.message = message

    def __str__(self) -> str:
        return self.message or f"told to wait {self.seconds:g} s"


class Context:
    """Which attempt of which step this process is."""

    __slots__ = ("attempt", "idempotency_key", "retry_context", "run_id", "step_id", "workspace")

    def __init__(
        self,
        run_id: str,
        step_id: str,
        attempt: int,
        idempotency_key: str,
        retry_context: dict[str, Any] | None,
        workspace: Path,
    ) -> None:
        self.run_id = run_id
        self.step_id = step_id
        self.attempt = attempt
        """1 is the first."""
        self.idempotency_key = idempotency_key
        """The same for every attempt of this step of this run."""
        self.retry_context = retry_context
        """What went wrong before; None in a first attempt."""
        self.workspace = workspace
        """The folder that the step began in."""

    def __repr__(self) -> str:
        return f"Context(run_id={self.run_id!r}, step_id={self.step_id!r}, attempt={self.attempt})"


def context() -> Context:
    """Where this code runs. Raises RecoupError outside a step."""
    from pathlib import Path

    try:
        return Context(
            run_id=os.environ["RECOUP_RUN_ID"],
            step_id=os.environ["RECOUP_STEP_ID"],
            attempt=int(os.environ["RECOUP_ATTEMPT"]),
            idempotency_key=os.environ["RECOUP_IDEMPOTENCY_KEY"],
            retry_context=_retry_context(),
            workspace=Path(_process.folder or Path.cwd()),
        )
    except (KeyError, ValueError):
        raise _not_a_step() from None


def progress(note: str = "", done: float | None = None, total: float | None = None) -> None:
    """Show how far the step is, and keep its idle timer from running out. Outside a step nothing happens.

    Never waits and never fails: called too often, or with nobody reading, it does nothing.
    """
    path = os.environ.get("RECOUP_PROGRESS")
    now_s = time.monotonic()
    if not path or (now_s < _process.next_s and (done is None or _number(done) != _number(total))):
        return
    _process.next_s = now_s + PAUSE_S
    words = _quoted(_cut(str(note)))
    _tell(path, f"{_number(done)}/{_number(total)} {words}\n".encode("utf-8", "replace"))


class _Process:
    """What this process knows beside its environment."""

    def __init__(self) -> None:
        self.folder = ""
        self.importing = ""
        """The module of the step, while it is being imported."""
        self.next_s = 0.0


_process = _Process()


def enter(folder: str) -> None:
    """For the runtime alone: this process is a step that begins here."""
    _process.folder = folder


def being_imported(module: str | None = None) -> str:
    """The step's module that is being imported; given a name, that from now on."""
    if module is not None:
        _process.importing = module
    return _process.importing


def _tell(path: str, line: bytes) -> None:
    """Opened anew each time: a number kept open could belong to a file of the step's own one day."""
    try:
        pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return  # nobody reads
    try:
        os.write(pipe, line)
    except OSError:
        return  # full: there is more than enough to show
    finally:
        os.close(pipe)


def _retry_context() -> dict[str, Any] | None:
    path = os.environ.get("RECOUP_RETRY_CONTEXT")
    if not path:
        return None
    import json

    try:
        with open(path, "rb") as file:  # noqa: PTH123 pathlib is not needed for this
            told: dict[str, Any] = json.load(file)
    except (OSError, ValueError):
        return None
    return told


def _cut(note: str) -> str:
    """Between words: half a secret could not be recognised as one."""
    return note if len(note) <= NOTE_CHARS_MAX else note[:NOTE_CHARS_MAX].rpartition(" ")[0]


def _number(value: float | None) -> str:
    try:
        return "?" if value is None else repr(value if type(value) is int else float(value))
    except (TypeError, ValueError):
        return "?"


def _not_a_step() -> UsageError:
    from recoup.errors import UsageError

    return UsageError(
        "recoup.context() was called outside a step",
        hint="Call it in a function that a plan names (`python: module:function`), while a run performs it.",
    )
