"""One connection to the server: where it is, how long anything may take there, and what may be shown of it."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import re
import socket
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import msgspec
import psycopg
from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict

from recoup.errors import SettingsError
from recoup.ledger.postgres.text import text_adapters

CONNECT_MAX_S = 5
LOCK_WAIT_MAX_S = 2.0
STATEMENT_MAX_MS = 5_000
READ_MAX_MS = 30_000
IDLE_IN_TRANSACTION_MAX_MS = 2_000
"""A frozen process keeps what it has locked no longer than this: well below any lease."""

Connection = AsyncConnection[tuple[Any, ...]]

# What it warns of (a connection that was lost) is told as an error where it matters; nothing is printed besides.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

_PORTS = re.compile("[0-9,]*")
_KEPT_ALIVE = {
    "keepalives": "1",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}
_FOR_ALL = {
    "search_path": "recoup",
    "idle_in_transaction_session_timeout": str(IDLE_IN_TRANSACTION_MAX_MS),
    "default_transaction_isolation": "read committed",
    "jit": "off",
}
"""Whoever has waited for a lock must see what was written meanwhile, whatever the database or the role prefers."""
_WRITING = {
    "statement_timeout": str(STATEMENT_MAX_MS),
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "plan_cache_mode": "force_generic_plan",
}
"""Tables may grow a thousandfold before their statistics say so: what a writer asks is always found by an index, row
for row, and never by going through a whole table that was small when the plan was made."""
_READING = {
    "statement_timeout": str(READ_MAX_MS),
    "default_transaction_read_only": "on",
    "plan_cache_mode": "force_generic_plan",
}
"""Questions are short: to make a plan for each anew would take longer than the answer."""
_DURABLE = """
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'
"""


class Address(msgspec.Struct, frozen=True):
    """Where the database is. Never shown as a whole: `name` leaves the password out."""

    parameters: dict[str, Any]
    name: str

    def __repr__(self) -> str:
        return f"Address({self.name!r})"

    def scrubbed(self, text: str) -> str:
        """The server's own words, without what nobody may see."""
        password = str(self.parameters.get("password") or "")
        for secret in {password, quote(password, safe=""), quote(password)} - {""}:
            text = text.replace(secret, "[password]")
        return text


def address_of(url: str) -> Address:
    """Raises SettingsError, in which nothing of the text stands."""
    try:
        parameters = conninfo_to_dict(url)
    except psycopg.Error:
        raise _not_understood() from None
    said = {key: value for key, value in parameters.items() if value is not None}
    if not _PORTS.fullmatch(str(said.get("port", ""))) or "@" in str(said.get("host", "")):
        # A password that holds a / or an @ was taken for something that is shown.
        raise _not_understood()
    user = f"{said['user']}@" if said.get("user") else ""
    port = f":{said['port']}" if said.get("port") else ""
    return Address(said, f"postgresql://{user}{said.get('host', '')}{port}/{said.get('dbname', '')}")


def _not_understood() -> SettingsError:
    return SettingsError(
        "RECOUP_DATABASE is not an address that PostgreSQL's client understands",
        hint="Write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, special characters (/ @ : ? %) as %XX.",
    )


async def connect(
    address: Address, *, writes: bool, within_s: float = CONNECT_MAX_S, patience_s: float = LOCK_WAIT_MAX_S
) -> Connection:
    """In autocommit: transactions are begun by name. Raises psycopg.Error, TimeoutError."""
    lock_wait_ms = int(1000 * min(LOCK_WAIT_MAX_S, patience_s / 2))
    ours = _FOR_ALL | {"lock_timeout": str(lock_wait_ms)} | (_WRITING if writes else _READING)
    options = " ".join([address.parameters.get("options", ""), *(_option(*one) for one in ours.items())])
    given = _KEPT_ALIVE | {"connect_timeout": str(CONNECT_MAX_S)} | address.parameters
    given |= {"options": options.strip(), "application_name": "recoup", "client_encoding": "utf8"}
    deadline_s = time.monotonic() + within_s
    async with asyncio.timeout(within_s):
        connection = await AsyncConnection.connect(
            **given, autocommit=True, prepare_threshold=1, context=_context()
        )
    if writes:
        await _make_durable(connection, deadline_s - time.monotonic())
    return connection


@contextlib.contextmanager
def cut_off_after(connection: Connection, seconds: float) -> Iterator[None]:
    """Whatever waits for an answer then meets a lost connection. To be cancelled instead would make psycopg ask the
    server, which may be frozen, to stop; and wait for that."""
    cutting = asyncio.get_running_loop().call_later(max(0.0, seconds), _cut_off, connection)
    try:
        yield
    finally:
        cutting.cancel()


class CuttingOff:
    """The same for a connection that is asked again and again: one timer runs on, where one for each answer would be
    set and taken back thousands of times for nothing."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._until_s: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._until_s = until_s = loop.time() + max(0.0, seconds)
        if self._timer is None or self._timer.when() > until_s:
            self.stop()
            self._timer = loop.call_at(until_s, self._look, loop)

    def end(self) -> None:
        """The answer has come."""
        self._until_s = None

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        if self._until_s is None:
            return
        if loop.time() < self._until_s:
            self._timer = loop.call_at(self._until_s, self._look, loop)
        else:
            _cut_off(self._connection)


async def _make_durable(connection: Connection, within_s: float) -> None:
    """What is reported as written is on the server's disk, if not more (`remote_apply`, say, stays)."""
    try:
        with cut_off_after(connection, within_s):
            await connection.execute(_DURABLE)
    except BaseException:
        await connection.close()
        raise


def _option(name: str, value: str) -> str:
    return f"-c {name}={value.replace(' ', chr(92) + ' ')}"


def _cut_off(connection: Connection) -> None:
    with (
        contextlib.suppress(psycopg.Error, OSError),
        socket.socket(fileno=os.dup(connection.fileno())) as line,
    ):
        line.shutdown(socket.SHUT_RDWR)


class _Context:
    """What psycopg wants to be told about the conversion of values."""

    def __init__(self) -> None:
        self.adapters = text_adapters()
        self.connection = None


@functools.cache
def _context() -> Any:
    return _Context()
