"""The Protocols we need from the world. Real, fake and in-process implementations have the same shape."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol

from recoup.model.dispatch import Hint, QueueDepth, Taken
from recoup.model.events import Event
from recoup.model.failure import Failure
from recoup.model.ids import Lease, ProcessIdentity
from recoup.model.instant import Instant
from recoup.model.memory import Kept, Screen, State, WhichScreen
from recoup.model.outcome import (
    Collected,
    Examined,
    Order,
    Outcome,
    PageClaim,
    PageQuestion,
    Progress,
    Restored,
    Scene,
)
from recoup.model.plan import Check, Output
from recoup.model.policy import Policy, WrittenPolicy
from recoup.model.process import Ended, ProcessSpec
from recoup.model.redacted import DocumentPath, Redacted
from recoup.model.run import RunState, StepRecord, WorkflowState
from recoup.model.storage import (
    COUNTED_MAX,
    EVERY_RUN,
    Append,
    Appended,
    Arrival,
    AttemptRow,
    CheckpointRow,
    Control,
    Crowd,
    Draft,
    EndedRun,
    EscalationRow,
    Head,
    HeldRun,
    History,
    LeaseRow,
    Loss,
    Place,
    RunCount,
    RunFilter,
    RunPage,
    SeenWorker,
    Span,
    Suspicion,
    Wanting,
    WorkerRow,
)
from recoup.model.target import Element, Fingerprint
from recoup.model.workspace import Adopted, Baseline, Change, Snapshot, Source


class Clock(Protocol):
    """Time, and waiting for it."""

    def now(self) -> Instant: ...

    @property
    def ahead_s(self) -> float:
        """How far this machine's wall clock is ahead of the one that all machines count by; negative: behind it."""
        ...

    async def wait(self, wake: asyncio.Event, timeout_s: float | None) -> bool:
        """True as soon as `wake` is set, False when the time has passed."""
        ...


class Machine(Protocol):
    """What the machine says about itself when something has failed. Nothing is concluded from anybody's words."""

    async def trouble(self) -> str | None:
        """Why the state folder cannot be written now, in words; None if a synced probe write works."""
        ...

    def full(self, folder: str) -> str | None:
        """Why the disk of the folder takes no more, in words; None if it has room. Writes nothing."""
        ...

    def is_home_disk(self, folder: str) -> bool:
        """Whether the folder is on the disk of the state folder."""
        ...

    def behind(self, error: Exception) -> str | None:
        """Which lack of the machine an error of the interpreter speaks of: memory, threads. None: of neither."""
        ...


class Ledger(Protocol):
    """The append-only record, and the coordination rows beside it (leases, controls, escalations)."""

    async def append(self, append: Append) -> Appended:
        """Durable when it returns. Raises LeaseLost, Conflict, LedgerBusy, LedgerError; then nothing was written."""
        ...

    async def read(self, stream: str, after: int = 0, limit: int = 10_000) -> list[Event]: ...

    async def arrivals(self, after: int = 0, limit: int = 10_000) -> list[Arrival]:
        """The events of all streams behind the number `after`, oldest first.

        Whoever goes on from the last number that he was given skips nothing and sees nothing twice: no event becomes
        visible below a number that was given out before, and no number is given to a second event, not even after
        pruning. A database that hands out numbers before it commits (a PostgreSQL sequence) must withhold whatever a
        transaction under way may still come before, or number events under one lock. Numbers may have gaps.
        """
        ...

    async def arrivals_before(self, number: int, limit: int = 1_000) -> list[Arrival]:
        """The events of all streams below that number, newest first. For looking back: what becomes visible later may
        come between two pages."""
        ...

    async def last_arrival(self) -> int:
        """The number of the last event that `arrivals` would give now; 0: there is none."""
        ...

    async def head(self, stream: str) -> int: ...

    async def streams(self, prefix: str = "") -> list[str]: ...

    async def heads(self, prefix: str = "") -> list[Head]:
        """Where each of these streams ends. None of them is read for it."""
        ...

    async def claim(
        self,
        run_id: str,
        owner: ProcessIdentity,
        ttl_s: float,
        now: Instant,
        over_epoch: int | None = None,
        crowds: Sequence[Crowd] = (),
    ) -> Lease | None:
        """The lease under the next epoch if it is free, released or expired; or if its owner, at `over_epoch`,
        is proven dead by the caller. None: somebody else holds it, or one of the crowds to which the run belongs is as
        large as it may be: as many others are driven under a lease that has not run out."""
        ...

    async def renew(self, lease: Lease, now: Instant) -> Lease:
        """Raises LeaseLost, also when it has run out and nobody has claimed the run since: others count on that."""
        ...

    async def release(self, lease: Lease) -> None: ...

    async def lease(self, run_id: str) -> LeaseRow | None: ...

    async def wanting(self, after: str = "", limit: int = 500) -> list[Wanting]:
        """The runs of queues that want a driver and are held by nobody, in the order of their ids, behind `after`."""
        ...

    async def held(self, now: Instant, limit: int = 10_000) -> list[HeldRun]:
        """The runs of queues that want a driver and were claimed and not released, also under leases that ran out."""
        ...

    async def keep_worker(self, worker: WorkerRow, now: Instant) -> None:
        """It is there, and says how it is."""
        ...

    async def forget_worker(self, worker_id: str) -> None: ...

    async def workers(self, now: Instant) -> list[SeenWorker]:
        """In the order of their ids; those that have been silent for a day are forgotten."""
        ...

    async def witness(self) -> None:
        """Keep, durably and outside the database, what it has acknowledged so far: asked before a step that must not be
        repeated is executed. Raises OSError."""
        ...

    def started_s_ago(self) -> float:
        """How long the server has kept the record without a break. After a restart it may lack commits that it had
        acknowledged, and processes that could tell may not have come back yet."""
        ...

    async def untold_losses(self) -> list[Loss]:
        """Losses of acknowledged commits that the stream `ledger` does not name yet."""
        ...

    async def tell_loss(self, loss: Loss) -> None:
        """The stream `ledger` names it now."""
        ...

    async def suspicion(self, run_id: str) -> Suspicion | None:
        """The loss that may have taken events of this run. Every lease that was granted before it is void."""
        ...

    async def end_suspicion(self, run_id: str, loss: Loss) -> None:
        """The run itself names it now."""
        ...

    async def send_control(self, control: Control) -> bool:
        """False: this id was sent before."""
        ...

    async def pending_controls(self, run_id: str) -> list[Control]: ...

    async def control(self, control_id: str) -> Control | None: ...

    async def runs(
        self, wanted: RunFilter = EVERY_RUN, *, limit: int = 100, before: Place | None = None
    ) -> RunPage:
        """Newest first; with `before`, those behind that place."""
        ...

    async def count_runs(self, wanted: RunFilter = EVERY_RUN, cap: int = COUNTED_MAX) -> RunCount:
        """How many there are, as far as they are worth being counted."""
        ...

    async def tallies(self) -> dict[str, int]:
        """How many runs there are with each status; a status that none has is left out."""
        ...

    async def history(self, span: Span, workflow: str | None = None) -> History:
        """What ended, healed and recovered, in equal parts of a time."""
        ...

    async def find_runs(self, prefix: str, limit: int = 3) -> list[str]: ...

    async def family(self, run_id: str) -> list[str]:
        """The runs that go back to the same one through reuse: that one first, this one among them."""
        ...

    async def attempts(self, run_id: str) -> list[AttemptRow]: ...

    async def checkpoints(self, run_id: str) -> list[CheckpointRow]: ...

    async def workflow_state(self, workflow: str) -> WorkflowState: ...

    async def policy_body(self, digest: str) -> bytes | None: ...

    async def inbox(
        self, *, state: str | None = None, of_runs: bool | None = None, after: int = 0, limit: int = 100
    ) -> list[EscalationRow]:
        """Escalations, oldest first, behind the number `after`; with `of_runs`, of runs or of probes alone."""
        ...

    async def escalation(self, escalation_id: str) -> EscalationRow | None: ...

    async def ended(self, before_us: int, after: str = "", limit: int = 200) -> list[EndedRun]:
        """The runs that may be forgotten, in the order of their ids, behind `after`: they are over, no other delivery
        follows, nobody holds them, their last event is older (by the wall clock), and all this is so of every run of
        their family: what must not be repeated must stay known while a relative may still run."""
        ...

    async def forget(self, run_ids: Sequence[str], before_us: int, at: Instant, note: Draft) -> list[str]:
        """In one transaction: those of these that may be forgotten are, each with its whole family, the keys that they
        were submitted under, and whatever else belongs to them; and the note is added to the stream `ledger`. Gives
        those of them that the ledger does not know (any more), so that it can be done again."""
        ...

    async def change_marker(self) -> int:
        """Differs from the last answer when another process has written; cheap enough to ask four times a second."""
        ...

    async def close(self) -> None: ...


class Holding(Protocol):
    """What it takes to hold a lease: a run's, or a probe's."""

    @property
    def clock(self) -> Clock: ...

    @property
    def ledger(self) -> Ledger: ...

    @property
    def census(self) -> Census: ...

    @property
    def lease_ttl_s(self) -> float: ...

    @property
    def heartbeat_s(self) -> float: ...

    @property
    def control_poll_s(self) -> float: ...


class Dispatch(Protocol):
    """Hints that a run may be worth driving. They may be lost, repeated and late (a sweeper makes good): what there is
    to do is in the ledger, and whoever does it holds the run's lease. All raise DispatchError.

    One object has one taker: `wait` is about what the last `take` did not find.
    """

    async def hint(self, hints: Sequence[Hint], delay_s: float = 0) -> None:
        """One for each run waits at most: a second one only brings it forward (earlier time, higher priority), in the
        queue that the latest one names. While a run's hint is taken the new one waits until that is done, then counts:
        nothing that happened meanwhile is missed."""
        ...

    async def take(self, queues: Sequence[str], capabilities: frozenset[str], limit: int) -> list[Taken]:
        """Due ones of these queues whose needs are met, by priority, then oldest; those of one `hint` by run id. A hint
        keeps its age as long as its run has one without interruption, except that `done` with a delay puts it behind
        all that wait then: so a thousand that are refused again and again do not keep everybody else from being asked.
        Each is the taker's for `hold_s`, longer with `keep`; then anybody may take it, as old as it was."""
        ...

    async def keep(self, taken: Sequence[Taken]) -> None:
        """For `hold_s` from now. Those that were lost meanwhile stay lost."""
        ...

    async def done(self, taken: Taken, again_in_s: float | None = None) -> None:
        """Gone; or back after that time (0: at once, in its old place). Of one that somebody else has taken meanwhile:
        nothing happens."""
        ...

    async def wait(self, timeout_s: float) -> None:
        """Returns when something may have become takeable since the last `take`, at once if so, at the latest after
        the timeout; sometimes for nothing. It is told once: who has no room then takes when he has."""
        ...

    async def depths(self) -> list[QueueDepth]:
        """By the queues' names; of those that have a hint."""
        ...

    async def hinted(self, run_ids: Sequence[str]) -> set[str]:
        """Of these, the ones with a hint that waits or is taken."""
        ...

    async def close(self) -> None: ...


class RedactionStream(Protocol):
    """Redacts one stream of bytes that arrives in pieces, correct at every boundary."""

    def feed(self, chunk: bytes) -> Redacted: ...

    def flush(self) -> Redacted:
        """What was held back; the stream can go on afterwards as a new one."""
        ...


class Redactor(Protocol):
    """The one way text may reach storage."""

    def register(self, name: str, value: str) -> None:
        """From now on no written form of `value` passes. A value that cannot be hidden is refused with ValueError."""
        ...

    def register_unless_short(self, name: str, value: str) -> None:
        """The same, but a value that is too short to be told from other text is left alone."""
        ...

    def redact(self, text: str | bytes) -> Redacted: ...

    def seal(self, document: Any) -> Redacted:
        """The document (a msgspec struct or plain data) as JSON with every string in it redacted."""
        ...

    def masked_in(self, document: Any) -> tuple[DocumentPath, ...]:
        """Where the document (a struct or plain data) holds text that a record of it may show differently, in any
        event that carries it. Whatever `seal` changes is among these."""
        ...

    def picture(self, image: bytes) -> Redacted:
        """A PNG or JPEG as it is: what may not be seen was covered before it was taken. Others are refused with
        ValueError."""
        ...

    def archive(self, data: bytes, limit_bytes: int) -> Redacted:
        """A zip file made anew from its redacted texts and its pictures. Others, and those that hold more than the
        limit when unpacked, are refused with ValueError."""
        ...

    def stream(self) -> RedactionStream: ...

    def found_in(self, data: bytes) -> tuple[str, ...]:
        """The names of the registered secrets that occur in `data`, in any written form."""
        ...


RedactorOf = Callable[[str | None], Awaitable[Redactor]]
"""The redactor of the run with this id, as far as its secrets are known here; of the process, for None."""


class Lifeline(Protocol):
    """Says until when (boot clock) the driver holds its lease. Keepers kill their trees before that."""

    @property
    def deadline_boot_s(self) -> float: ...

    def attach(self, extend: Callable[[float], None]) -> Callable[[], None]:
        """Call `extend` with every new deadline; returns a function that detaches."""
        ...


class Pulse(Protocol):
    """Signs of progress other than output."""

    def attach(self, progress: Callable[[], None]) -> Callable[[], None]:
        """Call `progress` at every sign; returns a function that detaches."""
        ...


OutputSink = Callable[[str, bytes], bool | None]
"""Takes ("stdout" | "stderr", chunk). Must not block. False: this was no progress, the idle timer goes on."""


class Keeper(Protocol):
    """Keeps one process tree: starts it, drains it, times it, kills it, proves it dead."""

    async def keep(
        self,
        spec: ProcessSpec,
        *,
        before_exec: Callable[[ProcessIdentity], Awaitable[None]],
        lifeline: Lifeline,
        output: OutputSink,
        stop: asyncio.Event,
        pulse: Pulse | None = None,
    ) -> Ended:
        """Start the keeper, await `before_exec` with its identity, then execute; returns when no process is left.

        If `before_exec` raises, nothing was executed and the exception goes on. Cancelling kills the tree first.
        """
        ...


class Census(Protocol):
    """Who is alive on this host."""

    def own_identity(self) -> ProcessIdentity: ...

    def is_alive(self, identity: ProcessIdentity) -> bool | None:
        """None: it lives elsewhere, nobody here can know."""
        ...

    async def clear(self, run_id: str, keeper: ProcessIdentity | None) -> None:
        """A driver of this run was lost: wait for its keeper, then kill what is left of the run's processes here.

        Raises KeeperError when something cannot be killed. On another host the keeper has done it by itself, before
        the lease ran out.
        """
        ...


class Workspaces(Protocol):
    """The workspaces and the private store of one run. `number` names a workspace: 1 is the first."""

    async def create(self, source: Source) -> Baseline: ...

    def path(self, number: int) -> Path: ...

    def current(self) -> int:
        """The number that the pointer names."""
        ...

    async def snapshot(self, number: int) -> Snapshot:
        """Raises WorkspaceRuined for what a step left that cannot be stored, and MachineTrouble."""
        ...

    async def change(self, before: str, after: str) -> Change:
        """The difference between two stored trees."""
        ...

    async def patch(self, before: str, after: str, limit_bytes: int) -> bytes:
        """A patch for people, raw: redact before storing."""
        ...

    async def changed_contents(
        self, before: str, after: str, limit_bytes: int
    ) -> Sequence[tuple[str, bytes]]:
        """Path and contents of what was added or modified, to be searched for secrets; bounded."""
        ...

    async def restore(self, snapshot: Snapshot) -> int:
        """Build a new workspace aside and verify it; raises CheckpointBroken and leaves nothing behind."""
        ...

    async def matches(self, number: int, snapshot: Snapshot) -> bool: ...

    async def damage(self, number: int, before: Snapshot) -> str | None:
        """Why git cannot use the workspace's repository any more; None if it can, or if the checkpoint `before` has
        no repository or is broken, so that restoring it would bring none back. Raises MachineTrouble."""
        ...

    async def adopt(self, run_dir: Path, snapshots: Sequence[Snapshot]) -> Adopted:
        """Bring checkpoints of another run over into this store, durably; ends before the first that is broken."""
        ...

    async def swap(self, number: int, keep: int) -> None:
        """Point at this workspace, atomically; of the older ones `keep` stay."""
        ...


class Evidence(Protocol):
    """Content-addressed bytes that support a verdict, cited by handle."""

    async def put(self, content: Redacted, limit_bytes: int) -> str:
        """Durable when it returns, and where every driver finds it: an event may cite it."""
        ...

    async def get(self, handle: str) -> bytes:
        """Raises NotFound when it is gone or altered."""
        ...


class Depot(Protocol):
    """What must outlive a machine: bytes by name. Names are paths of plain words; an object has a limited size.

    Each call raises DepotError when the depot cannot be reached, is full or refuses; that says nothing about whether
    an object is there.
    """

    async def put(self, name: str, data: bytes) -> None:
        """Durable when it returns. Again with the same name: replaced, whole."""
        ...

    async def get(self, name: str) -> bytes:
        """Raises NotFound."""
        ...

    async def names(self, prefix: str) -> list[str]:
        """Those that begin with it, sorted; of very many the first ones."""
        ...

    async def remove(self, name: str) -> None:
        """If it is there."""
        ...

    async def close(self) -> None: ...


class Secrets(Protocol):
    """Values that must be kept but never shown: encrypted, owner-only."""

    def put(self, name: str, value: str) -> None: ...

    async def settle(self) -> None:
        """What was put is where every driver of the run finds it. Awaited before the ledger depends on it."""
        ...

    def get(self, name: str) -> str: ...

    def find(self, name: str) -> str | None:
        """None: it was never put."""
        ...

    def mac(self, value: str) -> str:
        """A keyed hash, so that a digest can tell two values apart without revealing either."""
        ...


class Hooks(Protocol):
    """What a runtime may ask of the engine while it performs an attempt."""

    @property
    def lifeline(self) -> Lifeline: ...

    @property
    def stop(self) -> asyncio.Event:
        """Set: end the attempt at once."""
        ...

    async def launched(self, keeper: ProcessIdentity) -> None:
        """To be awaited before anything is executed; raises LeaseLost when it must not be."""
        ...

    def said(self, stream: str, chunk: Redacted) -> None:
        """Output for people who watch."""
        ...

    def progressed(self, progress: Progress) -> None:
        """How far the attempt is, in its own words, for people who watch."""
        ...

    def session_known(self, session_id: str) -> None:
        """The agent's session, for a later attempt that resumes it. Must hold no secret: it is recorded as it is."""
        ...


class Cases(Protocol):
    """Keeps what is needed to look into a failure later."""

    async def store_case(
        self,
        state: RunState,
        record: StepRecord,
        failure: Failure,
        decision: str,
        policy_digest: str,
        limit_bytes: int,
        *,
        evidence: Sequence[str] = (),
    ) -> str | None:
        """The handle of the bundle. None: it could not be stored, which keeps no failure from being recorded."""
        ...


class PolicySource(Protocol):
    """A policy file that people may change at any time."""

    @property
    def name(self) -> str: ...

    def look(self) -> WrittenPolicy | None:
        """What it says, once after each change. None: nothing new."""
        ...

    def read(self) -> WrittenPolicy:
        """What it says at this moment."""
        ...


class Runtime(Protocol):
    """Performs one attempt of one step and reports. Never retries, never decides."""

    @property
    def inline(self) -> bool:
        """It works inside the driver and never calls `launched`: started means launched."""
        ...

    async def perform(self, order: Order, hooks: Hooks) -> Outcome: ...


class Inspector(Protocol):
    """Looks at the world for checks and outputs."""

    async def examine(
        self, checks: Sequence[Check], scene: Scene, lifeline: Lifeline, stop: asyncio.Event
    ) -> Examined: ...

    async def collect(self, outputs: dict[str, Output], scene: Scene) -> Collected: ...

    def redacting(self, redactor: Redactor) -> Inspector:
        """The same, for one run: what it says is redacted by that run's redactor."""
        ...


class Pages(Protocol):
    """The browsers of runs, beside the attempts in them: one for each run, as long as its driver lives."""

    async def examine(self, run_id: str, question: PageQuestion, scene: Scene) -> tuple[bool | None, str]:
        """Whether it holds, waiting for it as long as the scene's time for checks lasts, and words. None: it cannot be
        said, because there is no page."""
        ...

    async def fingerprint(self, run_id: str) -> Fingerprint | None:
        """What the current page is. None: the run has none here."""
        ...

    async def keep(self, run_id: str) -> bytes | None:
        """What is needed to come back to the current page: its address, cookies and storage. Secret."""
        ...

    def touched_in(self, kept: bytes) -> tuple[str, ...] | None:
        """The steps whose traces in the document are lost when the page is opened again. None: this is not known. Opens
        nothing."""
        ...

    def touched_in_other_tabs(self, kept: bytes) -> tuple[str, ...]:
        """The same of the tabs beside it."""
        ...

    async def restore(
        self, run_id: str, kept: bytes, policy: Policy, lifeline: Lifeline, *, with_tabs: bool = False
    ) -> Restored:
        """Open a browser there again, and say what it shows. `with_tabs`: and the tabs beside it, in their order."""
        ...

    async def refuted(self, run_id: str, claims: Sequence[PageClaim], wait_s: float = 0) -> Sequence[str]:
        """Why each claim does not hold on the page, in words; "" if it does. `wait_s`: for all of them to hold."""
        ...

    async def remember(self, run_id: str, kept: bytes) -> None:
        """The next browser of the run begins with these cookies and this storage; no page is opened. Harmless where the
        run has a browser."""
        ...

    async def touched_by(self, run_id: str) -> tuple[str, ...]:
        """The steps that did something in the open document, in their order: loading it again would lose that."""
        ...

    def fresh_copy(self, run_id: str, policy: Policy) -> AbstractAsyncContextManager[Fingerprint | None]:
        """The current page opened a second time, by its address: everything here is about the copy until it is closed.
        None: there is no page, or its address could not be opened."""
        ...

    async def leave(self, run_id: str) -> None:
        """The driver leaves the run: its browser is closed, with whatever runs in it. Harmless where there is none."""
        ...

    async def wait(self, run_id: str, epoch: int, policy: Policy) -> None:
        """The driver leaves the run and its browser stays open, within the policy's limits, for the next driver in this
        process. Harmless where there is none."""
        ...

    async def take_up(self, run_id: str, epoch: int, lifeline: Lifeline) -> bool:
        """Whether the browser stayed open since the driver with this epoch; one that is older is closed."""
        ...

    def waiting(self) -> Mapping[str, int]:
        """The runs whose browser stays open, and the epoch of their last driver."""
        ...


class Recalls(Protocol):
    """Versions of what workflows have learned, at hand. They save reading all that the ledger says, and are nothing
    without it: whatever cannot be had or stored is read from there."""

    async def last(self, workflow: str) -> tuple[Kept | None, str]:
        """The last version, or the last good one, and what is damaged, in words."""
        ...

    async def version(self, workflow: str, version: str) -> State | None: ...

    async def follow(self, workflow: str, version: str, kept: Kept | None, now: Instant, keep: int) -> None:
        """The ledger says that this version counts. `kept` is what it holds; None: it should be there.

        `keep` is how many versions are kept, this one included.
        """
        ...

    async def forget(self, workflow: str) -> None:
        """What is there is of another ledger."""
        ...

    def which(self, known: Mapping[str, Screen], seen: Screen) -> WhichScreen | None:
        """Which known screen this is. None: none is known."""
        ...

    def proposed(self, workflow: str, state: State, element: Element) -> tuple[Element, ...]:
        """Elements that were learned, for whatever target, and are like this one."""
        ...


class RunFiles(Protocol):
    """The files of one run that people read, and the private ones that nobody is shown."""

    @property
    def root(self) -> Path: ...

    @property
    def aside(self) -> Path | None:
        """The folder of the driver's own. None: for somebody who drives nothing."""
        ...

    def output_path(self, step_index: int, attempt: int) -> Path:
        """Where a step may write name=value lines: private, owner-only, made anew."""
        ...

    def written_output(self, step_index: int, attempt: int) -> Path | None:
        """What a lost attempt may have written there."""
        ...

    def forget_output(self, step_index: int, attempt: int) -> None:
        """What it held is in the ledger or in the vault now."""
        ...

    def withhold_log(self, step_index: int, words: Redacted) -> None:
        """The words in the place of what the step printed."""
        ...

    def redact_log(self, step_index: int, redactor: Redactor) -> None:
        """Once more, after a secret became known only by what the step printed."""
        ...

    def write_patch(self, step_index: int, patch: Redacted) -> None: ...

    def write_step_state(self, step_index: int, document: Redacted) -> None: ...

    def write_attempt_state(self, step_index: int, attempt: int, document: Redacted) -> None: ...

    def write_retry_context(self, step_index: int, attempt: int, document: Redacted) -> Path: ...

    def write_private_retry_context(self, step_index: int, attempt: int, document: bytes) -> Path:
        """The same for the step alone, with the plan's original words."""
        ...
