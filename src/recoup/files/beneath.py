"""Files below a folder whose contents are not trusted: no link leads out of it.

The path is walked one name at a time, with handles that read nothing and that nobody can replace. That is what
`openat2(RESOLVE_BENEATH)` does, but for absolute links that stay inside, which it refuses."""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePath

from recoup.files.named import read_handle, read_named

_LINKS_MAX = 40
"""As many as Linux follows."""
_HANDLE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class LeavesFolder(OSError):
    """A link on the way leads out of the folder."""

    def __init__(self, name: str, link: str) -> None:
        super().__init__(errno.EXDEV, f"the link {link} leaves the folder of the step", name)


def read_beneath(folder: str, name: str, bytes_max: int) -> bytes:
    """The first bytes of a regular file. A name that says itself that it leads out, absolute or with `..`, is taken as
    it is. Raises OSError as `read_named` does, LeavesFolder."""
    if leads_out(name):
        return read_named(Path(folder, name), bytes_max)
    with _walked(folder, name) as handle:
        return read_handle(handle, name, bytes_max)


def exists_beneath(folder: str, name: str) -> bool:
    """Whether a file or folder is there, links followed as by `read_beneath`. Raises OSError, LeavesFolder."""
    try:
        with real_path(folder, name):
            return True
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        if error.errno == errno.ELOOP:
            return False
        raise


@contextmanager
def real_path(folder: str, name: str) -> Iterator[Path]:
    """Where the file or folder lies, without any link, for a library that opens it by its name."""
    if leads_out(name):
        yield Path(folder, name).resolve(strict=True)
        return
    with _walked(folder, name) as handle:
        yield Path(f"/proc/self/fd/{handle}").readlink()


def leads_out(name: str) -> bool:
    """By its own words."""
    return PurePath(name).is_absolute() or os.path.normpath(name).split(os.sep, 1)[0] == os.pardir


@contextmanager
def _walked(folder: str, name: str) -> Iterator[int]:
    """A handle of what the name leads to."""
    with ExitStack() as until:
        root = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        until.callback(os.close, root)
        way, parts, links = [root], deque(PurePath(name).parts), [name]
        while parts:
            part = parts.popleft()
            if part == os.pardir:
                way.pop()
                if not way:
                    raise LeavesFolder(name, links[-1])
                continue
            handle = os.open(part, _HANDLE, dir_fd=way[-1])
            until.callback(os.close, handle)
            if not stat.S_ISLNK(os.fstat(handle).st_mode):
                way.append(handle)
                continue
            links.append(part)
            if len(links) > _LINKS_MAX:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
            target = PurePath(os.readlink("", dir_fd=handle))
            if target.is_absolute():
                target, way = _from_root(folder, target, name, part), way[:1]
            parts.extendleft(reversed(target.parts))
        yield way[-1]


def _from_root(folder: str, target: PurePath, name: str, link: str) -> PurePath:
    for root in (folder, os.path.realpath(folder)):
        if target.is_relative_to(root):
            return target.relative_to(root)
    raise LeavesFolder(name, link)
