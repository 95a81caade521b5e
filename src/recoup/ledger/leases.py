"""Who may drive a run: claim, renew, release, inside a transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from recoup.kernel.elapsed import elapsed_s
from recoup.ledger.queries import queries
from recoup.ledger.transacting import lease_ran_out
from recoup.ledger.transaction import Transaction
from recoup.model.ids import Lease, ProcessIdentity
from recoup.model.instant import Instant
from recoup.model.storage import Crowd, LeaseRow

_Q = queries()
_decode_owner = msgspec.json.Decoder(ProcessIdentity).decode
_encode_owner = msgspec.json.Encoder().encode


def claim(
    transaction: Transaction,
    wanted: Lease,
    now: Instant,
    over_epoch: int | None,
    crowds: Sequence[Crowd] = (),
) -> Lease | None:
    """`wanted` names the run, the owner and the time to live; the epoch is given here."""
    row = transaction.execute(_Q["lease"], (wanted.run_id,)).fetchone()
    current = lease_row(row) if row else None
    if current and not _is_free(current, now, over_epoch):
        return None
    if any(_is_full(transaction, crowd, wanted.run_id, now) for crowd in crowds):
        return None
    epoch, replaced = (current.epoch + 1, current.owner) if current else (1, None)
    granted = msgspec.structs.replace(wanted, epoch=epoch, replaced=replaced)
    owner = _encode_owner(granted.owner).decode()
    stamp = (now.wall_us, now.boot_us, now.boot_id)
    transaction.execute(_Q["grant_lease"], (granted.run_id, granted.epoch, owner, *stamp, granted.ttl_s))
    transaction.forget()
    return granted


def renew(transaction: Transaction, lease: Lease, now: Instant) -> Lease:
    transaction.require(lease)
    row = transaction.execute(_Q["lease"], (lease.run_id,)).fetchone()
    if left_s(lease_row(row), now) <= 0:
        raise lease_ran_out(lease)
    stamp = (now.wall_us, now.boot_us, now.boot_id)
    transaction.execute(_Q["renew_lease"], (*stamp, lease.ttl_s, lease.run_id, lease.epoch))
    return msgspec.structs.replace(lease, deadline_boot_s=deadline_boot_s(now, lease.ttl_s))


def deadline_boot_s(now: Instant, ttl_s: float) -> float:
    return now.boot_us / 1e6 + ttl_s


def lease_row(row: tuple[Any, ...]) -> LeaseRow:
    run_id, epoch, owner, wall_us, boot_us, boot_id, ttl_s = row
    identity = None if owner is None else _decode_owner(owner)
    return LeaseRow(run_id, epoch, identity, Instant(wall_us, boot_us, boot_id), ttl_s)


def left_s(lease: LeaseRow, now: Instant) -> float:
    return max(0.0, lease.ttl_s - elapsed_s(lease.renewed_at, now, lease.ttl_s))


def _is_free(current: LeaseRow, now: Instant, over_epoch: int | None) -> bool:
    return current.owner is None or current.epoch == over_epoch or left_s(current, now) <= 0


def _is_full(transaction: Transaction, crowd: Crowd, run_id: str, now: Instant) -> bool:
    rows = transaction.execute(_Q[f"crowd_of_{crowd.of}"], (crowd.name, run_id)).fetchall()
    return sum(left_s(lease_row(row), now) > 0 for row in rows) >= crowd.runs_max
