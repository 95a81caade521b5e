"""What other packages bring: named, loaded when it is used, and never in the way of others."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from recoup import plugins as found
from recoup.documents.plan_file import plan_from_data
from recoup.errors import InvalidPlan
from recoup.model.plan import CustomAction, Plan
from recoup.steps import registry

SQL = """
from pydantic import Field
from recoup.steps.custom import CustomStep
from recoup.steps.custom_keys import CustomKeys

class Sql(CustomStep):
    key = "sql"
    keys = f"{__name__}:Keys"

class Keys(CustomKeys):
    phrase = "asks a database"
    sql: str = Field(description="A query.", examples=["select 1"])
    def arguments(self): return {"query": self.sql}

STEP = Sql()
"""
Install = Callable[..., None]


def forget() -> None:
    importlib.invalidate_caches()
    found.plugins.cache_clear()
    registry.kind_named.cache_clear()
    registry.trouble_with.cache_clear()
    registry._load.cache_clear()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    monkeypatch.syspath_prepend(tmp_path)
    names: list[str] = []

    def add(name: str, code: str = SQL, points: str | None = None) -> None:
        """As pip leaves a package behind."""
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(points or f"[recoup.steps]\nsql = {name}:STEP\n")
        (tmp_path / f"{name}.py").write_text(code)
        names.append(name)
        forget()

    yield add
    for name in names:
        sys.modules.pop(name, None)
    monkeypatch.undo()
    forget()


def plan_of(**step: object) -> Plan:
    return plan_from_data({"version": 1, "name": "w", "steps": [{"id": "a", **step}]})


def problems(**step: object) -> list[str]:
    with pytest.raises(InvalidPlan) as refused:
        plan_of(**step)
    return [problem.message for problem in refused.value.problems]


def test_a_plan_gets_the_action_of_its_kind_with_the_package_that_brings_it(install: Install) -> None:
    install("first")
    plan = plan_of(sql="select 1", rescue=[{"sql": "select 2"}])
    assert plan.steps[0].action == CustomAction("sql", {"query": "select 1"}, "first")
    assert plan.steps[0].rescue[0].action == CustomAction("sql", {"query": "select 2"}, "first")
    assert registry.needs_of(plan) == registry.offered_kinds() == {"sql"}
    assert "add `run`, `python`, `agent`, `browser`, `approve` or `sql`" in problems(title="x")[0]


def test_a_plan_that_does_not_use_it_loads_nothing(install: Install) -> None:
    install("second")
    plan_of(run="true", rescue=[{"run": "false"}])
    assert "second" not in sys.modules


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import not_there", "cannot be loaded: ModuleNotFoundError: No module named 'not_there'"),
        ("raise SyntaxError('torn')", "cannot be loaded: SyntaxError: torn"),
        ("STEP = 5", "cannot be loaded: third:STEP is no CustomStep"),
        (SQL.replace('key = "sql"', 'key = "ask"'), "brings `sql`, which calls itself `ask`"),
        (SQL.replace(":Keys", ":Absent"), "cannot be loaded: AttributeError"),
        (SQL.replace("    sql: str", "    ask: str"), "third:Keys has no key `sql`"),
        (
            SQL.replace("    def arg", "    env: str = ''\n    def arg"),
            "third:Keys has `env`, a key of every step",
        ),
    ],
)
def test_what_cannot_be_used_is_told_to_plans_that_name_it(install: Install, code: str, words: str) -> None:
    install("third", code)
    (told,) = problems(sql="select 1")
    assert told.startswith("the plugin third")
    assert words in told
    assert registry.offered_kinds() == frozenset()
    assert problems(runn="true")[-1] == "unknown key: did you mean `run`?"


def test_of_two_packages_with_one_key_none_is_used(install: Install) -> None:
    install("fourth")
    install("fifth")
    assert problems(sql="x") == ["fifth and fourth both bring `sql`: uninstall one of them"]


def test_our_own_kinds_stay_ours(install: Install) -> None:
    install("sixth", points="[recoup.steps]\nrun = sixth:STEP\n")
    assert not isinstance(plan_of(run="true").steps[0].action, CustomAction)
    assert registry.custom_keys() == ()


def test_a_key_is_a_plain_word(install: Install) -> None:
    install("seventh", points="[recoup.steps]\nmy-sql = seventh:STEP\n")
    assert problems(**{"my-sql": "x"}) == [
        "the plugin seventh brings 'my-sql', which cannot be a key of a step"
    ]


def test_without_any_package_the_reader_says_what_may_be_missing() -> None:
    assert problems(teleport="home")[0].endswith(
        "; if a plugin brings `teleport`, install it first: recoup doctor lists those that are here"
    )
    assert "plugin" not in problems(title="x")[0]
    assert "plugin" not in problems(runn="x")[0]
