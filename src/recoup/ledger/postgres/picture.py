"""What is known of the database while a transaction is decided, and what it will write. Nothing is sent from here.

The rules ask and write here as they do in SQLite; what they write is kept until all jobs are decided. A job that is
refused leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, LiteralString

import msgspec

from recoup.errors import EventUnreadable
from recoup.kernel.deeds import Claim
from recoup.kernel.projection import RowChange
from recoup.kernel.workflow import rebuild_workflow
from recoup.ledger.appending import stored
from recoup.ledger.decoding import fact_of
from recoup.ledger.folds import decode_state, encode_state
from recoup.ledger.postgres.asking import Gathered
from recoup.ledger.postgres.queries import queries
from recoup.ledger.postgres.rows import ATTEMPTS_SEQ, row_writes
from recoup.ledger.transacting import EventRow, lease_lost, lease_ran_out, seq_of
from recoup.model.events import Payload
from recoup.model.ids import Lease, run_stream, workflow_stream
from recoup.model.instant import Instant
from recoup.model.run import WorkflowState
from recoup.model.storage import ControlAck, Crowd, Draft, Escalation, PolicyBody, Position

_REMEMBERED_MAX = 10_000
_ABSENT: Any = object()
_RUN = run_stream("")
_WORKFLOW = workflow_stream("")
_Q = queries()
_encode = msgspec.json.Encoder().encode

Facts = tuple[tuple[Instant, Payload], ...]
Write = tuple[LiteralString, tuple[Any, ...]]
LeaseValues = dict[str, str | int | float]


class Unknown(Exception):
    """Memory does not tell: the database must be asked."""


class LeaseView(msgspec.Struct, frozen=True, gc=False):
    epoch: int
    owner: str | None
    expired: bool = False


class Memory:
    """What this process saw last. It may be out of date, so that whatever is decided by it alone is compared with the
    database in the transaction itself."""

    def __init__(self) -> None:
        self.ends: dict[str, int] = {}
        self.unwritten: dict[str, Facts] = {}
        """Of each run's stream in `ends`: the facts about attempts since their rows were written last."""
        self.states: dict[str, WorkflowState] = {}
        """Of each workflow whose stream is in `ends`."""
        self.leases: dict[str, LeaseView] = {}

    def forget(self) -> None:
        for known in (self.ends, self.unwritten, self.states, self.leases):
            known.clear()

    def keep(self, picture: Picture) -> None:
        """After its transaction was committed."""
        self.ends.update(picture.ends)
        self.unwritten.update(picture.unwritten)
        self.states.update(picture.states)
        self.leases.update(picture.leases)
        for stream in picture.damaged:
            self.ends.pop(stream, None)  # asked for again the next time, and refused again
        # All or nothing: what is known of a stream is of use only as a whole.
        if len(self.ends) > _REMEMBERED_MAX or len(self.leases) > _REMEMBERED_MAX:
            self.forget()


class Picture:
    """From memory alone, or from what was gathered under the locks."""

    def __init__(self, memory: Memory, gathered: Gathered | None = None) -> None:
        self._memory = memory
        self._gathered = gathered is not None
        self.ends: dict[str, int] = {}
        self.before: dict[str, int] = {}
        self.states: dict[str, WorkflowState] = {}
        self.unwritten: dict[str, Facts] = {}
        self.leases: dict[str, LeaseView] = {}
        self.relied_on: dict[str, int] = {}
        """Runs and epochs that were required."""
        self.quiet: set[str] = set()
        """Runs for which no control was seen to wait."""
        self.events: list[tuple[Position, EventRow]] = []
        self.rows: list[RowChange] = []
        self.writes: list[Write] = []
        self.unreadable: list[str] = []
        """Workflows whose stored state is of no use."""
        self.damaged: dict[str, EventUnreadable] = {}
        """Streams to be folded that hold an event which cannot be decoded: only jobs that need them fail."""
        self.tells = False
        """Whoever listens is told in the transaction itself."""
        self._waiting: dict[str, tuple[str, ...]] = {}
        self._sent: dict[str, bool] = {}
        self._families: dict[str, str] = {}
        self._claims: dict[tuple[str, str, str], tuple[str, str]] = {}
        self._policies: dict[str, bytes] = {}
        self._stored_states: dict[str, tuple[int, str]] = {}
        self._crowds: dict[tuple[str, str], frozenset[str]] = {}
        """The runs in each that are driven under a lease that has not run out."""
        self._granted: dict[str, LeaseValues] = {}
        self._renewed: dict[str, LeaseValues] = {}
        self._released: dict[str, LeaseValues] = {}
        self._undo: list[tuple[dict[Any, Any], Any, Any]] = []
        if gathered is not None:
            self._take_in(gathered)

    # One job after the other

    def mark(self) -> tuple[int, int, int, bool]:
        self._undo.clear()
        return len(self.events), len(self.rows), len(self.writes), self.tells

    def undo(self, mark: tuple[int, int, int, bool]) -> None:
        """Back to where it was: nothing of a refused job is written."""
        for known, key, value in reversed(self._undo):
            if value is _ABSENT:
                del known[key]
            else:
                known[key] = value
        self._undo.clear()
        del self.events[mark[0] :]
        del self.rows[mark[1] :]
        del self.writes[mark[2] :]
        self.tells = mark[3]

    def all_writes(self) -> list[Write]:
        """Policies last and in order: others may write the same ones, and whoever waits must wait in one order."""
        states = [(_Q["set_workflow_state"], (name, *stored)) for name, stored in self._stored_states.items()]
        policies = [(_Q["add_policy"], pair) for pair in sorted(self._policies.items())]
        return [*row_writes(self.rows), *states, *self._lease_writes(), *self.writes, *policies]

    def _lease_writes(self) -> list[Write]:
        """In this order: whoever takes over in the same transaction has a higher epoch than who releases."""
        kinds = (
            ("grant_leases", self._granted),
            ("renew_leases", self._renewed),
            ("release_leases", self._released),
        )
        return [(_Q[name], (_encode(list(rows.values())).decode(),)) for name, rows in kinds if rows]

    @property
    def is_plain(self) -> bool:
        """Events, the rows that follow from them, and leases that end: all of it under the locks of streams alone."""
        others = self.writes or self._policies or self._granted or self._renewed
        return bool(self.events) and not others

    def knows_all_that_it_relies_on(self) -> bool:
        """Runs whose lease or inbox matters are locked by their streams: it must be known where these end."""
        try:
            for run_id in (*self.relied_on, *self.quiet):
                self.last_place(run_stream(run_id))
        except Unknown:
            return False
        return True

    def _set(self, known: dict[Any, Any], key: Any, value: Any) -> None:
        self._undo.append((known, key, known.get(key, _ABSENT)))
        known[key] = value

    def write(self, name: str, *values: Any) -> None:
        self.writes.append((_Q[name], values))

    # Leases and controls

    def lease_of(self, run_id: str) -> LeaseView | None:
        view = self.leases.get(run_id)
        if view is None and not self._gathered:
            view = self._memory.leases.get(run_id)
            if view is None:
                raise Unknown
        return None if view is None or view.epoch == 0 else view

    def require(self, lease: Lease) -> None:
        view = self.lease_of(lease.run_id)
        held = view.epoch if view and view.owner is not None else None
        if held != lease.epoch:
            raise lease_lost(lease, held)
        self.relied_on[lease.run_id] = lease.epoch

    def grant(self, lease: Lease, owner: str, now: Instant, crowds: Sequence[Crowd] = ()) -> None:
        self._set(self._granted, lease.run_id, {**_lease_values(lease, now), "owner": owner})
        self._set(self.leases, lease.run_id, LeaseView(lease.epoch, owner))
        for crowd in crowds:
            key = (crowd.of, crowd.name)
            self._set(self._crowds, key, self._crowds.get(key, frozenset()) | {lease.run_id})

    def is_full(self, crowd: Crowd, run_id: str) -> bool:
        driven = self._crowds.get((crowd.of, crowd.name), frozenset())
        return len(driven - {run_id}) >= crowd.runs_max

    def renew(self, lease: Lease, now: Instant) -> None:
        self.require(lease)
        view = self.lease_of(lease.run_id)
        if view and view.expired:
            raise lease_ran_out(lease)
        self._set(self._renewed, lease.run_id, _lease_values(lease, now))

    def release(self, lease: Lease) -> None:
        view = self.lease_of(lease.run_id)
        self._set(self._released, lease.run_id, {"run_id": lease.run_id, "epoch": lease.epoch})
        if view and view.epoch == lease.epoch:
            self._set(self.leases, lease.run_id, LeaseView(lease.epoch, None))
            for key, driven in list(self._crowds.items()):
                self._set(self._crowds, key, driven - {lease.run_id})

    def control_waits(self, run_id: str) -> bool:
        if self._waiting.get(run_id):
            return True
        self.quiet.add(run_id)
        return False

    def is_sent(self, control_id: str) -> bool:
        return control_id in self._sent

    def send(self, control_id: str, run_id: str, row: tuple[Any, ...], waits: bool) -> None:
        self.write("add_control", *row)
        self._set(self._sent, control_id, True)
        if waits:
            self._set(self._waiting, run_id, (*self._waiting.get(run_id, ()), control_id))
        self.tells = True

    def acknowledge(self, ack: ControlAck) -> None:
        self.write("acknowledge_control", ack.outcome, ack.epoch, ack.control_id)
        for run_id, waiting in list(self._waiting.items()):
            if ack.control_id in waiting:
                left = tuple(one for one in waiting if one != ack.control_id)
                self._set(self._waiting, run_id, left)

    # Events and what stands beside them

    def add_policy(self, policy: PolicyBody) -> None:
        self._set(self._policies, policy.digest, self._policies.get(policy.digest) or stored(policy.body))

    def add_escalation(self, escalation: Escalation, at: Instant) -> None:
        row = (escalation.id, escalation.stream, escalation.reason, stored(escalation.body), at.wall_us)
        self.write("add_escalation", *row)

    def last_place(self, stream: str) -> int:
        end = self.ends.get(stream)
        if end is None:
            assert not self._gathered, f"the stream {stream} was not locked"
            end = self._memory.ends.get(stream)
            if end is None:
                raise Unknown
            self.before[stream] = self.ends[stream] = end
        return end

    def set_last_place(self, stream: str, place: int) -> None:
        self._set(self.ends, stream, place)

    def add_events(self, rows: Sequence[EventRow], positions: Sequence[Position]) -> None:
        self.events.extend(zip(positions, rows, strict=True))

    # Cached rows

    def write_row(self, change: RowChange) -> None:
        self.rows.append(change)

    def write_rows(self, changes: Iterable[RowChange]) -> None:
        self.rows.extend(changes)

    def note_attempt(self, stream: str, at: Instant, draft: Draft) -> None:
        facts = self._unwritten_of(stream)
        self._set(self.unwritten, stream, (*facts, (at, draft.fact())))

    def unwritten_attempts(self, stream: str, _end: int) -> Iterable[tuple[Instant, Payload]]:
        return self._unwritten_of(stream)

    def attempts_written(self, stream: str, end: int) -> None:
        self._set(self.unwritten, stream, ())
        self.rows.append(RowChange(ATTEMPTS_SEQ, (seq_of(end), stream.removeprefix(_RUN))))

    def workflow_state(self, workflow: str) -> WorkflowState:
        self._must_be_whole(workflow_stream(workflow))
        state = self.states.get(workflow)
        if state is None:
            # With the end of its stream, so that the transaction makes sure that both are still so.
            self.last_place(workflow_stream(workflow))
            state = self._memory.states[workflow]
        return state

    def known_workflow_state(self, workflow: str) -> WorkflowState | None:
        return self.workflow_state(workflow)

    def keep_workflow_state(self, workflow: str, state: WorkflowState) -> None:
        self._set(self.states, workflow, state)

    def store_workflow_state(self, workflow: str, state: WorkflowState) -> None:
        self._set(self.states, workflow, state)
        self._set(self._stored_states, workflow, (state.seq, encode_state(state)))

    def _must_be_whole(self, stream: str) -> None:
        if stream in self.damaged:
            raise self.damaged[stream]

    def _unwritten_of(self, stream: str) -> Facts:
        self._must_be_whole(stream)
        facts = self.unwritten.get(stream)
        return self._memory.unwritten.get(stream, ()) if facts is None else facts

    # Families and claims

    def family_of(self, run_id: str) -> str:
        if not self._gathered:
            raise Unknown
        return self._families.get(run_id, run_id)

    def add_to_family(self, run_id: str, root: str) -> None:
        self.write("add_to_family", run_id, root)
        self._set(self._families, run_id, self._families.get(run_id, root))

    def claimant(self, root: str, claim: Claim) -> tuple[str, str] | None:
        return self._claims.get((root, claim.step_id, claim.args_digest))

    def claim(self, root: str, claim: Claim, run_id: str) -> None:
        self.write("claim", root, claim.step_id, claim.args_digest, run_id, claim.start)
        key = (root, claim.step_id, claim.args_digest)
        self._set(self._claims, key, self._claims.get(key) or (run_id, claim.start))

    def give_back(self, run_id: str, step_id: str, start: str | None) -> None:
        if start is None:
            self.write("give_back_step", run_id, step_id)
        else:
            self.write("give_back_start", run_id, step_id, start)
        for key, (holder, begun) in list(self._claims.items()):
            if key[1] == step_id and holder == run_id and start in (None, begun):
                self._undo.append((self._claims, key, self._claims.pop(key)))

    # What was gathered

    def _take_in(self, gathered: Gathered) -> None:
        self.before = dict(gathered.ends or ())
        self.ends = dict(self.before)
        self.leases = {
            run: LeaseView(epoch, owner, expired) for run, epoch, owner, expired in gathered.leases or ()
        }
        for run_id, control_id in gathered.waiting or ():
            self._waiting[run_id] = (*self._waiting.get(run_id, ()), control_id)
        for of, name, run_id in gathered.crowds or ():
            self._crowds[of, name] = self._crowds.get((of, name), frozenset()) | {run_id}
        self._sent = dict.fromkeys(gathered.sent or (), True)
        self._families = dict(gathered.families or ())
        for root, step_id, digest, run_id, start in gathered.claims or ():
            self._claims[root, step_id, digest] = (run_id, start)
        self._take_in_folds(gathered)

    def _take_in_folds(self, gathered: Gathered) -> None:
        facts, self.damaged = facts_by_stream(gathered)
        stored_states = {workflow: decode_state(body) for workflow, _, body in gathered.states or ()}
        self.unreadable = [workflow for workflow, state in stored_states.items() if state is None]
        for stream, end in self.before.items():
            known = self._memory.ends.get(stream) == end
            if stream in self.damaged:
                continue
            if stream.startswith(_WORKFLOW):
                workflow = stream.removeprefix(_WORKFLOW)
                state = stored_states.get(workflow) or self._memory.states.get(workflow)
                self.states[workflow] = rebuild_workflow(facts.get(stream, ()), state)
            elif stream.startswith(_RUN) and not known:
                self.unwritten[stream] = tuple(facts.get(stream, ()))


def _lease_values(lease: Lease, now: Instant) -> LeaseValues:
    return {
        "run_id": lease.run_id,
        "epoch": lease.epoch,
        "wall_us": now.wall_us,
        "boot_us": now.boot_us,
        "boot_id": now.boot_id,
        "ttl_s": lease.ttl_s,
    }


def facts_by_stream(
    gathered: Gathered,
) -> tuple[dict[str, list[tuple[Instant, Payload]]], dict[str, EventUnreadable]]:
    """What each stream holds, and what is wrong with those that hold something that cannot be decoded."""
    facts: dict[str, list[tuple[Instant, Payload]]] = {}
    damaged: dict[str, EventUnreadable] = {}
    for stream, wall_us, boot_us, boot_id, kind, text in gathered.facts or ():
        at = Instant(wall_us, boot_us, boot_id)
        try:
            facts.setdefault(stream, []).append((at, fact_of(stream, 0, at, kind, text.encode())))
        except EventUnreadable as error:
            damaged.setdefault(stream, error)
    return facts, damaged
