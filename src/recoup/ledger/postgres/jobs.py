"""Work for a transaction in PostgreSQL: what it asks, how it is decided, and how to know later that it was written."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

import msgspec

from recoup.ledger import appending
from recoup.ledger.leases import deadline_boot_s, owner_of
from recoup.ledger.postgres.asking import Questions
from recoup.ledger.postgres.picture import LeaseView, Picture
from recoup.ledger.stored_rows import row_of_control
from recoup.model.ids import Lease
from recoup.model.instant import Instant
from recoup.model.storage import Append, Appended, Control, Crowd

T_co = TypeVar("T_co", covariant=True)
_encode_owner = msgspec.json.Encoder().encode
_SAID = 10
"""Columns of a control before its outcome."""


class Trace(msgspec.Struct, frozen=True):
    """What a job has left in the database: the row, or the beginning of it, that a query must find."""

    query: str
    values: tuple[Any, ...]
    row: tuple[Any, ...]


class Job(Protocol[T_co]):
    """It may be decided again, but only one of the transactions is kept."""

    def ask(self, questions: Questions) -> None: ...

    def decide(self, picture: Picture) -> T_co: ...

    def trace(self, value: Any, /) -> Trace | None:
        """Of a job without events. None: it leaves none, or may be done again."""
        ...


class AppendJob(msgspec.Struct, frozen=True):
    append: Append

    @property
    def is_plain(self) -> bool:
        """Nothing but events and what follows from them, and perhaps the end of their lease."""
        append = self.append
        return not (append.acks or append.policies or append.escalations)

    def ask(self, questions: Questions) -> None:
        questions.of_append(self.append)

    def decide(self, picture: Picture) -> Appended:
        return appending.perform(picture, self.append)

    def trace(self, _appended: Appended) -> Trace | None:
        lease = self.append.lease
        if lease is None or not self.append.release:
            return None
        return Trace("lease", (lease.run_id,), (lease.run_id, lease.epoch, None))


class ClaimJob(msgspec.Struct, frozen=True):
    """`wanted` names the run, the owner and the time to live; the epoch is given here."""

    wanted: Lease
    now: Instant
    over_epoch: int | None
    crowds: tuple[Crowd, ...] = ()

    def ask(self, questions: Questions) -> None:
        questions.of_run(self.wanted.run_id)
        questions.crowds.update((crowd.of, crowd.name) for crowd in self.crowds)

    def decide(self, picture: Picture) -> Lease | None:
        current = picture.lease_of(self.wanted.run_id)
        if current and not _is_free(current, self.over_epoch):
            return None
        if any(picture.is_full(crowd, self.wanted.run_id) for crowd in self.crowds):
            return None
        replaced = owner_of(self.wanted.run_id, current.owner) if current and current.owner else None
        epoch = current.epoch + 1 if current else 1
        granted = msgspec.structs.replace(self.wanted, epoch=epoch, replaced=replaced)
        picture.grant(granted, _encode_owner(granted.owner).decode(), self.now, self.crowds)
        return granted

    def trace(self, granted: Lease | None) -> Trace | None:
        return None if granted is None else _lease_trace(granted, self.now)


class RenewJob(msgspec.Struct, frozen=True):
    lease: Lease
    now: Instant

    def ask(self, questions: Questions) -> None:
        questions.of_run(self.lease.run_id)

    def decide(self, picture: Picture) -> Lease:
        picture.renew(self.lease, self.now)
        deadline_s = deadline_boot_s(self.now, self.lease.ttl_s)
        return msgspec.structs.replace(self.lease, deadline_boot_s=deadline_s)

    def trace(self, renewed: Lease) -> Trace | None:
        return _lease_trace(renewed, self.now)


class ReleaseJob(msgspec.Struct, frozen=True):
    lease: Lease

    def ask(self, questions: Questions) -> None:
        questions.of_run(self.lease.run_id)

    def decide(self, picture: Picture) -> None:
        picture.release(self.lease)

    def trace(self, _value: None) -> Trace | None:
        return None


class SendJob(msgspec.Struct, frozen=True):
    control: Control

    def ask(self, questions: Questions) -> None:
        questions.of_run(self.control.run_id)
        questions.of_control(self.control.id)

    def decide(self, picture: Picture) -> bool:
        control = self.control
        if picture.is_sent(control.id):
            return False
        picture.send(control.id, control.run_id, row_of_control(control), control.outcome is None)
        return True

    def trace(self, sent: bool) -> Trace | None:
        """Up to what a driver may have written into it since."""
        row = row_of_control(self.control)[:_SAID]
        return Trace("control", (self.control.id,), row) if sent else None


class RowJob(msgspec.Struct, frozen=True):
    """One row that depends on nothing."""

    query: str
    values: tuple[Any, ...]

    def ask(self, questions: Questions) -> None:
        """Nothing."""

    def decide(self, picture: Picture) -> None:
        picture.write(self.query, *self.values)

    def trace(self, _value: None) -> Trace | None:
        return None


def _lease_trace(lease: Lease, now: Instant) -> Trace:
    stamp = (now.wall_us, now.boot_us, now.boot_id)
    owner = _encode_owner(lease.owner).decode()
    return Trace("lease", (lease.run_id,), (lease.run_id, lease.epoch, owner, *stamp, lease.ttl_s))


def _is_free(current: LeaseView, over_epoch: int | None) -> bool:
    return current.owner is None or current.epoch == over_epoch or current.expired
