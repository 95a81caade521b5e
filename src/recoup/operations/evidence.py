"""Evidence: by the handle that an event cites, or by the beginning of one that a run cites."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recoup.errors import NotFound

if TYPE_CHECKING:
    from recoup.app import App


async def evidence_of(app: App, handle: str) -> bytes:
    """A viewer may see every event, and only an event tells a handle. Raises NotFound, StateError."""
    return await app.evidence.get(handle)


async def evidence_of_run(app: App, run_id: str, handle: str) -> tuple[str, bytes]:
    """Whatever any of its events cites, with its whole handle. Raises NotFound."""
    events = await app.runs.shown_events(run_id)
    cited = list(dict.fromkeys(h for event in events for h in getattr(event.payload, "evidence", ())))
    matching = [known for known in cited if known == handle] or [
        known for known in cited if known.startswith(handle)
    ]
    if not matching:
        hint = f"It cites: {', '.join(cited)}." if cited else "It cites none."
        raise NotFound(f"run {run_id} cites no evidence {handle!r}", hint=hint)
    if len(matching) > 1:
        raise NotFound(f"several pieces of evidence begin with {handle!r}", hint="Give more of the handle.")
    return matching[0], await evidence_of(app, matching[0])
