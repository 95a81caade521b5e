"""What a workflow remembers of its targets, as bytes and back. The same memory is the same bytes on every machine."""

from __future__ import annotations

from typing import Final

import msgspec

from recoup.errors import LearningError, VersionDamaged
from recoup.kernel.healing import OBSERVED_MAX
from recoup.kernel.memory import ENTRIES_MAX, FORBIDDEN_MAX
from recoup.kernel.waiting import TARGETS_MAX
from recoup.learning.versions import COMPONENT_BYTES_MAX
from recoup.model.instant import Instant
from recoup.model.memory import Entry, Found, State
from recoup.model.target import Element

MEMORY_FORMAT: Final = 1


class _Forbidden(msgspec.Struct, frozen=True, array_like=True):
    step_id: str
    target_digest: str
    identities: tuple[str, ...]


class _Stored(msgspec.Struct, frozen=True):
    format: int
    entries: list[Entry]
    """The one that was used longest ago first."""
    forbidden: list[_Forbidden]


class _Observed(msgspec.Struct, frozen=True, array_like=True):
    step_id: str
    target_digest: str
    element: Element


class _Took(msgspec.Struct, frozen=True, array_like=True):
    step_id: str
    target_digest: str
    took_ms: tuple[int, ...]


class _StoredFound(msgspec.Struct, frozen=True):
    format: int
    observed: list[_Observed]
    healed: list[Instant]
    took: list[_Took] = []
    """Not in what was stored before slow targets were timed."""


def encode_found(found: Found) -> bytes:
    observed = [_Observed(*key, element) for key, element in found.observed.items()]
    took = [_Took(*key, took_ms) for key, took_ms in found.took_ms.items()]
    return msgspec.json.encode(_StoredFound(MEMORY_FORMAT, observed, list(found.healed), took))


def decode_found(data: bytes) -> Found:
    try:
        stored = msgspec.json.decode(data, type=_StoredFound)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise VersionDamaged(f"what was stored is not what targets looked like: {error}") from error
    if stored.format != MEMORY_FORMAT or len(stored.observed) > OBSERVED_MAX:
        raise VersionDamaged(
            f"format {stored.format} with {len(stored.observed)} targets is not understood here"
        )
    observed = {(told.step_id, told.target_digest): told.element for told in stored.observed}
    took = {(told.step_id, told.target_digest): told.took_ms for told in stored.took[-TARGETS_MAX:]}
    return Found(observed, tuple(stored.healed), took)


def encode_memory(state: State) -> bytes:
    _check(len(state.entries), len(state.forbidden))
    forbidden = [
        _Forbidden(step_id, target, tuple(sorted(identities)))
        for (step_id, target), identities in state.forbidden.items()
    ]
    data = msgspec.json.encode(_Stored(MEMORY_FORMAT, list(state.entries.values()), forbidden))
    if len(data) > COMPONENT_BYTES_MAX:
        raise LearningError(f"a memory has {len(data)} bytes, and at most {COMPONENT_BYTES_MAX} are stored")
    return data


def decode_memory(data: bytes) -> State:
    try:
        stored = msgspec.json.decode(data, type=_Stored)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise VersionDamaged(f"what was stored is no memory of targets: {error}") from error
    if stored.format != MEMORY_FORMAT:
        raise VersionDamaged(
            f"this memory of targets has format {stored.format}, and format {MEMORY_FORMAT} is understood here",
            hint="A newer version of Recoup wrote it: use that one, or go back to an earlier version of the memory.",
        )
    _check(len(stored.entries), len(stored.forbidden))
    return State(
        {((entry.step_id, entry.target_digest), entry.identity): entry for entry in stored.entries},
        {(told.step_id, told.target_digest): frozenset(told.identities) for told in stored.forbidden},
    )


def _check(entries: int, forbidden: int) -> None:
    if entries > ENTRIES_MAX or forbidden > FORBIDDEN_MAX:
        raise LearningError(
            f"a memory has {entries} entries and {forbidden} forbidden targets, and at most {ENTRIES_MAX} and"
            f" {FORBIDDEN_MAX} are stored"
        )
