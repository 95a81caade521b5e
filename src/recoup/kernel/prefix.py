"""The known-good prefix, the frontier, and the ledger document made of them."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from recoup.model.run import RunState, RunStatus, StepRecord, Verdict

_VALUE_BYTES_MAX = 256
_GOOD = frozenset({Verdict.PASSED, Verdict.UNVERIFIED, Verdict.RECOVERED})


class Frontier(msgspec.Struct, frozen=True, rename="camel"):
    """The first step that is not known to be good, and why."""

    step_id: str
    step_index: int
    reason: str


def is_good(step: StepRecord) -> bool:
    return step.verdict in _GOOD or step.skipped


def known_good_prefix_length(state: RunState) -> int:
    """How many leading steps need not be run again. Kept by the fold: it is asked before every attempt."""
    return state.prefix_length


def prefix_after(state: RunState, changed: StepRecord) -> int:
    """The length after this step's record has changed."""
    length = state.prefix_length
    if changed.index < length and not is_good(changed):
        return changed.index
    while length < len(state.steps) and is_good(state.steps[length]):
        length += 1
    return length


def frontier(state: RunState) -> Frontier | None:
    """None when every step is good."""
    length = known_good_prefix_length(state)
    if length == len(state.steps):
        return None
    step = state.steps[length]
    return Frontier(step.step_id, step.index, _why(state, step))


def ledger_document(state: RunState) -> dict[str, Any]:
    """`recoup ledger --json`. Bounded: counts and digests, not contents."""
    edge = frontier(state)
    return {
        "runId": state.run_id,
        "status": state.status.value,
        "knownGoodPrefixLength": known_good_prefix_length(state),
        "frontier": None if edge is None else msgspec.to_builtins(edge),
        "steps": [_step_document(step, edge) for step in state.steps],
    }


def _step_document(step: StepRecord, edge: Frontier | None) -> dict[str, Any]:
    return {
        "stepId": step.step_id,
        "stepIndex": step.index,
        "kind": step.kind,
        "phase": step.phase,
        "argsDigest": step.args_digest,
        "preState": step.pre_state,
        "verdict": step.verdict.value,
        "evidence": list(step.evidence),
        "outputs": {**_bounded(step.outputs), **dict.fromkeys(step.secret_outputs, "[redacted]")},
        "attempts": step.attempts,
        "checkpoint": step.checkpoint.tree if step.checkpoint else None,
        "invalidationReason": _invalidation(step, edge),
    }


def _bounded(outputs: dict[str, Any]) -> dict[str, Any]:
    """Small values whole; of a large one its size and digest."""
    shown: dict[str, Any] = {}
    for name, value in outputs.items():
        size = len(msgspec.json.encode(value))
        shown[name] = value if size <= _VALUE_BYTES_MAX else {"bytes": size, "digest": _hash(value)}
    return shown


def _hash(value: Any) -> str:
    return f"sha256:{hashlib.sha256(msgspec.json.encode(value)).hexdigest()}"


def _invalidation(step: StepRecord, edge: Frontier | None) -> str | None:
    if edge is None or step.index < edge.step_index:
        return step.invalidation_reason if step.skipped else None
    return edge.reason if step.index == edge.step_index else f"after the frontier: {edge.step_id}"


def _why(state: RunState, step: StepRecord) -> str:
    if step.invalidation_reason:
        return step.invalidation_reason
    if step.open is not None:
        return f"attempt {step.open.attempt} has not ended"
    if step.verdict is Verdict.FAILED:
        return f"failed: {step.failure_summary or step.failure_class}"
    if state.status.is_terminal or state.status is RunStatus.ESCALATED:
        return f"not run: the run is {state.status}: {state.reason}"
    return "not run yet"
