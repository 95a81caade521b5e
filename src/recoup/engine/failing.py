"""From a raw outcome to a failure in the kernel's terms. What is decided is decided from facts that may be stored, so
that it can be decided again from the ledger."""

from __future__ import annotations

import msgspec

from recoup.engine.excerpts import excerpt
from recoup.kernel.classify import classify, retry_after_s, says_disk_full, summarise
from recoup.kernel.signature import output_hash, signature
from recoup.model.failure import Facts, Failure, FailureClass, FailureKind
from recoup.model.outcome import Outcome
from recoup.model.policy import Policy
from recoup.model.workspace import Change
from recoup.ports import Redactor

_HASHED_OUTPUT_BYTES = 64 << 10
_REQUESTS = frozenset({FailureKind.RESET_REQUESTED, FailureKind.HARD_RESET_REQUESTED})


def failure_of(
    redactor: Redactor, outcome: Outcome, kind: FailureKind, detail: str, change: Change, policy: Policy
) -> Failure:
    facts = _facts(redactor, outcome, kind, detail, change, policy)
    cls = classify(facts, policy)
    if cls is FailureClass.UNKNOWN and says_disk_full(facts):
        kind = FailureKind.DISK_FULL
        facts = msgspec.structs.replace(facts, kind=kind)
    return Failure(
        kind=kind,
        cls=cls,
        signature=signature(kind.value, _telling(redactor, outcome, kind, detail) or facts.excerpt),
        summary=summarise(facts),
        facts=facts,
        outcome_known=outcome.outcome_known,
        tolerance_level=_level(outcome),
    )


def _level(outcome: Outcome) -> int:
    resolution = outcome.seen.resolution if outcome.seen else None
    return resolution.profile.level if resolution else 0


def _facts(
    redactor: Redactor, outcome: Outcome, kind: FailureKind, detail: str, change: Change, policy: Policy
) -> Facts:
    said = excerpt(redactor, outcome, detail, policy.excerpt_bytes_max)
    told = outcome.retry_after_s if outcome.retry_after_s is not None else retry_after_s(said)
    return Facts(
        kind=kind,
        exit_code=outcome.exit_code,
        signal=outcome.signal,
        exception=outcome.exception,
        agent_event=outcome.agent_event,
        retry_after_s=told,
        duration_ms=outcome.duration_ms,
        idle_ms=outcome.idle_ms,
        # What an agent says is worded anew each time; whether it got further shows in the diff and the checks.
        output_hash=_hash_of_output(redactor, outcome) if outcome.agent is None else None,
        diff_hash=change.hash,
        excerpt=said,
    )


def _telling(redactor: Redactor, outcome: Outcome, kind: FailureKind, detail: str) -> str | None:
    """Of an agent's failed checks only what the checks say, for the same reason; of a request only the request."""
    if kind in _REQUESTS:
        return redactor.redact(detail).text
    if outcome.agent is None or kind is not FailureKind.POSTCONDITION_FAILED:
        return None
    return redactor.redact(detail).text


def _hash_of_output(redactor: Redactor, outcome: Outcome) -> str | None:
    said = outcome.stdout.last(_HASHED_OUTPUT_BYTES) + b"\n" + outcome.stderr.last(_HASHED_OUTPUT_BYTES)
    return output_hash(redactor.redact(said).text) if len(said) > 1 else None
