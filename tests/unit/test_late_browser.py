"""Browser steps where the package for them is not installed."""

from __future__ import annotations

from typing import Any, cast

from recoup.model.failure import FailureKind
from recoup.runtimes.browser.runtime import BrowserRuntime
from recoup.runtimes.late_browser import LateBrowser


def not_there() -> BrowserRuntime:
    raise ModuleNotFoundError("No module named 'playwright'", name="playwright")


async def test_a_missing_package_is_named_with_the_command_that_brings_it_and_is_no_bad_input() -> None:
    outcome = await LateBrowser(not_there).perform(cast("Any", None), cast("Any", None))
    assert outcome.kind is FailureKind.SPAWN_FAILED
    assert "playwright: pip install 'recoup[browser]', then recoup browser install" in outcome.detail
