"""Judges of the values that the generic patterns find: pure functions over a few hundred bytes.

A pattern can say where a value stands; whether it is a secret or a variable, a word, a path or a number is said here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from itertools import permutations
from typing import Any, Final, NamedTuple

import re2

from recoup.redaction.masks import MASKS
from recoup.redaction.patterns.rule import Gate

JUDGED_BYTES_MAX: Final = 512


def passes(gate: Gate, value: bytes, name: bytes = b"", bare: bool = False) -> bool:
    """For assignments with the name of the value, from the word on that tells; `bare` if the value has no quotes."""
    value = value[:JUDGED_BYTES_MAX]
    if gate is Gate.NONE:
        return not value.startswith(MASKS)
    if gate in (Gate.LITERAL, Gate.CREDENTIAL):
        return _is_literal(value) and not (bare and _is_variable(value, name))
    if _WHOLE_DIGEST.fullmatch(value):
        return False
    return not is_placeholder(value) and _GATES[gate](value, _Named(name, name.lower(), bare))


def _is_literal(value: bytes) -> bool:
    """Where a secret must stand anything is one, be it `secret`; but not what is put in later."""
    if value.startswith(_VARIABLES) and not _is_encoded(value):
        return False
    return value.lower().strip(_PUNCTUATION) not in _STATES


def _is_encoded(value: bytes) -> bool:
    return value.startswith(b"%") and len(value) > 3 and not value[1:3].strip(b"0123456789abcdefABCDEF")


def _is_variable(value: bytes, name: bytes) -> bool:
    return value == name or _is_call(value) or (b"." in value and _is_code(value))


class _Named(NamedTuple):
    written: bytes
    name: bytes
    """In small letters."""
    bare: bool


def is_placeholder(value: bytes) -> bool:
    """It stands for a value, or was masked already."""
    lower = value.lower()
    return (
        value.startswith(_OPENINGS)
        or lower.strip(_PUNCTUATION) in _WORDS
        or len(set(lower.strip(b"-_.\"'"))) <= 2
        or (_hints().search(lower) is not None and not _is_token(value))
    )


def _is_token(value: bytes) -> bool:
    """Chance writes words too, and people write real passwords after examples."""
    body = value.replace(b"-", b"").replace(b"_", b"") if len(value) >= 32 else value
    return len(value) >= 8 and _classes(body) == 3 and body.isalnum() and b"xxxx" not in value.lower()


@cache
def _hints() -> Any:
    return re2.compile(b"|".join(map(re2.escape, (*_HINTS, *MASKS))), _latin1())


def _latin1() -> Any:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    return options


def _named(value: bytes, named: _Named) -> bool:
    return _named_bare(value, named) if named.bare else _named_quoted(value, named)


def _named_quoted(value: bytes, named: _Named) -> bool:
    if not _names_a_value(named):
        return False
    if b" " in value:
        return (
            _is_password(named)
            and value.count(b" ") <= 3
            and _classes(value) >= 3
            and not value.endswith((b".", b":"))
        )
    if (
        _is_path(value)
        or _is_code(value)
        or (not _has_digit(value) and _is_words(value) and not _is_password(named))
    ):
        return False
    if not _has_digit(value) and b"/" in value:
        return False
    return (
        (_has_digit(value) and len(value) >= 6)
        or _is_password(named)
        or _classes(value) >= 3
        or _is_mixed(value)
    )


def _named_listed(value: bytes, named: _Named) -> bool:
    """Beside a name in a list stands another name, unless it cannot be one."""
    return (
        _named_quoted(value, named)
        and (_has_digit(value) or _classes(value) >= 3)
        and not value.replace(b"-", b"").replace(b"_", b"").isalnum() | (len(value) < 8)
    ) or _random(value, named)


def _named_prefix(value: bytes, _named: _Named) -> bool:
    if _DIGEST.match(value):
        return False
    body = value.replace(b"-", b"_").rpartition(b"_")[2]
    return _digits(body) >= 2 and _has_letter(body) and len(set(body)) >= 8 and not _is_words(body)


def _named_bare(value: bytes, named: _Named) -> bool:
    if not _names_a_value(named) or _is_path(value) or _is_code(value) or _is_number(value):
        return False
    if _repeats(named, value) and not _is_password(named):
        return False
    if len(value) >= 8 and _has_digit(value) and _has_letter(value):
        return _is_password(named) or _is_random(value, 6) or (len(value) >= 10 and _digits(value) >= 3)
    if named.written.isupper() and _is_password(named) and len(value) >= 6:
        return True
    return _is_password(named) and _classes(value) >= 2 and len(value) >= 6 and not _is_sentence(value)


def _named_key(value: bytes, named: _Named) -> bool:
    if _is_uuid(value):
        return _names_a_key(named) and not _names_no_secret(named)
    return _named_loosely(value, named)


def _named_uuid(_value: bytes, named: _Named) -> bool:
    return _names_a_value(named) and not named.name.endswith(_IDS)


def _named_loosely(value: bytes, named: _Named) -> bool:
    if (
        not _names_a_value(named)
        or _names_no_secret(named)
        or _is_path(value)
        or _is_code(value)
        or _is_uuid(value)
        or value.startswith(b"0x")
        or _repeats(named, value)
        or _is_camel(value)
    ):
        return False
    return len(value) >= 16 and _has_digit(value) and _has_letter(value) and _is_random(value, 8)


def _prefixed(value: bytes, _named: _Named) -> bool:
    if _DIGEST.match(value):
        return False
    body = value.replace(b"-", b"_").rpartition(b"_")[2]
    kinds = body.translate(_KINDS)
    return (
        kinds.count(b"0") >= 2
        and kinds.count(b"A") >= 3
        and kinds.count(b"a") >= 3
        and _turns(body) * 3 >= len(body)
    )


_DIGEST: Final = re.compile(rb"(?i:sha|md|blake|ripemd|crc|xxh|xxhash)-?\d{1,3}(?:[_-]\d{3})?[bs]?[_-]")
_WHOLE_DIGEST: Final = re.compile(rb"sha(?:1|256|384|512)-[A-Za-z0-9+/]{27,86}={0,2}")
"""What a digest says of itself, as in lock files: `sha512-…`. Everybody may know a digest."""


def _random(value: bytes, _named: _Named) -> bool:
    return not _is_path(value) and _has_digit(value) and _has_letter(value) and _is_random(value, 8)


def _password(value: bytes, _named: _Named) -> bool:
    return not _is_call(value)


_GATES: Final[Mapping[Gate, Callable[[bytes, _Named], bool]]] = {
    Gate.NAMED: _named,
    Gate.NAMED_QUOTED: _named_quoted,
    Gate.NAMED_BARE: _named_bare,
    Gate.NAMED_LISTED: _named_listed,
    Gate.NAMED_LOOSELY: _named_loosely,
    Gate.NAMED_KEY: _named_key,
    Gate.NAMED_UUID: _named_uuid,
    Gate.NAMED_PREFIX: _named_prefix,
    Gate.PREFIXED: _prefixed,
    Gate.RANDOM: _random,
    Gate.PASSWORD: _password,
}


def _names_a_value(named: _Named) -> bool:
    """Not when the name goes on to say that it is about a secret: `password_length`, `tokenType`, `key_path`."""
    return not named.name.rstrip(b"[]._-:").endswith(_ABOUT)


def _names_no_secret(named: _Named) -> bool:
    return any(word in named.name for word in _PUBLIC)


def _names_a_key(named: _Named) -> bool:
    """The key of something: `statuspage_key`, but not the key of a row, a message or an entry."""
    stem = named.name.removesuffix(b"key").rstrip(b"_.-")
    return stem != named.name and len(stem) >= 2 and not stem.endswith(_ROWS)


def _is_password(named: _Named) -> bool:
    return b"pass" in named.name or b"pwd" in named.name


def _repeats(named: _Named, value: bytes) -> bool:
    """`exports.SubjectKeyId1 = SubjectKeyId1` names a thing twice."""
    name = named.name.rpartition(b".")[2].strip(b"[]_-:")
    return len(name) >= 6 and name in value.lower()


def _is_camel(value: bytes) -> bool:
    """Chance changes between small and large letters more often than people do."""
    return value.upper() != value != value.lower() and _turns(value) * 3 < len(value)


def _is_random(value: bytes, different_min: int) -> bool:
    """So many different characters, or in a short value half as many as it has, and no words."""
    return len(set(value)) >= min(different_min, len(value) // 2) and not _is_words(value)


def _is_words(value: bytes) -> bool:
    """Words with a number here and there: `worker-17`, `attempt_2_of_3`, `sha256`, `android.os.Handler12`."""
    parts = value.translate(_SPACED).split()
    if len(parts) < 2:
        return value.rstrip(_DIGITS).isalpha() and _turns(value) <= 3
    return sum(len(part) for part in parts if _is_word(part)) * 10 >= 9 * sum(map(len, parts))


def _is_word(part: bytes) -> bool:
    if part.isdigit() or (len(part) <= 10 and _turns(part) <= 2):
        return True
    return part.rstrip(_DIGITS).isalpha() and _turns(part) * 5 <= len(part) * 2


def _is_sentence(value: bytes) -> bool:
    """The beginning of one: `Removed`."""
    return value.rstrip(_PUNCTUATION).isalpha() and value[1:].islower()


def _is_path(value: bytes) -> bool:
    if value.startswith((b"/", b"./", b"../", b"~/", b"http://", b"https://", b"file:", b"C:\\", b"\\\\")):
        return _turns(value) * 4 < len(value) or value.count(b"/") >= 3
    return value.endswith(_FILES) or b"//" in value or value.endswith(b"/")


def _is_code(value: bytes) -> bool:
    """A call, an index, a member of something, a plain identifier."""
    return (
        _is_call(value)
        or b"::" in value
        or ((b"_" in value or b"." in value) and value.replace(b"_", b"").replace(b".", b"").isalpha())
    )


def _is_call(value: bytes) -> bool:
    head = value.partition(b"(")[0]
    return head != value and head.replace(b".", b"").replace(b"_", b"").isalpha()


def _is_number(value: bytes) -> bool:
    return not value.strip(b"0123456789.,:+-eExX%")


def _is_uuid(value: bytes) -> bool:
    return len(value) == 36 and value.count(b"-") == 4 and not value.strip(b"0123456789abcdefABCDEF-")


def _is_mixed(value: bytes) -> bool:
    return len(value) >= 12 and _turns(value) * 3 >= len(value)


def _turns(value: bytes) -> int:
    """How often the kind of character changes."""
    kinds = value.translate(_KINDS)
    # Each change of kind is one of these pairs; counting them is ten times as fast as looking at each byte.
    return sum(map(kinds.count, _CHANGES))


def _classes(value: bytes) -> int:
    return len(set(value.translate(_KINDS)))


def _digits(value: bytes) -> int:
    return value.translate(_KINDS).count(b"0")


def _has_digit(value: bytes) -> bool:
    return b"0" in value.translate(_KINDS)


def _has_letter(value: bytes) -> bool:
    return not {97, 65}.isdisjoint(value.translate(_KINDS))


def _kind(byte: int) -> int:
    text = bytes((byte,))
    return 48 if text.isdigit() else 97 if text.islower() else 65 if text.isupper() else 45


_KINDS: Final = bytes(map(_kind, range(256)))
_CHANGES: Final = tuple(map(bytes, permutations(b"0aA-", 2)))
_SPACED: Final = bytes(byte if bytes((byte,)).isalnum() else 32 for byte in range(256))
_PUNCTUATION: Final = b"\"'.,;:!()"
_DIGITS: Final = b"0123456789"
_VARIABLES: Final = (b"$", b"<", b"{", b"%", b"[", b"(", b"*", b"...", b"#{", b"@{", b"###", *MASKS)
_OPENINGS: Final = (
    b"$",
    b"<",
    b"{",
    b"[",
    b"%",
    b"(",
    b"*",
    b"@",
    b"#",
    b"&",
    b"...",
    b"+",
    b" ",
    b"'",
    b'"',
    b"\\",
    b";",
    b")",
    b",",
    b"=",
    b"|",
    b"`",
    b"arn:",
    b"android.",
    b"sha256:",
    b"sha1:",
    b"v1:",
)
_HINTS: Final = (
    b"example",
    b"placeholder",
    b"your",
    b"changeme",
    b"change_me",
    b"change-me",
    b"xxxx",
    b"****",
    b"...",
    b"dummy",
    b"insert",
    b"replace",
    b"goes_here",
    b"goes-here",
    b"redacted",
    b"env.",
    b"environ",
    b"process.",
    b"not-set",
    b"not_set",
    b"fake",
    b"sample",
)
_STATES: Final = frozenset(
    b"""
    true false null none nil undefined yes no on off string str int bool bytes text required
    optional enabled disabled unknown invalid valid expired missing failed failure success empty
    value object array number hidden masked provided given changed updated deleted created set
    unset not authentication authorization error ok todo tbd n/a nan void self this any all public
    private protected static const final basic bearer digest prompt input file stdin auto inherit
    never always accepted rejected denied granted incorrect wrong correct mismatch match matched
    is was for from and or with the of in to await new yield return
    """.split()
)
"""What is said about a secret. Where a secret must stand, anything else is one (Gate.LITERAL)."""
_WORDS: Final = _STATES | frozenset(
    b"secret password passwd token default test testing admin root user username".split()
)
_FILES: Final = (
    b".py",
    b".js",
    b".ts",
    b".json",
    b".yml",
    b".yaml",
    b".pem",
    b".key",
    b".crt",
    b".txt",
    b".md",
    b".html",
    b".java",
    b".go",
    b".rb",
    b".php",
    b".sh",
    b".xml",
    b".log",
    b".conf",
    b".cfg",
    b".ini",
    b".com",
    b".org",
    b".net",
    b".so",
)
_ABOUT: Final = (
    b"type",
    b"length",
    b"_len",
    b"count",
    b"size",
    b"url",
    b"uri",
    b"path",
    b"file",
    b"filename",
    b"name",
    b"field",
    b"expiry",
    b"expires",
    b"ttl",
    b"timeout",
    b"policy",
    b"hint",
    b"index",
    b"format",
    b"prefix",
    b"column",
    b"label",
    b"class",
    b"manager",
    b"service",
    b"provider",
    b"endpoint",
    b"version",
    b"algorithm",
    b"enabled",
    b"required",
    b"status",
    b"state",
    b"error",
    b"message",
    b"title",
    b"description",
    b"text",
    b"placeholder",
    b"regex",
    b"pattern",
    b"limit",
    b"usage",
    b"used",
    b"arn",
    b"reference",
    b"selector",
    b"store",
    b"source",
    b"digest",
    b"fingerprint",
    b"date",
    b"time",
    b"_at",
    b"_age",
    b"event",
    b"code",
    b"idempotency",
)
_IDS: Final = (
    b"id",
    b"uuid",
    b"guid",
    b"org",
    b"organization",
    b"project",
    b"account",
    b"zone",
    b"app",
    b"page",
)
_ROWS: Final = (
    b"row",
    b"item",
    b"node",
    b"entity",
    b"object",
    b"record_id",
    b"group",
    b"dedup",
    b"routing",
    b"session",
    b"trace",
    b"span",
    b"request",
    b"event",
    b"message",
    b"job",
    b"task",
    b"run",
    b"build",
    b"issue",
    b"unique",
    b"natural",
    b"index",
    b"range",
    b"shard",
    b"bucket",
    b"lookup",
    b"map",
    b"dict",
    b"correlation",
    b"registry",
    b"file",
    b"lock",
    b"parent",
    b"child",
    b"external",
    b"business",
    b"document",
    b"resource",
)
_PUBLIC: Final = (
    b"idempotency",
    b"public",
    b"cache",
    b"foreign",
    b"primary",
    b"partition",
    b"sort",
    b"digest",
    b"checksum",
    b"hash",
    b"commit",
    b"fingerprint",
    b"keyboard",
    b"monkey",
    b"keyspace",
    b"keyword",
    b"keygen",
    b"author",
    b"keystore",
    b"recv-key",
)
