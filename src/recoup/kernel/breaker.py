"""When a workflow slows down, hardens, stops and asks: its mode as a fold of step results, plus the time.

One failure counts per failed step result, not per attempt, and none for steps that were blocked or cancelled. Every
change of mode names the events that caused it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from recoup.kernel.elapsed import elapsed_s
from recoup.model.events import (
    MemoryRollback,
    MemorySnapshot,
    Payload,
    WorkflowBootSeen,
    WorkflowModeChanged,
    WorkflowProbePermitted,
    WorkflowStepResult,
)
from recoup.model.instant import Instant
from recoup.model.mode import FailedResult, Health, Lesson, Mode, Moment, Permit, Refusal
from recoup.model.policy import FAILURES_MAX, Policy

STEPS_MAX = 200
BOOTS_MAX = 32
"""So much is remembered at most."""
ROLLBACK_S = 60.0
"""A rollback is done in moments; if nobody does it, the workflow goes on degraded and the next driver does."""
CAUSES_MAX = 20
"""Of a pause of all workflows: events of each that are named, and workflows."""
ELSEWHERE_MAX = 1_000
"""Workflows of which it is remembered how far their failures have led to such a pause."""

_replace = msgspec.structs.replace


class Standing(msgspec.Struct, frozen=True):
    """The mode at a moment: time alone may have ended the one that the events left."""

    mode: Mode
    half_open: bool = False
    left_s: float | None = None
    """How long it lasts still, where that is known."""
    over: bool = False
    """Time has ended what the events say; no event says so yet."""


class Ruling(msgspec.Struct, frozen=True):
    """What is to be appended to the workflow's stream, and whether something may begin."""

    payloads: tuple[Payload, ...] = ()
    refusal: Refusal | None = None


def rule(
    health: Health,
    policy: Policy,
    now: Instant,
    seq: int,
    *,
    ended: bool,
    begins: str | None = None,
    probes: bool = True,
    digest: str | None = None,
) -> Ruling:
    """After the events up to `seq`: what follows from step results, if some have just come in (`ended`), and whether
    a step of the run `begins` may begin. What only cleans up after a step says nothing about it (`probes`)."""
    if _all_is_well(health, now, ended):
        return _NOTHING
    told: list[Payload] = []

    def tell(payload: Payload) -> Health:
        told.append(payload)
        return fold_health(health, payload, now, seq + len(told))

    if health.boots.get(now.boot_id) is None:
        health = tell(WorkflowBootSeen(boot_id=now.boot_id))
    if ended and (change := next_mode(health, policy, now, digest)) is not None:
        counters = failure_counts(health, policy, now)
        health = tell(_replace(change, causes=change.causes or (seq,), counters=counters))
    if begins is None:
        return Ruling(tuple(told))
    at = standing(health, now)
    if at.over:
        health = tell(_replace(_ended(health, at, digest), counters=failure_counts(health, policy, now)))
    if not probes:
        return Ruling(tuple(told), Refusal(at.mode, health.reason, at.left_s) if at.mode.stops else None)
    refusal = refused(health, policy, begins, now)
    if refusal is None and at.half_open and not _may_probe(health, policy, begins, now):
        tell(WorkflowProbePermitted(run_id=begins))
    return Ruling(tuple(told), refusal)


_NOTHING = Ruling()


def _all_is_well(health: Health, now: Instant, ended: bool) -> bool:
    """As almost always, and asked in every commit: it runs, for no limited time, and what came in did not fail."""
    lasting = health.mode is Mode.RUNNING and health.for_s is None
    return lasting and now.boot_id in health.boots and not (ended and health.recent.endswith("x"))


def ends_a_step(result: WorkflowStepResult) -> bool:
    """Whether it says something about the step: an attempt that is tried again does not, nor does a failure that only
    caution caused. What came in before it was judged then."""
    return result.result in ("passed", "recovered") or (result.result == "failed" and result.counts)


def standing(health: Health, now: Instant) -> Standing:
    if health.for_s is None or health.since is None:
        return Standing(health.mode, health.half_open)
    left_s = health.for_s - _age_s(health, health.since, now, health.for_s)
    if left_s > 0:
        return Standing(health.mode, health.half_open, left_s)
    if health.mode is Mode.QUARANTINED:
        return Standing(Mode.DEGRADED, half_open=True, over=True)
    return Standing(Mode.DEGRADED if health.mode is Mode.ROLLBACK else Mode.RUNNING, over=True)


def refused(health: Health, policy: Policy, run_id: str | None, now: Instant) -> Refusal | None:
    """Why no step of this run may begin now. None: it may."""
    at = standing(health, now)
    if at.mode.stops:
        return Refusal(at.mode, health.reason, at.left_s)
    if at.half_open and not _may_probe(health, policy, run_id, now):
        permits = _valid_permits(health, policy, now)
        if len(permits) >= policy.half_open_probes:
            probing = ", ".join(permit.run_id for permit in permits)
            reason = f"half_open_probes: the quarantine is over and may be probed by {probing} only"
            return Refusal(Mode.QUARANTINED, reason, _soonest_s(health, policy, permits, now))
    return None


def next_mode(
    health: Health, policy: Policy, now: Instant, digest: str | None = None
) -> WorkflowModeChanged | None:
    """The change that follows from the last step result, if one does."""
    at = standing(health, now)
    held = health.forced and not at.over
    if at.mode.stops or not health.recent or (held and at.mode is Mode.RUNNING):
        return None
    if not health.recent.endswith("x"):
        if (
            health.mode is Mode.DEGRADED
            and not (held or at.over)
            and health.clean >= policy.degraded_clean_steps
        ):
            words = f"degraded_clean_steps: {health.clean} step results in a row that did not fail"
            return _changed(health, Mode.RUNNING, words, (), None, digest)
        return None
    if (worse := regression(health, policy)) is not None:
        return _changed(health, Mode.ROLLBACK, worse, (), ROLLBACK_S, digest)
    if (why := _quarantine(health, policy, at, now)) is not None:
        return _changed(health, Mode.QUARANTINED, *why, policy.quarantine_duration_s, digest)
    if at.mode is Mode.RUNNING and (why := _degrade(health, policy)) is not None:
        return _changed(health, Mode.DEGRADED, *why, None, digest)
    return None


def next_global_mode(
    everywhere: Health, healths: Mapping[str, Health], policy: Policy, now: Instant, digest: str | None = None
) -> WorkflowModeChanged | None:
    """The pause of all workflows, when too many steps failed in too many of them."""
    at = standing(everywhere, now)
    if not policy.global_pause or at.mode.stops or (everywhere.forced and not at.over):
        return None
    window_s = policy.global_fail_window_s
    since = everywhere.since.at if everywhere.since else None
    failed = {
        name: seqs
        for name, health in healths.items()
        if (
            seqs := _counted_globally(health, everywhere.counted_elsewhere.get(name, 0), since, now, window_s)
        )
    }
    total = sum(map(len, failed.values()))
    if total < policy.global_fail_max_in_window or len(failed) < policy.global_workflows_min:
        return None
    worst = sorted(failed, key=lambda name: -len(failed[name]))
    most = ", ".join(worst[:5])
    words = f"global_fail_max_in_window: {total} failed steps in {len(failed)} workflows within {window_s:g} s ({most})"
    causes = {name: failed[name][-CAUSES_MAX:] for name in worst[:CAUSES_MAX]}
    return _replace(_changed(everywhere, Mode.PAUSED, words, (), None, digest), causes_elsewhere=causes)


def failure_counts(health: Health, policy: Policy, now: Instant) -> dict[str, int]:
    """What the thresholds are compared with."""
    window_s = policy.workflow_fail_window_s
    return {
        "stepStreak": max((len(streak) for streak in health.streaks.values()), default=0),
        "failuresInWindow": sum(_counts(health, one, window_s, now) for one in health.failures),
        "failuresInCount": health.recent[-policy.workflow_count_window :].count("x"),
        "resultsCounted": len(health.recent[-policy.workflow_count_window :]),
        "cleanResults": health.clean,
        "probes": len(_valid_permits(health, policy, now)),
    }


def fold_health(health: Health, payload: Payload, at: Instant, seq: int) -> Health:
    """One event of the workflow's stream further."""
    if health.boots.get(at.boot_id) is None:
        boots = dict([*health.boots.items(), (at.boot_id, Moment(seq, at))][-BOOTS_MAX:])
        health = _replace(health, boots=boots)
    if isinstance(payload, WorkflowStepResult):  # almost all of them are
        if payload.result in ("passed", "recovered"):
            return _clean(health, payload)
        return _failed(health, payload, Moment(seq, at)) if ends_a_step(payload) else health
    match payload:
        case WorkflowModeChanged():
            return _entered(health, payload, Moment(seq, at))
        case WorkflowProbePermitted():
            kept = [permit for permit in health.permits if permit.run_id != payload.run_id]
            permits = (*kept, Permit(payload.run_id, Moment(seq, at)))[-STEPS_MAX:]
            return _replace(health, permits=permits)
        case MemorySnapshot():
            return _replace(health, lesson=Lesson(payload.version, before=health.recent))
        case MemoryRollback():
            return _replace(health, lesson=None)
    return health


def _failed(health: Health, payload: WorkflowStepResult, moment: Moment) -> Health:
    failure = FailedResult(moment, payload.step_id, payload.run_id, payload.failure_kind)
    streaks = health.streaks.copy()
    streaks[payload.step_id] = (*streaks.pop(payload.step_id, ()), moment.seq)[-FAILURES_MAX:]
    if len(streaks) > STEPS_MAX:
        del streaks[next(iter(streaks))]
    return _replace(
        health,
        streaks=streaks,
        failures=(*health.failures, failure)[-FAILURES_MAX:],
        recent=(health.recent + "x")[-FAILURES_MAX:],
        clean=0,
        lesson=_since(health.lesson, "x"),
    )


def _clean(health: Health, payload: WorkflowStepResult) -> Health:
    streaks = health.streaks
    if payload.step_id in streaks:
        streaks = {step: streak for step, streak in streaks.items() if step != payload.step_id}
    recent = (health.recent + ".")[-FAILURES_MAX:]
    half_open = health.half_open and not _was_permitted(health, payload.run_id)
    return _replace(
        health,
        streaks=streaks,
        recent=recent,
        clean=health.clean + 1,
        half_open=half_open,
        lesson=_since(health.lesson, "."),
    )


def _since(lesson: Lesson | None, result: str) -> Lesson | None:
    return lesson and _replace(lesson, since=(lesson.since + result)[-FAILURES_MAX:])


def _entered(health: Health, payload: WorkflowModeChanged, moment: Moment) -> Health:
    """What led here is spent: the next stop needs causes of its own."""
    spent = payload.mode in (Mode.QUARANTINED, Mode.RUNNING)
    return _replace(
        health,
        mode=payload.mode,
        since=moment,
        for_s=payload.for_s,
        forced=payload.forced,
        half_open=payload.half_open,
        reason=payload.reason,
        causes=payload.causes,
        counters=payload.counters,
        streaks={} if spent else health.streaks,
        counted_from=moment.seq if spent else health.counted_from,
        counted_elsewhere=_with_latest(health.counted_elsewhere, payload.causes_elsewhere),
        recent="" if spent else health.recent,
        clean=0,
        permits=(),
        lesson=_replace(health.lesson, due=True)
        if health.lesson and payload.mode is Mode.ROLLBACK
        else health.lesson,
    )


def _with_latest(counted: dict[str, int], causes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    if not causes:
        return counted
    known = {name: seq for name, seq in counted.items() if name not in causes}
    known |= {name: seqs[-1] for name, seqs in causes.items() if seqs}
    return dict(list(known.items())[-ELSEWHERE_MAX:])


def _quarantine(
    health: Health, policy: Policy, at: Standing, now: Instant
) -> tuple[str, tuple[int, ...]] | None:
    last = health.failures[-1]
    if at.half_open and _was_permitted(health, last.run_id):
        return "a probe failed after the quarantine", (last.moment.seq,)
    most, window_s = policy.workflow_fail_max_in_window, policy.workflow_fail_window_s
    if len(health.failures) >= most and _counts(health, health.failures[-most], window_s, now):
        words = f"workflow_fail_max_in_window: {most} failed steps within {window_s:g} s"
        return words, tuple(one.moment.seq for one in health.failures[-most:])
    counted = health.recent[-policy.workflow_count_window :]
    failed = counted.count("x")
    if len(counted) >= policy.workflow_count_min and failed >= policy.workflow_fail_ratio * len(counted):
        words = f"workflow_fail_ratio: {failed} of the last {len(counted)} steps failed"
        return words, tuple(one.moment.seq for one in health.failures[-failed:])
    return None


def regression(health: Health, policy: Policy) -> str | None:
    """Why what was learned last is to be taken back, in words: more steps fail with it than did before."""
    lesson = health.lesson
    if lesson is None or lesson.due or not policy.rollback_on_regression:
        return None
    since = lesson.since[-policy.regression_window_steps :]
    ratio, before = failed_ratio(since), failed_ratio(lesson.before[-policy.regression_window_steps :])
    if len(since) < policy.regression_window_steps or ratio < policy.regression_fail_ratio or ratio <= before:
        return None
    return (
        f"regression_fail_ratio: {ratio:.0%} of the last {len(since)} steps failed,"
        f" {before:.0%} before {lesson.version}"
    )


def failed_ratio(results: str) -> float:
    return results.count("x") / len(results) if results else 0.0


def _degrade(health: Health, policy: Policy) -> tuple[str, tuple[int, ...]] | None:
    step_id = health.failures[-1].step_id
    streak = health.streaks.get(step_id, ())
    if len(streak) < policy.step_fail_streak_to_degraded:
        return None
    return f"step_fail_streak_to_degraded: {step_id} failed {len(streak)} times in a row", streak


def _counts(health: Health, failure: FailedResult, window_s: float, now: Instant) -> bool:
    """Those that came after one that counts do so too."""
    moment = failure.moment
    return moment.seq > health.counted_from and _age_s(health, moment, now, window_s) < window_s


def _counted_globally(
    health: Health, after: int, since: Instant | None, now: Instant, window_s: float
) -> tuple[int, ...]:
    """Within the window, and not before all workflows were last let go: that is of another stream, so time tells.
    Where a clock was set back it does not, so none counts up to the one (`after`) that led to an earlier pause."""
    counted_s = window_s if since is None else elapsed_s(since, now, window_s)
    recent = [failure.moment for failure in health.failures if failure.moment.seq > after]
    return tuple([moment.seq for moment in recent if _age_s(health, moment, now, window_s) < counted_s])


def _ended(health: Health, at: Standing, digest: str | None) -> WorkflowModeChanged:
    assert health.since is not None
    words = f"{health.mode} is over after {health.for_s:g} s"
    causes = (health.since.seq,)
    return _changed(health, at.mode, words, causes, None, digest, half_open=at.half_open)


def _changed(
    health: Health,
    mode: Mode,
    reason: str,
    causes: Iterable[int],
    for_s: float | None,
    digest: str | None,
    *,
    half_open: bool = False,
) -> WorkflowModeChanged:
    return WorkflowModeChanged(
        mode=mode,
        previous=health.mode,
        reason=reason,
        causes=tuple(causes),
        for_s=for_s,
        half_open=half_open,
        policy_digest=digest,
    )


def _may_probe(health: Health, policy: Policy, run_id: str | None, now: Instant) -> bool:
    return any(permit.run_id == run_id for permit in _valid_permits(health, policy, now))


def _was_permitted(health: Health, run_id: str) -> bool:
    """Also one whose permit has expired since: a step that was begun before the quarantine proves nothing."""
    return any(permit.run_id == run_id for permit in health.permits)


def _valid_permits(health: Health, policy: Policy, now: Instant) -> list[Permit]:
    span_s = policy.half_open_permit_s
    return [one for one in health.permits if _age_s(health, one.moment, now, span_s) < span_s]


def _soonest_s(health: Health, policy: Policy, permits: Iterable[Permit], now: Instant) -> float:
    span_s = policy.half_open_permit_s
    return min(span_s - _age_s(health, permit.moment, now, span_s) for permit in permits)


def _age_s(health: Health, moment: Moment, now: Instant, period_s: float) -> float:
    """Across boots the wall clock may have been set back: something that was seen in this boot is a lower bound."""
    age_s = elapsed_s(moment.at, now, period_s)
    seen = health.boots.get(now.boot_id)
    if seen is None or seen.seq <= moment.seq or moment.at.boot_id == now.boot_id:
        return age_s
    return max(age_s, elapsed_s(seen.at, now, period_s))
