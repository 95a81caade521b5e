"""A file on this machine: one JSON line for each escalation."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from recoup.files.folders import make_folder
from recoup.files.named import require_no_database
from recoup.probe.ports import Letter, NotDelivered

LOOKED_BACK_BYTES = 1 << 20


class FileOutbox:
    """Durable when it is told. A line that is there already is not written twice."""

    name = "file"

    def __init__(self, path: Path) -> None:
        self._path = path

    async def deliver(self, letter: Letter) -> None:
        try:
            self._append(letter)
        except OSError as error:
            raise NotDelivered(f"{self._path}: {error.strerror}") from error

    def _append(self, letter: Letter) -> None:
        make_folder(self._path.parent)
        require_no_database(self._path)
        with self._path.open("ab+") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - LOOKED_BACK_BYTES))
            written = file.read()
            if any(_id_in(line) == letter.escalation_id for line in written.splitlines()):
                return
            torn = b"\n" if written and not written.endswith(b"\n") else b""
            file.write(torn + letter.body.data + b"\n")
            file.flush()
            os.fsync(file.fileno())


def _id_in(line: bytes) -> str | None:
    try:
        return str(msgspec.json.decode(line)["escalation_id"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return None
