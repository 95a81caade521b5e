"""Files of the workspace, read for checks and outputs: never outside it, never more than a limit, never a pipe."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from recoup.checks.kind import Absent, NotAsked
from recoup.files.beneath import LeavesFolder, exists_beneath, read_beneath
from recoup.files.named import DatabaseInUse, NotRegular

FILE_BYTES_MAX: Final = 16 << 20
_PATH_PART: Final = re.compile(r"\[(\d{1,6})\]|([^.\[\]]+)")


def exists(folder: str, name: str) -> bool:
    try:
        return exists_beneath(folder, name)
    except LeavesFolder as link:
        raise _left(name, link) from None


def _left(name: str, link: LeavesFolder) -> Absent:
    return Absent(f"{name} was not looked at: {link.strerror}")


def text_of(folder: str, name: str, shown: str | None = None) -> str:
    text, is_whole = beginning_of(folder, name, shown)
    if not is_whole:
        raise NotAsked(f"{shown or name} is longer than {FILE_BYTES_MAX} bytes")
    return text


def beginning_of(folder: str, name: str, shown: str | None = None) -> tuple[str, bool]:
    """And whether that is all. Only of a regular file: opening a pipe would wait for ever."""
    shown = shown or name
    try:
        read = read_beneath(folder, name, FILE_BYTES_MAX + 1)
    except LeavesFolder as link:
        raise _left(shown, link) from None
    except FileNotFoundError:
        raise Absent(f"{shown} does not exist") from None
    except (IsADirectoryError, NotRegular):
        raise Absent(f"{shown} is not a regular file") from None
    except DatabaseInUse as database:
        raise Absent(f"{shown} was not read: {database.strerror}") from None
    except OSError as error:
        raise NotAsked(f"{shown} cannot be read: {error.strerror}") from None
    return read[:FILE_BYTES_MAX].decode("utf-8", "replace"), len(read) <= FILE_BYTES_MAX


def json_value(folder: str, name: str, where: str) -> Any:
    try:
        value = json.loads(text_of(folder, name))
    except ValueError as error:
        raise Absent(f"{name} is not JSON: {error}") from None
    for index, key in _PATH_PART.findall(where):
        value = _member(value, index, key, where)
    return value


def _member(value: Any, index: str, key: str, where: str) -> Any:
    if index and isinstance(value, list) and int(index) < len(value):
        return value[int(index)]
    if key and isinstance(value, dict) and key in value:
        return value[key]
    if key.isdigit() and isinstance(value, list) and int(key) < len(value):
        return value[int(key)]
    raise Absent(f"there is no {where}")
