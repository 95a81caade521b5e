"""The usual spellings of a registered value, one row each: what programs, terminals and people make of it."""

from __future__ import annotations

import base64
import html
import json
import re
import shlex
import textwrap
import urllib.parse
from collections.abc import Callable

import pytest

from recoup.redaction.redactor import SecretRedactor

VALUES = ("s3cr3t-Value_of-this-Run-42", "p@ss/w0rd+with&signs=<1>#x", "quo\"ted'and\\slashed 1234")
Spelling = Callable[[str], bytes]


def each(spelling: str) -> Spelling:
    return lambda value: "".join(spelling.format(ord(c)) for c in value).encode()


def put_inside(noise: bytes, every: int = 5) -> Spelling:
    def spelled(value: str) -> bytes:
        raw = value.encode()
        return noise.join(raw[at : at + every] for at in range(0, len(raw), every))

    return spelled


def b64(before: bytes) -> Spelling:
    return lambda value: base64.b64encode(before + value.encode())


def lines_of(columns: int) -> Spelling:
    def spelled(value: str) -> bytes:
        text = base64.b64encode(b"user:" * 13 + value.encode()).decode()
        return "\n".join(textwrap.wrap(text, columns)).encode()

    return spelled


SPELLINGS: dict[str, Spelling] = {
    "plain": str.encode,
    "base64": b64(b""),
    "base64, second place": b64(b"x"),
    "base64, third place": b64(b"xy"),
    "base64, url-safe": lambda v: base64.urlsafe_b64encode(v.encode()),
    "base64, no padding": lambda v: base64.b64encode(v.encode()).rstrip(b"="),
    "base64, 76 columns": lines_of(76),
    "base64, 64 columns": lines_of(64),
    "percent, every character": each("%{:02X}"),
    "percent, every character, lower case": each("%{:02x}"),
    "percent, what must be": lambda v: urllib.parse.quote(v, safe="").encode(),
    "percent, lower case": lambda v: urllib.parse.quote(v, safe="").lower().encode(),
    "form": lambda v: urllib.parse.quote_plus(v).encode(),
    "html by name": lambda v: html.escape(v).encode(),
    "html by number": each("&#{};"),
    "html by hex number": each("&#x{:x};"),
    "html signs by number": lambda v: "".join(c if c.isalnum() else f"&#{ord(c)};" for c in v).encode(),
    "json": lambda v: json.dumps(v).encode()[1:-1],
    "json twice": lambda v: json.dumps(json.dumps(v)).encode()[3:-3],
    "json twice after a line break": lambda v: json.dumps(json.dumps("a\n" + v)).encode()[3:-3],
    "\\u escapes": each("\\u{:04x}"),
    "\\u escapes, capital": each("\\u{:04X}"),
    "\\u escapes in json": each("\\\\u{:04x}"),
    "repr": lambda v: repr(v).encode()[1:-1],
    "shell, quoted": lambda v: shlex.quote(v).encode(),
    "shell, double quotes": lambda v: re.sub(r'(["\\$`])', r"\\\1", v).encode(),
    "shell, $''": lambda v: v.replace("\\", "\\\\").replace("'", "\\'").encode(),
    "hex": lambda v: v.encode().hex().encode(),
    "hex, capital": lambda v: v.encode().hex().upper().encode(),
    "hex with colons": lambda v: v.encode().hex(":").encode(),
    "base32": lambda v: base64.b32encode(v.encode()).rstrip(b"="),
    "upper case": lambda v: v.upper().encode(),
    "lower case": lambda v: v.lower().encode(),
    "utf-16, little-endian, with its mark": lambda v: b"\xff\xfe" + v.encode("utf-16-le"),
    "utf-16, big-endian, with its mark": lambda v: b"\xfe\xff" + v.encode("utf-16-be"),
    "wrapped with indentation": put_inside(b"\n        "),
    "wrapped with tabs": put_inside(b"\r\n\t\t"),
    "colours inside": put_inside(b"\x1b[1;31m"),
    "colours inside, in json": put_inside(b"\\u001b[0m"),
    "zero width inside": put_inside("\u200b".encode()),
    "joiners inside": put_inside("\u2060".encode()),
    "user part of an address": lambda v: f"https://{urllib.parse.quote(v, safe='')}@host/path".encode(),
    "set -x": lambda v: f"+ curl -H {shlex.quote('X-Key: ' + v)}".encode(),
}
AROUND = {
    "base64, 76 columns": 96,
    "base64, 64 columns": 96,
    "json twice after a line break": 6,
    "user part of an address": 18,
    "set -x": 21,
}
"""Bytes beside the value in a spelling; of the others up to four signs and quotes may be left."""


def redactor(value: str) -> SecretRedactor:
    made = SecretRedactor()
    made.register("TOKEN", value)
    return made


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("name", SPELLINGS)
def test_a_usual_spelling_of_a_registered_value_is_masked(name: str, value: str) -> None:
    spelled = SPELLINGS[name](value)
    shown = redactor(value).redact(b"before: " + spelled + b" :after").data
    assert b"[redacted]" in shown
    left = shown.replace(b"[redacted]", b"").replace(b"before: ", b"").replace(b" :after", b"")
    assert len(left) <= AROUND.get(name, 4), left


@pytest.mark.parametrize("value", VALUES)
def test_a_value_torn_by_a_line_break_at_any_place_is_masked(value: str) -> None:
    """But beside a blank or a backslash of its own, which may belong to the break."""
    for at in (n for n in range(1, len(value)) if not {*value[n - 1 : n + 1]} & {" ", "\\"}):
        for seam in ("\n", "\n    ", "\r\n", "\n\t"):
            torn = f"before {value[:at]}{seam}{value[at:]} after"
            assert redactor(value).redact(torn).text == "before [redacted] after"
            sealed = redactor(value).seal({"said": torn}).data
            assert sealed == b'{"said":"before [redacted] after"}'


@pytest.mark.parametrize("size", [1, 3, 7])
def test_a_torn_value_is_masked_in_a_stream_once_four_bytes_of_it_are_there(size: int) -> None:
    value = VALUES[0]
    for at in range(4, len(value)):
        stream, text = redactor(value).stream(), f"before {value[:at]}\n  {value[at:]} after".encode()
        pieces = [text[n : n + size] for n in range(0, len(text), size)]
        shown = b"".join([*(stream.feed(piece).data for piece in pieces), stream.flush().data])
        assert shown == b"before [redacted] after"


def test_no_line_of_ordinary_text_waits_for_the_next() -> None:
    stream = redactor("s3cr3t-Value").stream()
    for line in (b"nothing here is\n", b"as sure as\n", b"s\n", b"s3\n", b"s3c\n"):
        assert stream.feed(line).data == line


@pytest.mark.parametrize("value", ["correct", "horsebattery", "staple77", "TESTING"])
def test_ordinary_text_stays_as_it_is(value: str) -> None:
    text = (
        "a test of the correction: horses and batteries,\n  staples 7 and 7 of 12\nhorse battery\ncorr ect\n"
    )
    shown = redactor(value).redact(text).text
    assert shown == text.replace("correct", "[redacted]") if value == "correct" else shown == text


def test_lines_that_only_end_and_begin_like_a_short_value_are_left_alone() -> None:
    assert redactor("foobar").redact("foo\nbar\nfoo\n  bar").text == "foo\nbar\nfoo\n  bar"


def test_secrets_on_lines_of_their_own_keep_their_lines() -> None:
    value = VALUES[0]
    assert redactor(value).redact(f"{value}\n{value}\n").text == "[redacted]\n[redacted]\n"


TOKENS = (*VALUES[:2], "3f9a1c" * 5, "pK7-" * 9 + "x", "Tr0ub4dor&3/x+y%Z")


@pytest.mark.parametrize("token", TOKENS)
def test_the_first_and_the_last_60_percent_of_a_token_alone_are_masked(token: str) -> None:
    size = len(token) * 3 // 5
    for part in (token[:size], token[-size:]):
        assert redactor(token).redact(f"before {part}… after").text == "before [redacted]… after"
        assert redactor(token).found_in(part.encode()) == ("TOKEN",)


@pytest.mark.parametrize("token", TOKENS)
def test_a_whole_token_is_one_mask_wherever_a_stream_is_cut(token: str) -> None:
    text = f"before {token} after".encode()
    for at in range(1, len(text)):
        stream = redactor(token).stream()
        shown = stream.feed(text[:at]).data + stream.feed(text[at:]).data + stream.flush().data
        assert shown == b"before [redacted] after"


def test_parts_of_an_address_or_a_sentence_are_ordinary_text() -> None:
    for value in ("https://shop.example/some/place?key=s3cr3t", "correct horse battery staple 42 times"):
        text = f"see {value[: len(value) * 3 // 5]} and so on"
        assert redactor(value).redact(text).text == text


def test_a_value_with_other_letters_is_masked_byte_by_byte_in_an_address() -> None:
    value = "Grüße-aus-München-42"
    for spelling in ("%{:02X}", "%{:02x}"):
        address = "https://shop.example/" + "".join(map(spelling.format, value.encode()))
        assert redactor(value).redact(address).text == "https://shop.example/[redacted]"


@pytest.mark.parametrize("order", ["utf-16-le", "utf-16-be"])
def test_a_long_value_is_masked_in_utf_16(order: str) -> None:
    value = "".join(f"line {n} of a key: {n * n * n:x}\n" for n in range(60)).strip()
    shown = redactor(value).redact(b"<" + value.encode(order) + b">").data
    assert shown == b"<[redacted]>"
