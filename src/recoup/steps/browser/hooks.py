"""One run's browser, as the engine asks about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from recoup.checks.registry import asks_page, question_of
from recoup.kernel.advice import hint_of, page_advice
from recoup.kernel.healing import floors, goes_somewhere, page_can_be_made_again, page_made_by
from recoup.model import events as ev
from recoup.model.failure import FailureKind
from recoup.model.mode import Mode
from recoup.model.outcome import Looking, Order, Outcome, Seen
from recoup.model.plan import BrowserAction, Step
from recoup.model.run import StepRecord, Verdict
from recoup.model.target import HealMode, Target
from recoup.ports import Pages, Recalls
from recoup.steps.browser.run_page import Changed, PageProblem, Question, Replay, RunPage, Unreachable
from recoup.steps.browser.run_targets import RunTargets
from recoup.steps.hooks import CannotBegin, FactsFirst, KindFacts, KindHooks, Obstacle, RunInHand, Undone


class BrowserHooks(KindHooks):
    """Of one run: its page, and the targets that its steps look for."""

    def __init__(self, run: RunInHand, pages: Pages, recalls: Recalls) -> None:
        self._run = run
        self._page = RunPage(run, pages)
        self._targets = RunTargets(run, recalls)

    async def take_up(self) -> None:
        await self._page.take_up(self._run.state.driver.epoch)

    async def release(self, *, stays: bool) -> None:
        await self._page.release(keeps=stays)

    # Before a step

    async def obstacle(self, step: Step, record: StepRecord) -> Obstacle | None:
        problem = await self._page.problem(step, record)
        return None if problem is None else self._obstacle(problem, record)

    def _obstacle(self, problem: PageProblem, record: StepRecord) -> Obstacle:
        match problem:
            case Replay(reason, indices):
                names = tuple(self._run.state.steps[index].step_id for index in indices)
                return FactsFirst((ev.PageLost(**_about(record), reason=reason, steps=names),))
            case Question(reason, indices):
                return FactsFirst((self._question(reason, indices),), release=True)
            case Unreachable(reason):
                return CannotBegin(f"the page of the run: {reason}", FailureKind.NAVIGATION_FAILED)
            case Changed(reason, begins):
                steps = enumerate(self._run.plan.steps)
                others = {index for index, step in steps if not isinstance(step.action, BrowserAction)}
                return Undone(reason, begins, others)

    def _question(self, reason: str, indices: Sequence[int]) -> ev.Escalated:
        """All steps that must not be repeated and would have to be, to restore a lost page, in one question."""
        records = [self._run.state.steps[index] for index in indices]
        first, names = records[0], tuple(record.step_id for record in records)
        steps = f"step{'s' if len(names) > 1 else ''} {', '.join(names)}"
        return ev.Escalated(
            escalation_id=self._run.new_escalation_id(),
            reason=f"{reason}; only {steps} can restore it, and must not be repeated without your consent",
            hint=hint_of(page_advice(self._run.run_id, first.step_id, names)),
            step_id=first.step_id,
            step_index=first.index,
            attempt=first.open.attempt if first.open else first.spent.attempts,
            page_steps=names,
        )

    async def is_ready(self, step: Step) -> bool:
        """It goes on from a page, which a former driver may have had."""
        if await self._page.has_page():
            return True
        if goes_somewhere(step):
            await self._page.bring_sign_in()
            return True
        return False

    async def gate_reached(self, gate: Step, record: StepRecord) -> None:
        await self._page.keep_for_gate(gate, record)

    def may_follow_at_once(self, seen: Seen | None) -> bool:
        return seen is not None  # otherwise the page may have been lost meanwhile

    async def reconsider(self) -> None:
        await self._targets.take_back()

    # One attempt

    async def order(self, order: Order, step: Step, record: StepRecord, *, hides: bool) -> Order:
        looking = await self._targets.looking(step, record, order.action, order.policy)
        claims = self._page.claims(step, record)
        self._page.begin(order.action, looking)
        return msgspec.structs.replace(
            order,
            looking=looking,
            pictured=_pictured(step),
            claims=claims,
            secret_values=self._secrets_typed(order, hides),
        )

    def handler_order(self, order: Order, *, hides: bool) -> Order:
        """What a handler acts on is found as it was written, or not at all."""
        looking = None
        if isinstance(order.action, BrowserAction) and order.action.target is not None:
            looking = Looking(heal=HealMode.OFF, floors=floors(Mode.RUNNING, order.policy))
        return msgspec.structs.replace(
            order, looking=looking, secret_values=self._secrets_typed(order, hides)
        )

    def _secrets_typed(self, order: Order, hides: bool) -> tuple[str, ...]:
        """The text that is typed, if it holds a secret or a private value: it must not be seen in pictures or
        records."""
        typed = order.action.value if isinstance(order.action, BrowserAction) else None
        if not typed:
            return ()
        redactor = self._run.redactor
        hidden = hides or redactor.found_in(typed.encode()) or redactor.masked_in(typed)
        return (typed,) if hidden else ()

    def explained(self, step: Step, outcome: Outcome) -> Outcome:
        explained = self._targets.explained(step, outcome)
        if not outcome.refuted or self._page.is_to_ask_again(step):
            return explained
        return msgspec.structs.replace(explained, refuted="")

    async def keep(self, step: Step, outcome: Outcome) -> None:
        if outcome.seen is not None:
            await self._page.keep(step, outcome.outputs, outcome.seen)

    def passed(
        self, step: Step, record: StepRecord, seen: Seen | None, evidence: tuple[str, ...], verdict: Verdict
    ) -> KindFacts:
        return self._targets.facts(step, record, seen, evidence, proven=verdict is Verdict.PASSED)

    def failed(
        self, step: Step, record: StepRecord, seen: Seen | None, evidence: tuple[str, ...]
    ) -> KindFacts:
        return self._targets.rejected(step, record, seen, evidence)

    def recorded(self, facts: KindFacts) -> None:
        self._targets.remember(facts)

    # What was lost or is undone

    async def come_back(self, step: Step, record: StepRecord) -> None:
        await self._page.come_back(step, record)

    async def seen_by_checks(self, step: Step) -> Seen | None:
        return await self._page.seen_now() if any(map(asks_page, step.expect)) else None

    async def go_back(self, index: int) -> None:
        await self._page.go_back(index)

    async def reset(self, step: Step, record: StepRecord) -> Sequence[ev.Payload]:
        """The browser with the page."""
        steps = self._run.plan.steps
        skipped = {one.index for one in self._run.state.steps if one.skipped}
        if not page_can_be_made_again(steps, record.index, skipped):
            return ()
        await self._page.leave(made_again=True)
        facts: list[ev.Payload] = [ev.BrowserReset(**_about(record), reason="hard reset")]
        if not goes_somewhere(step):
            made_by = tuple(steps[index].id for index in page_made_by(steps, record.index, skipped))
            facts.append(ev.PageLost(**_about(record), reason="hard reset", steps=made_by))
        return facts

    def is_lost_too(self, following: Step) -> bool:
        """It was done on the same page."""
        return isinstance(following.action, BrowserAction) and not goes_somewhere(following)


def _about(record: StepRecord) -> dict[str, Any]:
    return {"step_id": record.step_id, "step_index": record.index, "attempt": None}


def _pictured(step: Step) -> tuple[Target | None, ...]:
    """What is compared after the attempt with how it looked before."""
    questions = map(question_of, step.expect)
    return tuple([question.target for question in questions if question is not None and question.difference])
