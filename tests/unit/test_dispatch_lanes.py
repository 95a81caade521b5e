"""Lanes and the hints in them."""

from __future__ import annotations

import string

from hypothesis import given
from hypothesis import strategies as st

from recoup.dispatch.lanes import hint_of, lane_of, one_for_each_run, open_lanes, queue_of
from recoup.model.dispatch import PRIORITY_MAX, Hint

NAMES = st.text(string.ascii_letters + string.digits, min_size=1, max_size=1).flatmap(
    lambda first: st.text(string.ascii_letters + string.digits + "_.-", max_size=10).map(
        lambda rest: first + rest
    )
)
HINTS = st.builds(
    Hint,
    run_id=st.sampled_from("abc"),
    queue=NAMES,
    priority=st.integers(-PRIORITY_MAX, PRIORITY_MAX),
    needs=st.sets(NAMES, max_size=4).map(lambda names: tuple(sorted(names))),
)


@given(hint=HINTS)
def test_a_lane_says_all_that_a_hint_needs(hint: Hint) -> None:
    assert hint_of(hint.run_id, lane_of(hint), hint.priority) == hint
    assert queue_of(lane_of(hint)) == hint.queue


@given(hint=HINTS, queues=st.sets(NAMES), capabilities=st.sets(NAMES))
def test_a_lane_is_open_to_whoever_serves_its_queue_and_meets_its_needs(
    hint: Hint, queues: set[str], capabilities: set[str]
) -> None:
    lane = lane_of(hint)
    meets = hint.queue in queues and set(hint.needs) <= capabilities
    assert open_lanes([lane], queues, capabilities) == ([lane] if meets else [])
    assert open_lanes([lane], {hint.queue}, set(hint.needs)) == [lane]


@given(hints=st.lists(HINTS, max_size=6))
def test_of_several_hints_for_a_run_the_highest_priority_and_the_latest_lane_count(hints: list[Hint]) -> None:
    kept = one_for_each_run(hints)
    assert [hint.run_id for hint in kept] == sorted({hint.run_id for hint in hints})
    for hint in kept:
        same = [each for each in hints if each.run_id == hint.run_id]
        assert hint.priority == max(each.priority for each in same)
        assert (hint.queue, hint.needs) == (same[-1].queue, same[-1].needs)
