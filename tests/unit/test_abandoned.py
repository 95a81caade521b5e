"""Whose processes a host ends, although another driver may have their run by now."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from recoup.errors import KeeperError, LedgerError
from recoup.fleet.abandoned import AbandonedProcesses
from recoup.model import events as ev
from recoup.model.ids import ProcessIdentity
from recoup.model.process import Abandoned

DEAD = ProcessIdentity("host", "boot", 7, 1)
OTHER = ProcessIdentity("elsewhere", "boot", 7, 1)
LEFT = Abandoned(DEAD, "run-1")


class Ledger:
    """One run: who holds it, and whom its drivers replaced."""

    def __init__(self, owner: ProcessIdentity | None, *replaced: ProcessIdentity) -> None:
        self.row: Any = SimpleNamespace(owner=owner)
        self.events = [
            SimpleNamespace(
                payload=ev.RunTakenOver(
                    epoch=2, previous_epoch=1, previous_owner=one, reason="the driver was lost"
                )
            )
            for one in replaced
        ]

    async def lease(self, _run_id: str) -> Any:
        return self.row

    async def read(self, _stream: str) -> Any:
        return self.events


def ended(ledger: Any, count: int = 2) -> tuple[list[Abandoned], list[str]]:
    """Which were ended, and what is said about it."""
    gone: list[Abandoned] = []

    async def end(left: Abandoned) -> int:
        gone.append(left)
        return count

    return gone, asyncio.run(AbandonedProcesses(ledger, lambda: [LEFT], end).end())


@pytest.mark.parametrize("ledger", [Ledger(DEAD), Ledger(OTHER, DEAD), Ledger(None, OTHER, DEAD)])
def test_what_a_lost_driver_left_is_ended_whoever_drives_the_run_now(ledger: Ledger) -> None:
    gone, words = ended(ledger)
    assert gone == [LEFT]
    assert words == ["ended 2 processes that run run-1 left here when its driver was killed"]


@pytest.mark.parametrize("ledger", [Ledger(None), Ledger(OTHER), Ledger(OTHER, OTHER)])
def test_what_began_under_a_driver_that_ended_in_good_order_is_left_alone(ledger: Ledger) -> None:
    assert ended(ledger) == ([], [])


def test_what_belongs_to_a_run_of_another_ledger_is_left_alone() -> None:
    ledger = Ledger(DEAD)
    ledger.row = None
    assert ended(ledger) == ([], [])


def test_what_ended_by_itself_is_not_worth_a_word() -> None:
    assert ended(Ledger(DEAD), count=0) == ([LEFT], [])


@pytest.mark.parametrize(
    "error", [KeeperError("processes cannot be killed: 9", hint=""), LedgerError("away", hint="")]
)
def test_what_could_not_be_ended_is_said(error: Exception) -> None:
    async def end(_left: Abandoned) -> int:
        raise error

    (words,) = asyncio.run(AbandonedProcesses(Ledger(DEAD), lambda: [LEFT], end).end())  # type: ignore[arg-type]
    assert words.startswith("processes that run run-1 left here may still run: ")
