"""What workers look for and what they say of themselves, as rows of any backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from recoup.ledger.decoding import sound_text, sound_us
from recoup.model.ids import ProcessIdentity
from recoup.model.instant import Instant
from recoup.model.storage import SeenWorker, Wanting, WorkerRow

FORGOTTEN_S = 86_400.0
"""A worker that has been silent for so long is not listed any more."""

_REASON_MAX = 200
_NOBODY = ProcessIdentity("unknown", "unknown", 0, 0)
_NEVER = Instant(0, 0, "")
_decode = msgspec.json.Decoder(WorkerRow).decode
_encode = msgspec.json.Encoder().encode


def encode_worker(worker: WorkerRow) -> str:
    return _encode(worker).decode()


def seen_worker(worker_id: object, body: str | bytes, silent_s: float) -> SeenWorker:
    """One that cannot be read is listed by its id: a worker that lives writes its row again soon."""
    try:
        row = _decode(body)
    except (msgspec.MsgspecError, UnicodeError, TypeError) as error:
        reason = " ".join(str(error).split())[:_REASON_MAX]
        row = WorkerRow(
            worker_id=sound_text(worker_id),
            identity=_NOBODY,
            queues=(),
            capabilities=(),
            concurrency=0,
            version="",
            started_at=_NEVER,
            trouble=f"its row in the ledger cannot be read: {reason}",
        )
        return SeenWorker(row, silent_s, unreadable=True)
    if not row.started_at.is_sound:
        row = msgspec.structs.replace(row, started_at=_NEVER)
    return SeenWorker(row, silent_s)


def wanting_row(row: Sequence[Any]) -> Wanting:
    run_id, workflow, queue, priority, needs, due_us, submitted_at_us = row
    capabilities = tuple(sound_text(needs).split(",")) if needs else ()
    rank = priority if type(priority) is int else 0
    times = (sound_us(due_us), sound_us(submitted_at_us))
    return Wanting(sound_text(run_id), sound_text(workflow), sound_text(queue), rank, capabilities, *times)
