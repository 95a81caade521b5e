"""Hints in PostgreSQL while connections break, the server restarts, and others change its tables."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.keys import KEY

from recoup.app import open_app
from recoup.clock import SystemClock
from recoup.dispatch.opening import open_dispatch
from recoup.dispatch.postgres import PgDispatch
from recoup.errors import DispatchError, SettingsError
from recoup.model.dispatch import Hint, Taken
from recoup.settings import read_settings
from recoup.testing.postgres import PostgresServer, postgres_server

PASSWORD = "-".join(["open", "sesame", "4711"])
LISTENS = "query like 'LISTEN recoup_dispatch'"

Opener = Callable[..., Awaitable[PgDispatch]]


@pytest.fixture(scope="module")
def mortal() -> Iterator[PostgresServer]:
    """A server that may be killed."""
    with postgres_server() as server:
        if not server.is_own:
            pytest.skip("the server is not ours to stop")
        yield server


@pytest.fixture
def database(postgres: PostgresServer) -> str:
    return postgres.fresh_database()


@pytest.fixture
async def opened(database: str) -> AsyncIterator[Opener]:
    every: list[PgDispatch] = []

    async def opener(**limits: float) -> PgDispatch:
        every.append(await PgDispatch.open(database, **limits))
        return every[-1]

    yield opener
    for dispatch in every:
        await dispatch.close()


async def ask(database: str, sql: str) -> list[tuple[Any, ...]]:
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
        cursor = await connection.execute(sql.encode())
        return await cursor.fetchall() if cursor.description else []


async def names(dispatch: PgDispatch) -> list[str]:
    return [taken.hint.run_id for taken in await dispatch.take(["default"], frozenset(), 100)]


async def heard(dispatch: PgDispatch) -> list[str]:
    async with asyncio.timeout(30):
        while not (found := await names(dispatch)):
            await dispatch.wait(60)
        return found


async def idle(dispatch: PgDispatch) -> None:
    for _ in range(3):
        assert not await names(dispatch)
        await dispatch.wait(0.05)


async def cut(database: str, which: str) -> None:
    """Also what was said last counts: a connection that listens does nothing else."""
    mine = f"datname = current_database() and pid <> pg_backend_pid() and {which}"
    assert await ask(database, f"select pg_terminate_backend(pid) from pg_stat_activity where {mine}")


async def test_a_restarted_server_is_used_again_by_those_who_work_and_those_who_wait(
    mortal: PostgresServer,
) -> None:
    database = mortal.fresh_database()
    dispatch, waiting = [await PgDispatch.open(database, busy_max_s=20) for _ in range(2)]
    await dispatch.hint([Hint("before")])
    assert await heard(waiting) == ["before"]
    await idle(waiting)
    task = asyncio.create_task(heard(waiting))
    await asyncio.to_thread(mortal.kill)
    hinting = asyncio.create_task(dispatch.hint([Hint("meanwhile")]))
    await asyncio.sleep(0.1)
    assert not hinting.done()
    await asyncio.to_thread(mortal.start)
    await hinting
    assert await task == ["meanwhile"]
    await dispatch.close()
    await waiting.close()


async def test_a_server_that_stays_away_is_an_error_in_words_without_the_password(
    mortal: PostgresServer,
) -> None:
    address = mortal.fresh_database().replace("@", f":{PASSWORD}@")
    dispatch = await PgDispatch.open(address, busy_max_s=0.3)
    await asyncio.to_thread(mortal.kill)
    try:
        with pytest.raises(
            DispatchError, match=r"could not be used for 0\.3 s: (.|\n)*RECOUP_DATABASE"
        ) as caught:
            await dispatch.hint([Hint("a")])
        await dispatch.wait(0.5)
        assert PASSWORD not in repr(caught.getrepr(showlocals=False, style="long"))
        assert caught.value.__cause__ is None
    finally:
        await asyncio.to_thread(mortal.start)
        await dispatch.close()


async def test_a_server_that_accepts_and_says_nothing_is_left_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(DispatchError, match=r"no answer in time|timeout"):
            await PgDispatch.open(f"postgresql://someone:{PASSWORD}@127.0.0.1:{port}/db", busy_max_s=0.5)


@pytest.fixture
def frozen(mortal: PostgresServer) -> Iterator[Callable[[], None]]:
    """Stops every process of the server, as a stalled disk or a paused machine does."""
    stopped: list[int] = []

    def freeze() -> None:
        with psycopg.connect(mortal.url) as connection:
            (pid,) = connection.execute("select pg_read_file('postmaster.pid', 0, 20)::text").fetchone() or (
                "",
            )
        postmaster = int(pid.split()[0])
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
        for each in (postmaster, *map(int, children)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGSTOP)
                stopped.append(each)

    yield freeze
    for each in stopped:
        # One that was about to end is gone as soon as its parent goes on.
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, signal.SIGCONT)


CALLS: dict[str, Callable[[PgDispatch, Taken], Awaitable[object]]] = {
    "hint": lambda dispatch, _: dispatch.hint([Hint("b")]),
    "take": lambda dispatch, _: dispatch.take(["default"], frozenset(), 1),
    "keep": lambda dispatch, taken: dispatch.keep([taken]),
    "done": lambda dispatch, taken: dispatch.done(taken),
    "put back": lambda dispatch, taken: dispatch.done(taken, 1),
    "depths": lambda dispatch, _: dispatch.depths(),
    "hinted": lambda dispatch, _: dispatch.hinted(["a"]),
    "tidy": lambda dispatch, _: dispatch.tidy(),
}


async def test_every_call_on_a_frozen_server_ends_in_time_and_so_does_closing(
    mortal: PostgresServer, frozen: Callable[[], None]
) -> None:
    database = mortal.fresh_database()
    every = {name: await PgDispatch.open(database, busy_max_s=0.5) for name in (*CALLS, "wait")}
    for name, dispatch in every.items():
        await dispatch.hint([Hint(f"run-{name.replace(' ', '-')}")])
    held = {name: (await dispatch.take(["default"], frozenset(), 1))[0] for name, dispatch in every.items()}
    await idle(every["wait"])
    frozen()
    took_s: dict[str, float] = {}

    async def timed(name: str, work: Awaitable[object]) -> None:
        began_s = time.monotonic()
        with contextlib.suppress(DispatchError):
            await work
        took_s[name] = time.monotonic() - began_s

    await asyncio.gather(*(timed(name, call(every[name], held[name])) for name, call in CALLS.items()))
    await timed("wait", every["wait"].wait(0.1))
    assert all(took_s[name] >= 0.4 for name in CALLS), "each was tried as long as it may be"
    for dispatch in every.values():
        await dispatch.close()


async def test_closing_while_others_wait_for_a_frozen_server_ends_their_waiting(
    mortal: PostgresServer, frozen: Callable[[], None]
) -> None:
    dispatch = await PgDispatch.open(mortal.fresh_database(), busy_max_s=600)
    await dispatch.hint([Hint("a"), Hint("b")])
    first, second = await dispatch.take(["default"], frozenset(), 2)
    frozen()
    calls = (dispatch.keep([first]), dispatch.done(first), dispatch.done(second, 1), dispatch.tidy())
    waiting = [asyncio.create_task(call) for call in calls]
    await asyncio.sleep(0.1)
    await dispatch.close()
    # One of them may have been about to connect, which has a time of its own.
    done, pending = await asyncio.wait(waiting, timeout=60)
    assert not pending and all(isinstance(task.exception(), DispatchError) for task in done)


async def test_a_call_that_is_cancelled_on_a_frozen_server_ends_at_once(
    mortal: PostgresServer, frozen: Callable[[], None]
) -> None:
    dispatch = await PgDispatch.open(mortal.fresh_database(), busy_max_s=600)
    await dispatch.hint([Hint("a")])
    listening = await dispatch._connections.connect()
    frozen()
    tasks = [
        asyncio.create_task(dispatch.depths()),
        asyncio.create_task(dispatch._listener._hear(listening)),
    ]
    await asyncio.sleep(0.1)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert all(task.cancelled() for task in tasks)
    await dispatch.close()
    await listening.close()


async def test_who_listens_is_connected_again_and_misses_nothing(database: str, opened: Opener) -> None:
    dispatch, waiting = await opened(), await opened()
    await idle(waiting)
    task = asyncio.create_task(heard(waiting))
    await cut(database, LISTENS)
    await dispatch.hint([Hint("a")])
    assert await task == ["a"]
    await idle(waiting)
    waiting._look_s = 600.0  # so that hearing of it is the only way
    task = asyncio.create_task(heard(waiting))
    await asyncio.sleep(0.05)
    await dispatch.hint([Hint("b")])
    assert await task == ["b"]


async def test_connections_that_were_cut_are_replaced(database: str, opened: Opener) -> None:
    dispatch = await opened()
    await asyncio.gather(*(dispatch.hint([Hint(f"run-{number}")]) for number in range(8)))
    taken = await dispatch.take(["default"], frozenset(), 4)
    await cut(database, "true")
    await asyncio.gather(*(dispatch.done(each) for each in taken))
    assert len(await names(dispatch)) == 4


async def test_more_requests_than_connections_wait_for_their_turn(database: str, opened: Opener) -> None:
    dispatch = await opened()
    await asyncio.gather(*(dispatch.hint([Hint(f"run-{number}")]) for number in range(60)))
    (count,) = (
        await ask(
            database,
            "select count(*) from pg_stat_activity where datname = current_database() and application_name = 'recoup'",
        )
    )[0]
    assert count <= 8
    assert len(await names(dispatch)) == 60


async def test_a_cancelled_request_spoils_nothing(opened: Opener) -> None:
    dispatch = await opened(hold_s=0.2)
    await dispatch.hint([Hint(f"run-{number}") for number in range(20)])
    for number in range(20):
        task = asyncio.create_task(dispatch.take(["default"], frozenset(), 1))
        await asyncio.sleep(0.0004 * number)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await asyncio.sleep(0.3)
    assert len(await names(dispatch)) == 20


async def test_many_that_make_the_tables_at_the_same_instant_make_them_once(
    database: str, opened: Opener
) -> None:
    every = await asyncio.gather(*(opened() for _ in range(4)))
    await asyncio.gather(*(each.hint([Hint(f"run-{number}")]) for number, each in enumerate(every)))
    assert sorted(await names(every[0])) == ["run-0", "run-1", "run-2", "run-3"]
    public = await ask(database, "select 1 from pg_tables where schemaname = 'public'")
    assert not public, "everything is in a schema of its own"


async def test_tables_of_an_older_version_are_upgraded_and_those_of_a_newer_left_alone(
    database: str, opened: Opener
) -> None:
    indexed = "select 1 from pg_indexes where indexname = 'pgqueuer_ep_ea_idx'"
    await (await opened()).hint([Hint("a")])
    await ask(database, "comment on table recoup.pgqueuer is 'pgqueuer 999.0.0'")
    await ask(database, "drop index recoup.pgqueuer_ep_ea_idx")
    dispatch = await opened()
    assert not await ask(database, indexed)
    await ask(database, "comment on table recoup.pgqueuer is 'pgqueuer 0.9.9'")
    await asyncio.gather(opened(), opened())
    assert await ask(database, indexed)
    assert await names(dispatch) == ["a"]


async def test_whoever_works_goes_on_while_a_newer_program_adds_a_column(
    database: str, opened: Opener
) -> None:
    dispatch = await opened()
    for number in range(12):
        await dispatch.hint([Hint(f"run-{number}")])
        (taken,) = await dispatch.take(["default"], frozenset(), 1)
        if number == 8:
            await ask(database, "alter table recoup.pgqueuer add column later text")
        await dispatch.done(taken)


async def test_tables_that_somebody_dropped_are_made_anew(database: str, opened: Opener) -> None:
    dispatch = await opened()
    await dispatch.hint([Hint("a")])
    await ask(database, "drop table recoup.pgqueuer")
    assert await names(dispatch) == []
    await dispatch.hint([Hint("b")])
    assert await names(dispatch) == ["b"]
    await ask(database, "drop schema recoup cascade")
    await dispatch.hint([Hint("c")])
    assert await names(dispatch) == ["c"]


@pytest.mark.parametrize(
    "values",
    ["null, null, 0", "null, 'odd', 0", "'', null, 0", "'\\xff', null, 0", "'a', null, 2000000"],
    ids=["nothing", "a key only", "an empty id", "no text", "no priority of ours"],
)
async def test_a_row_that_is_no_hint_is_removed_and_holds_nobody_up(
    database: str, opened: Opener, values: str
) -> None:
    dispatch = await opened()
    await ask(
        database,
        "insert into recoup.pgqueuer (payload, dedupe_key, priority, entrypoint, status)"
        f" values ({values}, 'default', 'queued')",
    )
    await dispatch.hint([Hint("ours")])
    assert await names(dispatch) == ["ours"]
    assert await ask(database, "select dedupe_key from recoup.pgqueuer") == [("ours",)]


async def test_many_who_hint_the_same_runs_in_different_orders_do_not_wait_for_each_other(
    database: str, opened: Opener
) -> None:
    chance = random.Random(8)
    every = [await opened() for _ in range(4)]
    runs = [Hint(f"run-{number}") for number in range(300)]
    for _ in range(6):
        shuffled = [chance.sample(runs, len(runs)) for _ in every]
        await asyncio.gather(*(one.hint(hints) for one, hints in zip(every, shuffled, strict=True)))
        taken = await every[0].take(["default"], frozenset(), 300)
        backwards = taken[::-1]
        await asyncio.gather(
            *(one.hint(chance.sample(runs, len(runs))) for one in every[1:]), every[0].keep(backwards)
        )
        await asyncio.gather(*(every[0].done(each) for each in backwards))
        await asyncio.gather(
            *(every[0].done(each) for each in await every[0].take(["default"], frozenset(), 300))
        )
    await asyncio.sleep(0.05)
    await ask(database, "select pg_stat_force_next_flush()")
    (row,) = await ask(database, "select deadlocks from pg_stat_database where datname = current_database()")
    assert row == (0,)


async def test_the_log_of_the_queue_does_not_grow_for_ever(database: str, opened: Opener) -> None:
    dispatch = await opened()
    for number in range(10):
        await dispatch.hint([Hint(f"run-{number}")])
    assert len(await names(dispatch)) == 10
    rows = "select count(*) from recoup.pgqueuer_log"
    assert (await ask(database, rows))[0] == (20,)
    await dispatch.tidy()
    assert (await ask(database, rows))[0] == (20,), "what is young is kept"
    await dispatch.tidy(log_kept_s=0)
    assert (await ask(database, rows))[0] == (0,)


async def test_nothing_in_the_environment_moves_the_tables(
    database: str, opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CHANNEL", "FUNCTION", "TRIGGER", "QUEUE_TABLE", "PGQUEUER_QUEUE_TABLE", "PGQUEUER_PREFIX"):
        monkeypatch.setenv(name, "elsewhere")
    monkeypatch.setenv("PGQUEUER_SCHEMA", "public")
    monkeypatch.setenv("DURABILITY", "volatile")
    dispatch, waiting = await opened(), await opened()
    await idle(waiting)
    await dispatch.hint([Hint("a")])
    assert await heard(waiting) == ["a"]
    kept = await ask(database, "select relname from pg_class where relkind = 'r' and relpersistence = 'p'")
    assert ("pgqueuer",) in kept


@pytest.mark.parametrize(
    "url", [f"postgresql://user:{PASSWORD}@[::1/db", f"postgresql://u:{PASSWORD}@h/d?bad=1"]
)
async def test_an_address_that_makes_no_sense_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(SettingsError, match="RECOUP_DATABASE") as caught:
        await open_dispatch(url, SystemClock())
    assert PASSWORD not in repr(caught.getrepr(style="native"))


async def test_a_missing_library_is_named_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("recoup.dispatch.p", "pgqueuer"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pgqueuer", None)
    with pytest.raises(SettingsError, match=r"pgqueuer(.|\n)*pip install 'recoup\[postgres\]'"):
        await open_dispatch("postgresql://nowhere/db", SystemClock())


async def test_those_who_need_the_queue_at_once_share_it(postgres: PostgresServer, tmp_path: Path) -> None:
    """A second connection that nobody knows of would stay open for ever."""
    environ = {
        "PATH": os.environ["PATH"],
        "RECOUP_HOME": str(tmp_path),
        "RECOUP_DATABASE": postgres.prepared_database(),
        "RECOUP_EVIDENCE": "",
        "RECOUP_KEY": KEY,
    }
    async with open_app(read_settings(environ, tmp_path), environ) as app:
        one, other = await asyncio.gather(app.hints.queue(), app.hints.queue())
        assert one is other
