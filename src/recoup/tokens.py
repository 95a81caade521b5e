"""The identity of a user: by token, or as a user of this machine.

Tokens are made and revoked by the gateway; every server checks them here.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from enum import StrEnum

import msgspec

from recoup.errors import UsageError
from recoup.strength import MAKE_ONE, TOKEN_CHARS_MIN, weakness


class Role(StrEnum):
    VIEWER = "viewer"
    """Looks."""
    OPERATOR = "operator"
    """Looks and changes. Who may submit a plan may run any command that the workers can: a plan is code."""
    WORKER = "worker"
    """A machine that drives runs."""
    PROBE = "probe"
    """A machine that watches processes."""


class Principal(msgspec.Struct, frozen=True):
    """Whoever asks, by their token."""

    token_id: str
    name: str
    role: Role

    @property
    def actor(self) -> str:
        """As it stands in events."""
        return f"{self.name} ({self.role}, {self.token_id})"


def given(token: str) -> tuple[str, Principal]:
    """The operator of `RECOUP_TOKEN`, with the hash by which they are known."""
    if why := weakness(token, TOKEN_CHARS_MIN):
        raise UsageError(f"RECOUP_TOKEN {why}", hint=f"Make a random one: {MAKE_ONE}")
    hashed = hash_of(token)
    # Another token is another id: sessions of the one before it end.
    return hashed, Principal(f"environment-{hashed[:8]}", "RECOUP_TOKEN", Role.OPERATOR)


def known(database: sqlite3.Connection, hashed: str) -> Principal | None:
    """None: nobody has such a token, or it was revoked."""
    row = database.execute(
        "SELECT id, name, role FROM tokens WHERE hash = ? AND revoked_at IS NULL", (hashed,)
    ).fetchone()
    return None if row is None else Principal(row[0], row[1], Role(row[2]))


def hash_of(token: str) -> str:
    return hashlib.sha256(b"recoup token\n" + token.encode()).hexdigest()


def local_user() -> str:
    """The user who runs this command. In a container that user may have no name."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"
