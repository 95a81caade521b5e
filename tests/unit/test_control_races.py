"""Controls that race with attempts, ends and each other, as a state machine over the fold (seed 002, 12.4 and 13)."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from recoup.kernel.controls import CONTROLS, possible, pre_empts, refusal
from recoup.kernel.documents import exit_code, run_document
from recoup.kernel.fold import advance, fold, submitted
from recoup.kernel.position import current_step, gate, is_over
from recoup.kernel.prefix import ledger_document
from recoup.model import events as ev
from recoup.model.events import Event
from recoup.model.failure import Facts, FailureClass, FailureKind
from recoup.model.ids import ProcessIdentity
from recoup.model.instant import Instant
from recoup.model.plan import ApproveAction, Plan, Repeat, RunAction, Step
from recoup.model.policy import Policy
from recoup.model.run import RunStatus
from recoup.model.storage import Control
from recoup.model.workspace import Baseline

OWNER = ProcessIdentity("here", "boot", 1, 1)
POLICY = Policy()
PLAN = Plan(
    name="w",
    steps=(
        Step(id="a", action=RunAction("a")),
        Step(id="pay", action=RunAction("pay"), repeat=Repeat.NEVER),
        Step(id="gate", action=ApproveAction("Go?")),
        Step(id="b", action=RunAction("b")),
    ),
)
STEPS = st.sampled_from([None, "a", "pay", "gate", "b"])


class Races(RuleBasedStateMachine):
    """A driver and several operators, in any order of events. `emit` is the ledger."""

    @initialize(workspace=st.booleans())
    def begin(self, workspace: bool) -> None:
        self.us = 1_000_000
        first = ev.RunSubmitted(
            workflow="w", plan_digest="p", plan=PLAN, plan_redacted=False, inputs={}, policy_digest="q"
        )
        self.events: list[Event] = []
        self.state = submitted("r", first, self.now())
        self.events.append(Event("run:r", 1, self.now(), first.TYPE, first, b""))
        self.handled: set[str] = set()
        baseline = Baseline("t0", "m0") if workspace else None
        self.emit(
            ev.RunStarted(
                delivery=1,
                epoch=1,
                owner=OWNER,
                policy_digest="q",
                baseline=baseline,
                workspace=1 if workspace else None,
            )
        )

    def now(self) -> Instant:
        return Instant(self.us, self.us, "boot")

    def emit(self, *payloads: ev.Payload) -> None:
        self.us += 1_000
        for payload in payloads:
            self.state = advance(self.state, payload, self.now(), self.state.seq + 1)
            self.events.append(Event("run:r", self.state.seq, self.now(), payload.TYPE, payload, b""))

    # The driver

    @precondition(lambda self: self.drives() and self.open() is None and self.step_to_do() is not None)
    @rule()
    def start(self) -> None:
        record = current_step(self.state)
        assert record is not None and not self.state.hold.paused
        self.emit(
            ev.AttemptStarted(
                step_id=record.step_id,
                step_index=record.index,
                attempt=record.spent.attempts + 1,
                delivery=1,
                kind="run",
                args_digest="d",
                pre_state=None,
                workspace=self.state.workspaces.current,
                inline=True,
            )
        )

    @precondition(lambda self: self.open() is not None)
    @rule()
    def finish(self) -> None:
        record = self.open()
        assert record is not None and record.open is not None
        about: dict[str, Any] = {
            "step_id": record.step_id,
            "step_index": record.index,
            "attempt": record.open.attempt,
        }
        self.emit(ev.AttemptFinished(**about, verdict="unverified", duration_ms=1))

    @precondition(lambda self: self.open() is not None)
    @rule()
    def fail(self) -> None:
        record = self.open()
        assert record is not None and record.open is not None
        self.emit(self.ended(FailureKind.EXIT_NONZERO, FailureClass.UNKNOWN))

    @precondition(lambda self: self.drives() and self.state.hold.paused and self.open() is None)
    @rule()
    def stand_by(self) -> None:
        self.emit(ev.RunWaiting(reason="paused", waiting_for="operator"))

    @precondition(lambda self: self.drives() and self.at_gate())
    @rule()
    def reach_gate(self) -> None:
        self.emit(ev.RunWaiting(reason="gate", waiting_for="approval"))

    @precondition(lambda self: self.state.status is RunStatus.WAITING and not self.state.hold.paused)
    @rule()
    def resume_driving(self) -> None:
        self.emit(ev.RunResumed(delivery=1, epoch=1, owner=OWNER, reason="again"))

    @precondition(lambda self: self.drives() and current_step(self.state) is None)
    @rule()
    def succeed(self) -> None:
        self.emit(ev.RunSucceeded(known_good_prefix_length=len(PLAN.steps), reason="done"))

    # The operators

    @rule(
        action=st.sampled_from(list(CONTROLS)),
        step_id=STEPS,
        argument=st.sampled_from([None, "force", "done"]),
    )
    def control(self, action: str, step_id: str | None, argument: str | None) -> None:
        wish = Control(
            id=f"c{len(self.events)}",
            run_id="r",
            action=action,
            reason="why",
            actor="eve",
            at=self.now(),
            step_id=step_id,
            argument=argument,
        )
        why = refusal(self.state, wish, POLICY)
        assert (why is not None) or not is_over(self.state), f"{action} of a run that is over"
        busy = self.open()
        if why is not None:
            assert "possible now:" in why
            self.emit(self.answer(wish, "refused"))
            return
        if pre_empts(wish) and busy is not None and action != "cancel":
            assert PLAN.steps[busy.index].repeat is Repeat.SAFE, (
                "a step that must not be repeated was cut off"
            )
        self.emit(self.answer(wish, "accepted"), *self.consequences(wish))

    def answer(self, wish: Control, outcome: str) -> ev.ControlHandled:
        assert wish.id not in self.handled
        self.handled.add(wish.id)
        return ev.ControlHandled(
            command_id=wish.id,
            action=wish.action,
            outcome=outcome,
            reason=wish.reason,
            actor=wish.actor,
            epoch=1,
            step_id=wish.step_id,
            argument=wish.argument,
        )

    def consequences(self, wish: Control) -> list[ev.Payload]:
        cut = [self.ended(FailureKind.CANCELLED, None)] if self.open() and pre_empts(wish) else []
        match wish.action:
            case "cancel":
                return [*cut, ev.RunCancelled(reason="", actor="eve")]
            case "takeover":
                return [*cut, ev.RunWaiting(reason="taken over", waiting_for="operator")]
            case "approve":
                return self.approved()
            case "reject":
                return [self.run_failed()]
            case "resume_from_step":
                return self.back_to(wish.step_id or "")
        return [*cut]

    def approved(self) -> list[ev.Payload]:
        record = gate(self.state)
        assert record is not None
        about: dict[str, Any] = {
            "step_id": record.step_id,
            "step_index": record.index,
            "attempt": record.spent.attempts + 1,
        }
        return [ev.AttemptFinished(**about, verdict="passed", duration_ms=0)]

    def back_to(self, step_id: str) -> list[ev.Payload]:
        index = [step.id for step in PLAN.steps].index(step_id)
        records = self.state.steps[index : self.state.progress.prefix_length]
        assert not [r for r in records if PLAN.steps[r.index].repeat is Repeat.NEVER]
        return [
            ev.StepInvalidated(step_id=r.step_id, step_index=r.index, attempt=None, reason="back")
            for r in records
        ]

    def run_failed(self) -> ev.RunFailed:
        cls, kind = FailureClass.DETERMINISTIC_POLICY, FailureKind.REJECTED
        return ev.RunFailed(reason="no", failure_class=cls, failure_kind=kind, retryable=False, delivery=1)

    def ended(self, kind: FailureKind, cls: FailureClass | None) -> ev.AttemptFailed:
        record = self.open()
        assert record is not None and record.open is not None
        return ev.AttemptFailed(
            step_id=record.step_id,
            step_index=record.index,
            attempt=record.open.attempt,
            failure_class=cls,
            facts=Facts(kind=kind),
            summary="",
            outcome_known=True,
        )

    # What is seen

    def open(self) -> Any:
        return next((record for record in self.state.steps if record.open is not None), None)

    def drives(self) -> bool:
        return self.state.status is RunStatus.RUNNING

    def step_to_do(self) -> Any:
        return None if self.state.hold.paused or self.at_gate() else current_step(self.state)

    def at_gate(self) -> bool:
        record = current_step(self.state)
        return record is not None and isinstance(PLAN.steps[record.index].action, ApproveAction)

    @invariant()
    def the_live_state_is_the_fold(self) -> None:
        assert fold("r", self.events) == self.state

    @invariant()
    def there_is_one_end_at_most(self) -> None:
        ends = (ev.RunSucceeded, ev.RunCancelled, ev.RunFailed)
        assert sum(isinstance(event.payload, ends) for event in self.events) <= 1

    @invariant()
    def nothing_is_possible_after_the_end_and_cancel_always_before(self) -> None:
        assert ("cancel" in possible(self.state, POLICY)) is not is_over(self.state)
        assert not (is_over(self.state) and possible(self.state, POLICY))

    @invariant()
    def documents_can_always_be_made(self) -> None:
        live = run_document(self.state).live_control
        assert (live.paused, live.takeover) == (self.state.hold.paused, self.state.hold.takeover)
        assert not live.takeover or live.paused
        assert ledger_document(self.state).known_good_prefix_length == self.state.progress.prefix_length
        assert exit_code(self.state) in (None, 0, 1, 5, 6)


TestRaces = Races.TestCase
TestRaces.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
