"""A file on this machine: one JSON line for each notification."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from recoup.files.folders import make_folder
from recoup.files.named import require_no_database
from recoup.notifiers.kind import NotDelivered, Notification, NotifierKind, NotifierSite

if TYPE_CHECKING:
    from recoup.shapes.shape import Shape

LOOKED_BACK_BYTES: Final = 1 << 20


class FileNotifier(NotifierKind[str]):
    """Durable when it is delivered. A line that is there already is not written twice."""

    key = "file"

    def fields(self) -> Mapping[str, Any]:
        from pydantic import Field

        from recoup.shapes.shape import Text

        description = "JSON lines are added to it. Default: one in the probe's folder."
        return {"file": (Text | None, Field(None, description=description, examples=["./escalations.jsonl"]))}

    def settings(self, written: Shape) -> str | None:
        path: str | None = vars(written)["file"]
        return path

    def digested(self, settings: str | None) -> Mapping[str, Any]:
        return {"file": settings}

    async def deliver(self, notification: Notification, settings: str, site: NotifierSite) -> str:
        path = site.folder / Path(settings).expanduser()
        try:
            _append(path, notification)
        except OSError as error:
            raise NotDelivered(f"{path}: {error.strerror}") from error
        return f"added to {path}"


def _append(path: Path, notification: Notification) -> None:
    make_folder(path.parent)
    require_no_database(path)
    with path.open("ab+") as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(0, end - LOOKED_BACK_BYTES))
        written = file.read()
        if any(_id_in(line) == notification.id for line in written.splitlines()):
            return
        torn = b"\n" if written and not written.endswith(b"\n") else b""
        file.write(torn + notification.body.data + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _id_in(line: bytes) -> str | None:
    try:
        return str(msgspec.json.decode(line)["escalation_id"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return None


NOTIFIER = FileNotifier()
