"""One Append inside a transaction: all of it, or an exception before the transaction is kept."""

from __future__ import annotations

from recoup.errors import Conflict
from recoup.ledger.claims import HEEDED, claimant, keep_claims, refuse_claimed
from recoup.ledger.folds import keep_cached_rows, workflow_after
from recoup.ledger.transacting import EventRow, Transacting, seq_of
from recoup.model.ids import workflow_stream
from recoup.model.instant import Instant
from recoup.model.mode import Refusal
from recoup.model.redacted import Redacted
from recoup.model.storage import Append, Appended, Draft, Position, StreamAppend


def perform(transaction: Transacting, append: Append) -> Appended:
    lease = append.lease
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


def placed_drafts(append: Append, appended: Appended) -> list[tuple[Position, Draft]]:
    """What was written, with where."""
    parts = _parts(append, appended.added, appended.tail_appended)
    drafts = [draft for part in parts for draft in part.drafts]
    return list(zip(appended.positions, drafts, strict=True))


def stored(text: Redacted) -> bytes:
    assert isinstance(text, Redacted), f"only redacted text reaches the ledger, not {type(text).__name__}"
    return text.data


def _judged(
    transaction: Transacting, append: Append, begins: bool
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


def _write_companions(transaction: Transacting, append: Append) -> None:
    for ack in append.acks:
        transaction.acknowledge(ack)
    for policy in append.policies:
        transaction.add_policy(policy)
    for escalation in append.escalations:
        transaction.add_escalation(escalation, append.at)


def _write_events(
    transaction: Transacting, parts: tuple[StreamAppend, ...], at: Instant
) -> tuple[Position, ...]:
    rows: list[EventRow] = []
    positions: list[Position] = []
    starts: list[int] = []
    heeded: list[tuple[str, Draft]] = []
    stamp = (at.wall_us, at.boot_us, at.boot_id)
    for part in parts:
        place, stream = _taken(transaction, part), part.stream
        starts.append(place)
        for seq, draft in enumerate(part.drafts, seq_of(place) + 1):
            place, kind = place + 1, draft.type
            rows.append((place, *stamp, kind, stored(draft.payload).decode()))
            positions.append(Position(stream, seq, kind))
            if kind in HEEDED:
                heeded.append((stream, draft))
    transaction.add_events(rows, positions)
    for part, start in zip(parts, starts, strict=True):
        keep_cached_rows(transaction, part, start, at)
    for stream, draft in heeded:
        keep_claims(transaction, stream, draft.fact())
    return tuple(positions)


def _taken(transaction: Transacting, part: StreamAppend) -> int:
    """The place after which the drafts will stand."""
    place = transaction.last_place(part.stream)
    if part.expected_seq is not None and part.expected_seq != seq_of(place):
        raise Conflict(
            f"{part.stream} ends at {seq_of(place)}, not at {part.expected_seq}: somebody appended meanwhile",
            hint="Read the stream again and decide anew.",
        )
    transaction.set_last_place(part.stream, place + len(part.drafts))
    return place
