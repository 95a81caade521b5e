"""Sends the events of one probe to its gateway: in order, at least once, from where the gateway has them.

What is to be sent is in the ledger, so nothing is kept here but how far the gateway has followed. The gateway's word
counts: when it misses something that was sent before, it is sent again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from recoup.errors import LedgerError
from recoup.kernel.probe_gateway import event_line, fitting, pause_s
from recoup.model.ids import probe_stream
from recoup.model.probe_wire import BODY_BYTES_MAX, EVENTS_AT_ONCE_MAX, EVENTS_PATH, Acknowledged
from recoup.notifiers.kind import DELIVERY_S, Notification
from recoup.probe.gateway.client import Answer, GatewayClient, Unreachable
from recoup.probe.gateway.cursor import Cursor, read_cursor, write_cursor
from recoup.probe.recorder import ProbeRecorder
from recoup.probe.world import ProbeWorld

AROUND_BYTES: Final = 1_000
"""For what stands around the events of a request."""


class _Numbered(msgspec.Struct):
    monotonic_seq: int


class Sender:
    """An outbox too: an escalation is an event among the others, delivered when the gateway has followed so far."""

    name = "gateway"
    timeout_s = DELIVERY_S

    def __init__(
        self, world: ProbeWorld, recorder: ProbeRecorder, client: GatewayClient, folder: Path
    ) -> None:
        self._world = world
        self._recorder = recorder
        self._client = client
        self._folder = folder
        self._cursor = self._found()
        self._at_once = EVENTS_AT_ONCE_MAX
        self._failed = 0
        self._rewound = False
        self._grown = asyncio.Event()
        self._moved = asyncio.Event()
        recorder.watch(self._grown.set)

    @property
    def acknowledged_seq(self) -> int:
        return self._cursor.acknowledged_seq

    @property
    def behind(self) -> int:
        """How many events the gateway has yet to be told of."""
        return self._recorder.state.seq - self.acknowledged_seq

    async def carry(self) -> None:
        """Until cancelled."""
        while True:
            self._grown.clear()
            pause = await self._send_some() if self.behind else None
            if pause is not None:
                await self._world.clock.wait(asyncio.Event(), pause)
            elif not self.behind:
                await self._world.clock.wait(self._grown, None)

    async def deliver(self, notification: Notification) -> None:
        seq = msgspec.json.decode(notification.body.data, type=_Numbered).monotonic_seq
        while self.acknowledged_seq < seq:
            await self._moved.wait()

    async def farewell(self) -> None:
        """What is left, as far as the gateway takes it without trouble."""
        while self.behind and not self._failed:
            await self._send_some()

    def _found(self) -> Cursor:
        """Of this gateway, and not ahead of the ledger: one that was brought back from a copy has other events now."""
        cursor = read_cursor(self._folder)
        if cursor is None or cursor.gateway != self._client.shown:
            return Cursor(gateway=self._client.shown)
        seq = min(cursor.acknowledged_seq, self._recorder.state.seq)
        return msgspec.structs.replace(cursor, acknowledged_seq=seq)

    async def _send_some(self) -> float | None:
        """One request; after trouble, how long the gateway is left alone."""
        try:
            lines = await self._lines()
            answer = await self._client.post(EVENTS_PATH, self._body(lines))
        except LedgerError as error:
            return self._troubled(error.message)
        except Unreachable as error:
            return self._troubled(str(error))
        return self._heed(answer, len(lines))

    async def _lines(self) -> Sequence[bytes]:
        stream = probe_stream(self._recorder.state.probe_id)
        events = await self._world.ledger.read(stream, after=self.acknowledged_seq, limit=self._at_once)
        lines = [event_line(event) for event in events]
        return lines[: fitting(lines, BODY_BYTES_MAX - AROUND_BYTES)]

    def _body(self, lines: Sequence[bytes]) -> bytes:
        batch = {
            "probe_id": self._recorder.state.probe_id,
            "lease_epoch": self._recorder.lease.epoch,
            "events": [msgspec.Raw(line) for line in lines],
        }
        return msgspec.json.encode(batch)

    def _heed(self, answer: Answer, sent: int) -> float | None:
        last, problem = self.acknowledged_seq + sent, answer.problem
        if answer.status == 200:
            return self._acknowledged(answer, last)
        if answer.status == 409 and problem.code == "gap" and self._may_rewind(problem.expected_seq):
            self._rewound = True
            self._move((problem.expected_seq or 1) - 1)
            return None
        if answer.status == 413 and sent > 1:
            self._at_once = max(1, sent // 2)
            return None
        said = f"{problem.code} {problem.detail or problem.title}".strip()
        words = f"{self._client.shown} answers {answer.status}" + (f": {said}" if said else "")
        return self._troubled(words, answer.retry_after_s)

    def _acknowledged(self, answer: Answer, last: int) -> float | None:
        try:
            seq = msgspec.json.decode(answer.body, type=Acknowledged).acknowledged_seq
        except msgspec.DecodeError:
            seq = -1
        if seq < last:
            return self._troubled(f"{self._client.shown} answers 200 and does not acknowledge event {last}")
        self._failed, self._rewound = 0, False
        self._at_once = min(EVENTS_AT_ONCE_MAX, 2 * self._at_once)
        self._move(last)
        return None

    def _may_rewind(self, expected_seq: int | None) -> bool:
        """Once, to something that is here and was sent before: the gateway was emptied, or brought back from a copy."""
        return expected_seq is not None and not self._rewound and 1 <= expected_seq <= self.acknowledged_seq

    def _move(self, seq: int) -> None:
        self._cursor = Cursor(gateway=self._client.shown, acknowledged_seq=seq)
        write_cursor(self._folder, self._cursor)
        self._moved.set()
        self._moved = asyncio.Event()

    def _troubled(self, why: str, told_s: float | None = None) -> float:
        self._failed += 1
        words = self._world.redactor.redact(why).text
        since = self._cursor.trouble_since_unix or self._world.clock.now().wall_us / 1e6
        troubled = msgspec.structs.replace(self._cursor, trouble=words, trouble_since_unix=since)
        if troubled != self._cursor:
            self._cursor = troubled
            write_cursor(self._folder, troubled)
        return pause_s(self._failed, self._world.chance(), told_s)
