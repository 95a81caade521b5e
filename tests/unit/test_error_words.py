"""Errors say what happened, where, and what to do next."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from recoup import errors
from recoup.errors import InvalidPlan, RecoupError

SOURCE = Path(__file__).parents[2] / "src" / "recoup"
ERRORS = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, RecoupError)
}


def made_errors(path: Path) -> Iterator[tuple[Path, ast.Call, type[RecoupError]]]:
    """Wherever an error is made by its name."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ERRORS:
            yield path, node, ERRORS[node.func.id]


@cache
def all_made() -> list[tuple[Path, ast.Call, type[RecoupError]]]:
    """Asked for when a test needs it: to read the whole source is too much for who only collects tests."""
    return [made for path in sorted(SOURCE.rglob("*.py")) for made in made_errors(path)]


def says_what_to_do(call: ast.Call, kind: type[RecoupError]) -> bool:
    """By its hint, by its kind, by what must be said instead, or in the words of each of its problems."""
    words = ast.unparse(call.args[0]) if call.args else ""
    given = any(one.arg == "hint" for one in call.keywords)
    return given or bool(kind.advice) or "must " in words or issubclass(kind, InvalidPlan)


def test_every_error_says_what_to_do() -> None:
    silent = [f"{path}:{call.lineno}" for path, call, kind in all_made() if not says_what_to_do(call, kind)]
    assert not silent, f"say it with hint=: {silent}"


def test_no_hint_is_empty() -> None:
    for path, call, _ in all_made():
        for one in call.keywords:
            blank = isinstance(one.value, ast.Constant) and not one.value.value
            assert one.arg != "hint" or not blank, f"{path}:{call.lineno}"


def test_a_hint_beats_the_advice_of_its_kind() -> None:
    assert errors.LedgerBusy("x").what_to_do == errors.LedgerBusy.advice
    assert errors.LedgerBusy("x", hint="Wait.").what_to_do == "Wait."


def test_the_advice_of_a_kind_is_not_part_of_its_text() -> None:
    """Text is stored; advice is for whoever reads it at an edge."""
    assert str(errors.CheckpointBroken("the manifest is missing")) == "the manifest is missing"


def test_what_to_do_names_the_run_where_it_is_known() -> None:
    trouble = errors.MachineTrouble("the disk is full", hint="Free some space. Then: recoup resume RUN")
    assert trouble.what_to_do.endswith("recoup resume RUN")
    for error, words in ((trouble, "recoup resume r1"), (errors.LeaseLost("lost"), "recoup show r1")):
        with pytest.raises(RecoupError) as raised, errors.about_run("r1"):
            raise error
        assert raised.value.what_to_do.endswith(words)
    assert str(trouble) == "the disk is full\nFree some space. Then: recoup resume r1"


def test_the_innermost_run_is_the_one_that_is_named() -> None:
    with pytest.raises(RecoupError) as raised, errors.about_run("outer"), errors.about_run("inner"):
        raise errors.LeaseLost("lost")
    assert raised.value.what_to_do.endswith("recoup show inner")


def test_every_hint_about_resuming_can_name_the_run() -> None:
    vague = [
        f"{path}:{call.lineno}"
        for path, call, _ in all_made()
        for one in call.keywords
        if one.arg == "hint" and "resume the run" in ast.unparse(one.value).lower()
    ]
    assert not vague, f"say it as `recoup resume RUN`: {vague}"


@pytest.mark.parametrize("kind", ERRORS.values(), ids=ERRORS.keys())
def test_the_tree_in_the_docstring_is_the_tree(kind: type[RecoupError]) -> None:
    assert kind.__name__ in (errors.__doc__ or "")


def test_trouble_of_the_machine_names_the_run_to_go_on_with() -> None:
    trouble = errors.LedgerUnwritable("the disk is full", hint="Free some space.")
    assert trouble.what_to_do == "Free some space."
    trouble.run_id = "r1"
    assert trouble.what_to_do == "Free some space. Then: recoup resume r1"
