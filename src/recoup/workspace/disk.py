"""Files of our own: owner-only, whole or absent, durable when we say so."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from recoup.aside import fresh, ours, remove_file
from recoup.durable import sync_directory
from recoup.errors import MachineTrouble, WorkspaceError
from recoup.files.folders import make_folder
from recoup.files.mounts import require_no_mounts
from recoup.machine import FULL_ERRORS, LIMIT_ERRORS, TROUBLE_ERRORS

GONE = ".gone-"
DISK_FULL_HINT = "Free some space (or raise the quota). Then: recoup resume RUN"

_REFUSED = {errno.EACCES, errno.EPERM}


@contextmanager
def explained(doing: str, own: Path | None = None) -> Iterator[None]:
    """Turns an OSError into a sentence with what to do next. What fails below `own` fails in our own store, which is
    never the source's fault."""
    try:
        yield
    except OSError as error:
        raise _explanation(doing, error, own) from error


def private_folder(path: Path) -> Path:
    make_folder(path)
    path.chmod(0o700)
    return path


def sync_file(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_all_below(path: Path) -> None:
    """Every file and folder below; for a store that was just made, so a few dozen."""
    for folder, _, names in os.walk(path):
        for name in names:
            sync_file(Path(folder, name))
        sync_directory(Path(folder))


def point(link: Path, target: str, aside: Path) -> None:
    """`link` names `target` at every instant: the old one, then the new one. Raises LeaseLost."""
    made = fresh(aside, link.name)
    with ours(aside):
        made.symlink_to(target)
        made.rename(link)
    sync_directory(link.parent)


def remove_tree(path: Path, aside: Path | None = None) -> None:
    """If it is there; also what a step made read-only, and folders deeper than paths can be long. `aside`: the folder
    of a driver. Raises LeaseLost; Mounted, before anything is removed; OSError with the name of the first file that
    stays; whatever else can be removed is gone then."""
    if path.is_symlink() or path.is_file():
        remove_file(path, aside)
    elif path.exists():
        import shutil  # brings every compression there is, and most runs remove nothing

        require_no_mounts(path)
        held = (aside or path.parent) / f"{GONE}{secrets.token_hex(4)}"
        with ours(aside):
            held.mkdir(mode=0o700)
            try:
                first = _moved_up(path, held)
            except OSError:
                held.rmdir()
                raise
        try:
            shutil.rmtree(first)
        except (OSError, RecursionError):
            _remove_folders(first, held)
        held.rmdir()


def _remove_folders(first: Path, held: Path) -> None:
    """Every folder is opened and moved up before it is emptied, so that no path grows and nothing recurses."""
    pending, refused = [first], None
    while pending:
        folder = pending.pop()
        with os.scandir(folder) as entries:
            children = list(entries)
        is_empty = True
        for child in children:
            try:
                if child.is_dir(follow_symlinks=False):
                    pending.append(_moved_up(Path(child.path), held))
                else:
                    Path(child.path).unlink()
            except OSError as error:
                is_empty, refused = False, refused or error
        if is_empty:
            folder.rmdir()
    if refused is not None:
        raise refused


def _moved_up(folder: Path, held: Path) -> Path:
    folder.chmod(0o700)
    return folder.rename(held / secrets.token_hex(8))


def _explanation(doing: str, error: OSError, own: Path | None) -> WorkspaceError:
    where = f" ({os.fsdecode(error.filename)})" if isinstance(error.filename, str | bytes) else ""
    if error.errno in FULL_ERRORS:
        return MachineTrouble(f"{doing}: the disk is full{where}", hint=DISK_FULL_HINT)
    words = f"{doing}: {error.strerror or error}{where}"
    ours = own is not None and _is_below(error.filename, own)
    if error.errno in TROUBLE_ERRORS or ours:
        return MachineTrouble(words, hint=_hint(error))
    return WorkspaceError(words, hint=_RIGHTS_HINT if error.errno in _REFUSED else "")


def _is_below(name: object, folder: Path) -> bool:
    """An error without a name comes from a file that was open already: of those we write, all are ours."""
    return not isinstance(name, str | bytes) or Path(os.fsdecode(name)).is_relative_to(folder)


def _hint(error: OSError) -> str:
    if error.errno in LIMIT_ERRORS:
        return "Raise the limit on open files, processes or memory, or end what holds them. Then: recoup resume RUN"
    if error.errno in _REFUSED:
        return _RIGHTS_HINT
    return "See that the disk is sound and writable. Then: recoup resume RUN"


_RIGHTS_HINT = "Give this user the right to do that, or set RECOUP_HOME to a folder that is writable."
