"""Takes checkpoints: looks at a workspace, stores what is new, writes the manifest."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple, TypeVar

from recoup.machine import TROUBLE_ERRORS
from recoup.model.workspace import Missing, Snapshot
from recoup.workspace import manifest as manifests
from recoup.workspace.blobs import Blob, BlobIds, Looking, Moved
from recoup.workspace.git import Git, GitFailed, unless_in_trouble
from recoup.workspace.ignore import Tracked, read_index
from recoup.workspace.layout import Layout, Origin
from recoup.workspace.manifest import Manifest, StoredFolder
from recoup.workspace.names import joined, shown, text_of
from recoup.workspace.pack import FileSource
from recoup.workspace.store import Store
from recoup.workspace.trees import EXECUTABLE, FILE, LINK, Leaf, plant
from recoup.workspace.walk import REPOSITORIES_MAX, Area, Gap, IndexReader, Walk, Walker, Why, ruined

MISSING_MAX = 100
LOOKS_MAX = 3
USUAL_FOLDER_MODE = 0o755
# These decide what is ignored. Without them a restored workspace would have other rules than the stored one.
_ALWAYS_STORED = (b".gitignore", b"HEAD", b"index", b"exclude")

T = TypeVar("T")


class Place(NamedTuple):
    """One workspace of one run, and what is remembered about it between two looks."""

    root: bytes
    layout: Layout
    origin: Origin
    ids: BlobIds
    indexes: dict[str, Tracked]
    saved: set[str]
    entries_max: int


class Sight(NamedTuple):
    """What a look saw: the walk, and the blob of every file, by its path from the workspace's root."""

    root: bytes
    walk: Walk
    blobs: dict[bytes, Blob]


class Description(NamedTuple):
    """The manifest of what is to be stored, and all of its tree objects."""

    manifest: Manifest
    trees: dict[str, bytes]


def take(git: Git, place: Place, store: Store, bytes_max: int) -> Snapshot:
    """Durable when this returns."""
    return _settled(lambda: _take(git, place, store, bytes_max))


def look(git: Git, place: Place) -> Sight:
    return _settled(lambda: _look(git, place))


def describe(sight: Sight, origin: Origin, left_out: Collection[bytes] = ()) -> Description:
    """Depends on nothing but what was seen, so that equal contents give equal manifests."""
    trees: dict[str, bytes] = {}
    work = _stored(sight, sight.walk.work, origin, left_out, trees)
    git_folders = {
        text_of(path): _stored(sight, area, origin, left_out, trees)
        for path, area in sight.walk.git_folders.items()
    }
    manifest = Manifest(
        version=manifests.VERSION,
        object_format=origin.object_format,
        pinned=origin.commit,
        work=work,
        git_folders=git_folders,
        gitfiles={text_of(path): text_of(content) for path, content in sight.walk.gitfiles.items()},
        left_out=tuple(text_of(path) for path in sorted(left_out)),
    )
    return Description(manifest, trees)


def _settled(work: Callable[[], T]) -> T:
    """A workspace in which something still moves gets a second and a third look."""
    for _ in range(LOOKS_MAX - 1):
        with suppress(Moved):
            return work()
    return work()


def _take(git: Git, place: Place, store: Store, bytes_max: int) -> Snapshot:
    sight = _look(git, place)
    described = describe(sight, place.origin)
    absent = store.absent([*described.trees, *(blob.id for blob in sight.blobs.values())])
    new = _new_files(sight, absent)
    left_out = _over(new, bytes_max)
    if left_out:
        described = describe(sight, place.origin, {path for id_ in left_out for path in new[id_].paths})
        absent = store.absent(described.trees)
    kept = {id_: file.source(sight.root) for id_, file in new.items() if id_ not in left_out}
    store.add(kept, {id_: tree for id_, tree in described.trees.items() if id_ in absent})
    digest = manifests.save(place.layout.manifests, described.manifest.encoded(), place.saved)
    gaps = [*sight.walk.gaps, *_limit_gaps(new, left_out)]
    return Snapshot(
        tree=described.manifest.work.tree,
        manifest=digest,
        missing=named(gaps),
        missing_count=len(gaps),
        bytes_stored=sum(source.size for source in kept.values()),
    )


def _look(git: Git, place: Place) -> Sight:
    looking = place.ids.look(git, place.root, _tick_ns(place.layout))
    with _by_a_step(place):
        walk = _walk(git, place, looking)
    sight = Sight(place.root, walk, {})
    for area in (walk.work, *walk.git_folders.values()):
        _see(area, sight, looking)
    place.ids.remember(looking)
    return sight


def _walk(git: Git, place: Place, looking: Looking) -> Walk:
    index_reader = _index_reader(git, place, looking)
    return Walker(place.root, git, place.layout.store, index_reader, place.entries_max).walk()


@contextmanager
def _by_a_step(place: Place) -> Iterator[None]:
    """What cannot be read on a machine that is well was left so by a step. Raises WorkspaceRuined, MachineTrouble."""
    try:
        with unless_in_trouble(place.layout.run_dir):
            yield
    except GitFailed as error:
        raise ruined(place.root, error.stderr or error.message) from error
    except OSError as error:
        if error.errno in TROUBLE_ERRORS:
            raise
        raise ruined(place.root, f"{error.strerror or error}") from error


def _tick_ns(layout: Layout) -> int:
    """Now, by the clock that stamps the files of this disk."""
    layout.clock.touch(mode=0o600)
    return layout.clock.stat().st_ctime_ns


def _index_reader(git: Git, place: Place, looking: Looking) -> IndexReader:
    def read(path: bytes, status: os.stat_result) -> Tracked:
        blob = looking.blob(path, status, may_be_index=True)
        if blob.id not in place.indexes:
            if len(place.indexes) >= 2 * REPOSITORIES_MAX:
                place.indexes.clear()
            place.indexes[blob.id] = read_index(git, place.layout.store, joined(place.root, path))
        return place.indexes[blob.id]

    return read


def _see(area: Area, sight: Sight, looking: Looking) -> None:
    for inner, status in area.files.items():
        path = joined(area.root, inner)
        blob = looking.blob(path, status, may_be_index=bool(area.root) and _name(inner) == b"index")
        if blob.unreadable is not None:
            sight.walk.gaps.append(Gap(Why.UNREADABLE, path, f"unreadable: {blob.unreadable}"))
            continue
        sight.blobs[path] = blob
        if blob.is_pointer:
            sight.walk.gaps.append(Gap(Why.POINTER, path, "a pointer to a large file that was not fetched"))


class _NewFile:
    """Contents that the store does not have, and the paths that have them."""

    def __init__(self, blob: Blob) -> None:
        self.blob = blob
        self.paths: list[bytes] = []

    def source(self, root: bytes) -> FileSource:
        return FileSource(joined(root, self.paths[0]), self.blob.key[0], self.size, self.blob.is_index)

    @property
    def size(self) -> int:
        return self.blob.size

    @property
    def may_be_left_out(self) -> bool:
        return all(_name(path) not in _ALWAYS_STORED for path in self.paths)


def _name(path: bytes) -> bytes:
    return path.rpartition(b"/")[2]


def _new_files(sight: Sight, absent: set[str]) -> dict[str, _NewFile]:
    new: dict[str, _NewFile] = {}
    if absent:
        for path, blob in sight.blobs.items():
            if blob.id in absent:
                new.setdefault(blob.id, _NewFile(blob)).paths.append(path)
    return new


def _over(new: dict[str, _NewFile], bytes_max: int) -> set[str]:
    """What has to be left out, the largest first."""
    excess = sum(file.size for file in new.values()) - bytes_max
    left_out: set[str] = set()
    for id_ in sorted(new, key=lambda id_: (-new[id_].size, id_)):
        if excess <= 0:
            break
        if new[id_].may_be_left_out:
            left_out.add(id_)
            excess -= new[id_].size
    return left_out


def _limit_gaps(new: dict[str, _NewFile], left_out: set[str]) -> list[Gap]:
    return [
        Gap(Why.LIMIT, path, f"{new[id_].size} bytes, over the limit of a checkpoint")
        for id_ in left_out
        for path in new[id_].paths
    ]


def named(gaps: list[Gap]) -> tuple[Missing, ...]:
    return tuple(
        Missing(shown(gap.path), gap.detail, stored=gap.why is Why.LINKED)
        for gap in sorted(gaps)[:MISSING_MAX]
    )


def _stored(
    sight: Sight, area: Area, origin: Origin, left_out: Collection[bytes], trees: dict[str, bytes]
) -> StoredFolder:
    leaves: list[Leaf] = []
    modes: dict[str, str] = {}
    for inner, status in area.files.items():
        path = joined(area.root, inner)
        blob = sight.blobs.get(path)
        if blob is None or path in left_out:
            continue
        kind, usual = _kind(status.st_mode)
        leaves.append(Leaf(inner, kind, blob.id))
        if usual is not None and stat.S_IMODE(status.st_mode) != usual:
            modes[text_of(inner)] = octal(status.st_mode)
    planted = plant(leaves, origin.object_format)
    trees.update(planted.objects)
    folders = {
        text_of(path): octal(mode)
        for path, mode in area.folders.items()
        if mode != USUAL_FOLDER_MODE or path not in planted.folders
    }
    return StoredFolder(planted.root, modes, folders)


def _kind(mode: int) -> tuple[bytes, int | None]:
    """How git stores it, and the mode that goes without saying."""
    if stat.S_ISLNK(mode):
        return LINK, None
    return (EXECUTABLE, 0o755) if mode & stat.S_IXUSR else (FILE, 0o644)


def octal(mode: int) -> str:
    return f"{stat.S_IMODE(mode):04o}"
