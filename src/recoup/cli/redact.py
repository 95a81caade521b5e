"""`redact`: what a run would store of a text."""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from recoup.cli.output import json_option
from recoup.errors import StateError, UsageError
from recoup.kernel.wording import json_escaped
from recoup.terminal.writer import hand_over, note

if TYPE_CHECKING:
    from recoup.redaction.redactor import ChainedStream, SecretRedactor

_CHUNK_BYTES_MAX = 65_536


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path, allow_dash=True))
@click.option("--register", "names", multiple=True, metavar="NAME", help="Hide this variable's value too.")
@json_option
def redact(file: Path | None, names: tuple[str, ...], as_json: bool) -> None:
    """Print FILE, or standard input, without the secrets in it, and on stderr how many there were.

    Hidden are the values of environment variables whose names say that they are secret (TOKEN, PASSWORD, API_KEY…)
    and of those that are named, in every form they are written in, as in everything that `recoup run` stores.

    \b
    Examples:
      recoup redact < build.log > to-share.log
      make 2>&1 | recoup redact
      recoup redact --register CUSTOMER --json build.log
    """
    redactor = _redactor(names)
    stream = redactor.stream()
    with _opened(file) as source:
        pieces = _pieces(stream, source, file)
        _write(_document(pieces, stream) if as_json else pieces)
    if not as_json:
        note(_count(stream.hidden))


def _redactor(names: Iterable[str]) -> SecretRedactor:
    from recoup.redaction.registration import environment_redactor, register_secret

    redactor = environment_redactor(os.environ)
    for name in names:
        if name not in os.environ:
            raise UsageError(
                f"{name} is not set here, so its value cannot be hidden",
                hint=f"Set it for this command, or leave out --register {name}.",
            )
        register_secret(redactor, name, os.environ[name])
    return redactor


@contextmanager
def _opened(file: Path | None) -> Iterator[IO[bytes]]:
    if file is None or str(file) == "-":
        if sys.stdin is None:
            raise UsageError(
                "standard input is closed", hint="Name a file, or give the text on standard input."
            )
        yield sys.stdin.buffer
        return
    try:
        source = file.open("rb")
    except OSError as error:
        raise _unreadable(file, error) from None
    with source:
        yield source


def _pieces(stream: ChainedStream, source: IO[bytes], file: Path | None) -> Iterator[bytes]:
    """Each as soon as there is one, for whoever watches a slow source."""
    try:
        while chunk := os.read(source.fileno(), _CHUNK_BYTES_MAX):
            yield stream.feed(chunk).data
    except OSError as error:
        raise _unreadable(file, error) from None
    yield stream.flush().data


def _document(pieces: Iterable[bytes], stream: ChainedStream) -> Iterator[bytes]:
    """One JSON document, written as it comes: the text may be larger than memory."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    yield b'{"text":"'
    for piece in pieces:
        yield _inside(decoder.decode(piece))
    yield _inside(decoder.decode(b"", True))
    yield b'","hidden":%d}\n' % stream.hidden


def _inside(text: str) -> bytes:
    import msgspec

    return json_escaped(msgspec.json.encode(text).decode())[1:-1].encode()


def _write(pieces: Iterable[bytes]) -> None:
    shown = codecs.getincrementaldecoder("utf-8")("replace")
    for piece in filter(None, pieces):
        try:
            hand_over(piece, shown.decode)
        except OSError as error:
            # What the buffer still holds would be tried again when the process ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if isinstance(error, BrokenPipeError):
                sys.exit(0)  # nobody reads on (`| head`)
            raise StateError(
                f"the redacted text cannot be written: {error.strerror}",
                hint="Free some space, or send it somewhere else.",
            ) from None


def _unreadable(file: Path | None, error: OSError) -> UsageError:
    return UsageError(
        f"{file or 'standard input'} cannot be read: {error.strerror}",
        hint="Name a file that can be read, or give the text on standard input.",
    )


def _count(hidden: int) -> str:
    return "1 secret hidden" if hidden == 1 else f"{hidden} secrets hidden"
