"""A state that was given out never changes, and the next one follows from it and the event alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.replay.test_golden_ledgers import GOLDEN, events_of
from tests.unit.test_fold_handlers import (
    CLEANS,
    CLS,
    KIND,
    NOW,
    OWNER,
    RESCUES,
    about,
    accepted,
    fail,
    finish,
    run_of,
    start,
    step,
)

from recoup.kernel.fold import advance, fold
from recoup.model import events as ev
from recoup.model import run as model
from recoup.model.events import Event
from recoup.model.plan import Rebuild, Repeat
from recoup.model.run import RunState
from recoup.model.workspace import Snapshot

STEPS = (
    step(0, always=CLEANS, rescue=RESCUES),
    step(1, repeat=Repeat.NEVER),
    step(2, rebuild=Rebuild.RERUN),
)
TREE = Snapshot("t", "m")


def encoded(state: RunState) -> bytes:
    return msgspec.json.encode(state)


def following(state: RunState, fact: ev.Payload) -> RunState:
    return advance(state, fact, NOW, state.seq + 1)


def attempt_ends(state: RunState) -> Iterator[ev.Payload]:
    for record in state.steps:
        if record.open is not None:
            number, about_it = record.open.attempt, about(record.index, record.open.attempt)
            yield finish(record.index, number)
            yield fail(record.index, number)
            yield fail(record.index, number, not_begun=True)
            yield fail(record.index, number, gives_up=True, redeliver=True)
            yield ev.AttemptLaunched(**about_it, keeper=OWNER)
            yield ev.AgentSessionKnown(**about_it, session_id="s")
        else:
            for phase in ("main", "rebuild", "rescue", "always"):
                yield start(record.index, record.spent.attempts + 1, phase=phase)


def facts_of_steps(index: int) -> Sequence[ev.Payload]:
    of = about(index, None)
    return (
        ev.StepInvalidated(**of, reason="changed"),
        ev.StepSkipped(**of, reason="when"),
        ev.CheckpointStored(**of, snapshot=TREE, workspace=1),
        ev.SelfHealTriggered(**of, strategy="soft_reset", delay_ms=1),
        ev.SelfHealEscalated(**of, strategy="hard_reset", delay_ms=1),
        ev.ResumeFromStep(**of, restores=True),
        ev.SelfHealExhausted(**of, gives_up=True, retryable=False, failure_class=CLS, failure_kind=KIND),
        ev.PageLost(**of, reason="", steps=("s0",)),
    )


FACTS_OF_RUNS: Sequence[ev.Payload] = (
    ev.RunResumed(delivery=2, epoch=2, owner=OWNER, reason="next delivery"),
    ev.RunTakenOver(epoch=3, previous_epoch=1, previous_owner=OWNER, reason="lost"),
    ev.RunInterrupted(reason="Ctrl-C", epoch=1, machine_trouble=True),
    ev.RunWaiting(reason="gate", waiting_for="approval"),
    ev.RunBlocked(reason="quarantined", until=None),
    ev.Escalated(escalation_id="e", reason="", hint="", step_id="s0", step_index=0, page_steps=("s0",)),
    ev.CheckpointRestored(step_index=None, tree="t", workspace=2, reason="hard reset"),
    ev.WorkspaceHandedOver(actor="ann", workspace=1, tree="t"),
    ev.WorkspaceChanged(
        workspace=1, before="t", snapshot=TREE, diff_hash="d", changed_files=(), changed_files_count=0
    ),
    ev.RunEventsLost(loss_id="l", evidence="head", reason="lost"),
    ev.RunFailed(reason="", failure_class=None, failure_kind=None, retryable=True, delivery=1),
    *(accepted(action) for action in ("pause", "resume", "takeover", "retry_step", "hard_reset_step")),
    accepted("settle", argument="done"),
)


def possible_facts(state: RunState) -> list[ev.Payload]:
    of_steps = [fact for index in range(len(STEPS)) for fact in facts_of_steps(index)]
    return [*attempt_ends(state), *of_steps, *FACTS_OF_RUNS]


@given(st.lists(st.integers(0, 1_000), max_size=25))
def test_a_state_that_was_given_out_never_changes(choices: list[int]) -> None:
    given_out = [run_of(*STEPS)]
    before = [encoded(given_out[0])]
    for choice in choices:
        facts = possible_facts(given_out[-1])
        given_out.append(following(given_out[-1], facts[choice % len(facts)]))
        before.append(encoded(given_out[-1]))
    assert [encoded(state) for state in given_out] == before


@given(st.lists(st.integers(0, 1_000), max_size=12))
def test_the_next_state_follows_from_the_last_one_and_the_event_alone(choices: list[int]) -> None:
    state = run_of(*STEPS)
    for choice in choices:
        facts = possible_facts(state)
        before = encoded(state)
        for other in facts:
            following(state, other)  # whatever else may have happened
        first, second = (following(state, facts[choice % len(facts)]) for _ in range(2))
        assert first == second and encoded(first) == encoded(second) and encoded(state) == before
        state = first


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_recorded_histories_leave_every_state_on_their_way_as_it_was(path: Any) -> None:
    golden = msgspec.json.decode(path.read_bytes())
    events = events_of(golden)
    states = [fold(golden["runId"], events[:1])]
    before = [encoded(states[0])]
    for event in events[1:]:
        states.append(advance(states[-1], event.payload, event.at, event.seq))
        before.append(encoded(states[-1]))
    assert [encoded(state) for state in states] == before
    assert states[-1] == fold(golden["runId"], events)


def test_an_event_that_does_not_fit_leaves_the_state_as_it_was() -> None:
    state = following(run_of(*STEPS), start(0))
    before = encoded(state)
    with pytest.raises(AssertionError, match="attempt 5 follows 0"):
        following(state, start(0, 5))
    assert encoded(state) == before


def test_an_event_of_one_step_shares_all_others() -> None:
    state = run_of(*map(step, range(1_000)))
    other = following(state, start(500))
    assert [one.index for one, two in zip(state.steps, other.steps, strict=True) if one is not two] == [500]
    assert (other.plan is state.plan, other.submission is state.submission) == (True, True)


def test_no_part_of_a_state_can_be_changed() -> None:
    kinds = [kind for kind in vars(model).values() if isinstance(kind, type)]
    parts = [kind for kind in kinds if issubclass(kind, msgspec.Struct) and kind.__module__ == model.__name__]
    assert {RunState, model.StepRecord, model.OpenAttempt} <= {*parts}
    for kind in parts:
        assert kind.__struct_config__.frozen, kind
        for name, declared in get_type_hints(kind).items():
            assert not {list, dict, set} & {*_parts_of(declared)}, f"{kind.__name__}.{name} can be changed"


def _parts_of(declared: Any) -> Iterator[Any]:
    yield getattr(declared, "__origin__", declared)
    for part in get_args(declared):
        yield from _parts_of(part)


def test_cached_folds_are_equal_whatever_pages_they_were_read_in() -> None:
    payloads = [start(0), fail(0), start(0, 2), finish(0, 2), start(1), finish(1)]
    whole = run_of(*STEPS)
    events = [
        Event("run:r", seq, NOW, fact.TYPE, fact, b"") for seq, fact in enumerate(payloads, whole.seq + 1)
    ]
    for event in events:
        whole = advance(whole, event.payload, event.at, event.seq)
    for cut in range(len(events)):
        part = run_of(*STEPS)
        for page in (events[:cut], events[cut:]):
            for event in page:
                part = advance(part, event.payload, event.at, event.seq)
        assert part == whole and encoded(part) == encoded(whole)
