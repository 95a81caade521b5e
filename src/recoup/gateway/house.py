"""What every handler can reach: the application, the book of tokens, and how this gateway is set up."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from starlette.requests import Request

from recoup.app import App
from recoup.gateway.access import Principal
from recoup.gateway.batches import Made
from recoup.gateway.book import Book
from recoup.gateway.hooks import Hooks
from recoup.gateway.limits import REPORTS_MAX, STREAMS_MAX, STREAMS_OF_TOKEN_SHARE
from recoup.gateway.problems import Refused
from recoup.model.events import TokenPayload
from recoup.operations.approvals import ApprovalDesk, approval_desk
from recoup.operations.gateway_facts import record_gateway_facts
from recoup.operations.lookup import exact_run
from recoup.operations.probe_reports import ProbeDesk, probe_desk
from recoup.operations.recording import TEXT_PLANS
from recoup.operations.run_states import RunStates
from recoup.operations.tail import tail_of
from recoup.serving.brake import Brake

if TYPE_CHECKING:
    from recoup.operations.audit import Audits
    from recoup.operations.plan_shelf import PlanShelf
    from recoup.operations.submission import PlanAccess

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
    streams: Counter[str] = field(default_factory=Counter)
    """That are open, by token."""
    streams_max: int = STREAMS_MAX
    behind_proxy: bool = False
    """Something before it does TLS, and says so: `--insecure`."""

    def __post_init__(self) -> None:
        self.tail = tail_of(self.app, lambda: self.stopping())
        self.states = RunStates(self.app)
        self.made = Made()
        self.reporting = asyncio.Semaphore(REPORTS_MAX)

    @cached_property
    def plans(self) -> PlanShelf:
        """Loaded when the first plan comes as text."""
        from recoup.operations.plan_shelf import PlanShelf

        return PlanShelf(_SOURCE, self.app.settings.home / TEXT_PLANS)

    @cached_property
    def plan_access(self) -> PlanAccess:
        """How plans come over HTTP."""
        from recoup.operations.submission import PlanAccess

        return PlanAccess(
            parse_text=self.plans.read,
            folders=self.plan_folders,
            follows_links=True,
            plan_path="planPath",
            from_step="fromStep",
            where="where the gateway runs",
            lists_runs="GET /api/runs",
        )

    @cached_property
    def audits(self) -> Audits:
        """Loaded when somebody asks."""
        from recoup.operations.audit import Audits

        return Audits(self.app, lambda: self.stopping())

    @cached_property
    def probes(self) -> ProbeDesk:
        return probe_desk(self.app)

    @cached_property
    def approvals(self) -> ApprovalDesk:
        return approval_desk(self.app)

    @cached_property
    def hooks(self) -> Hooks:
        return Hooks(self.app)

    def wake(self) -> None:
        """Those whose answers wait for something: nothing more comes here."""
        if "probes" in self.__dict__:
            self.probes.wake()

    async def tell_of_tokens(self, *facts: TokenPayload) -> None:
        """Recorded, and so in the audit."""
        await record_gateway_facts(self.app, *facts)

    def enter_stream(self, token_id: str) -> None:
        of_token_max = int(self.streams_max * STREAMS_OF_TOKEN_SHARE)
        if self.streams.total() >= self.streams_max:
            raise _too_many_streams(f"{self.streams_max} streams are open, which is the limit")
        if self.streams[token_id] >= of_token_max:
            raise _too_many_streams(f"this token has {of_token_max} streams open, which is the limit")
        self.streams[token_id] += 1

    def leave_stream(self, token_id: str) -> None:
        self.streams[token_id] -= 1
        if not self.streams[token_id]:
            del self.streams[token_id]

    async def run(self, run_id: str) -> str:
        """Raises NotFound. Takes whole ids only."""
        return await exact_run(self.app, run_id, "GET /api/runs")


def _too_many_streams(detail: str) -> Refused:
    return Refused(503, detail, "Close one, or ask again and again.", {"Retry-After": "5"})


def house_of(request: Request) -> House:
    house = request.app.state.house
    assert isinstance(house, House)
    return house


def principal_of(request: Request) -> Principal:
    principal = request.state.principal
    assert isinstance(principal, Principal), "only routes for everybody are served without a token"
    return principal
