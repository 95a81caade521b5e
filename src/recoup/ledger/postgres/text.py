"""Text in PostgreSQL, which keeps every character but NUL: that one is written as an escape and read back."""

from __future__ import annotations

from collections.abc import Iterable

from psycopg import adapters
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap, Dumper, Loader
from psycopg.pq import Format

_ESCAPE = "\x10"
_NUL = _ESCAPE + "0"
_ESCAPE_BYTE = _ESCAPE.encode()
_TYPES = ("text", "varchar", "name")


def escaped(text: str) -> str:
    """Different texts stay different, so that keys can be compared as they are stored."""
    if _ESCAPE not in text and "\x00" not in text:
        return text
    return text.replace(_ESCAPE, _ESCAPE * 2).replace("\x00", _NUL)


def text_array(texts: Iterable[str]) -> str:
    """As a literal of the server."""
    return "{" + ",".join([f'"{_quoted(text)}"' for text in texts]) + "}"


def number_array(numbers: Iterable[int]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def text_adapters() -> AdaptersMap:
    """For connections of ours."""
    ours = AdaptersMap(adapters)
    ours.register_dumper(str, _TextDumper)
    for name in _TYPES:
        ours.register_loader(name, _TextLoader)
        ours.register_loader(name, _BinaryTextLoader)
    return ours


class _TextDumper(Dumper):
    """As text of no particular type, like psycopg's own."""

    def dump(self, obj: str) -> Buffer:
        return escaped(obj).encode()


class _TextLoader(Loader):
    def load(self, data: Buffer) -> str:
        stored = bytes(data)
        return stored.decode() if _ESCAPE_BYTE not in stored else _restored(stored.decode())


class _BinaryTextLoader(_TextLoader):
    format = Format.BINARY


def _restored(text: str) -> str:
    parts = text.split(_ESCAPE * 2)
    return _ESCAPE.join(part.replace(_NUL, "\x00") for part in parts)
