"""The queue that belongs to a ledger."""

from __future__ import annotations

from pathlib import Path

from recoup.dispatch.local import HOLD_S, LocalDispatch
from recoup.errors import SettingsError
from recoup.ports import Clock, Dispatch


async def open_dispatch(database: Path | str, clock: Clock, *, hold_s: float = HOLD_S) -> Dispatch:
    """Beside the ledger's SQLite file, or in its PostgreSQL (`postgresql://…`). Raises DispatchError, SettingsError."""
    if isinstance(database, Path):
        return LocalDispatch(queue_path(database), clock, hold_s=hold_s)
    try:
        from recoup.dispatch.postgres import PgDispatch
    except ImportError as error:
        raise SettingsError(
            f"RECOUP_DATABASE is in PostgreSQL, and a library for that is missing: {error.name}",
            hint="pip install 'recoup[postgres]'",
        ) from error
    return await PgDispatch.open(database, hold_s=hold_s)


def queue_path(ledger: Path) -> Path:
    """Two ledgers in one folder have two queues."""
    return ledger.with_name("queue.db" if ledger.stem == "ledger" else f"{ledger.stem}.queue.db")
