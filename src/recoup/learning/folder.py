"""The folder of one workflow: its pointer, its versions, who writes and who reads.

current, current.copy    the pointer; the copy serves where the pointer is damaged
lock                     held by the one who writes
versions/v000001/        one version; locked, shared, by those who use it
versions/.new-…, .gone-… made or removed just now, or left by one who was killed
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from recoup.durable import OWNER_ONLY, sync_directory, write_whole
from recoup.errors import LearningError, VersionDamaged
from recoup.files.folders import make_folder
from recoup.learning.stamped import bytes_of, digest_of, stamped, value_in
from recoup.learning.versions import Manifest, Pointer
from recoup.model.memory import number_of

NAME_CHARS_MAX: Final = 1_000
SMALL_BYTES_MAX: Final = 1 << 20
"""Of a pointer or a manifest."""
POLL_S: Final = 0.005

_NEW, _GONE = ".new-", ".gone-"
_PLAIN = re.compile(r"[^a-z0-9]+")


class WorkflowFolder:
    def __init__(self, base: Path, workflow: str, wait_s: float) -> None:
        self.workflow: Final = workflow
        self.root: Final = base / folder_name(workflow)
        self.versions: Final = self.root / "versions"
        self._wait_s: Final = wait_s

    # The pointer

    def seen(self) -> tuple[Pointer, tuple[str, ...]]:
        """The pointer, or what comes nearest to it, and what is damaged."""
        if not self._is_there():
            return Pointer(workflow=self.workflow), ()
        words: list[str] = []
        for path in self._pointers():
            try:
                return self._pointer_in(path), tuple(words)
            except VersionDamaged as error:
                words.append(error.message)
        return self._rebuilt(), (*words, "the newest version that is whole is taken")

    def point(self, pointer: Pointer) -> None:
        """The last rename decides. The copy goes first: a pointer that was swapped needs nothing more to succeed."""
        data = stamped(msgspec.json.encode(pointer))
        current, copy = self._pointers()
        write_whole(copy, data)
        write_whole(current, data)

    def tidied(self) -> Pointer:
        """For the one who writes: the pointer and its copy are mended, and what others left half done is removed."""
        pointer, _ = self.seen()
        data = stamped(msgspec.json.encode(pointer))
        if any(not path.exists() or path.read_bytes() != data for path in self._pointers()):
            self.point(pointer)
        self.sweep(pointer)
        return pointer

    def sweep(self, pointer: Pointer) -> None:
        """Removes all that the pointer does not name, but for what somebody is still reading."""
        for path in [*self.versions.glob(f"{_NEW}*"), *self.versions.glob(f"{_GONE}*")]:
            _erase(path)
        for name in set(self._names()) - set(pointer.versions):
            with contextlib.suppress(VersionDamaged), self.alone_with(name) as alone:
                if alone:
                    self.remove(name)
        for leftover in [*self.root.glob(".*.tmp"), *self.versions.glob("v*/.*.tmp")]:
            leftover.unlink(missing_ok=True)

    def _is_there(self) -> bool:
        return any(path.exists() for path in self._pointers()) or any(self._names())

    def _pointers(self) -> tuple[Path, Path]:
        return self.root / "current", self.root / "current.copy"

    def _pointer_in(self, path: Path) -> Pointer:
        what = f"the pointer {path}"
        pointer = value_in(bytes_of(path, SMALL_BYTES_MAX, what), Pointer, what)
        if pointer.workflow != self.workflow:
            raise VersionDamaged(f"{what} is that of another workflow")
        return pointer

    def _rebuilt(self) -> Pointer:
        """From the versions themselves; those that are damaged stay, named, until somebody cleans up."""
        whole: dict[str, tuple[Manifest, str]] = {}
        names = sorted(self._names(), key=number_of)
        for name in names:
            with contextlib.suppress(VersionDamaged):
                manifest, digest, _ = self.read(name)
                whole[name] = manifest, digest
        newest = max(whole, key=number_of, default="")
        return Pointer(
            workflow=self.workflow,
            current=newest,
            lineage=tuple(n for n in whole[newest][0].lineage if n in whole) if newest else (),
            versions={name: whole[name][1] if name in whole else "" for name in names},
            last=max(map(number_of, names), default=0),
        )

    def _names(self) -> list[str]:
        try:
            return [path.name for path in self.versions.iterdir() if number_of(path.name)]
        except FileNotFoundError:
            return []

    # Versions

    def build(self, manifest: Manifest, components: dict[str, bytes]) -> str:
        """Beside the others, then named: from then on all of it is there. Returns the digest of the manifest."""
        aside = self.versions / f"{_NEW}{secrets.token_hex(4)}"
        make_folder(aside)
        for name, data in components.items():
            write_whole(aside / file_name(name), data)
        raw = stamped(msgspec.json.encode(manifest))
        write_whole(aside / "manifest.json", raw)
        aside.rename(self.versions / manifest.version)
        sync_directory(self.versions)
        return digest_of(raw)

    def read(self, version: str, digest: str | None = None) -> tuple[Manifest, str, dict[str, bytes]]:
        """Every byte is checked. `digest` is the manifest's as the pointer has it; None: the pointer is lost."""
        with self.pinned(version):
            manifest, found = self.manifest(version)
            if digest is not None and found != digest:
                raise VersionDamaged(f"{version} is not the version that the pointer means")
            return manifest, found, dict(self._parts(manifest))

    def manifest(self, version: str) -> tuple[Manifest, str]:
        what = f"the manifest of {version}"
        raw = bytes_of(self.versions / version / "manifest.json", SMALL_BYTES_MAX, what)
        manifest = value_in(raw, Manifest, what)
        if (manifest.workflow, manifest.version) != (self.workflow, version):
            raise VersionDamaged(f"{what} is that of another version")
        return manifest, digest_of(raw)

    def _parts(self, manifest: Manifest) -> Iterator[tuple[str, bytes]]:
        for name, wanted in manifest.components.items():
            what = f"{name} of {manifest.version}"
            data = bytes_of(self.versions / manifest.version / file_name(name), wanted.size, what)
            if len(data) != wanted.size or digest_of(data) != wanted.sha256:
                raise VersionDamaged(f"{what} is not as it was written")
            yield name, data

    def remove(self, version: str) -> None:
        """One rename and it is gone; what is left of it is removed after that, by us or the next one."""
        gone = self.versions / f"{_GONE}{version}-{secrets.token_hex(4)}"
        (self.versions / version).rename(gone)
        sync_directory(self.versions)
        _erase(gone)

    # Who writes, who reads

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """One at a time, of all processes on this machine."""
        self._make()
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self.root / "lock", flags, OWNER_ONLY)
        try:
            if not _locked(descriptor, fcntl.LOCK_EX, self._wait_s):
                raise LearningError(
                    f"another process has been writing what {self.workflow!r} learned for {self._wait_s:g} s",
                    hint=f"Try again; if it stays so, see who holds {self.root / 'lock'}.",
                )
            yield
        finally:
            os.close(descriptor)

    def _make(self) -> None:
        if not self.versions.is_dir():
            make_folder(self.versions)
            for folder in (self.root, self.root.parent, self.root.parent.parent):
                sync_directory(folder)

    @contextlib.contextmanager
    def pinned(self, version: str) -> Iterator[None]:
        """Until then nobody removes it."""
        with self._held(version, fcntl.LOCK_SH, self._wait_s) as held:
            if not held:
                raise VersionDamaged(f"{version} is being removed")
            yield

    @contextlib.contextmanager
    def alone_with(self, version: str) -> Iterator[bool]:
        """False: somebody uses it."""
        with self._held(version, fcntl.LOCK_EX, 0.0) as held:
            yield held

    @contextlib.contextmanager
    def _held(self, version: str, how: int, wait_s: float) -> Iterator[bool]:
        path = self.versions / version
        descriptor = _opened(path)
        try:
            held = _locked(descriptor, how, wait_s)
            if held and not _is_still(descriptor, path):
                raise VersionDamaged(f"{version} is not there any more")
            yield held
        finally:
            os.close(descriptor)


def folder_name(workflow: str) -> str:
    """For people the beginning of the name, and for the file system a digest: names may hold anything."""
    try:
        told = workflow.encode()
    except UnicodeEncodeError as error:
        raise LearningError(f"not the name of a workflow: {workflow[:80]!r}") from error
    if not 0 < len(workflow) <= NAME_CHARS_MAX:
        raise LearningError(
            f"the name of a workflow has 1 to {NAME_CHARS_MAX} characters, not {len(workflow)}"
        )
    shown = _PLAIN.sub("-", workflow.lower())[:40].strip("-")
    return "-".join([*([shown] if shown else []), hashlib.sha256(told).hexdigest()[:32]])


def file_name(component: str) -> str:
    return f"{component}.part"


def _erase(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _opened(path: Path) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise VersionDamaged(f"{path.name} is not there") from error


def _locked(descriptor: int, how: int, wait_s: float) -> bool:
    deadline_s = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline_s:
                return False
            time.sleep(POLL_S)
        else:
            return True


def _is_still(descriptor: int, path: Path) -> bool:
    """Somebody may have removed it between our opening and our locking."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(descriptor), found)
