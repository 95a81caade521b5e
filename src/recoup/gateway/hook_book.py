"""Who is told of events, in `gateway.db` of the home beside the tokens: where to, of what, how far, and what is wrong.

The secret that each shares with us and its whole address, which may hold a key, are in a vault of the home, encrypted.
"""

from __future__ import annotations

import contextlib
import secrets
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from recoup.errors import NotFound, StateError, UsageError
from recoup.evidence.vault import Vault
from recoup.gateway.database import open_database, unusable
from recoup.kernel.webhooks import is_hidden, shown_hook

WEBHOOKS_MAX: Final = 50
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS webhooks (
    id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, url TEXT NOT NULL, kinds TEXT NOT NULL, made_at TEXT NOT NULL,
    cursor INTEGER NOT NULL, failed INTEGER NOT NULL DEFAULT 0, first_failed_s REAL, next_s REAL NOT NULL DEFAULT 0,
    trouble TEXT NOT NULL DEFAULT '', off_at TEXT
) STRICT;
"""
_COLUMNS: Final = "id, name, url, kinds, made_at, cursor, failed, first_failed_s, next_s, trouble, off_at"


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    url: str
    """As it is shown; whole only until it is kept, or where an earlier version kept it."""
    kinds: tuple[str, ...]
    made_at: str
    cursor: int
    """The number of the last event that it was told of, or that it need not be told of."""
    failed: int = 0
    """Times in a row."""
    first_failed_s: float | None = None
    next_s: float = 0
    """On the wall clock: not before then."""
    trouble: str = ""
    off_at: str | None = None
    """It is told of nothing any more."""


class HookBook:
    def __init__(self, path: Path, vault: Vault) -> None:
        self._vault = vault
        try:
            self._db = open_database(path)
            self._db.executescript(_SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise unusable(path, error, "Fix its permissions.") from None

    def close(self) -> None:
        self._db.close()

    def add(self, hook: Webhook) -> str:
        """The secret that is shared with it: told here, and nowhere else ever again."""
        secret = f"whsec-{secrets.token_urlsafe(32)}"
        self._vault.put(hook.id, secret)
        self._vault.put(_address(hook.id), hook.url)
        with _in_words():
            self._db.execute(
                "INSERT INTO webhooks (id, name, url, kinds, made_at, cursor) VALUES (?, ?, ?, ?, ?, ?)",
                (hook.id, hook.name, shown_hook(hook.url), " ".join(hook.kinds), hook.made_at, hook.cursor),
            )
        return secret

    def must_take(self, name: str) -> None:
        hooks = self.all()
        if len(hooks) >= WEBHOOKS_MAX:
            raise UsageError(
                f"there are {len(hooks)} webhooks, which is the limit",
                hint="Remove one that nobody needs: recoup webhooks list, recoup webhooks remove ID",
            )
        if name in {hook.name for hook in hooks}:
            raise UsageError(
                f"there is a webhook {name!r} already", hint="Choose another name, or remove it."
            )

    def all(self) -> list[Webhook]:
        with _in_words():
            rows = self._db.execute(f"SELECT {_COLUMNS} FROM webhooks ORDER BY made_at, id").fetchall()
        return [_hook(row) for row in rows]

    def find(self, hook_id: str) -> Webhook:
        found = next((hook for hook in self.all() if hook.id == hook_id), None)
        if found is None:
            raise NotFound(f"there is no webhook {hook_id!r}", hint="List them: recoup webhooks list")
        return found

    def secret(self, hook: Webhook) -> str:
        return self._vault.get(hook.id)

    def address(self, hook: Webhook) -> str:
        """The whole of it."""
        return self._vault.get(_address(hook.id)) if is_hidden(hook.url) else hook.url

    def remove(self, hook_id: str) -> None:
        with _in_words():
            self._db.execute("DELETE FROM webhooks WHERE id = ?", (hook_id,))
        self._vault.forget(hook_id)
        self._vault.forget(_address(hook_id))

    def move(self, hook_id: str, cursor: int) -> None:
        """It was told, or need not be."""
        with _in_words():
            self._db.execute(
                "UPDATE webhooks SET cursor = ?, failed = 0, first_failed_s = NULL, next_s = 0, trouble = '' "
                "WHERE id = ?",
                (cursor, hook_id),
            )

    def pass_by(self, hook_id: str, cursor: int) -> None:
        """What need not be told is not looked at again; what could not be told is next, and the trouble stays."""
        with _in_words():
            self._db.execute("UPDATE webhooks SET cursor = max(cursor, ?) WHERE id = ?", (cursor, hook_id))

    def troubled(self, hook: Webhook, now_s: float, next_s: float, trouble: str) -> None:
        with _in_words():
            self._db.execute(
                "UPDATE webhooks SET failed = failed + 1, first_failed_s = coalesce(first_failed_s, ?), next_s = ?, "
                "trouble = ? WHERE id = ?",
                (now_s, next_s, trouble, hook.id),
            )

    def switch_off(self, hook_id: str, at: str) -> None:
        with _in_words():
            self._db.execute("UPDATE webhooks SET off_at = ? WHERE id = ?", (at, hook_id))


def _address(hook_id: str) -> str:
    return f"{hook_id}.address"


def new_hook_id() -> str:
    return f"hook-{secrets.token_hex(4)}"


@contextlib.contextmanager
def _in_words() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StateError(
            f"gateway.db cannot be used: {error}", hint="See whether the disk is full."
        ) from None


def _hook(row: tuple[Any, ...]) -> Webhook:
    told = dict(zip(_COLUMNS.split(", "), row, strict=True))
    return Webhook(**{**told, "kinds": tuple(told["kinds"].split(" "))})
