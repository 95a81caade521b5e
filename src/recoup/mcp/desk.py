"""What may be asked from outside, whoever answers: the ledger of this home, or a gateway. The answers are the same
documents."""

from __future__ import annotations

from typing import Any, Literal, Protocol

import msgspec

from recoup.model.storage import RunFilter
from recoup.operations.submission import SubmitRequest

Document = dict[str, Any]
EscalationState = Literal["open", "acknowledged", "assigned", "resolved"]
EscalationSource = Literal["run", "probe"]
HealWord = Literal["waiting", "applied", "accepted", "rejected"]


class Steering(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody wants of a run."""

    action: str
    reason: str
    step_id: str | None = None
    as_: str | None = None
    force: bool = False


class Desk(Protocol):
    """Raises RecoupError where something cannot be had or done."""

    async def runs(self, wanted: RunFilter, limit: int, cursor: str | None) -> Document: ...

    async def run(self, run_id: str) -> Document: ...

    async def steps(self, run_id: str) -> Document: ...

    async def attempts(self, run_id: str) -> Document: ...

    async def events(self, run_id: str, after: int, limit: int) -> Document: ...

    async def log_end(self, run_id: str, step: str, limit_bytes: int) -> Document: ...

    async def workflows(self) -> Document: ...

    async def mode(self, workflow: str) -> Document: ...

    async def heals(
        self, workflow: str | None, run_id: str | None, state: HealWord | None, limit: int
    ) -> Document: ...

    async def escalations(
        self, state: EscalationState | None, source: EscalationSource | None, limit: int, cursor: str | None
    ) -> Document: ...

    async def queue(self) -> Document: ...

    async def workers(self) -> Document: ...

    async def memory(self, workflow: str) -> Document: ...

    async def submit(self, request: SubmitRequest) -> Document: ...

    async def control(self, run_id: str, wanted: Steering) -> Document: ...
