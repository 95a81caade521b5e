"""Plain scalars by the core schema of YAML 1.2; a number remembers how it was written."""

from __future__ import annotations

import math
import re
from typing import Any

from recoup.shapes.tree import INTEGER_BITS_MAX

NUMBER_CHARS_MAX = 400


class WrittenInt(int):
    written: str


class WrittenFloat(float):
    written: str


def scalar(event: Any) -> Any:
    text: str = event.value
    if not event.implicit[0] or event.tag is not None:
        return text
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    return _number(text) if text[0] in _NUMBER_STARTS else text


def plain(value: Any) -> Any:
    """The same without the memory of how numbers were written."""
    match value:
        case bool() | None | str():
            return value
        case int():
            return int(value)
        case float():
            return float(value)
        case list():
            return [plain(item) for item in value]
        case _:
            return {key: plain(item) for key, item in value.items()}


_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_SPECIAL_FLOATS = {
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
}
_NUMBER_STARTS = frozenset("+-.0123456789")


def _number(text: str) -> Any:
    if len(text) > NUMBER_CHARS_MAX:
        return text
    if _INTEGER.fullmatch(text):
        return _written_int(int(text), text)
    if _OCTAL.fullmatch(text) or _HEXADECIMAL.fullmatch(text):
        return _written_int(int(text, 0), text)
    if _FLOAT.fullmatch(text):
        return _written_float(float(text), text)
    return _written_float(_SPECIAL_FLOATS[text], text) if text in _SPECIAL_FLOATS else text


def _written_int(value: int, text: str) -> WrittenInt | str:
    if value.bit_length() > INTEGER_BITS_MAX:
        return text
    number = WrittenInt(value)
    number.written = text
    return number


def _written_float(value: float, text: str) -> WrittenFloat:
    number = WrittenFloat(value)
    number.written = text
    return number
