"""Whether attempts get anywhere."""

from __future__ import annotations

from recoup.model.failure import Failure, FailureClass, FailureKind
from recoup.model.policy import Policy
from recoup.model.run import Mark


def says_something(kind: FailureKind, cls: FailureClass) -> bool:
    """Whether a failure can show a lack of progress: a lost driver and a service that asked us to wait cannot. Nor can
    one that took too much, or that destroyed its workspace: however it is reset, it would do the same again."""
    return kind not in _SAYS_NOTHING and not kind.is_excess and cls is not FailureClass.COOLDOWN


_SAYS_NOTHING = frozenset({FailureKind.DRIVER_LOST, FailureKind.WORKSPACE_BROKEN})


def mark_of(failure: Failure) -> Mark:
    return Mark(
        signature=failure.signature,
        diff_hash=failure.facts.diff_hash,
        output_hash=failure.facts.output_hash,
        tolerance_level=failure.tolerance_level,
    )


def equal_attempts(mark: Mark, earlier: tuple[Mark, ...], policy: Policy) -> int:
    """How many of the last `no_progress_window` attempts, this one included, ended in exactly this way.

    The same signature and the same diff and the same output, at the same tolerance: any one of them that differs is
    progress. Looking back over a window instead of at the last attempt alone finds A-B-A-B too.
    """
    if policy.polls:
        return 1
    return 1 + sum(1 for one in earlier[-policy.no_progress_window :] if one == mark)


def remember(earlier: tuple[Mark, ...], mark: Mark, window: int) -> tuple[Mark, ...]:
    """The marks to keep: bounded, oldest first."""
    return (*earlier, mark)[-window:]
