"""Where the steps of a run work: a workspace of its own, with what attempts change in it, or the plan's folder."""

from __future__ import annotations

from pathlib import Path

from recoup.engine.checkpoints import last_checkpoint
from recoup.engine.conclusion import NO_CHANGE, Kept, SecretsFound
from recoup.engine.driven_run import DrivenRun
from recoup.model.run import StepRecord
from recoup.model.workspace import Change, Snapshot

_SECRET_SEARCH_BYTES = 64 << 20


class WorkFolder:
    """Of one driven run. Workspaces are named by their numbers; None: there is none."""

    def __init__(self, run: DrivenRun) -> None:
        self._run = run
        self._workspaces = run.job.workspaces
        self._folder = run.job.folder

    def path(self, workspace: int | None) -> str:
        if self._workspaces is None or workspace is None:
            return self._folder
        return str(self._workspaces.path(workspace))

    @property
    def current(self) -> str:
        """Where work goes on."""
        return self.path(self._run.state.workspaces.in_use)

    def workspace_of(self, record: StepRecord) -> int | None:
        """The one in which the step was attempted."""
        return record.open.workspace if record.open else self._run.state.workspaces.in_use

    async def change(self, record: StepRecord) -> tuple[Change, Snapshot | None]:
        """What the step has changed, and its workspace as it is now."""
        workspace = self.workspace_of(record)
        if self._workspaces is None or workspace is None or record.beginning.pre_state is None:
            return NO_CHANGE, None
        if not is_folder(str(self._workspaces.path(workspace))):
            return NO_CHANGE, None
        snapshot = await self._workspaces.snapshot(workspace)
        return await self._workspaces.change(record.beginning.pre_state, snapshot.tree), snapshot

    async def damage(self, record: StepRecord) -> str | None:
        """Why git cannot use the workspace any more; None if it can."""
        workspace = self.workspace_of(record)
        if self._workspaces is None or workspace is None:
            return None
        _, before = last_checkpoint(self._run.state)
        return await self._workspaces.damage(workspace, before)

    async def kept(self, record: StepRecord) -> Kept | None:
        """Of the workspace in which work goes on, after handlers of a step that is done."""
        workspace = self._run.state.workspaces.in_use
        if self._workspaces is None or workspace is None or not is_folder(self.current):
            return None
        snapshot = await self._workspaces.snapshot(workspace)
        before = record.results.checkpoint.tree if record.results.checkpoint else record.beginning.pre_state
        changed = before is not None and before != snapshot.tree
        return Kept(snapshot, await self.secrets_in(before, snapshot) if changed else ())

    async def secrets_in(self, before: str | None, snapshot: Snapshot | None) -> SecretsFound:
        """Registered secrets in files that were added or changed since."""
        assert self._workspaces is not None and snapshot is not None and before is not None
        contents = await self._workspaces.changed_contents(before, snapshot.tree, _SECRET_SEARCH_BYTES)
        redactor = self._run.world.redactor
        names_by_path = [(path, redactor.found_in(path.encode() + b"\n" + data)) for path, data in contents]
        return tuple((path, names) for path, names in names_by_path if names)


def is_folder(path: str) -> bool:
    """A real one: a link in the place of a workspace would lead git and checks elsewhere."""
    return Path(path).is_dir() and not Path(path).is_symlink()
