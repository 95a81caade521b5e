"""Plans made in code: what functions become, and what is refused with the same words as in a file."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import recoup
from recoup.documents.plan_file import plan_from_data
from recoup.errors import InvalidPlan, UsageError
from recoup.model.plan import (
    BrowserAction,
    BrowserVerb,
    Dialog,
    Handler,
    PythonAction,
    Repeat,
    RunAction,
    Step,
)
from recoup.model.target import Element, Heal, HealMode, Target

SHOP = """
import recoup

@recoup.step
def fetch(customer: str, month: str = "") -> dict[str, int]:
    '''Get the invoices.

    All of them.
    '''
    return {"count": len(customer)}

@recoup.step(id="sum", timeout="5m", max_attempts=2, expect=[{"file": "out.json"}], env={"LANG": "C"})
async def total(count: int) -> int:
    return count

@recoup.step(timeout=30, max_attempts=9)
def notify():
    pass

def plain():
    pass
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    (tmp_path / "shop.py").write_text(SHOP)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "shop", raising=False)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return importlib.import_module("shop")


def test_a_marked_function_is_still_a_function(shop: ModuleType) -> None:
    assert shop.fetch("acme") == {"count": 4}
    assert (shop.fetch.__name__, shop.fetch.__doc__.strip()[:17]) == ("fetch", "Get the invoices.")
    assert repr(shop.fetch) == "<step shop:fetch>"


async def test_a_marked_coroutine_function_is_still_awaited(shop: ModuleType) -> None:
    assert await shop.total(3) == 3


def test_functions_become_steps_as_in_a_plan_file(shop: ModuleType, tmp_path: Path) -> None:
    plan = recoup.Plan(
        "invoices",
        [
            shop.fetch.with_(customer="${{ inputs.customer }}"),
            shop.total.with_(count="${{ steps.fetch.outputs.count }}").but(
                rescue=[shop.notify, {"run": "true"}]
            ),
            {"id": "say", "run": "echo ${{ steps.sum.outputs.result }}"},
            Step(id="own", action=RunAction("true")),
            shop.plain,
        ],
        inputs={"customer": {"required": True}},
        objective="All is paid",
        defaults={"timeout": "1m"},
        folder=tmp_path,
    )
    fetch, total, say, own, plain = plan.model.steps
    written = plan_from_data(
        {
            "version": 1,
            "name": "invoices",
            "objective": "All is paid",
            "inputs": {"customer": {"required": True}},
            "defaults": {"timeout": "1m"},
            "steps": [
                {
                    "id": "fetch",
                    "title": "Get the invoices.",
                    "python": "shop:fetch",
                    "with": {"customer": "${{ inputs.customer }}"},
                }
            ],
        },
        folder=tmp_path,
    )
    assert fetch == written.steps[0]
    assert (plan.name, plan.model.inputs, plan.model.defaults) == (
        "invoices",
        written.inputs,
        written.defaults,
    )
    assert plan.model.folder == written.folder
    assert (total.id, total.limits.timeout_s, total.limits.max_attempts) == ("sum", 300, 2)
    assert total.rescue == (
        Handler(action=PythonAction("shop:notify"), timeout_s=30),
        Handler(action=RunAction("true")),
    )
    assert (say.id, own, plain.action) == (
        "say",
        Step(id="own", action=RunAction("true")),
        PythonAction("shop:plain"),
    )


def test_a_function_from_elsewhere_brings_its_folder_along(shop: ModuleType, tmp_path: Path) -> None:
    def path_of(**place: Any) -> str | None:
        return recoup.Plan("p", [shop.plain], **place).model.steps[0].env.get("PYTHONPATH")

    assert path_of(folder=tmp_path) is None
    assert path_of(folder=tmp_path / "elsewhere") == str(tmp_path)
    assert path_of(folder=tmp_path, workspace={"folder": str(tmp_path)}) == str(tmp_path)


def test_the_same_function_can_be_two_steps(shop: ModuleType) -> None:
    twice = [shop.notify, shop.notify.but(id="again", max_attempts=1)]
    first, second = recoup.Plan("p", twice).model.steps
    assert (first.id, second.id) == ("notify", "again")
    assert (first.limits.max_attempts, second.limits.max_attempts) == (9, 1)
    with pytest.raises(InvalidPlan, match="notify"):
        recoup.Plan("p", [shop.notify, shop.notify])


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        (lambda shop: [shop.fetch.with_(town="Ulm")], "steps[0].with: there is no argument 'town'"),
        (lambda shop: [shop.notify, shop.fetch], "steps[1].with: the argument 'customer' is missing"),
        (lambda shop: [shop.total.with_(count="${{ steps.nobody.outputs.x }}")], "nobody"),
        (lambda shop: [shop.notify.but(timeout="soon")], "steps[0].timeout: must be a duration"),
        (lambda shop: [shop.fetch.with_(customer=object())], "steps[0].with.customer"),
        (lambda shop: [{"id": "x"}], "steps[0]"),
        (lambda shop: [], "steps"),
    ],
)
def test_a_plan_that_cannot_run_is_refused_with_places(
    shop: ModuleType, steps: Callable[[Any], list[Any]], words: str
) -> None:
    with pytest.raises(InvalidPlan) as refused:
        recoup.Plan("p", steps(shop))
    assert words in str(refused.value)


def test_what_a_new_process_cannot_import_is_no_step() -> None:
    @recoup.step
    def inner() -> None: ...

    for function in (inner, recoup.step(lambda: None)):
        with pytest.raises(UsageError, match="a new process must be able to import it"):
            recoup.Plan("p", [function])
    with pytest.raises(UsageError, match="is no step"):
        recoup.Plan("p", [3])  # type: ignore[list-item]


def test_a_function_typed_in_at_a_prompt_is_refused_with_clear_words() -> None:
    code = textwrap.dedent(
        """
        import recoup
        @recoup.step
        def mine(): pass
        try:
            recoup.Plan("p", [mine])
        except recoup.RecoupError as error:
            print(error)
        """
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "mine cannot be a step" in said
    assert "Define it at the top level of a module" in said


def test_outside_a_step_there_is_no_context_and_progress_does_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in os.environ if name.startswith("RECOUP_")]:
        monkeypatch.delenv(name)
    with pytest.raises(recoup.RecoupError, match="outside a step"):
        recoup.context()
    recoup.progress("nobody is here", 1, 2)
    assert capsys.readouterr() == ("", "")


def test_a_cooldown_needs_a_time_that_passes() -> None:
    assert str(recoup.Cooldown(5)) == "told to wait 5 s"
    for seconds in (-1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="number of seconds"):
            recoup.Cooldown(seconds)


def test_importing_recoup_loads_nothing_that_is_not_used() -> None:
    code = (
        "import sys, recoup; recoup.progress('x'); recoup.Transient; recoup.step; "
        "print(sorted({'msgspec', 'pydantic', 'asyncio', 'dataclasses', 'click'} & set(sys.modules)))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == "[]\n"


def test_every_public_name_is_there_and_no_other() -> None:
    assert all(getattr(recoup, name) is not None for name in recoup.__all__)
    assert set(recoup.__all__) <= set(dir(recoup))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = recoup.nothing


def test_browser_steps_are_made_in_code_as_a_file_would_have_them(tmp_path: Path) -> None:
    approve = Target(role="button", name="Approve", recorded=Element(tag="button", name="Approve"))
    plan = recoup.Plan(
        "approve",
        [
            recoup.browser_step("goto", "https://shop.example"),
            recoup.browser_step("click", approve, id="approve", expect=[{"text": "Approved"}], heal="off"),
            recoup.browser_step(
                "press", "Enter", dialog="accept", rescue=[recoup.browser_step("tab", "last")]
            ),
            {"browser": BrowserAction(verb=BrowserVerb.CHECK, target=Target(label="Agree"))},
        ],
        heal={"mode": "apply", "max_level": 1},
        folder=tmp_path,
    )
    _, click, press, check = plan.model.steps
    assert plan.model.heal == Heal(HealMode.APPLY, 1)
    assert (click.id, click.heal, click.repeat) == ("approve", Heal(HealMode.OFF), Repeat.NEVER)
    assert click.action == BrowserAction(verb=BrowserVerb.CLICK, target=approve)
    assert press.action == BrowserAction(verb=BrowserVerb.PRESS, value="Enter", dialog=Dialog())
    assert press.rescue == (Handler(action=BrowserAction(verb=BrowserVerb.TAB, value="last")),)
    assert check.action == BrowserAction(verb=BrowserVerb.CHECK, target=Target(label="Agree"))


def test_a_finished_browser_step_opens_the_page_for_those_after_it() -> None:
    opened = Step(id="open", action=BrowserAction(verb=BrowserVerb.GOTO, value="https://shop.example"))
    plan = recoup.Plan("x", [opened, recoup.browser_step("click", "Approve", expect=[{"url": "**/done"}])])
    assert plan.model.steps[0] is opened


def test_a_browser_step_is_refused_with_the_words_of_a_file() -> None:
    with pytest.raises(InvalidPlan) as invalid:
        recoup.Plan("x", [recoup.browser_step("clik", "Approve")])
    assert [(p.where, p.message) for p in invalid.value.problems] == [
        ("steps[0].browser", "unknown verb `clik`: did you mean `click`?")
    ]
