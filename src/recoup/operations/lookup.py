"""One run by its whole id, one step by its id or index."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recoup.errors import NotFound
from recoup.model.run import RunState

if TYPE_CHECKING:
    from recoup.app import App


async def exact_run(app: App, run_id: str, lists_runs: str) -> str:
    """Raises NotFound, also for the beginning of an id: a prefix that is unique today may not be tomorrow.
    `lists_runs`: where this edge lists them."""
    if run_id not in await app.ledger.find_runs(run_id, limit=1):
        raise NotFound(f"there is no run {run_id!r}", hint=f"List them: {lists_runs}")
    return run_id


def step_index(state: RunState, step: str) -> int:
    """Raises NotFound."""
    for record in state.steps:
        if record.step_id == step or str(record.index) == step:
            return record.index
    known = ", ".join(record.step_id for record in state.steps[:20])
    raise NotFound(f"run {state.run_id} has no step {step!r}", hint=f"Its steps: {known}.")
