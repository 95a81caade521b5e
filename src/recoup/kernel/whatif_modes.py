"""The modes that workflows would have had under another policy, from their recorded step results and the starts of
attempts, in the order in which they arrived."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from recoup.kernel.breaker import ends_a_step, fold_health, refused, rule
from recoup.model import events as ev
from recoup.model.answers.whatif import LetGo, ModeChange, Withheld
from recoup.model.instant import Instant
from recoup.model.mode import Health, Mode
from recoup.model.policy import Policy

KEPT_MAX = 1_000
"""Of each list; what is beyond is counted only."""


class WorkflowReplay(msgspec.Struct, kw_only=True):
    """One workflow under another policy. Written by the functions below only."""

    workflow: str
    health: Health = Health()
    seq: int = 0
    then: Health = Health()
    """As it was recorded."""
    then_seq: int = 0
    results: int = 0
    unjudged: Instant | None = None
    """Step results have come in about which nothing was said yet."""
    ended: bool = False
    """One of them ends a step."""
    recorded: list[ModeChange] = []
    replayed: list[ModeChange] = []
    withheld: list[Withheld] = []
    withheld_count: int = 0
    let_go: list[LetGo] = []
    let_go_count: int = 0
    stopped: set[str] = set()
    """Runs that would have been blocked: nothing that they did afterwards is counted."""


def as_it_was(one: WorkflowReplay, payload: ev.Payload, at: Instant) -> None:
    """An event of the workflow's stream from before the time that is looked at."""
    _fold_as_recorded(one, payload, at)
    one.health, one.seq = one.then, one.then_seq


def heard(one: WorkflowReplay, payload: ev.Payload, at: Instant, new: Policy) -> None:
    """An event of the workflow's stream. Results are judged when those that came with them are known: `judge`."""
    _fold_as_recorded(one, payload, at)
    match payload:
        case ev.WorkflowStepResult():
            if payload.run_id not in one.stopped:
                one.results += 1
                _fold(one, payload, at)
                one.unjudged = at
                one.ended = one.ended or ends_a_step(payload)
        case ev.WorkflowModeChanged(forced=True) | ev.WorkflowModeChanged(actor=str()):
            _fold(one, msgspec.structs.replace(payload, previous=one.health.mode), at)
        case ev.WorkflowModeChanged():
            _keep(one.recorded, ModeChange(at.iso(), payload.mode, payload.reason))
            if payload.mode in (Mode.DEGRADED, Mode.RUNNING):
                _somebody_asked(one, at, new)
        case _:
            pass


def judge(one: WorkflowReplay, new: Policy) -> None:
    """After the last result of one commit."""
    at, ended = one.unjudged, one.ended
    one.unjudged, one.ended = None, False
    if at is not None:
        _tell(one, rule(one.health, new, at, one.seq, ended=ended).payloads, at)


def begins(one: WorkflowReplay, run_id: str, start: ev.AttemptStarted, at: Instant, new: Policy) -> None:
    """An attempt of one of its runs was begun."""
    if run_id in one.stopped or start.kind == "approve":
        return
    probes = start.phase != "always"
    ruling = rule(one.health, new, at, one.seq, ended=False, begins=run_id, probes=probes)
    _tell(one, ruling.payloads, at)
    if ruling.refusal is None:
        return
    one.stopped.add(run_id)
    one.withheld_count += 1
    if len(one.withheld) < KEPT_MAX:
        one.withheld.append(Withheld(at.iso(), run_id, start.step_id, start.attempt, ruling.refusal.mode))


def blocked(one: WorkflowReplay, run_id: str, at: Instant, new: Policy, old: Policy) -> None:
    """A run was blocked for its workflow's mode; or had been refused a moment ago, and by now would not be."""
    if refused(one.then, old, run_id, at) is None:
        return
    if run_id in one.stopped or refused(one.health, new, run_id, at) is not None:
        return
    one.let_go_count += 1
    if len(one.let_go) < KEPT_MAX:
        one.let_go.append(LetGo(at.iso(), run_id))


def not_recorded(one: WorkflowReplay) -> list[ModeChange]:
    """Changes that would have been, and were not."""
    then = {(change.at, change.mode) for change in one.recorded}
    return [change for change in one.replayed if (change.at, change.mode) not in then]


def not_replayed(one: WorkflowReplay) -> list[ModeChange]:
    """Changes that were, and would not have been."""
    now = {(change.at, change.mode) for change in one.replayed}
    return [change for change in one.recorded if (change.at, change.mode) not in now]


def _somebody_asked(one: WorkflowReplay, at: Instant, new: Policy) -> None:
    """A mode whose time was over was ended because a run wanted to begin, whether it then could or not."""
    ruling = rule(one.health, new, at, one.seq, ended=False, begins="")
    changes = [payload for payload in ruling.payloads if isinstance(payload, ev.WorkflowModeChanged)]
    _tell(one, changes, at)


def _tell(one: WorkflowReplay, payloads: Iterable[ev.Payload], at: Instant) -> None:
    for payload in payloads:
        if isinstance(payload, ev.WorkflowModeChanged):
            _keep(one.replayed, ModeChange(at.iso(), payload.mode, payload.reason))
        _fold(one, payload, at)


def _fold_as_recorded(one: WorkflowReplay, payload: ev.Payload, at: Instant) -> None:
    one.then_seq += 1
    one.then = fold_health(one.then, payload, at, one.then_seq)


def _fold(one: WorkflowReplay, payload: ev.Payload, at: Instant) -> None:
    one.seq += 1
    one.health = fold_health(one.health, payload, at, one.seq)


def _keep(kept: list[ModeChange], change: ModeChange) -> None:
    if len(kept) < KEPT_MAX:
        kept.append(change)
