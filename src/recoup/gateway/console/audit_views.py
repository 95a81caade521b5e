"""An event as a line of the audit: who, what, why. Values in, values out."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from recoup.model.storage import Arrival
from recoup.shapes.durations import duration_s

_WHO: Final = ("by", "actor", "submittedBy", "source")
_WHY: Final = ("reason", "submitReason", "summary", "detail")
_ABOUT: Final = (
    "workflow",
    "stepId",
    "attempt",
    "action",
    "outcome",
    "mode",
    "resource_id",
    "verdict",
    "version",
)
_WORDS_MAX: Final = 400


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which events; an empty word means all."""

    type: str = ""
    stream: str = ""
    who: str = ""
    since_us: int | None = None


class AuditLine(msgspec.Struct, frozen=True):
    number: int
    at: str
    stream: str
    seq: int
    run_id: str | None
    type: str
    who: str
    why: str
    about: str
    body: dict[str, Any]


def fits(one: Arrival, wanted: Wanted) -> bool:
    """By beginnings of types and streams; by any part of who did it."""
    if not one.type.startswith(wanted.type) or not one.stream.startswith(wanted.stream):
        return False
    return not wanted.who or wanted.who.casefold() in who_of(_body(one)).casefold()


def audit_line(one: Arrival) -> AuditLine:
    body = _body(one)
    about = [f"{key}: {body[key]}" for key in _ABOUT if isinstance(body.get(key), str | int | float)]
    return AuditLine(
        number=one.number,
        at=one.at.iso(),
        stream=one.stream,
        seq=one.seq,
        run_id=one.stream.removeprefix("run:") if one.stream.startswith("run:") else None,
        type=one.type,
        who=who_of(body),
        why=next((body[key] for key in _WHY if isinstance(body.get(key), str) and body[key]), "")[
            :_WORDS_MAX
        ],
        about=", ".join(about)[:_WORDS_MAX],
        body=_shown(body),
    )


def who_of(body: dict[str, Any]) -> str:
    return next((body[key] for key in _WHO if isinstance(body.get(key), str) and body[key]), "")


def since_us(words: str, now_us: int) -> int | None:
    """`2h`, `7d`: so long ago. None: nothing was said, or it is not understood."""
    try:
        return now_us - round(duration_s(words) * 1e6) if words else None
    except ValueError:
        return None


def _body(one: Arrival) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(one.payload.data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return {"reason": f"cannot be read: {error}"}
    return found if isinstance(found, dict) else {}


def _shown(body: dict[str, Any]) -> dict[str, Any]:
    """Without whole plans: a page of them would be megabytes."""
    return {key: "…" if key == "plan" else value for key, value in body.items()}
