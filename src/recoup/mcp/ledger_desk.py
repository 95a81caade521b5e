"""The ledger of this home, asked directly, as the command line does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from recoup import steering
from recoup.app import App
from recoup.damage import read_leniently
from recoup.errors import NotFound, UsageError
from recoup.files.named import opened
from recoup.fleet.queued import Queued
from recoup.heals.desk import Heals
from recoup.kernel.controls import FORCE
from recoup.kernel.documents import run_document
from recoup.kernel.listing import COLUMNS, FILTERS, values_of
from recoup.kernel.needs import needs_of
from recoup.kernel.prefix import ledger_document
from recoup.kernel.reviewing import heal_document
from recoup.kernel.rows import attempt_row_document, run_row_document
from recoup.linked import Reusing
from recoup.mcp.desk import Document, HealWord, Steering, Submission
from recoup.model.answers.answer import Answer
from recoup.model.ids import EVERY_WORKFLOW, run_stream
from recoup.model.plan import Plan
from recoup.model.run import RunState
from recoup.model.storage import RunFilter
from recoup.runs.submitting import TEXT_PLANS

ALL: Final = "-"
"""Instead of a workflow's name: all of them together."""
_PATIENCE_S: Final = 10.0
_SOURCE: Final = "the plan"


class LedgerDesk:
    """For one who asks: `actor` is what stands in events."""

    def __init__(self, app: App, actor: str, folder: Path | None = None) -> None:
        self._app = app
        self._actor = actor
        self._folder = folder
        """What relative paths of plans begin in; None: they must be whole."""

    async def runs(self, wanted: RunFilter, limit: int, cursor: str | None) -> Document:
        before = None if cursor is None else _place(cursor)
        must_be_choices(wanted)
        found = await self._app.ledger.runs(wanted, limit=limit, before=before)
        behind = None if found.behind is None else f"{found.behind[0]}:{found.behind[1]}"
        rows = [run_row_document(row, await self._app.runs.unreadable(row)) for row in found.rows]
        return _page(rows, behind)

    async def run(self, run_id: str) -> Document:
        return _plain(run_document(await self._shown(run_id)))

    async def steps(self, run_id: str) -> Document:
        return _plain(ledger_document(await self._shown(run_id)))

    async def attempts(self, run_id: str) -> Document:
        await self._must_be_there(run_id)
        return _page([attempt_row_document(row) for row in await self._app.ledger.attempts(run_id)], None)

    async def events(self, run_id: str, after: int, limit: int) -> Document:
        await self._must_be_there(run_id)
        events = await read_leniently(self._app.ledger, run_stream(run_id), after, limit + 1)
        behind = str(events[limit - 1].seq) if len(events) > limit else None
        # As others get them: a payload is kept as it is written.
        lines = [msgspec.json.decode(msgspec.json.encode(event.line())) for event in events[:limit]]
        return _page(lines, behind)

    async def log_end(self, run_id: str, step: str, limit_bytes: int) -> Document:
        state = await self._shown(run_id)
        index, files = _index(state, step), self._app.runs.files(run_id)
        offset, path = files.log_tail(index, limit_bytes), files.log_path(index)
        raw = b""
        if path.is_file():
            with opened(path) as file:
                file.seek(offset)
                raw = file.read(limit_bytes)
        return {
            "stepId": state.steps[index].step_id,
            "stepIndex": index,
            "offset": offset,
            "nextOffset": offset + len(raw),
            "log": raw.decode("utf-8", "replace"),
        }

    async def workflows(self) -> Document:
        return _page(await self._app.modes(await self._app.workflows()), None)

    async def mode(self, workflow: str) -> Document:
        (found,) = await self._app.modes([await self._known(workflow)])
        return found

    async def heals(
        self, workflow: str | None, run_id: str | None, state: HealWord | None, limit: int
    ) -> Document:
        desk = Heals(self._app.ledger, self._app.redactor_of, self._app.world.clock)
        names = [workflow] if workflow is not None else await desk.workflows()
        if run_id is not None:
            home = (await self._shown(run_id)).workflow
            names = [home] if workflow in (None, home) else []
        found = await desk.newest(names, lambda one: state in (None, one.state), limit, run_id)
        return _page([heal_document(heal.workflow, heal.reviewed) for heal in found], None)

    async def submit(self, wanted: Submission) -> Document:
        plan, given, source = await self._plan(wanted)
        queued = Queued(
            queue=wanted.queue,
            needs=tuple(sorted(needs_of(plan))),
            dedup_key=wanted.dedup_key,
            submitted_by=self._actor,
            submit_reason=wanted.reason,
        )
        reusing = None
        if wanted.reuse is not None:
            await self._app.driving.must_not_be_driven(await self._state(wanted.reuse))
            reusing = Reusing(wanted.reuse, wanted.from_step)
        done = await self._app.submitting.submit_queued(plan, given, source, queued, reusing)
        told = {"runId": done.run_id, "queue": wanted.queue, "duplicate": done.duplicate, "note": done.note}
        return {**told, "differs": done.differs}

    async def control(self, run_id: str, wanted: Steering) -> Document:
        await self._must_be_there(run_id)
        must_be_whole(wanted)
        await steering.must_have_step(self._app, run_id, wanted.step_id)
        wish = steering.Wish(
            run_id=run_id,
            action=wanted.action,
            reason=wanted.reason.strip(),
            actor=self._actor,
            step_id=wanted.step_id,
            argument=FORCE if wanted.force else wanted.as_,
        )
        sent = await steering.send(self._app, wish)
        control = await steering.answered(self._app, sent, _PATIENCE_S) or sent
        detail = await steering.detail_of(self._app, control)
        if control.outcome not in (None, steering.ACCEPTED):
            raise UsageError(f"{control.action} was {control.outcome}: {detail}", hint=steering.LOOK_AGAIN)
        for trouble in await self._app.chores():
            detail = f"{detail} ({trouble})".strip()
        return {
            "controlId": control.id,
            "action": control.action,
            "outcome": control.outcome,
            "epoch": control.epoch,
            "detail": detail,
            "run": await self.run(run_id),
        }

    async def _plan(self, wanted: Submission) -> tuple[Plan, dict[str, str], str | None]:
        """The plan, its inputs, and where it is from."""
        from recoup.documents.plan_file import parse_plan, read_plan

        must_be_one_plan(wanted)
        policy = (await self._app.generations.seen())[0]
        if wanted.plan is not None:
            folder = self._app.settings.home / TEXT_PLANS
            folder.mkdir(mode=0o700, exist_ok=True)
            plan = await asyncio.to_thread(parse_plan, wanted.plan, _SOURCE, folder, policy=policy)
            return plan, wanted.inputs, None
        if wanted.plan_path is not None:
            path = self._whole(wanted.plan_path)
            return await asyncio.to_thread(read_plan, path, policy), wanted.inputs, str(path)
        assert wanted.reuse is not None
        earlier = await self._state(wanted.reuse)
        plan, given = await self._app.submitting.recorded(earlier)
        return plan, {**given, **wanted.inputs}, earlier.plan_source

    def _whole(self, said: str) -> Path:
        path = Path(said).expanduser()
        if not path.is_absolute() and self._folder is None:
            raise UsageError("plan_path must begin with /", hint="Name the whole path.")
        return path if self._folder is None else self._folder / path

    async def _shown(self, run_id: str) -> RunState:
        await self._must_be_there(run_id)
        return await self._app.runs.shown(run_id)

    async def _state(self, run_id: str) -> RunState:
        await self._must_be_there(run_id)
        return await self._app.runs.state(run_id)

    async def _must_be_there(self, run_id: str) -> None:
        """Beginnings of ids are for people who type; here they would name another run tomorrow."""
        if run_id not in await self._app.ledger.find_runs(run_id, limit=1):
            raise NotFound(f"there is no run {run_id!r}", hint="List them: list_runs")

    async def _known(self, name: str) -> str:
        if name == ALL:
            return EVERY_WORKFLOW
        has_run = (await self._app.ledger.runs(RunFilter(workflow=name), limit=1)).rows
        if has_run or name in await self._app.workflows():
            return name
        raise NotFound(f"no workflow {name!r} has ever run here", hint="List them: list_workflows")


def must_be_one_plan(wanted: Submission) -> None:
    if wanted.plan is not None and wanted.plan_path is not None:
        raise UsageError("plan and plan_path are two plans", hint="Give one of them.")
    if wanted.from_step is not None and wanted.reuse is None:
        raise UsageError("from_step says what is reused", hint="Name the run with reuse.")
    if wanted.plan is None and wanted.plan_path is None and wanted.reuse is None:
        raise UsageError(
            "there is no plan", hint="Give plan, plan_path, or reuse for the plan of an earlier run."
        )


def must_be_whole(wanted: Steering) -> None:
    if wanted.action == "settle" and (wanted.as_ is None or wanted.step_id is None):
        raise UsageError(
            "settle needs step and settle_as", hint="Look whether the step was done first: get_run names it."
        )
    if wanted.action == "resume_from_step" and wanted.step_id is None:
        raise UsageError("resume_from_step needs step", hint="get_run lists them.")
    if wanted.force and wanted.action != "hard_reset_step":
        raise UsageError("force is for hard_reset_step only", hint="Leave it out.")
    if wanted.as_ is not None and wanted.action != "settle":
        raise UsageError("settle_as is for settle only", hint="Leave it out.")


def must_be_choices(wanted: RunFilter) -> None:
    for name, field in FILTERS.items():
        known = [choice.value for choice in field.choices or ()]
        for value in values_of(wanted, name) if known else ():
            if value not in known:
                word = COLUMNS[name].replace("_", " ")
                raise UsageError(f"there is no {word} {value!r}", hint=f"Choose one of: {', '.join(known)}.")


def _index(state: RunState, step: str) -> int:
    for record in state.steps:
        if record.step_id == step or str(record.index) == step:
            return record.index
    known = ", ".join(record.step_id for record in state.steps[:20])
    raise NotFound(f"run {state.run_id} has no step {step!r}", hint=f"Its steps: {known}.")


def _plain(answer: Answer) -> Document:
    document: Document = msgspec.to_builtins(answer)
    return document


def _page(items: Sequence[Any], behind: str | None) -> Document:
    return {"items": msgspec.to_builtins(items), "nextCursor": behind}


def _place(cursor: str) -> tuple[int, str]:
    wall_us, _, run_id = cursor.partition(":")
    if not (wall_us.isascii() and wall_us.isdigit() and len(wall_us) < 19 and run_id):
        raise UsageError("this cursor is none of list_runs", hint="Leave it out to begin at the beginning.")
    return int(wall_us), run_id
