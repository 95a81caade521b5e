"""`check` names what is not there before the expensive steps have run, and says nothing where it cannot know."""

from __future__ import annotations

from tests.scenario.conftest import Cli


def notes(cli: Cli, *steps: str, workspace: str = "") -> list[str]:
    lines = "".join(f"\n  - {step}" for step in steps)
    result = cli("check", cli.plan(f"version: 1\nname: w\n{workspace}\nsteps:{lines}\n"))
    assert result.code == 0, result.err
    return [line.removeprefix("note: ") for line in result.out.splitlines() if line.startswith("note: ")]


def test_what_a_plan_names_and_is_not_there_gets_a_note(cli: Cli) -> None:
    (cli.folder / "jobs.py").write_text(
        "import os\n\ndef total(rows):\n    return os.getpid()\n\nalias = total\n"
    )
    (cli.folder / "there.sh").write_text("#!/bin/sh\n")
    said = notes(
        cli,
        "{id: a, python: 'jobs:totl'}",
        "{id: b, python: 'nowhere.at_all:run'}",
        "{id: c, run: ./missing.sh now}",
        "{id: d, run: [./there.sh]}",
        "{id: e, agent: {cli: no-such-agent --quick, prompt: x}}",
        "{id: f, run: 'true', outputs: {count: {regex: '([0-9]+)'}}}",
        "{id: g, run: 'echo ${{ steps.f.outputs.cuont }}'}",
    )
    expected = [
        "a: the module jobs has no function totl",
        f"b: there is no module nowhere.at_all in {cli.folder}, nor is it installed here",
        f"c: there is no ./missing.sh in {cli.folder}",
        "d: ./there.sh may not be executed: chmod +x ./there.sh",
        "e: no-such-agent is not on the PATH here",
        "g: f declares no output cuont: did you mean `count`?",
    ]
    assert [note for note in said if note in expected] == expected
    assert not (cli.folder / "__pycache__").exists(), "nothing is imported"


def test_what_is_there_or_cannot_be_known_gets_none(cli: Cli) -> None:
    (cli.folder / "jobs.py").write_text("def total(): ...\nalias = total\n")
    (cli.folder / "open.py").write_text("from jobs import *\n")
    said = notes(
        cli,
        "{id: a, python: 'jobs:total'}",
        "{id: b, python: 'jobs:alias'}",
        "{id: c, python: 'open:anything'}",
        "{id: d, python: 'json:dumps'}",
        '{id: e, run: "make x && ./made.sh"}',
        '{id: f, run: "./$NAME.sh"}',
        "{id: g, run: 'echo more=1 >> $RECOUP_OUTPUT', outputs: {count: {regex: x}}}",
        "{id: h, run: 'echo ${{ steps.g.outputs.more }}'}",
    )
    assert not [note for note in said if note[:3] in {f"{name}: " for name in "abcdefgh"}]


def test_of_a_repository_nothing_is_said(cli: Cli, repo: object) -> None:
    said = notes(cli, "{id: c, run: ./missing.sh}", workspace="workspace: {git: ./repo}")
    assert not [note for note in said if "missing.sh" in note]
