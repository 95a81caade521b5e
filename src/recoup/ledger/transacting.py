"""What the shared rules (appending.py, claims.py, folds.py) ask of a transaction, whichever database it is in.

A place is where an event stands: a number whose low 32 bits are the sequence; what is above them is the backend's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from recoup.errors import LeaseLost
from recoup.kernel.deeds import Claim
from recoup.kernel.projection import RowChange
from recoup.model.events import Payload
from recoup.model.ids import Lease
from recoup.model.instant import Instant
from recoup.model.run import WorkflowState
from recoup.model.storage import ControlAck, Draft, Escalation, PolicyBody, Position

SEQ_BITS = 32

EventRow = tuple[int, int, int, str, str, str]
"""Place, wall_us, boot_us, boot_id, type, payload."""


class Transacting(Protocol):
    """Between the beginning and the commit. What one job has written the next one sees."""

    def require(self, lease: Lease) -> None:
        """Raises LeaseLost."""
        ...

    def release(self, lease: Lease) -> None: ...

    def control_waits(self, run_id: str) -> bool: ...

    def acknowledge(self, ack: ControlAck) -> None: ...

    def add_policy(self, policy: PolicyBody) -> None: ...

    def add_escalation(self, escalation: Escalation, at: Instant) -> None: ...

    def last_place(self, stream: str) -> int:
        """Where the stream ends; a new one is made."""
        ...

    def set_last_place(self, stream: str, place: int) -> None:
        """To be followed by the insertion of the events up to there."""
        ...

    def add_events(self, rows: Sequence[EventRow], positions: Sequence[Position]) -> None: ...

    def write_row(self, change: RowChange) -> None: ...

    def write_rows(self, changes: Iterable[RowChange]) -> None:
        """In their order."""
        ...

    def note_attempt(self, stream: str, at: Instant, draft: Draft) -> None:
        """Its row is written later."""
        ...

    def unwritten_attempts(self, stream: str, end: int) -> Iterable[tuple[Instant, Payload]]:
        """The facts about attempts up to the place `end` that are not rows yet."""
        ...

    def attempts_written(self, stream: str, end: int) -> None: ...

    def workflow_state(self, workflow: str) -> WorkflowState:
        """As it is with all that was appended so far."""
        ...

    def known_workflow_state(self, workflow: str) -> WorkflowState | None:
        """Without reading anything for it."""
        ...

    def keep_workflow_state(self, workflow: str, state: WorkflowState) -> None:
        """In memory."""
        ...

    def store_workflow_state(self, workflow: str, state: WorkflowState) -> None: ...

    def family_of(self, run_id: str) -> str:
        """The run that it goes back to; itself, where it reuses none."""
        ...

    def add_to_family(self, run_id: str, root: str) -> None: ...

    def claimant(self, root: str, claim: Claim) -> tuple[str, str] | None:
        """The run that has claimed it, and by which start."""
        ...

    def claim(self, root: str, claim: Claim, run_id: str) -> None:
        """The first claim stands."""
        ...

    def give_back(self, run_id: str, step_id: str, start: str | None) -> None: ...


def seq_of(place: int) -> int:
    return place & ((1 << SEQ_BITS) - 1)


def lease_ran_out(lease: Lease) -> LeaseLost:
    hint = (
        f"Stop at once, then go on with `recoup resume {lease.run_id}`, unless another driver does already."
    )
    return LeaseLost(
        f"run {lease.run_id}: the lease under epoch {lease.epoch} was not renewed in time", hint=hint
    )


def lease_lost(lease: Lease, held: int | None) -> LeaseLost:
    now = "nobody holds it now" if held is None else f"epoch {held} holds it now"
    if held is not None and held < lease.epoch:
        now = f"the database knows of epoch {held} only: it lost commits that it had acknowledged"
    hint = f"Stop at once: another driver may go on. `recoup show {lease.run_id}` says who drives the run."
    return LeaseLost(f"run {lease.run_id}: the lease under epoch {lease.epoch} is lost, {now}", hint=hint)
