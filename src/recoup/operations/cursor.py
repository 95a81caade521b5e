"""Places in lists, as text that callers hand back: opaque, and the same at every edge."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Final, TypeVar

import msgspec

CHARS_MAX: Final = 400
PLACE_MAX: Final = 10**18 - 1
"""No database counts further, whatever it adds."""
Shape = TypeVar("Shape")
Place = Annotated[int, msgspec.Meta(ge=0, le=PLACE_MAX)]
Micros = Annotated[int, msgspec.Meta(ge=-PLACE_MAX, le=PLACE_MAX)]


def cursor_of(*parts: str | int) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(parts)).decode().rstrip("=")


def read_cursor(cursor: str, shape: type[Shape]) -> Shape:
    """Raises ValueError for what `cursor_of` did not make."""
    if len(cursor) > CHARS_MAX:
        raise ValueError("it is too long")
    try:
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        return msgspec.json.decode(raw, type=shape)
    except (binascii.Error, msgspec.MsgspecError) as error:
        raise ValueError(str(error)) from None


def read_run_cursor(cursor: str) -> tuple[int, str]:
    """When a run was submitted, in microseconds, and its id. Also reads what MCP gave out before (`MICROSECONDS:RUN`).
    Raises ValueError."""
    wall_us, _, run_id = cursor.partition(":")
    if run_id and wall_us.isascii() and wall_us.isdigit() and len(wall_us) < 19:
        return int(wall_us), run_id
    return read_cursor(cursor, tuple[Micros, str])
