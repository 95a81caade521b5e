"""A driver's own folder within the folder of its run, named by the epoch of its lease.

Whatever a driver makes of the run's files lies there until it gets its name, and whatever it removes is moved there
first. Who comes after it on this machine takes that folder away before it does anything else. So a driver that was
frozen for longer than its lease, between whichever two calls, can name and remove nothing when it wakes: the rename
finds no folder there. No clock could tell it so in time; here the kernel of the system puts the two renames in order.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from recoup.errors import LeaseLost, RecoupError, StateError
from recoup.files.mounts import Mounted, require_no_mounts
from recoup.files.named import require_no_database

LEFT = "left-"
"""What drivers before this one left: moved here, so that it is out of their reach."""
BARRED_MAX = 1_000
"""So many claims later nobody stands still any more who was before them."""
_NAME = ".epoch-"
_OWNER_ONLY = 0o700
_OWNER_ONLY_FILE = 0o600
_TRIES_MAX = 10
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


def unclaimed(run_dir: Path) -> Path:
    """For whoever holds no lease: nobody takes it away."""
    return run_dir / ".aside"


def enter(run_dir: Path, epoch: int) -> Path:
    """The folder of the driver with this epoch. It stays when the driver goes, for one that went before and does not
    know it. Raises LeaseLost."""
    own = run_dir / f"{_NAME}{epoch}"
    # First ours, then a look at the others: of two who enter, at least one sees the other.
    try:
        own.mkdir(_OWNER_ONLY, exist_ok=True)
    except FileExistsError:
        raise _lost(own) from None
    others = _epochs(run_dir) - {epoch}
    if max(others, default=0) > epoch:
        with suppress(OSError):
            own.rmdir()
        raise _lost(own)
    with ours(own):
        for other in others:
            _take_away(run_dir / f"{_NAME}{other}", own)
            if other < epoch - BARRED_MAX:
                (run_dir / f"{_NAME}{other}").unlink()
        for left in _all_left(own):
            # Whoever was ended between taking a folder away and barring its name has left that to us.
            _bar(run_dir / f"{_NAME}{left.name.split('-')[1]}")
            _empty(left)
    return own


def newest_epoch(run_dir: Path) -> int:
    """Of all who have entered; 0 before the first."""
    return max(_epochs(run_dir), default=0)


def newest(run_dir: Path) -> Path | None:
    """The folder of whoever entered last, for one who writes about the run and drives it no more. It goes when the next
    one enters. None: nobody has."""
    epoch = newest_epoch(run_dir)
    return run_dir / f"{_NAME}{epoch}" if epoch else None


@contextmanager
def ours(aside: Path | None) -> Iterator[None]:
    """What fails inside while the folder is gone fails because the run has another driver, or because the whole folder
    of the run was removed. Raises LeaseLost, StateError."""
    try:
        yield
    except (OSError, RecoupError):
        if aside is None or aside.is_dir():
            raise
        raise (_lost(aside) if _has_heir(aside) else _removed(aside)) from None


def fresh(folder: Path, name: str) -> Path:
    """A path that nobody else uses."""
    return folder / f".{name}.{secrets.token_hex(4)}.tmp"


def remove_file(path: Path, aside: Path | None = None) -> None:
    """If it is there. Raises LeaseLost."""
    if aside is None:
        path.unlink(missing_ok=True)
        return
    gone = fresh(aside, path.name)
    with ours(aside):
        if path.is_symlink() or path.exists():
            path.rename(gone)
            _remove(gone)


def _remove(path: Path) -> None:
    """A step may have put a folder in the place of a file: what of it cannot be removed is for the next sweep."""
    if path.is_symlink() or not path.is_dir():
        path.unlink()
        return
    import shutil  # brings every compression there is, and hardly any run needs it

    with suppress(RecursionError, Mounted):
        require_no_mounts(path)
        shutil.rmtree(path, ignore_errors=True)


def open_to_append(path: Path, aside: Path | None = None) -> int:
    """A file that may be there. Opened by a name in the folder: who has lost that opens nothing. Raises LeaseLost."""
    require_no_database(path)
    if aside is None:
        return os.open(path, _APPEND, _OWNER_ONLY_FILE)
    name, is_there = fresh(aside, path.name), path.exists()
    with ours(aside):
        if is_there and not _linked(path, name):
            return os.open(path, _APPEND, _OWNER_ONLY_FILE)
        opened = os.open(name, _APPEND, _OWNER_ONLY_FILE)
        try:
            name.unlink() if is_there else name.rename(path)
        except BaseException:
            os.close(opened)
            raise
    return opened


def _linked(path: Path, name: Path) -> bool:
    """False: this disk has one name for each file."""
    try:
        name.hardlink_to(path)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        return False
    return True


def _epochs(run_dir: Path) -> set[int]:
    names = [path.name.removeprefix(_NAME) for path in run_dir.glob(f"{_NAME}*")]
    return {int(name) for name in names if name.isdecimal()}


def _take_away(theirs: Path, own: Path) -> None:
    for _ in range(_TRIES_MAX):
        if not theirs.is_dir():
            return
        _move(theirs, own / f"{LEFT}{theirs.name.removeprefix(_NAME)}-{secrets.token_hex(4)}")
        _bar(theirs)
    assert not theirs.is_dir(), f"{theirs} comes back as often as it is taken away"


def _move(theirs: Path, left: Path) -> None:
    try:
        theirs.rename(left)
    except FileNotFoundError:
        # One that entered before us, and stood still, may have taken it a moment ago: then it comes with that one's.
        if theirs.is_dir():
            raise


def _all_left(own: Path) -> Iterator[Path]:
    """Also what they had of others, brought up beside theirs: or it would lie deeper with each who comes."""
    pending = list(own.glob(f"{LEFT}*"))
    while pending:
        left = pending.pop()
        pending += [inner.rename(own / inner.name) for inner in left.glob(f"{LEFT}*")]
        yield left


def _bar(theirs: Path) -> None:
    """A file stands in its place from then on: whoever makes missing folders, as git does, must not make this one."""
    with suppress(FileExistsError):
        os.close(os.open(theirs, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _OWNER_ONLY_FILE))


def _empty(left: Path) -> None:
    """Folders in it, which a step may have made hard to remove, are for the room that made them."""
    # Or the file itself, if another one barred the name between our look and our move.
    for path in left.iterdir() if left.is_dir() else (left,):
        if path.is_symlink() or not path.is_dir():
            path.unlink()
    with suppress(OSError):
        left.rmdir()


def _has_heir(own: Path) -> bool:
    """Another driver that entered left a trace: a folder with a higher epoch, or a file in the place of ours."""
    epoch = own.name.removeprefix(_NAME)
    return own.exists() or (epoch.isdecimal() and newest_epoch(own.parent) > int(epoch))


def _removed(own: Path) -> StateError:
    return StateError(
        f"files of run {own.parent.name} were removed while it was driven: {own} is gone",
        hint=f"Was the state folder removed or unmounted? Put it back. Then: recoup resume {own.parent.name}",
    )


def _lost(own: Path) -> LeaseLost:
    return LeaseLost(
        f"run {own.parent.name} has another driver by now, since this one stood still for longer than its lease",
        hint=f"See who has it: recoup show {own.parent.name}",
    )
