"""Who may drive a run: claim, renew, release, inside a transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from recoup.errors import RowUnreadable
from recoup.kernel.elapsed import elapsed_s
from recoup.ledger.decoding import sound_instant
from recoup.ledger.queries import queries
from recoup.ledger.transacting import lease_ran_out
from recoup.ledger.transaction import Transaction
from recoup.model.ids import Lease, ProcessIdentity
from recoup.model.instant import Instant
from recoup.model.storage import Crowd, LeaseRow

_Q = queries()
_TTL_MAX_S = 1e9
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


def lease_row(row: Sequence[Any]) -> LeaseRow:
    """Raises RowUnreadable, unless the lease was given back: whoever has it may live, so that it must not be taken for
    free."""
    run_id, epoch, owner, *at, ttl_s = row
    if type(epoch) is not int or epoch < 0:
        raise _unreadable(run_id, "its epoch is no number")
    lasts = isinstance(ttl_s, int | float) and 0 <= ttl_s <= _TTL_MAX_S
    if owner is None:
        return LeaseRow(run_id, epoch, None, sound_instant(at), ttl_s if lasts else 0.0)
    renewed_at = Instant(*at)
    if not lasts or not renewed_at.is_sound:
        raise _unreadable(run_id, "it does not say until when it holds")
    return LeaseRow(run_id, epoch, owner_of(run_id, owner), renewed_at, ttl_s)


def owner_of(run_id: str, stored: str | bytes) -> ProcessIdentity:
    """Raises RowUnreadable."""
    try:
        return _decode_owner(stored)
    except (msgspec.MsgspecError, UnicodeError, TypeError) as error:
        raise _unreadable(run_id, f"its owner: {error}") from None


def _unreadable(run_id: str, reason: str) -> RowUnreadable:
    hint = (
        "Nobody can know whether the run is being driven. See that no process drives it; then give the lease back in "
        f"the database: UPDATE leases SET owner = NULL WHERE run_id = '{run_id}'. Or restore a backup."
    )
    return RowUnreadable("leases", f"run {run_id}", reason, hint=hint)


def left_s(lease: LeaseRow, now: Instant) -> float:
    return max(0.0, lease.ttl_s - elapsed_s(lease.renewed_at, now, lease.ttl_s))


def _is_free(current: LeaseRow, now: Instant, over_epoch: int | None) -> bool:
    return current.owner is None or current.epoch == over_epoch or left_s(current, now) <= 0


def _is_full(transaction: Transaction, crowd: Crowd, run_id: str, now: Instant) -> bool:
    rows = transaction.execute(_Q[f"crowd_of_{crowd.of}"], (crowd.name, run_id)).fetchall()
    return sum(_may_be_held(row, now) for row in rows) >= crowd.runs_max


def _may_be_held(row: Sequence[Any], now: Instant) -> bool:
    try:
        return left_s(lease_row(row), now) > 0
    except RowUnreadable:
        return True
