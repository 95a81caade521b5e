"""Which kinds of check there are: each by the place of its object, loaded when it is first asked for.

Other packages bring kinds by the entry point `recoup.checks`. They are looked for only where a check names none of
ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pkgutil import resolve_name
from typing import Any, Final

from recoup.checks.kind import AnyKind
from recoup.model.outcome import PageQuestion
from recoup.model.plan import Check, CustomCheck
from recoup.plugins import CHECKS, PluginBroken, plugins

BUILT_IN: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "exit": ("recoup.checks.exit:CHECK", ("exit",)),
    "file": ("recoup.checks.file:CHECK", ("file",)),
    "output": ("recoup.checks.printed:CHECK", ("stdout", "stderr")),
    "json": ("recoup.checks.json:CHECK", ("json",)),
    "run": ("recoup.checks.run:CHECK", ("run",)),
    "diff": ("recoup.checks.diff:CHECK", ("diff",)),
    "url": ("recoup.checks.page.url:CHECK", ("url",)),
    "title": ("recoup.checks.page.title:CHECK", ("title",)),
    "text": ("recoup.checks.page.text:CHECK", ("text",)),
    "target": ("recoup.checks.page.target:CHECK", ("visible", "hidden", "count")),
    "value": ("recoup.checks.page.value:CHECK", ("value",)),
    "response": ("recoup.checks.page.response:CHECK", ("response",)),
    "region": ("recoup.checks.page.region:CHECK", ("unchanged",)),
}
"""By the tag of the stored check: its object, and the keys in a plan that make a check one of this kind. In the order
in which people are told them."""

_KEY: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")
"""What the key of a kind of another package looks like."""


@cache
def kind_tagged(tag: str) -> AnyKind:
    kind: AnyKind = resolve_name(BUILT_IN[tag][0])
    return kind


@cache
def custom_kind(key: str) -> AnyKind:
    """Of a key that no package brings here, one that stands in for it."""
    try:
        return _load(key)
    except PluginBroken as broken:
        from recoup.checks.custom import AbsentCheck

        return AbsentCheck(key, str(broken))


def check_kind(check: Check) -> AnyKind:
    if isinstance(check, CustomCheck):
        return custom_kind(check.kind)
    return kind_tagged(str(type(check).__struct_config__.tag))


def asks_machine(check: Check) -> bool:
    """It looks at what outlives every process: nothing has to be opened for it."""
    return check.asks_world and not check_kind(check).looks_at_page


def asks_page(check: Check) -> bool:
    """It looks at the page as it is at any time, not at what came during an attempt."""
    return check.asks_world and check_kind(check).looks_at_page


def question_of(check: Check) -> PageQuestion | None:
    return check_kind(check).question(check)


def check_keys() -> tuple[str, ...]:
    """Every key that makes a mapping a check, in the order in which people are told them."""
    return (*own_keys(), *(key for key in custom_keys() if trouble_with(key) is None))


def own_keys() -> tuple[str, ...]:
    return tuple(key for _, keys in BUILT_IN.values() for key in keys)


def custom_keys() -> tuple[str, ...]:
    """Those of the kinds that other packages bring, whether they can be loaded or not."""
    return tuple(key for key in plugins(CHECKS) if key not in own_keys())


def keys_in(data: Mapping[str, Any]) -> list[str]:
    """The keys of checks that a mapping has. Other packages are looked at only if it has none of ours."""
    ours = [key for key in own_keys() if key in data]
    return ours or [key for key in (custom_keys() if data else ()) if key in data]


def kind_of_key(key: str) -> AnyKind:
    tag = next((tag for tag, (_, keys) in BUILT_IN.items() if key in keys), None)
    return custom_kind(key) if tag is None else kind_tagged(tag)


def kinds_in(data: Mapping[str, Any]) -> Iterator[AnyKind]:
    """Those that a check names, as it is written."""
    usable = [key for key in keys_in(data) if trouble_with(key) is None]
    return iter(dict.fromkeys(map(kind_of_key, usable)))


def all_kinds() -> Iterator[AnyKind]:
    """Loads them all: for words about mistakes, and for schemas."""
    return iter(dict.fromkeys(map(kind_of_key, check_keys())))


def needs_of(checks: Iterable[Check]) -> frozenset[str]:
    """What a worker must be capable of to examine them."""
    return frozenset[str]().union(*(check_kind(check).needs for check in checks))


def offered_checks() -> frozenset[str]:
    """The capabilities that the packages here give to a worker."""
    usable = (custom_kind(key) for key in custom_keys() if trouble_with(key) is None)
    return frozenset[str]().union(*(kind.needs for kind in usable))


def why_missing(checks: Iterable[Check]) -> str | None:
    """Why one of them cannot be examined here, and what to install."""
    return next((why for check in checks if (why := check_kind(check).missing(check))), None)


@cache
def trouble_with(key: str) -> str | None:
    """Why a kind cannot be used: one of another package, of which it loads what people write in it, too."""
    if key in own_keys():
        return None
    try:
        kind = _load(key)
        plugins(CHECKS)[key].guarded(lambda: _must_be_whole(kind, key))
    except PluginBroken as broken:
        return str(broken)
    return None


def _must_be_whole(kind: AnyKind, key: str) -> None:
    """Raises ValueError for keys that cannot stand in a plan."""
    shape = kind.shapes.by_key.get(key)
    keys = set() if shape is None else {*shape.keys()}
    if key not in keys:
        raise ValueError(f"its shape has no key `{key}`")
    if taken := sorted(keys & {*own_keys()}):
        raise ValueError(f"its shape has `{taken[0]}`, a key of Recoup's own checks")


@cache
def _load(key: str) -> AnyKind:
    """Raises PluginBroken."""
    from recoup.checks.custom import CustomKind

    plugin = plugins(CHECKS).get(key)
    if plugin is None:
        raise PluginBroken(f"no package here brings the check `{key}`")
    if _KEY.fullmatch(key) is None:
        raise PluginBroken(f"the plugin {plugin.package} brings {key!r}, which cannot be a key of a check")
    kind: CustomKind = plugin.load(CustomKind)
    if kind.key != key:
        raise PluginBroken(f"the plugin {plugin.package} brings `{key}`, which calls itself `{kind.key}`")
    kind.package = plugin.package
    kind.needs |= {capability(key)}
    return kind


def capability(key: str) -> str:
    """What a worker offers that can examine the checks of a package."""
    return f"check.{key}"
