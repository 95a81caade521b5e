"""What PostgreSQL reports, in words that say what to do."""

from __future__ import annotations

import psycopg

from recoup.errors import LedgerAway, LedgerBusy, LedgerError
from recoup.ledger.postgres.connecting import Address

_WORDS = {
    "28": ("access is denied", "Check the user and the password in RECOUP_DATABASE."),
    "3D": ("there is no such database", "Create it (createdb), or name another one with RECOUP_DATABASE."),
    "42501": (
        "the user lacks a right",
        "Give it a schema: CREATE SCHEMA recoup AUTHORIZATION USER.",
    ),
    "25006": (
        "it is read-only",
        "Name the primary server with RECOUP_DATABASE (target_session_attrs=read-write).",
    ),
    "53100": ("the server's disk is full", "Free some space there; everything recorded so far is safe."),
    "53300": ("it has no connection left", "Raise max_connections, or run fewer workers."),
    "XX": ("it is damaged", "Stop every Recoup process and look into the server's log."),
}
_SILENT = (
    "Something accepts connections there and does not answer: see that it is PostgreSQL, and that it is neither frozen "
    "nor overloaded (pg_isready, pg_stat_activity). What was running can be resumed then."
)
_PASSING = ("08", "40", "53300", "55P03", "57P01", "57P02", "57P03", "57P05", "57014", "25P03", "58")
"""Classes of trouble that may be over the next time: connection, deadlock, lock, restart, timeouts."""


def ledger_error(error: Exception, address: Address) -> LedgerError:
    state = _state(error)
    for code, (what, hint) in _WORDS.items():
        if state.startswith(code):
            kind = LedgerAway if is_passing(error) else LedgerError
            return kind(f"the ledger {address.name} failed: {what} ({_said(error, address)})", hint=hint)
    if isinstance(error, TimeoutError):
        return LedgerAway(f"the ledger {address.name} failed: no answer in time", hint=_SILENT)
    hint = "See that the server runs and can be reached; what was running can be resumed then."
    kind = LedgerAway if is_passing(error) else LedgerError
    return kind(f"the ledger {address.name} failed: {_said(error, address)}", hint=hint)


def ledger_busy(error: Exception | None, address: Address, waited_s: float) -> LedgerBusy:
    why = f" ({_said(error, address)})" if error else ""
    hint = "Something holds its locks, or it is overloaded: look into pg_stat_activity, or try again later."
    return LedgerBusy(f"no turn at the ledger {address.name} within {waited_s:g} s{why}", hint=hint)


def is_passing(error: BaseException) -> bool:
    """It may be over the next time. What has no code comes from the client: no connection could be had or kept."""
    state = _state(error)
    if not state:
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | OSError | TimeoutError)
    return state.startswith(_PASSING)


def is_lock(error: BaseException) -> bool:
    return _state(error) in ("55P03", "40P01", "40001", "57014")


def _state(error: BaseException) -> str:
    return getattr(error, "sqlstate", None) or ""


def _said(error: BaseException, address: Address) -> str:
    lines = address.scrubbed(str(error)).strip().splitlines()
    return lines[0] if lines else type(error).__name__
