"""The words for what can be wrong in a browser step, in a target and in a check of a page."""

from __future__ import annotations

from typing import Any

from recoup.shapes.page_keys import VERBS, verbs_in
from recoup.shapes.shape import TAG, Shape
from recoup.shapes.target_shape import BoxShape, RecordedShape, TargetShape
from recoup.shapes.tree import clipped
from recoup.shapes.wording import Detail, described, listed, suggestion
from recoup.steps.browser.shape import (
    VERB_SHAPES,
    AwaitedShape,
    ClickedShape,
    DialogShape,
    DownloadedShape,
    FilledShape,
    PictureShape,
    PressedShape,
    ReadingShape,
    SelectedShape,
    UploadedShape,
    VerbShape,
)

INSTEAD_OF_VERBS = {
    **dict.fromkeys(("open", "navigate", "visit", "url", "go"), "goto"),
    **dict.fromkeys(("tap", "push", "dblclick", "double_click"), "click"),
    **dict.fromkeys(("type", "input", "enter", "write", "set"), "fill"),
    **dict.fromkeys(("key", "keyboard"), "press"),
    "choose": "select",
    **dict.fromkeys(("attach", "file_upload"), "upload"),
    **dict.fromkeys(("sleep", "pause", "wait_for"), "wait"),
    **dict.fromkeys(("extract", "get", "scrape"), "read"),
    **dict.fromkeys(("picture", "snapshot", "capture"), "screenshot"),
    **dict.fromkeys(("switch", "window"), "tab"),
}
"""What others call the verbs."""

INSTEAD_IN_TARGETS = {
    "id": 'write `css: "#…"`',
    "class": 'write `css: ".…"`',
    "selector": "write `css: …`",
    "locator": "write `css: …`",
    "xpath": "write `css: …`, or name the element by `role`, `name`, `text` or `label`",
    "title": "write `css: \"[title='…']\"`",
    "index": "write `nth: …`, which counts from 1",
}
"""What others call the keys of a target."""

WANTED = {
    "fill": "{label: Amount, value: …}",
    "select": "{label: Country, option: …}",
    "upload": "{label: Receipt, file: …}",
    "read": "{test_id: total, into: total}",
    "download": "{text: Report, into: report.pdf}",
    "count": "{role: row, is: 3}",
    "value": "{label: Amount, is: …}",
    "recorded": "{tag: button, name: Approve}",
}
"""Where only a mapping will do, and an example of it."""


BROWSER_SHAPES: dict[str, type[Shape]] = {
    **{f"{TAG}verb-{verb}": shape for verb, shape in VERB_SHAPES.items()},
    TAG + "target": TargetShape,
    TAG + "clicked": ClickedShape,
    "fill": FilledShape,
    TAG + "pressed": PressedShape,
    "select": SelectedShape,
    "upload": UploadedShape,
    TAG + "awaited": AwaitedShape,
    "read": ReadingShape,
    TAG + "picture": PictureShape,
    "download": DownloadedShape,
    TAG + "dialog": DialogShape,
    "recorded": RecordedShape,
    "box": BoxShape,
}
"""What stands under these keys, and in these branches of a union."""


def browser_words(detail: Detail, shape: type[Shape]) -> str | None:
    """None: there is nothing special to say."""
    given, key = detail["input"], str(detail["loc"][-1])
    match detail["type"]:
        case "which_verb" if given is not None:
            return _which_verb(given)
        case "model_type" if key in WANTED and given is not None:
            return f"must be a mapping such as {WANTED[key]}, not {described(given)}"
        case "extra_forbidden" if issubclass(shape, VerbShape):
            return _beside_verb(key, shape)
        case "extra_forbidden" if issubclass(shape, TargetShape):
            return _in_target(key, shape)
        case _:
            return None


def _which_verb(given: Any) -> str:
    if not isinstance(given, dict):
        return f"must be a mapping such as {{goto: https://…}} or {{click: Approve}}, not {described(given)}"
    several = verbs_in(given)
    if several:
        return f"does {len(several)} things ({listed(several)}): make each a step of its own"
    for key in list(given)[: len(VERBS)]:
        meant = INSTEAD_OF_VERBS.get(key)
        if words := f"did you mean `{meant}`?" if meant else suggestion(key, VERBS):
            return f"unknown verb `{clipped(key)}`: {words}"
    return f"must have one of {listed(VERBS)}"


def _beside_verb(key: str, shape: type[VerbShape]) -> str | None:
    if key in _keys_of_targets():
        return f"unknown key here: put it under `{shape.verb.value}`"
    return None


def _keys_of_targets() -> set[str]:
    shapes = [TargetShape]
    keys: set[str] = set()
    while shapes:
        shape = shapes.pop()
        keys |= shape.keys().keys()
        shapes += shape.__subclasses__()
    return keys


def _in_target(key: str, shape: type[Shape]) -> str | None:
    if key == "dialog":
        return "stands beside the verb, not in it: move it out one level"
    if key in VERBS:
        return "unknown key: one step does one thing, make another step of it"
    if key in INSTEAD_IN_TARGETS and not suggestion(key, shape.keys()):
        return f"unknown key: {INSTEAD_IN_TARGETS[key]}"
    return None
