"""Time since an event."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from recoup.kernel.elapsed import elapsed_s
from recoup.model.instant import Instant

MICROSECONDS = st.integers(0, 4_000_000_000_000_000)
PERIODS_S = st.floats(0, 1e7, allow_nan=False)
INSTANTS = st.builds(Instant, MICROSECONDS, MICROSECONDS, st.sampled_from(["boot-1", "boot-2"]))


@given(since=INSTANTS, now=INSTANTS, period_s=PERIODS_S)
def test_time_since_an_event_is_never_negative(since: Instant, now: Instant, period_s: float) -> None:
    assert elapsed_s(since, now, period_s) >= 0


@given(since=INSTANTS, wall_us=MICROSECONDS, boot_us=MICROSECONDS, period_s=PERIODS_S)
def test_across_boots_it_never_exceeds_one_period(
    since: Instant, wall_us: int, boot_us: int, period_s: float
) -> None:
    assert elapsed_s(since, Instant(wall_us, boot_us, "boot-3"), period_s) <= period_s


@given(since=INSTANTS, seconds=st.integers(0, 10_000_000), jumped_us=MICROSECONDS, period_s=PERIODS_S)
def test_within_one_boot_the_wall_clock_does_not_matter(
    since: Instant, seconds: int, jumped_us: int, period_s: float
) -> None:
    now = Instant(jumped_us, since.boot_us + seconds * 1_000_000, since.boot_id)
    assert abs(elapsed_s(since, now, period_s) - seconds) < 1e-6


@given(since=INSTANTS, first=MICROSECONDS, second=MICROSECONDS, period_s=PERIODS_S)
def test_across_boots_it_grows_with_the_wall_clock(
    since: Instant, first: int, second: int, period_s: float
) -> None:
    earlier, later = (Instant(us, 0, "boot-3") for us in sorted((first, second)))
    assert elapsed_s(since, earlier, period_s) <= elapsed_s(since, later, period_s)
