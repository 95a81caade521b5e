"""Versions of what a workflow learned: stored whole, gone back to whole, checked before every use."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from recoup.errors import LearningError, VersionDamaged
from recoup.learning.folder import WorkflowFolder
from recoup.learning.stamped import digest_of
from recoup.learning.versions import (
    COMPONENT_BYTES_MAX,
    COMPONENTS_MAX,
    LINEAGE_MAX,
    VERSIONS_MAX,
    Component,
    Loaded,
    Manifest,
    Pointer,
    info_of,
)
from recoup.model.instant import Instant
from recoup.model.memory import VersionInfo, number_of, version_name

WAIT_S: Final = 10.0
LOOKS_MAX: Final = 5

_COMPONENT = re.compile(r"[a-z][a-z0-9_]{0,31}")


class VersionedStore:
    """A folder of versions for each workflow; any number of processes on one machine may use it at once.

    What fails or is killed half way leaves everything as it was: one rename decides each change.
    """

    def __init__(self, base: Path, *, wait_s: float = WAIT_S) -> None:
        self._base: Final = base
        self._wait_s: Final = wait_s

    def snapshot_version(
        self,
        workflow: str,
        components: Mapping[str, bytes],
        *,
        up_to: int,
        now: Instant,
        success_rate_before: float | None = None,
        version: str | None = None,
    ) -> VersionInfo:
        """A new version, which is the current one from then on. `version` names it as others do; None: the next one."""
        _check(components)
        _check_rate(success_rate_before)
        if up_to < 0:
            raise LearningError(f"a version goes up to an event, and none has the number {up_to}")
        with self._writing(workflow) as (folder, pointer):
            _check_room(pointer)
            manifest = Manifest(
                workflow=workflow,
                version=_new_name(pointer, version),
                created_at=now.iso(),
                up_to=up_to,
                success_rate_before=success_rate_before,
                lineage=_lineage(pointer),
                components={name: Component(len(data), digest_of(data)) for name, data in components.items()},
            )
            digest = folder.build(manifest, dict(components))
            folder.point(_with_new(pointer, manifest, digest))
            return msgspec.structs.replace(info_of(manifest, digest), current=True)

    def current(self, workflow: str) -> Loaded | None:
        """The current version, or the nearest good one that it came from, with words that say so.

        None: there is none yet.
        """
        folder = self._folder(workflow)
        with _explained():
            return _looked_for(folder)

    def load(self, workflow: str, version: str) -> Loaded:
        folder = self._folder(workflow)
        with _explained():
            pointer, words = folder.seen()
            return _loaded(folder, pointer, _known(pointer, version), words)

    def list_versions(self, workflow: str) -> list[VersionInfo]:
        """Oldest first. Every byte is read: those that are damaged say so."""
        folder = self._folder(workflow)
        with _explained():
            return _listed(folder)

    def rollback_to_previous(self, workflow: str, version: str | None = None) -> VersionInfo:
        """To what the current version came from, or to the one that is named: all of it, checked, or nothing."""
        with self._writing(workflow) as (folder, pointer):
            if version is not None:
                loaded = _loaded(folder, pointer, _known(pointer, version), ())
            else:
                previous = msgspec.structs.replace(pointer, current="")
                found, words = _first_good(folder, previous, ())
                if found is None:
                    raise _no_way_back(pointer, words)
                loaded = found
            folder.point(_turned_to(pointer, folder, loaded.info.version_id))
            return msgspec.structs.replace(loaded.info, current=True)

    def cleanup_old_versions(self, workflow: str, keep: int) -> tuple[str, ...]:
        """Keeps the current one, what it came from, then the newest others, `keep` in all; and whatever is in use.

        Returns what was removed. Damaged ones do not count as kept.
        """
        if keep < 1:
            raise LearningError(f"at least one version is kept, not {keep}")
        with self._writing(workflow) as (folder, pointer), contextlib.ExitStack() as held:
            victims = [v for v in _beyond(folder, pointer, keep) if _is_ours_alone(folder, v, held)]
            if victims:
                folder.point(_without(pointer, victims))
            for version in victims:
                with contextlib.suppress(FileNotFoundError):
                    folder.remove(version)
            return tuple(victims)

    def discard(self, workflow: str, version: str | None = None) -> None:
        """This version, or all of them: what the ledger tells can be made again, and it does not tell this."""
        with self._writing(workflow) as (folder, pointer):
            left = Pointer(workflow=workflow) if version is None else _without(pointer, [version])
            folder.point(left)
            folder.sweep(folder.seen()[0])

    def _folder(self, workflow: str) -> WorkflowFolder:
        return WorkflowFolder(self._base, workflow, self._wait_s)

    @contextlib.contextmanager
    def _writing(self, workflow: str) -> Iterator[tuple[WorkflowFolder, Pointer]]:
        folder = self._folder(workflow)
        with _explained(), folder.writing():
            pointer = folder.tidied()
            try:
                yield folder, pointer
            except OSError:
                # Half a version on a full disk would keep it full.
                with contextlib.suppress(OSError):
                    folder.sweep(folder.seen()[0])
                raise


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LearningError.of(error) from error


# What may be stored


def _check(components: Mapping[str, bytes]) -> None:
    if not 0 < len(components) <= COMPONENTS_MAX:
        raise LearningError(f"a version has 1 to {COMPONENTS_MAX} components, not {len(components)}")
    for name, data in components.items():
        if not _COMPONENT.fullmatch(name):
            raise LearningError(f"not the name of a component: {name[:80]!r}")
        if len(data) > COMPONENT_BYTES_MAX:
            raise LearningError(
                f"{name} has {len(data)} bytes, and a component has at most {COMPONENT_BYTES_MAX}"
            )


def _check_rate(rate: float | None) -> None:
    if rate is not None and not 0.0 <= rate <= 1.0:
        raise LearningError(f"a success rate is between 0 and 1, not {rate}")


def _new_name(pointer: Pointer, wanted: str | None) -> str:
    if wanted is None:
        return version_name(pointer.last + 1)
    if not number_of(wanted) or wanted in pointer.versions:
        raise LearningError(
            f"{pointer.workflow!r} has a version {wanted[:80]!r}, or that is no version's name"
        )
    return wanted


def _check_room(pointer: Pointer) -> None:
    if len(pointer.versions) >= VERSIONS_MAX:
        raise LearningError(
            f"{pointer.workflow!r} has {len(pointer.versions)} versions, and that is the most there may be",
            hint="Clean up old versions first.",
        )


# What is there


def _looked_for(folder: WorkflowFolder, looks: int = LOOKS_MAX) -> Loaded | None:
    """Again, if the pointer moved on meanwhile: what it named may have been removed since."""
    pointer, words = folder.seen()
    loaded, words = _first_good(folder, pointer, words)
    if not pointer.versions or (loaded is not None and not loaded.trouble):
        return loaded
    if looks > 1 and folder.seen()[0] != pointer:
        return _looked_for(folder, looks - 1)
    if loaded is not None:
        return loaded
    raise VersionDamaged(
        f"no version of what {folder.workflow!r} learned can be used: {'; '.join(words)}",
        hint=f"The ledger still knows it: move {folder.root} away, and a new version is made.",
    )


def _known(pointer: Pointer, version: str) -> str:
    if version not in pointer.versions:
        there = ", ".join(sorted(pointer.versions, key=number_of)) or "none"
        raise LearningError(f"{pointer.workflow!r} has no version {version[:80]!r}; there are: {there}")
    return version


def _loaded(folder: WorkflowFolder, pointer: Pointer, version: str, words: Sequence[str]) -> Loaded:
    manifest, digest, components = folder.read(version, pointer.versions[version])
    told = msgspec.structs.replace(info_of(manifest, digest), current=version == pointer.current)
    return Loaded(told, components, tuple(words))


def _first_good(
    folder: WorkflowFolder, pointer: Pointer, words: Sequence[str]
) -> tuple[Loaded | None, tuple[str, ...]]:
    """Of the current version and those that it came from. One that was taken back never serves."""
    said = list(words)
    for version in filter(pointer.versions.__contains__, (pointer.current, *pointer.lineage)):
        try:
            return _loaded(folder, pointer, version, said), tuple(said)
        except VersionDamaged as error:
            said.append(error.message)
    return None, tuple(said)


def _listed(folder: WorkflowFolder, looks: int = LOOKS_MAX) -> list[VersionInfo]:
    pointer, _ = folder.seen()
    told = [_told(folder, pointer, version) for version in sorted(pointer.versions, key=number_of)]
    if looks > 1 and any(info.trouble for info in told) and folder.seen()[0] != pointer:
        return _listed(folder, looks - 1)
    return told


def _told(folder: WorkflowFolder, pointer: Pointer, version: str) -> VersionInfo:
    try:
        return _loaded(folder, pointer, version, ()).info
    except VersionDamaged as error:
        trouble, current = error.message, version == pointer.current
    try:
        manifest, digest = folder.manifest(version)
        return msgspec.structs.replace(info_of(manifest, digest), current=current, trouble=trouble)
    except VersionDamaged:
        return VersionInfo(
            version_id=version, workflow_id=folder.workflow, created_at="", current=current, trouble=trouble
        )


def _no_way_back(pointer: Pointer, words: Sequence[str]) -> LearningError:
    if words:
        return LearningError(f"no earlier version can be used: {'; '.join(words)}")
    return LearningError(f"{pointer.workflow!r} has no earlier version to go back to")


# What the pointer says next


def _lineage(pointer: Pointer) -> tuple[str, ...]:
    return (pointer.current, *pointer.lineage)[:LINEAGE_MAX] if pointer.current else ()


def _with_new(pointer: Pointer, manifest: Manifest, digest: str) -> Pointer:
    return msgspec.structs.replace(
        pointer,
        current=manifest.version,
        lineage=manifest.lineage,
        versions={**pointer.versions, manifest.version: digest},
        last=max(pointer.last, number_of(manifest.version)),
    )


def _turned_to(pointer: Pointer, folder: WorkflowFolder, version: str) -> Pointer:
    manifest, _ = folder.manifest(version)
    lineage = tuple(name for name in manifest.lineage if name in pointer.versions)
    return msgspec.structs.replace(pointer, current=version, lineage=lineage)


def _without(pointer: Pointer, victims: Sequence[str]) -> Pointer:
    """What the current one came from is current, where that one goes."""
    left = [name for name in (pointer.current, *pointer.lineage) if name and name not in victims]
    return msgspec.structs.replace(
        pointer,
        current=left[0] if left else "",
        lineage=tuple(left[1:]),
        versions={name: digest for name, digest in pointer.versions.items() if name not in victims},
    )


def _beyond(folder: WorkflowFolder, pointer: Pointer, keep: int) -> list[str]:
    """Oldest first."""
    newest_first = sorted(pointer.versions, key=number_of, reverse=True)
    ranked = dict.fromkeys((pointer.current, *pointer.lineage, *newest_first))
    good = [v for v in ranked if v in pointer.versions and not _told(folder, pointer, v).trouble]
    kept = {pointer.current, *good[:keep]}
    return sorted(set(pointer.versions) - kept, key=number_of)


def _is_ours_alone(folder: WorkflowFolder, version: str, held: contextlib.ExitStack) -> bool:
    """And stays so until all of them are removed. One whose folder is gone already is nobody's."""
    try:
        return held.enter_context(folder.alone_with(version))
    except VersionDamaged:
        return True
