"""Checks and outputs, on real files and real commands."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from recoup.checks.inspector import WorldInspector
from recoup.checks.registry import check_kind
from recoup.clock import SystemClock
from recoup.engine.lease import LeaseLifeline
from recoup.model.outcome import Captured, Collected, Outcome, Scene
from recoup.model.plan import (
    Check,
    DeclaredOutput,
    DiffCheck,
    ExitCheck,
    FileCheck,
    JsonCheck,
    JsonOutput,
    Output,
    OutputCheck,
    RegexOutput,
    RunCheck,
    StreamName,
    TextMatch,
)
from recoup.model.policy import Policy
from recoup.processes.keeper import LinuxKeeper
from recoup.redaction.redactor import SecretRedactor

INSPECTOR = WorldInspector(LinuxKeeper(), SecretRedactor())
SAID = Outcome(exit_code=3, stdout=Captured(b"got 42 rows\n", b"", 12), stderr=Captured(b"careful\n", b"", 8))


def scene(folder: Path, **more: Any) -> Scene:
    return Scene(cwd=str(folder), env=dict(os.environ), policy=Policy(), **more)


async def held(check: Check, at: Scene) -> tuple[bool | None, str]:
    lifeline = LeaseLifeline(SystemClock().now().boot_us / 1e6 + 60)
    (result,) = (await INSPECTOR.examine([check], at, lifeline, asyncio.Event())).results
    return result.held, result.detail


async def test_a_file_that_is_too_long_to_be_read_says_nothing_of_its_end(tmp_path: Path) -> None:
    with (tmp_path / "long").open("wb") as file:
        file.write(b"first\n")
        file.truncate(17 << 20)
        file.seek(0, os.SEEK_END)
        file.write(b"last\n")
    first, last = (FileCheck("long", contains=TextMatch(text=word)) for word in ("first", "last"))
    assert (await held(first, scene(tmp_path)))[0] is True
    asked, words = await held(last, scene(tmp_path))
    assert asked is None and "not read" in words
    assert (await held(JsonCheck("long", "a"), scene(tmp_path)))[0] is None


async def test_a_folder_is_no_file_and_nothing_of_it_stays_open(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    before = len([*Path("/proc/self/fd").iterdir()])
    for check in (FileCheck("made", contains=TextMatch(text="a")), JsonCheck("made", "a")):
        assert await held(check, scene(tmp_path)) == (False, "made is not a regular file")
    assert len([*Path("/proc/self/fd").iterdir()]) == before


@pytest.mark.parametrize(
    ("check", "wanted"),
    [
        (FileCheck("f.json"), True),
        (FileCheck("nope"), False),
        (FileCheck("nope", absent=True), True),
        (FileCheck("f.json", absent=True), False),
        (FileCheck("f.json", contains=TextMatch(text='"a"')), True),
        (FileCheck("f.json", contains=TextMatch(regex=r'"z":\s*\d')), False),
        (JsonCheck("f.json", "a.b[1].c"), True),
        (JsonCheck("f.json", "a.b.1.c", equals=None), True),
        (JsonCheck("f.json", "zero", equals=0), True),
        (JsonCheck("f.json", "zero", equals=1), False),
        (JsonCheck("f.json", "a.x"), False),
        (JsonCheck("text", "a"), False),
        (JsonCheck("nope", "a"), False),
        (ExitCheck((0, 3)), True),
        (ExitCheck((0,)), False),
        (OutputCheck(StreamName.STDOUT, TextMatch(text="42 rows")), True),
        (OutputCheck(StreamName.STDERR, TextMatch(regex="^care")), True),
        (OutputCheck(StreamName.STDERR, TextMatch(text="42")), False),
        (RunCheck("test -s f.json"), True),
        (RunCheck(("test", "-s", "nope")), False),
        (RunCheck("no-such-command"), None),
        (RunCheck("kill -9 $$"), None),
        (RunCheck(("no-such-command",)), None),
        (JsonCheck("f.json", "a", equals={"b": [0, {"c": None}]}), True),
        (JsonCheck("f.json", "zero", equals=0.0), True),
        (JsonCheck("f.json", "zero", equals=False), False),
    ],
    ids=lambda value: check_kind(value).words(value) if isinstance(value, Check) else "",
)
async def test_a_check_finds_what_is_there(tmp_path: Path, check: Check, wanted: bool | None) -> None:
    (tmp_path / "f.json").write_text(json.dumps({"a": {"b": [0, {"c": None}]}, "zero": 0}))
    (tmp_path / "text").write_text("no json")
    found, detail = await held(check, scene(tmp_path, outcome=SAID))
    assert found is wanted
    assert detail


@pytest.mark.parametrize(
    ("check", "changed", "wanted"),
    [
        (DiffCheck(), ("a.py",), True),
        (DiffCheck(), (), False),
        (DiffCheck("empty"), (), True),
        (DiffCheck("empty"), ("a.py",), False),
        (DiffCheck(paths=("*.py", "docs/*")), ("a.py", "docs/x.md"), True),
        (DiffCheck(paths=("*.py",)), ("a.py", "x.md"), False),
        (DiffCheck(), None, False),
    ],
)
async def test_a_diff_check_looks_at_what_changed(
    tmp_path: Path, check: DiffCheck, changed: tuple[str, ...] | None, wanted: bool
) -> None:
    assert (await held(check, scene(tmp_path, outcome=SAID, changed_files=changed)))[0] is wanted


async def test_a_check_that_hangs_is_ended(tmp_path: Path) -> None:
    began = time.monotonic()
    found, detail = await held(RunCheck("sleep 600"), scene(tmp_path, check_timeout_s=0.3))
    assert found is None, "a check that did not end says nothing"
    assert "took over" in detail
    assert time.monotonic() - began < 10


async def test_a_hostile_expression_takes_linear_time(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a" * 200_000)
    began = time.monotonic()
    assert not (await held(FileCheck("f", contains=TextMatch(regex="(a+)+b")), scene(tmp_path)))[0]
    assert time.monotonic() - began < 10


async def collect(folder: Path, outputs: dict[str, Output], written: str = "", **more: Any) -> Collected:
    path = folder / "written.env"
    path.write_text(written)
    return await INSPECTOR.collect(outputs, scene(folder, outcome=SAID, output_file=str(path), **more))


async def test_outputs_come_from_json_text_and_lines(tmp_path: Path) -> None:
    (tmp_path / "f.json").write_text('{"count": 3, "list": [1, {"x": "y"}]}')
    outputs: dict[str, Output] = {
        "count": JsonOutput("f.json", "count"),
        "list": JsonOutput("f.json", "list"),
        "rows": RegexOutput(r"got (\d+) rows"),
        "whole": RegexOutput(r"care\w+", stream=StreamName.STDERR),
        "pin": DeclaredOutput(secret=True),
    }
    collected = await collect(tmp_path, outputs, "pin=12=34\nmore=1\nlong<<END\na\nb=c\nEND\n\n")
    assert collected.problem is None
    assert collected.plain == {
        "count": 3,
        "list": [1, {"x": "y"}],
        "rows": "42",
        "whole": "careful",
        "more": "1",
        "long": "a\nb=c",
    }
    assert collected.secret == {"pin": "12=34"}


@pytest.mark.parametrize(
    ("outputs", "written", "word"),
    [
        ({"x": JsonOutput("nope.json", "a")}, "", "nope.json"),
        ({"x": RegexOutput("nothing")}, "", "does not match"),
        ({"x": DeclaredOutput()}, "", "did not write x"),
        ({}, "no equals sign\n", "line 1"),
        ({}, "ok=1\n2bad=2\n", "line 2"),
        ({}, "x<<END\nnever ended\n", "END"),
        ({}, "x=" + "y" * 70_000, "outputs_bytes_max"),
    ],
)
async def test_outputs_that_cannot_be_had_say_why(
    tmp_path: Path, outputs: dict[str, Output], written: str, word: str
) -> None:
    collected = await collect(tmp_path, outputs, written)
    assert collected.problem is not None
    assert word in collected.problem


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder of a step, with links that lead out of it, and a file beside it."""
    folder = tmp_path / "work"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "a.json").write_text('{"word": "private"}')
    (folder / "link.json").symlink_to(tmp_path / "private" / "a.json")
    (folder / "up.json").symlink_to("../private/a.json")
    (folder / "sub" / "far").symlink_to("../../private")
    (folder / "chain.json").symlink_to("sub/far/a.json")
    (folder / "proc.json").symlink_to("/proc/self/cwd/x")
    return folder


LEAVING = ("link.json", "up.json", "sub/far/a.json", "chain.json", "sub/../up.json", "proc.json")


@pytest.mark.parametrize("name", LEAVING)
async def test_no_check_or_output_follows_a_link_out_of_the_folder(name: str, work: Path) -> None:
    for check in (
        FileCheck(name),
        FileCheck(name, absent=True),
        FileCheck(name, contains=TextMatch(text="private")),
        JsonCheck(name, "word", equals="private"),
    ):
        result, detail = await held(check, scene(work))
        assert result is False and "leaves the folder of the step" in detail, check
        assert "the link" in detail and "private" not in detail
    for output in (JsonOutput(name, "word"), RegexOutput("word", file=name)):
        taken = await INSPECTOR.collect({"it": output}, scene(work))
        assert taken.plain == {} and "leaves the folder of the step" in (taken.problem or "")


async def test_links_that_stay_inside_and_paths_that_lead_out_by_their_own_words_are_followed(
    work: Path,
) -> None:
    (work / "sub" / "b.json").write_text('{"word": "own"}')
    (work / "direct").symlink_to("sub")
    (work / "absolute").symlink_to(work / "sub")
    (work / "sub" / "deep").symlink_to("../direct/../absolute")
    (work / "loop").symlink_to("loop")
    for name in ("direct/b.json", "absolute/b.json", "sub/deep/b.json", "direct/deep/b.json"):
        assert (await held(JsonCheck(name, "word", equals="own"), scene(work)))[0] is True, name
        assert (await held(FileCheck(name), scene(work)))[0] is True, name
    for name in ("../private/a.json", str(work.parent / "private" / "a.json"), "sub/../../private/a.json"):
        assert (await held(JsonCheck(name, "word", equals="private"), scene(work)))[0] is True, name
    assert await held(FileCheck("loop"), scene(work)) == (False, "loop does not exist")
    assert (await held(FileCheck("sub/none", absent=True), scene(work)))[0] is True


async def test_a_file_of_outputs_that_became_a_link_is_not_followed(work: Path) -> None:
    (work.parent / "private" / "values").write_text("name=private\n")
    (work / "output").symlink_to("../private/values")
    taken = await INSPECTOR.collect({}, scene(work, output_file=str(work / "output")))
    assert taken.plain == {} and "leaves the folder" in (taken.problem or "")
