"""Which checkpoint a run goes back to."""

from __future__ import annotations

from recoup.kernel.prefix import known_good_prefix_length
from recoup.model.run import RunState
from recoup.model.workspace import Snapshot


def last_checkpoint(state: RunState) -> tuple[int | None, Snapshot]:
    """Of the step before the frontier, or of an earlier one where that has none; None: the baseline."""
    assert state.workspaces.baseline is not None, "only a run with a workspace has checkpoints"
    length = known_good_prefix_length(state)
    base = (
        state.workspaces.base
        if state.workspaces.base is not None and state.workspaces.base.index <= length
        else None
    )
    for record in reversed(state.steps[:length]):
        if base is not None and record.index < base.index:
            break
        if record.results.checkpoint is not None:
            return record.index, record.results.checkpoint
    if base is not None:
        return (base.index - 1 if base.index else None), base.snapshot
    return None, Snapshot(state.workspaces.baseline.tree, state.workspaces.baseline.manifest)
