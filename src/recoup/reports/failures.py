"""Failed attempts, those of a step that ended alike together."""

from __future__ import annotations

from collections.abc import Sequence

from recoup.model import events as ev
from recoup.model.events import Event
from recoup.reports.plain import Plain
from recoup.reports.spoken import lasting, since
from recoup.reports.view import FailedAttempt, FailureGroup

_EXCERPT_LINES_MAX = 60
_ATTEMPTS_MAX = 12
_FILES_MAX = 20
_EVIDENCE_MAX = 8
_GROUPS_MAX = 1_000

Found = tuple[ev.AttemptFailed, float]


def failures(
    events: Sequence[Event], moments: Sequence[float], plain: Plain
) -> tuple[tuple[FailureGroup, ...], int]:
    """In the order of their first attempt, and how many groups were left out."""
    groups: dict[tuple[int, str, str | None], list[Found]] = {}
    for event, at_s in zip(events, moments, strict=True):
        payload = event.payload
        if isinstance(payload, ev.AttemptFailed) and not payload.not_begun:
            alike = (payload.step_index, payload.facts.kind, payload.failure_signature)
            groups.setdefault(alike, []).append((payload, at_s))
    kept = list(groups.values())[-_GROUPS_MAX:]
    return tuple(_group(found, plain) for found in kept), len(groups) - len(kept)


def _group(found: list[Found], plain: Plain) -> FailureGroup:
    last = found[-1][0]
    shown = found if len(found) <= _ATTEMPTS_MAX else [found[0], *found[1 - _ATTEMPTS_MAX :]]
    evidence = dict.fromkeys(handle for payload, _ in found for handle in payload.evidence)
    return FailureGroup(
        step_id=plain.line(last.step_id, 120),
        cls=str(last.failure_class or "not concluded"),
        kind=str(last.facts.kind),
        signature=plain.line(last.failure_signature, 80),
        summary=plain.line(last.summary, 1_000),
        excerpt=_excerpt(last, plain),
        attempts=tuple(_attempt(payload, at_s, plain) for payload, at_s in shown),
        attempts_count=len(found),
        changed_files=tuple(plain.line(path, 200) for path in last.changed_files[:_FILES_MAX]),
        changed_files_count=max(last.changed_files_count, len(last.changed_files)),
        evidence=tuple(plain.line(handle, 80) for handle in list(evidence)[-_EVIDENCE_MAX:]),
    )


def _excerpt(failed: ev.AttemptFailed, plain: Plain) -> tuple[str, ...]:
    """Nothing where the summary has said all of it."""
    lines = plain.end(failed.facts.excerpt, _EXCERPT_LINES_MAX)
    return () if len(lines) == 1 and lines[0].strip() in plain.line(failed.summary, 1_000) else lines


def _attempt(payload: ev.AttemptFailed, at_s: float, plain: Plain) -> FailedAttempt:
    return FailedAttempt(
        attempt=payload.attempt or 0,
        at=since(at_s),
        lasted=lasting(payload.facts.duration_ms / 1000) if payload.facts.duration_ms else "",
        phase="" if payload.phase == "main" else payload.phase,
        strategy="" if payload.strategy in (None, "none") else str(payload.strategy).replace("_", " "),
        reason=plain.line(payload.reason, 600),
    )
