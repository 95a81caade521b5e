"""A workflow's health as a reader wants it: what its mode means, how near its limits it is, how it went. Values in,
values out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from recoup.model.answers.workflows import ModeDocument
from recoup.model.events import Event, TargetHealed, WorkflowModeChanged, WorkflowStepResult
from recoup.model.mode import Mode
from recoup.model.policy import Policy
from recoup.model.storage import RunRow

MODE_MEANS: Final = {
    "running": "Runs begin and go on as usual; what proves right is learned.",
    "degraded": "Runs go on with more care: targets need more certainty, attempts are not made more tolerant, "
    "and nothing is learned unless the policy says so.",
    "quarantined": "No step of any run begins until it ends; then one run may try first.",
    "rollback": "What was learned last is being taken back. It takes moments.",
    "paused": "No step of any run begins until somebody lets it run again.",
    "unreadable": "An event of the workflow cannot be read, so its mode is unknown. No step of any run begins.",
}
SETTABLE: Final = ("running", "degraded", "quarantined", "paused")
DURATIONS: Final = (("", "until something ends it"), ("900", "15 minutes"), ("3600", "1 hour"),
                    ("14400", "4 hours"), ("86400", "1 day"))  # fmt: skip
_HOUR_US: Final = 3_600_000_000
_DAY_US: Final = 24 * _HOUR_US
_BUCKETS_MAX: Final = 48
_STOPPED: Final = frozenset(mode.value for mode in Mode if mode.stops)
_GOOD: Final = ("succeeded",)
_BAD: Final = ("failed", "dead_letter", "escalated")


class Against(msgspec.Struct, frozen=True):
    """A count against the limit at which something happens."""

    used: int
    limit: int
    words: str


def counters(document: ModeDocument, policy: Policy) -> list[Against]:
    """A workflow that is stopped is shown as it was when it stopped: nothing counts until it runs again."""
    at_change = document.counters_at_change
    if at_change and document.mode in _STOPPED:
        was = f"when it was {document.mode}"
        return [
            msgspec.structs.replace(one, words=f"{one.words} ({was})") for one in _against(at_change, policy)
        ]
    return _now(document, policy)


def _now(document: ModeDocument, policy: Policy) -> list[Against]:
    counted = document.counters
    made = _against(msgspec.to_builtins(counted), policy)
    if document.mode == "degraded":
        words = "results without a failure; then running again"
        made.append(Against(counted.clean_results, policy.degraded_clean_steps, words))
    if document.half_open:
        made.append(Against(counted.probes, policy.half_open_probes, "runs that try whether it works again"))
    return made


def _against(told: Mapping[str, int], policy: Policy) -> list[Against]:
    counted = told["resultsCounted"]
    by_ratio = max(1, round(policy.workflow_fail_ratio * max(counted, policy.workflow_count_min)))
    return [
        Against(told["stepStreak"], policy.step_fail_streak_to_degraded,
                 "failures of one step in a row; then degraded"),
        Against(told["failuresInWindow"], policy.workflow_fail_max_in_window,
                 f"failed steps within {policy.workflow_fail_window_s / 60:g} min; then quarantined"),
        Against(told["failuresInCount"], by_ratio,
                 f"failed among the last {counted} results; then quarantined (from {policy.workflow_count_min} on)"),
    ]  # fmt: skip


# What caused it


class Cause(msgspec.Struct, frozen=True):
    """One event that a change of mode names."""

    workflow: str
    seq: int
    words: str
    run_id: str | None
    step_id: str | None
    at_iso: str | None


def cause_of(workflow: str, seq: int, event: Event | None) -> Cause:
    if event is None:
        return Cause(workflow, seq, "was forgotten", None, None, None)
    told = event.payload
    if isinstance(told, WorkflowStepResult):
        kind = f": {told.failure_kind.replace('_', ' ')}" if told.failure_kind else ""
        words = f"{told.result.replace('_', ' ')}{kind}"
        return Cause(workflow, seq, words, told.run_id, told.step_id, event.at.iso())
    return Cause(workflow, seq, event.type, None, None, event.at.iso())


class ModeChange(msgspec.Struct, frozen=True):
    at_iso: str
    mode: str
    previous: str
    reason: str
    actor: str
    for_s: float | None


def mode_changes(events: Iterable[Event], limit: int) -> list[ModeChange]:
    """Newest first."""
    told = [(event, event.payload) for event in events if isinstance(event.payload, WorkflowModeChanged)]
    return [
        ModeChange(
            at_iso=event.at.iso(),
            mode=fact.mode.value,
            previous=fact.previous.value,
            reason=fact.reason,
            actor=fact.actor or "",
            for_s=fact.for_s,
        )
        for event, fact in reversed(told[-limit:])
    ]


# How it went, over time


class Buckets(msgspec.Struct, frozen=True):
    """Equal spans of time, oldest first."""

    first_us: int
    width_us: int
    labels: tuple[str, ...]

    def place(self, at_us: int) -> int | None:
        at = (at_us - self.first_us) // self.width_us
        return at if 0 <= at < len(self.labels) else None


def buckets(moments_us: Sequence[int]) -> Buckets:
    """Hours where all of it happened within two days, else days; at most so many, the newest."""
    if not moments_us:
        return Buckets(0, _DAY_US, ())
    width = _HOUR_US if max(moments_us) - min(moments_us) < 2 * _DAY_US else _DAY_US
    last = max(moments_us) // width
    first = max(min(moments_us) // width, last - _BUCKETS_MAX + 1)
    form = "%d %b %H h" if width == _HOUR_US else "%d %b"
    labels = [datetime.fromtimestamp(at * width / 1e6, UTC).strftime(form) for at in range(first, last + 1)]
    return Buckets(first * width, width, tuple(labels))


def runs_by_end(rows: Sequence[RunRow]) -> tuple[tuple[str, ...], dict[str, list[float]]]:
    """Labels, and how many runs were good, bad or neither yet."""
    made = buckets([row.submitted_at_us for row in rows])
    return made.labels, _counted(made, [(row.submitted_at_us, _end(row.status)) for row in rows], _ENDS)


_ENDS: Final = ("succeeded", "failed", "other")


def _end(status: str) -> str:
    return "succeeded" if status in _GOOD else "failed" if status in _BAD else "other"


def heals_by_proof(events: Sequence[Event]) -> tuple[tuple[str, ...], dict[str, list[float]]]:
    told = [(event.at.wall_us, event.payload) for event in events if isinstance(event.payload, TargetHealed)]
    made = buckets([at for at, _ in told])
    kinds = [(at, "verified" if fact.verified else "unverified") for at, fact in told]
    return made.labels, _counted(made, kinds, ("verified", "unverified"))


def _counted(made: Buckets, told: Sequence[tuple[int, str]], names: Sequence[str]) -> dict[str, list[float]]:
    counts = Counter((made.place(at), name) for at, name in told)
    return {name: [float(counts[at, name]) for at in range(len(made.labels))] for name in names}


def recovery_times(events: Sequence[Event]) -> list[tuple[int, float]]:
    """When a step had recovered, and how long after its first failure that was, in seconds."""
    failed: dict[tuple[str, str], int] = {}
    found: list[tuple[int, float]] = []
    for event in events:
        told = event.payload
        if not isinstance(told, WorkflowStepResult):
            continue
        place = (told.run_id, told.step_id)
        if told.result == "attempt_failed":
            failed.setdefault(place, event.at.wall_us)
        elif (since := failed.pop(place, None)) is not None and told.result == "recovered":
            found.append((event.at.wall_us, max(0.0, (event.at.wall_us - since) / 1e6)))
    return found


def middle_by_bucket(told: Sequence[tuple[int, float]]) -> tuple[tuple[str, ...], list[float | None]]:
    """The median of each span; None where nothing recovered."""
    made = buckets([at for at, _ in told])
    groups: list[list[float]] = [[] for _ in made.labels]
    for at, value in told:
        if (place := made.place(at)) is not None:
            groups[place].append(value)
    return made.labels, [_median(group) for group in groups]


def _median(values: Sequence[float]) -> float | None:
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else None


def by_care(documents: Iterable[ModeDocument]) -> list[ModeDocument]:
    """Those that need somebody first, then by name."""
    return sorted(documents, key=lambda one: (_CARE.get(one.mode, 0), one.workflow))


_CARE: Final = {"unreadable": 0, "paused": 0, "quarantined": 0, "rollback": 0, "degraded": 1, "running": 2}
