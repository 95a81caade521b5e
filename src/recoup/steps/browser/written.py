"""Browser actions and targets as a plan file has them: what is read from that again is the same."""

from __future__ import annotations

from typing import Any

import msgspec

from recoup.model.plan import BrowserAction, BrowserVerb, Dialog
from recoup.model.target import SHORT, Target


def browser_data(action: BrowserAction) -> dict[str, Any]:
    """What stands under `browser`."""
    written: dict[str, Any] = {action.verb.value: _said(action)}
    return written if action.dialog is None else {**written, "dialog": _dialog(action.dialog)}


def target_data(target: Target) -> dict[str, Any]:
    """In the order in which people would name it; last what was recorded."""
    data: dict[str, Any] = {key: said for key in SHORT if (said := getattr(target, key)) is not None}
    if target.nth is not None:
        data["nth"] = target.nth
    if target.recorded is not None:
        data["recorded"] = msgspec.json.decode(msgspec.json.encode(target.recorded))
    return data


def _said(action: BrowserAction) -> Any:
    target = {} if action.target is None else target_data(action.target)
    match action.verb:
        case BrowserVerb.GOTO | BrowserVerb.TAB:
            return action.value
        case BrowserVerb.PRESS | BrowserVerb.SCREENSHOT if not target:
            return action.value
        case BrowserVerb.WAIT if not target:
            return action.seconds
    return {**target, **_beside(action)}


def _beside(action: BrowserAction) -> dict[str, Any]:
    """What is said about the action next to its target."""
    data: dict[str, Any] = {}
    if action.value is not None:
        data[_VALUE[action.verb]] = action.value
    if action.values:
        one, several = _VALUES[action.verb]
        data |= {one: action.values[0]} if len(action.values) == 1 else {several: list(action.values)}
    for key in ("into", "attribute", "button"):
        if (said := getattr(action, key)) is not None:
            data[key] = said
    return data | {key: True for key in ("table", "hidden", "double") if getattr(action, key)}


_VALUE = {BrowserVerb.FILL: "value", BrowserVerb.PRESS: "key", BrowserVerb.SCREENSHOT: "as"}
_VALUES = {BrowserVerb.SELECT: ("option", "options"), BrowserVerb.UPLOAD: ("file", "files")}


def _dialog(dialog: Dialog) -> Any:
    if dialog.text is not None:
        return {"accept": dialog.accept, "text": dialog.text}
    return "accept" if dialog.accept else "dismiss"
