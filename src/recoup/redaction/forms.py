"""From a secret to the byte strings that would give it away: a pure function.

Every form is made character by character or byte by byte, so a piece of a secret is written as a piece of its
forms. Long values are therefore cut into pieces, each hidden by itself; that bounds what a stream holds back.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import pairwise, product
from typing import Final, NamedTuple

from recoup.redaction.octets import utf8

VALUE_CHARACTERS_MIN: Final = 4
VALUE_CHARACTERS_MAX: Final = 65_536
WHOLLY_WRITTEN_CHARACTERS_MAX: Final = 8_192
"""Of a longer value only the usual forms are looked for: all of them would take a second to make."""
LINE_CHARACTERS_MIN: Final = 8
HEX_LINE_BYTES_MIN: Final = 4
PIECE_CHARACTERS_MAX: Final = 128
EDGE_CHARACTERS_MAX: Final = 16
CASED_CHARACTERS_MIN: Final = 12
"""A shorter value without digits may be an ordinary word in another case."""
PART_CHARACTERS_MIN: Final = 9
"""A shorter part of a value is too often ordinary text."""


def written_forms(value: str) -> frozenset[bytes]:
    """Every form of a value that `refusal` does not refuse."""
    value = value.strip()
    forms = set(map(utf8, _quoted_words(value)))
    for spelling in _line_endings(value):
        forms |= _wrapped_base64(utf8(spelling)) | _wrapped_hex(utf8(spelling))
        if len(value) <= WHOLLY_WRITTEN_CHARACTERS_MAX:
            forms |= _text_forms(spelling, _writings) | _base64_forms(spelling, _BASE64_SPELLINGS)
            forms |= _hex_forms(spelling, _HEX_NOTATIONS)
        elif spelling == value:
            forms |= _text_forms(spelling, _usual_writings) | _base64_forms(spelling, _BASE64_SPELLINGS[:2])
            forms |= _hex_forms(spelling, _HEX_NOTATIONS[:2])
        else:
            forms.update(map(utf8, _pieces(spelling)))
    if len(value) <= PIECE_CHARACTERS_MAX:
        forms |= _base32_forms(value) | _other_forms(value) | set(map(utf8, _greater_parts(value)))
    if len(value) <= WHOLLY_WRITTEN_CHARACTERS_MAX:
        forms |= _base64_edges(utf8(value)) | _utf16_forms(value)
    for line in _lines(value):
        forms |= {utf8(line), *map(utf8, _translated(line, _NESTING_TABLES))}
    return frozenset(forms)


def torn_hex_forms(value: str) -> frozenset[bytes]:
    """The whole hex of a value that begins anywhere in a line of `od -An -tx1` and ends in a later one: there the line
    break stands for a space. None of a short value, which is seldom torn, nor of a long one: they would be too many."""
    value = value.strip()
    if not LINE_CHARACTERS_MIN <= len(value) <= PIECE_CHARACTERS_MAX:
        return frozenset()
    raw = utf8(value)
    return frozenset(_hex_lines(raw, first, _HEX_DUMPS[0]).encode() for first in range(1, min(17, len(raw))))


def refusal(value: str) -> str | None:
    """Why a value cannot be hidden, and what to do instead; None if it can. Never repeats the value."""
    size = len(value.strip())
    if size < VALUE_CHARACTERS_MIN:
        return (
            f"has {size} characters without the spaces around it; hiding fewer than {VALUE_CHARACTERS_MIN} "
            "would mask ordinary text: use a longer value, or do not declare it secret"
        )
    if size > VALUE_CHARACTERS_MAX:
        return f"has {size} characters, more than {VALUE_CHARACTERS_MAX}: keep it in a file and pass its name"
    return None


def _line_endings(value: str) -> set[str]:
    """A terminal turns each newline into two characters, and a checkout may turn them back."""
    unix = value.replace("\r\n", "\n")
    return {value, unix, *(text.replace("\n", "\r\n") for text in (value, unix))}


def _pieces(value: str, beyond: int = 0) -> Iterator[str]:
    """`beyond`: how many characters of the next piece to add, where they change how the last ones are written."""
    count = -(-len(value) // PIECE_CHARACTERS_MAX)
    edges = [len(value) * n // count for n in range(count + 1)]
    for start, end in pairwise(edges):
        # A piece that began with a newline would hold back the end of every line of a live log.
        yield value[start - 2 * value[start].isspace() : end + beyond]


def _lines(value: str) -> Iterator[str]:
    """The longer lines of a value: terminals, patches and log prefixes tear it apart between them."""
    lines = [line.strip() for line in re.split(r"[\r\n]+", value)]
    for line in lines if len(lines) > 1 else ():
        if len(line) >= LINE_CHARACTERS_MIN and not line.startswith("-----"):
            yield from _pieces(line)


def _text_forms(value: str, writings: Callable[[str], tuple[str, ...]]) -> set[bytes]:
    pieces = list(_pieces(value))
    forms = {utf8(piece) for piece in pieces}
    characters = sorted(set(value))
    # Most ways of writing agree about most values: each way that differs is used once.
    for way in set(zip(*map(writings, characters), strict=True)):
        written = dict(zip(characters, way, strict=True)).__getitem__
        forms.update(utf8("".join(map(written, piece))) for piece in pieces)
    if _SURROGATES.search(value):
        forms.update(utf8(utf8(piece).decode("utf-8", "replace")) for piece in pieces)
    return forms


@lru_cache(maxsize=1_024)
def _writings(character: str) -> tuple[str, ...]:
    """How each of the ways of writing writes a character, always in the same order."""
    octets = utf8(character).decode("latin-1")
    return (
        *_percent_forms(octets, _PERCENT_TABLES),
        *_translated(octets, _OCTET_TABLES),
        *_translated(character, _CHARACTER_TABLES),
        *_source_forms(character),
        *_nested_forms(character),
    )


@lru_cache(maxsize=1_024)
def _usual_writings(character: str) -> tuple[str, ...]:
    octets = utf8(character).decode("latin-1")
    return (
        *_percent_forms(octets, _PERCENT_TABLES[2:4]),
        *_translated(character, _USUAL_TABLES),
        *_nested_forms(character),
    )


def _translated(text: str, tables: Iterable[Mapping[int, str]]) -> Iterator[str]:
    return (text.translate(table) for table in tables)


def _percent_forms(octets: str, tables: Iterable[Mapping[int, str]]) -> Iterator[str]:
    for capitals in _translated(octets, tables):
        for escaped in (capitals, re.sub("%..", lambda escape: escape[0].lower(), capitals)):
            yield from (escaped, escaped.replace("%20", "+"))


def _source_forms(character: str) -> Iterator[str]:
    for literal in _translated(character, _SOURCE_TABLES):
        numbered = [character.encode("ascii", "backslashreplace").decode() for character in literal]
        yield from (literal, "".join(numbered))
        yield "".join(c if c.isprintable() else number for c, number in zip(literal, numbered, strict=True))


def _nested_forms(character: str) -> Iterator[str]:
    for nested in _translated(character, _NESTING_TABLES):
        yield from _translated(nested, _NESTING_TABLES)


def _quoted_words(value: str) -> Iterator[str]:
    """A word with quotes in it, its outer ones included: left alone, they would continue what stands before."""
    if "'" in value and len(value) <= PIECE_CHARACTERS_MAX:
        yield from (f"'{word}'" for word in _translated(value, _APOSTROPHE_TABLES))


def _base64_forms(value: str, spellings: Iterable[tuple[bytes, bytes]]) -> set[bytes]:
    """For each of the three places in a group of bytes: the characters that depend on the secret alone."""
    forms: set[bytes] = set()
    for raw, shift in product(map(utf8, _pieces(value, beyond=2)), range(3)):
        whole = base64.b64encode(bytes(shift) + raw)
        dependent = whole[(shift * 8 + 5) // 6 : (shift + len(raw)) * 8 // 6]
        forms.update(dependent.replace(b"+", plus).replace(b"/", slash) for plus, slash in spellings)
    return forms


def _base64_edges(raw: bytes) -> set[bytes]:
    """The ends of a value with the characters that depend on it and on what stands beside it: some of its bits are in
    them, whatever stands there. And the end of what `echo` and `printf` hand to `base64`, with its padding."""
    edges: set[bytes] = set()
    for shift in range(3):
        first, last = shift * 8 // 6, (shift + len(raw)) * 8 // 6
        for before in _beside(shift * 8 % 6):
            whole = base64.b64encode((bytes(2) + bytes([before]))[-shift:] + raw if shift else raw)
            edges.add(whole[first : min(last, first + EDGE_CHARACTERS_MAX)])
        begin = max(-(-shift * 8 // 6), last - EDGE_CHARACTERS_MAX)
        open_bits = -(shift + len(raw)) * 8 % 6
        for after in _beside(open_bits):
            edges.add(
                base64.b64encode(bytes(shift) + raw + bytes([after << (8 - open_bits)]))[begin : last + 1]
            )
        for ending in (b"", b"\n"):
            padded = base64.b64encode(bytes(shift) + raw + ending)[begin:]
            edges |= {padded, padded.rstrip(b"=")}
    return {
        edge.replace(b"+", plus).replace(b"/", slash)
        for edge in edges
        for plus, slash in _BASE64_SPELLINGS[:2]
    }


def _beside(bits: int) -> range:
    """All that may stand in so many bits."""
    return range(1 << bits) if bits else range(0)


def _base32_forms(value: str) -> set[bytes]:
    """For each of the five places in a group of bytes, in either case."""
    forms: set[bytes] = set()
    for raw, shift in product(map(utf8, _pieces(value, beyond=4)), range(5)):
        whole = base64.b32encode(bytes(shift) + raw)
        dependent = whole[(shift * 8 + 4) // 5 : (shift + len(raw)) * 8 // 5]
        forms |= {dependent, dependent.lower()}
    return forms


def _other_forms(value: str) -> set[bytes]:
    """As a whole in another case, or each character by its number."""
    forms: set[bytes] = set()
    for spelling in _NUMBERED_CHARACTERS:
        forms.add(utf8("".join(spelling.format(ord(character)) for character in value)))
        signs = (c if c.isalnum() else spelling.format(ord(c)) for c in value)
        forms.add(utf8("".join(signs)))
    for octet in ("%{:02X}", "%{:02x}"):
        forms.add("".join(map(octet.format, utf8(value))).encode())
    if len(value) >= CASED_CHARACTERS_MIN or (len(value) >= LINE_CHARACTERS_MIN and _DIGIT.search(value)):
        forms |= {utf8(value.upper()), utf8(value.lower())}
    return forms


def _utf16_forms(value: str) -> set[bytes]:
    orders = ("utf-16-le", "utf-16-be")
    return {piece.encode(order, "surrogatepass") for piece in _pieces(value) for order in orders}


def _greater_parts(value: str) -> Iterator[str]:
    """The first and the last 60 % of a value, as a column that is too narrow and a cut line leave it: only of one that
    looks like a token, for those of an address or a sentence are ordinary text."""
    size = len(value) * 3 // 5
    for part in (value[:size], value[-size:]):
        is_one_word = _DIGIT.search(part) and _LETTER.search(part) and not _BLANK.search(part)
        if is_one_word and size >= PART_CHARACTERS_MIN:
            yield part


def _wrapped_base64(raw: bytes) -> set[bytes]:
    """The lines that PEM (64 columns), `base64` and MIME (76) break a long value into."""
    whole = base64.b64encode(raw)[: len(raw) * 8 // 6]
    broken = [columns for columns in (64, 76) if len(whole) > columns]
    lines = (whole[at : at + columns] for columns in broken for at in range(0, len(whole), columns))
    return {line for line in lines if len(line) >= LINE_CHARACTERS_MIN}


def _hex_forms(value: str, notations: Iterable[tuple[str, str]]) -> set[bytes]:
    pieces = list(map(utf8, _pieces(value)))
    forms: set[str] = set()
    for before, between in notations:
        # What stands between two pieces belongs to the first of them, so that they share a mask.
        written = [before + between.join(f"{octet:02x}" for octet in piece) for piece in pieces]
        written = [*(piece + between[len(before) :] for piece in written[:-1]), written[-1]]
        forms.update(written, (_capital_digits(piece) for piece in written))
    return {form.encode() for form in forms}


def _capital_digits(written: str) -> str:
    return written.upper().replace("X", "x")


class _HexDump(NamedTuple):
    """How a command breaks hex into lines."""

    columns: int
    separator: str


def _hex_lines(raw: bytes, first: int, dump: _HexDump) -> str:
    """Without the line breaks, which are seams. `first`: how many bytes the first line has room for."""
    edges = [0, *range(first, len(raw), dump.columns), len(raw)]
    return "".join(raw[start:end].hex(*dump.separator) for start, end in pairwise(edges))


def _wrapped_hex(raw: bytes) -> set[bytes]:
    """The lines that a dump breaks a value into that stands at its beginning, whatever is printed between them."""
    forms: set[bytes] = set()
    for columns, separator in _HEX_DUMPS:
        broken = [raw[at : at + columns] for at in range(0, len(raw), columns)] if len(raw) > columns else []
        forms.update(line.hex(*separator).encode() for line in broken if len(line) >= HEX_LINE_BYTES_MIN)
    return forms


class _Numbering(dict[int, str]):
    """A table for `str.translate` that spells as a number what cannot be printed in ASCII."""

    def __init__(self, named: Mapping[str, str], spelling: str) -> None:
        super().__init__({ord(character): named.get(character, character) for character in _PRINTED})
        self.update(str.maketrans(dict(named)))
        self._spelling = spelling

    def __missing__(self, code: int) -> str:
        return "".join(map(self._spelling.format, _utf16(code)))


def _utf16(code: int) -> tuple[int, ...]:
    return (code,) if code < 0x10000 else (0xD800 + (code - 0x10000 >> 10), 0xDC00 + (code & 0x3FF))


def _numbered(characters: str, spelling: str) -> dict[str, str]:
    return {character: spelling.format(ord(character)) for character in characters}


def _backslashed(characters: str) -> dict[str, str]:
    return {character: "\\" + character for character in characters}


_DIGIT: Final = re.compile("[0-9]")
_LETTER: Final = re.compile("[^\\W\\d_]")
_BLANK: Final = re.compile("\\s")
_NUMBERED_CHARACTERS: Final = (
    "&#{};",
    "&#x{:x};",
    "&#x{:X};",
    "\\u{:04x}",
    "\\u{:04X}",
    "\\\\u{:04x}",
    "%{:02X}",
    "%{:02x}",
)
"""Each character of a text by its number: in HTML, JSON, JSON in JSON, addresses."""
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_CONTROLS: Final = "".join(map(chr, range(0x20)))
_PRINTED: Final = "".join(map(chr, range(0x20, 0x7F)))
_DELETE: Final = "\x7f"
_OCTETS: Final = "".join(map(chr, range(0x100)))
_WORD: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"
_C_ESCAPES: Final = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_JSON_ESCAPES: Final = {**_C_ESCAPES, '"': '\\"', "\b": "\\b", "\f": "\\f"}


def _json_tables() -> Iterator[Mapping[int, str]]:
    """As Python and JavaScript write it, Go (`<>&`), PHP (`/`) and .NET (`'+` as well)."""
    for spelling, slash, markup in product(("\\u{:04x}", "\\u{:04X}"), ("", "/"), ("", "<>&")):
        named = _JSON_ESCAPES | _backslashed(slash) | _numbered(markup, spelling)
        yield str.maketrans(_numbered(_CONTROLS, spelling) | named)
        yield _Numbering(named, spelling)
    yield _Numbering(_JSON_ESCAPES | _numbered("\"'<>&+`", "\\u{:04X}"), "\\u{:04X}")


def _shell_tables() -> Iterator[Mapping[int, str]]:
    specials = " \t\"'\\|&;()<>!{}*[]?^$`"
    rest = "".join(character for character in _PRINTED + "\n" if character not in _WORD)
    yield from _APOSTROPHE_TABLES
    for escaped in (specials, specials + ",", specials + ",#~", rest, '"\\', '"\\$`', '"\\$`!'):
        yield str.maketrans(_backslashed(escaped))


def _regex_tables() -> Iterator[Mapping[int, str]]:
    """What means something to RE2, and what Python (`re.escape`), JavaScript and Go (`/`, `-`) escape beside it."""
    signs = "\\.+*?()|[]{}^$"
    for escaped in (signs, signs + "/", signs + "-", signs + "-/", signs + " \t\n\r\v\f#&~-"):
        yield str.maketrans(_backslashed(escaped))


def _source_tables() -> Iterator[Mapping[int, str]]:
    """Literals of Python, C and bash (`$'…'`), and what Python prints where there is only ASCII."""
    yield {}
    for quotes in ("", "'", '"', "'\""):
        yield str.maketrans(_numbered(_CONTROLS + _DELETE, "\\x{:02x}") | _C_ESCAPES | _backslashed(quotes))


def _quote_tables() -> Iterator[Mapping[int, str]]:
    """CSV, SQL and YAML."""
    for quote in ("'", '"'):
        yield str.maketrans({quote: quote * 2})


def _markup_tables() -> Iterator[Mapping[int, str]]:
    quotes, apostrophes = ('"', "&quot;", "&#34;"), ("'", "&apos;", "&#39;", "&#x27;")
    for greater, quote, apostrophe in product((">", "&gt;"), quotes, apostrophes):
        yield _markup_table(greater, quote, apostrophe)


def _markup_table(greater: str, quote: str, apostrophe: str) -> Mapping[int, str]:
    return str.maketrans({"&": "&amp;", "<": "&lt;", ">": greater, '"': quote, "'": apostrophe})


def _percent_tables() -> Iterator[Mapping[int, str]]:
    """Strict, HTML forms, RFC 3986, Python's default, `encodeURIComponent`, `encodeURI`, whole URLs."""
    for kept in ("-.", "-.*", "-.~", "-.~/", "-.~!*'()", "-.~!*'();/?:@&=+$,#", "-.~!*'();/?:@&=+$,#[]"):
        escaped = "".join(octet for octet in _OCTETS if octet not in _WORD + kept)
        yield str.maketrans(_numbered(escaped, "%{:02X}"))


def _octet_tables() -> Iterator[Mapping[int, str]]:
    """Bytes in a literal of Python (`\\xc3`), and of git and bash (`\\303`)."""
    unprinted = "".join(octet for octet in _OCTETS if octet not in _PRINTED)
    for spelling, quotes in product(("\\x{:02x}", "\\{:03o}"), ("", "'", '"')):
        yield str.maketrans(_numbered(unprinted, spelling) | _C_ESCAPES | _backslashed(quotes))


_APOSTROPHE_TABLES: Final = (str.maketrans({"'": "'\"'\"'"}), str.maketrans({"'": "'\\''"}))
_CHARACTER_TABLES: Final = (
    *_json_tables(),
    *_shell_tables(),
    *_regex_tables(),
    *_quote_tables(),
    *_markup_tables(),
)
_SOURCE_TABLES: Final = tuple(_source_tables())
_USUAL_TABLES: Final = (
    *tuple(_json_tables())[:2],
    *_APOSTROPHE_TABLES,
    _markup_table("&gt;", '"', "'"),
    _markup_table("&gt;", "&quot;", "&#x27;"),
    _SOURCE_TABLES[1],
    _SOURCE_TABLES[2],
)
_OCTET_TABLES: Final = tuple(_octet_tables())
_PERCENT_TABLES: Final = tuple(_percent_tables())
# JSON inside a string of other JSON, each with or without characters beyond ASCII.
_NESTING_TABLES: Final = tuple(_json_tables())[:2]
_HEX_NOTATIONS: Final = (("", ""), ("", " "), ("", ":"), ("\\x", "\\x"), ("\\\\x", "\\\\x"))
"""What stands before the first byte, and between each and the next. The last one is an escape inside of JSON."""
_HEX_DUMPS: Final = (_HexDump(16, " "), _HexDump(30, ""))
"""`od -An -tx1` and `xxd -p`."""
_BASE64_SPELLINGS: Final = (
    (b"+", b"/"),
    (b"-", b"_"),
    *product((b"+", b"%2B", b"%2b"), (b"/", b"%2F", b"%2f")),
    (b"+", b"\\/"),
    (b"\\u002B", b"/"),
)
