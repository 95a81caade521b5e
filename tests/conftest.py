"""What tests of every kind share."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from tests.commands import Commands, loaded_commands

if TYPE_CHECKING:
    from recoup.testing.postgres import PostgresServer

# How long an example, or making one, takes says how busy the machine is.
_BUSY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", parent=_BUSY, derandomize=True, database=None)  # one verdict for one source
settings.register_profile("search", parent=_BUSY, print_blob=True)
settings.load_profile(os.environ.get("EXAMPLES", "same"))

# The Node that `make test` installs, for coding agents and the StatsD server.
os.environ["PATH"] = (
    f"{Path(__file__).parents[1] / '.bench' / 'node' / 'bin'}:{os.environ.get('PATH', os.defpath)}"
)

gc.disable()  # while tests are collected: all that is loaded then stays, and looking through it takes a third of the time


def pytest_collection_finish() -> None:
    gc.enable()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """With FAIL_ON_SKIP set a skipped test fails the run: on a machine where everything can be installed none may be."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("FAIL_ON_SKIP") and reporter is not None and reporter.stats.get("skipped"):
        reporter.write_line("FAIL_ON_SKIP: tests were skipped, see the summary", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A real server, one for each process that runs tests; started when the first test asks for it."""
    from recoup.testing.postgres import postgres_server

    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def commands() -> Iterator[Commands]:
    """`recoup`, loaded once in each process that runs tests."""
    with loaded_commands() as loaded:
        yield loaded
