"""From a raw outcome to facts that may be stored: redacted first and cut then, for a cut through a secret would let its
end pass. What is decided is decided from these, so that it can be decided again from the ledger."""

from __future__ import annotations

from recoup.kernel.classify import retry_after_s
from recoup.kernel.signature import output_hash
from recoup.model.failure import Facts, FailureKind
from recoup.model.outcome import Captured, Outcome
from recoup.model.policy import Policy
from recoup.model.workspace import Change
from recoup.ports import Redactor

_HASHED_OUTPUT_BYTES = 64 << 10
_LEAD_IN_BYTES = 64 << 10


def facts_of(
    redactor: Redactor, outcome: Outcome, kind: FailureKind, detail: str, change: Change, policy: Policy
) -> Facts:
    excerpt = _excerpt(redactor, outcome, detail, policy.excerpt_bytes_max)
    told = outcome.retry_after_s if outcome.retry_after_s is not None else retry_after_s(excerpt)
    return Facts(
        kind=kind,
        exit_code=outcome.exit_code,
        signal=outcome.signal,
        exception=outcome.exception,
        agent_event=outcome.agent_event,
        retry_after_s=told,
        duration_ms=outcome.duration_ms,
        idle_ms=outcome.idle_ms,
        output_hash=_hash_of_output(redactor, outcome),
        diff_hash=change.hash,
        excerpt=excerpt,
    )


def end_of(redactor: Redactor, captured: Captured, limit: int) -> str:
    """The last of what was printed, at most so many bytes."""
    if limit <= 0 or not captured.total:
        return ""
    redacted = redactor.redact(captured.last(limit + _LEAD_IN_BYTES))
    return redacted.data[-limit:].decode("utf-8", "replace").strip()


def _excerpt(redactor: Redactor, outcome: Outcome, detail: str, limit: int) -> str:
    """The end of what was printed, what went to stderr after it, and what was found wrong last."""
    said = redactor.redact(detail).data[: limit // 4].decode("utf-8", "replace")
    room = limit - len(said.encode()) - 2
    errors = end_of(redactor, outcome.stderr, room * 2 // 3 if outcome.stdout.total else room)
    printed = end_of(redactor, outcome.stdout, room - len(errors.encode()))
    return "\n".join(part for part in (printed, errors, said) if part)


def _hash_of_output(redactor: Redactor, outcome: Outcome) -> str | None:
    said = outcome.stdout.last(_HASHED_OUTPUT_BYTES) + b"\n" + outcome.stderr.last(_HASHED_OUTPUT_BYTES)
    return output_hash(redactor.redact(said).text) if len(said) > 1 else None
