"""A failure case: one JSON document that says enough of a failed step to look into it elsewhere, later."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from recoup.model.events import Event, RunSubmitted
from recoup.model.failure import Failure
from recoup.model.run import RunState, StepRecord

EVENTS_MAX = 50
LOG_BYTES_MAX = 16 << 10
CASE_BYTES_MAX = 512 << 10
_EVENT_BYTES_MAX = 8 << 10
_HANDLES_MAX = 20


class Versions(msgspec.Struct, frozen=True, kw_only=True):
    """What the attempt ran with."""

    recoup: str
    python: str
    git: str | None
    kernel: str


class FailureCase(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Bounded; to be sealed before it is stored. Screenshots and other evidence are cited, not copied."""

    schema_version: str = "failure-case.v1"
    run_id: str
    workflow: str
    step_id: str
    step_index: int
    attempt: int
    delivery: int
    failure: dict[str, Any]
    decision: str
    policy_digest: str
    plan_digest: str
    versions: Versions
    last_events: tuple[dict[str, Any], ...]
    """Oldest first; they end before the failure itself, which is not in the ledger yet."""
    events_left_out: int
    log_tail: str
    log_bytes: int
    """Of the whole log."""
    screenshots: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()


def failure_case(
    state: RunState,
    record: StepRecord,
    failure: Failure,
    decision: str,
    *,
    events: Sequence[Event],
    log_tail: bytes,
    log_bytes: int,
    policy_digest: str,
    versions: Versions,
    screenshots: Sequence[str] = (),
    evidence: Sequence[str] = (),
) -> FailureCase:
    """`events`: the last ones of the run's stream, oldest first."""
    last = events[-EVENTS_MAX:]
    return FailureCase(
        run_id=state.run_id,
        workflow=state.workflow,
        step_id=record.step_id,
        step_index=record.index,
        attempt=record.open.attempt if record.open else record.spent.attempts,
        delivery=state.driver.delivery,
        failure=_failure(failure),
        decision=decision,
        policy_digest=policy_digest,
        plan_digest=state.submission.plan_digest,
        versions=versions,
        last_events=tuple(map(_event, last)),
        events_left_out=(last[0].seq - 1) if last else state.seq,
        log_tail=_tail(log_tail, log_bytes),
        log_bytes=log_bytes,
        screenshots=tuple(screenshots[-_HANDLES_MAX:]),
        evidence=tuple(evidence[-_HANDLES_MAX:]),
    )


def smaller(case: FailureCase) -> Iterator[FailureCase]:
    """The case, then less and less of it, for a store that takes no more: old events go first, then the log."""
    yield case
    for events, log_chars in ((20, LOG_BYTES_MAX), (8, 4096), (3, 1024), (0, 256), (0, 0)):
        kept = case.last_events[-events:] if events else ()
        yield msgspec.structs.replace(
            case,
            last_events=kept,
            events_left_out=case.events_left_out + len(case.last_events) - len(kept),
            log_tail=case.log_tail[-log_chars:] if log_chars else "",
        )
    yield msgspec.structs.replace(
        case,
        failure={
            "kind": case.failure["kind"],
            "class": case.failure["class"],
            "signature": case.failure["signature"],
        },
        decision=case.decision[:200],
        last_events=(),
        events_left_out=case.events_left_out + len(case.last_events),
        log_tail="",
        screenshots=(),
        evidence=(),
    )


def _failure(failure: Failure) -> dict[str, Any]:
    return {
        "kind": failure.kind.value,
        "class": failure.cls.value,
        "signature": failure.signature,
        "summary": failure.summary,
        "outcomeKnown": failure.outcome_known,
        "toleranceLevel": failure.tolerance_level,
        "facts": msgspec.to_builtins(failure.facts),
    }


def _event(event: Event) -> dict[str, Any]:
    """As in `recoup events --json`; of a large payload, such as the plan, only its size."""
    line = event.line()
    large = isinstance(event.payload, RunSubmitted) or len(event.raw) > _EVENT_BYTES_MAX
    line["payload"] = {"leftOutBytes": len(event.raw)} if large else msgspec.json.decode(event.raw)
    return line


def _tail(log: bytes, log_bytes: int) -> str:
    """From the beginning of a line, where the log is longer."""
    tail = log[-LOG_BYTES_MAX:]
    if log_bytes > len(tail) and b"\n" in tail[:-1]:
        tail = tail.partition(b"\n")[2]
    return tail.decode("utf-8", "replace")
