"""Which notifiers there are: each by the place of its object, loaded when a probe file is read or a probe starts.

Other packages bring notifiers by the entry point `recoup.notifiers`. They are looked for only where a file names none
of ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pkgutil import resolve_name
from typing import Any, Final

from recoup.notifiers.kind import NotifierKind
from recoup.plugins import NOTIFIERS, PluginBroken, plugins

BUILT_IN: Final = {
    "file": "recoup.notifiers.file:NOTIFIER",
    "command": "recoup.notifiers.command:NOTIFIER",
}
"""By the name under which the ledger keeps who was told. Each stands in a probe file under keys of its own."""

_KEY: Final = re.compile(r"[a-z][a-z0-9_]{0,31}")


@cache
def notifier_named(key: str) -> NotifierKind[Any]:
    """Raises PluginBroken for one that no package brings here."""
    if key not in BUILT_IN:
        return _load(key)
    kind: NotifierKind[Any] = resolve_name(BUILT_IN[key])
    assert kind.key == key, f"the notifier under {key!r} calls itself {kind.key!r}"
    return kind


def own_notifiers() -> Iterator[NotifierKind[Any]]:
    return map(notifier_named, BUILT_IN)


def digested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What a file says of its notifiers, for its digest."""
    kinds = [*own_notifiers(), *(notifier_named(key) for key in settings if key not in BUILT_IN)]
    return {name: value for kind in kinds for name, value in kind.digested(settings.get(kind.key)).items()}


@cache
def own_keys() -> frozenset[str]:
    """Every key under `hand_over` that is not one of another package."""
    return frozenset(key for kind in own_notifiers() for key in kind.fields())


def custom_keys() -> tuple[str, ...]:
    """Those of the notifiers that other packages bring, whether they can be loaded or not."""
    return tuple(key for key in plugins(NOTIFIERS) if key not in own_keys())


def custom_in(keys: Iterable[str]) -> list[str]:
    """Those that a file names. Other packages are looked at only if there is a key that is none of ours."""
    others = [key for key in keys if key not in own_keys()]
    return [key for key in others if key in custom_keys()] if others else []


def usable(keys: Iterable[str]) -> list[NotifierKind[Any]]:
    """Ours, and those of other packages with these keys."""
    return [*own_notifiers(), *(notifier_named(key) for key in keys if trouble_with(key) is None)]


@cache
def trouble_with(key: str) -> str | None:
    """Why the notifier of another package cannot be used. Loads what people write in it, too."""
    try:
        kind = _load(key)
        plugins(NOTIFIERS)[key].guarded(kind.fields)
    except PluginBroken as broken:
        return str(broken)
    return None


@cache
def _load(key: str) -> NotifierKind[Any]:
    """Raises PluginBroken."""
    from recoup.notifiers.custom import CustomNotifier

    plugin = plugins(NOTIFIERS).get(key)
    if plugin is None:
        raise PluginBroken(f"no package here brings the notifier `{key}`")
    if _KEY.fullmatch(key) is None:
        raise PluginBroken(f"the plugin {plugin.package} brings {key!r}, which cannot be a key of a notifier")
    kind: CustomNotifier = plugin.load(CustomNotifier)
    if kind.key != key:
        raise PluginBroken(f"the plugin {plugin.package} brings `{key}`, which calls itself `{kind.key}`")
    kind.package = plugin.package
    return kind
