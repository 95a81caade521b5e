"""Prints: data on stdout, progress and errors on stderr. Text is cleaned; only our own colours reach a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TextIO

from recoup.kernel.wording import clean, json_escaped, one_line, plain_log

if TYPE_CHECKING:
    from types import TracebackType

    from recoup.terminal.screen import Screen

_SGR: Final = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "cyan": 36}

_screens: list[Screen] = []
"""What is drawn on the terminal now, if anything: whatever is printed must go above it."""


def _decoded(content: bytes) -> str:
    return content.decode("utf-8", "replace")


def say(text: str = "", style: str = "") -> None:
    """One line on stdout, whatever line breaks the text has."""
    _print(sys.stdout, styled(text, style, sys.stdout) + "\n")


def note(text: str = "", style: str = "") -> None:
    """One line on stderr."""
    _print(sys.stderr, styled(text, style, sys.stderr) + "\n")


def say_lines(text: str) -> None:
    """A text of our own that has several lines, on stdout."""
    _print(sys.stdout, _ended(clean(text)))


def note_lines(text: str) -> None:
    """The same on stderr."""
    _print(sys.stderr, _ended(clean(text)))


def print_json(document: Any) -> None:
    """One document on one line, so that streams of them are JSON lines."""
    import msgspec

    print_json_text(msgspec.json.encode(document).decode())


def print_json_text(text: str) -> None:
    """JSON that is encoded already. What is invisible is escaped, so that a terminal shows it, too."""
    _print(sys.stdout, json_escaped(text) + "\n")


def hand_over(content: str | bytes, decode: Callable[[bytes], str] = _decoded) -> None:
    """What programs read, such as a plan, a patch or a log: exact in a pipe or a file, cleaned on a terminal. `decode`
    carries over what a piece of a longer text ends with."""
    stream = sys.stdout
    if stream is None:
        return
    if stream.isatty():
        _print(stream, plain_log(content if isinstance(content, str) else decode(content)))
    elif isinstance(content, str):
        _print(stream, content)
    else:
        stream.flush()
        stream.buffer.write(content)
        stream.buffer.flush()


def confirmed(question: str) -> bool:
    """Ask the user at the terminal."""
    import click

    return click.confirm(one_line(question))


def clean_reports() -> None:
    """What Python itself prints of a mistake of ours, and log records that nobody else takes, come this way, too."""
    import logging

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            note_lines(self.format(record))

    logging.lastResort = Lines(logging.WARNING)
    sys.excepthook = _print_traceback


def _print_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    import traceback

    note_lines("".join(traceback.format_exception(kind, error, trace)))


def is_terminal() -> bool:
    """Whether a person sees what is printed on stdout."""
    return sys.stdout is not None and sys.stdout.isatty()


def styled(text: str, style: str, stream: TextIO | None) -> str:
    """One clean line, in a colour of ours where colours are shown."""
    line = one_line(text)
    if not style or not line or stream is None or not stream.isatty() or os.environ.get("NO_COLOR"):
        return line
    return f"\x1b[{_SGR[style]}m{line}\x1b[0m"


def flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


def _ended(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"


def _print(stream: TextIO | None, text: str) -> None:
    if stream is None:
        return
    if _screens and stream.isatty():
        _screens[-1].above(lambda: _write(stream, text))
    else:
        _write(stream, text)


def _write(stream: TextIO, text: str) -> None:
    """A reader that goes away (`| head`) must not end the work: it goes on unread."""
    try:
        stream.write(_encodable(text, stream))
        stream.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _encodable(text: str, stream: TextIO) -> str:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    if text.isascii() or encoding.lower() in ("utf-8", "utf8"):
        return text
    return text.encode(encoding, "backslashreplace").decode(encoding)
