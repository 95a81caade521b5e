"""Whether a file or folder is ours: nobody but the user of this process, and root, can change it or put another one in
its place."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

_GROUP_OR_OTHERS_WRITE = 0o022
_LINKS_MAX = 40
"""As many as Linux follows."""
_IDENTITY_MAP = ["0", "0", "4294967295"]


class Foreign(NamedTuple):
    """A file or folder that another user can change."""

    path: Path
    reason: str
    """What follows its path in a sentence: `belongs to alice`."""
    is_mode: bool
    """Whether `chmod` helps."""


def foreign_itself(path: Path) -> Foreign | None:
    """Of the file or folder that the path leads to. A missing one is nobody's. Raises OSError."""
    with suppress(FileNotFoundError, NotADirectoryError):
        status = path.stat()
        if status.st_uid not in (0, os.geteuid()):
            return Foreign(path, f"belongs to {_user_name(status.st_uid)}", is_mode=False)
        if _is_shared(status):
            mode = stat.S_IMODE(status.st_mode)
            return Foreign(path, f"can be written by other users (mode {mode:04o})", is_mode=True)
    return None


def foreign_above(path: Path) -> Foreign | None:
    """The first link or folder on the way there that lets others put something else in its place. Folders as /tmp,
    where each user keeps what is theirs, do not. Raises OSError."""
    way = dict.fromkeys(_way(path.absolute(), _LINKS_MAX))
    return next(filter(None, map(_foreign_on_the_way, way)), None)


def _way(path: Path, links_max: int) -> Iterator[Path]:
    """Every folder and link that the system passes to get there."""
    for step in (*reversed(path.parents), path):
        yield step
        if step.is_symlink() and links_max:
            yield from _way(step.parent / step.readlink() / path.relative_to(step), links_max - 1)
            return


def _foreign_on_the_way(path: Path) -> Foreign | None:
    with suppress(FileNotFoundError, NotADirectoryError):
        status = path.lstat()
        if status.st_uid not in _trusted_owners():
            return Foreign(path, f"belongs to {_user_name(status.st_uid)}", is_mode=False)
        if stat.S_ISDIR(status.st_mode) and not status.st_mode & stat.S_ISVTX and _is_shared(status):
            mode = stat.S_IMODE(status.st_mode)
            return Foreign(path, f"can be written by other users (mode {mode:04o})", is_mode=True)
    return None


def _is_shared(status: os.stat_result) -> bool:
    shared = status.st_mode & _GROUP_OR_OTHERS_WRITE
    return shared != 0 and not (shared == stat.S_IWGRP and _is_private_group(status.st_gid))


def _is_private_group(gid: int) -> bool:
    """A group of one user, as most systems make it with the user: a umask of 002 is usual then."""
    import grp
    import pwd

    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return gid == user.pw_gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


@cache
def _trusted_owners() -> frozenset[int]:
    owners = {0, os.geteuid()}
    with suppress(OSError, ValueError):
        # In a container of an ordinary user, what belongs to the system's root is shown under this id.
        if Path("/proc/self/uid_map").read_text().split() != _IDENTITY_MAP:
            owners.add(int(Path("/proc/sys/kernel/overflowuid").read_text()))
    return frozenset(owners)


def _user_name(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
