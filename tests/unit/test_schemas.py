"""The JSON Schemas say what the readers read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoup.checks.registry import kind_of_key, own_keys
from recoup.documents.plan_file import plan_from_data
from recoup.documents.schemas import DIALECT, plan_schema, policy_schema
from recoup.errors import InvalidPlan, Problem
from recoup.model.policy import POLICY_KEYS, Policy
from recoup.shapes.page_keys import VERBS

PAGE_CHECK_KEYS = tuple(key for key in own_keys() if kind_of_key(key).looks_at_page)
BROWSER_ACTIONS: list[dict[str, Any]] = [
    {"click": "Approve", "dialog": {"accept": True, "text": "yes"}},
    {"fill": {"label": "Amount", "value": 12}},
    {"press": "Enter"},
    {"press": {"key": "Control+A"}},
    {"select": {"css": "#country", "options": ["Germany", 2]}},
    {"check": {"test_id": "agree"}},
    {"uncheck": {"name": "news", "nth": -1, "frame": "pay", "inside": "x"}},
    {"upload": {"placeholder": "x", "file": "a.pdf"}},
    {"hover": "Menu"},
    {"wait": "2s"},
    {"wait": 2},
    {"wait": {"text": "2s", "hidden": True}},
    {"read": {"role": "table", "into": "rows", "table": True}},
    {"screenshot": "page"},
    {"screenshot": {"role": "table", "as": "rows"}},
    {"download": {"text": "Report", "into": "out/report.pdf"}},
    {"tab": 2},
    {"click": {"recorded": {"tag": "button", "box": {"x": 1, "y": 2.5, "width": 3, "height": 4}}}},
]
PLAN = {
    "version": 1,
    "name": "invoice-sync",
    "objective": "Every invoice of the month is approved",
    "inputs": {
        "customer": {"required": True},
        "month": {"default": "2026-11"},
        "pin": {"secret": True},
        "n": 5,
    },
    "workspace": {"git": ".", "ref": "main"},
    "defaults": {"timeout": "15m", "idle_timeout": 300, "max_attempts": 3, "no_progress_limit": 2},
    "secrets": ["API_TOKEN"],
    "steps": [
        {
            "id": "fetch",
            "title": "Get the invoices",
            "run": "./fetch.sh ${{ inputs.customer }}",
            "expect": [
                {"file": "out/invoices.json"},
                {"stdout": "fetched"},
                {"exit": [0, 3]},
                {"diff": "empty"},
            ],
            "outputs": {"count": {"json": "out/invoices.json", "path": "count"}, "note": {"secret": True}},
            "env": {"PORT": 8080},
        },
        {
            "id": "deps",
            "run": ["npm", "ci"],
            "rebuild": "rerun",
            "expect": [{"json": "a", "path": "b", "equals": None}],
            "rescue": [{"run": "npm install", "title": "x", "env": {"A": 1}, "expect": [{"exit": 0}]}],
            "on_empty": [{"python": "m:f", "with": {"a": [None]}, "timeout": "5m"}],
            "always": [{"agent": {"cli": "codex", "prompt": "x"}}],
        },
        {
            "id": "total",
            "python": "invoices.totals:compute",
            "with": {"count": None, "list": [1, {"a": "b"}]},
        },
        {
            "id": "fix",
            "agent": {"cli": "claude", "prompt": "x", "args": ["--turns", 5], "resume": "session"},
            "timeout": "1h",
        },
        {"id": "sign-off", "approve": {"message": "Release to the bank?"}, "when": "${{ inputs.n }}"},
        {"approve": "Release to the bank?", "title": "The bank"},
        {
            "browser": {"goto": "https://shop.example/${{ inputs.n }}", "dialog": "accept"},
            "expect": [{"url": "**/done"}, {"title": "Shop"}, {"text": {"regex": "a+"}, "absent": True}],
        },
        {
            "browser": {"click": {"role": "button", "name": "Approve", "near": "INV-1001", "double": True}},
            "heal": {"mode": "apply", "max_level": 2, "learn": "on_verified"},
            "expect": [
                {"visible": "Approved"},
                {"hidden": {"role": "alert"}},
                {"count": {"role": "row", "is": 3}},
                {"value": {"label": "Amount", "is": ""}},
                {"response": {"url": "**/api", "status": [200, 201]}},
                {"unchanged": {"tolerance": 0.5}},
            ],
        },
        *({"browser": action} for action in BROWSER_ACTIONS),
    ],
}
TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
}


def fits(value: Any, schema: Mapping[str, Any], root: Mapping[str, Any]) -> bool:
    """As much of JSON Schema as our schemas use; an unknown word fails."""
    return all(_RULES[word](value, want, schema, root) for word, want in schema.items())


def is_type(value: Any, names: str | list[str]) -> bool:
    names = [names] if isinstance(names, str) else names
    return any(isinstance(value, TYPES[n]) and (n == "boolean" or not isinstance(value, bool)) for n in names)


def known(key: str, schema: Mapping[str, Any]) -> bool:
    named = key in schema.get("properties", {})
    return named or any(re.search(pattern, key) for pattern in schema.get("patternProperties", {}))


def ignored(*_: Any) -> bool:
    return True


_RULES: dict[str, Any] = {
    **dict.fromkeys(("$schema", "$defs", "title", "description", "examples", "default"), ignored),
    "$ref": lambda v, w, s, r: fits(v, r["$defs"][w.removeprefix("#/$defs/")], r),
    "type": lambda v, w, s, r: is_type(v, w),
    "const": lambda v, w, s, r: v == w and type(v) is type(w),
    "enum": lambda v, w, s, r: v in w,
    "pattern": lambda v, w, s, r: not isinstance(v, str) or re.search(w, v) is not None,
    "minLength": lambda v, w, s, r: not isinstance(v, str) or len(v) >= w,
    "minimum": lambda v, w, s, r: not isinstance(v, int | float) or v >= w,
    "maximum": lambda v, w, s, r: not isinstance(v, int | float) or v <= w,
    "exclusiveMinimum": lambda v, w, s, r: not isinstance(v, int | float) or v > w,
    "minItems": lambda v, w, s, r: not isinstance(v, list) or len(v) >= w,
    "maxItems": lambda v, w, s, r: not isinstance(v, list) or len(v) <= w,
    "maxProperties": lambda v, w, s, r: not isinstance(v, dict) or len(v) <= w,
    "items": lambda v, w, s, r: not isinstance(v, list) or all(fits(item, w, r) for item in v),
    "required": lambda v, w, s, r: not isinstance(v, dict) or set(w) <= set(v),
    "properties": lambda v, w, s, r: (
        not isinstance(v, dict) or all(fits(v[key], part, r) for key, part in w.items() if key in v)
    ),
    "patternProperties": lambda v, w, s, r: (
        not isinstance(v, dict)
        or all(fits(v[k], part, r) for p, part in w.items() for k in v if re.search(p, k))
    ),
    "additionalProperties": lambda v, w, s, r: (
        not isinstance(v, dict) or w or all(known(key, s) for key in v)
    ),
    "anyOf": lambda v, w, s, r: any(fits(v, part, r) for part in w),
    "oneOf": lambda v, w, s, r: sum(fits(v, part, r) for part in w) == 1,
}


def test_the_plan_of_the_documentation_fits_its_schema() -> None:
    schema = plan_schema()
    assert schema["$schema"] == DIALECT
    assert fits(PLAN, schema, schema)
    assert fits({**PLAN, "$schema": "plan.schema.json"}, schema, schema)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"nmae": "x"},
        {"steps": []},
        {"steps": [{"run": "x", "tiemout": 5}]},
        {"steps": [{"title": "x"}]},
        {"steps": [{"run": "x", "max_attempts": "3"}]},
        {"steps": [{"run": "x", "timeout": "fast"}]},
        {"steps": [{"run": "x", "timeout": None}]},
        {"steps": [{"run": []}]},
        {"steps": [{"run": "x", "expect": [{"fiel": "x"}]}]},
        {"steps": [{"run": "x", "expect": [{"file": "x", "run": "y"}]}]},
        {"steps": [{"run": "x", "outputs": {"a b": {}}}]},
        {"steps": [{"run": "x", "env": {"A-B": "x"}}]},
        {"steps": [{"run": "x", "repeat": "maybe"}]},
        {"steps": [{"run": "x", "python": "m:f"}]},
        {"steps": [{"run": "x", "with": {"a": 1}}]},
        {"steps": [{"python": "compute"}]},
        {"steps": [{"python": "m:f", "with": {"a-b": 1}}]},
        {"steps": [{"agent": "claude"}]},
        {"steps": [{"agent": {"cli": "claude"}}]},
        {"steps": [{"agent": {"cli": "claude", "prompt": "x", "resume": "yes"}}]},
        {"steps": [{"approve": {}}]},
        {"steps": [{"approve": "x", "timeout": "5m"}]},
        {"steps": [{"approve": "x", "always": [{"run": "x"}]}]},
        {"steps": [{"browser": {"goto": "https://a.example", "click": "x"}}]},
        {"steps": [{"browser": "https://a.example"}]},
        {"steps": [{"browser": {"press": "Enter", "key": "x"}}]},
        {"steps": [{"browser": {"fill": {"label": "x"}}}]},
        {"steps": [{"browser": {"goto": "https://a.example"}, "heal": "never"}]},
        {"steps": [{"run": "x", "heal": "off"}]},
        {"steps": [{"browser": {"goto": "https://a.example"}, "expect": [{"count": {"role": "row"}}]}]},
        {"steps": [{"run": "x", "rescue": []}]},
        {"steps": [{"run": "x", "rescue": [{"run": "x"}] * 21}]},
        {"steps": [{"run": "x", "on_empty": [{"approve": "x"}]}]},
        {"steps": [{"run": "x", "always": [{"title": "x"}]}]},
        {"steps": [{"run": "x", "always": [{"run": "x", "outputs": {}}]}]},
        {"workspace": {"git": ".", "folder": "."}},
        {"secrets": ["A-B"]},
    ],
    ids=str,
)
def test_a_bad_plan_does_not(change: dict[str, Any]) -> None:
    schema = plan_schema()
    assert not fits({**PLAN, **change}, schema, schema)
    with pytest.raises(InvalidPlan):
        plan_from_data({**PLAN, **change})


SCHEMA = plan_schema()
VALUES = st.sampled_from(
    [
        *("x", "", 5, 1.5, True, None, "5m", "m:f", "safe", "${{ inputs.n }}"),
        *([], ["x", 5], {}, {"a": None}, {"A": 5}, {"secret": True}, {"message": "x"}),
        *({"cli": "x", "prompt": "y"}, {"a": {"json": "x", "path": "y"}}),
        *([{"file": "x"}], [{"exit": 3}], [{"run": "x"}], [{"python": "m:f", "with": {"a": None}}]),
    ]
)
STEP_KEYS = sorted({key for part in SCHEMA["$defs"].values() for key in part.get("properties", {})})
FRIENDLY = {
    "timeout": "5m",
    "with": {"a": None},
    "always": [{"agent": {"cli": "x", "prompt": "y"}, "timeout": 5}],
    "expect": [{"stdout": "x"}],
    "env": {"A": True},
    "when": "a == b",
    "title": 5,
    "outputs": {"a": {}},
}
STARTS = st.sampled_from(
    [
        {"run": "x"},
        {"python": "m:f"},
        {"agent": {"cli": "x", "prompt": "y"}},
        {"approve": "x"},
        {"browser": {"goto": "https://a.example"}},
        {},
    ]
)
STEPS = st.builds(
    lambda start, keys, more: {**start, **{key: FRIENDLY[key] for key in keys}, **more},
    STARTS,
    st.lists(st.sampled_from(sorted(FRIENDLY)), max_size=4),
    st.dictionaries(st.sampled_from(STEP_KEYS), VALUES, max_size=1),
)


@given(STEPS)
@settings(deadline=None, max_examples=300)
def test_what_the_reader_takes_fits_the_schema(step: dict[str, Any]) -> None:
    data = {"version": 1, "name": "x", "inputs": {"n": 5}, "workspace": {"git": "."}, "steps": [step]}
    try:
        plan_from_data(data)
    except InvalidPlan:
        return
    assert fits(data, SCHEMA, SCHEMA)


TARGET_PARTS = st.dictionaries(
    st.sampled_from(["role", "name", "text", "css", "near", "nth", "frame", "recorded", "zzz"]),
    st.sampled_from(["button", "x", "", 2, -1, 0, None, True, ["x"], {"tag": "a"}, {"tag": "a", "box": {}}]),
    max_size=3,
)
BESIDE = st.dictionaries(
    st.sampled_from(
        [
            "value",
            "key",
            "option",
            "options",
            "file",
            "files",
            "hidden",
            "into",
            "attribute",
            "table",
            "as",
            "double",
        ]
    ),
    st.sampled_from(["x", "Enter", "a/b.pdf", "", 5, True, ["x", 5], [], None]),
    max_size=2,
)
SAID: st.SearchStrategy[Any] = st.builds(
    lambda target, beside: {"text": "x", **target, **beside}, TARGET_PARTS, BESIDE
) | st.sampled_from(["https://a.example", "Enter", "x", "", "2s", "5 minutes", 2, 0, True, None, ["x"], {}])
CHANGES = st.dictionaries(
    st.sampled_from(["role", "name", "nth", "near", "value", "key", "hidden", "into", "as", "option", "zzz"]),
    st.sampled_from(["x", "button", 2, True, ["x"], None, {"tag": "a"}]),
    max_size=1,
)
BESIDE_VERB = st.dictionaries(
    st.sampled_from(["dialog", "dialog", "dialog", "click"]),
    st.sampled_from(["accept", "no", {"accept": True, "text": 5}, {"text": "x", "accept": False}, None]),
    max_size=1,
)


def changed(action: dict[str, Any], changes: dict[str, Any], beside: dict[str, Any]) -> dict[str, Any]:
    """A good action with a word or two that may spoil it."""
    verb = {key: {**said, **changes} if isinstance(said, dict) else said for key, said in action.items()}
    return {**verb, **beside}


VERB = st.builds(changed, st.sampled_from(BROWSER_ACTIONS), CHANGES, BESIDE_VERB) | st.builds(
    lambda verb, said: {verb: said}, st.sampled_from([*VERBS, "tap"]), SAID
)
PAGE_CHECK = st.builds(
    lambda key, said, beside: {key: said, **beside},
    st.sampled_from(PAGE_CHECK_KEYS),
    SAID
    | st.builds(
        lambda target, key, said: {**target, key: said},
        TARGET_PARTS,
        st.sampled_from(["is", "matches", "checked", "url", "status", "tolerance", "regex"]),
        st.sampled_from([3, "x", "[", True, 200, [200, 404], 0.5, -1, None]),
    ),
    st.dictionaries(st.sampled_from(["absent", "status", "exit"]), st.sampled_from([True, 5]), max_size=1),
)


@given(
    VERB,
    st.lists(PAGE_CHECK, max_size=2),
    st.sampled_from([None, "apply", "maybe", {"max_level": 2}, {"x": 1}]),
)
@settings(deadline=None, max_examples=200)
def test_what_the_reader_takes_of_a_browser_step_fits_the_schema(
    verb: dict[str, Any], checks: list[dict[str, Any]], heal: Any
) -> None:
    step = {"browser": verb, "expect": checks, **({} if heal is None else {"heal": heal})}
    opened = {"browser": {"goto": "https://a.example"}}
    data = {"version": 1, "name": "x", "steps": [opened, step]}
    problems = problems_in(data)
    assert all(problem.message for problem in problems)
    assert problems or fits(data, SCHEMA, SCHEMA)


def problems_in(data: dict[str, Any]) -> tuple[Problem, ...]:
    try:
        plan_from_data(data)
    except InvalidPlan as invalid:
        return tuple(invalid.problems)
    return ()


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*VERBS, *PAGE_CHECK_KEYS, "recorded", "box", "dialog", "is", "browser"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@given(ANYTHING, ANYTHING, ANYTHING, ANYTHING)
@settings(deadline=None, max_examples=100)
def test_whatever_stands_there_is_read_or_refused_in_words(
    browser: Any, expect: Any, heal: Any, more: Any
) -> None:
    step = {
        "browser": browser,
        "expect": expect,
        "heal": heal,
        "outputs": more,
        "rescue": [{"browser": more}],
    }
    steps = [step, {"run": "x", "expect": [more]}]
    problems = problems_in({"version": 1, "name": "x", "steps": steps, "heal": more})
    assert all(problem.message for problem in problems)


def test_the_plan_of_the_documentation_is_read() -> None:
    assert len(plan_from_data(PLAN).steps) == 8 + len(BROWSER_ACTIONS)


def test_the_defaults_fit_the_schema_of_policies() -> None:
    schema = policy_schema()
    assert fits({"version": 1, **json.loads(msgspec.json.encode(Policy()))}, schema, schema)
    assert fits({"exit_codes": {"75": "cooldown"}}, schema, schema)
    assert not fits({"step_max_attempts": 0}, schema, schema)
    assert not fits({"step_max_atempts": 1}, schema, schema)
    for name, key in POLICY_KEYS.items():
        part = schema["properties"][name]
        assert (part.get("minimum"), part.get("maximum")) == (key.range or (None, None))


@pytest.mark.parametrize("schema", [plan_schema(), policy_schema()], ids=["plan", "policy"])
def test_every_key_has_words_and_an_example_that_fits(schema: dict[str, Any]) -> None:
    for name, part in keys_of(schema):
        assert part["description"].endswith("."), name
        assert part["examples"], name
        assert all(fits(example, part, schema) for example in part["examples"]), name
    json.dumps(schema)


def keys_of(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for shape in [schema, *schema["$defs"].values()]:
        yield from shape.get("properties", {}).items()
