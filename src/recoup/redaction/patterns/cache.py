"""Keeps the compiled rules between runs: compiling takes seconds, reading them back a few milliseconds.

The file says which versions it was made for and carries a digest of itself. One that is foreign, cut off or altered
is made again; two processes that make it at once write the same and the last one wins.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from recoup.redaction.patterns.rule import Rule

CACHES_KEPT: Final = 4
FILE_BYTES_MAX: Final = 64 << 20
_MAGIC: Final = b"recoup-patterns-1\n"
_DIGEST_BYTES: Final = 32


class Compiled(msgspec.Struct, frozen=True):
    """What is kept: the rules in their order, the screen's database, and what became of the package's rules."""

    key: str
    rules: Sequence[Rule]
    database: bytes
    package: str | None
    trouble: str | None
    rules_read: int
    left_out: dict[str, str]


def read_compiled(folder: Path, key: str) -> Compiled | None:
    """None when there is none that can be used, whatever the reason: it can always be made again."""
    try:
        with (folder / _name(key)).open("rb") as file:
            about = os.fstat(file.fileno())
            if about.st_uid != os.getuid():
                return None
            raw = file.read(min(about.st_size, FILE_BYTES_MAX))
    except OSError:
        return None
    head = len(_MAGIC) + _DIGEST_BYTES
    body = memoryview(raw)[head:]  # megabytes, which every start would copy twice
    if not raw.startswith(_MAGIC) or hashlib.sha256(body).digest() != raw[len(_MAGIC) : head]:
        return None
    return _decoded(body, key)


def write_compiled(folder: Path, compiled: Compiled) -> None:
    """Best effort: without a cache the next run compiles again, nothing else."""
    body = _encoded(compiled)
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # It becomes visible only as a whole, and nobody else may read or replace it.
        part = folder / f".{_name(compiled.key)}.{os.getpid()}"
        with contextlib.suppress(FileNotFoundError):
            part.unlink()
        try:
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(_MAGIC + hashlib.sha256(body).digest() + body)
            part.replace(folder / _name(compiled.key))
            _forget_old(folder)
        except OSError:
            part.unlink(missing_ok=True)
            raise


def _forget_old(folder: Path) -> None:
    newest_first = sorted(folder.glob(_name("*")), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for path in newest_first[CACHES_KEPT:]:
        path.unlink(missing_ok=True)


def _name(key: str) -> str:
    return f"patterns-{key}.bin"


def _encoded(compiled: Compiled) -> bytes:
    return msgspec.msgpack.encode(compiled)


def _decoded(body: memoryview, key: str) -> Compiled | None:
    try:
        compiled = msgspec.msgpack.decode(body, type=Compiled)
    except msgspec.DecodeError:
        return None
    return compiled if compiled.key == key else None
