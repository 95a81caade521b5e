"""What the first page says, from values. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

import msgspec
from markupsafe import Markup

from recoup.gateway.console.inbox import Approval, Item
from recoup.gateway.console.lists import Progress
from recoup.gateway.console.plots import Series, bars, line, number, stacked_bars
from recoup.gateway.console.runs_query import RunsQuery
from recoup.gateway.console.words import from_us, tone
from recoup.kernel.advice import Advice, advice
from recoup.model.answers.workflows import ModeDocument
from recoup.model.ids import EVERY_WORKFLOW
from recoup.model.run import RunState
from recoup.model.storage import Bucket, RunRow
from recoup.reports.spoken import lasting

SPANS: Final = {"24h": (3_600, 24), "7d": (43_200, 14), "30d": (86_400, 30)}
"""By name: how long one part is, in seconds, and how many there are."""
_TILES: Final = (
    ("running", "running"), ("queued", "queued"), ("waiting", "waiting"), ("escalated", "escalated"),
    ("blocked", "blocked"), ("failed", "failed"), ("dead_letter", "dead letters"), ("succeeded", "succeeded"),
    ("cancelled", "cancelled"),
)  # fmt: skip
_LOUD: Final = frozenset({"escalated", "blocked", "failed", "dead_letter", "waiting"})
_MODES: Final = {
    "paused": "workflow paused",
    "quarantined": "workflow stopped",
    "rollback": "workflow rolled back",
    "unreadable": "workflow unreadable",
}


class Tile(msgspec.Struct, frozen=True):
    status: str
    words: str
    count: str
    tone: str
    address: str


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a person has to do something about."""

    what: str
    workflow: str
    """Empty: all of them, or none."""
    run_id: str = ""
    address: str = ""
    """Where it is dealt with, if that is on a page of its own."""
    name: str = ""
    """Of what is there."""
    reason: str
    since: str | None
    advice: tuple[Advice, ...]


class Running(msgspec.Struct, frozen=True, kw_only=True):
    run_id: str
    workflow: str
    step: str
    attempt: int
    done: str
    for_: str
    worker: str


class HealLine(msgspec.Struct, frozen=True):
    at_us: int
    workflow: str
    run_id: str
    step_id: str
    words: str


def tiles(counts: Mapping[str, int]) -> list[Tile]:
    """Nothing that is not there shouts."""
    made = []
    for status, words in _TILES:
        count = counts.get(status, 0)
        loud = count and (status in _LOUD or status in ("running", "succeeded"))
        address = RunsQuery().toggled("status", status)
        made.append(Tile(status, words, f"{count:,}", tone(status) if loud else "plain", address))
    return made


def waiting_run(row: RunRow, state: RunState | None) -> Waiting | None:
    """None: nobody has to do anything; it waits for a time, or for a driver."""
    if row.status == "escalated":
        what = "escalation"
    elif state is None:
        return None
    elif state.hold.waiting_for == "approval":
        what = "approval"
    elif state.hold.waiting_for == "operator":
        what = "taken over" if state.hold.takeover else "paused"
    elif state.hold.waiting_for == "driver" and state.queueing.queue is None:
        what = "no driver"
    else:
        return None
    look = (Advice("See what to do", f"recoup show {row.run_id}"),)
    return Waiting(
        what=what,
        workflow=row.workflow,
        run_id=row.run_id,
        reason=row.reason,
        since=from_us(row.updated_at_us),
        advice=look if state is None else advice(state),
    )


def handed_over(item: Item) -> Waiting:
    """By a probe. What runs hand over is known by the runs."""
    return Waiting(
        what="escalation",
        workflow="",
        address=f"/escalations/{quote(item.id, safe='')}",
        name=f"probe {item.probe_id}",
        reason=item.reason,
        since=from_us(item.raised_at_us),
        advice=(Advice((item.hint or "See what was tried; fix the cause, then resolve it").rstrip(".")),),
    )


def asked_for(approval: Approval) -> Waiting:
    return Waiting(
        what="second person",
        workflow="",
        address="/approvals",
        name=f"{approval.action} of {approval.target}",
        reason=approval.reason,
        since=approval.asked_at,
        advice=(Advice(f"Asked for by {approval.asked_by}: approve or reject it"),),
    )


def stopped_workflow(mode: ModeDocument) -> Waiting | None:
    what = _MODES.get(mode.mode)
    if what is None:
        return None
    return Waiting(
        what=what,
        workflow="" if mode.workflow == EVERY_WORKFLOW else mode.workflow,
        reason=mode.reason,
        since=mode.since,
        advice=(Advice("See why on its page; put it back into running when the cause is fixed"),),
    )


def running(row: RunRow, how_far: Progress | None, worker: str, now_us: int) -> Running:
    step = how_far.step_id if how_far else ""
    since_us = (how_far.since_us if how_far else 0) or row.submitted_at_us
    return Running(
        run_id=row.run_id,
        workflow=row.workflow,
        step=step,
        attempt=how_far.attempt if how_far else 0,
        done=progress_words(how_far),
        for_=lasting(max(0, now_us - since_us) / 1e6),
        worker=worker,
    )


def progress_words(how_far: Progress | None) -> str:
    return f"{how_far.done} of {how_far.total}" if how_far is not None and how_far.total else ""


def charts(buckets: Sequence[Bucket], bucket_us: int) -> list[Markup]:
    """What ended, what healed, how long recovering took."""
    labels = [_label(bucket.start_us, bucket_us) for bucket in buckets]
    good = [bucket.ended.get("succeeded", 0) for bucket in buckets]
    bad = [bucket.ended.get("failed", 0) + bucket.ended.get("dead_letter", 0) for bucket in buckets]
    healed = [bucket.heals for bucket in buckets]
    took = [bucket.recovery_p50_s for bucket in buckets]
    return [
        stacked_bars("Runs that ended", labels, [Series("succeeded", good, "passed"), Series("failed", bad, "failed")]),
        bars("Heals", list(zip(labels, healed, strict=True)), tone="open", unit="heals"),
        line("Time to recover, median", labels, [Series("median", took, "backoff")], spoken=_short),
    ]  # fmt: skip


def _short(seconds: float) -> str:
    return f"{number(seconds)} s" if seconds < 60 else f"{number(round(seconds / 60, 1))} min"


def _label(start_us: int, bucket_us: int) -> str:
    at = datetime.fromtimestamp(start_us / 1e6, UTC)
    return f"{at:%H:%M}" if bucket_us < 43_200_000_000 else f"{at:%b} {at.day}"
