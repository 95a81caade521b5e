"""What a validator found, in words for the person who wrote the file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec
from pydantic import ValidationError

from recoup.errors import Problem
from recoup.shapes.shape import TAG, Shape
from recoup.shapes.tree import Place, Tree, clipped

PROBLEMS_MAX = 100
_SUGGESTION_CHARS_MAX = 60

_OF_KEY = "[key]"
"""How pydantic ends the place of an error that is about a key, not about its value."""

NO_VALUE = "has no value: write one, or remove the key"

Detail = Mapping[str, Any]
"""One error as pydantic tells it: type, loc, input, ctx."""


class Finding(msgspec.Struct, frozen=True):
    """Something wrong at a place."""

    place: Place
    message: str


class Vocabulary(msgspec.Struct, frozen=True):
    """What the words for one kind of file need to know about it."""

    root: type[Shape]
    shapes: Mapping[str, type[Shape]]
    """The shape under each key, and of each branch of a union."""
    own_words: Callable[[Detail, type[Shape]], str | None] = lambda _detail, _shape: None
    """The words of this kind of file for an error. None: the usual ones. Empty: another error says it."""


def problems_of(tree: Tree, found: Iterable[Finding], found_more: int = 0) -> tuple[Problem, ...]:
    """In the order of the file, each once, and not more than a person would read."""
    unique = dict.fromkeys([*tree.problems, *(tree.problem(f.place, f.message) for f in found)])
    ordered = sorted(unique, key=lambda problem: problem.line or 0)
    left_out = len(ordered) - PROBLEMS_MAX + found_more
    if left_out <= 0:
        return tuple(ordered)
    return (*ordered[:PROBLEMS_MAX], Problem("", f"and {left_out:,} more problems: correct these first"))


def findings(error: ValidationError, vocabulary: Vocabulary) -> tuple[list[Finding], int]:
    """The first so many in words, and how many more there are."""
    details = error.errors(include_url=False)
    said = [_finding(detail, vocabulary) for detail in details[:PROBLEMS_MAX]]
    return [finding for finding in said if finding.message], max(0, len(details) - PROBLEMS_MAX)


def said_beside(found: Sequence[Finding], further: Iterable[Finding]) -> list[Finding]:
    """The first further ones; that a value is missing is not said where something else is wrong already."""
    places = {finding.place for finding in found}
    fresh = (finding for finding in further if finding.message != NO_VALUE or finding.place not in places)
    return list(islice(fresh, PROBLEMS_MAX))


def suggestion(word: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word, known, n=1) if len(word) <= _SUGGESTION_CHARS_MAX else []
    return f"did you mean `{close[0]}`?" if close else ""


def listed(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def if_a_plugin_brings(key: str) -> str:
    """For a key that may be that of a package which is not installed here."""
    return f"; if a plugin brings `{clipped(key)}`, install it first: recoup doctor lists those that are here"


def described(given: Any) -> str:
    match given:
        case None:
            return "nothing"
        case bool():
            return "true" if given else "false"
        case int():
            return "a number"
        case float():
            return "a number with a fraction"
        case str():
            return f"the text {json.dumps(clipped(given, 40), ensure_ascii=False)}"
        case list():
            return "a list"
        case _:
            return "a mapping"


def _finding(detail: Detail, vocabulary: Vocabulary) -> Finding:
    loc: tuple[str | int, ...] = detail["loc"]
    written = loc[:-1] if loc[-1] == _OF_KEY and detail["type"] != "extra_forbidden" else loc
    place = tuple(part for part in written if not _is_branch(part))
    shape = _shape_around(loc, vocabulary)
    own = vocabulary.own_words(detail, shape)
    return Finding(place, _usual_words(detail, shape) if own is None else own)


def _is_branch(part: str | int) -> bool:
    return isinstance(part, str) and part.startswith(TAG)


def _shape_around(loc: Sequence[str | int], vocabulary: Vocabulary) -> type[Shape]:
    names = [part for part in loc[:-1] if isinstance(part, str)]
    return vocabulary.shapes.get(names[-1], vocabulary.root) if names else vocabulary.root


def _usual_words(detail: Detail, shape: type[Shape]) -> str:
    given, ctx, key = detail["input"], detail.get("ctx", {}), str(detail["loc"][-1])
    match detail["type"]:
        case "value_error":
            return str(ctx["error"])
        case "missing":
            return _missing(key, shape)
        case "extra_forbidden" if given is None and not _KEY.fullmatch(key):
            return "unknown key: quote the text before it: a comma inside { } begins a new key"
        case "extra_forbidden":
            return _unknown_key(key, shape)
        case _ if detail["loc"] == ("version",):
            return "must be 1, the only version of this format that this Recoup reads"
        case _ if given is None:
            return NO_VALUE
        case "literal_error":
            return _literal(given, ctx["expected"])
        case "greater_than_equal":
            return f"must be at least {_number(ctx['ge'])}"
        case "less_than_equal":
            return f"must be at most {_number(ctx['le'])}"
        case "finite_number":
            return "must be a finite number"
        case "too_short":
            return "must not be empty: write at least one"
        case "too_long":
            return f"has more than {ctx['max_length']:,} entries: split it up"
        case kind:
            return _wrong_type(kind, given)


_KEY = re.compile(r"\$?[A-Za-z_][\w-]{0,100}")
"""What a person may have meant as a key."""


def _missing(key: str, shape: type[Shape]) -> str:
    example = json.dumps(shape.keys()[key].examples[0], ensure_ascii=False)
    return f"is missing: add it, for example `{key}: {example}`"


def _unknown_key(key: str, shape: type[Shape]) -> str:
    names = sorted(shape.keys())
    return f"unknown key: {suggestion(key, names) or 'the keys here are ' + listed(names)}"


def _literal(given: Any, expected: str) -> str:
    words = expected.replace("'", "`")
    meant = (
        suggestion(given, expected.replace("'", "").replace(" or ", ", ").split(", "))
        if isinstance(given, str)
        else ""
    )
    return f"must be {words}: {meant}" if meant else f"must be {words}"


_WANTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "`true` or `false`",
    "list_type": "a list (each item on its own line, beginning with `- `)",
    "dict_type": "a mapping (lines of `key: value`)",
    "model_type": "a mapping (lines of `key: value`)",
}


def _number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:,}"


_QUOTED_NUMBER = re.compile(r"[-+]?[0-9]{1,20}(?:\.[0-9]{1,20})?")


def _wrong_type(kind: str, given: Any) -> str:
    said = f"must be {_WANTED.get(kind, 'something else')}, not {described(given)}"
    quoted = isinstance(given, str) and kind in {"int_type", "float_type"} and _QUOTED_NUMBER.fullmatch(given)
    return f"{said}: remove the quotes" if quoted else said
