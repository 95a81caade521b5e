"""Reports and cases. Their code is loaded when a run has failed or a report is requested."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from recoup.errors import LedgerError
from recoup.kernel.modes import calls_for_report
from recoup.model.failure import Failure
from recoup.model.run import RunState, RunStatus, StepRecord
from recoup.ports import Ledger, Redactor, RedactorOf

if TYPE_CHECKING:
    from recoup.reports.reporter import Reporter


class LateReports:
    """Of the runs of one process."""

    def __init__(
        self,
        ledger: Ledger,
        make_reporter: Callable[[], Reporter],
        held_redactor: Callable[[str], Redactor],
        redactor_of: RedactorOf,
        warnings: Callable[[], list[str]],
    ) -> None:
        self._ledger = ledger
        self._make_reporter = make_reporter
        self._held_redactor = held_redactor
        self._redactor_of = redactor_of
        self._warnings = warnings

    @cached_property
    def reporter(self) -> Reporter:
        return self._make_reporter()

    async def if_due(self, state: RunState) -> list[str]:
        """Writes the report of a run that was driven, if one is due. Returns what is worth telling, in words."""
        words = await self._written(state)
        return [*self._warnings(), *([] if words is None else [words])]

    async def store_case(
        self,
        state: RunState,
        record: StepRecord,
        failure: Failure,
        decision: str,
        policy_digest: str,
        limit_bytes: int,
        *,
        evidence: Sequence[str] = (),
    ) -> str | None:
        about = (state, record, failure, decision, policy_digest, limit_bytes)
        redactor = self._held_redactor(state.run_id)
        return await self.reporter.store_case(*about, redactor=redactor, evidence=evidence)

    async def _written(self, state: RunState) -> str | None:
        if state.status is RunStatus.SUCCEEDED:
            return None
        try:
            mode = (await self._ledger.workflow_state(state.workflow)).health.mode
        except LedgerError as error:
            return f"whether a report is due is not known: {error}"
        if not calls_for_report(state, mode):
            return None
        redactor = await self._redactor_of(state.run_id)
        written = await self.reporter.write_report(state.run_id, redactor=redactor)
        return f"report: {written.path}" if written.path else written.problem
