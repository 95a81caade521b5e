"""What a step expects, with its references filled in: the values of this run, as data and never as code or pattern."""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from enum import Enum
from typing import Any

import msgspec

from recoup.kernel.references import TemplateError, references
from recoup.kernel.template import Scope, shell_script, substitute, substitute_value, texts_in
from recoup.model.plan import (
    Check,
    DiffCheck,
    FileCheck,
    JsonCheck,
    OutputCheck,
    PageTextCheck,
    RegionCheck,
    ResponseCheck,
    RunCheck,
    TargetCheck,
    TextMatch,
    TitleCheck,
    UrlCheck,
    ValueCheck,
)
from recoup.model.target import SHORT, Target


class Spot(Enum):
    """Where in a check a reference stands."""

    TEXT = "text"
    VALUE = "value"
    """Any JSON value."""
    SCRIPT = "script"
    WORD = "word"
    """An argument of a command."""
    REGEX = "regex"
    ADDRESS = "address"
    PATHS = "paths"


NO_SECRETS = {
    Spot.WORD: "every user of the machine can read the arguments of a command: use a script, `run: …` as text",
    Spot.REGEX: "a pattern is shown in messages: compare it as text",
    Spot.ADDRESS: "a pattern is shown in messages: compare it as text",
    Spot.PATHS: "a pattern is shown in messages",
}
"""Where no secret may stand, and why: escaped for a pattern it would not be recognised and masked."""


class Expected(msgspec.Struct, frozen=True):
    """The checks of a step as they are asked."""

    checks: tuple[Check, ...] = ()
    env: dict[str, str] = {}
    """More environment of their scripts: the values that nobody may see in arguments."""
    secrets: dict[str, str] = {}
    """The secrets whose values stand in the checks themselves, by reference. Never stored."""


def fill_in(checks: Sequence[Check], scope: Scope, secret: Collection[str] = frozenset()) -> Expected:
    """Raises TemplateError when a reference has no value or must not stand where it does."""
    env: dict[str, str] = {}
    shown: dict[str, str] = {}

    def fill(value: Any, spot: Spot) -> Any:
        if spot is Spot.SCRIPT:
            return shell_script(value, scope, secret, env).text
        for name in _secrets_in(value, secret):
            if spot in NO_SECRETS:
                raise TemplateError(f"{name} is a secret and must not stand here: {NO_SECRETS[spot]}")
            shown[name] = substitute(f"${{{{ {name} }}}}", scope)
        if spot is Spot.VALUE:
            return substitute_value(value, scope)
        return substitute(value, scope, _ESCAPES.get(spot))

    filled = tuple([_filled(check, fill) for check in checks])
    return Expected(filled, env, shown)


def _secrets_in(value: Any, secret: Collection[str]) -> Iterator[str]:
    if secret:
        yield from (one.name for text in texts_in(value) for one in references(text) if one.name in secret)


def expectation_texts(checks: Sequence[Check]) -> tuple[str, ...]:
    """Wherever a reference may stand."""
    found: list[str] = []

    def keep(value: Any, _spot: Spot) -> Any:
        found.extend(texts_in(value))
        return value

    for check in checks:
        _filled(check, keep)
    return tuple(found)


Fill = Callable[[Any, Spot], Any]


def _filled(check: Check, fill: Fill) -> Check:
    match check:
        case FileCheck(path=path, contains=contains):
            return msgspec.structs.replace(check, path=fill(path, Spot.TEXT), contains=_match(contains, fill))
        case OutputCheck(match=match) | TitleCheck(match=match) | PageTextCheck(match=match):
            return msgspec.structs.replace(check, match=_match(match, fill))
        case JsonCheck(file=file, path=path, equals=equals):
            filled = equals if equals is msgspec.UNSET else fill(equals, Spot.VALUE)
            return JsonCheck(fill(file, Spot.TEXT), fill(path, Spot.TEXT), filled)
        case RunCheck(command=str() as script):
            return RunCheck(fill(script, Spot.SCRIPT))
        case RunCheck(command=words):
            return RunCheck(tuple([fill(word, Spot.WORD) for word in words]))
        case DiffCheck(paths=paths):
            return msgspec.structs.replace(check, paths=tuple([fill(path, Spot.PATHS) for path in paths]))
        case UrlCheck(pattern=pattern) | ResponseCheck(pattern=pattern):
            return msgspec.structs.replace(check, pattern=fill(pattern, Spot.ADDRESS))
        case TargetCheck(target=target) | RegionCheck(target=target):
            return msgspec.structs.replace(check, target=_target(target, fill))
        case ValueCheck(target=target, match=match, equals=equals):
            value = None if equals is None else fill(equals, Spot.TEXT)
            changes = {"target": _target(target, fill), "match": _match(match, fill), "equals": value}
            return msgspec.structs.replace(check, **changes)
        case _:
            return check


def _match(match: TextMatch | None, fill: Fill) -> TextMatch | None:
    if match is None:
        return None
    text = None if match.text is None else fill(match.text, Spot.TEXT)
    regex = None if match.regex is None else fill(match.regex, Spot.REGEX)
    return TextMatch(text, regex)


def _target(target: Target | None, fill: Fill) -> Target | None:
    """Of what was recorded nothing is looked up."""
    if target is None:
        return None
    words = {name: text for name in SHORT if (text := getattr(target, name)) is not None}
    return msgspec.structs.replace(target, **{name: fill(text, Spot.TEXT) for name, text in words.items()})


_ESCAPES: dict[Spot, Callable[[str], str]] = {
    Spot.REGEX: re.escape,
    Spot.ADDRESS: lambda value: value.replace("*", r"\*"),
    Spot.PATHS: glob.escape,
}
