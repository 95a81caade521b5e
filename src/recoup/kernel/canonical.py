"""Canonical JSON (RFC 8785) and the digest made from it: equal values give equal bytes on every machine."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from enum import Enum
from json.encoder import encode_basestring as _quote
from typing import Any

import msgspec

DEPTH_MAX = 200
_EXACT_INT_MAX = 2**53
_SORTED = msgspec.json.Encoder(order="sorted")


def digest(value: Any) -> str:
    """`sha256:<hex>` of the canonical JSON of `value`."""
    return "sha256:" + hashlib.sha256(canonical_json(value)).hexdigest()


def digest_of_texts(value: Any) -> str:
    """The same as `digest`, and quicker, for documents of plain objects whose keys are ASCII and whose values are
    strings: these are written alike by any encoder that sorts."""
    return f"sha256:{hashlib.sha256(_SORTED.encode(value)).hexdigest()}"


def canonical_json(value: Any) -> bytes:
    """RFC 8785 bytes of plain data, msgspec structs and enums.

    Raises ValueError for what JSON cannot say the same way everywhere: NaN, infinities, integers that a
    double would round, lone surrogates, keys that are not text, other types, nesting deeper than DEPTH_MAX.
    """
    try:
        return _text(value, 0).encode("utf-8")
    except UnicodeEncodeError as error:
        surrogate = ascii(error.object[error.start])
        raise ValueError(
            f"canonical JSON: {surrogate} is a lone surrogate; decode the text with errors='replace'"
        ) from error


def _text(value: Any, depth: int) -> str:
    kind = type(value)
    if kind is str:
        return _quote(value)
    if kind is dict:
        return _object(value, depth)
    if kind is list or kind is tuple:
        return _array(value, depth)
    if kind is int:
        return _integer(value)
    if value is None:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    if kind is float:
        return _number(value)
    return _other(value, depth)


def _object(value: Mapping[Any, Any], depth: int) -> str:
    _check_depth(depth)
    members = []
    for key in _sorted_keys(value):
        item = value[key]
        # Most leaves are text: asking here saves a call for each.
        written = _quote(item) if type(item) is str else _text(item, depth + 1)
        members.append(f"{_quote(key)}:{written}")
    return "{" + ",".join(members) + "}"


def _array(value: list[Any] | tuple[Any, ...], depth: int) -> str:
    _check_depth(depth)
    return "[" + ",".join([_text(item, depth + 1) for item in value]) + "]"


def _check_depth(depth: int) -> None:
    if depth >= DEPTH_MAX:
        raise ValueError(f"canonical JSON: nested deeper than {DEPTH_MAX} levels; flatten the value")


def _sorted_keys(value: Mapping[Any, Any]) -> list[str]:
    try:
        all_ascii = "".join(value).isascii()
    except TypeError as error:
        key = next(key for key in value if not isinstance(key, str))
        raise ValueError(f"canonical JSON: the key {key!r} is not text; use strings as keys") from error
    # The RFC orders by UTF-16 code units, in which an astral character comes before U+E000.
    return sorted(value) if all_ascii else sorted(value, key=_utf16)


def _utf16(key: str) -> bytes:
    return key.encode("utf-16-be", "surrogatepass")


def _integer(value: int) -> str:
    if -_EXACT_INT_MAX <= value <= _EXACT_INT_MAX:
        return int.__repr__(value)
    # Larger ones pass only when a double prints the very same digits, so that reading it back loses nothing.
    if abs(value) < 10**21 and _number(float(value)) == int.__repr__(value):
        return int.__repr__(value)
    raise ValueError("canonical JSON: an integer beyond 2^53 is not exact in JSON; pass it as a string")


def _number(value: float) -> str:
    """As ECMAScript prints a double: the shortest digits that read back as the same double."""
    text = float.__repr__(value)
    if "e" not in text:
        if "n" in text:
            raise ValueError(f"canonical JSON: {text} is not a JSON number; use null or a string")
        return text.removesuffix(".0") if value else "0"
    return _scientific(text)


def _scientific(text: str) -> str:
    mantissa, _, exponent = text.partition("e")
    sign = "-" if mantissa[0] == "-" else ""
    digits = mantissa.lstrip("-").replace(".", "")
    point = int(exponent) + 1
    if len(digits) <= point <= 21:
        return sign + digits + "0" * (point - len(digits))
    if -6 < point <= 0:
        return sign + "0." + "0" * -point + digits
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{fraction}e{point - 1:+d}"


def _other(value: Any, depth: int) -> str:
    """Structs and enums; subclasses of the plain types count as those."""
    match value:
        case msgspec.Struct():
            return _text(_plain(value), depth)
        case Enum():
            return _text(value.value, depth)
        case str():
            return _quote(value)
        case int():
            return _integer(value)
        case float():
            return _number(value)
        case Mapping():
            return _object(value, depth)
        case list() | tuple():
            return _array(value, depth)
    raise ValueError(
        f"canonical JSON: {type(value).__name__} has no JSON form; convert it to plain data first"
    )


def _plain(value: msgspec.Struct) -> Any:
    try:
        return msgspec.to_builtins(value, str_keys=True)
    except (TypeError, NotImplementedError, RecursionError) as error:
        raise ValueError(f"canonical JSON: {type(value).__name__} has no JSON form: {error}") from error
