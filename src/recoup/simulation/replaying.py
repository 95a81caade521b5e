"""Recorded ledgers under another policy: reads, asks the kernel, and counts. Runs are taken one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import msgspec

from recoup.damage import state_after
from recoup.errors import EventUnreadable, NotFound
from recoup.kernel.policies import step_policy
from recoup.kernel.whatif import REPLAYED, Policies, Replayed, differing_keys, replay
from recoup.kernel.whatif_modes import (
    WorkflowReplay,
    as_it_was,
    begins,
    blocked,
    heard,
    judge,
    not_recorded,
    not_replayed,
)
from recoup.model import events as ev
from recoup.model.answers.whatif import (
    DifferenceKind,
    ReplayedRun,
    WhatIfAnswer,
    WorkflowModes,
    WorkflowTally,
)
from recoup.model.events import Event, decode_payload
from recoup.model.ids import EVERY_WORKFLOW, run_stream, workflow_stream
from recoup.model.policy import Policy
from recoup.model.storage import Arrival, RunFilter, RunRow
from recoup.ports import Ledger
from recoup.streams import pages

RUNS_MAX = 10_000
SHOWN_MAX = 10
_PAGE = 5_000
_RUN, _WORKFLOW = run_stream(""), workflow_stream("")
_VERDICTS = ("same", "other_wait", "stops_earlier", "goes_on", "unknown")
_LOOKED_AT = frozenset(
    {
        *(ev.RunSubmitted.TYPE, ev.AttemptStarted.TYPE, ev.RunBlocked.TYPE),
        *(ev.WorkflowStepResult.TYPE, ev.WorkflowModeChanged.TYPE, ev.WorkflowBootSeen.TYPE),
        ev.WorkflowProbePermitted.TYPE,
    }
)


class Tally(msgspec.Struct, kw_only=True):
    """What would have become of the runs of one workflow."""

    workflow: str
    runs: int = 0
    verdicts: dict[str, int] = {}
    decisions: int = 0
    attempts_saved: int = 0
    seconds_saved: float = 0
    seconds_spent: float = 0
    recoveries_lost: int = 0
    more_attempts_max: int = 0
    """The bounds of all unknown futures that go on longer, together."""


class WhatIf(msgspec.Struct, kw_only=True):
    """The answer."""

    policy_digest: str
    runs: int = 0
    cut: bool = False
    """There are more runs; the newest were looked at."""
    complete: bool = True
    """False: whoever asked had enough before all of them were looked at."""
    workflows: list[Tally] = []
    modes: list[WorkflowModes] = []
    most_different: list[Replayed] = []
    different: list[Replayed] = []
    unseen_keys: list[str] = []
    """Keys that differ and of which nothing can be seen in what was recorded."""
    unreadable: list[str] = []
    """Runs that were left out: an event of theirs cannot be read, or is missing."""

    @property
    def same(self) -> bool:
        return not self.different and not modes_that_differ(self)


async def what_if(
    ledger: Ledger,
    new: Policy,
    digest: str,
    *,
    workflow: str | None = None,
    since_us: int | None = None,
    runs_max: int = RUNS_MAX,
    enough: Callable[[], bool] = lambda: False,
) -> WhatIf:
    """Under `new`: the runs submitted since then (wall time), and the modes of their workflows; until it is enough."""
    wanted = RunFilter(workflow=workflow, since_us=since_us or 0)
    page = await ledger.runs(wanted, limit=runs_max)
    found = WhatIf(policy_digest=digest, cut=page.behind is not None)
    rows = page.rows
    if runs_max < RUNS_MAX and rows and since_us is None:
        since_us = min(row.submitted_at_us for row in rows)
    bodies = Bodies(ledger)
    tallies: dict[str, Tally] = {}
    unseen: set[str] = set()
    for row in rows:
        if enough():
            found.complete = False
            break
        try:
            one, keys = await _replayed(ledger, row, bodies, new)
        except (EventUnreadable, NotFound):
            found.unreadable.append(row.run_id)
            continue
        unseen |= keys
        found.runs += 1
        _count(tallies.setdefault(row.workflow, Tally(workflow=row.workflow)), one)
        if one.differences:
            found.different.append(one)
    found.workflows = sorted(tallies.values(), key=lambda tally: tally.workflow)
    found.most_different = sorted(found.different, key=_how_different, reverse=True)[:SHOWN_MAX]
    found.unseen_keys = sorted(unseen)
    modes = await _modes(ledger, new, bodies, set(tallies), since_us, enough)
    found.modes = [_modes_document(one) for one in modes or ()]
    found.complete = found.complete and modes is not None
    return found


def what_if_document(found: WhatIf) -> WhatIfAnswer:
    return WhatIfAnswer(
        same=found.same,
        policy_digest=found.policy_digest,
        runs=found.runs,
        cut=found.cut,
        complete=found.complete,
        workflows=[msgspec.convert(tally, WorkflowTally, from_attributes=True) for tally in found.workflows],
        modes=found.modes,
        most_different=[run.run_id for run in found.most_different],
        different=[msgspec.convert(run, ReplayedRun, from_attributes=True) for run in found.different],
        unseen_keys=found.unseen_keys,
        unreadable=found.unreadable,
    )


class Bodies:
    """The recorded policies, each read once."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._known: dict[str, Policy | None] = {}

    async def learn(self, events: Sequence[Event]) -> Policies:
        for event in events:
            digest = getattr(event.payload, "policy_digest", None)
            if digest is not None and digest not in self._known:
                body = await self._ledger.policy_body(digest)
                self._known[digest] = _policy(body) if body is not None else None
        return self._known.get

    def known(self, digest: str) -> Policy | None:
        """Of those that a run which was looked at has named."""
        return self._known.get(digest)


def _policy(body: bytes) -> Policy | None:
    try:
        return msgspec.json.decode(body, type=Policy)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None  # damaged, or of a version with other keys: what it decided cannot be decided again


async def _replayed(ledger: Ledger, row: RunRow, bodies: Bodies, new: Policy) -> tuple[Replayed, set[str]]:
    """And the keys that differ unseen."""
    events = await _events(ledger, row.run_id)
    if not events:
        raise NotFound(f"run {row.run_id} has no events", hint="See what is left of it: recoup show RUN")
    state = state_after(row.run_id, events)
    policies = await bodies.learn(events)
    keys: set[str] = set()
    for step in state.plan.steps:
        old = policies(state.submission.policy_digest)
        if old is not None:
            old, now = step_policy(old, state.plan, step), step_policy(new, state.plan, step)
            keys |= differing_keys(now, old) - REPLAYED
    return replay(row.run_id, events, policies, new), keys


async def _events(ledger: Ledger, run_id: str) -> list[Event]:
    return [event async for page in pages(ledger.read, run_stream(run_id)) for event in page]


def _count(tally: Tally, one: Replayed) -> None:
    tally.runs += 1
    tally.decisions += one.decisions
    tally.verdicts = {name: tally.verdicts.get(name, 0) + (name == one.verdict) for name in _VERDICTS}
    for difference in one.differences:
        tally.attempts_saved += difference.attempts_saved
        tally.seconds_saved += max(0.0, difference.seconds_saved)
        tally.seconds_spent += max(0.0, -difference.seconds_saved)
        tally.recoveries_lost += difference.recovery_lost
        tally.more_attempts_max += difference.more_attempts_max or 0


def _how_different(one: Replayed) -> tuple[bool, int, float, str]:
    last = one.differences[-1]
    seconds = sum(abs(difference.seconds_saved) for difference in one.differences)
    unknown = last.kind is not DifferenceKind.OTHER_WAIT
    return (
        last.recovery_lost,
        last.attempts_saved + (last.more_attempts_max or 0) + unknown,
        seconds,
        one.run_id,
    )


# Modes


async def _modes(
    ledger: Ledger,
    new: Policy,
    bodies: Bodies,
    names: set[str],
    since_us: int | None,
    enough: Callable[[], bool],
) -> list[WorkflowReplay] | None:
    """All events in the order of their arrival: the starts of attempts stand among the results that they follow. None:
    it was enough before all of them were read."""
    if not names:
        return []
    replays = {name: WorkflowReplay(workflow=name) for name in sorted(names)}
    of_run: dict[str, tuple[str, Policy]] = {}
    open_: WorkflowReplay | None = None
    after = 0
    while True:
        if enough():
            return None
        page = await ledger.arrivals(after, _PAGE)
        for one in page:
            if open_ is not None and not _goes_with(open_, one):
                judge(open_, new)
                open_ = None
            if one.type in _LOOKED_AT:
                open_ = _hear(replays, of_run, one, new, bodies, since_us)
        if len(page) < _PAGE:
            break
        after = page[-1].number
    if open_ is not None:
        judge(open_, new)
    return list(replays.values())


def _goes_with(open_: WorkflowReplay, one: Arrival) -> bool:
    """A second result of the same commit: that an attempt failed, and then its step."""
    return one.type == ev.WorkflowStepResult.TYPE and one.stream == workflow_stream(open_.workflow)


def _hear(
    replays: dict[str, WorkflowReplay],
    of_run: dict[str, tuple[str, Policy]],
    one: Arrival,
    new: Policy,
    bodies: Bodies,
    since_us: int | None,
) -> WorkflowReplay | None:
    """The workflow with results that are to be judged before the next event, if there is one."""
    try:
        payload = decode_payload(one.type, one.payload.data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    if one.stream.startswith(_WORKFLOW):
        replay_ = replays.get(one.stream.removeprefix(_WORKFLOW))
        if replay_ is None:
            return None
        if since_us is not None and one.at.wall_us < since_us:
            as_it_was(replay_, payload, one.at)
            return None
        heard(replay_, payload, one.at, new)
        return replay_ if replay_.unjudged is not None else None
    run_id = one.stream.removeprefix(_RUN)
    if isinstance(payload, ev.RunSubmitted):
        if payload.workflow in replays:
            of_run[run_id] = payload.workflow, bodies.known(payload.policy_digest) or new
    elif run_id in of_run and (since_us is None or one.at.wall_us >= since_us):
        workflow, old = of_run[run_id]
        replay_ = replays[workflow]
        if isinstance(payload, ev.AttemptStarted):
            begins(replay_, run_id, payload, one.at, new)
        elif isinstance(payload, ev.RunBlocked) and not payload.reason.startswith("every workflow"):
            blocked(replay_, run_id, one.at, new, old)
    return None


def _modes_document(one: WorkflowReplay) -> WorkflowModes:
    assert one.workflow != EVERY_WORKFLOW
    return WorkflowModes(
        workflow=one.workflow,
        results=one.results,
        recorded=dict(Counter(change.mode.value for change in one.recorded)),
        replayed=dict(Counter(change.mode.value for change in one.replayed)),
        would_have_begun=not_recorded(one),
        would_not_have_begun=not_replayed(one),
        attempts_blocked=one.withheld_count,
        blocked=one.withheld,
        runs_not_blocked=one.let_go_count,
        not_blocked=one.let_go,
    )


def modes_that_differ(found: WhatIf) -> list[WorkflowModes]:
    return [modes for modes in found.modes if modes.differs]
