"""What tests of every kind share."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from tests.commands import Commands, loaded_commands

if TYPE_CHECKING:
    from recoup.testing.postgres import PostgresServer

# How long an example, or making one, takes says how busy the machine is.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

gc.disable()  # while tests are collected: all that is loaded then stays, and looking through it takes a third of the time


def pytest_collection_finish() -> None:
    gc.enable()
    gc.freeze()


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
