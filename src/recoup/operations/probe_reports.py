"""Probes elsewhere: their events are taken in order and once, and commands are kept for them until they have answered.

For each probe a few facts are remembered, a fold of its streams. Every request brings it up to date with what came
since, from here or through another gateway; what it appends, it appends behind exactly that, or looks again.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeGuard, TypeVar

import msgspec
from msgspec.structs import replace

from recoup.errors import NotFound
from recoup.kernel.canonical import digest
from recoup.kernel.escalations import OPEN_OF_SENDER_MAX, STATES, inbox_id, raised, told_id
from recoup.kernel.probe_events import wrong_field
from recoup.kernel.probe_rules import is_name
from recoup.kernel.reports import (
    IDS_KEPT,
    Commands,
    Refusal,
    Reports,
    Told,
    advance_commands,
    advance_reports,
    foreign,
    judge_batch,
    judge_order,
    stale,
)
from recoup.model.events import (
    EscalationMerged,
    Event,
    Payload,
    ProbeCommandHandled,
    ProbeCommandOrdered,
    ProbeReported,
    ProbeSenderChanged,
    ProbeSenderReleased,
    decode_payload,
)
from recoup.model.ids import commands_stream, escalation_stream, probe_stream, reported_stream, senders_stream
from recoup.model.probe_wire import COMMANDS_AT_ONCE_MAX, WAIT_S_MAX, Envelope, EventBatch, Name
from recoup.model.storage import Append, Draft, Escalation, EscalationRow, StreamAppend
from recoup.operations.declining import Declined, malformed
from recoup.ports import Clock, Ledger, Redactor
from recoup.streams import append_if, pages

if TYPE_CHECKING:
    from recoup.app import App

PROBES_MAX: Final = 1_000
"""That are remembered; the others are read anew when they come again."""
LOOK_S: Final = 0.5
"""How soon a command that was ordered through another gateway is seen by a probe that waits here."""
MERGES_MAX: Final = 100
"""Recorded in one entry of the inbox; a flood beyond that is in the probe's own events alone."""
READ_BYTES_MAX: Final = 16_000
"""Of a body that is read at once; longer ones in a thread, so that nobody waits for that."""
_PAGE: Final = 500
_REPORTED: Final = reported_stream("")
Decoded = TypeVar("Decoded")
Value = TypeVar("Value")


class CommandOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Somebody wants a probe to do something."""

    probe_id: Name
    command: dict[str, Any]


class _Asked(msgspec.Struct, frozen=True):
    """Nothing but a name."""

    probe_id: Name


class _Card:
    """What is remembered of one probe."""

    def __init__(self) -> None:
        self.reports: Reports | None = None
        self.commands = Commands()
        self.epoch = 0
        """The latest under which it spoke."""
        self.epochs = 0
        """How many there were, and releases."""
        self.holder: str | None = None
        """The id of the token that speaks for it."""
        self.ordered = asyncio.Event()


def probe_desk(app: App) -> ProbeDesk:
    return ProbeDesk(app.ledger, app.redactor, app.world.clock)


class ProbeDesk:
    """What probes elsewhere told one ledger."""

    def __init__(self, ledger: Ledger, redactor: Redactor, clock: Clock) -> None:
        self._ledger = ledger
        self._redactor = redactor
        self._clock = clock
        self._cards: OrderedDict[str, _Card] = OrderedDict()

    async def take(self, body: bytes, token_id: str | None = None) -> int:
        """The whole batch or nothing of it; how far the probe has told. Durable when it returns. `token_id` is that of
        whoever speaks; None: of somebody who needs no token. Raises Declined."""
        batch, told = await asyncio.to_thread(_read, body) if len(body) > READ_BYTES_MAX else _read(body)
        return await self._again(batch.probe_id, lambda card: self._take(card, batch, told, token_id))

    async def waiting(
        self,
        probe_id: str,
        epoch: int,
        wait_s: float,
        stopping: Callable[[], bool],
        token_id: str | None = None,
    ) -> list[dict[str, Any]]:
        """The commands whose fate is not known yet; if there are none, what comes within the time. Raises Declined."""
        must_be_name(probe_id)
        loop = asyncio.get_running_loop()
        until_s = loop.time() + min(wait_s, WAIT_S_MAX)
        begun = False
        while True:
            seen, ordered = await self._ledger.change_marker(), self._card(probe_id).ordered
            ask = partial(self._waiting, probe_id=probe_id, epoch=epoch, token_id=token_id, begun=begun)
            found = await self._again(probe_id, ask)
            begun = True
            while await self._ledger.change_marker() == seen and not ordered.is_set():
                if found or stopping() or loop.time() >= until_s:
                    return found
                await self._clock.wait(ordered, min(LOOK_S, max(0.0, until_s - loop.time())))
            if found:
                return found

    def wake(self) -> None:
        """Whoever waits looks again: the gateway may be about to end."""
        for card in self._cards.values():
            _wake(card)

    async def order(
        self, body: bytes | Mapping[str, Any], by: str, approval_ref: str | None = None
    ) -> ProbeCommandOrdered:
        """Once for each id. Raises Declined."""
        raw = body if isinstance(body, bytes) else msgspec.json.encode(body)
        wanted = self.read_order(raw)
        fact = self._ordered(wanted.command, by, approval_ref)
        await self._again(wanted.probe_id, lambda card: self._order(card, wanted.probe_id, fact))
        return fact

    def read_order(self, body: bytes) -> CommandOrder:
        """Raises Declined where it is none."""
        wanted = decoded(body, CommandOrder)
        if not self._may_be_id(wanted.command.get("command_id")):
            raise malformed(
                "a command needs a command_id: at most 100 letters, digits and . _ : -, and no secret"
            )
        return wanted

    async def whole_order(self, probe_id: str, command: Mapping[str, Any]) -> dict[str, Any]:
        """The order with what a probe must be told besides: which of its leases is meant, and the version that was
        wanted last. Raises NotFound."""
        must_be_name(probe_id)

        async def made(card: _Card) -> dict[str, Any]:
            await self._commands(card, probe_id)
            return {"lease_epoch": card.epoch, "desired_version": card.commands.desired_version, **command}

        whole = await self._again(probe_id, made)
        if whole["lease_epoch"] == 0:
            raise NotFound(
                f"no probe {probe_id!r} has told anything here", hint="Its file names the gateway."
            )
        return {"probe_id": probe_id, "command": whole}

    async def events(self, probe_id: str, after: int, limit: int) -> list[dict[str, Any]]:
        """What it has told, behind `after`."""
        must_be_name(probe_id)
        kept = await self._ledger.read(reported_stream(probe_id), after, limit)
        return [event.payload.event for event in kept if isinstance(event.payload, ProbeReported)]

    async def release(self, probe_id: str, by: str, reason: str) -> None:
        """Whoever speaks for it next may, under any lease. Raises NotFound."""
        must_be_name(probe_id)
        await self._again(probe_id, lambda card: self._release(card, probe_id, by, reason))

    # Looking

    async def _again(self, probe_id: str, attempt: Callable[[_Card], Awaitable[Value]]) -> Value:
        """Until it was decided by what is so: a conflict only means that somebody was quicker."""

        async def once() -> Value:
            card = self._card(probe_id)
            async for event in self._since(senders_stream(probe_id), card.epochs):
                _advance(card, event)
            return await attempt(card)

        busy = f"others write about probe {probe_id} all the time"
        return await append_if(once, busy, hint="Send it again in a moment.")

    def _card(self, probe_id: str) -> _Card:
        card = self._cards.setdefault(probe_id, _Card())
        self._cards.move_to_end(probe_id)
        while len(self._cards) > PROBES_MAX:
            self._cards.popitem(last=False)
        return card

    async def _reports(self, card: _Card, probe_id: str) -> Reports:
        """The last events are enough: what came before them is in the ledger, and is looked up there."""
        stream = reported_stream(probe_id)
        if card.reports is None:
            card.reports = Reports(seq=max(0, await self._ledger.head(stream) - IDS_KEPT))
        async for event in self._since(stream, card.reports.seq):
            advance_reports(card.reports, event)
        return card.reports

    async def _commands(self, card: _Card, probe_id: str) -> None:
        async for event in self._since(commands_stream(probe_id), card.commands.seq):
            advance_commands(card.commands, event)

    async def _since(self, stream: str, after: int) -> AsyncIterator[Event]:
        async for page in pages(self._ledger.read, stream, after, _PAGE):
            for event in page:
                yield event

    async def _digests(self, probe_id: str, told: Sequence[Told], kept: int) -> dict[int, str]:
        """Of those events in the batch that are here already."""
        first = told[0].envelope.monotonic_seq if told else kept + 1
        if first > kept:
            return {}
        events = await self._ledger.read(
            reported_stream(probe_id), first - 1, min(len(told), kept - first + 1)
        )
        return {one.seq: one.payload.digest for one in events if isinstance(one.payload, ProbeReported)}

    # Deciding

    async def _take(self, card: _Card, batch: EventBatch, told: Sequence[Told], token_id: str | None) -> int:
        _must_be_own(card, token_id)
        reports = await self._reports(card, batch.probe_id)
        seq, kept = reports.seq, await self._digests(batch.probe_id, told, reports.seq)
        new = judge_batch(reports, card.epoch, batch.lease_epoch, told, kept)
        if isinstance(new, Refusal):
            raise Declined(new)
        if new or _is_news(card, batch.lease_epoch, token_id):
            await self._keep(card, batch, new, seq, token_id)
            _wake(card)
        return seq + len(new)

    async def _waiting(
        self, card: _Card, probe_id: str, epoch: int, token_id: str | None, begun: bool
    ) -> list[dict[str, Any]]:
        """Who waits since before the probe was released must ask anew: it is no longer theirs."""
        _must_be_own(card, token_id)
        if begun and card.holder != token_id:
            return []
        if refusal := stale(card.epoch, epoch):
            raise Declined(refusal)
        if _is_news(card, epoch, token_id):
            streams = (self._sender(probe_id, card, epoch, token_id),)
            await self._ledger.append(Append(at=self._clock.now(), streams=streams))
        await self._commands(card, probe_id)
        return list(card.commands.waiting.values())[:COMMANDS_AT_ONCE_MAX]

    async def _order(self, card: _Card, probe_id: str, fact: ProbeCommandOrdered) -> None:
        await self._commands(card, probe_id)
        if refusal := judge_order(card.commands, fact.command_id, fact.digest):
            raise Declined(refusal)
        if fact.command_id not in card.commands.known:
            part = StreamAppend(commands_stream(probe_id), (self._draft(fact),), card.commands.seq)
            await self._ledger.append(Append(at=self._clock.now(), streams=(part,)))
            _wake(card)

    async def _release(self, card: _Card, probe_id: str, by: str, reason: str) -> None:
        if card.epochs == 0:
            raise NotFound(
                f"no probe {probe_id!r} has told anything here", hint="See which have: GET /probes"
            )
        draft = self._draft(ProbeSenderReleased(by=by, reason=reason))
        part = StreamAppend(senders_stream(probe_id), (draft,), card.epochs)
        await self._ledger.append(Append(at=self._clock.now(), streams=(part,)))

    # Keeping

    async def _keep(
        self, card: _Card, batch: EventBatch, new: Sequence[Told], after: int, token_id: str | None
    ) -> None:
        """Behind exactly what was looked at. The stream of senders is part of it even where it gets nothing: whoever
        has lost the probe meanwhile must not be heard."""
        facts = [_reported(one, batch.lease_epoch) for one in new]
        facts, merged = await self._merged(batch.probe_id, facts, token_id)
        drafts = [self._draft(fact) for fact in facts]
        handled = [self._draft(fact) for one in new if (fact := self._handled(one)) is not None]
        parts = [self._sender(batch.probe_id, card, batch.lease_epoch, token_id)]
        parts += [StreamAppend(reported_stream(batch.probe_id), tuple(drafts), after)] if drafts else []
        parts += [StreamAppend(commands_stream(batch.probe_id), tuple(handled))] if handled else []
        if merged is not None:
            parts.append(StreamAppend(escalation_stream(merged.escalation_id), (self._draft(merged),)))
        found = await self._raised(batch.probe_id, drafts)
        await self._ledger.append(Append(at=self._clock.now(), streams=tuple(parts), escalations=found))

    def _sender(self, probe_id: str, card: _Card, epoch: int, token_id: str | None) -> StreamAppend:
        fact = ProbeSenderChanged(lease_epoch=epoch, token_id=token_id)
        changed = (self._draft(fact),) if _is_news(card, epoch, token_id) else ()
        return StreamAppend(senders_stream(probe_id), changed, card.epochs)

    async def _merged(
        self, probe_id: str, facts: list[ProbeReported], token_id: str | None
    ) -> tuple[list[ProbeReported], EscalationMerged | None]:
        """A sender that floods the inbox gets no more entries: further escalations are counted in its last one."""
        told = [one for one in facts if told_id(one) is not None]
        open_ids = await self._open_entries(probe_id, token_id) if told else []
        room = max(0, OPEN_OF_SENDER_MAX - len(open_ids))
        if len(told) <= room:
            return facts, None
        into = inbox_id(probe_id, told_id(told[room - 1]) or "") if room else open_ids[-1]
        over = {id(one) for one in told[room:]}
        kept = [replace(one, merged_into=into) if id(one) in over else one for one in facts]
        if await self._ledger.head(escalation_stream(into)) >= MERGES_MAX:
            return kept, None
        last = told[-1].event.get("reason") or ""
        return kept, EscalationMerged(escalation_id=into, by=probe_id, reason=last, count=len(over))

    async def _open_entries(self, probe_id: str, token_id: str | None) -> list[str]:
        """Of all probes for which this token speaks."""
        found: list[EscalationRow] = []
        for state in STATES[:-1]:
            after = 0
            while rows := await self._ledger.inbox(state=state, of_runs=False, after=after, limit=_PAGE):
                found, after = found + rows, rows[-1].number
        theirs = {row.stream for row in found if row.stream.startswith(_REPORTED)}
        mine = {stream for stream in theirs if await self._is_of(stream, probe_id, token_id)}
        return [row.id for row in sorted(found, key=lambda row: row.number) if row.stream in mine]

    async def _is_of(self, stream: str, probe_id: str, token_id: str | None) -> bool:
        name = stream.removeprefix(_REPORTED)
        if name == probe_id or token_id is None:
            return name == probe_id
        card = self._card(name)
        async for event in self._since(senders_stream(name), card.epochs):
            _advance(card, event)
        return card.holder == token_id

    async def _raised(self, probe_id: str, drafts: Sequence[Draft]) -> tuple[Escalation, ...]:
        """For the inbox; not what a probe whose own ledger this is, too, has put there itself."""
        found = []
        for draft in drafts:
            fact = draft.fact()
            made = raised(reported_stream(probe_id), fact, draft.payload)
            if made is None or not isinstance(fact, ProbeReported):
                continue
            own = await self._ledger.escalation(told_id(fact) or "")
            if own is None or own.stream != probe_stream(probe_id):
                found.append(made)
        return tuple(found)

    def _handled(self, told: Told) -> ProbeCommandHandled | None:
        name, outcome = told.event.get("command_id"), told.event.get("outcome")
        if told.envelope.type != "CommandHandled" or not self._may_be_id(name):
            return None
        said = outcome if outcome in ("accepted", "refused") else "unknown"
        return ProbeCommandHandled(command_id=name, outcome=said, monotonic_seq=told.envelope.monotonic_seq)

    def _ordered(self, command: dict[str, Any], by: str, approval_ref: str | None) -> ProbeCommandOrdered:
        reason = command.get("reason")
        return ProbeCommandOrdered(
            command_id=command["command_id"],
            digest=_digest(command),
            command=command,
            by=by,
            reason=reason if isinstance(reason, str) else "",
            approval_ref=approval_ref,
        )

    def _may_be_id(self, name: Any) -> TypeGuard[str]:
        """Ids stand in the ledger as they are."""
        return isinstance(name, str) and is_name(name) and not self._redactor.found_in(name.encode())

    def _draft(self, fact: Payload) -> Draft:
        stored = self._redactor.seal(fact)
        return Draft(fact.TYPE, stored, decode_payload(fact.TYPE, stored.data))


def decoded(raw: bytes | msgspec.Raw, kind: type[Decoded]) -> Decoded:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise malformed(str(error)) from None


def must_be_name(probe_id: str) -> None:
    try:
        msgspec.convert({"probe_id": probe_id}, _Asked)
    except msgspec.ValidationError:
        raise malformed("`probe_id` is missing, or no name") from None


def _read(body: bytes) -> tuple[EventBatch, list[Told]]:
    batch = decoded(body, EventBatch)
    return batch, [_told(raw) for raw in batch.events]


def _told(raw: msgspec.Raw) -> Told:
    event = decoded(raw, dict[str, Any])
    told = Told(decoded(raw, Envelope), _digest(event), event)
    if (wrong := wrong_field(event)) is not None:
        raise Declined(Refusal(422, "invalid", f"event {told.envelope.event_id}, {wrong}"))
    return told


def _digest(document: dict[str, Any]) -> str:
    try:
        return digest(document)
    except ValueError as error:
        raise malformed(str(error)) from None


def _reported(told: Told, sender: int) -> ProbeReported:
    return ProbeReported(sender_epoch=sender, digest=told.digest, event=told.event)


def _advance(card: _Card, event: Event) -> None:
    if event.seq <= card.epochs:
        return
    card.epochs = event.seq
    match event.payload:
        case ProbeSenderChanged() as changed:
            card.epoch, card.holder = changed.lease_epoch, changed.token_id
        case ProbeSenderReleased():
            card.epoch, card.holder = 0, None
        case _:
            pass


def _must_be_own(card: _Card, token_id: str | None) -> None:
    if refusal := foreign(card.holder, token_id):
        raise Declined(refusal, hint="An operator can release it: POST /api/probes/ID/release")


def _is_news(card: _Card, epoch: int, token_id: str | None) -> bool:
    """A later lease; or nobody's token is known to speak for it yet."""
    return epoch > card.epoch or (card.holder is None and token_id is not None)


def _wake(card: _Card) -> None:
    card.ordered.set()
    card.ordered = asyncio.Event()
