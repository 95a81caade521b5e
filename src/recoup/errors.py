"""Errors of use or environment. A failure of the work is never one of these: it is a `Failure` value.

    RecoupError
    ├── InvalidPlan            a plan, input or reference that cannot be run           exit 3
    ├── InvalidPolicy          a policy file that cannot be used                       exit 3
    ├── InvalidProbe           a probe file that cannot be used                        exit 3
    ├── UsageError             a request that makes no sense now                       exit 2
    │   ├── NotFound           no such run, step, evidence                             exit 2
    │   ├── WaitsForOperator   a person must settle something first                    exit 5
    │   └── WorkflowBlocked    the mode of the workflow lets nothing begin             exit 4
    ├── SettingsError          environment or recoup.toml                              exit 2
    ├── WorkspaceError         the source cannot be cloned or copied                   exit 3
    │   ├── WorkspaceRuined    a step left a workspace that cannot be stored           exit 1
    │   ├── MachineTrouble     a full disk, or git was killed: it may work later       exit 75
    │   └── CheckpointBroken   one checkpoint is missing or altered                    exit 75
    ├── StateError             the state folder is full, read-only or damaged          exit 75
    │   ├── DepotError         what other machines must find cannot be stored or read
    │   └── LearningError      what was learned cannot be stored, found or gone back to
    │       └── VersionDamaged one version of it is missing or altered
    ├── KeeperError            a process keeper could not be started or died           exit 75
    ├── DispatchError          the queue of hints cannot be used                       exit 75
    │   └── DispatchAway       it cannot be reached at the moment
    └── LedgerError            the database is gone, full or locked                    exit 75
        ├── LedgerAway         it cannot be reached at the moment
        ├── LedgerUnwritable   its disk is full, read-only or failing
        ├── LedgerTooNew       written by a newer version                              exit 1
        ├── LedgerBusy         no turn within the limit
        ├── EventUnreadable    one stored event cannot be decoded                      exit 1
        ├── RowUnreadable      a row that coordinates drivers cannot be read           exit 1
        ├── Conflict           another process appended first                          exit 1
        └── LeaseLost          a higher epoch holds the run: stop at once

Exit 75 says that nothing is wrong with the plan, the policy or the settings: the same command may work later, and a
service manager should start it again.

Each says what happened, where, and what to do next.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar, Final

import msgspec

EXIT_TROUBLE: Final = 75
"""EX_TEMPFAIL: the machine or the database is at fault, and a retry may work."""


_COMMAND = re.compile(r"\b(recoup (?:resume|show)) RUN\b")


class RecoupError(Exception):
    """What happened, and what to do next."""

    exit_code = 1
    advice: ClassVar[str] = ""
    """What to do about any of its kind, where nothing more exact is said. Only at the edges: it is never stored."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.run_id: str | None = None
        """The run that it stopped, where that is known: what to do names it in the place of RUN."""

    @property
    def what_to_do(self) -> str:
        return self._about_the_run(self.hint or self.advice)

    def __str__(self) -> str:
        return f"{self.message}\n{self._about_the_run(self.hint)}" if self.hint else self.message

    def _change_words(self, change: Callable[[str], str]) -> None:
        self.message, self.hint = change(self.message), change(self.hint)
        self.args = (self.message,)

    def _about_the_run(self, words: str) -> str:
        if self.run_id is None:
            return words
        words = _COMMAND.sub(rf"\1 {self.run_id}", words)
        # To run the plan again would repeat what the run has done.
        is_named = self.exit_code != EXIT_TROUBLE or "recoup " in words
        return words if is_named else f"{words} Then: recoup resume {self.run_id}"


class Problem(msgspec.Struct, frozen=True):
    """One thing wrong in a file that a person wrote."""

    where: str
    message: str
    line: int | None = None


class Refusal(msgspec.Struct, frozen=True):
    """Something that was asked for, and the name of the rule that forbids it."""

    asked: str
    rule: str
    reason: str


class InvalidPlan(RecoupError):
    """All the problems of a plan at once."""

    exit_code = 3
    noun = "plan"

    def __init__(self, source: str, problems: Sequence[Problem], *, hint: str = "") -> None:
        self.source = source
        self.problems = tuple(problems)
        lines = [_problem_line(source, p) for p in self.problems]
        super().__init__(
            "\n".join([f"invalid {self.noun}: {_count(len(lines))} in {source}", *lines]), hint=hint
        )

    def _change_words(self, change: Callable[[str], str]) -> None:
        super()._change_words(change)
        self.problems = tuple(
            msgspec.structs.replace(one, message=change(one.message)) for one in self.problems
        )


class InvalidPolicy(InvalidPlan):
    """All the problems of a policy file at once."""

    noun = "policy"


class InvalidProbe(InvalidPlan):
    """All the problems of a probe file at once."""

    noun = "probe file"

    def __init__(
        self, source: str, problems: Sequence[Problem], *, probe_id: str = "", refused: Sequence[Refusal] = ()
    ) -> None:
        super().__init__(source, problems)
        self.probe_id = probe_id
        self.refused = tuple(refused)
        """What it asked for that no probe may do: to be audited where it was meant to be run."""


class UsageError(RecoupError):
    exit_code = 2


class NotFound(UsageError):
    pass


class WaitsForOperator(UsageError):
    exit_code = 5


class WorkflowBlocked(UsageError):
    exit_code = 4


class SettingsError(RecoupError):
    exit_code = 2
    advice = "Settings come from the environment and recoup.toml: recoup help settings"


class WorkspaceError(RecoupError):
    exit_code = 3
    advice = "See that the source and the state folder can be used: recoup doctor. Then: recoup resume RUN"


class WorkspaceRuined(WorkspaceError):
    """A step left a workspace that cannot be stored: gone, replaced, or endless to read. Restoring it may help."""

    exit_code = 1


class MachineTrouble(WorkspaceError):
    """The disk is full or fails, a limit of the machine is reached, or git was killed. Nothing is wrong with the
    source, and it may work later."""

    exit_code = EXIT_TROUBLE
    advice = (
        "Check the disk, the memory and the limits of this machine: recoup doctor. Then: recoup resume RUN"
    )


class CheckpointBroken(WorkspaceError):
    exit_code = EXIT_TROUBLE
    advice = "The run goes back to the last checkpoint that is whole: recoup resume RUN. Look after the disk."


class StateError(RecoupError):
    exit_code = EXIT_TROUBLE
    advice = "See that the state folder can be used and has room: recoup doctor. Then: recoup resume RUN"

    @classmethod
    def of(cls, error: OSError) -> StateError:
        where = f" ({error.filename})" if error.filename else ""
        return cls(
            f"the state folder cannot be used: {error.strerror or error}{where}",
            hint=f"{hint_for(error)} Then: recoup resume RUN",
        )


class DepotError(StateError):
    advice = "See that RECOUP_EVIDENCE or the database can be reached and has room. Then: recoup resume RUN"


class LearningError(StateError):
    advice = (
        "Nothing that is known is lost: the ledger has it. See what there is: recoup memory versions WORKFLOW"
    )


class VersionDamaged(LearningError):
    advice = (
        "It is made anew from the ledger when it is next needed. If that happens again, look after the disk."
    )


class KeeperError(RecoupError):
    exit_code = EXIT_TROUBLE
    advice = "See that this machine can keep processes: recoup doctor. Then: recoup resume RUN"


class DispatchError(RecoupError):
    exit_code = EXIT_TROUBLE
    advice = "Runs are safe in the ledger. See that the queue's file or database can be used: recoup doctor"


class DispatchAway(DispatchError):
    """The queue cannot be reached at the moment."""


class LedgerError(RecoupError):
    exit_code = EXIT_TROUBLE
    advice = "See that the database can be used: recoup doctor; then try again."


class LedgerAway(LedgerError):
    """The database cannot be reached at the moment."""


class LedgerUnwritable(LedgerError):
    """The machine says that the disk of the ledger is full, read-only or failing."""


class LedgerTooNew(LedgerError):
    exit_code = 1
    advice = "Install the version of Recoup that wrote it, or a newer one."


class EventUnreadable(LedgerError):
    """One stored event cannot be decoded. Whatever would act on its stream stops here; what only shows it reads on."""

    exit_code = 1
    advice = (
        "A newer version of Recoup wrote the event, or the database is damaged. Upgrade Recoup; if that does not help, "
        "compare with the audit (recoup audit verify) and restore a backup. Other runs are not affected."
    )

    def __init__(self, stream: str, seq: int, event_type: str, reason: str, wall_us: int = 0) -> None:
        """`seq` 0: its place in the stream is not known."""
        which = f"event {seq}" if seq else "an event"
        super().__init__(f"{which} of {stream} ({event_type}) cannot be read: {reason}", hint=self.advice)
        self.stream = stream
        self.seq = seq
        self.event_type = event_type
        self.reason = reason
        self.wall_us = wall_us


class RowUnreadable(LedgerError):
    """A stored row that is no copy of events cannot be read, and nobody can know what it said. What would act on it
    stops here."""

    exit_code = 1
    advice = "The database is damaged: recoup doctor. Restore a backup."

    def __init__(self, table: str, key: str, reason: str, *, hint: str = "") -> None:
        super().__init__(f"the row of {key} in {table} cannot be read: {reason}", hint=hint or self.advice)
        self.table = table
        self.key = key
        self.reason = reason


class LedgerBusy(LedgerError):
    advice = "Others are writing; nothing was changed. Try again."


class Conflict(LedgerError):
    exit_code = 1
    advice = "Somebody else was faster; nothing was changed. Look again, then decide."


class LeaseLost(LedgerError):
    advice = "Another driver goes on with the run: recoup show RUN"
    replaced: bool | None = None
    """Whether another driver has taken the run over. None: nobody has looked, or it is not known."""


@contextmanager
def about_run(run_id: str) -> Iterator[None]:
    """Whatever is raised here says what to do about this run."""
    try:
        yield
    except RecoupError as error:
        error.run_id = error.run_id or run_id
        raise


def is_trouble(error: BaseException) -> bool:
    """Whether the machine or the database is at fault and not the work: such an error spends nothing of a run."""
    return isinstance(error, OSError | MemoryError) or (
        isinstance(error, RecoupError) and error.exit_code == EXIT_TROUBLE
    )


def hint_for(error: OSError) -> str:
    """What to do about an error of the system, by its number."""
    return _HINTS.get(error.errno or 0, "Check the disk and its permissions: recoup doctor.")


_FREE_SPACE = "Free some space or raise the quota."
_RAISE_FILES = "Raise the limit on open files (ulimit -n), or end what holds them."
_GIVE_RIGHTS = "Give this user the right to write there, or set RECOUP_HOME to another folder."
_REMOVE_FILE = (
    "Move away the file that stands where a folder is needed, or set RECOUP_HOME to another folder."
)
_HINTS = {
    errno.ENOSPC: _FREE_SPACE,
    errno.EDQUOT: _FREE_SPACE,
    errno.EMFILE: _RAISE_FILES,
    errno.ENFILE: _RAISE_FILES,
    errno.ENOMEM: "Free some memory.",
    errno.EACCES: _GIVE_RIGHTS,
    errno.EPERM: _GIVE_RIGHTS,
    errno.EEXIST: _REMOVE_FILE,
    errno.ENOTDIR: _REMOVE_FILE,
    errno.EROFS: "Mount the disk so that it can be written.",
    errno.ENODEV: "Put the folder back where it was, or mount its disk.",
    errno.EIO: "Check the disk: it cannot be read or written.",
}


def _count(problems: int) -> str:
    return "1 problem" if problems == 1 else f"{problems} problems"


def _problem_line(source: str, problem: Problem) -> str:
    place = f"{source}:{problem.line}" if problem.line else source
    return (
        f"  {place}: {problem.where}: {problem.message}" if problem.where else f"  {place}: {problem.message}"
    )


def change_words(error: RecoupError, change: Callable[[str], str]) -> None:
    """For an error about a run, which must not say what the run hides."""
    error._change_words(change)
