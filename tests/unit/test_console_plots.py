"""Charts of the console: what they say is what they were given, and nothing of it becomes markup."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from recoup.gateway.console.plots import POINTS_MAX, Series, bars, line, number, stacked_bars

HOSTILE = '<script>alert("1")</script>'


def test_what_is_drawn_can_be_read_as_a_table() -> None:
    made = bars("Heals", [("Mon", 3), ("Tue", None)], unit="heals")
    assert "<td" in made and ">3</td>" in made and ">—</td>" in made
    assert 'role="img"' in made and "<desc>From Mon to Tue, in heals; last: heals 3.</desc>" in made


def test_names_and_labels_never_become_markup() -> None:
    for made in (
        bars(HOSTILE, [(HOSTILE, 1)]),
        line(HOSTILE, [HOSTILE], [Series(HOSTILE, [1])]),
        stacked_bars(HOSTILE, [HOSTILE], [Series(HOSTILE, [1]), Series(HOSTILE, [2])]),
    ):
        assert "<script" not in made
        ElementTree.fromstring(made)


def test_bars_upon_each_other_fill_the_height_of_their_sum() -> None:
    made = stacked_bars("Runs", ["a"], [Series("good", [6], "passed"), Series("bad", [4], "failed")])
    heights = [float(high) for high in re.findall(r'<rect[^>]*height="([\d.]+)"><title>', made)]
    assert [round(high, 1) for high in heights] == [61.2, 40.8]
    # ten, their sum, is the top of the axis


def test_a_curve_is_interrupted_where_nothing_is_known() -> None:
    made = line("Success", ["a", "b", "c"], [Series("rate", [1, None, 0.5])], top=1.0)
    path = re.search(r' d="([^"]+)"', made)
    assert path is not None and path.group(1).count("M") == 2 and "L" not in path.group(1)


def test_nothing_is_drawn_as_nothing_known() -> None:
    assert "Nothing is known yet." in line("Success", [], [Series("rate", [])])
    assert "Nothing is known yet." in bars("Heals", [])


def test_only_the_newest_points_are_kept() -> None:
    many = [(str(at), float(at)) for at in range(POINTS_MAX + 5)]
    made = bars("Many", many)
    assert made.count('<th scope="row">') == POINTS_MAX and ">4<" not in made


def test_numbers_are_said_as_short_as_they_can_be() -> None:
    assert [number(value) for value in (0, 1200, 0.5, 0.123456)] == ["0", "1,200", "0.5", "0.123"]


def test_axes_end_at_round_numbers() -> None:
    assert ">50<" in bars("a", [("x", 21)]) and ">0.05<" in bars("a", [("x", 0.03)])
