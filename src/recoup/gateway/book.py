"""What the gateway itself keeps, in `gateway.db` of the home, owner-only: tokens by their hash, and answers by key.

A token is 256 random bits. Nobody can go through so many, so one SHA-256 of it is as hard to reverse as a slow hash
would be, and every request can afford it.
"""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from recoup.errors import NotFound, UsageError
from recoup.gateway.database import open_database, unusable
from recoup.gateway.finishing import Answer, Finishing
from recoup.tokens import Principal, Role, given, known
from recoup.tokens import hash_of as _hash

ANSWERS_KEPT_S: Final = 24 * 3_600
ANSWERS_MAX: Final = 10_000
UNDER_WAY_S: Final = 120.0
"""After that whoever began is taken for dead, and the request may be made again."""
TOKENS_MAX: Final = 1_000
SESSION_S: Final = 12 * 3_600
SESSIONS_OF_TOKEN_MAX: Final = 20
_COUNTED_EVERY: Final = 100
"""Answers."""
_PREFIX: Final = "recoup"
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS tokens (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL, hash TEXT NOT NULL UNIQUE,
    made_at TEXT NOT NULL, revoked_at TEXT
) STRICT;
CREATE TABLE IF NOT EXISTS answers (
    key TEXT PRIMARY KEY, request TEXT NOT NULL, begun_s REAL NOT NULL,
    status INTEGER, media TEXT, body BLOB, location TEXT
) STRICT;
CREATE TABLE IF NOT EXISTS sessions (
    hash TEXT PRIMARY KEY, token_id TEXT NOT NULL, csrf TEXT NOT NULL, until_s REAL NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS answers_by_age ON answers (begun_s);
"""


class TokenRow(msgspec.Struct, frozen=True, rename="camel"):
    """What may be shown of a token."""

    id: str
    name: str
    role: str
    made_at: str
    revoked_at: str | None


class Session(msgspec.Struct, frozen=True):
    """A browser that is signed in. Whoever changes something must also say `csrf`, which no other site can read."""

    principal: Principal
    csrf: str


class Book:
    """One file, open as long as the gateway is."""

    def __init__(self, path: Path, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        try:
            self._db = open_database(path)
            self._db.executescript(_SCHEMA)
            self._add_location()
        except (OSError, sqlite3.Error) as error:
            raise unusable(path, error, "Fix its permissions, or restore it from a backup.") from None
        self._given: Principal | None = None
        self._given_hash = ""
        self._begun = 0
        self._path = path
        self._finishing: Finishing | None = None

    def _add_location(self) -> None:
        """To a file of before. Whoever else opens it now waits, and finds it done."""
        if self._has_location():
            return
        self._db.execute("BEGIN IMMEDIATE")
        if not self._has_location():
            self._db.execute("ALTER TABLE answers ADD COLUMN location TEXT")
        self._db.execute("COMMIT")

    def _has_location(self) -> bool:
        found = self._db.execute("SELECT 1 FROM pragma_table_info('answers') WHERE name = 'location'")
        return found.fetchone() is not None

    def close(self) -> None:
        if self._finishing is not None:
            self._finishing.close()
        self._db.close()

    # Tokens

    def is_new(self) -> bool:
        return self._db.execute("SELECT 1 FROM tokens LIMIT 1").fetchone() is None

    def make(self, role: Role, name: str, at: str, token_id: str | None = None) -> str:
        """A new token: it is told here, and nowhere else ever again."""
        self.must_have_room()
        token = f"{_PREFIX}-{role}-{secrets.token_urlsafe(32)}"
        self._db.execute(
            "INSERT INTO tokens (id, name, role, hash, made_at) VALUES (?, ?, ?, ?, ?)",
            (token_id or new_token_id(), name, role.value, _hash(token), at),
        )
        return token

    def must_have_room(self) -> None:
        (count,) = self._db.execute("SELECT count(*) FROM tokens").fetchone()
        if count >= TOKENS_MAX:
            raise UsageError(
                f"there are {count} tokens, which is the limit",
                hint="Revoke one that nobody needs: recoup tokens list, recoup tokens revoke ID",
            )

    def accept(self, token: str) -> None:
        """The operator's token by `RECOUP_TOKEN`: known as long as this process lives."""
        self._given_hash, self._given = given(token)

    def who(self, token: str) -> Principal | None:
        hashed = _hash(token)
        is_given = secrets.compare_digest(hashed, self._given_hash)
        return known(self._db, hashed) or (self._given if is_given else None)

    def tokens(self) -> list[TokenRow]:
        rows = self._db.execute("SELECT id, name, role, made_at, revoked_at FROM tokens ORDER BY made_at, id")
        return [TokenRow(*row) for row in rows]

    def revoke(self, token_id: str, at: str) -> Principal:
        """Whose it was."""
        row = self._db.execute(
            "UPDATE tokens SET revoked_at = coalesce(revoked_at, ?) WHERE id = ? RETURNING id, name, role",
            (at, token_id),
        ).fetchone()
        if row is None:
            raise NotFound(f"there is no token {token_id!r}", hint="List them: recoup tokens list")
        return Principal(row[0], row[1], Role(row[2]))

    # Sessions

    def open_session(self, principal: Principal) -> tuple[str, str]:
        """Its secret, for a cookie; and what must be said with every change. It ends with the token, or by itself."""
        secret, csrf, now_s = secrets.token_urlsafe(32), secrets.token_urlsafe(32), self._now_s()
        self._db.execute("DELETE FROM sessions WHERE until_s < ?", (now_s,))
        self._db.execute(
            "DELETE FROM sessions WHERE hash IN (SELECT hash FROM sessions WHERE token_id = ?"
            " ORDER BY until_s DESC LIMIT -1 OFFSET ?)",
            (principal.token_id, SESSIONS_OF_TOKEN_MAX - 1),
        )
        self._db.execute(
            "INSERT INTO sessions VALUES (?, ?, ?, ?)",
            (_hash(secret), principal.token_id, csrf, now_s + SESSION_S),
        )
        return secret, csrf

    def session(self, secret: str) -> Session | None:
        row = self._db.execute(
            "SELECT token_id, csrf FROM sessions WHERE hash = ? AND until_s >= ?",
            (_hash(secret), self._now_s()),
        ).fetchone()
        principal = None if row is None else self._by_id(row[0])
        return None if principal is None else Session(principal, row[1])

    def end_session(self, secret: str) -> bool:
        """Whether there was one."""
        return self._db.execute("DELETE FROM sessions WHERE hash = ?", (_hash(secret),)).rowcount > 0

    def _by_id(self, token_id: str) -> Principal | None:
        if self._given is not None and token_id == self._given.token_id:
            return self._given
        row = self._db.execute(
            "SELECT id, name, role FROM tokens WHERE id = ? AND revoked_at IS NULL", (token_id,)
        ).fetchone()
        return None if row is None else Principal(row[0], row[1], Role(row[2]))

    # Answers

    def begin(self, key: str, request: str) -> Answer | None:
        """None: nothing was asked under this key, and we are the ones who answer now. Raises UsageError where it was
        asked something else, or somebody is answering."""
        now_s = self._now_s()
        self._forget(now_s)
        if self._is_begun(key, request, now_s):
            return None
        earlier, begun_s, status, media, body, location = self._db.execute(
            "SELECT request, begun_s, status, media, body, location FROM answers WHERE key = ?", (key,)
        ).fetchone()
        if earlier != request:
            raise KeyOfAnother(
                "this Idempotency-Key was used for another request", hint="Use a new key for a new request."
            )
        if status is not None:
            return Answer(status, media, body, location)
        if now_s - begun_s < UNDER_WAY_S:
            raise UsageError(
                "this request is being answered", hint="Ask again in a moment, with the same key."
            )
        self._db.execute("UPDATE answers SET begun_s = ? WHERE key = ?", (now_s, key))
        return None

    async def finish(self, key: str, answer: Answer) -> None:
        """Durable when it returns."""
        if self._finishing is None:
            self._finishing = Finishing(self._path)
        await self._finishing.keep(key, answer)

    def drop(self, key: str) -> None:
        """It was not answered: the next who asks is."""
        self._db.execute("DELETE FROM answers WHERE key = ? AND status IS NULL", (key,))

    def _is_begun(self, key: str, request: str, now_s: float) -> bool:
        """Not forced onto the disk: that somebody began is of no use to whoever comes after the machine went down. What
        was answered is."""
        self._db.execute("PRAGMA synchronous = NORMAL")
        try:
            begun = self._db.execute(
                "INSERT INTO answers (key, request, begun_s) VALUES (?, ?, ?) ON CONFLICT (key) DO NOTHING",
                (key, request, now_s),
            )
            return begun.rowcount == 1
        finally:
            self._db.execute("PRAGMA synchronous = FULL")

    def _forget(self, now_s: float) -> None:
        """To count them costs more than to keep a few too many for a while."""
        self._db.execute("DELETE FROM answers WHERE begun_s < ?", (now_s - ANSWERS_KEPT_S,))
        self._begun += 1
        if self._begun % _COUNTED_EVERY == 1:
            self._db.execute(
                "DELETE FROM answers WHERE key IN (SELECT key FROM answers ORDER BY begun_s DESC LIMIT -1 OFFSET ?)",
                (ANSWERS_MAX,),
            )


class KeyOfAnother(UsageError):
    """An idempotency key under which something else was asked."""


def new_token_id() -> str:
    return f"tok-{secrets.token_hex(4)}"


def answer_key(principal: Principal, key: str) -> str:
    """Of one token: nobody meets another's answers."""
    return hashlib.sha256(f"{principal.token_id}\n{key}".encode()).hexdigest()
