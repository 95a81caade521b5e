"""The control socket of an ssh master (OpenSSH's PROTOCOL.mux): a short path for it, and whether somebody answers."""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
import struct
import tempfile
from pathlib import Path
from typing import Final

HELLO: Final = 0x00000001
ALIVE_CHECK: Final = 0x10000004
ALIVE: Final = 0x80000005
VERSION: Final = 4
PACKET_BYTES_MAX: Final = 4096
ANSWER_S: Final = 2.0


def control_folder(name: str) -> Path:
    """A private folder with a short path, always the same for the same name: sockets allow 100 characters or so.

    Raises OSError when somebody else has taken the place.
    """
    short = hashlib.sha256(name.encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"recoup-{os.getuid()}-{short}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError(f"{folder} is not ours alone: remove it")
    return folder


async def master_answers(socket: Path) -> bool:
    """Within a moment. False also while there is no socket yet."""
    try:
        async with asyncio.timeout(ANSWER_S):
            reader, writer = await asyncio.open_unix_connection(socket)
            try:
                return await _is_alive(reader, writer)
            finally:
                writer.transport.abort()
    except (OSError, asyncio.IncompleteReadError):  # a TimeoutError is an OSError
        return False


async def _is_alive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    writer.write(_packet(HELLO, VERSION) + _packet(ALIVE_CHECK, 0))
    return await _kind_of_packet(reader) == HELLO and await _kind_of_packet(reader) == ALIVE


def _packet(kind: int, number: int) -> bytes:
    return struct.pack(">III", 8, kind, number)


async def _kind_of_packet(reader: asyncio.StreamReader) -> int:
    (length,) = struct.unpack(">I", await reader.readexactly(4))
    if not 4 <= length <= PACKET_BYTES_MAX:
        return 0
    body = await reader.readexactly(length)
    return int.from_bytes(body[:4], "big")
