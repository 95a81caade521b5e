"""Browser steps, checks of pages and healing, as plan files write them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoup.documents.plan_file import parse_plan, plan_from_data
from recoup.errors import InvalidPlan
from recoup.kernel.canonical import digest
from recoup.model.plan import (
    NEVER_REPEATED,
    BrowserAction,
    BrowserVerb,
    Check,
    Dialog,
    Handler,
    PageTextCheck,
    Plan,
    RegionCheck,
    Repeat,
    ResponseCheck,
    RunAction,
    Step,
    TargetCheck,
    TargetState,
    TextMatch,
    TitleCheck,
    UrlCheck,
    ValueCheck,
)
from recoup.model.target import TEXT_MAX, Box, Element, Heal, HealMode, Target
from recoup.shapes.keyboard import HELD, NAMES, wrong_key
from recoup.steps.browser.written import browser_data

Data = dict[str, Any]
Problems = list[tuple[str, str]]
V = BrowserVerb
GOTO = {"browser": {"goto": "https://shop.example"}}
INPUTS = {"a": "b", "pin": {"secret": True}}
RECORDED = {
    "tag": "BUTTON",
    "role": "button",
    "type": "submit",
    "name": "Approve",
    "text": "Approve ${{ as it was }}",
    "id": "approve-1",
    "test_id": "approve",
    "name_attribute": "approve",
    "classes": ["btn", "primary"],
    "href": "/x",
    "alt": "a",
    "title": "t",
    "placeholder": "p",
    "label": "l",
    "attributes": {"aria-controls": "menu"},
    "box": {"x": 1, "y": 2.5, "width": 3, "height": 4},
    "neighbours": ["INV-1001"],
    "container": "INV-1001",
    "ancestors": ["cell", "row"],
    "xpath": "/html/body/button",
    "id_xpath": '//*[@id="x"]/button',
    "frame": [0, 2],
    "visible": False,
    "enabled": False,
}
ELEMENT = Element(
    tag="button",
    role="button",
    type="submit",
    name="Approve",
    text="Approve ${{ as it was }}",
    id="approve-1",
    test_id="approve",
    name_attribute="approve",
    classes=("btn", "primary"),
    href="/x",
    alt="a",
    title="t",
    placeholder="p",
    label="l",
    attributes={"aria-controls": "menu"},
    box=Box(1.0, 2.5, 3.0, 4.0),
    neighbours=("INV-1001",),
    container="INV-1001",
    ancestors=("cell", "row"),
    xpath="/html/body/button",
    id_xpath='//*[@id="x"]/button',
    frame=(0, 2),
    visible=False,
    enabled=False,
)


def plan_of(*steps: Data, **more: Any) -> Plan:
    return plan_from_data({"version": 1, "name": "x", "inputs": INPUTS, "steps": list(steps), **more})


def step_of(step: Data) -> Step:
    """Of a plan in which a page is open."""
    return plan_of(GOTO, step).steps[1]


def action_of(browser: Data) -> BrowserAction:
    action = step_of({"browser": browser}).action
    assert isinstance(action, BrowserAction)
    return action


def problems_of(*steps: Data, **more: Any) -> Problems:
    with pytest.raises(InvalidPlan) as invalid:
        plan_of(*steps, **more)
    return [(problem.where, problem.message) for problem in invalid.value.problems]


def text(words: str) -> Target:
    return Target(text=words)


ACTIONS: list[tuple[Data, BrowserAction]] = [
    ({"goto": "https://a.example/?q=1#x"}, BrowserAction(verb=V.GOTO, value="https://a.example/?q=1#x")),
    ({"goto": "${{ inputs.a }}/login"}, BrowserAction(verb=V.GOTO, value="${{ inputs.a }}/login")),
    ({"goto": "about:blank"}, BrowserAction(verb=V.GOTO, value="about:blank")),
    ({"click": "Approve"}, BrowserAction(verb=V.CLICK, target=text("Approve"))),
    ({"click": 2026}, BrowserAction(verb=V.CLICK, target=text("2026"))),
    (
        {"click": {"role": "button", "name": "Approve", "near": "INV-1001"}},
        BrowserAction(verb=V.CLICK, target=Target(role="button", name="Approve", near="INV-1001")),
    ),
    (
        {"click": {"css": "#a", "double": True, "button": "right"}},
        BrowserAction(verb=V.CLICK, target=Target(css="#a"), double=True, button="right"),
    ),
    (
        {"click": {"label": "l", "placeholder": "p", "test_id": "t", "inside": "i", "nth": -2, "frame": "f"}},
        BrowserAction(
            verb=V.CLICK,
            target=Target(label="l", placeholder="p", test_id="t", inside="i", nth=-2, frame="f"),
        ),
    ),
    ({"click": {"recorded": RECORDED}}, BrowserAction(verb=V.CLICK, target=Target(recorded=ELEMENT))),
    (
        {"click": {"name": "x", "recorded": {"tag": "a"}}},
        BrowserAction(verb=V.CLICK, target=Target(name="x", recorded=Element(tag="a"))),
    ),
    (
        {"fill": {"label": "Amount", "value": 12.50}},
        BrowserAction(verb=V.FILL, target=Target(label="Amount"), value="12.5"),
    ),
    (
        {"fill": {"label": "Pin", "value": "${{ inputs.pin }}"}},
        BrowserAction(verb=V.FILL, target=Target(label="Pin"), value="${{ inputs.pin }}"),
    ),
    ({"fill": {"css": "x", "value": ""}}, BrowserAction(verb=V.FILL, target=Target(css="x"), value="")),
    ({"press": "Control+Shift+T"}, BrowserAction(verb=V.PRESS, value="Control+Shift+T")),
    ({"press": 5}, BrowserAction(verb=V.PRESS, value="5")),
    ({"press": {"key": "Enter"}}, BrowserAction(verb=V.PRESS, value="Enter")),
    (
        {"press": {"label": "Search", "key": "Enter"}},
        BrowserAction(verb=V.PRESS, target=Target(label="Search"), value="Enter"),
    ),
    (
        {"select": {"label": "Country", "option": "Germany"}},
        BrowserAction(verb=V.SELECT, target=Target(label="Country"), values=("Germany",)),
    ),
    (
        {"select": {"label": "Country", "options": ["Germany", 2, ""]}},
        BrowserAction(verb=V.SELECT, target=Target(label="Country"), values=("Germany", "2", "")),
    ),
    ({"check": {"label": "Agree"}}, BrowserAction(verb=V.CHECK, target=Target(label="Agree"))),
    ({"uncheck": "Agree"}, BrowserAction(verb=V.UNCHECK, target=text("Agree"))),
    (
        {"upload": {"label": "File", "file": "out/a.pdf"}},
        BrowserAction(verb=V.UPLOAD, target=Target(label="File"), values=("out/a.pdf",)),
    ),
    (
        {"upload": {"label": "File", "files": ["a", "${{ inputs.a }}"]}},
        BrowserAction(verb=V.UPLOAD, target=Target(label="File"), values=("a", "${{ inputs.a }}")),
    ),
    ({"hover": "Menu"}, BrowserAction(verb=V.HOVER, target=text("Menu"))),
    ({"wait": "1m30s"}, BrowserAction(verb=V.WAIT, seconds=90)),
    ({"wait": 2}, BrowserAction(verb=V.WAIT, seconds=2)),
    ({"wait": "Approved"}, BrowserAction(verb=V.WAIT, target=text("Approved"))),
    ({"wait": {"text": "2s"}}, BrowserAction(verb=V.WAIT, target=text("2s"))),
    (
        {"wait": {"role": "progressbar", "hidden": True}},
        BrowserAction(verb=V.WAIT, target=Target(role="progressbar"), hidden=True),
    ),
    (
        {"read": {"test_id": "total", "into": "total"}},
        BrowserAction(verb=V.READ, target=Target(test_id="total"), into="total"),
    ),
    (
        {"read": {"css": "a", "into": "link", "attribute": "href"}},
        BrowserAction(verb=V.READ, target=Target(css="a"), into="link", attribute="href"),
    ),
    (
        {"read": {"role": "table", "into": "rows", "table": True}},
        BrowserAction(verb=V.READ, target=Target(role="table"), into="rows", table=True),
    ),
    ({"screenshot": "done-${{ inputs.a }}"}, BrowserAction(verb=V.SCREENSHOT, value="done-${{ inputs.a }}")),
    ({"screenshot": {"as": "done"}}, BrowserAction(verb=V.SCREENSHOT, value="done")),
    (
        {"screenshot": {"role": "table", "name": "n", "as": "done"}},
        BrowserAction(verb=V.SCREENSHOT, target=Target(role="table", name="n"), value="done"),
    ),
    (
        {"download": {"text": "Report", "into": "out/report.pdf"}},
        BrowserAction(verb=V.DOWNLOAD, target=text("Report"), into="out/report.pdf"),
    ),
    ({"tab": "new"}, BrowserAction(verb=V.TAB, value="new")),
    ({"tab": 2}, BrowserAction(verb=V.TAB, value="2")),
    ({"tab": "/checkout"}, BrowserAction(verb=V.TAB, value="/checkout")),
    (
        {"click": "x", "dialog": "accept"},
        BrowserAction(verb=V.CLICK, target=text("x"), dialog=Dialog(accept=True)),
    ),
    (
        {"click": "x", "dialog": "dismiss"},
        BrowserAction(verb=V.CLICK, target=text("x"), dialog=Dialog(accept=False)),
    ),
    (
        {"click": "x", "dialog": {"text": 5}},
        BrowserAction(verb=V.CLICK, target=text("x"), dialog=Dialog(accept=True, text="5")),
    ),
    (
        {"click": "x", "dialog": {"accept": False}},
        BrowserAction(verb=V.CLICK, target=text("x"), dialog=Dialog(accept=False)),
    ),
]


@pytest.mark.parametrize(("written", "action"), ACTIONS, ids=lambda value: str(value)[:60])
def test_every_form_of_an_action_becomes_its_value(written: Data, action: BrowserAction) -> None:
    assert action_of(written) == action
    assert step_of({"browser": written}).repeat is (
        Repeat.NEVER if action.verb in NEVER_REPEATED else Repeat.SAFE
    )


def test_every_verb_can_be_written() -> None:
    assert {action.verb for _, action in ACTIONS} == set(BrowserVerb)


def test_yaml_says_it_as_the_documentation_does() -> None:
    plan = parse_plan(
        """\
version: 1
name: x
heal: report
steps:
  - browser: {goto: "https://shop.example"}
  - id: approve
    browser: {click: {role: button, name: Approve, near: INV-1001}}
    expect: [{text: Approved}, {url: "**/done"}]
    heal: off
    rescue: [{browser: {click: Retry}, expect: [{text: Approved}]}, {run: ./notify.sh}]
    repeat: safe
"""
    )
    click = BrowserAction(verb=V.CLICK, target=Target(role="button", name="Approve", near="INV-1001"))
    approved = PageTextCheck(TextMatch(text="Approved"))
    assert plan.heal == Heal(HealMode.REPORT)
    assert plan.steps[1] == Step(
        id="approve",
        action=click,
        expect=(approved, UrlCheck("**/done")),
        heal=Heal(HealMode.OFF),
        rescue=(
            Handler(action=BrowserAction(verb=V.CLICK, target=text("Retry")), expect=(approved,)),
            Handler(action=RunAction("./notify.sh")),
        ),
    )


@pytest.mark.parametrize(
    ("written", "check"),
    [
        ({"url": "**/done"}, UrlCheck("**/done")),
        ({"title": "Shop"}, TitleCheck(TextMatch(text="Shop"))),
        ({"title": {"regex": "^S"}}, TitleCheck(TextMatch(regex="^S"))),
        ({"text": "Approved"}, PageTextCheck(TextMatch(text="Approved"))),
        ({"text": {"regex": "a+"}, "absent": True}, PageTextCheck(TextMatch(regex="a+"), absent=True)),
        ({"visible": "Done"}, TargetCheck(text("Done"))),
        ({"visible": {"role": "row", "nth": 2}}, TargetCheck(Target(role="row", nth=2))),
        ({"hidden": {"role": "alert"}}, TargetCheck(Target(role="alert"), TargetState.HIDDEN)),
        ({"count": {"role": "row", "is": 0}}, TargetCheck(Target(role="row"), TargetState.COUNT, 0)),
        ({"value": {"label": "a", "matches": "^5"}}, ValueCheck(Target(label="a"), TextMatch(regex="^5"))),
        ({"value": {"label": "a", "checked": False}}, ValueCheck(Target(label="a"), checked=False)),
        ({"response": "**/api"}, ResponseCheck("**/api")),
        ({"response": {"url": "**/api"}}, ResponseCheck("**/api")),
        ({"response": {"url": "**/api", "status": 201}}, ResponseCheck("**/api", (201,))),
        ({"response": {"url": "**/api", "status": [200, 404]}}, ResponseCheck("**/api", (200, 404))),
        ({"unchanged": "page"}, RegionCheck()),
        ({"unchanged": {"tolerance": 0}}, RegionCheck(None, 0.0)),
        ({"unchanged": "Total"}, RegionCheck(text("Total"))),
        ({"unchanged": {"role": "table", "tolerance": 0.5}}, RegionCheck(Target(role="table"), 0.5)),
    ],
    ids=str,
)
def test_every_form_of_a_page_check_becomes_its_value(written: Data, check: Check) -> None:
    assert step_of({"browser": {"click": "x"}, "expect": [written]}).expect == (check,)
    assert step_of({"run": "x", "expect": [written]}).expect == (check,)
    handler = {"run": "x", "expect": [written]}
    assert step_of({"run": "x", "always": [handler]}).always[0].expect == (check,)


def test_the_value_of_a_field_stands_in_the_plan_as_it_was_written() -> None:
    """Redaction would not recognise a secret in an escaped spelling."""
    written = r"a+b.c*(d)[e]{f}^g$h|i?j\k 'l' \"m\""
    [check] = step_of({**GOTO, "expect": [{"value": {"label": "a", "is": written}}]}).expect
    assert check == ValueCheck(Target(label="a"), equals=written)


@pytest.mark.parametrize(
    ("written", "heal"),
    [
        ("off", Heal(HealMode.OFF)),
        ("report", Heal(HealMode.REPORT)),
        ("apply", Heal(HealMode.APPLY)),
        (
            {"mode": "apply", "max_level": 2, "learn": "on_verified"},
            Heal(HealMode.APPLY, 2, True),
        ),
        ({"max_level": 0, "learn": "never"}, Heal(None, 0, False)),
        ({}, Heal()),
    ],
    ids=str,
)
def test_healing_is_said_in_a_word_or_in_full(written: Any, heal: Heal) -> None:
    plan = plan_of(GOTO, {"browser": {"click": "x"}, "heal": written}, heal=written)
    assert (plan.steps[1].heal, plan.heal) == (heal, heal)


def test_what_is_not_said_is_not_in_the_digest() -> None:
    plan = plan_of(GOTO, {"browser": {"click": "x"}, "heal": {}}, inputs={})
    assert json.loads(msgspec.json.encode(plan.steps)) == [
        {"id": "step-1", "action": {"type": "browser", "verb": "goto", "value": "https://shop.example"}},
        {
            "id": "step-2",
            "action": {"type": "browser", "verb": "click", "target": {"text": "x"}},
            "repeat": "never",
        },
    ]
    assert digest(msgspec.to_builtins(plan)) == digest(json.loads(msgspec.json.encode(plan)))


def test_a_plan_with_every_action_is_made_of_plain_values() -> None:
    plan = plan_of(GOTO, *({"browser": written} for written, _ in ACTIONS))
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan


# Written back


@pytest.mark.parametrize(("written", "action"), ACTIONS, ids=lambda value: str(value)[:60])
def test_an_action_that_is_written_back_is_read_as_the_same(written: Data, action: BrowserAction) -> None:
    assert action_of(browser_data(action)) == action
    assert written.keys() == browser_data(action).keys()


WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0$"), min_size=1, max_size=20).filter(
    str.strip
)
SOMETIMES = st.none() | WORDS
ELEMENTS = st.builds(
    Element,
    tag=st.sampled_from(["a", "button"]),
    name=WORDS,
    classes=st.lists(WORDS, max_size=3).map(tuple),
    attributes=st.dictionaries(WORDS, WORDS, max_size=3),
    box=st.builds(Box, *[st.floats(0, 1e6)] * 4),
    frame=st.lists(st.integers(0, 5), max_size=2).map(tuple),
    visible=st.booleans(),
)
TARGETS = st.builds(
    Target,
    role=st.none() | st.sampled_from(["button", "link"]),
    name=SOMETIMES,
    text=WORDS,
    near=SOMETIMES,
    nth=st.none() | st.integers(1, 9) | st.integers(-9, -1),
    frame=SOMETIMES,
    recorded=st.none() | ELEMENTS,
)


@given(TARGETS, WORDS, st.booleans())
@settings(deadline=None)
def test_any_target_that_is_written_back_is_read_as_the_same(
    target: Target, value: str, double: bool
) -> None:
    for action in (
        BrowserAction(verb=V.FILL, target=target, value=value),
        BrowserAction(verb=V.CLICK, target=target, double=double, dialog=Dialog(text=value)),
        BrowserAction(verb=V.SELECT, target=target, values=(value, value) if double else (value,)),
    ):
        assert action_of(browser_data(action)) == action


# What is refused

NAMES_NOTHING = "say what it is, by `role`, `name`, `text`, `label`, `placeholder`, `test_id` or `css`"
VERBS = ", ".join(f"`{verb.value}`" for verb in BrowserVerb)
ONE_ADDRESS = "must be a whole address: begin with https:// or http://"
NO_ADDRESS = "is no address of a page: it begins with https://, http:// or file://"
INSIDE = "must be a file inside the workspace, such as `out/report.pdf`"
PICTURE = "must be a name of at most 100 letters, digits, `.`, `_` or `-`, beginning with a letter or digit"
KEYS_OF_TARGETS = (
    "unknown key: the keys here are `css`, `frame`, `inside`, `label`, `name`, `near`, `nth`, `placeholder`, "
    "`recorded`, `role`, `test_id`, `text`"
)


@pytest.mark.parametrize(
    ("browser", "where", "message"),
    [
        (
            "https://a.example",
            "",
            "must be a mapping such as {goto: https://…} or {click: Approve}, not the text "
            '"https://a.example"',
        ),
        ([], "", "must be a mapping such as {goto: https://…} or {click: Approve}, not a list"),
        (None, "", "has no value: write one, or remove the key"),
        ({}, "", f"must have one of {VERBS}"),
        ({"dialog": "accept"}, "", f"must have one of {VERBS}"),
        ({"clik": "x"}, "", "unknown verb `clik`: did you mean `click`?"),
        ({"open": "x"}, "", "unknown verb `open`: did you mean `goto`?"),
        ({"type": "x"}, "", "unknown verb `type`: did you mean `fill`?"),
        ({"click": "x", "fill": {}}, "", "does 2 things (`click`, `fill`): make each a step of its own"),
        ({"click": "x", "value": "y"}, ".value", "unknown key here: put it under `click`"),
        ({"click": "x", "dialogue": "y"}, ".dialogue", "unknown key: did you mean `dialog`?"),
        ({"goto": "shop.example"}, ".goto", ONE_ADDRESS),
        ({"goto": "localhost:8000/x"}, ".goto", ONE_ADDRESS),
        ({"goto": "/login"}, ".goto", ONE_ADDRESS),
        ({"goto": "javascript:alert(1)"}, ".goto", NO_ADDRESS),
        ({"goto": " "}, ".goto", "must not be empty"),
        ({"goto": {"url": "x"}}, ".goto", "must be text, not a mapping"),
        (
            {"goto": "https://" + "x" * 20_000},
            ".goto",
            "is longer than 20,000 characters: say it more briefly",
        ),
        ({"click": ""}, ".click", "must not be empty"),
        ({"click": None}, ".click", "has no value: write one, or remove the key"),
        (
            {"click": ["a"]},
            ".click",
            "must be text or a mapping such as {role: button, name: Approve}, not a list",
        ),
        ({"click": "x" * 501}, ".click", "is longer than 500 characters: say it more briefly"),
        ({"click": {}}, ".click", f"names no element: {NAMES_NOTHING}"),
        ({"click": {"near": "x"}}, ".click", f"`near` only chooses among several: {NAMES_NOTHING}"),
        (
            {"click": {"inside": "x", "nth": 2, "double": True}},
            ".click",
            f"`inside` and `nth` only choose among several: {NAMES_NOTHING}",
        ),
        (
            {"click": {"text": "x", "nth": 0}},
            ".click.nth",
            "counts from 1, and from -1 backwards: 0 is none of them",
        ),
        (
            {"click": {"text": "x", "nth": "2"}},
            ".click.nth",
            'must be a whole number, not the text "2": remove the quotes',
        ),
        ({"click": {"role": "buton"}}, ".click.role", "`buton` is no role of ARIA: did you mean `button`?"),
        ({"click": {"role": "a"}}, ".click.role", "`a` is no role of ARIA: did you mean `link`?"),
        ({"click": {"role": "Button"}}, ".click.role", "`Button` is no role of ARIA: did you mean `button`?"),
        (
            {"click": {"role": "frobnicator"}},
            ".click.role",
            "`frobnicator` is no role of ARIA: such are `button`, `link`, `textbox`, `row`",
        ),
        (
            {"click": {"css": "//div"}},
            ".click.css",
            "is XPath: write CSS, or name the element by `role`, `name`, `text` or `label`",
        ),
        ({"click": {"css": "text=Go"}}, ".click.css", "is no CSS: write `text: …` instead"),
        ({"click": {"text": "x", "rol": "a"}}, ".click.rol", "unknown key: did you mean `role`?"),
        ({"click": {"text": "x", "id": "a"}}, ".click.id", 'unknown key: write `css: "#…"`'),
        ({"click": {"text": "x", "selector": "a"}}, ".click.selector", "unknown key: write `css: …`"),
        (
            {"click": {"text": "x", "dialog": "accept"}},
            ".click.dialog",
            "stands beside the verb, not in it: move it out one level",
        ),
        (
            {"click": {"text": "x", "press": "Enter"}},
            ".click.press",
            "unknown key: one step does one thing, make another step of it",
        ),
        ({"hover": {"text": "x", "zzz": "a"}}, ".hover.zzz", KEYS_OF_TARGETS),
        (
            {"click": {"text": "x", "button": "rihgt"}},
            ".click.button",
            "must be `left`, `right` or `middle`: did you mean `right`?",
        ),
        (
            {"click": {"text": "x", "double": "yes"}},
            ".click.double",
            'must be `true` or `false`, not the text "yes"',
        ),
        (
            {"click": {"recorded": "x"}},
            ".click.recorded",
            'must be a mapping such as {tag: button, name: Approve}, not the text "x"',
        ),
        (
            {"click": {"recorded": {}}},
            ".click.recorded.tag",
            'is missing: add it, for example `tag: "button"`',
        ),
        (
            {"click": {"recorded": {"tag": "a", "clases": []}}},
            ".click.recorded.clases",
            "unknown key: did you mean `classes`?",
        ),
        (
            {"click": {"recorded": {"tag": "a", "name": "x" * (TEXT_MAX + 1)}}},
            ".click.recorded.name",
            "is longer than 500 characters: say it more briefly",
        ),
        (
            {"click": {"recorded": {"tag": "a", "box": {"x": 1, "y": 1, "width": -1, "height": 1}}}},
            ".click.recorded.box.width",
            "must be at least 0",
        ),
        (
            {"click": {"recorded": {"tag": "a", "ancestors": ["x"] * 9}}},
            ".click.recorded.ancestors",
            "has more than 8 entries: split it up",
        ),
        ({"fill": "x"}, ".fill", 'must be a mapping such as {label: Amount, value: …}, not the text "x"'),
        ({"fill": {"label": "x"}}, ".fill.value", 'is missing: add it, for example `value: "12.50"`'),
        ({"fill": {"value": "x"}}, ".fill", f"names no element: {NAMES_NOTHING}"),
        (
            {"fill": {"label": "x", "value": None}},
            ".fill.value",
            "has no value: write one, or remove the key",
        ),
        ({"press": "Entr"}, ".press", "`Entr` is no key: did you mean `Enter`?"),
        ({"press": "return"}, ".press", "`return` is no key: did you mean `Enter`?"),
        ({"press": "Ctrl+A"}, ".press", "`Ctrl` is no key to be held: did you mean `Control`?"),
        (
            {"press": "hello world"},
            ".press",
            "`hello world` is no key: write one character, or a name such as Enter, Tab or ArrowDown; type text "
            "with `fill`",
        ),
        ({"press": ""}, ".press", "must not be empty"),
        ({"press": {"label": "x"}}, ".press.key", 'is missing: add it, for example `key: "Enter"`'),
        (
            {"press": {"near": "x", "key": "a"}},
            ".press",
            f"`near` only chooses among several: {NAMES_NOTHING}",
        ),
        (
            {"select": {"label": "x"}},
            ".select",
            "select one `option`, or a list of `options`: keep exactly one of the two",
        ),
        (
            {"select": {"label": "x", "option": "a", "options": ["b"]}},
            ".select",
            "select one `option`, or a list of `options`: keep exactly one of the two",
        ),
        (
            {"select": {"label": "x", "options": []}},
            ".select.options",
            "must not be empty: write at least one",
        ),
        (
            {"upload": {"label": "x"}},
            ".upload",
            "upload one `file`, or a list of `files`: keep exactly one of the two",
        ),
        (
            {"wait": "5 minutes"},
            ".wait",
            "must be a duration such as 500ms, 90s, 15m, 1h30m or 2d, the largest unit first; for words on the "
            "page write {text: …}",
        ),
        (
            {"wait": "90"},
            ".wait",
            "has no unit: write 90s for seconds or 90m for minutes; for words on the page write {text: …}",
        ),
        ({"wait": 0}, ".wait", "must be more than nothing (at least 1ms) and at most 30 days"),
        ({"wait": {"hidden": True}}, ".wait", f"names no element: {NAMES_NOTHING}"),
        ({"read": {"css": "x"}}, ".read.into", 'is missing: add it, for example `into: "total"`'),
        (
            {"read": {"css": "x", "into": "a b"}},
            ".read.into",
            "must be a name of at most 100 letters, digits, `_` or `-`, beginning with a letter or `_`",
        ),
        (
            {"read": {"css": "x", "into": "a", "table": True, "attribute": "href"}},
            ".read",
            "a table is read whole: keep `table` or `attribute`",
        ),
        ({"screenshot": "a/b"}, ".screenshot", PICTURE),
        ({"screenshot": "../${{ inputs.a }}"}, ".screenshot", PICTURE),
        (
            {"screenshot": {"role": "row"}},
            ".screenshot.as",
            'is missing: add it, for example `as: "invoices"`',
        ),
        ({"download": {"text": "x", "into": "/etc/passwd"}}, ".download.into", INSIDE),
        ({"download": {"text": "x", "into": "a/../../b"}}, ".download.into", INSIDE),
        ({"download": {"text": "x", "into": "out/"}}, ".download.into", INSIDE),
        (
            {"download": "x"},
            ".download",
            'must be a mapping such as {text: Report, into: report.pdf}, not the text "x"',
        ),
        ({"tab": 0}, ".tab", "counts from 1: say which tab, or `last`"),
        ({"tab": -1}, ".tab", "counts from 1: say which tab, or `last`"),
        ({"click": "x", "dialog": "yes"}, ".dialog", "must be `accept` or `dismiss`"),
        (
            {"click": "x", "dialog": {"accept": False, "text": "a"}},
            ".dialog",
            "a dialog that is dismissed is told nothing: remove `text`, or say `accept: true`",
        ),
        ({"click": "x", "dialog": {"acept": True}}, ".dialog.acept", "unknown key: did you mean `accept`?"),
    ],
    ids=lambda value: str(value)[:70],
)
def test_each_problem_of_an_action_is_told_in_plain_words(browser: Any, where: str, message: str) -> None:
    assert problems_of(GOTO, {"browser": browser}) == [(f"steps[1].browser{where}", message)]
    handler = {"run": "x", "rescue": [{"browser": browser}]}
    if "read" not in (browser or ()):
        assert problems_of(GOTO, handler) == [(f"steps[1].rescue[0].browser{where}", message)]


@pytest.mark.parametrize(
    ("check", "where", "message"),
    [
        ({"url": ""}, ".url", "must not be empty"),
        ({"url": {"regex": "x"}}, ".url", "must be text, not a mapping"),
        (
            {"text": {"regex": "(?=a)"}},
            ".text.regex",
            "is not a regular expression that can be used: invalid perl "
            "operator: (?= (lookaround and backreferences do not exist in RE2: say it without)",
        ),
        ({"text": "x", "absent": 1}, ".absent", "must be `true` or `false`, not a number"),
        ({"text": "x", "url": "y"}, "", "holds 2 checks (`url`, `text`): make each an item of the list"),
        ({"txt": "x"}, "", "unknown check `txt`: did you mean `text`?"),
        ({"visible": {"nth": 1}}, ".visible", f"`nth` only chooses among several: {NAMES_NOTHING}"),
        ({"visible": {"text": "x", "is": 3}}, ".visible.is", KEYS_OF_TARGETS),
        ({"count": 3}, ".count", "must be a mapping such as {role: row, is: 3}, not a number"),
        ({"count": {"role": "row"}}, ".count.is", "is missing: add it, for example `is: 3`"),
        ({"count": {"role": "row", "is": -1}}, ".count.is", "must be at least 0"),
        ({"value": "x"}, ".value", 'must be a mapping such as {label: Amount, is: …}, not the text "x"'),
        (
            {"value": {"label": "x"}},
            ".value",
            "say what it must hold: exactly one of `is`, `matches` and `checked`",
        ),
        (
            {"value": {"label": "x", "is": "a", "checked": True}},
            ".value",
            "say what it must hold: exactly one of `is`, `matches` and `checked`",
        ),
        (
            {"response": {"status": 200}},
            ".response.url",
            'is missing: add it, for example `url: "**/api/approve"`',
        ),
        ({"response": {"url": "x", "status": 99}}, ".response.status", "must be at least 100"),
        ({"unchanged": {"tolerance": 2}}, ".unchanged.tolerance", "must be at most 1"),
        ({"unchanged": {"near": "x"}}, ".unchanged", f"`near` only chooses among several: {NAMES_NOTHING}"),
        ({"unchanged": True, "tolerance": 1}, ".tolerance", "unknown key: the keys here are `unchanged`"),
    ],
    ids=lambda value: str(value)[:70],
)
def test_each_problem_of_a_page_check_is_told_in_plain_words(check: Data, where: str, message: str) -> None:
    assert problems_of({**GOTO, "expect": [check]}) == [(f"steps[0].expect[0]{where}", message)]


@pytest.mark.parametrize(
    ("heal", "where", "message"),
    [
        ("on", "", "must be `off`, `report` or `apply`"),
        ("aply", "", "must be `off`, `report` or `apply`: did you mean `apply`?"),
        (True, "", "must be `off`, `report` or `apply`"),
        ({"mode": "x"}, ".mode", "must be `off`, `report` or `apply`"),
        ({"max_level": 3}, ".max_level", "must be at most 2"),
        ({"learn": True}, ".learn", "must be `on_verified` or `never`"),
        ({"level": 2}, ".level", "unknown key: did you mean `max_level`?"),
        (None, "", "has no value: write one, or remove the key"),
    ],
    ids=str,
)
def test_each_problem_of_healing_is_told_in_plain_words(heal: Any, where: str, message: str) -> None:
    assert problems_of(GOTO, {"browser": {"click": "x"}, "heal": heal}) == [
        (f"steps[1].heal{where}", message)
    ]
    assert problems_of(GOTO, heal=heal) == [(f"heal{where}", message)]


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (GOTO, "`goto` names no target here, and only targets heal: remove `heal`"),
        (
            {"browser": {"press": "Enter"}},
            "`press` names no target here, and only targets heal: remove `heal`",
        ),
        (
            {"browser": {"press": {"key": "Enter"}}},
            "`press` names no target here, and only targets heal: remove `heal`",
        ),
        ({"browser": {"wait": "2s"}}, "`wait` names no target here, and only targets heal: remove `heal`"),
        ({"browser": {"tab": "new"}}, "`tab` names no target here, and only targets heal: remove `heal`"),
        (
            {"browser": {"screenshot": "x"}},
            "`screenshot` names no target here, and only targets heal: remove `heal`",
        ),
        (
            {"browser": {"wait": {"text": "x", "hidden": True}}},
            "what is waited for to go cannot be looked for elsewhere: remove `heal`",
        ),
        ({"run": "x"}, "is for `browser` only, where a target may have changed: remove it"),
        ({"approve": "x"}, "makes no sense where a person is asked: remove it"),
    ],
    ids=str,
)
def test_only_targets_heal(step: Data, message: str) -> None:
    assert problems_of(GOTO, {**step, "heal": "apply"}) == [("steps[1].heal", message)]


@pytest.mark.parametrize(
    "written", [written for written, action in ACTIONS if action.target and not action.hidden]
)
def test_whatever_has_a_target_may_heal(written: Data) -> None:
    assert step_of({"browser": written, "heal": "apply"}).heal == Heal(HealMode.APPLY)


@pytest.mark.parametrize("verb", list(BrowserVerb))
def test_a_verb_without_browser_is_put_where_it_belongs(verb: BrowserVerb) -> None:
    words = f"stands under `browser`: write `browser: {{{verb.value}: …}}`"
    assert problems_of(GOTO, {verb.value: "x"}) == [(f"steps[1].{verb.value}", words)]
    handler = {"run": "x", "rescue": [{verb.value: "x"}]}
    assert problems_of(GOTO, handler) == [(f"steps[1].rescue[0].{verb.value}", words)]


NO_PAGE = "no page is open yet: put a step `browser: {goto: https://…}` before this one"
NO_BROWSER = "looks at a page, and no browser step comes before: add one, or name another check"
PRINTS_NOTHING = (
    "a browser step has no exit code and prints nothing: check the page, by `text` or `url` for example"
)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([{"browser": {"click": "x"}}, {"browser": {"click": "y"}}], [("steps[0].browser.click", NO_PAGE)]),
        ([{"browser": {"wait": "1s"}}, {"browser": {"click": "y"}}], [("steps[1].browser.click", NO_PAGE)]),
        (
            [{"run": "x", "rescue": [{"browser": {"click": "x"}}]}, GOTO],
            [("steps[0].rescue[0].browser.click", NO_PAGE)],
        ),
        ([{"run": "x", "expect": [{"text": "a"}]}, GOTO], [("steps[0].expect[0].text", NO_BROWSER)]),
        (
            [{"run": "x", "always": [{"run": "y", "expect": [{"unchanged": "page"}]}]}, GOTO],
            [("steps[0].always[0].expect[0].unchanged", NO_BROWSER)],
        ),
        ([{**GOTO, "expect": [{"exit": 0}]}], [("steps[0].expect[0].exit", PRINTS_NOTHING)]),
        ([{**GOTO, "expect": [{"stdout": "x"}]}], [("steps[0].expect[0].stdout", PRINTS_NOTHING)]),
        (
            [{**GOTO, "outputs": {"a": {"regex": "x"}}}],
            [
                (
                    "steps[0].outputs.a",
                    "a browser step prints nothing: name a `file`, or use `read` with `into`",
                )
            ],
        ),
        (
            [GOTO, {"run": "x", "always": [{"browser": {"read": {"css": "x", "into": "a"}}}]}],
            [
                (
                    "steps[1].always[0].browser.read",
                    "a handler has no outputs to read into: read in a step",
                )
            ],
        ),
        (
            [GOTO, {"browser": {"click": "x"}, "rebuild": "rerun"}],
            [
                (
                    "steps[1].rebuild",
                    "a step with `repeat: never` cannot be run again after a restore: remove `rebuild`, "
                    "or say `repeat: safe`",
                )
            ],
        ),
    ],
    ids=str,
)
def test_a_page_is_there_before_it_is_used(steps: list[Data], expected: Problems) -> None:
    assert problems_of(*steps) == expected


def test_a_page_may_be_opened_and_looked_at_in_handlers() -> None:
    opened = {"run": "x", "rescue": [GOTO, {"browser": {"click": "x"}, "expect": [{"text": "y"}]}]}
    assert len(plan_of(opened, {"run": "x", "expect": [{"text": "y"}]}).steps[0].rescue) == 2


def test_files_may_be_checked_after_a_browser_step() -> None:
    step = {
        "browser": {"download": {"text": "x", "into": "a.json"}},
        "expect": [{"file": "a.json"}, {"json": "a.json", "path": "b"}, {"run": "test -s a.json"}],
        "outputs": {"b": {"json": "a.json", "path": "b"}, "c": {"regex": "x", "file": "a.json"}},
        "rebuild": "rerun",
        "repeat": "safe",
    }
    assert len(step_of(step).expect) == 3


# References

FILLED_IN = [
    ({"goto": "https://a.example/REFERENCE"}, "goto"),
    ({"click": "REFERENCE"}, "click"),
    *(
        ({"click": {"css": "x", key: "REFERENCE"}}, f"click.{key}")
        for key in ("role", "name", "near", "frame")
    ),
    ({"fill": {"label": "x", "value": "REFERENCE"}}, "fill.value"),
    ({"press": {"key": "REFERENCE"}}, "press.key"),
    ({"select": {"label": "x", "option": "REFERENCE"}}, "select.option"),
    ({"select": {"label": "x", "options": ["a", "REFERENCE"]}}, "select.options[1]"),
    ({"upload": {"label": "x", "file": "REFERENCE"}}, "upload.file"),
    ({"wait": "REFERENCE"}, "wait"),
    ({"screenshot": {"as": "REFERENCE"}}, "screenshot.as"),
    ({"tab": "REFERENCE"}, "tab"),
]


def referring(browser: Data, name: str) -> Data:
    filled: Data = json.loads(json.dumps(browser).replace("REFERENCE", f"${{{{ {name} }}}}"))
    return filled


@pytest.mark.parametrize(("browser", "where"), FILLED_IN, ids=str)
def test_references_are_filled_in_where_the_engine_does(browser: Data, where: str) -> None:
    for name in ("inputs.a", "steps.step-1.outputs.x", "run.id"):
        assert "${{" in str(browser_data(action_of(referring(browser, name))))
    unknown = problems_of(GOTO, {"browser": referring(browser, "inputs.zzz")})
    assert unknown == [
        (f"steps[1].browser.{where}", "`inputs.zzz` is not an input of this plan: add it under `inputs`")
    ]


@pytest.mark.parametrize(("browser", "where"), FILLED_IN, ids=str)
def test_a_secret_may_be_typed_and_nothing_else(browser: Data, where: str) -> None:
    step = {"browser": referring(browser, "inputs.pin")}
    if where == "fill.value":
        assert action_of(step["browser"]).value == "${{ inputs.pin }}"
        return
    words = "`inputs.pin` is a secret and must not stand here, where others can read it: only what `fill` types may be one"
    assert problems_of(GOTO, step) == [(f"steps[1].browser.{where}", words)]
    handler = {"run": "x", "always": [step]}
    assert problems_of(GOTO, handler) == [(f"steps[1].always[0].browser.{where}", words)]


@pytest.mark.parametrize(
    ("step", "where"),
    [
        ({"browser": {"click": "x", "dialog": {"text": "REFERENCE"}}}, "browser.dialog.text"),
        ({"browser": {"download": {"text": "x", "into": "REFERENCE"}}}, "browser.download.into"),
        (
            {"browser": {"read": {"css": "x", "into": "a", "attribute": "REFERENCE"}}},
            "browser.read.attribute",
        ),
    ],
    ids=str,
)
def test_references_that_would_stay_as_they_stand_are_refused(step: Data, where: str) -> None:
    [(place, message)] = problems_of(GOTO, referring(step, "inputs.a"))
    assert place == f"steps[1].{where}"
    assert message.startswith("`${{ … }}` is not filled in here")


def test_all_problems_are_told_at_once_with_their_lines() -> None:
    text = """\
version: 1
name: x
heal: maybe
steps:
  - browser: {click: {rol: button}}
    heal: {level: 1}
    expect:
      - {count: {role: rwo, is: many}}
      - {stdout: x}
  - browser:
      fill:
        near: ${{ inputs.none }}
      dialog: perhaps
"""
    with pytest.raises(InvalidPlan) as invalid:
        parse_plan(text, "plan.yaml")
    assert [(p.line, p.where, p.message) for p in invalid.value.problems] == [
        (3, "heal", "must be `off`, `report` or `apply`"),
        (5, "steps[0].browser.click.rol", "unknown key: did you mean `role`?"),
        (5, "steps[0].browser.click", NO_PAGE),
        (6, "steps[0].heal.level", "unknown key: did you mean `max_level`?"),
        (8, "steps[0].expect[0].count.role", "`rwo` is no role of ARIA: did you mean `row`?"),
        (8, "steps[0].expect[0].count.is", 'must be a whole number, not the text "many"'),
        (9, "steps[0].expect[1].stdout", PRINTS_NOTHING),
        (11, "steps[1].browser.fill.value", 'is missing: add it, for example `value: "12.50"`'),
        (
            12,
            "steps[1].browser.fill.near",
            "`inputs.none` is not an input of this plan: add it under `inputs`",
        ),
        (13, "steps[1].browser.dialog", "must be `accept` or `dismiss`"),
    ]


@given(
    st.lists(st.sampled_from(sorted(HELD)), max_size=3), st.sampled_from([*sorted(NAMES), "a", "é", "+", " "])
)
def test_any_keys_held_with_any_key_are_a_key(held: list[str], last: str) -> None:
    assert wrong_key("+".join([*held, last])) is None


@given(st.text(max_size=30))
def test_whatever_is_no_key_is_told_so_in_words(written: str) -> None:
    wrong = wrong_key(written)
    assert wrong is None or "is no key" in wrong
