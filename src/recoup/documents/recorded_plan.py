"""What was done in a browser becomes a plan that people can read, change and run. No secret gets into it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from recoup.kernel.references import OPENING
from recoup.model.plan import BrowserAction, BrowserVerb
from recoup.model.recorded import Deed
from recoup.model.target import SHORT, Element, Target
from recoup.steps.browser.written import browser_data

NAME_CHARS_MAX: Final = 40
_PARTS: Final = re.compile(r"[a-z0-9]+")
_OPENING: Final = re.compile(r"(\\*)" + re.escape(OPENING))
_LED_BY: Final = frozenset({BrowserVerb.CLICK, BrowserVerb.PRESS, BrowserVerb.SELECT, BrowserVerb.CHECK})

Clean = Callable[[str], str]
"""The text without the secrets in it."""


def recorded_plan(name: str, deeds: Sequence[Deed], clean: Clean) -> dict[str, Any]:
    """As a plan file has it."""
    inputs = _Inputs(clean)
    ids = _Names()
    steps = [_step(deed, inputs, ids) for deed in deeds]
    plan: dict[str, Any] = {"version": 1, "name": _slug(name, "-") or "recorded"}
    return plan | ({"inputs": inputs.data} if inputs.data else {}) | {"steps": steps}


class _Names:
    """Names that occur once."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def one(self, wanted: str, joint: str = "-") -> str:
        name, number = wanted, 1
        while name in self._taken:
            number += 1
            name = f"{wanted}{joint}{number}"
        self._taken.add(name)
        return name


class _Inputs:
    """What whoever runs the plan has to give: secrets and files."""

    def __init__(self, clean: Clean) -> None:
        self.clean = clean
        self.data: dict[str, Any] = {}
        self._names = _Names()
        self._secrets: dict[int | str, str] = {}
        self._texts: dict[str, str] = {}

    def secret(self, which: int | str, target: Target | None) -> str:
        if which not in self._secrets:
            self._secrets[which] = self._new(target, "secret", {"required": True, "secret": True})
        return _reference(self._secrets[which])

    def text(self, value: str, target: Target | None, otherwise: str) -> str:
        """For a text that looks like a secret where none may stand: a masked one would be a different text."""
        if self.clean(value) == value:
            return literal(value)
        if value not in self._texts:
            self._texts[value] = self._new(target, otherwise, {"required": True})
        return _reference(self._texts[value])

    def file(self, target: Target | None) -> str:
        return _reference(self._new(target, "file", {"required": True}))

    def _new(self, target: Target | None, otherwise: str, spec: dict[str, Any]) -> str:
        words = _slug(self.clean(_words(target)), "_")
        name = self._names.one(words if words and not words[0].isdigit() else otherwise, "_")
        self.data[name] = spec
        return name


def _reference(name: str) -> str:
    return f"${{{{ inputs.{name} }}}}"


def _step(deed: Deed, inputs: _Inputs, ids: _Names) -> dict[str, Any]:
    action = _filled(deed, inputs)
    words = _slug(inputs.clean(_words(action.target)), "-")
    wanted = f"{action.verb.value}-{words}" if words else action.verb.value
    step: dict[str, Any] = {"id": ids.one(wanted), "browser": browser_data(action)}
    pattern = _pattern(deed, inputs.clean)
    return step | ({"expect": [{"url": pattern}]} if pattern else {})


def _filled(deed: Deed, inputs: _Inputs) -> BrowserAction:
    """The action with references where values do not belong into a file, and nothing else that would be read as one."""
    action, clean = deed.action, inputs.clean
    target = None if action.target is None else _clean_target(action.target, clean)
    value = _value(deed, inputs)
    if action.verb is BrowserVerb.UPLOAD:
        values = tuple(inputs.file(action.target) for _ in action.values)
    else:
        values = tuple(inputs.text(option, action.target, "option") for option in action.values)
    dialog = action.dialog
    if dialog is not None and dialog.text is not None:
        dialog = msgspec.structs.replace(dialog, text=literal(clean(dialog.text)))
    return msgspec.structs.replace(action, target=target, value=value, values=values, dialog=dialog)


def _value(deed: Deed, inputs: _Inputs) -> str | None:
    value = deed.action.value
    if deed.secret is not None:
        return inputs.secret(deed.secret, deed.action.target)
    if value is None:
        return None
    if deed.action.verb is BrowserVerb.FILL and inputs.clean(value) != value:
        return inputs.secret(value, deed.action.target)
    if deed.action.verb is BrowserVerb.GOTO:
        return inputs.text(value, None, "address")
    return literal(inputs.clean(value))


def _clean_target(target: Target, clean: Clean) -> Target:
    short = {key: literal(clean(said)) for key in SHORT if (said := getattr(target, key)) is not None}
    recorded = target.recorded
    if recorded is not None:
        recorded = msgspec.convert(_cleaned(msgspec.to_builtins(recorded), clean), Element)
    return msgspec.structs.replace(target, **short, recorded=recorded)


def _cleaned(value: Any, clean: Clean) -> Any:
    match value:
        case str():
            return clean(value)
        case dict():
            return {key: _cleaned(item, clean) for key, item in value.items()}
        case list() | tuple():
            return [_cleaned(item, clean) for item in value]
    return value


def literal(text: str) -> str:
    """So that nothing in it is taken for a reference: before one that is none stands an odd number of backslashes."""
    return _OPENING.sub(lambda found: found[1] + "\\" * (1 + len(found[1]) % 2) + OPENING, text)


def _words(target: Target | None) -> str:
    if target is None:
        return ""
    said = target.name or target.label or target.text or target.placeholder or target.test_id
    recorded = target.recorded
    return said or (recorded.name_attribute or recorded.id or recorded.tag if recorded else "")


def _slug(words: str, joint: str) -> str:
    return joint.join(_PARTS.findall(words.lower()))[:NAME_CHARS_MAX].strip(joint)


def _pattern(deed: Deed, clean: Clean) -> str | None:
    """Where the page must be afterwards, if it is sure: the path, with a star for parts that may be another number next
    time."""
    if deed.led_to is None or deed.action.verb not in _LED_BY:
        return None
    address = urlsplit(deed.led_to)
    if not address.path.strip("/") or clean(address.path) != address.path:
        return None
    return literal("**" + _starred(address.path) + _behind(address.query, clean(address.fragment)))


def _behind(query: str, fragment: str) -> str:
    """Pages that are one document have their paths behind the sign."""
    before = "?**" if query else ""
    if fragment.startswith("/"):
        return f"{before}#{_starred(fragment)}"
    return before + "#**" if fragment and not before else before


def _starred(path: str) -> str:
    return "/".join("*" if re.search(r"[0-9*]", part) else part for part in path.split("/"))
