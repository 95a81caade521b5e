from __future__ import annotations

import pytest

from recoup.terminal import moments


@pytest.mark.parametrize("moment", ["soon\x1b[2J", "9999-99-99", 10**30])
def test_what_is_no_moment_is_shown_as_it_is(moment: str | int) -> None:
    assert "\x1b" not in moments.minute(moment) and moments.minute(moment)


def test_a_moment_from_a_file_and_from_a_row_are_the_same() -> None:
    assert moments.second("2026-11-18T02:28:57.000000Z") == moments.second(1_794_968_937_000_000)
