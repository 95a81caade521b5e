"""What the pytest plugin learns, as files: merged, stable, and never in the way."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoup.model.redacted import Redacted
from recoup.model.target import Box, Element
from recoup.pytest_plugin import records as records_of_tests
from recoup.pytest_plugin.records import HealFolder, Learned, LearnedTest, Place, Record, merged
from recoup.redaction.redactor import SecretRedactor

seal = SecretRedactor().seal
places = st.builds(
    Place, st.sampled_from(["click", "fill"]), st.sampled_from(["#a", "#b"]), st.integers(1, 3)
)
elements = st.builds(
    Element,
    tag=st.just("button"),
    name=st.sampled_from(["Save", "Send", "Löschen"]),
    box=st.builds(Box, st.integers(0, 9), st.integers(0, 9), st.just(10), st.just(10)),
)
records = st.builds(Record, place=places, element=elements)
tests = st.builds(LearnedTest, st.sampled_from(["one", "two"]), st.lists(records, max_size=6).map(tuple))


def learned(test: LearnedTest, name: str = "test_it", file: str = "tests/test_it.py") -> Redacted:
    return seal(Learned(file, name, test))


def one(name: str, x: float = 0, locator: str = "#a", source: str = "one") -> LearnedTest:
    element = Element(tag="button", name=name, box=Box(x, 0, 1, 1))
    return LearnedTest(source, (Record(place=Place("click", locator), element=element),))


@pytest.fixture
def warned() -> list[str]:
    return []


@pytest.fixture
def folder(tmp_path: Path, warned: list[str]) -> HealFolder:
    return HealFolder(tmp_path / "heals", warned.append)


def read_again(folder: HealFolder) -> HealFolder:
    return HealFolder(folder.root, lambda words: pytest.fail(words))


def test_what_is_kept_is_found_again(folder: HealFolder) -> None:
    folder.keep([learned(one("Save"))])
    found = read_again(folder).find("tests/test_it.py", "test_it", Place("click", "#a"))
    assert found is not None and found.element.name == "Save"
    assert read_again(folder).find("tests/test_it.py", "test_it", Place("click", "#b")) is None
    assert folder.path_of("tests/test_it.py").read_text().endswith("}\n")


def test_an_element_that_only_moved_changes_no_file(folder: HealFolder) -> None:
    folder.keep([learned(one("Save"))])
    path = folder.path_of("tests/test_it.py")
    before = path.stat()
    folder.keep([learned(one("Save", x=300))])
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    folder.keep([learned(one("Save all"))])
    assert "Save all" in path.read_text()


def test_actions_are_forgotten_only_when_the_test_was_rewritten() -> None:
    old, new = one("Save", locator="#old"), one("Save", locator="#new")
    assert len(merged(old, new).actions) == 2
    rewritten = msgspec.structs.replace(new, source="two")
    assert merged(old, rewritten) == rewritten


@settings(deadline=None)
@given(tests, tests)
def test_learning_the_same_again_changes_nothing(old: LearnedTest, new: LearnedTest) -> None:
    once = merged(old, new)
    assert merged(once, new) == once
    assert [record.place for record in once.actions] == sorted({record.place for record in once.actions})
    assert {record.place for record in new.actions} <= {record.place for record in once.actions}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "<<<<<<< HEAD\n{}\n=======",
        "[]",
        '{"format": 1}',
        '{"format": 9, "tests": {}}',
        "\udcff",
        "[" * 9999,
    ],
)
def test_a_damaged_file_is_told_left_alone_and_heals_nothing(
    folder: HealFolder, warned: list[str], text: str
) -> None:
    path = folder.path_of("tests/test_it.py")
    path.parent.mkdir(parents=True)
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert folder.find("tests/test_it.py", "test_it", Place("click", "#a")) is None
    folder.keep([learned(one("Save"))])
    assert path.read_bytes() == text.encode("utf-8", "surrogateescape")
    assert len(warned) == 2 and all(str(path) in words for words in warned)


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, warned: list[str]) -> None:
    (tmp_path / "heals").write_text("a file")
    HealFolder(tmp_path / "heals", warned.append).keep([learned(one("Save"))])
    assert len(warned) == 1 and "could not be kept" in warned[0]


def test_a_session_that_holds_the_folder_for_ever_keeps_no_other_from_ending(
    folder: HealFolder, warned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records_of_tests, "LOCK_WAIT_S", 0.1)
    folder.root.mkdir()
    held = os.open(folder.root, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        folder.keep([learned(one("Save"))])
    finally:
        os.close(held)
    assert len(warned) == 1 and "another session" in warned[0]


def test_tests_outside_the_root_stay_within_the_folder(folder: HealFolder) -> None:
    assert folder.path_of("../other/test_it.py") == folder.root / "other/test_it.py.json"
