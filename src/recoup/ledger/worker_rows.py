"""What workers look for and what they say of themselves, as rows of any backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from recoup.model.storage import Wanting, WorkerRow

FORGOTTEN_S = 86_400.0
"""A worker that has been silent for so long is not listed any more."""

decode_worker = msgspec.json.Decoder(WorkerRow).decode
_encode = msgspec.json.Encoder().encode


def encode_worker(worker: WorkerRow) -> str:
    return _encode(worker).decode()


def wanting_row(row: Sequence[Any]) -> Wanting:
    run_id, workflow, queue, priority, needs, due_us, submitted_at_us = row
    capabilities = tuple(needs.split(",")) if needs else ()
    return Wanting(run_id, workflow, queue, priority, capabilities, due_us, submitted_at_us)
