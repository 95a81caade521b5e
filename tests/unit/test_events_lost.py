"""What a run knows after the database lost events of it."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.test_fold import NOW, OWNER, finish, start, tell

from recoup.clock import SharedClock
from recoup.kernel.earlier import look_back
from recoup.kernel.fold import submitted
from recoup.kernel.reuse import repeated
from recoup.ledger.postgres.witness import FILES_MAX, Acknowledged, Witness
from recoup.model import events as ev
from recoup.model.plan import Plan, Repeat, RunAction, Step
from recoup.model.run import RunState

LOST = ev.RunEventsLost(loss_id="1", evidence="acknowledged", reason="event 9 is missing")
RULES = st.lists(st.sampled_from(Repeat), min_size=1, max_size=6)


def begun(rules: list[Repeat]) -> RunState:
    steps = tuple(
        Step(id=f"s{number}", action=RunAction("x"), repeat=rule) for number, rule in enumerate(rules)
    )
    first = ev.RunSubmitted(
        workflow="w",
        plan_digest="d",
        plan=Plan(name="w", steps=steps),
        plan_redacted=False,
        inputs={},
        policy_digest="p",
    )
    state = submitted("r", first, NOW)
    return tell(state, ev.RunStarted(delivery=1, epoch=1, owner=OWNER, policy_digest="p"))


def settled(index: int, answer: str) -> ev.ControlHandled:
    return ev.ControlHandled(
        command_id="c", action="settle", outcome="accepted", reason="r", actor="a", epoch=1, step_id=f"s{index}",
        argument=answer,
    )  # fmt: skip


@given(RULES, st.integers(0, 6))
def test_exactly_the_steps_that_must_not_be_repeated_and_have_not_passed_are_asked_about(
    rules: list[Repeat], passed: int
) -> None:
    state = begun(rules)
    for index in range(min(passed, len(rules))):
        state = tell(state, start(index), finish(index))
    state = tell(state, LOST)
    asked = [record.index for record in state.steps if record.doubt.to_settle]
    assert asked == [n for n, rule in enumerate(rules) if rule is Repeat.NEVER and n >= passed]


@given(st.lists(st.just(Repeat.NEVER), min_size=2, max_size=6), st.data())
def test_a_step_that_was_not_done_says_that_none_after_it_was(
    rules: list[Repeat], data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, len(rules) - 1))
    state = tell(begun(rules), LOST, settled(index, "not-done"))
    assert [record.doubt.to_settle for record in state.steps] == [n < index for n in range(len(rules))]


def test_a_step_that_was_not_done_says_nothing_about_safe_ones() -> None:
    state = tell(begun([Repeat.NEVER, Repeat.SAFE, Repeat.NEVER]), LOST, settled(0, "not-done"))
    assert not any(record.doubt.to_settle for record in state.steps)


def test_a_step_that_was_done_says_nothing_about_those_after_it() -> None:
    state = tell(begun([Repeat.NEVER, Repeat.NEVER]), LOST, settled(0, "done"))
    assert [record.doubt.to_settle for record in state.steps] == [False, True]


def test_a_linked_run_does_not_repeat_what_may_have_been_done() -> None:
    state = tell(begun([Repeat.NEVER]), LOST)
    earlier = look_back(state, state.plan, [])
    (deed,) = repeated(earlier, state.plan.steps[0], ["sha256:any"])
    assert "may have been done" in deed.words


def acknowledged(seq: int) -> Acknowledged:
    return Acknowledged("ledger", "run:r", seq, 1, 2, "boot")


def test_what_one_process_was_told_is_read_by_the_next_one(tmp_path: Path) -> None:
    Witness(tmp_path).write(acknowledged(7), durable=True)
    assert [last for _, last in Witness(tmp_path).read("ledger")] == [acknowledged(7)]
    assert list(Witness(tmp_path).read("another ledger")) == []


def test_a_damaged_witness_says_nothing_and_old_ones_go(tmp_path: Path) -> None:
    for seq in range(FILES_MAX + 3):
        Witness(tmp_path).write(acknowledged(seq), durable=False)
    (tmp_path / "torn.json").write_bytes(b'{"ledgerId": "led')
    witness = Witness(tmp_path)
    assert len(list(witness.read("ledger"))) == FILES_MAX + 3
    witness.tidy()
    assert len(list(tmp_path.iterdir())) == FILES_MAX


@given(st.integers(-(10**12), 10**12))
def test_a_shared_clock_shows_what_it_was_told_whatever_its_machine_shows(off_us: int) -> None:
    clock = SharedClock()
    own = clock.now()
    clock.follow(own.wall_us + off_us, own.boot_us)
    now = clock.now()
    assert now.wall_us - (own.wall_us + off_us) == now.boot_us - own.boot_us
    assert abs(clock.ahead_s + off_us / 1e6) < 5
