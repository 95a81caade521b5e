"""The ledger of this home, asked directly, as the command line does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from recoup.app import App
from recoup.errors import UsageError
from recoup.kernel.escalations import escalation_document
from recoup.kernel.listing import COLUMNS, FILTERS, values_of
from recoup.kernel.prefix import ledger_document
from recoup.kernel.reviewing import heal_document
from recoup.mcp.desk import Document, EscalationSource, EscalationState, HealWord, Steering
from recoup.model.answers.answer import Answer
from recoup.model.ids import EVERY_WORKFLOW
from recoup.model.run import RunState
from recoup.model.storage import RunFilter
from recoup.operations import memory, queues, runs, submission, workflows
from recoup.operations.control import ControlRequest, Spelling, mistake_in, must_have_step, serve
from recoup.operations.cursor import Place, cursor_of, read_cursor, read_run_cursor
from recoup.operations.escalations import EscalationFilter, list_escalations
from recoup.operations.events import run_events_after
from recoup.operations.heals import HealFilter, list_heals
from recoup.operations.logs import show_log
from recoup.operations.lookup import exact_run
from recoup.operations.plan_shelf import PlanShelf
from recoup.operations.recording import TEXT_PLANS
from recoup.operations.submission import PlanAccess, SubmitRequest
from recoup.operations.workflows import ALL, exact_workflow

_PATIENCE_S: Final = 10.0
_SPELLING: Final = Spelling(
    needs_step="step",
    needs_answer="settle_as",
    answer="settle_as",
    force="force",
    lists_steps="get_run lists them.",
    shows_step=": get_run names it.",
    leave_out="Leave it out.",
)
_SOURCE: Final = "the plan"


class LedgerDesk:
    """For one who asks: `actor` is what stands in events."""

    def __init__(
        self, app: App, actor: str, folder: Path | None = None, plan_folders: Sequence[Path] = ()
    ) -> None:
        self._app = app
        self._actor = actor
        self._plan_folders = tuple(plan_folders)
        """Where plans may come from; empty: from anywhere, and as text."""
        self._folder = folder
        """What relative paths of plans begin in; None: they must be whole."""

    async def runs(self, wanted: RunFilter, limit: int, cursor: str | None) -> Document:
        before = None if cursor is None else _place(cursor)
        must_be_choices(wanted)
        found = await runs.list_runs(self._app, wanted, limit, before)
        return _page(await runs.row_documents(self._app, found.rows), found.next_cursor)

    async def run(self, run_id: str) -> Document:
        await self._must_be_there(run_id)
        return _plain(await runs.show_run(self._app, run_id))

    async def steps(self, run_id: str) -> Document:
        return _plain(ledger_document(await self._shown(run_id)))

    async def attempts(self, run_id: str) -> Document:
        await self._must_be_there(run_id)
        return _page(runs.attempt_documents(await runs.attempts_of(self._app, run_id)), None)

    async def events(self, run_id: str, after: int, limit: int) -> Document:
        await self._must_be_there(run_id)
        page = await run_events_after(self._app, run_id, after, limit)
        # As others get them: a payload is kept as it is written.
        lines = [msgspec.json.decode(msgspec.json.encode(line)) for line in page.lines]
        return _page(lines, None if page.behind is None else str(page.behind))

    async def log_end(self, run_id: str, step: str, limit_bytes: int) -> Document:
        state = await self._shown(run_id)
        log: Document = msgspec.to_builtins(await show_log(self._app, state, step, limit_bytes, tail=True))
        return log

    async def workflows(self) -> Document:
        return _page(await workflows.modes(self._app, await workflows.workflows(self._app)), None)

    async def mode(self, workflow: str) -> Document:
        return _plain(await workflows.mode(self._app, await self._known(workflow)))

    async def heals(
        self, workflow: str | None, run_id: str | None, state: HealWord | None, limit: int
    ) -> Document:
        if run_id is not None:
            await self._must_be_there(run_id)
        found = await list_heals(self._app, HealFilter(workflow=workflow, run_id=run_id, state=state), limit)
        return _page([heal_document(heal.workflow, heal.reviewed) for heal in found], None)

    async def escalations(
        self, state: EscalationState | None, source: EscalationSource | None, limit: int, cursor: str | None
    ) -> Document:
        after = 0 if cursor is None else _number(cursor)
        wanted = EscalationFilter(state=state, source=source)
        rows, behind = await list_escalations(self._app, wanted, limit, after)
        return {
            "escalations": msgspec.to_builtins([escalation_document(row) for row in rows]),
            "nextCursor": None if behind is None else cursor_of(behind),
        }

    async def queue(self) -> Document:
        return await queues.show_queue(self._app)

    async def workers(self) -> Document:
        return _page(await queues.list_workers(self._app), None)

    async def memory(self, workflow: str) -> Document:
        return _page(await memory.versions(self._app, await self._known(workflow)), None)

    async def submit(self, request: SubmitRequest) -> Document:
        access = self._plan_access()
        request = _at_home(request)
        mistake = submission.mistake_in(request, access)
        if mistake is not None:
            raise UsageError(mistake.message, hint=mistake.hint)
        run_plan = await submission.plan_of(self._app, request, access)
        return (await submission.submit(self._app, request, run_plan, self._actor)).document

    async def control(self, run_id: str, wanted: Steering) -> Document:
        await self._must_be_there(run_id)
        request = ControlRequest(
            run_id=run_id,
            action=wanted.action,
            reason=wanted.reason.strip(),
            actor=self._actor,
            step_id=wanted.step_id,
            answer=wanted.as_,
            force=wanted.force,
        )
        mistake = mistake_in(request, _SPELLING)
        if mistake is not None:
            raise UsageError(mistake.message, hint=mistake.hint)
        await must_have_step(self._app, run_id, wanted.step_id)
        answer: Document = msgspec.to_builtins(await serve(self._app, request, _PATIENCE_S))
        return answer

    def _plan_access(self) -> PlanAccess:
        folder = self._app.settings.home / TEXT_PLANS
        folder.mkdir(mode=0o700, exist_ok=True)
        parse_text = PlanShelf(_SOURCE, folder).read
        return PlanAccess(parse_text=parse_text, folders=self._plan_folders, base=self._folder)

    async def _shown(self, run_id: str) -> RunState:
        await self._must_be_there(run_id)
        return await self._app.runs.shown(run_id)

    async def _must_be_there(self, run_id: str) -> None:
        await exact_run(self._app, run_id, "list_runs")

    async def _known(self, name: str) -> str:
        return EVERY_WORKFLOW if name == ALL else await exact_workflow(self._app, name, "list_workflows")


def _at_home(request: SubmitRequest) -> SubmitRequest:
    """`~` is a person's own folder here."""
    if request.plan_path is None:
        return request
    return msgspec.structs.replace(request, plan_path=str(Path(request.plan_path).expanduser()))


def must_be_choices(wanted: RunFilter) -> None:
    for name, field in FILTERS.items():
        known = [choice.value for choice in field.choices or ()]
        for value in values_of(wanted, name) if known else ():
            if value not in known:
                word = COLUMNS[name].replace("_", " ")
                raise UsageError(f"there is no {word} {value!r}", hint=f"Choose one of: {', '.join(known)}.")


def _plain(answer: Answer) -> Document:
    document: Document = msgspec.to_builtins(answer)
    return document


def _page(items: Sequence[Any], behind: str | None) -> Document:
    return {"items": msgspec.to_builtins(items), "nextCursor": behind}


def _number(cursor: str) -> int:
    try:
        return read_cursor(cursor, tuple[Place])[0]
    except ValueError:
        raise UsageError(
            "this cursor is none of list_escalations", hint="Leave it out to begin at the beginning."
        ) from None


def _place(cursor: str) -> tuple[int, str]:
    try:
        return read_run_cursor(cursor)
    except ValueError:
        raise UsageError(
            "this cursor is none of list_runs", hint="Leave it out to begin at the beginning."
        ) from None
