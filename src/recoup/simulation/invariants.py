"""What must be true of a ledger, whatever happened. Each looks at recorded events alone and thinks slowly: nothing here
is shared with what it checks but the events themselves."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import zip_longest

import msgspec

from recoup.kernel.controls import CONTROLS
from recoup.kernel.controls.gates import APPROVE
from recoup.kernel.controls.kind import FORCE, Hold
from recoup.kernel.controls.settlement import NOT_DONE, SETTLE
from recoup.kernel.projection import rebuild
from recoup.kernel.whatif import decisions
from recoup.kernel.workflow import rebuild_workflow
from recoup.model import events as ev
from recoup.model.events import Event, decode_payload
from recoup.model.ids import EVERY_WORKFLOW, run_stream, workflow_stream
from recoup.model.mode import Mode
from recoup.model.plan import ApproveAction, Repeat
from recoup.model.policy import Policy
from recoup.ports import Ledger

BROKEN_MAX = 100
_PAGE = 10_000
_RUN, _WORKFLOW = run_stream(""), workflow_stream("")


class Arrived(msgspec.Struct, frozen=True, gc=False):
    number: int
    event: Event


class Record(msgspec.Struct, kw_only=True):
    """A whole ledger, read once."""

    runs: dict[str, list[Arrived]]
    workflows: dict[str, list[Arrived]]
    policies: dict[str, Policy | None]
    """Every policy that an event names."""

    def submission(self, run_id: str) -> ev.RunSubmitted:
        payload = self.runs[run_id][0].event.payload
        assert isinstance(payload, ev.RunSubmitted), f"run {run_id} does not begin with its submission"
        return payload


async def read_record(ledger: Ledger) -> Record:
    record = Record(runs=defaultdict(list), workflows=defaultdict(list), policies={})
    after = 0
    while True:
        page = await ledger.arrivals(after, _PAGE)
        for one in page:
            raw = one.payload.data
            payload = decode_payload(one.type, raw)
            event = Event(one.stream, one.seq, one.at, one.type, payload, raw)
            if one.stream.startswith(_RUN):
                record.runs[one.stream.removeprefix(_RUN)].append(Arrived(one.number, event))
            elif one.stream.startswith(_WORKFLOW):
                record.workflows[one.stream.removeprefix(_WORKFLOW)].append(Arrived(one.number, event))
            if digest := getattr(payload, "policy_digest", None):
                record.policies[digest] = None
        if len(page) < _PAGE:
            break
        after = page[-1].number
    for digest in record.policies:
        body = await ledger.policy_body(digest)
        record.policies[digest] = msgspec.json.decode(body, type=Policy) if body is not None else None
    return record


def broken(record: Record) -> list[str]:
    """Every invariant that does not hold, in words; at most `BROKEN_MAX`."""
    found: list[str] = []
    for invariant in INVARIANTS:
        for words in invariant(record):
            found.append(f"{invariant.__name__}: {words}")
            if len(found) >= BROKEN_MAX:
                return found
    return found


def nothing_is_retried_without_budget(record: Record) -> Iterator[str]:
    """Attempts of a delivery, retries and resets of the run, tokens of the workflow: all by our own count."""
    tokens = {name: _tokens(events) for name, events in record.workflows.items()}
    for run_id, events in record.runs.items():
        workflow = record.submission(run_id).workflow
        series = tokens.get(workflow, ([], []))
        retries = resets = 0
        used: Counter[int] = Counter()
        last_failed: Arrived | None = None
        previous = 0
        for one in events:
            payload = one.event.payload
            match payload:
                case ev.RunResumed() | ev.RunStarted() if _begins_a_delivery(payload, events, one):
                    used.clear()
                case ev.AttemptFailed(not_begun=False, spared=False):
                    used[payload.step_index] += 1
                    last_failed = one
                case ev.AttemptFinished():
                    used[payload.step_index] += 1
                case ev.StepInvalidated():
                    used[payload.step_index] = 0
                case ev.ControlHandled(outcome="accepted"):
                    kind = CONTROLS[payload.action]
                    if kind.renews:
                        used.clear()  # of the step where the run stands; no other one is being tried
                    resets += kind.strategy == "hard_reset" and payload.argument != FORCE
                case ev.SelfHealTriggered() | ev.SelfHealEscalated():
                    policy = record.policies[payload.policy_digest or ""]
                    about = f"run {run_id}, event {one.event.seq}: {payload.step_id} is tried again"
                    if policy is not None:
                        if used[payload.step_index] >= policy.step_max_attempts:
                            yield f"{about} after {used[payload.step_index]} of {policy.step_max_attempts} attempts"
                        if retries >= policy.run_retries_max:
                            yield f"{about} after {retries} of {policy.run_retries_max} retries of the run"
                        if isinstance(payload, ev.SelfHealEscalated):
                            if resets >= policy.job_self_heal_max_resets:
                                yield f"{about} after {resets} of {policy.job_self_heal_max_resets} hard resets"
                            resets += 1
                        if last_failed is not None:
                            yield from _without_tokens(about, last_failed, previous, series, policy)
                    retries += 1
                case _:
                    pass
            if not isinstance(payload, ev.SelfHealTriggered | ev.SelfHealEscalated | ev.AttemptFailed):
                previous = one.number


def _begins_a_delivery(payload: ev.RunStarted | ev.RunResumed, events: list[Arrived], one: Arrived) -> bool:
    before = 0
    for other in events:
        if other is one:
            break
        if isinstance(other.event.payload, ev.RunStarted | ev.RunResumed):
            before = other.event.payload.delivery
    return payload.delivery != before


def _tokens(events: list[Arrived]) -> tuple[list[int], list[float]]:
    """How many tokens were spent after each result, by its number of arrival."""
    numbers, spent, value = [0], [0.0], 0.0
    for one in events:
        if isinstance(one.event.payload, ev.WorkflowStepResult):
            value = max(0.0, value + one.event.payload.tokens)
            numbers.append(one.number)
            spent.append(value)
    return numbers, spent


def _without_tokens(
    about: str, failed: Arrived, previous: int, series: tuple[list[int], list[float]], policy: Policy
) -> Iterator[str]:
    payload = failed.event.payload
    assert isinstance(payload, ev.AttemptFailed)
    saw = payload.retry_tokens
    if saw is None or saw < policy.retry_tokens / 2:
        yield f"{about} with {saw} of {policy.retry_tokens} tokens left"
        return
    numbers, spent = series
    first = max(0, bisect_left(numbers, previous) - 1)
    last = bisect_left(numbers, failed.number)
    true = [policy.retry_tokens - one - 1 for one in spent[first:last]]
    if not any(abs(saw - one) < 1e-6 for one in true):
        yield f"{about}, and {saw} tokens were never left"


def nothing_is_lost(record: Record) -> Iterator[str]:
    """A step that is done is not performed again, unless it was invalidated, or rebuilt in a restored workspace."""
    for run_id, events in record.runs.items():
        done: set[int] = set()
        restored = False
        for one in events:
            payload = one.event.payload
            match payload:
                case ev.AttemptStarted(phase="main" | "rescue") if payload.step_index in done:
                    yield f"run {run_id}, event {one.event.seq}: {payload.step_id} was done and is begun again"
                case ev.AttemptStarted(phase="rebuild") if not restored:
                    yield f"run {run_id}, event {one.event.seq}: {payload.step_id} is rebuilt without a restore"
                case ev.AttemptFinished(phase="main" | "rescue") | ev.StepReused():
                    done.add(payload.step_index)
                case ev.StepInvalidated():
                    done.discard(payload.step_index)
                case ev.CheckpointRestored():
                    restored = True
                case ev.RunSucceeded() if len(done) < len(record.submission(run_id).plan.steps):
                    yield f"run {run_id} succeeded with {len(done)} steps done"
                case _:
                    pass


def what_is_reused_was_proven(record: Record) -> Iterator[str]:
    """In the run that it is taken from, and at that moment."""
    for run_id, events in record.runs.items():
        for one in events:
            reused = one.event.payload
            if isinstance(reused, ev.StepReused) and not _good_then(record, reused, one.number):
                about = f"run {run_id}, event {one.event.seq}: {reused.step_id} is reused"
                yield f"{about}, and was not done in {reused.from_run_id}"


def _good_then(record: Record, reused: ev.StepReused, number: int) -> bool:
    good = False
    for one in record.runs.get(reused.from_run_id, []):
        payload = one.event.payload
        if one.number >= number:
            break
        if isinstance(payload, ev.StepPayload) and payload.step_index == reused.step_index:
            proven = isinstance(payload, ev.AttemptFinished) and payload.phase in ("main", "rescue")
            good = good or proven or isinstance(payload, ev.StepReused | ev.StepSkipped)
            good = good and not isinstance(payload, ev.StepInvalidated)
    return good


def what_must_not_be_repeated_is_done_once(record: Record) -> Iterator[str]:
    """After an attempt that was done, or of which nobody knows, none begins until an operator has settled it."""
    for run_id, events in record.runs.items():
        steps = record.submission(run_id).plan.steps
        never = {step.id for step in steps if step.repeat is Repeat.NEVER}
        if not never:
            continue
        closed: dict[str, str] = {}
        launched: set[str] = set()
        for one in events:
            payload = one.event.payload
            if isinstance(payload, ev.StepPayload) and payload.step_id not in never:
                continue
            match payload:
                case ev.AttemptStarted(phase="main" | "rescue"):
                    if why := closed.get(payload.step_id):
                        yield f"run {run_id}, event {one.event.seq}: {payload.step_id} is begun again: {why}"
                    if payload.inline:
                        launched.add(payload.step_id)
                case ev.AttemptLaunched():
                    launched.add(payload.step_id)
                case ev.AttemptFinished(phase="main" | "rescue"):
                    closed[payload.step_id] = "it was done"
                    launched.discard(payload.step_id)
                case ev.AttemptFailed(phase="main") if payload.step_id in launched:
                    launched.discard(payload.step_id)
                    if not payload.outcome_known:
                        closed[payload.step_id] = "nobody knows whether it was done"
                case ev.ControlHandled(action=SETTLE.name, outcome="accepted") if (
                    payload.argument == NOT_DONE
                ):
                    closed.pop(payload.step_id or "", None)
                case _:
                    pass


def nothing_begins_in_a_stopped_workflow(record: Record) -> Iterator[str]:
    """By the last change of mode that had arrived: within one boot its time is exact; without a time it never ends."""
    changes = {name: _changes(events) for name, events in record.workflows.items()}
    for run_id, events in record.runs.items():
        workflow = record.submission(run_id).workflow
        numbers, told = changes.get(workflow, ([], []))
        for one in _performed(events):
            start = one.event.payload
            assert isinstance(start, ev.AttemptStarted)
            before = bisect_left(numbers, one.number)
            why = _stopped(told[:before][-_LOOKED_BACK:], run_id, one.event)
            if why:
                yield f"run {run_id}, event {one.event.seq}: {start.step_id} is begun in {workflow}: {why}"


_LOOKED_BACK = 400


def _changes(events: list[Arrived]) -> tuple[list[int], list[Event]]:
    numbers: list[int] = []
    told: list[Event] = []
    for one in events:
        payload = one.event.payload
        clean = isinstance(payload, ev.WorkflowStepResult) and payload.result in ("passed", "recovered")
        if clean or isinstance(payload, ev.WorkflowModeChanged | ev.WorkflowProbePermitted):
            numbers.append(one.number)
            told.append(one.event)
    return numbers, told


def _stopped(told: list[Event], run_id: str, start: Event) -> str | None:
    """Half open it ends with a step of a run that was permitted to probe; what only cleans up needs no permit."""
    free = isinstance(start.payload, ev.AttemptStarted) and start.payload.phase == "always"
    passed: set[str] = set()
    for event in reversed(told):
        match event.payload:
            case ev.WorkflowStepResult(run_id=of):
                passed.add(of)
            case ev.WorkflowProbePermitted(run_id=of):
                free = free or of == run_id or of in passed
            case ev.WorkflowModeChanged() as change:
                return _why_stopped(change, event, start, free)
    return None


def _why_stopped(change: ev.WorkflowModeChanged, event: Event, start: Event, free: bool) -> str | None:
    if change.half_open and not free:
        return "it is half open, and the run has no permit"
    if change.mode not in (Mode.QUARANTINED, Mode.PAUSED, Mode.ROLLBACK):
        return None
    if change.for_s is None:
        return f"it is {change.mode}"
    same_boot = event.at.boot_id == start.at.boot_id
    left_s = change.for_s - (start.at.boot_us - event.at.boot_us) / 1e6
    return f"it is {change.mode} for another {left_s:.1f} s" if same_boot and left_s > 0 else None


def nothing_begins_while_everything_is_paused(record: Record) -> Iterator[str]:
    """It is looked at once a second, and an attempt that ends then may be followed by one that was about to begin.

    Whoever pauses everything may be frozen before that is in the ledger: it counts from its arrival there, which was
    not before whatever had arrived by then."""
    told = [
        one
        for one in record.workflows.get(EVERY_WORKFLOW, [])
        if isinstance(one.event.payload, ev.WorkflowModeChanged)
    ]
    for index, arrived in enumerate(told):
        event = arrived.event
        change = event.payload
        assert isinstance(change, ev.WorkflowModeChanged)
        if not change.mode.stops:
            continue
        until_us = event.at.boot_us + round((change.for_s or 1e9) * 1e6)
        if index + 1 < len(told):
            after = told[index + 1].event.at
            until_us = min(until_us, after.boot_us if after.boot_id == event.at.boot_id else until_us)
            if after.boot_id != event.at.boot_id:
                continue
        in_force_us = max(event.at.boot_us, _latest_us(record, event.at.boot_id, arrived.number))
        for run_id, events in record.runs.items():
            for one in _performed(events):
                start, at = one.event.payload, one.event.at
                assert isinstance(start, ev.AttemptStarted)
                within = in_force_us + 2_000_000 < at.boot_us < until_us
                if at.boot_id == event.at.boot_id and within:
                    yield f"run {run_id}, event {one.event.seq}: {start.step_id} is begun"


def _performed(events: list[Arrived]) -> Iterator[Arrived]:
    """Every start but those of gates, and those that are recorded with their end because a person said that a step was
    done: there nothing was performed."""
    for one, after_it in zip_longest(events, events[1:]):
        start = one.event.payload
        if not isinstance(start, ev.AttemptStarted) or start.kind == "approve":
            continue
        if after_it is None or not _is_settled(start, one.event, after_it.event):
            yield one


def _is_settled(start: ev.AttemptStarted, event: Event, after_it: Event) -> bool:
    """Its end came in the same moment, by a person's word."""
    end = after_it.payload
    return (
        isinstance(end, ev.AttemptFinished)
        and end.settled_by == "operator"
        and (end.step_index, end.attempt) == (start.step_index, start.attempt)
        and after_it.at == event.at
    )


def _latest_us(record: Record, boot_id: str, before: int) -> int:
    """The time of the last event of that boot which arrived before the one with this number."""
    return max(
        (
            one.event.at.boot_us
            for events in record.runs.values()
            for one in events
            if one.number < before and one.event.at.boot_id == boot_id
        ),
        default=0,
    )


def no_failure_pauses_everything_twice(record: Record) -> Iterator[str]:
    """Whoever lets all workflows go has dealt with what paused them, whatever the clocks say of it."""
    last: dict[str, int] = {}
    for one in record.workflows.get(EVERY_WORKFLOW, []):
        change = one.event.payload
        if not isinstance(change, ev.WorkflowModeChanged):
            continue
        for name, seqs in change.causes_elsewhere.items():
            if min(seqs) <= last.get(name, 0):
                yield f"event {one.event.seq}: {name} had failed so before ({min(seqs)})"
            last[name] = max(seqs)


def nothing_begins_after_a_cancel_or_a_pause(record: Record) -> Iterator[str]:
    for run_id, events in record.runs.items():
        cancelled = paused = False
        for one in events:
            payload = one.event.payload
            match payload:
                case ev.RunCancelled():
                    cancelled = True
                case ev.ControlHandled(outcome="accepted", action=action):
                    hold = CONTROLS[action].hold
                    paused = paused if hold is Hold.LEAVES else hold is Hold.BEGINS
                case ev.AttemptStarted() if cancelled or (paused and payload.kind != "approve"):
                    state = "cancelled" if cancelled else "paused"
                    yield f"run {run_id}, event {one.event.seq}: {payload.step_id} is begun, and the run was {state}"
                case _:
                    pass


def every_decision_names_a_policy_of_the_ledger(record: Record) -> Iterator[str]:
    missing = {digest for digest, policy in record.policies.items() if policy is None}
    for name, events in [*record.runs.items(), *record.workflows.items()]:
        for one in events:
            digest = getattr(one.event.payload, "policy_digest", None)
            if digest in missing:
                yield f"{name}, event {one.event.seq}: the policy {digest} is not in the ledger"
            if isinstance(one.event.payload, _DECISIONS) and digest is None:
                yield f"{name}, event {one.event.seq}: {one.event.type} names no policy"


_DECISIONS = (ev.SelfHealTriggered, ev.SelfHealEscalated, ev.SelfHealExhausted)


def every_decision_can_be_made_again(record: Record) -> Iterator[str]:
    """From what was recorded, under the policy that it names: the same."""
    for run_id, events in record.runs.items():
        told = [one.event for one in events]
        for event, then, again in decisions(run_id, told, record.policies.get):
            if again is not None and then != again:
                yield f"run {run_id}, event {event.seq}: recorded {then}, made again {again}"


def every_run_ends_or_waits_for_somebody(record: Record) -> Iterator[str]:
    """The last word about a run is an end, or that a person must do something, and what."""
    for run_id, events in record.runs.items():
        last: ev.Payload | None = None
        for one in events:
            if isinstance(one.event.payload, _STATES):
                last = one.event.payload
        match last:
            case ev.RunSucceeded() | ev.RunCancelled() | ev.RunDeadLettered() | ev.RunFailed(retryable=False):
                pass
            case ev.Escalated(reason=reason) if reason:
                pass
            case ev.RunWaiting(reason=reason, waiting_for="operator" | "approval") if reason:
                pass
            case _:
                yield f"run {run_id}: the last that is known is {last}"


_STATES = (
    *(ev.RunSubmitted, ev.RunStarted, ev.RunResumed, ev.RunWaiting, ev.RunBlocked, ev.RunInterrupted),
    *(ev.RunSucceeded, ev.RunFailed, ev.RunDeadLettered, ev.RunCancelled, ev.Escalated),
)


def nothing_follows_an_end(record: Record) -> Iterator[str]:
    for run_id, events in record.runs.items():
        ended = False
        for one in events:
            payload = one.event.payload
            if ended and isinstance(payload, ev.StepPayload | ev.RunStarted | ev.RunResumed):
                yield f"run {run_id}, event {one.event.seq}: {one.event.type} after its end"
            if isinstance(payload, ev.RunSucceeded | ev.RunCancelled | ev.RunDeadLettered):
                ended = True
            ended = ended or (isinstance(payload, ev.RunFailed) and not payload.retryable)


def gates_are_opened_by_operators(record: Record) -> Iterator[str]:
    for run_id, events in record.runs.items():
        steps = record.submission(run_id).plan.steps
        gates = {step.id for step in steps if isinstance(step.action, ApproveAction)}
        approved = False
        for one in events:
            payload = one.event.payload
            if isinstance(payload, ev.ControlHandled):
                approved = payload.action == APPROVE.name and payload.outcome == "accepted"
            elif isinstance(payload, ev.AttemptFinished) and payload.step_id in gates and not approved:
                yield f"run {run_id}, event {one.event.seq}: the gate {payload.step_id} opened by itself"


async def cached_rows_equal_a_rebuild(ledger: Ledger, record: Record) -> list[str]:
    """What is stored beside the events is what follows from them."""
    wanted = rebuild(one.event for events in record.runs.values() for one in events)
    found: list[str] = []
    rows = sorted((await ledger.runs(limit=len(record.runs) + 1)).rows, key=lambda row: row.run_id)
    if tuple(rows) != wanted.runs:
        found.append("the rows of runs are not what their events say")
    if tuple([row for run in rows for row in await ledger.attempts(run.run_id)]) != wanted.attempts:
        found.append("the rows of attempts are not what their events say")
    if tuple([row for run in rows for row in await ledger.checkpoints(run.run_id)]) != wanted.checkpoints:
        found.append("the rows of checkpoints are not what their events say")
    for workflow, events in record.workflows.items():
        facts = [(one.event.at, one.event.payload) for one in events]
        if await ledger.workflow_state(workflow) != rebuild_workflow(facts):
            found.append(f"the state of workflow {workflow} is not what its events say")
    return [f"cached_rows_equal_a_rebuild: {words}" for words in found]


Invariant = Callable[[Record], Iterator[str]]
INVARIANTS: tuple[Invariant, ...] = (
    nothing_is_retried_without_budget,
    nothing_is_lost,
    what_is_reused_was_proven,
    what_must_not_be_repeated_is_done_once,
    nothing_begins_in_a_stopped_workflow,
    nothing_begins_while_everything_is_paused,
    no_failure_pauses_everything_twice,
    nothing_begins_after_a_cancel_or_a_pause,
    nothing_follows_an_end,
    gates_are_opened_by_operators,
    every_decision_names_a_policy_of_the_ledger,
    every_decision_can_be_made_again,
    every_run_ends_or_waits_for_somebody,
)
