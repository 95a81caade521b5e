"""One page about a run, made now: what was tried when, what failed and why, what was decided, what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recoup.app import App
    from recoup.model.instant import Instant
    from recoup.ports import Redactor
    from recoup.reports.view import Report


async def run_page(app: App, run_id: str, redactor: Redactor | None = None, *, markdown: bool = False) -> str:
    """HTML without scripts, or Markdown. Everything was redacted when it was stored; once more by `redactor`, or by
    what is known here of the run's secrets."""
    made = app.reports.reporter.markdown if markdown else app.reports.reporter.html
    return await made(run_id, await _until(app, run_id), redactor or await app.redactor_of(run_id))


async def run_report(app: App, run_id: str, *, driven: bool) -> Report:
    """The same as values."""
    until = app.world.clock.now() if driven else None
    return await app.reports.reporter.report(run_id, until, await app.redactor_of(run_id))


async def _until(app: App, run_id: str) -> Instant | None:
    """Where the page of a run that is driven now ends."""
    return app.world.clock.now() if await app.driving.is_driven(run_id) else None
