"""What every handler can reach: the application, the book of tokens, and how this gateway is set up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from starlette.requests import Request

from recoup.app import App
from recoup.desk.approvals import ApprovalDesk
from recoup.desk.escalations import Inbox
from recoup.desk.probes import ProbeDesk
from recoup.desk.tokens import tell_of_tokens
from recoup.errors import NotFound
from recoup.gateway.access import Principal
from recoup.gateway.batches import Made
from recoup.gateway.book import Book
from recoup.gateway.hooks import Hooks
from recoup.gateway.limits import REPORTS_MAX, STREAMS_MAX, Brake, Patience
from recoup.gateway.problems import Refused
from recoup.gateway.run_states import RunStates
from recoup.gateway.tail import Tail
from recoup.model.events import TokenPayload

if TYPE_CHECKING:
    from recoup.gateway.audits import Audits
    from recoup.gateway.plan_shelf import PlanShelf

_SOURCE: Final = "the plan in the request"


@dataclass
class House:
    """One gateway."""

    app: App
    book: Book
    plan_folders: tuple[Path, ...] = ()
    """Where plans may come from; empty: from anywhere, and as text in the request."""
    brake: Brake = field(default_factory=lambda: Brake(time.monotonic))
    stopping: Callable[[], bool] = lambda: False
    hosts: tuple[str, ...] = ()
    """Names by which it may be asked, besides its addresses."""
    streams: int = 0
    streams_max: int = STREAMS_MAX
    patience: Patience = field(default_factory=Patience)

    def __post_init__(self) -> None:
        self.tail = Tail(self.app.ledger, lambda: self.stopping())
        self.states = RunStates(self.app)
        self.made = Made()
        self.reporting = asyncio.Semaphore(REPORTS_MAX)

    @cached_property
    def plans(self) -> PlanShelf:
        """Loaded when the first plan comes as text."""
        from recoup.gateway.plan_shelf import PlanShelf

        return PlanShelf(_SOURCE, self.app.settings.home / "plans")

    @cached_property
    def audits(self) -> Audits:
        """Loaded when somebody asks."""
        from recoup.gateway.audits import Audits

        return Audits(self.app, lambda: self.stopping())

    @cached_property
    def probes(self) -> ProbeDesk:
        return ProbeDesk(self.app.ledger, self.app.redactor, self.app.world.clock)

    @cached_property
    def inbox(self) -> Inbox:
        return Inbox(self.app.ledger, self.app.redactor, self.app.world.clock)

    @cached_property
    def approvals(self) -> ApprovalDesk:
        return ApprovalDesk(self.app.ledger, self.app.redactor, self.app.world.clock)

    @cached_property
    def hooks(self) -> Hooks:
        return Hooks(self.app)

    def wake(self) -> None:
        """Those whose answers wait for something: nothing more comes here."""
        if "probes" in self.__dict__:
            self.probes.wake()

    async def tell_of_tokens(self, *facts: TokenPayload) -> None:
        """Recorded, and so in the audit."""
        await tell_of_tokens(self.app.ledger, self.app.redactor, self.app.world.clock, facts)

    def enter_stream(self) -> None:
        if self.streams >= self.streams_max:
            raise Refused(
                *(503, f"{self.streams_max} streams are open, which is the limit"),
                hint="Close one, or ask again and again.",
                headers={"Retry-After": "5"},
            )
        self.streams += 1

    def leave_stream(self) -> None:
        self.streams -= 1

    async def run(self, run_id: str) -> str:
        """Must be there. Beginnings of ids are for people who type; here they would name another run tomorrow."""
        if run_id not in await self.app.ledger.find_runs(run_id, limit=1):
            raise NotFound(f"there is no run {run_id!r}", hint="List them: GET /api/runs")
        return run_id


def house_of(request: Request) -> House:
    house = request.app.state.house
    assert isinstance(house, House)
    return house


def principal_of(request: Request) -> Principal:
    principal = request.state.principal
    assert isinstance(principal, Principal), "only routes for everybody are served without a token"
    return principal
