"""One Append inside a transaction: all of it, or an exception before the transaction is kept."""

from __future__ import annotations

import msgspec

from recoup.errors import Conflict
from recoup.ledger.claims import HEEDED, claimant, keep_claims, refuse_claimed
from recoup.ledger.folds import keep_cached_rows, workflow_after
from recoup.ledger.queries import queries
from recoup.ledger.transaction import Transaction, find_stream, first_place, seq_of
from recoup.model.ids import workflow_stream
from recoup.model.instant import Instant
from recoup.model.mode import Refusal
from recoup.model.redacted import Redacted
from recoup.model.storage import Append, Appended, Draft, Position, StreamAppend

_Q = queries()


class AppendJob(msgspec.Struct, frozen=True):
    append: Append

    def perform(self, transaction: Transaction) -> Appended:
        append, lease = self.append, self.append.lease
        assert lease or not (append.tail or append.release), "a tail or a release needs the lease it is for"
        if lease:
            transaction.require(lease)
        refuse_claimed(transaction, append.streams)
        _write_companions(transaction, append)
        tail_appended = bool(append.tail and lease and not transaction.control_waits(lease.run_id))
        claimed_by = claimant(transaction, append.tail) if tail_appended else None
        tail_appended = tail_appended and claimed_by is None
        added, refusal = _judged(transaction, append, tail_appended)
        tail_appended = tail_appended and refusal is None
        positions = _write_events(transaction, _parts(append, added, tail_appended), append.at)
        if lease and append.release:
            transaction.release(lease)
        return Appended(positions, tail_appended, claimed_by, refusal, added)

    def is_written(self, transaction: Transaction, appended: Appended) -> bool:
        """The events stand where they were put."""
        append = self.append
        parts = _parts(append, appended.added, appended.tail_appended)
        drafts = [draft for part in parts for draft in part.drafts]
        placed = zip(appended.positions, drafts, strict=True)
        return bool(drafts) and all(_stands(transaction, append.at, *pair) for pair in placed)


def _judged(
    transaction: Transaction, append: Append, begins: bool
) -> tuple[tuple[StreamAppend, ...], Refusal | None]:
    judging = append.judging
    if judging is None:
        return (), None
    state = workflow_after(transaction, judging.workflow, append.streams, append.at)
    ruled = judging.judge(state, begins, append.at)
    if not ruled.drafts:
        return (), ruled.refusal
    return (StreamAppend(workflow_stream(judging.workflow), ruled.drafts),), ruled.refusal


def _parts(append: Append, added: tuple[StreamAppend, ...], tail_appended: bool) -> tuple[StreamAppend, ...]:
    return append.streams + added + append.tail if tail_appended else append.streams + added


def _write_companions(transaction: Transaction, append: Append) -> None:
    for ack in append.acks:
        transaction.execute(_Q["acknowledge_control"], (ack.outcome, ack.epoch, ack.control_id))
    for policy in append.policies:
        transaction.execute(_Q["add_policy"], (policy.digest, _stored(policy.body)))
    for escalation in append.escalations:
        row = (escalation.id, escalation.stream, escalation.reason, _stored(escalation.body))
        transaction.execute(_Q["add_escalation"], row)


def _write_events(
    transaction: Transaction, parts: tuple[StreamAppend, ...], at: Instant
) -> tuple[Position, ...]:
    rows: list[tuple[int, int, int, str, str, str]] = []
    positions: list[Position] = []
    starts: list[int] = []
    heeded: list[tuple[str, Draft]] = []
    for part in parts:
        place = _taken(transaction, part)
        starts.append(place)
        for draft in part.drafts:
            place += 1
            text = _stored(draft.payload).decode()
            rows.append((place, at.wall_us, at.boot_us, at.boot_id, draft.type, text))
            positions.append(Position(part.stream, seq_of(place), draft.type))
            if draft.type in HEEDED:
                heeded.append((part.stream, draft))
    transaction.executemany(_Q["add_event"], rows)
    for part, start in zip(parts, starts, strict=True):
        keep_cached_rows(transaction, part, start, at)
    for stream, draft in heeded:
        keep_claims(transaction, stream, draft.fact())
    return tuple(positions)


def _taken(transaction: Transaction, part: StreamAppend) -> int:
    """The place after which the drafts will stand."""
    place = transaction.last_place(part.stream)
    if part.expected_seq is not None and part.expected_seq != seq_of(place):
        raise Conflict(
            f"{part.stream} ends at {seq_of(place)}, not at {part.expected_seq}: somebody appended meanwhile",
            hint="Read the stream again and decide anew.",
        )
    transaction.set_last_place(part.stream, place + len(part.drafts))
    return place


def _stored(text: Redacted) -> bytes:
    assert isinstance(text, Redacted), f"only redacted text reaches the ledger, not {type(text).__name__}"
    return text.data


def _stands(transaction: Transaction, at: Instant, position: Position, draft: Draft) -> bool:
    stream_id = find_stream(transaction.connection, position.stream)
    if stream_id is None:
        return False
    row: object = transaction.execute(_Q["event_at"], (first_place(stream_id) + position.seq,)).fetchone()
    return row == (at.wall_us, at.boot_us, at.boot_id, draft.type, draft.payload.data.decode())
