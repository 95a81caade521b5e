"""Where things are in the folder of a run."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

from recoup.aside import LEFT, fresh, ours, unclaimed
from recoup.durable import sync_directory
from recoup.errors import WorkspaceError
from recoup.workspace.disk import private_folder, remove_tree


class Origin(msgspec.Struct, frozen=True):
    """What the first workspace was made of; kept beside the store."""

    object_format: str
    commit: str | None = None
    branch: str | None = None


class Layout:
    """The paths of one run's workspaces and private store."""

    def __init__(self, run_dir: Path, aside: Path | None = None) -> None:
        """`aside`: the folder of the driver's own."""
        self.run_dir = run_dir
        self.aside = aside or unclaimed(run_dir)
        self._is_claimed = aside is not None
        self.workspaces = run_dir / "workspaces"
        self.pointer = run_dir / "workspace"
        self.private = run_dir / "private"
        self.store = self.private / "store.git"
        self.manifests = self.private / "manifests"
        self.origin = self.private / "origin.json"
        self.clock = self.private / "clock"

    def workspace(self, number: int) -> Path:
        return self.workspaces / f"{number:04d}"

    def numbers(self) -> list[int]:
        """Of the workspaces that exist, ascending."""
        if not self.workspaces.is_dir():
            return []
        return sorted(int(path.name) for path in self.workspaces.iterdir() if path.name.isdecimal())

    def current(self) -> int:
        try:
            return int(self.pointer.readlink().name)
        except (OSError, ValueError):
            raise WorkspaceError(
                f"the run has no workspace: {self.pointer} does not name one",
                hint="Run the plan again; this run cannot be resumed in place.",
            ) from None

    def enter(self) -> None:
        """Whoever drives has entered; a look at checkpoints needs a place too."""
        if not self._is_claimed:
            private_folder(self.aside)

    def leave(self) -> None:
        if not self._is_claimed:
            with suppress(OSError):
                self.aside.rmdir()

    def building(self, name: str) -> Path:
        """Where something is built; as deep as a workspace, so that relative paths in it stay true."""
        return fresh(self.aside, name)

    def publish(self, built: Path, path: Path) -> None:
        """Give it its name, also where the folder that it belongs in was removed. Raises LeaseLost."""
        with ours(self.aside):
            private_folder(path.parent)
            built.rename(path)

    def discard(self, path: Path) -> None:
        """At once out of the way, then removed; what stays behind is for `sweep`. Raises LeaseLost."""
        # A step that ran as somebody else may have left what we cannot remove. That must not end the run.
        with suppress(OSError):
            remove_tree(path, self.aside)

    def sweep(self) -> None:
        """Remove what a killed driver left. Only the holder of the run's lease may do this."""
        leftovers = [
            *self.aside.glob(f"{LEFT}*"),
            *self.manifests.glob(".*"),
            *self.store.glob("objects/pack/tmp_*"),
        ]
        for path in leftovers:
            self.discard(path)

    def settle(self) -> None:
        """A killed driver may have renamed what we find here, and not made that durable."""
        for folder in (self.store / "objects" / "pack", self.manifests, self.workspaces):
            if folder.is_dir():
                sync_directory(folder)
