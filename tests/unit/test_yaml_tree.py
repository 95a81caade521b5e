"""YAML and JSON become plain data with lines, or one clear problem."""

from __future__ import annotations

import contextlib
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoup.documents.yaml_tree import parse_tree
from recoup.errors import Problem
from recoup.shapes.scalars import WrittenFloat, WrittenInt, plain
from recoup.shapes.tree import DEPTH_MAX, NODES_MAX, Tree, Unreadable, place_text, tree_of


def problem_of(text: str) -> Problem:
    with pytest.raises(Unreadable) as unreadable:
        parse_tree(text)
    return unreadable.value.problem


@pytest.mark.parametrize("word", ["off", "on", "yes", "no", "y", "n", "Off", "YES", "tRue", "nul"])
def test_only_true_and_false_are_booleans(word: str) -> None:
    assert parse_tree(f"a: {word}").data == {"a": word}


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("12", 12),
        ("-7", -7),
        ("0755", 755),
        ("0o17", 15),
        ("0x1F", 31),
        ("1_000", "1_000"),
        ("12:30:45", "12:30:45"),
        ("2026-11-01", "2026-11-01"),
        ("1.10", 1.1),
        (".5", 0.5),
        ("1e3", 1000.0),
        (".inf", math.inf),
        ("-.inf", -math.inf),
        ("'12'", "12"),
        ('"true"', "true"),
        ("!!str 12", "12"),
        ("1.2.3", "1.2.3"),
        ("=", "="),
    ],
)
def test_plain_scalars_follow_the_core_schema(written: str, value: Any) -> None:
    data = parse_tree(f"a: {written}").data
    assert data == {"a": value}
    assert type(plain(data["a"])) is type(value)


def test_a_number_remembers_how_it_was_written() -> None:
    data = parse_tree("[1.10, 0755]").data
    assert isinstance(data[0], WrittenFloat)
    assert isinstance(data[1], WrittenInt)
    assert [number.written for number in data] == ["1.10", "0755"]


def test_keys_are_always_text() -> None:
    assert parse_tree("{75: a, true: b, on: c, 1.0: d}").data == {
        "75": "a",
        "true": "b",
        "on": "c",
        "1.0": "d",
    }


def test_every_part_knows_its_line() -> None:
    tree = parse_tree("a: 1\nb:\n  - x\n  - c: |\n      long\n    d: {e: 5}\n")
    assert dict(tree.lines) == {
        (): 1,
        ("a",): 1,
        ("b",): 2,
        ("b", 0): 3,
        ("b", 1): 4,
        ("b", 1, "c"): 4,
        ("b", 1, "d"): 6,
        ("b", 1, "d", "e"): 6,
    }


def test_a_place_without_a_line_has_the_line_of_what_is_around_it() -> None:
    tree = parse_tree("a:\n  b: 1\n")
    assert tree.line(("a", "b", "missing", 3)) == 2
    assert tree.line(("nothing",)) == 1
    assert Tree({}).line(("a",)) is None


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (("steps", 2, "expect", 0, "file"), "steps[2].expect[0].file"),
        ((), ""),
        ((0,), "[0]"),
        (("env", "a b"), 'env["a b"]'),
        (("a.b",), '["a.b"]'),
        (("k" * 100,), '["' + "k" * 59 + '…"]'),
    ],
)
def test_places_are_written_as_people_would(place: tuple[str | int, ...], text: str) -> None:
    assert place_text(place) == text


def test_every_duplicate_key_is_named_with_both_lines() -> None:
    tree = parse_tree("a: 1\nb: {c: 1, c: 2}\na: {d: 1, d: 2}\n")
    assert tree.data == {"a": 1, "b": {"c": 1}}
    assert [(p.where, p.line) for p in tree.problems] == [("b.c", 2), ("a", 3), ("a.d", 3)]
    assert tree.problems[1].message == "this key stands here twice, first on line 1: keep one of the two"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a:\n\tb: 1\n", 2, "this line is indented with a tab: YAML wants spaces"),
        ("a: |\n\tx\n", 2, "this line is indented with a tab: YAML wants spaces"),
        ("a: 1\nb: c: d\n", 2, "a `: ` stands where no key can begin: check the indentation, or use quotes"),
        ("a: `x`\n", 1, "text cannot begin with this character: put it in quotes"),
        ("a: 1\nb: 'x\nc: 2\n", 2, "the quote that is opened on this line is never closed"),
        ("a: 1\nb\n\n", 2, "this line has no `: ` after its key, or is not indented under the one above"),
        (
            "a: [1,\n 2\nb: 3\n",
            3,
            "a comma or a closing bracket is missing, or text with special characters has no "
            "quotes (opened on line 1)",
        ),
        ("a: {x: ${{ inputs.y }}}\n", 1, "text with ${{ … }} inside [ ] or { } must stand in quotes"),
        ("a: [${{ inputs.y }}]\n", 1, "text with ${{ … }} inside [ ] or { } must stand in quotes"),
        ('a: "\\d"\n', 1, "this backslash means nothing inside double quotes: use single quotes"),
        (
            "steps:\n  - run: x\n  id: y\n",
            3,
            "this line does not begin with `- ` like the list above it, or is not indented under it",
        ),
        ("  a: 1\nb: 2\n", 2, "this line is indented less than the first one, or follows a closed bracket"),
        ("b: 1\na: {\n\n", 2, "the file ends before every bracket that was opened is closed"),
        (
            "{a: b}: c\n",
            1,
            "a key must be plain text; if this is text that begins with { or [, put it in quotes",
        ),
        ("a: 1\n---\nb: 2\n", 2, "a second document begins here: keep one document in a file"),
        (
            "a: 1\nb: !!python/object:x y\n",
            2,
            "the tag tag:yaml.org,2002:python/object:x is not allowed: remove it",
        ),
        ("a: !mine {b: 1}\n", 1, "the tag !mine is not allowed: remove it"),
        (
            "a: &x {b: 1}\nc:\n  <<: *x\n",
            3,
            "merge keys (<<) are not read: write the keys out, or say it once under `defaults`",
        ),
        (
            "a: *x\n",
            1,
            "alias *x stands for nothing that was complete before this line: put &x on an earlier value",
        ),
        (
            "a: &x [*x]\n",
            1,
            "alias *x stands for nothing that was complete before this line: put &x on an earlier value",
        ),
        ("a: 1\nb: \x07\n", 2, "the character U+0007 cannot stand in this file: remove it"),
        ('a: "\\0"\n', 1, "holds a NUL character, which no command, path or name can carry: remove it"),
    ],
)
def test_what_cannot_be_read_is_said_in_plain_words_with_its_line(text: str, line: int, words: str) -> None:
    problem = problem_of(text)
    assert (problem.line, problem.message) == (line, words)


def test_an_alias_repeats_a_value() -> None:
    tree = parse_tree("a: &x {b: [1]}\nc: *x\nd: *x\n")
    assert tree.data == {"a": {"b": [1]}, "c": {"b": [1]}, "d": {"b": [1]}}
    assert tree.line(("c", "b", 0)) == 2


def test_a_billion_laughs_end_early() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert problem_of("\n".join(lines)).message.startswith(f"more than {NODES_MAX:,} values")


@pytest.mark.parametrize("text", ["[" * 90_000, "- " * 90_000, "a: " + "{a: " * 5_000], ids=["[", "-", "{"])
def test_nesting_has_an_end(text: str) -> None:
    assert problem_of(text).message == f"nested more than {DEPTH_MAX} levels deep: make it flatter"


def test_aliases_do_not_get_around_the_limit_of_nesting() -> None:
    lines = ["- &a0 [x]", *(f"- &a{n} [*a{n - 1}]" for n in range(1, DEPTH_MAX + 1))]
    assert "levels deep" in problem_of("\n".join(lines)).message


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=10),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@given(json_values, st.sampled_from([None, 2, "\t"]))
def test_json_is_read_as_json_reads_it(value: Any, indent: int | str | None) -> None:
    text = json.dumps({"a": value}, indent=indent)
    assert plain(parse_tree(text).data) == json.loads(text)


@given(json_values)
def test_data_that_was_never_text_is_the_same(value: Any) -> None:
    assert tree_of(value).data == value


@pytest.mark.parametrize(
    "value",
    [
        {1.5: "a"},
        {"a": {None: 1}},
        [object()],
        {"a": "\ud800"},
        {"a": "\0"},
        [10**5000],
        {10**5000: 1},
        {1: "a", "1": "b"},
    ],
)
def test_data_that_no_file_can_hold_is_refused(value: Any) -> None:
    with pytest.raises(Unreadable):
        tree_of(value)


def test_data_that_holds_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(Unreadable, match="levels deep"):
        tree_of(endless)


@given(st.text(max_size=200) | st.text(alphabet="ab:-[]{}\"'|>&*!#%@ \t\n\\,?~01.", max_size=60))
def test_any_text_is_read_or_refused_with_a_problem(text: str) -> None:
    with contextlib.suppress(Unreadable):
        parse_tree(text)
