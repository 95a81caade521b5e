"""The page about benchmarks: made of what was measured, one section at a time, with what we lose."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from benchmarks import machine
from benchmarks.__main__ import KEPT, NAMES, about_of
from benchmarks.machine import Machine
from benchmarks.page import page
from benchmarks.peers.environments import last_words
from benchmarks.report import Figure, LeftOut, Peer, against, lines, of_rounds
from benchmarks.results import Results, Section, read, write

MACHINE = Machine(2, "a processor", 8.0, "Linux 6", "3.11.7", "ext4")


def section(name: str, *figures: Figure, **others: object) -> Section:
    first = Section(
        name=name,
        about=f"About {name}.",
        command=f"python -m benchmarks {name}",
        measured_at="2026-11-17T00:00:00+00:00",
        took_s=12.0,
        machine=MACHINE,
        busy_cores=0.1,
        versions={"Recoup": "1.0 at abc", "DBOS": "3.3.0"},
        figures=figures,
    )
    return msgspec.structs.replace(first, **others)


def page_of(*sections: Section) -> str:
    results = Results()
    for each in sections:
        results = results.with_section(each)
    return page(results, [each.name for each in sections])


def part(text: str, title: str) -> str:
    return text.split(f"## {title}\n")[1].split("\n## ")[0]


def test_a_figure_is_shown_with_its_spread_its_bar_and_whether_it_was_met() -> None:
    figure = of_rounds("a run", [1.0, 2.0, 4.0], "ms", bar=3, at_most=True)
    assert "| a run | 2 ms | 1–4 of 3 | at most 3 | yes |" in page_of(section("runs", figure))


def test_a_section_says_what_it_is_about_and_the_command_that_makes_it() -> None:
    told = part(page_of(section("runs", Figure("a run", 1, "ms"))), "runs")
    assert "About runs." in told
    assert "`python -m benchmarks runs`, 2026-11-17 00:00 UTC, 12 s." in told


def test_the_machine_and_the_versions_are_told_with_what_each_keeps() -> None:
    told = page_of(section("runs", Figure("a run", 1, "ms")))
    assert "2 cores (a processor), 8 GB of memory, ext4, Linux 6, Python 3.11.7." in told
    assert "| DBOS | 3.3.0 | each step's result and the workflow's state, synced |" in told


def test_peers_stand_beside_our_figure_with_the_ratio_and_what_they_keep() -> None:
    peer = against("DBOS", [10.0, 20.0, 30.0], [5.0, 5.0, 5.0], floor=1, keeps="all of it")
    told = page_of(section("runs", of_rounds("runs", [10.0, 20.0, 30.0], "/s", peers=[peer], keeps="more")))
    assert "| runs | Recoup | 20 /s | 10–30 of 3 |  |  |  | more |" in told
    assert "|  | DBOS | 5 /s | 5–5 of 3 | 4 | at least 1 | yes | all of it |" in told


@pytest.mark.parametrize(("at_most", "theirs"), [(False, 20.0), (True, 5.0)])
def test_to_lose_is_a_ratio_below_one_whether_more_or_less_is_better(at_most: bool, theirs: float) -> None:
    peer = against("Restate", [10.0], [theirs], at_most=at_most)
    assert peer.ratio == 0.5
    told = part(
        page_of(section("runs", Figure("a run", 10.0, "x", at_most=at_most, peers=(peer,)))), "Where we lose"
    )
    assert "Behind another system" in told
    assert "[runs](#runs): a run | 10 x | Restate |" in told


def test_turns_are_compared_turn_by_turn() -> None:
    peer = against("bare", [1.0, 10.0, 2.0], [2.0, 10.0, 10.0], paired=True)
    assert peer.ratio == 0.5
    assert peer.ratio_spread is not None
    assert (peer.ratio_spread.low, peer.ratio_spread.high) == (0.2, 1.0)


def test_the_worst_loss_comes_first() -> None:
    peers = (Peer("near", 11, 0.9), Peer("far", 100, 0.1), Peer("behind us", 5, 2))
    told = part(page_of(section("runs", Figure("a run", 10, "/s", peers=peers))), "Where we lose")
    assert told.index("| far |") < told.index("| near |")
    assert "behind us" not in told


def test_to_be_behind_the_bare_work_is_told_apart_as_a_price() -> None:
    peers = (Peer("bare SQLite", 100, 0.7, bare=True),)
    told = part(page_of(section("runs", Figure("a run", 70, "/s", peers=peers))), "Where we lose")
    assert "Recoup is not behind another system in any benchmark." in told
    assert "Behind the bare work" in told and "| bare SQLite |" in told


def test_missed_bars_and_floors_are_where_we_lose() -> None:
    figure = Figure(
        "a run", 30, "ms", bar=25, at_most=True, peers=(Peer("bare", 9, 0.3, floor=0.6, bare=True),)
    )
    told = part(page_of(section("runs", figure)), "Where we lose")
    assert "| [runs](#runs): a run | 30 ms | at most 25 |" in told
    assert "| [runs](#runs): a run, over bare | 0.3 | at least 0.6 |" in told


def test_nothing_is_lost_where_every_bar_is_met_and_nobody_is_ahead() -> None:
    told = part(page_of(section("runs", Figure("a run", 1, "ms", bar=2, at_most=True))), "Where we lose")
    assert "No bar was missed." in told and "|" not in told


def test_where_nothing_was_measured_nothing_is_claimed() -> None:
    assert "nothing was measured" in part(page(Results(), ["runs"]), "Where we lose")


def test_what_was_left_out_is_told_with_the_reason() -> None:
    told = page_of(section("signatures", left_out=(LeftOut("everything", "../shared/x is not here"),)))
    assert "| [signatures](#signatures) | not run: ../shared/x is not here |" in told
    assert "Not run: everything: ../shared/x is not here" in told


def test_a_benchmark_that_failed_says_so_in_place_of_its_figures() -> None:
    told = page_of(section("runs", failed="it failed: no space left"))
    assert "Not run: it failed: no space left" in told


def test_one_that_was_never_run_is_named() -> None:
    assert "| runs | not run yet |" in page(Results(), ["runs"])


def test_figures_of_a_busy_machine_carry_a_warning() -> None:
    assert "busy (1.7 cores in use)" in page_of(section("runs", Figure("a run", 1, "ms"), busy_cores=1.7))
    assert "busy" not in page_of(section("runs", Figure("a run", 1, "ms"), busy_cores=0.3))


def test_how_fast_the_machine_was_is_told_beside_the_bars_that_were_met() -> None:
    told = page_of(section("runs", Figure("a run", 1, "ms"), pace_ms=(4.04, 7.96)))
    assert "| [runs](#runs) | no bars | 12 s | 4.0 and 8.0 ms |" in told
    assert "| [runs](#runs) | no bars | 12 s |  |" in page_of(section("runs", Figure("a run", 1, "ms")))


def test_the_pace_is_that_of_work_which_is_really_done() -> None:
    assert 0.5 < machine.pace_ms() < 500


def test_a_section_from_another_machine_says_which() -> None:
    older = section(
        "old",
        Figure("a run", 1, "ms"),
        machine=msgspec.structs.replace(MACHINE, cores=64),
        measured_at="2026-01-01T00:00:00+00:00",
    )
    told = page_of(older, section("new", Figure("a run", 1, "ms")))
    assert "On another machine: 64 cores" in part(told, "old")
    assert "another machine" not in part(told, "new")


def test_to_measure_one_again_leaves_the_other_sections_as_they_were(tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    write(kept, Results().with_section(section("a", Figure("x", 1, "ms"))))
    write(kept, read(kept).with_section(section("b", Figure("y", 2, "ms"))))
    before = page(read(kept), ["a", "b"])
    write(kept, read(kept).with_section(section("b", Figure("y", 3, "ms"))))
    after = page(read(kept), ["a", "b"])
    assert part(before, "a") == part(after, "a")
    assert "| y | 2 ms |" in before and "| y | 3 ms |" in after


def test_what_is_kept_says_whether_bars_were_met_and_reads_back_the_same(tmp_path: Path) -> None:
    missed = Figure("x", 1, "/s", bar=2, peers=(Peer("DBOS", 2, 0.5, floor=1),))
    results = Results().with_section(section("a", missed, left_out=(LeftOut("b", "c"),)))
    write(tmp_path / "kept.json", results)
    assert read(tmp_path / "kept.json") == results
    assert (
        msgspec.json.decode((tmp_path / "kept.json").read_bytes())["sections"]["a"]["figures"][0]["met"]
        is False
    )


def test_the_terminal_shows_each_peer_under_its_figure() -> None:
    peer = against("DBOS", [10.0], [20.0], floor=1)
    figure, beside = lines(Figure("runs", 10, "/s", bar=5, peers=(peer,)))
    assert figure.split() == ["runs", "10", "/s", "ok:", "at", "least", "5"]
    assert beside.split() == ["DBOS", "20", "/s", "0.5", "times", "MISSED:", "at", "least", "1"]


def test_a_reason_names_no_address_and_no_path() -> None:
    said = "a\nERROR: https://registry.example.org/x not found, see /root/.npm/_logs/1.log"
    assert last_words(said) == "ERROR: … not found, see …"


@pytest.mark.parametrize("name", NAMES)
def test_every_benchmark_says_what_it_measures(name: str) -> None:
    assert about_of(name)


def test_the_page_is_what_is_kept() -> None:
    assert KEPT.with_suffix(".md").read_text() == page(read(KEPT), NAMES), "run python -m benchmarks --page"
