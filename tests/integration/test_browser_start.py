"""A browser, or the program that drives it, that does not start: whether another try may help, and what is said."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import playwright
import pytest
import pytest_asyncio
from tests.integration.browser_house import LIMITS, BrowserHouse, needs_browser
from tests.integration.test_browser_faults import class_of
from tests.integration.test_frozen_browsers import library

from recoup.model.failure import FailureClass
from recoup.runtimes.browser.driver import PlaywrightDriver

pytestmark = [needs_browser, pytest.mark.asyncio]
NODE = Path(playwright.__file__).parent / "driver" / "node"
SHORT = msgspec.structs.replace(LIMITS, launch_s=0.5, close_s=0.5)
"""For what will never start."""
FROZEN = "kill -STOP $$"
KILLED = '[ "$1" = --version ] && exit; kill -KILL $$'
LACKING = "echo 'node: error while loading shared libraries: libatomic.so.1' >&2; exit 127"


@pytest_asyncio.fixture
async def house(tmp_path: Path) -> AsyncIterator[BrowserHouse]:
    one = BrowserHouse(tmp_path, SHORT)
    yield one
    await one.runtime.close()


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What is started in place of the driver."""
    program = tmp_path / "node"
    monkeypatch.setenv("PLAYWRIGHT_NODEJS_PATH", str(program))
    return program


def write(program: Path, first: str) -> None:
    """The driver, after some other commands."""
    program.write_text(f'#!/bin/sh\n{first}\nexec {NODE} "$@"\n')
    program.chmod(0o755)


async def test_a_driver_that_starts_slowly_is_tried_again_and_none_of_it_is_left(
    house: BrowserHouse, node: Path
) -> None:
    others = set(library())
    write(node, FROZEN)
    outcome = await house.do("goto", value="about:blank")
    assert outcome.detail == (
        "the browser did not start: the browser automation did not answer within 0.5 s; the machine may be busy"
    )
    assert class_of(outcome) is FailureClass.TRANSIENT_RUNTIME
    while set(library()) - others:
        await asyncio.sleep(0.01)
    write(node, "")
    house.runtime._driver, house.runtime._limits = PlaywrightDriver(LIMITS), LIMITS
    await house.done("goto", value="about:blank", attempt=2)


async def test_a_driver_that_was_killed_while_it_started_is_tried_again(
    house: BrowserHouse, node: Path
) -> None:
    write(node, KILLED)
    outcome = await house.do("goto", value="about:blank")
    assert outcome.detail.startswith("the browser did not start: the browser automation ended")
    assert class_of(outcome) is FailureClass.TRANSIENT_RUNTIME


@pytest.mark.parametrize("is_there", [True, False])
async def test_a_driver_that_lacks_something_or_is_not_there_is_not_tried_again(
    house: BrowserHouse, node: Path, is_there: bool
) -> None:
    if is_there:
        write(node, LACKING)
    outcome = await house.do("goto", value="about:blank")
    assert class_of(outcome) is FailureClass.DETERMINISTIC_CONTRACT, outcome.detail
    assert ("libatomic" in outcome.detail) is is_there


async def test_a_browser_that_starts_slowly_is_tried_again(house: BrowserHouse, tmp_path: Path) -> None:
    program = tmp_path / "chromium"
    program.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Chromium 140.0" && exit\nkill -STOP $$\n')
    program.chmod(0o755)
    house.environ["RECOUP_BROWSER"] = str(program)
    house.runtime._driver = PlaywrightDriver(LIMITS)
    outcome = await house.do("goto", value="about:blank")
    assert outcome.detail.startswith("the browser did not start: "), outcome.detail
    assert class_of(outcome) is FailureClass.TRANSIENT_RUNTIME


async def test_a_driver_that_ends_takes_no_other_of_the_same_process_along() -> None:
    one, other = PlaywrightDriver(LIMITS), PlaywrightDriver(LIMITS)
    try:
        _, kept = await asyncio.gather(one.get(), other.get())
        await one.close()
        assert await other.get() is kept
    finally:
        await other.close()
