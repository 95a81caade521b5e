"""Who has claimed a deed, and what looking back at a run says about it, never contradict each other."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from recoup.kernel.deeds import CLAIMING, Claim, GivenBack, claim_of, lost_words
from recoup.kernel.earlier import look_back
from recoup.kernel.fold import fold
from recoup.model import events as ev
from recoup.model.events import PAYLOADS, Event
from recoup.model.failure import Facts, FailureClass, FailureKind
from recoup.model.ids import ProcessIdentity
from recoup.model.instant import Instant
from recoup.model.plan import BrowserAction, BrowserVerb, Plan, Repeat, RunAction, Step
from recoup.model.run import RunState, StepRecord

AT = Instant(1_800_000_000_000_000, 1_000_000, "boot-1")
KEEPER = ProcessIdentity("here", "boot-1", 4, 2)
PLAN = Plan(name="w", steps=(Step(id="pay", action=RunAction("pay"), repeat=Repeat.NEVER),))
SUBMITTED = ev.RunSubmitted(
    workflow="w", plan_digest="p", plan=PLAN, plan_redacted=False, inputs={}, policy_digest="q"
)
_NOT_SPENT = ("lost before launch", "cut off in rescue")

turns = st.lists(
    st.sampled_from(
        [
            *("done", "failed", "unknown", "useless", "lost before launch", "cut off in rescue"),
            *("settled not-done", "settled done"),
        ]
    ),
    max_size=8,
)


def claimed_after(events: list[Event]) -> dict[str, str]:
    """Arguments and the start that claimed them, as a ledger keeps them for one run."""
    claims: dict[str, str] = {}
    for event in events:
        match claim_of(event.payload):
            case Claim(_, digest, start):
                claims.setdefault(digest, start)
            case GivenBack(_, None):
                claims.clear()
            case GivenBack(_, start):
                claims = {digest: by for digest, by in claims.items() if by != start}
    return claims


def history(wanted: list[str], *, open_at_the_end: bool, launched: bool) -> list[Event]:
    facts: list[ev.Payload] = [SUBMITTED]
    attempt = 1
    for turn in wanted:
        if turn.startswith("settled"):
            facts.append(settled(turn.removeprefix("settled ")))
            continue
        phase = "rescue" if turn == "cut off in rescue" else "main"
        facts.append(msgspec.structs.replace(started(attempt), phase=phase))
        facts += [] if turn == "lost before launch" else [launch(attempt)]
        facts.append(end(turn, attempt))
        attempt += turn not in _NOT_SPENT
    if open_at_the_end:
        facts += [started(attempt), *([launch(attempt)] if launched else [])]
    return [Event("run:r", seq, AT, fact.TYPE, fact, b"") for seq, fact in enumerate(facts, 1)]


def started(attempt: int) -> ev.AttemptStarted:
    return ev.AttemptStarted(
        step_id="pay",
        step_index=0,
        attempt=attempt,
        delivery=1,
        kind="run",
        args_digest="d",
        pre_state=None,
        workspace=None,
        inline=False,
        once=True,
    )


def launch(attempt: int) -> ev.AttemptLaunched:
    return ev.AttemptLaunched(step_id="pay", step_index=0, attempt=attempt, keeper=KEEPER)


def end(turn: str, attempt: int) -> ev.Payload:
    if turn == "done":
        return ev.AttemptFinished(
            step_id="pay", step_index=0, attempt=attempt, verdict="passed", duration_ms=1
        )
    kind = FailureKind.OUTPUT_INVALID if turn == "useless" else FailureKind.EXIT_NONZERO
    return ev.AttemptFailed(
        step_id="pay",
        step_index=0,
        attempt=attempt,
        failure_class=FailureClass.UNKNOWN,
        failure_kind=kind,
        facts=Facts(kind=kind),
        summary="it broke",
        outcome_known=turn != "unknown",
        not_begun=turn in _NOT_SPENT,
        phase="rescue" if turn == "cut off in rescue" else "main",
    )


def settled(how: str) -> ev.ControlHandled:
    return ev.ControlHandled(
        command_id="c",
        action="settle",
        outcome="accepted",
        reason="looked",
        actor="op",
        epoch=1,
        step_id="pay",
        argument=how,
    )


def looked_back(events: list[Event]) -> tuple[bool, RunState]:
    state = fold("r", events)
    return "pay" in look_back(state, PLAN, events).performed, state


@given(turns, st.booleans(), st.booleans())
def test_whatever_may_have_been_done_is_claimed_and_nothing_else_is_once_attempts_have_ended(
    wanted: list[str], open_at_the_end: bool, launched: bool
) -> None:
    events = history(wanted, open_at_the_end=open_at_the_end, launched=launched)
    performed, state = looked_back(events)
    claimed = "d" in claimed_after(events)
    assert claimed or not performed
    assert claimed == (performed or state.steps[0].open is not None)


def test_an_attempt_that_may_be_repeated_claims_nothing() -> None:
    start = started(1)
    assert claim_of(start) == Claim("pay", "d", "main-1")
    assert claim_of(msgspec.structs.replace(start, once=False)) is None


def test_every_type_that_can_change_a_claim_is_looked_at() -> None:
    assert PAYLOADS.keys() >= CLAIMING
    assert {fact.TYPE for fact in (started(1), end("failed", 1), settled("not-done"))} == CLAIMING


def test_what_was_left_in_a_lost_browser_is_gone_whatever_a_person_answers() -> None:
    click = Step(id="pay", action=BrowserAction(verb=BrowserVerb.CLICK), repeat=Repeat.NEVER)
    record = StepRecord("pay", 0, "browser")
    assert lost_words(click, record, FailureKind.DRIVER_LOST).startswith("Its cookies")
    assert lost_words(click, record, FailureKind.EXIT_NONZERO) == ""
    assert lost_words(PLAN.steps[0], record, FailureKind.DRIVER_LOST) == ""
