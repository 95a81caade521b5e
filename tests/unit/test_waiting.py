"""How long slow targets are waited for. Of `recoup.kernel.waiting`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from recoup.kernel.waiting import SAMPLES_MAX, TARGETS_MAX, WORTH_MS, LearnedWaits
from recoup.model.events import Payload, TargetHealed, TargetTimed
from recoup.model.policy import Policy

KEY = ("pay", "d1")
POLICY = Policy()


def timed(took_ms: int, step_id: str = "pay") -> TargetTimed:
    return TargetTimed(
        step_id=step_id, step_index=0, attempt=1, run_id="run-1", target_digest="d1", took_ms=took_ms
    )


def healed(*, verified: bool) -> TargetHealed:
    return TargetHealed(
        step_id="pay",
        step_index=0,
        attempt=1,
        run_id="run-1",
        target="it",
        verified=verified,
        confidence=0.9,
        margin=0.9,
        found_by="model",
        target_digest="d1",
    )


def after(*payloads: Payload) -> LearnedWaits:
    waits = LearnedWaits()
    for payload in payloads:
        waits.add(payload)
    return waits


def test_what_was_kept_is_gone_on_with() -> None:
    kept = after(timed(2000)).took_ms
    waits = LearnedWaits(kept)
    waits.add(timed(6000))
    assert (waits.took_ms, waits.wait_s(KEY, POLICY)) == ({KEY: (2000, 6000)}, 9)
    assert kept == {KEY: (2000,)}


def test_a_page_that_takes_six_seconds_is_waited_for_nine() -> None:
    assert after(timed(6000)).wait_s(KEY, POLICY) == 9
    assert after(timed(6000)).wait_s(("pay", "another"), POLICY) == 0


def test_one_of_twenty_may_be_an_exception() -> None:
    assert after(*[timed(2000)] * 19, timed(60_000)).wait_s(KEY, POLICY) == 3
    assert after(*[timed(2000)] * 18, *[timed(8000)] * 2).wait_s(KEY, POLICY) == 12


@given(
    st.lists(st.integers(0, 10**8), max_size=60),
    st.floats(0, 300),
    st.floats(1, 86_400),
    st.floats(1, 86_400),
)
def test_no_wait_is_longer_than_the_policy_and_the_step_allow(
    took: list[int], most_s: float, step_s: float, idle_s: float
) -> None:
    policy = Policy(learned_wait_max_s=most_s, step_timeout_seconds=step_s, step_idle_timeout_seconds=idle_s)
    wait_s = after(*map(timed, took)).wait_s(KEY, policy)
    assert 0 <= wait_s <= min(most_s, step_s / 2, idle_s / 2)
    assert wait_s <= 1.5 * (max(took[-SAMPLES_MAX:], default=0) / 1000)


def test_only_slow_ones_and_those_that_were_slow_are_told() -> None:
    assert not after().is_worth_telling(KEY, WORTH_MS - 1)
    assert after().is_worth_telling(KEY, WORTH_MS)
    assert after(timed(WORTH_MS)).is_worth_telling(KEY, 10)


def test_what_became_quick_is_forgotten() -> None:
    waits = after(timed(6000), *[timed(50)] * (SAMPLES_MAX - 1))
    assert waits.is_worth_telling(KEY, 50)
    waits.add(timed(50))
    assert (waits.wait_s(KEY, POLICY), waits.is_worth_telling(KEY, 50)) == (0, False)


def test_a_target_that_changed_is_not_waited_for_as_it_was() -> None:
    assert after(timed(6000), healed(verified=False)).wait_s(KEY, POLICY) == 9
    assert after(timed(6000), healed(verified=True)).wait_s(KEY, POLICY) == 0


def test_of_too_many_targets_the_oldest_are_forgotten() -> None:
    waits = after(timed(6000), *(timed(2000, f"step-{number}") for number in range(TARGETS_MAX)))
    assert waits.wait_s(KEY, POLICY) == 0
    assert waits.wait_s(("step-0", "d1"), POLICY) == 3
