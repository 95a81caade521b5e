"""The text of a file that a person wrote, bounded and in UTF-8."""

from __future__ import annotations

from pathlib import Path

from recoup.files.named import DatabaseInUse, read_named
from recoup.shapes.tree import Unreadable


def read_text(path: Path, bytes_max: int) -> str:
    """Raises Unreadable."""
    try:
        content = read_named(path, bytes_max + 1, pipes=True)
    except (OSError, ValueError) as error:
        raise Unreadable(_why_unreadable(error)) from None
    return decoded(content, bytes_max)


def decoded(content: str | bytes, bytes_max: int) -> str:
    """Text as it can stand in a file; a byte order mark is dropped. Raises Unreadable."""
    try:
        raw = content.encode() if isinstance(content, str) else content
        _refuse_large(raw, bytes_max)
        return raw.decode("utf-8-sig")
    except UnicodeError as error:
        raise Unreadable(
            "this is not UTF-8 text: save the file as UTF-8", _error_line(content, error)
        ) from None


def _refuse_large(raw: bytes, bytes_max: int) -> None:
    if len(raw) > bytes_max:
        raise Unreadable(f"larger than {bytes_max:,} bytes: split it up")


def _error_line(content: str | bytes, error: UnicodeError) -> int:
    start: int = getattr(error, "start", 0)
    before = content[:start]
    return (before.count("\n") if isinstance(before, str) else before.count(b"\n")) + 1


def _why_unreadable(error: OSError | ValueError) -> str:
    match error:
        case FileNotFoundError() | NotADirectoryError():
            return "there is no such file: check the path"
        case IsADirectoryError():
            return "this is a folder: name the file inside it"
        case PermissionError():
            return "this file may not be read: check its permissions"
        case DatabaseInUse():
            return str(error.strerror)
        case OSError():
            return f"this file cannot be read: {error.strerror}"
        case _:
            return "this is not a path: it holds a NUL character"
