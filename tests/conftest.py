"""What tests of every kind share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from recoup.testing.postgres import PostgresServer


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A real server, one for each process that runs tests; started when the first test asks for it."""
    from recoup.testing.postgres import postgres_server

    with postgres_server() as server:
        yield server
