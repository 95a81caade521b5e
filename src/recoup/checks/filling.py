"""What a step expects, with its references filled in: the values of this run, as data and never as code or pattern."""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import msgspec

from recoup.checks.registry import check_kind
from recoup.checks.spots import NO_SECRETS, Spot
from recoup.kernel.references import TemplateError, references
from recoup.kernel.template import Scope, shell_script, substitute, substitute_value, texts_in
from recoup.model.plan import Check


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

    filled = tuple([check_kind(check).filled(check, fill) for check in checks])
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
        check_kind(check).filled(check, keep)
    return tuple(found)


_ESCAPES: dict[Spot, Callable[[str], str]] = {
    Spot.REGEX: re.escape,
    Spot.ADDRESS: lambda value: value.replace("*", r"\*"),
    Spot.PATHS: glob.escape,
}
