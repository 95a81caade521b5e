"""What a dry run says is what the run then does, as long as the world has not changed: plans of shell steps, gates and
steps in the browser, which fail, wait or are paused, and go on in place or in a linked run."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.integration.test_reuse_in_runs import Linked, plan_of, step

from recoup.engine.reusing import foresee_in_place
from recoup.fleet.linked import LinkedRuns
from recoup.kernel.canonical import digest
from recoup.kernel.page_forecast import PageForecast
from recoup.kernel.policies import policy_digest
from recoup.kernel.pre_states import page_digest
from recoup.kernel.prefix import ledger_document
from recoup.kernel.reuse import ASKED, PERFORMED, Reuse
from recoup.model import events as ev
from recoup.model.ids import run_stream
from recoup.model.plan import (
    ApproveAction,
    BrowserAction,
    BrowserVerb,
    FileCheck,
    Plan,
    Rebuild,
    Repeat,
    Step,
    ValueCheck,
)
from recoup.model.run import RunState, RunStatus
from recoup.model.storage import Control
from recoup.model.target import Element, Target
from recoup.testing.browser import ScriptedBrowser, ScriptedPage, ScriptedSite

HOME, FORM = "http://site/", "http://site/form"
ELEMENTS = (
    Element(tag="button", role="button", name="More", text="More"),
    Element(tag="button", role="button", name="Next", text="Next"),
    Element(tag="input", role="textbox", name="Amount", label="Amount"),
    Element(tag="td", role="cell", name="total", text="42"),
)
AMOUNT = Target(role="textbox", name="Amount")


def browser_step(id: str, verb: BrowserVerb, target: Target | None = None, **more: Any) -> Step:
    said = {key: more.pop(key) for key in ("value", "into") if key in more}
    return Step(id=id, action=BrowserAction(verb=verb, target=target, **said), **more)


def goto(id: str, url: str = HOME) -> Step:
    return browser_step(id, BrowserVerb.GOTO, value=url)


def fill(id: str) -> Step:
    return browser_step(id, BrowserVerb.FILL, AMOUNT, value="70", expect=(ValueCheck(AMOUNT, equals="70"),))


def click(id: str, name: str, repeat: Repeat = Repeat.SAFE) -> Step:
    return browser_step(id, BrowserVerb.CLICK, Target(role="button", name=name), repeat=repeat)


def read(id: str) -> Step:
    return browser_step(id, BrowserVerb.READ, Target(role="cell", name="total"), into="total")


def shell(id: str, **more: Any) -> Step:
    return step(id, expect=(FileCheck(id),), **more)


def gate(id: str) -> Step:
    return Step(id=id, action=ApproveAction("go on?"))


KINDS = {
    "home": goto,
    "form": lambda id: goto(id, FORM),
    "fill": fill,
    "more": lambda id: click(id, "More"),
    "next": lambda id: click(id, "Next"),
    "once": lambda id: click(id, "More", Repeat.NEVER),
    "read": read,
    "shell": shell,
    "again": lambda id: shell(id, rebuild=Rebuild.RERUN),
    "gate": gate,
}


def plan_from(kinds: list[str], folder: Path, *, workspace: bool) -> Plan:
    steps = [goto("s0"), *(KINDS[kind](f"s{number}") for number, kind in enumerate(kinds, 1))]
    source = folder / "source"
    source.mkdir()
    return plan_of(source if workspace else None, *steps, folder=str(folder))


class Flow(Linked):
    """A house with a browser of values, in which one asks before one does."""

    def __init__(self, folder: Path) -> None:
        pages = {HOME: ScriptedPage("Home", ELEMENTS), FORM: ScriptedPage("Form", ELEMENTS)}
        site = ScriptedSite(pages, {"More": lambda: None, "Next": FORM})
        self.browser = ScriptedBrowser(site)
        super().__init__(folder / "home", browser=self.browser)
        self.linked = LinkedRuns(
            self.world, self.events, self.files, lambda files: self.secrets(files.root.name)
        )

    async def events(self, run_id: str) -> list[ev.Event]:
        return list(await self.ledger.read(run_stream(run_id)))

    def secrets(self, run_id: str) -> Any:
        return self.job(run_id, plan_of(None)).secrets

    async def control(self, run_id: str, action: str, step_id: str | None = None) -> None:
        """A driver does what it asks for, and goes on."""
        number = len(await self.events(run_id))
        wish = Control(
            id=f"{run_id}-{action}-{number}",
            run_id=run_id,
            action=action,
            reason="r",
            actor="me",
            at=self.clock.now(),
            step_id=step_id,
        )
        await self.ledger.send_control(wish)

    async def drive(self, run_id: str) -> RunState:
        return await (await self.linked_driver(run_id)).drive()

    async def would_reuse(self, plan: Plan, reuse: str, from_step: str | None) -> Reuse:
        asked = ev.RunSubmitted(
            workflow=plan.name, plan_digest=digest(msgspec.to_builtins(plan)), plan=plan, plan_redacted=False,
            inputs={}, policy_digest=policy_digest(self.policy), parent_run_id=reuse, reuse_from=reuse,
            from_step=from_step,
        )  # fmt: skip
        self.files("asked").make()
        job = self.job("asked", plan, await self.earlier(reuse))
        return await self.linked.would_reuse(job, asked)


def begun(events: list[ev.Event], phase: str) -> set[str]:
    starts = [event.payload for event in events if isinstance(event.payload, ev.AttemptStarted)]
    return {start.step_id for start in starts if start.phase == phase}


def compare(said: Reuse, state: RunState, events: list[ev.Event]) -> None:
    """What was said of each step, and what was done."""
    performed, repeated = begun(events, "main"), begun(events, "rebuild")
    expected = {step.step_id: step for step in said.steps}
    told = f"{said} {sorted(performed)}, again {sorted(repeated)}: {state.status} {state.reason}"
    foretold = [one.step_id for one in said.asks] or [
        one.step_id for one in said.steps if one.expected == ASKED
    ]
    if said.page is not None and said.page.asks_about and not _comes_first(said.asks, said.page, state):
        if state.status is RunStatus.ESCALATED:
            assert ", ".join(said.page.asks_about) in state.reason, told
        else:  # a gate comes first
            assert state.status is RunStatus.WAITING, told
        return
    if foretold:
        first = foretold[0]
        if state.status is RunStatus.ESCALATED:
            assert f"step {first}" in state.reason or f"steps {first}," in state.reason, told
        else:  # a gate comes first
            assert state.status is RunStatus.WAITING, told
        assert first not in performed | repeated, told
        return
    assert state.status in (RunStatus.SUCCEEDED, RunStatus.WAITING), told
    to_do = [one.step_id for one in said.steps if one.expected == PERFORMED]
    reached = to_do if state.status is RunStatus.SUCCEEDED else to_do[: len(performed)]
    if state.status is RunStatus.WAITING:
        assert state.steps[state.progress.prefix_length].step_id in to_do, told
    gates = {one.id for one in state.plan.steps if isinstance(one.action, ApproveAction)}
    assert performed == set(reached) - gates, told
    assert repeated == {one for one in repeated if expected[one].repeated_for}, told
    needed = said.page is not None and state.progress.prefix_length > _index(state, said.page.needed_by)
    wanted = {one.step_id for one in said.steps if one.repeated_for == "page"} if needed else set()
    assert wanted <= repeated, told


def _comes_first(asked: Sequence[ev.AskedStep], page: PageForecast, state: RunState) -> bool:
    """Whether a step itself was done elsewhere is asked before it needs its page."""
    return any(one.step_index <= _index(state, page.needed_by) for one in asked)


def _index(state: RunState, step_id: str) -> int:
    return next(record.index for record in state.steps if record.step_id == step_id)


async def approved(flow: Flow, run_id: str) -> RunState:
    """As far as gates let it."""
    state = await flow.drive(run_id)
    while (
        state.status is RunStatus.WAITING and state.hold.waiting_for == "approval" and not state.hold.paused
    ):
        await flow.control(run_id, "approve")
        state = await flow.drive(run_id)
    return state


def tell(story: Callable[[Flow, Path], Awaitable[None]]) -> None:
    """In a folder of its own."""

    async def told(folder: Path) -> None:
        flow = Flow(folder)
        try:
            await story(flow, folder)
        finally:
            await flow.ledger.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(told(Path(folder)))


plans = st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=6)


@settings(max_examples=25)
@given(plans, st.booleans(), st.data())
def test_a_linked_run_does_what_its_dry_run_says(kinds: list[str], workspace: bool, data: Any) -> None:
    async def story(flow: Flow, folder: Path) -> None:
        plan = plan_from([*kinds, "shell"], folder, workspace=workspace)
        last = plan.steps[-1].id
        flow.doing.broken = {last}
        await flow.order(plan, "one", None, None, {})
        assume(
            (await approved(flow, "one")).status is RunStatus.FAILED
        )  # else a person is asked about a click
        flow.doing.broken = set()
        from_step = data.draw(st.sampled_from([None, *(one.id for one in plan.steps)]))
        said = await flow.would_reuse(plan, "one", from_step)
        if said.refusal is None:
            state = await flow.go(plan, "two", reuse="one", from_step=from_step)
            compare(said, state, await flow.events("two"))

    tell(story)


@settings(max_examples=25)
@given(plans, st.booleans(), st.data())
def test_a_run_that_goes_on_does_what_its_dry_run_says(kinds: list[str], workspace: bool, data: Any) -> None:
    async def story(flow: Flow, folder: Path) -> None:
        plan = plan_from([*kinds, "shell", "read"], folder, workspace=workspace)
        pausing = plan.steps[-2].id
        flow.doing.during[pausing] = lambda: flow.control("one", "pause")
        await flow.order(plan, "one", None, None, {})
        state = await approved(flow, "one")
        assume(state.hold.paused)  # else a person is asked about a click
        done = [record.step_id for record in state.steps[: state.progress.prefix_length]]
        from_step = data.draw(st.sampled_from([None, *done]))
        said = foresee_in_place(flow.world, flow.secrets("one"), state, from_step)
        await flow.control("one", "resume" if from_step is None else "resume_from_step", from_step)
        before = len(await flow.events("one"))
        state = await flow.drive("one")
        assume(not state.hold.paused)  # it was refused: what must not be repeated is done
        compare(said, state, (await flow.events("one"))[before:])

    tell(story)


# A page that later steps have left


@pytest.mark.parametrize("linked", [True, False])
def test_another_document_at_the_same_address_is_not_taken_for_the_one_before(linked: bool) -> None:
    """What was typed in the first is typed again, though the second lacks nothing."""

    async def story(flow: Flow, folder: Path) -> None:
        typed = browser_step("typed", BrowserVerb.FILL, AMOUNT, value="70")
        steps = (goto("open", FORM), typed, click("next", "Next"), shell("check"), shell("last"))
        plan = plan_of(None, *steps, folder=str(folder))
        flow.doing.broken = {"last"} if linked else set()
        if not linked:
            flow.doing.during["check"] = lambda: flow.control("one", "pause")
        await flow.order(plan, "one", None, None, {})
        state = await flow.drive("one")
        flow.doing.broken, flow.browser.done[:] = set(), []
        if linked:
            reuse = await flow.would_reuse(plan, "one", "next")
            await flow.go(plan, "two", reuse="one", from_step="next")
        else:
            reuse = foresee_in_place(flow.world, flow.secrets("one"), state, "next")
            await flow.control("one", "resume_from_step", "next")
            await flow.drive("one")
        assert reuse.page is not None and reuse.page.repeated == ("open", "typed")
        done = [verb for verb, _ in flow.browser.done]
        assert [verb for verb in done if verb != "remember"] == ["goto", "fill", "click"]

    tell(story)


# What each step began from


def pre_states(state: RunState) -> list[str | None]:
    return [step.pre_state for step in ledger_document(state).steps]


@pytest.mark.parametrize("workspace", [True, False])
def test_a_page_is_what_browser_steps_begin_from_and_a_tree_what_others_do(workspace: bool) -> None:
    async def story(flow: Flow, folder: Path) -> None:
        plan = plan_from(["shell", "next", "gate", "read", "shell"], folder, workspace=workspace)
        flow.doing.broken = {"s5"}
        await flow.order(plan, "one", None, None, {})
        first = await approved(flow, "one")
        home, form = page_digest(first.steps[0].results.page), page_digest(first.steps[2].results.page)
        opened, written, left, asked, looked, failed = pre_states(first)
        assert (opened, left, asked, looked) == ("page:none", home, form, form)
        if workspace:
            trees = [
                record.results.checkpoint.tree for record in first.steps[:3] if record.results.checkpoint
            ]
            assert (written, failed) == (trees[0], trees[2])
        else:
            assert all(str(found).startswith("checks:") for found in (written, failed))
        flow.doing.broken = set()
        second = await flow.go(plan, "two", reuse="one")
        assert (second.status, pre_states(second)[:5]) == (RunStatus.SUCCEEDED, pre_states(first)[:5])

    tell(story)
