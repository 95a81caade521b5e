"""The conformance suite of the dispatch on every backend."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest

from recoup.dispatch.local import LocalDispatch
from recoup.dispatch.postgres import PgDispatch
from recoup.model.dispatch import NEEDS_MAX, PRIORITY_MAX, Hint
from recoup.ports import Dispatch
from recoup.testing.clock import FakeClock
from recoup.testing.dispatch_suite import HOLD_S, DispatchSuite, LetPass, Opener
from recoup.testing.postgres import PostgresServer


@pytest.fixture(scope="module")
def made(postgres: PostgresServer) -> str:
    return postgres.fresh_database()


@pytest.fixture
def database(made: str) -> Iterator[str]:
    """With the tables that the first test made, and nothing in them."""
    yield made
    with psycopg.connect(made, autocommit=True) as connection:
        connection.execute("truncate recoup.pgqueuer")


class TestLocal(DispatchSuite):
    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest.fixture
    async def open_dispatch(self, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Opener]:
        opened: list[Dispatch] = []

        async def opener(hold_s: float = HOLD_S) -> Dispatch:
            opened.append(LocalDispatch(tmp_path / "home" / "queue.db", clock, hold_s=hold_s))
            return opened[-1]

        yield opener
        for dispatch in opened:
            await dispatch.close()

    @pytest.fixture
    def let_pass(self, clock: FakeClock) -> LetPass:
        async def passing(seconds: float) -> None:
            clock.advance(seconds + 0.001)

        return passing


class TestPostgres(DispatchSuite):
    @pytest.fixture
    async def open_dispatch(self, database: str) -> AsyncIterator[Opener]:
        opened: list[Dispatch] = []

        async def opener(hold_s: float = HOLD_S) -> Dispatch:
            opened.append(await PgDispatch.open(database, hold_s=hold_s))
            return opened[-1]

        yield opener
        for dispatch in opened:
            await dispatch.close()

    @pytest.fixture
    def let_pass(self, database: str) -> LetPass:
        """The server's clock cannot be moved: what is written in the rows is."""
        again = "jsonb_set(headers, '{again,at_s}', to_jsonb((headers #>> '{again,at_s}')::float8 - $1))"
        moved = f"""update recoup.pgqueuer set execute_after = execute_after - make_interval(secs => $1),
            heartbeat = heartbeat - make_interval(secs => $1),
            headers = case when headers ? 'again' then {again} else headers end"""

        async def passing(seconds: float) -> None:
            async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
                await psycopg.AsyncRawCursor(connection).execute(moved, (seconds + 0.001,))

        return passing


@pytest.mark.parametrize(
    "wrong",
    [
        {"run_id": ""},
        {"run_id": "x" * 201},
        {"run_id": "a\0b"},
        {"queue": ""},
        {"queue": "a+b"},
        {"queue": "-a"},
        {"queue": "x" * 65},
        {"queue": "day\n"},
        {"priority": PRIORITY_MAX + 1},
        {"priority": -PRIORITY_MAX - 1},
        {"needs": ("b", "a")},
        {"needs": ("a", "a")},
        {"needs": ("a b",)},
        {"needs": tuple(f"n{number:02}" for number in range(NEEDS_MAX + 1))},
    ],
    ids=str,
)
def test_a_hint_that_no_queue_could_carry_is_not_made(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        Hint(**{"run_id": "a", **wrong})  # type: ignore[arg-type]
