"""The stories in `examples/`, told as a user tells them: short here, whole in `make soak`."""

import time
from pathlib import Path

import pytest
from examples.__main__ import names, tell
from examples.stage import Stage
from tests.commands import Commands
from tests.scenario.awaited import forked

from recoup.testing.postgres import VARIABLE

WHOLE_S_MAX = 120
ON_POSTGRES = ("dying_workers",)
"""In their short form they have a database of their own, on the server that other tests have too."""


@pytest.mark.parametrize("name", names())
def test_every_promise_of_the_story_holds_in_its_short_form(
    name: str,
    tmp_path: Path,
    commands: Commands,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if name in ON_POSTGRES:
        monkeypatch.setenv(VARIABLE, request.getfixturevalue("postgres").url)
    tell(name, Stage(tmp_path / "story", short=True, launch=forked(commands)))


@pytest.mark.soak
@pytest.mark.parametrize("name", names())
def test_every_promise_of_the_whole_story_holds_in_under_two_minutes(name: str, tmp_path: Path) -> None:
    began = time.monotonic()
    tell(name, Stage(tmp_path / "story"))
    assert time.monotonic() - began < WHOLE_S_MAX
