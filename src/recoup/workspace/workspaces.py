"""The workspaces and the private store of one run."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from recoup.aside import ours
from recoup.durable import sync_directory
from recoup.errors import CheckpointBroken, WorkspaceError, WorkspaceRuined
from recoup.model.workspace import Adopted, Baseline, Change, GitSource, Snapshot, Source
from recoup.workspace import adoption, carrying, checkpoint, cloning, creation, diff, restore, soundness
from recoup.workspace import manifest as manifests
from recoup.workspace.blobs import BlobIds
from recoup.workspace.carrying import Load, Packed
from recoup.workspace.checkpoint import Place
from recoup.workspace.creation import Recipe, SourceLimits
from recoup.workspace.disk import explained, point
from recoup.workspace.git import Git, in_our_place
from recoup.workspace.ignore import Tracked
from recoup.workspace.layout import Layout, Origin
from recoup.workspace.manifest import Manifest
from recoup.workspace.names import bytes_of
from recoup.workspace.store import Store

T = TypeVar("T")


class GitWorkspaces:
    """Implements the `Workspaces` port with git. Whoever writes holds the run's lease.

    Every operation runs in a thread; cancelling one ends its git processes and waits for the thread.
    """

    def __init__(
        self,
        run_dir: Path,
        checkpoint_bytes_max: int | Callable[[], int] = 1 << 30,
        *,
        source_bytes_max: int = 16 << 30,
        entries_max: int = 1_000_000,
        git_timeout_s: float = 600,
        aside: Path | None = None,
    ) -> None:
        """`checkpoint_bytes_max` is asked anew for each checkpoint where it can change meanwhile.

        `aside`: the folder of the run's driver; without it, another driver that comes is not noticed.
        """
        self._aside = aside
        self._layout = Layout(run_dir.absolute(), aside)
        self._checkpoint_bytes_max = checkpoint_bytes_max
        self._source_limits = SourceLimits(source_bytes_max, entries_max)
        self._entries_max = entries_max
        self._git_timeout_s = git_timeout_s
        self._known_objects: set[str] = set()
        self._saved_manifests: set[str] = set()
        self._ids: dict[int, BlobIds] = {}
        self._indexes: dict[str, Tracked] = {}
        self._is_swept = False

    async def check(self, source: Source) -> None:
        """Raises what `create` would say about the source; touches nothing."""
        await self._do(
            "cannot read the source",
            lambda git: creation.prepare(git, self._layout, source, self._source_limits),
        )

    async def uncommitted(self, source: Source) -> int:
        """How many paths a clone of the source's HEAD will not have, although they lie there."""
        if not isinstance(source, GitSource):
            return 0
        return await self._do("cannot read the source", lambda git: cloning.count_uncommitted(git, source))

    async def create(self, source: Source) -> Baseline:
        """From nothing: what an interrupted call left is removed first."""
        return await self._do("cannot make the workspace", lambda git: self._create(git, source))

    def path(self, number: int) -> Path:
        return self._layout.workspace(number)

    def current(self) -> int:
        return self._layout.current()

    async def snapshot(self, number: int) -> Snapshot:
        return await self._do("cannot store a checkpoint", lambda git: self._snapshot(git, number))

    async def change(self, before: str, after: str) -> Change:
        return await self._do("cannot compare", lambda git: diff.change(self._store(git), before, after))

    async def patch(self, before: str, after: str, limit_bytes: int) -> bytes:
        return await self._do(
            "cannot compare", lambda git: diff.patch(self._store(git), before, after, limit_bytes)
        )

    async def changed_contents(
        self, before: str, after: str, limit_bytes: int
    ) -> Sequence[tuple[str, bytes]]:
        return await self._do(
            "cannot compare", lambda git: diff.changed_contents(self._store(git), before, after, limit_bytes)
        )

    async def restore(self, snapshot: Snapshot) -> int:
        return await self._do("cannot restore a checkpoint", lambda git: self._restore(git, snapshot))

    async def matches(self, number: int, snapshot: Snapshot) -> bool:
        return await self._do(
            "cannot look at the workspace", lambda git: self._matches(git, number, snapshot)
        )

    async def damage(self, number: int, before: Snapshot) -> str | None:
        return await self._do("cannot look at the workspace", lambda git: self._damage(git, number, before))

    async def adopt(self, run_dir: Path, snapshots: Sequence[Snapshot]) -> Adopted:
        if not snapshots:
            return Adopted(0)
        other = Layout(run_dir.absolute())
        return await self._do("cannot bring checkpoints over", lambda git: self._adopt(git, other, snapshots))

    async def pack_source(self, into: Path) -> Load:
        """For another machine: what the store was made of, into a new file."""
        return await self._do(
            "cannot pack the store",
            lambda git: carrying.pack_source(git, self._layout, self._origin(), into),
        )

    async def pack_checkpoint(self, snapshot: Snapshot, without: str | None, into: Path) -> Load:
        """For a machine that has the source and, if a manifest is given as `without`, that checkpoint."""
        return await self._do(
            "cannot pack a checkpoint",
            lambda git: carrying.pack_checkpoint(git, self._layout, self._origin(), snapshot, without, into),
        )

    async def unpack(self, packed: Sequence[Packed], wanted: Snapshot, *, anew: bool) -> None:
        """Checkpoints from another machine, this one among them; `anew`: the source first. Raises CheckpointBroken."""
        await self._do("cannot unpack a checkpoint", lambda git: self._unpack(git, packed, wanted, anew))

    async def forsake(self) -> None:
        """The run was driven elsewhere since: what its steps left here is out of date. The store stays."""
        await self._do("cannot clear the workspaces", lambda _: self._forsake())

    async def swap(self, number: int, keep: int) -> None:
        await self._do("cannot swap the workspace", lambda _: self._swap(number, keep))

    async def _do(self, doing: str, work: Callable[[Git], T]) -> T:
        git, own = Git(self._git_timeout_s), self._layout.run_dir

        def explaining() -> T:
            with ours(self._aside), explained(doing, own), in_our_place(own):
                return work(git)

        task = asyncio.ensure_future(asyncio.to_thread(explaining))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            git.stop()
            await asyncio.wait([task])
            if not task.cancelled():
                task.exception()  # Seen, so that asyncio does not report it: the caller asked for the end.
            raise

    def _create(self, git: Git, source: Source) -> Baseline:
        recipe = creation.prepare(git, self._layout, source, self._source_limits)
        self._layout.enter()
        creation.clear(self._layout)
        try:
            return self._create_by(git, recipe)
        except BaseException:
            with suppress(OSError):
                creation.clear(self._layout)
            self._layout.leave()
            raise

    def _create_by(self, git: Git, recipe: Recipe) -> Baseline:
        creation.build(self._layout, recipe)
        self._forget()
        taken = self._snapshot(git, 1)
        point(self._layout.pointer, "workspaces/0001", self._layout.aside)
        return Baseline(
            tree=taken.tree,
            manifest=taken.manifest,
            commit=recipe.origin.commit,
            branch=recipe.origin.branch,
            missing=(*checkpoint.named(recipe.gaps), *taken.missing)[: checkpoint.MISSING_MAX],
            missing_count=len(recipe.gaps) + taken.missing_count,
        )

    def _snapshot(self, git: Git, number: int) -> Snapshot:
        self._sweep_once()
        limit = self._checkpoint_bytes_max
        bytes_max = limit() if callable(limit) else limit
        return checkpoint.take(git, self._place(number), self._store(git), bytes_max)

    def _restore(self, git: Git, snapshot: Snapshot) -> int:
        self._sweep_once()
        try:
            return self._restored(git, snapshot)
        except CheckpointBroken:
            # After damage, nothing is taken for stored without asking.
            self._forget()
            raise

    def _restored(self, git: Git, snapshot: Snapshot) -> int:
        manifest = manifests.load(self._layout.manifests, snapshot.manifest)
        if manifest.work.tree != snapshot.tree:
            raise CheckpointBroken(
                f"the manifest belongs to the tree {manifest.work.tree}, not to {snapshot.tree}"
            )
        aside = self._layout.building("workspace")
        ids = BlobIds(manifest.object_format)
        try:
            self._build(git, manifest, aside, ids)
            number = max(self._layout.numbers(), default=0) + 1
            self._layout.publish(aside, self._layout.workspace(number))
        except BaseException:
            self._layout.discard(aside)
            raise
        sync_directory(self._layout.workspaces)
        self._ids[number] = ids
        return number

    def _build(self, git: Git, manifest: Manifest, aside: Path, ids: BlobIds) -> None:
        origin = Origin(manifest.object_format, manifest.pinned)
        store = Store(git, self._layout.store, manifest.object_format, self._known_objects)
        place = Place(
            os.fsencode(aside),
            self._layout,
            origin,
            ids,
            self._indexes,
            self._saved_manifests,
            self._entries_max,
        )
        try:
            restore.lay_out(store, manifest, place.root)
        except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
            raise CheckpointBroken(f"the checkpoint contradicts itself: {error}") from None
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            raise CheckpointBroken(
                f"the checkpoint holds paths that are too long here: below {aside}"
            ) from None
        try:
            restore.verify(git, place, manifest)
        except WorkspaceRuined as error:
            raise CheckpointBroken(error.message) from None

    def _matches(self, git: Git, number: int, snapshot: Snapshot) -> bool:
        if self.path(number).is_symlink() or not self.path(number).is_dir():
            return False
        place = self._place(number)
        try:
            sight = checkpoint.look(git, place)
        except WorkspaceRuined:
            return False
        if _is(checkpoint.describe(sight, place.origin).manifest, snapshot):
            return True
        # A checkpoint that left something out can only be compared in what it holds.
        left_out = self._left_out(snapshot)
        return bool(left_out) and _is(checkpoint.describe(sight, place.origin, left_out).manifest, snapshot)

    def _damage(self, git: Git, number: int, before: Snapshot) -> str | None:
        try:
            expected = manifests.load(self._layout.manifests, before.manifest).git_folders
        except CheckpointBroken:
            # Restoring finds that out, and goes further back. It says nothing about the workspace.
            return None
        if ".git" not in expected:
            return None
        return soundness.damage(git, self._layout.store, self.path(number))

    def _adopt(self, git: Git, other: Layout, snapshots: Sequence[Snapshot]) -> Adopted:
        self._sweep_once()
        store, object_format = self._store(git), self._origin().object_format
        crossing = adoption.Crossing(git, other, self._layout, store, object_format, self._saved_manifests)
        adopted = adoption.adopt(crossing, snapshots)
        if adopted.problem is not None:
            self._known_objects.clear()  # after damage, nothing is taken for stored without asking
        return adopted

    def _unpack(self, git: Git, packed: Sequence[Packed], wanted: Snapshot, anew: bool) -> None:
        self._sweep_once()
        self._forget()
        if anew:
            carrying.unpack_anew(git, self._layout, packed, wanted)
        else:
            carrying.unpack_more(git, self._layout, self._origin(), packed, wanted)

    def _forsake(self) -> None:
        self._layout.enter()
        for number in self._layout.numbers():
            self._layout.discard(self.path(number))
            if self.path(number).exists():
                raise WorkspaceError(
                    f"an old workspace cannot be removed: {self.path(number)}",
                    hint="Remove it by hand. Then: recoup resume RUN",
                )
        self._layout.discard(self._layout.pointer)
        self._ids.clear()
        # Or a power cut would bring them back.
        for folder in (self._layout.workspaces, self._layout.run_dir):
            if folder.is_dir():
                sync_directory(folder)

    def _left_out(self, snapshot: Snapshot) -> set[bytes]:
        try:
            return {
                bytes_of(path) for path in manifests.load(self._layout.manifests, snapshot.manifest).left_out
            }
        except CheckpointBroken:
            return set()

    def _swap(self, number: int, keep: int) -> None:
        if not self.path(number).is_dir():
            raise WorkspaceError(f"there is no workspace {number}: {self.path(number)}")
        self._layout.enter()
        point(self._layout.pointer, f"workspaces/{self.path(number).name}", self._layout.aside)
        older = [each for each in self._layout.numbers() if each < number]
        for each in older[: max(len(older) - keep, 0)]:
            self._layout.discard(self.path(each))
            self._ids.pop(each, None)

    def _place(self, number: int) -> Place:
        origin = self._origin()
        ids = self._ids.setdefault(number, BlobIds(origin.object_format))
        root = os.fsencode(self.path(number))
        return Place(root, self._layout, origin, ids, self._indexes, self._saved_manifests, self._entries_max)

    def _store(self, git: Git) -> Store:
        """Raises CheckpointBroken."""
        layout, object_format = self._layout, self._origin().object_format
        if not (layout.store / "HEAD").is_file() or not (layout.store / "objects").is_dir():
            raise CheckpointBroken(
                f"the private store of the run is gone or damaged: {layout.store}",
                hint="Start a new run of the plan.",
            )
        return Store(git, layout.store, object_format, self._known_objects, layout.aside)

    def _origin(self) -> Origin:
        """Raises CheckpointBroken: whatever is to be restored is lost with it, unless it is kept elsewhere."""
        try:
            return msgspec.json.decode(self._layout.origin.read_bytes(), type=Origin)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError, msgspec.MsgspecError) as error:
            raise CheckpointBroken(
                f"the private store of the run is gone or damaged: {self._layout.origin}: {error}",
                hint="Start a new run of the plan.",
            ) from None

    def _sweep_once(self) -> None:
        if not self._is_swept:
            self._layout.enter()
            self._layout.sweep()
            self._layout.settle()
            self._is_swept = True

    def _forget(self) -> None:
        self._known_objects.clear()
        self._saved_manifests.clear()
        self._ids.clear()
        self._indexes.clear()


def _is(manifest: Manifest, snapshot: Snapshot) -> bool:
    return (
        manifest.work.tree == snapshot.tree and manifests.digest_of(manifest.encoded()) == snapshot.manifest
    )
