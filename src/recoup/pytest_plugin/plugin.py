"""The options, and nothing else: whoever does not ask for healing pays for nothing."""

from __future__ import annotations

import importlib.util
from typing import Final

import pytest

MODES: Final = ("off", "report", "apply")
FOLDER: Final = ".recoup/heals"
AFTER_S: Final = 1.5
AFTER_MAX_S: Final = 60.0
NEEDED: Final = ("playwright", "numpy")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("recoup", "healing of Playwright actions")
    group.addoption(
        "--heal",
        choices=MODES,
        default="off",
        help="when the locator of an action finds nothing: off (default); report what would be taken, and fail; "
        "or apply: act on the element that was recorded when the test last passed",
    )
    group.addoption(
        "--heal-after",
        metavar="SECONDS",
        type=_seconds,
        default=AFTER_S,
        help="no sooner after an action began is something else taken: the page may still be loading "
        f"(default: {AFTER_S}, at most {AFTER_MAX_S:.0f})",
    )
    group.addoption(
        "--heal-folder",
        metavar="FOLDER",
        help=f"what was learned, to be committed (default: {FOLDER} in the root of the tests)",
    )
    group.addoption(
        "--heal-report",
        metavar="FILE",
        help="write every heal to this file: JSON, or HTML if it ends in .html",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--heal") == "off":
        return
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise pytest.UsageError(
            f"--heal needs {' and '.join(missing)}: pip install 'recoup[browser]', or leave --heal out"
        )
    from recoup.pytest_plugin.session import HealingSession

    config.addinivalue_line("filterwarnings", "always::recoup.pytest_plugin.HealWarning")
    config.pluginmanager.register(HealingSession(config), "recoup-healing")


def _seconds(said: str) -> float:
    """Raises ValueError, which pytest turns into words about the option."""
    seconds = float(said)
    if not 0 < seconds <= AFTER_MAX_S:
        raise ValueError
    return seconds
