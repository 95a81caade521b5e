"""The hands of this room: reads what a run left, writes its report, stores its failure cases. Whatever goes wrong here
is said in words and never stops a run."""

from __future__ import annotations

import asyncio
import os
import platform
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec

from recoup import __version__
from recoup.damage import read_leniently, readable_part
from recoup.durable import write_whole
from recoup.errors import EventUnreadable, NotFound, RecoupError
from recoup.evidence.run_folder import RunFolder
from recoup.files.named import opened, read_named
from recoup.model import events as ev
from recoup.model.events import Event
from recoup.model.failure import Failure
from recoup.model.ids import EVERY_WORKFLOW, run_stream, workflow_stream
from recoup.model.instant import Instant
from recoup.model.redacted import Redacted
from recoup.model.run import RunState, StepRecord
from recoup.ports import Evidence, Ledger, Redactor
from recoup.reports.failure_case import (
    CASE_BYTES_MAX,
    EVENTS_MAX,
    LOG_BYTES_MAX,
    FailureCase,
    Versions,
    failure_case,
    smaller,
)
from recoup.reports.html import html_page
from recoup.reports.markdown import markdown_page
from recoup.reports.plain import Plain
from recoup.reports.report import Material, Text, report_of
from recoup.reports.spoken import count
from recoup.reports.view import Report

_PAGE = 5_000
_EVENTS_MAX = 200_000
_WORKFLOW_EVENTS_MAX = 20_000
_PATCH_BYTES_MAX = 1 << 20
_PATCHES_BYTES_MAX = 8 << 20
_GATHER_S_MAX = 5.0
"""Of files: those that are not read by then are left out."""
_WRITE_S_MAX = 30.0

Cut = tuple[bytes, bool]
"""The beginning of a text, and whether there is more of it."""


class Written(msgspec.Struct, frozen=True):
    """A report, or why there is none."""

    path: Path | None
    problem: str = ""


class Reporter:
    """Reports and failure cases of the runs in one home."""

    def __init__(
        self,
        ledger: Ledger,
        evidence: Evidence,
        redactor: Redactor,
        folder_of: Callable[[str], RunFolder],
        git_version: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._ledger = ledger
        self._evidence = evidence
        self._redactor = redactor
        self._folder_of = folder_of
        self._git_version = git_version
        self._versions: Versions | None = None

    async def html(self, run_id: str, until: Instant | None = None, redactor: Redactor | None = None) -> str:
        report = await self.report(run_id, until, redactor)
        return await asyncio.to_thread(html_page, report, __version__)

    async def markdown(
        self, run_id: str, until: Instant | None = None, redactor: Redactor | None = None
    ) -> str:
        return markdown_page(await self.report(run_id, until, redactor), __version__)

    async def write_report(
        self, run_id: str, timeout_s: float = _WRITE_S_MAX, redactor: Redactor | None = None
    ) -> Written:
        """The page in the run's folder. For the end of a driver: bounded in time, and it does not raise."""
        try:
            return await asyncio.wait_for(self._write(run_id, redactor), timeout_s)
        except TimeoutError:
            return Written(None, f"the report of {run_id} was not ready after {timeout_s:g} s")
        except Exception as error:  # noqa: BLE001 the run that it is about must not end otherwise because of it
            words = error.message if isinstance(error, RecoupError) else str(error) or type(error).__name__
            return Written(None, f"the report of {run_id} could not be written: {words}")

    async def store_case(
        self,
        state: RunState,
        record: StepRecord,
        failure: Failure,
        decision: str,
        policy_digest: str,
        limit_bytes: int,
        *,
        redactor: Redactor,
        screenshots: Sequence[str] = (),
        evidence: Sequence[str] = (),
    ) -> str | None:
        """The handle of the failure case of an attempt that is about to be recorded as failed, to be cited by that
        event. None: it could not be stored, which must not keep the failure from being recorded."""
        try:
            last = await self._ledger.read(
                run_stream(state.run_id), max(0, state.seq - EVENTS_MAX), EVENTS_MAX
            )
            tail, size = _log_tail(self._folder_of(state.run_id).log_path(record.index))
            case = failure_case(
                state,
                record,
                failure,
                decision,
                events=last,
                log_tail=tail,
                log_bytes=size,
                policy_digest=policy_digest,
                versions=self._known_versions(),
                screenshots=screenshots,
                evidence=evidence,
            )
            return await self._evidence.put(_largest(redactor, case, limit_bytes), limit_bytes)
        except (OSError, RecoupError):
            return None

    async def material(self, run_id: str, until: Instant | None = None) -> Material:
        whole = await self._events(run_id)
        events, error = readable_part(run_id, whole)
        if error is not None and not events:
            raise _nothing_to_report(run_id, error)
        first = events[0].payload
        assert isinstance(first, ev.RunSubmitted), f"run {run_id} does not begin with its submission"
        changes = [
            change for name in (first.workflow, EVERY_WORKFLOW) for change in await self._mode_changes(name)
        ]
        names = [step.id for step in first.plan.steps]
        patches, left_out = await self._patches(run_id, events, names)
        if error is not None:
            left_out.append(
                f"event {error.seq} cannot be read ({error.reason}), and what follows it is not shown"
            )
        return Material(
            events=events, workflow_events=changes, patches=patches, until=until, left_out=left_out
        )

    async def _write(self, run_id: str, redactor: Redactor | None) -> Written:
        # Before the page is made: whoever stands still meanwhile must not put it in the place of a newer one.
        files = self._folder_of(run_id).after_the_last()
        page, path = await self.html(run_id, redactor=redactor), files.artifacts / "report.html"
        await asyncio.to_thread(write_whole, path, page.encode(), durable=False, aside=files.aside)
        return Written(path)

    async def report(
        self, run_id: str, until: Instant | None = None, redactor: Redactor | None = None
    ) -> Report:
        """Made beside the event loop, which has leases to renew; but a redactor is the loop's own. `redactor`: of the
        run, as all was redacted when it was stored; once more for what shows only when colours are taken out. None:
        its secrets are not known here."""
        material, loop = await self.material(run_id, until), asyncio.get_running_loop()
        redactor = redactor or self._redactor

        def hide(text: str) -> str:
            return asyncio.run_coroutine_threadsafe(_hidden(redactor, text), loop).result(_WRITE_S_MAX)

        return await asyncio.to_thread(report_of, material, Plain(hide))

    async def _events(self, run_id: str) -> list[Event]:
        stream = run_stream(run_id)
        length = await self._ledger.head(stream)
        if length > _EVENTS_MAX:
            raise RecoupError(
                f"run {run_id} has {length:,} events, and a report is made of at most {_EVENTS_MAX:,}",
                hint=f"Look at them: recoup events {run_id} --after {length - 1_000}",
            )
        found: list[Event] = []
        while not found or found[-1].seq < length:
            page = await read_leniently(self._ledger, stream, found[-1].seq if found else 0, _PAGE)
            if not page:
                break
            found += page
        if not found:
            raise NotFound(f"run {run_id} has no events", hint="List the runs: recoup runs")
        return found

    async def _mode_changes(self, workflow: str) -> list[Event]:
        stream = workflow_stream(workflow)
        head, found = await self._ledger.head(stream), list[Event]()
        after = max(0, head - _WORKFLOW_EVENTS_MAX)
        while after < head:
            page = await read_leniently(self._ledger, stream, after, _PAGE)
            if not page:
                break
            after = page[-1].seq
            found += [event for event in page if isinstance(event.payload, ev.WorkflowModeChanged)]
        return found

    async def _patches(
        self, run_id: str, events: Sequence[Event], names: Sequence[str]
    ) -> tuple[list[Text], list[str]]:
        """Of steps from the run's folder, of operators from the evidence, as much as time and space allow."""
        folder, found, skipped = self._folder_of(run_id), list[Text](), 0
        deadline, left_bytes = time.monotonic() + _GATHER_S_MAX, _PATCHES_BYTES_MAX
        readers: list[tuple[str, Callable[[], Awaitable[Cut]]]] = [
            (name, _file_reader(folder.patch_path(index))) for index, name in enumerate(names)
        ]
        readers += [("an operator", self._evidence_reader(handle)) for handle in _operator_patches(events)]
        for owner, read in readers:
            if left_bytes <= 0 or time.monotonic() > deadline:
                skipped += 1
                continue
            body, cut = await read()
            if body:
                found.append(Text(owner, body.decode("utf-8", "replace"), cut))
                left_bytes -= len(body)
        return found, [f"what {count(skipped, 'step')} may have changed"] if skipped else []

    def _evidence_reader(self, handle: str) -> Callable[[], Awaitable[Cut]]:
        async def read() -> Cut:
            try:
                whole = await self._evidence.get(handle)
            except (OSError, RecoupError):
                return b"", False
            return whole[:_PATCH_BYTES_MAX], len(whole) > _PATCH_BYTES_MAX

        return read

    def _known_versions(self) -> Versions:
        if self._versions is None:
            self._versions = Versions(
                recoup=__version__,
                python=platform.python_version(),
                git=self._git_version(),
                kernel=f"{platform.system()} {platform.release()}",
            )
        return self._versions


async def _hidden(redactor: Redactor, text: str) -> str:
    return redactor.redact(text).text


def _largest(redactor: Redactor, case: FailureCase, limit_bytes: int) -> Redacted:
    """The largest form of it that may be stored whole: a document that is cut is no document."""
    forms = map(redactor.seal, smaller(case))
    sealed = next(forms)
    while len(sealed) > min(limit_bytes, CASE_BYTES_MAX):
        sealed = next(forms, None) or redactor.seal({"tooLargeToStore": case.step_id})
    return sealed


def _operator_patches(events: Sequence[Event]) -> list[str]:
    handles = (
        handle
        for event in events
        if isinstance(event.payload, ev.WorkspaceChanged)
        for handle in event.payload.evidence
    )
    return list(dict.fromkeys(handles))


def _file_reader(path: Path) -> Callable[[], Awaitable[Cut]]:
    def read() -> Cut:
        try:
            body = read_named(path, _PATCH_BYTES_MAX + 1)
        except OSError:
            return b"", False
        return body[:_PATCH_BYTES_MAX], len(body) > _PATCH_BYTES_MAX

    return partial(asyncio.to_thread, read)


def _log_tail(path: Path) -> tuple[bytes, int]:
    try:
        with opened(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - LOG_BYTES_MAX))
            return file.read(LOG_BYTES_MAX), size
    except OSError:
        return b"", 0


def _nothing_to_report(run_id: str, first: EventUnreadable) -> EventUnreadable:
    reason = f"{first.reason}. Without the first event of the run there is nothing to report"
    error = EventUnreadable(first.stream, first.seq, first.event_type, reason, first.wall_us)
    error.hint = f"{error.advice} The other events: recoup events {run_id}"
    return error
