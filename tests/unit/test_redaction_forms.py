"""Which byte strings give a secret away."""

from __future__ import annotations

import ast
import base64
import html
import json
import random
import re
import shlex
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoup.redaction.forms import (
    PIECE_CHARACTERS_MAX,
    VALUE_CHARACTERS_MAX,
    VALUE_CHARACTERS_MIN,
    WHOLLY_WRITTEN_CHARACTERS_MAX,
    refusal,
    torn_hex_forms,
    written_forms,
)
from recoup.redaction.masks import MASK
from recoup.redaction.redactor import SecretRedactor

WRITERS: dict[str, Callable[[str], bytes]] = {
    "plain": str.encode,
    "percent": lambda value: quote(value, safe="").encode(),
    "percent, slashes kept": lambda value: quote(value).encode(),
    "percent, small letters": lambda value: _lower_percent(quote(value, safe="")).encode(),
    "percent, as JavaScript": lambda value: quote(value, safe="~!*'()").encode(),
    "form field": lambda value: quote_plus(value).encode(),
    "json": lambda value: json.dumps(value, ensure_ascii=False).encode(),
    "json in ascii": lambda value: json.dumps(value).encode(),
    "json in json": lambda value: json.dumps({"log": json.dumps(value)}).encode(),
    "json as PHP": lambda value: json.dumps(value).replace("/", "\\/").encode(),
    "shell": lambda value: shlex.quote(value).encode(),
    "shell by hand": lambda value: b"'" + value.replace("'", "'\\''").encode() + b"'",
    "regular expression": lambda value: re.escape(value).encode(),
    "regular expression of RE2": lambda value: re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", value).encode(),
    "repr": lambda value: repr(value).encode(),
    "ascii": lambda value: ascii(value).encode(),
    "repr of bytes": lambda value: repr(value.encode()).encode(),
    "standard error in ascii": lambda value: value.encode("ascii", "backslashreplace"),
    "html": lambda value: html.escape(value).encode(),
    "csv": lambda value: b'"' + value.replace('"', '""').encode() + b'"',
    "terminal": lambda value: value.replace("\n", "\r\n").encode(),
    "base64": lambda value: base64.b64encode(value.encode()),
    "base64 for URLs": lambda value: base64.urlsafe_b64encode(value.encode()),
    "base64 in lines": lambda value: base64.encodebytes(value.encode()),
    "base64 after one byte": lambda value: base64.b64encode(b":" + value.encode() + b"\n"),
    "base64 after two bytes": lambda value: base64.urlsafe_b64encode(b"u:" + value.encode() + b"yz"),
    "base64 in a URL": lambda value: quote(base64.b64encode(value.encode())).encode(),
    "hex": lambda value: value.encode().hex().encode(),
    "hex with spaces, capital letters": lambda value: value.encode().hex(" ").upper().encode(),
    "hex with colons": lambda value: value.encode().hex(":").encode(),
    "hex escapes": lambda value: _hex_escapes(value.encode().hex(" ")),
    "hex escapes in json": lambda value: json.dumps(_hex_escapes(value.encode().hex(" ")).decode()).encode(),
    "hex in lines of od, with addresses": lambda value: _addressed(hex_lines(value.encode(), 16, " ")),
    "hex in lines of xxd in json": lambda value: json.dumps(
        hex_lines(value.encode(), 30, "").decode()
    ).encode(),
}
VALUES = st.text(
    st.characters(exclude_categories=["Cs"])
    | st.sampled_from("ab+/=_-.~!@#$%^&*()[]{};:,<>?|\"'\\ \t\n\r\x7f\x1bäж日😀"),
    min_size=8,
    max_size=90,
).filter(lambda value: refusal(value) is None and len(value.strip()) >= 8)


@pytest.mark.parametrize("writer", WRITERS)
@settings(max_examples=40, deadline=None)
@given(value=VALUES)
def test_no_way_of_writing_a_secret_leaves_a_telling_piece_of_it(writer: str, value: str) -> None:
    redactor = SecretRedactor()
    redactor.register("SECRET", value)
    body = WRITERS[writer](value.strip())
    out = redactor.redact(b"before " + body + b" after").data
    assert not _survives(body.strip(b"'\""), out.removeprefix(b"before ").removesuffix(b" after"))


def test_a_secret_of_letters_and_digits_has_few_forms() -> None:
    value = "correct0horse1battery"
    hexadecimal = {form for form in written_forms(value) if b"63" in form}
    assert len(written_forms(value) - hexadecimal) <= 70
    assert len(hexadecimal) <= 20
    assert len(torn_hex_forms(value)) <= 16 + 30


def test_only_the_base64_characters_that_depend_on_the_secret_alone_are_masked() -> None:
    redactor = SecretRedactor()
    redactor.register("SECRET", "horse-battery")
    for before in (b"", b"x", b"xy"):
        written = base64.b64encode(before + b"horse-battery" + b" and other text")
        prefix, _, suffix = redactor.redact(written).data.partition(MASK)
        assert base64.b64decode(suffix[-16:]).endswith(b"other text")
        assert len(prefix) <= 3


HEX_LINES = ((16, " "), (30, ""))
"""Columns and separators of `od -An -tx1` and of `xxd -p`."""


@pytest.mark.parametrize(
    "value", ["open-sesame", "0pen+Sesame/with-a-tail-as-long-as-a-token-may-be", "jörmungandr é"]
)
@pytest.mark.parametrize(("columns", "separator"), HEX_LINES)
def test_the_hex_of_a_secret_is_hidden_wherever_the_lines_of_a_dump_tear_it(
    value: str, columns: int, separator: str
) -> None:
    redactor = SecretRedactor()
    redactor.register("SECRET", value)
    for size in range(columns + 1):
        dump = hex_lines(b"~" * size + value.encode() + b"!?", columns, separator)
        before, mask, after = redactor.redact(dump).data.partition(MASK)
        assert mask
        assert bytes.fromhex(before.decode()) == b"~" * size
        assert bytes.fromhex(after.decode()) == b"!?"


def test_the_hex_of_a_long_secret_is_hidden_without_gaps() -> None:
    value = "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz0123456789é/", k=2_000))
    redactor = SecretRedactor()
    redactor.register("LONG", value)
    for separator in (" ", ":", "-"):
        dump = value.encode().hex(separator).replace("-", "")
        assert (
            redactor.redact(f"<{dump}>").data == redactor.redact(f"<{dump.upper()}>").data == b"<[redacted]>"
        )
    assert redactor.redact(_hex_escapes(value.encode().hex(" "))).data == MASK


@pytest.mark.parametrize(("columns", "separator"), HEX_LINES)
def test_the_lines_of_a_dump_of_nothing_but_a_secret_are_hidden_each_by_itself(
    columns: int, separator: str
) -> None:
    value = "".join(f"{n * n}/" for n in range(200))
    redactor = SecretRedactor()
    redactor.register("LONG", value)
    dump = _addressed(hex_lines(value.encode(), columns, separator))
    shown = [line.split()[1:] for line in redactor.redact(dump).data.splitlines()]
    assert shown == [[MASK]] * len(dump.splitlines())


def test_an_address_or_a_checksum_is_not_masked_for_a_few_of_its_digits() -> None:
    redactor = SecretRedactor()
    redactor.register("SECRET", "open-sesame")
    dump = "commit 6f70656e2d73c0ffee 6f:70:65:6e:2d:73 00000010: 6f70 656e 2d73 6573 616d"
    assert redactor.redact(dump).data == dump.encode()


def test_the_quotes_around_a_secret_do_not_continue_a_false_start() -> None:
    redactor = SecretRedactor()
    redactor.register("SECRET", "ab'cdefgh")
    written = shlex.quote("ab'cdefgh")
    for size in range(8):
        assert redactor.redact(written[:size] + written).data == written[:size].encode() + MASK


def test_the_longer_lines_of_a_secret_are_hidden_by_themselves() -> None:
    redactor = SecretRedactor()
    redactor.register("SECRET", "first-long-line\nshort\nanother-long-line")
    out = redactor.redact("+first-long-line\n+short\n+another-long-line\n").data
    assert out == b"+[redacted]\n+short\n+[redacted]\n"


def test_the_armour_around_a_key_is_no_secret() -> None:
    armour = "-----BEGIN SOME KEY-----"
    redactor = SecretRedactor()
    redactor.register("KEY", f"{armour}\nline-of-the-key\n{armour}")
    assert redactor.redact(armour).data == armour.encode()


def test_newlines_around_a_secret_do_not_belong_to_it() -> None:
    redactor = SecretRedactor()
    redactor.register("FROM_A_FILE", "value-of-a-file\n")
    assert redactor.redact("<value-of-a-file>").data == b"<[redacted]>"


def test_a_long_secret_is_hidden_whole_and_its_forms_stay_short() -> None:
    value = "".join(f"part {n} of 'it'\n" for n in range(400))
    redactor = SecretRedactor()
    redactor.register("LONG", value)
    for written in (value, json.dumps(value), quote(value), shlex.quote(value)):
        out = redactor.redact(f"<{written}>").data
        assert len(out) < 40
    assert max(map(len, written_forms(value))) < 12 * PIECE_CHARACTERS_MAX


@pytest.mark.parametrize("before", [b"", b"x", b"xy"])
def test_the_base64_of_a_long_secret_is_hidden_without_gaps(before: bytes) -> None:
    value = "".join(f"{n * n}é/" for n in range(400))
    redactor = SecretRedactor()
    redactor.register("LONG", value)
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        prefix, _, suffix = redactor.redact(encode(before + value.encode() + b"xyz")).data.partition(MASK)
        assert len(prefix) <= 3
        assert len(suffix) <= 8


def test_a_very_long_secret_is_hidden_in_its_usual_forms() -> None:
    value = "".join(f"{n}+'é\"\n" for n in range(2_000))
    assert len(value) > WHOLLY_WRITTEN_CHARACTERS_MAX
    redactor = SecretRedactor()
    redactor.register("LONG", value)
    value = value.strip()
    usual = (
        "plain",
        "percent",
        "form field",
        "json",
        "json in ascii",
        "json in json",
        "shell",
        "repr",
        "html",
    )
    for writer in (
        *usual,
        "terminal",
        "base64",
        "base64 for URLs",
        "base64 in lines",
        "hex",
        "hex with spaces, capital letters",
    ):
        out = redactor.redact(WRITERS[writer](value)).data
        assert len(out.replace(MASK + b"\n", b"")) < 60, writer


@pytest.mark.parametrize("value", ["", "abc", "  abc  ", "\n\n\n\n\n", "x" * (VALUE_CHARACTERS_MAX + 1)])
def test_a_value_that_cannot_be_hidden_is_refused_with_a_reason_that_does_not_show_it(value: str) -> None:
    with pytest.raises(ValueError) as refused:
        SecretRedactor().register("PIN", value)
    assert "PIN" in str(refused.value)
    assert not value.strip() or value not in str(refused.value)


def test_a_short_value_is_hidden_when_somebody_asks_for_it() -> None:
    redactor = SecretRedactor()
    redactor.register("PIN", "7" + "3" * (VALUE_CHARACTERS_MIN - 1))
    assert redactor.redact("pin 7333.").data == b"pin [redacted]."


def test_a_value_that_is_no_utf_8_is_hidden_as_it_is_and_as_it_is_shown() -> None:
    raw = b"abc\xff\xfedefgh"
    redactor = SecretRedactor()
    redactor.register("RAW", raw.decode("utf-8", "surrogateescape"))
    assert redactor.redact(b"<" + raw + b">").data == b"<[redacted]>"
    assert redactor.redact(raw.decode("utf-8", "replace")).data == MASK


def test_text_that_no_encoding_knows_is_redacted_all_the_same() -> None:
    redactor = SecretRedactor()
    redactor.register("SECRET", "open-sesame")
    assert redactor.redact("\ud800 open-sesame").data == b"? [redacted]"


def _lower_percent(text: str) -> str:
    head, *rest = text.split("%")
    return "%".join([head, *(part[:2].lower() + part[2:] for part in rest)])


def _hex_escapes(pairs: str) -> bytes:
    return "".join(f"\\x{pair}" for pair in pairs.split()).encode()


def hex_lines(raw: bytes, columns: int, separator: str) -> bytes:
    """As `od -An -tx1` and `xxd -p` print them."""
    lines = [raw[at : at + columns].hex(*separator) for at in range(0, len(raw), columns)]
    return "".join(f"{separator}{line}\n" for line in lines).encode()


def _addressed(lines: bytes) -> bytes:
    return b"".join(b"%07o %s\n" % (16 * n, line) for n, line in enumerate(lines.splitlines()))


def _survives(form: bytes, out: bytes) -> bool:
    size = min(len(form), max(8, (len(form) + 1) // 2))
    return any(form[at : at + size] in out for at in range(len(form) - size + 1))


def test_the_writers_of_this_file_write_what_they_say() -> None:
    value = 'it\'s "so"/é\n'
    assert json.loads(WRITERS["json as PHP"](value)) == value
    assert ast.literal_eval(WRITERS["ascii"](value).decode()) == value
    assert shlex.split(WRITERS["shell by hand"](value).decode()) == [value]
