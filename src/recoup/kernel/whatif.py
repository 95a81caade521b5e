"""What would have been decided under another policy: recorded runs, folded again, decided again by the same functions.

Nothing is invented: nobody knows what an attempt would have done that was never begun, so from there on nothing is
claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeGuard

import msgspec

from recoup.kernel.classify import classify
from recoup.kernel.decide import decide
from recoup.kernel.elapsed import active_seconds, elapsed_s
from recoup.kernel.fold import advance, submitted
from recoup.kernel.policies import step_policy
from recoup.kernel.step_state import step_state
from recoup.model import events as ev
from recoup.model.answers.whatif import Difference, DifferenceKind
from recoup.model.decision import Decision, Escalate, GiveUp, Strategy, strategy
from recoup.model.events import Event
from recoup.model.failure import Failure, FailureClass, FailureKind
from recoup.model.instant import Instant
from recoup.model.policy import POLICY_KEYS, Policy
from recoup.model.run import RunState, StepRecord

Policies = Callable[[str], Policy | None]
"""The recorded policy with this digest; None: it is not in the ledger."""

SPAN_MAX_S = 30 * 86_400.0
_SLACK_S = 1.0
"""An attempt that was stopped this much before its own limit was stopped for the run's."""

REPLAYED = frozenset(name for name, key in POLICY_KEYS.items() if key.replayed)
"""What a change of these keys means can be seen in what was recorded; of all others it cannot."""


class Made(msgspec.Struct, frozen=True):
    """A decision about a failed attempt, as recorded or as made again."""

    strategy: Strategy
    cls: FailureClass
    reason: str
    delay_ms: int = 0
    redeliver: bool = False
    escalates: bool = False

    @property
    def goes_on(self) -> bool:
        return self.strategy is not Strategy.NONE


_VERDICTS = (DifferenceKind.OTHER_WAIT, DifferenceKind.STOPS_EARLIER, DifferenceKind.GOES_ON)
"""The other differences leave the rest of a run unknown."""


class Replayed(msgspec.Struct, kw_only=True):
    """One recorded run under another policy."""

    run_id: str
    workflow: str
    decisions: int = 0
    """That were made again, up to where the future is unknown."""
    differences: list[Difference] = []
    unknown_from: int | None = None
    """Nothing is claimed about events from this sequence on."""

    @property
    def verdict(self) -> str:
        """same | other_wait | stops_earlier | goes_on | unknown."""
        if not self.differences:
            return "same"
        last = self.differences[-1].kind
        return last.value if last in _VERDICTS else "unknown"


def replay(run_id: str, events: Sequence[Event], policies: Policies, new: Policy | None) -> Replayed:
    """`events`: all of the run. Without a new policy the recorded ones are used: then nothing may differ."""
    first = events[0]
    assert isinstance(first.payload, ev.RunSubmitted), f"run {run_id} does not begin with its submission"
    state = submitted(run_id, first.payload, first.at)
    found = Replayed(run_id=run_id, workflow=state.workflow)
    one = _Replay(state, events, policies, new, policies(state.submission.policy_digest))
    for index in range(1, len(events)):
        difference = one.look(index)
        if difference is not None:
            found.differences.append(difference)
            if difference.kind is not DifferenceKind.OTHER_WAIT:
                found.unknown_from = difference.seq + 1
                break
    found.decisions = one.decisions
    return found


def decisions(
    run_id: str, events: Sequence[Event], policies: Policies
) -> Iterator[tuple[Event, Made, Made | None]]:
    """Every recorded decision, and the same made again under the policy that it names (None: that is not there)."""
    first = events[0]
    assert isinstance(first.payload, ev.RunSubmitted), f"run {run_id} does not begin with its submission"
    state = submitted(run_id, first.payload, first.at)
    for index, event in enumerate(events[1:], 1):
        if is_decision(event.payload):
            policy = policies(event.payload.policy_digest or "")
            again = None
            if policy is not None:
                tokens = event.payload.retry_tokens
                again = made(decided(state, event.payload, policy, event.at, tokens))
            yield event, recorded(event.payload, _consequences(events, index)), again
        state = advance(state, event.payload, event.at, event.seq)


def is_decision(payload: ev.Payload) -> TypeGuard[ev.AttemptFailed]:
    """A failed attempt about which the kernel was asked. Ends by an operator's word, and of handlers, are none."""
    return (
        isinstance(payload, ev.AttemptFailed)
        and payload.failure_class is not None
        and payload.policy_digest is not None
        and payload.phase != "rescue"
        and not payload.not_begun
    )


def decided(
    run: RunState, failed: ev.AttemptFailed, policy: Policy, now: Instant, tokens: float | None
) -> Decision:
    """From the recorded facts, as the engine does it. `run` is the state before the failure."""
    failure = Failure(
        kind=failed.facts.kind,
        cls=classify(failed.facts, policy),
        signature=failed.failure_signature or "",
        summary=failed.summary,
        facts=failed.facts,
        outcome_known=failed.outcome_known,
        tolerance_level=failed.tolerance_level,
    )
    state = step_state(run, run.steps[failed.step_index], failure.cls, policy, tokens)
    return decide(state, failure, policy, now)


def made(decision: Decision) -> Made:
    return Made(
        strategy(decision),
        decision.cls,
        decision.reason,
        delay_ms=0 if isinstance(decision, GiveUp | Escalate) else decision.delay_ms,
        redeliver=isinstance(decision, GiveUp) and decision.redeliver,
        escalates=isinstance(decision, Escalate),
    )


def recorded(failed: ev.AttemptFailed, consequences: Sequence[ev.Payload]) -> Made:
    assert failed.failure_class is not None and failed.strategy is not None
    delay_ms, redeliver, escalates = 0, failed.redeliver, False
    for payload in consequences:
        match payload:
            case ev.SelfHealTriggered() | ev.SelfHealEscalated():
                delay_ms = payload.delay_ms
            case ev.SelfHealExhausted() | ev.RunFailed():
                redeliver = redeliver or payload.retryable
            case ev.RunDeadLettered():
                redeliver = True
            case ev.Escalated(step_id=str()):
                escalates = True
    return Made(
        Strategy(failed.strategy), failed.failure_class, failed.reason or "", delay_ms, redeliver, escalates
    )


_FOLLOW = (
    *(ev.SelfHealTriggered, ev.SelfHealEscalated, ev.SelfHealExhausted),
    *(ev.Escalated, ev.RunFailed, ev.RunDeadLettered),
)
_ABOUT_TARGET = (ev.TargetRejected, ev.TargetHealed, ev.TargetAdapted)
_COMMIT_MAX = 8
"""Events of one failure: itself, what became of its target, and what follows from it."""


def _consequences(events: Sequence[Event], index: int) -> list[ev.Payload]:
    """What was recorded with the failure at `index`, in the same commit. Facts about its target may stand between."""
    found: list[ev.Payload] = []
    for event in events[index + 1 : index + 1 + _COMMIT_MAX]:
        if not isinstance(event.payload, (*_FOLLOW, *_ABOUT_TARGET)) or event.at != events[index].at:
            break
        if isinstance(event.payload, _FOLLOW):
            found.append(event.payload)
    return found


class _Replay:
    """One run, event by event."""

    def __init__(
        self,
        state: RunState,
        events: Sequence[Event],
        policies: Policies,
        new: Policy | None,
        old: Policy | None,
    ) -> None:
        self.decisions = 0
        self._state = state
        self._events = events
        self._policies = policies
        self._new = new
        self._old = old
        """The one that was in force, as far as it has been named."""
        self._spent_s = 0.0
        """Waited longer than recorded so far."""

    def look(self, index: int) -> Difference | None:
        """The event at `index`, and then one event further."""
        event, payload = self._events[index], self._events[index].payload
        if isinstance(payload, ev.StepPayload) and payload.policy_digest is not None:
            self._old = self._policies(payload.policy_digest) or self._old
        difference = None
        if is_decision(payload):
            difference, payload = self._again(index, payload)
        elif self._new is not None and self._old is not None:
            difference = self._otherwise(index, payload, self._new, self._old)
        self._state = advance(self._state, payload, event.at, event.seq)
        return difference

    def _again(self, index: int, failed: ev.AttemptFailed) -> tuple[Difference | None, ev.AttemptFailed]:
        """And the failure with the class that it would have had, which later decisions look back at."""
        event, old = self._events[index], self._old
        if old is None:
            words = f"the policy {failed.policy_digest} is not in the ledger"
            return self._difference(DifferenceKind.OTHER_END, index, "decided", f"unknown: {words}"), failed
        plan, record = self._state.plan, self._state.steps[failed.step_index]
        policy = old if self._new is None else step_policy(self._new, plan, plan.steps[failed.step_index])
        timed = self._timed(index, failed.facts.kind, failed.facts.duration_ms, record, policy, old)
        if timed is not None:
            return timed, failed
        tokens = failed.retry_tokens
        if tokens is not None:
            tokens += policy.retry_tokens - old.retry_tokens
        decision = decided(self._state_with_waits(), failed, policy, event.at, tokens)
        self.decisions += 1
        then, now = recorded(failed, _consequences(self._events, index)), made(decision)
        difference = self._compared(index, record, then, now, policy)
        return difference, msgspec.structs.replace(failed, failure_class=now.cls)

    def _state_with_waits(self) -> RunState:
        """With the time of the run that longer waits would have used."""
        clocks = self._state.clocks
        active_s = max(0.0, clocks.active_s + self._spent_s)
        return msgspec.structs.replace(self._state, clocks=msgspec.structs.replace(clocks, active_s=active_s))

    def _compared(
        self, index: int, record: StepRecord, then: Made, now: Made, policy: Policy
    ) -> Difference | None:
        if then.goes_on and now.goes_on:
            return self._goes_on_otherwise(index, then, now)
        if then.goes_on:
            end, attempts, lost = self._to_the_end_of_the_step(index, record.index)
            return self._difference(
                DifferenceKind.STOPS_EARLIER,
                index,
                _words(then),
                _words(now),
                attempts_saved=attempts,
                seconds_saved=self._seconds(index, end),
                recovery_lost=lost,
            )
        if now.goes_on:
            most = min(
                policy.step_max_attempts - record.spent.attempts_in_delivery - 1,
                policy.run_retries_max - self._state.counts.retries,
            )
            return self._difference(
                DifferenceKind.GOES_ON, index, _words(then), _words(now), more_attempts_max=max(1, most)
            )
        return self._ends_otherwise(index, then, now, policy)

    def _goes_on_otherwise(self, index: int, then: Made, now: Made) -> Difference | None:
        if (then.strategy is Strategy.HARD_RESET) != (now.strategy is Strategy.HARD_RESET):
            return self._difference(DifferenceKind.OTHER_RESET, index, _words(then), _words(now))
        if (then.strategy, then.delay_ms) == (now.strategy, now.delay_ms):
            return None
        longer_s = (now.delay_ms - then.delay_ms) / 1000
        self._spent_s += longer_s
        return self._difference(
            DifferenceKind.OTHER_WAIT, index, _words(then), _words(now), seconds_saved=-longer_s or 0.0
        )

    def _ends_otherwise(self, index: int, then: Made, now: Made, policy: Policy) -> Difference | None:
        if then.escalates != now.escalates:
            return self._difference(DifferenceKind.OTHER_END, index, _words(then), _words(now))
        if then.redeliver == now.redeliver:
            return None
        if now.redeliver:
            return self._another_delivery(index, _words(then), policy)
        return self._no_other_delivery(index, "another delivery may help", _words(now))

    def _otherwise(self, index: int, payload: ev.Payload, new: Policy, old: Policy) -> Difference | None:
        """What follows from a limit without the kernel being asked about a failure."""
        match payload:
            case ev.AttemptStarted() if payload.kind != "approve":
                return self._run_time_used(index, new, old)
            case ev.AttemptFinished(policy_digest=str(), phase="main") if payload.settled_by == "outcome":
                plan, record = self._state.plan, self._state.steps[payload.step_index]
                policy = step_policy(new, plan, plan.steps[payload.step_index])
                return self._timed(index, None, payload.duration_ms, record, policy, old)
            case ev.RunFailed(retryable=True) if payload.delivery >= new.delivery_max:
                words = f"delivery_max: {payload.delivery} of {new.delivery_max} used"
                return self._no_other_delivery(index, "failed, and may be delivered again", words)
            case ev.RunDeadLettered() if payload.reason.startswith("takeovers_max"):
                return self._taken_over_once_more(index, payload, new)
            case ev.RunDeadLettered() if payload.delivery < new.delivery_max:
                return self._another_delivery(index, "dead letter: every delivery was used", new)
            case (
                ev.RunFailed(reason=reason) | ev.SelfHealExhausted(reason=str() as reason, gives_up=True)
            ) if reason.startswith("run_timeout") and new.run_timeout_seconds > old.run_timeout_seconds:
                return self._difference(
                    DifferenceKind.GOES_ON, index, reason, f"run_timeout_seconds: {new.run_timeout_seconds:g}"
                )
            case ev.RunTakenOver() if self._lost_too_often(index, new):
                words = f"takeovers_max: {self._state.driver.takeovers + 1} of {new.takeovers_max}"
                return self._no_other_delivery(index, "taken over, and gone on", words)
            case _:
                return None

    def _lost_too_often(self, index: int, new: Policy) -> bool:
        ended = any(isinstance(one.payload, ev.RunDeadLettered) for one in self._events[index : index + 3])
        over = self._state.status.is_terminal
        return self._state.driver.takeovers + 1 > new.takeovers_max and not ended and not over

    def _taken_over_once_more(
        self, index: int, payload: ev.RunDeadLettered, new: Policy
    ) -> Difference | None:
        if self._state.driver.takeovers > new.takeovers_max:
            return None
        return self._difference(
            DifferenceKind.GOES_ON,
            index,
            payload.reason,
            f"takeovers_max: {self._state.driver.takeovers} of {new.takeovers_max}",
        )

    def _run_time_used(self, index: int, new: Policy, old: Policy) -> Difference | None:
        """Before an attempt is begun the run's own time is looked at."""
        if new.run_timeout_seconds >= old.run_timeout_seconds:
            return None
        used_s = self._active_s(index, new)
        if used_s < new.run_timeout_seconds:
            return None
        words = f"run_timeout: {used_s:.0f} s of {new.run_timeout_seconds:g} s are used"
        return self._no_other_delivery(index, "another attempt", words, first=index)

    def _timed(
        self,
        index: int,
        kind: FailureKind | None,
        duration_ms: int,
        record: StepRecord,
        new: Policy,
        old: Policy,
    ) -> Difference | None:
        """Whether the attempt would have been let alone as long as it was."""
        took_s = duration_ms / 1000
        if kind is FailureKind.DRIVER_LOST or record.open is None:
            return None
        for limit_s, before_s, name in (
            (new.step_timeout_seconds, old.step_timeout_seconds, "step_timeout_seconds"),
            (new.step_idle_timeout_seconds, old.step_idle_timeout_seconds, "step_idle_timeout_seconds"),
        ):
            if limit_s < before_s and took_s > limit_s:
                may = "may have been stopped: how long it was silent is not recorded"
                instead = "would have been stopped" if name == "step_timeout_seconds" else may
                return self._difference(
                    DifferenceKind.CUT_OFF, index, f"took {took_s:.1f} s", f"{name}: {limit_s:g}: {instead}"
                )
        if new.run_timeout_seconds < old.run_timeout_seconds:
            used_s = self._active_s(index, new)
            if used_s > new.run_timeout_seconds:
                words = f"run_timeout_seconds: {new.run_timeout_seconds:g}: would have been stopped"
                return self._difference(
                    DifferenceKind.CUT_OFF, index, f"ended {used_s:.1f} s into the run", words
                )
        return self._longer(index, kind, took_s, new, old)

    def _longer(
        self, index: int, kind: FailureKind | None, took_s: float, new: Policy, old: Policy
    ) -> Difference | None:
        """A recorded timeout that would have come later."""
        if kind is FailureKind.IDLE_TIMEOUT:
            limits = ("step_idle_timeout_seconds",)
        elif kind is FailureKind.WALL_TIMEOUT:
            of_the_run = took_s < old.step_timeout_seconds - _SLACK_S
            limits = ("run_timeout_seconds",) if of_the_run else ("step_timeout_seconds",)
        else:
            return None
        for name in limits:
            if getattr(new, name) > getattr(old, name):
                words = f"{name}: {getattr(new, name):g}: would have been let alone for longer"
                return self._difference(
                    DifferenceKind.NOT_CUT_OFF, index, f"{kind} after {took_s:.1f} s", words
                )
        return None

    def _active_s(self, index: int, policy: Policy) -> float:
        before_s = max(0.0, self._state.clocks.active_s + self._spent_s)
        at = self._events[index].at
        return active_seconds(before_s, self._state.clocks.active_since, at, policy.run_timeout_seconds)

    def _another_delivery(self, index: int, then: str, policy: Policy) -> Difference | None:
        left = policy.delivery_max - self._state.driver.delivery
        if left <= 0:
            words = "dead letter: every delivery was used"
            return self._difference(DifferenceKind.OTHER_END, index, then, words)
        words = f"may be delivered {left} more times"
        return self._difference(
            DifferenceKind.GOES_ON, index, then, words, more_attempts_max=left * policy.step_max_attempts
        )

    def _no_other_delivery(
        self, index: int, then: str, now: str, first: int | None = None
    ) -> Difference | None:
        """All that was begun afterwards would not have been."""
        after = self._events[index + 1 if first is None else first :]
        starts = [event for event in after if isinstance(event.payload, ev.AttemptStarted)]
        if not starts:
            return self._difference(DifferenceKind.OTHER_END, index, then, now)
        return self._difference(
            DifferenceKind.STOPS_EARLIER,
            index,
            then,
            now,
            attempts_saved=len(starts),
            seconds_saved=elapsed_s(starts[0].at, after[-1].at, SPAN_MAX_S),
            recovery_lost=any(isinstance(event.payload, ev.RunSucceeded) for event in after),
        )

    def _to_the_end_of_the_step(self, index: int, step: int) -> tuple[int, int, bool]:
        """Where the step ended in the record, the attempts it had until then, and whether it had passed."""
        attempts, last = 0, index
        for place in range(index + 1, len(self._events)):
            payload, last = self._events[place].payload, place
            match payload:
                case ev.AttemptStarted(step_index=of) if of == step and payload.phase == "main":
                    attempts += 1
                case ev.AttemptFinished(step_index=of) if of == step and payload.phase in ("main", "rescue"):
                    return place, attempts, payload.phase == "main"
                case ev.AttemptFailed(step_index=of, strategy="none", not_begun=False) if of == step:
                    return place, attempts, False
                case ev.RunFailed() | ev.RunDeadLettered() | ev.RunCancelled() | ev.Escalated():
                    return place, attempts, False
        return last, attempts, False

    def _seconds(self, index: int, end: int) -> float:
        return elapsed_s(self._events[index].at, self._events[end].at, SPAN_MAX_S)

    def _difference(
        self,
        kind: DifferenceKind,
        index: int,
        then: str,
        now: str,
        *,
        attempts_saved: int = 0,
        seconds_saved: float = 0,
        recovery_lost: bool = False,
        more_attempts_max: int | None = None,
    ) -> Difference:
        event = self._events[index]
        about = event.payload if isinstance(event.payload, ev.StepPayload) else None
        return Difference(
            kind=kind,
            seq=event.seq,
            at=event.at.iso(),
            recorded=then,
            instead=now,
            step_id=about.step_id if about else None,
            attempt=about.attempt if about else None,
            attempts_saved=attempts_saved,
            seconds_saved=seconds_saved,
            recovery_lost=recovery_lost,
            more_attempts_max=more_attempts_max,
        )


def _words(one: Made) -> str:
    if one.goes_on:
        return f"{one.strategy} after {one.delay_ms / 1000:g} s ({one.reason})"
    return f"{'escalated' if one.escalates else 'given up'} ({one.reason})"


def differing_keys(new: Policy, old: Policy) -> set[str]:
    return {name for name in Policy.__struct_fields__ if getattr(new, name) != getattr(old, name)}
