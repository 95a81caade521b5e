"""The known-good prefix, the frontier, and the ledger document made of them."""

from __future__ import annotations

import hashlib
from typing import Any, overload

import msgspec

from recoup.model.answers.runs import LedgerDocument, StepDocument
from recoup.model.plan import Rebuild, Repeat, Step
from recoup.model.run import RunState, RunStatus, StepRecord, Verdict

_VALUE_BYTES_MAX = 256
_DOCUMENT_BYTES_MAX = 32_000
_STEP_BYTES_MAX = 320
"""Of a run with more than a hundred steps."""
_GOOD = frozenset({Verdict.PASSED, Verdict.UNVERIFIED, Verdict.RECOVERED})


class _Detail(msgspec.Struct, frozen=True):
    """How much of each step a document shows."""

    digest_chars_max: int
    evidence_max: int
    outputs_bytes_max: int
    reason_chars_max: int


_WHOLE = _Detail(128, 1_000, 1 << 20, 10_000)
_SHORT = _Detail(12, 8, 256, 200)
_LEAST = _Detail(12, 1, 40, 80)


class Frontier(msgspec.Struct, frozen=True, rename="camel"):
    """The first step that is not known to be good, and why."""

    step_id: str
    step_index: int
    reason: str


def is_good(step: StepRecord) -> bool:
    return step.verdict in _GOOD or step.skipped


def is_rebuilt(step: Step, record: StepRecord) -> bool:
    """It is performed again in every restored workspace. A step that must not be repeated is not, whatever else its
    plan says of it."""
    wanted = step.rebuild is Rebuild.RERUN and step.repeat is Repeat.SAFE
    return wanted and is_good(record) and not record.skipped


def known_good_prefix_length(state: RunState) -> int:
    """How many leading steps need not be run again. Kept by the fold: it is asked before every attempt."""
    return state.progress.prefix_length


def prefix_after(state: RunState, changed: StepRecord) -> int:
    """The length after this step's record has changed."""
    length = state.progress.prefix_length
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


def ledger_document(state: RunState) -> LedgerDocument:
    """`recoup ledger --json`. Bounded: counts and digests, not contents; and where these alone are too much, their
    beginnings."""
    limit_bytes = max(_DOCUMENT_BYTES_MAX, _STEP_BYTES_MAX * len(state.steps))
    document = _document(state, _WHOLE)
    for detail in (_SHORT, _LEAST):
        if len(msgspec.json.encode(document)) > limit_bytes:
            document = _document(state, detail)
    return document


def _document(state: RunState, detail: _Detail) -> LedgerDocument:
    edge = frontier(state)
    return LedgerDocument(
        run_id=state.run_id,
        status=state.status.value,
        known_good_prefix_length=known_good_prefix_length(state),
        frontier=None if edge is None else msgspec.to_builtins(edge),
        steps=[_step_document(step, edge, detail) for step in state.steps],
    )


def outcome_unknown(step: StepRecord) -> bool:
    """Whether a person has to find out if it was done: to call it failed would say that it was not."""
    return step.verdict is Verdict.FAILED and step.doubt.outcome_unknown


def _step_document(step: StepRecord, edge: Frontier | None, detail: _Detail) -> StepDocument:
    reason = _invalidation(step, edge)
    return StepDocument(
        step_id=step.step_id,
        step_index=step.index,
        kind=step.kind,
        phase=step.phase,
        args_digest=_beginning(step.beginning.args_digest, detail),
        pre_state=_beginning(_pre_state(step), detail),
        verdict=step.verdict.value,
        evidence=[_beginning(handle, detail) for handle in step.results.evidence[: detail.evidence_max]],
        outputs=_outputs(step, detail),
        attempts=step.spent.attempts,
        checkpoint=_beginning(step.results.checkpoint.tree, detail) if step.results.checkpoint else None,
        invalidation_reason=reason and reason[: detail.reason_chars_max],
        reused_from=step.reused_from,
        outcome_known=not outcome_unknown(step),
    )


def _pre_state(step: StepRecord) -> str | None:
    """The page is what a step in the browser begins from, and the workspace what all others do. Ledgers of earlier
    versions have nothing but workspaces."""
    if step.kind == "browser":
        return step.beginning.pre_fingerprint or step.beginning.pre_state
    return step.beginning.pre_state or step.beginning.pre_fingerprint


@overload
def _beginning(digest: str, detail: _Detail) -> str: ...
@overload
def _beginning(digest: str | None, detail: _Detail) -> str | None: ...
def _beginning(digest: str | None, detail: _Detail) -> str | None:
    if digest is None:
        return None
    algorithm, colon, digits = digest.rpartition(":")
    return f"{algorithm}{colon}{digits[: detail.digest_chars_max]}"


def _outputs(step: StepRecord, detail: _Detail) -> dict[str, Any]:
    """Small values whole; of a large one its size and digest. Where there are too many, the first of them."""
    shown: dict[str, Any] = {}
    left_bytes = detail.outputs_bytes_max
    for name, value in {
        **step.results.outputs,
        **dict.fromkeys(step.results.secret_outputs, "[redacted]"),
    }.items():
        size = len(msgspec.json.encode(value))
        one = value if size <= _VALUE_BYTES_MAX else {"bytes": size, "digest": _hash(value)}
        left_bytes -= len(msgspec.json.encode({name: one}))
        if left_bytes < 0:
            break
        shown[name] = one
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
        how = "outcome unknown" if step.doubt.outcome_unknown else "failed"
        return f"{how}: {step.failure.summary or step.failure.cls}"
    if state.status.is_terminal or state.status is RunStatus.ESCALATED:
        return f"not run: the run is {state.status}: {state.reason}"
    return "not run yet"
