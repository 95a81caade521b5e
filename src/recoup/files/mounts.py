"""File systems mounted below a folder. Removing the folder would delete their files, too."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

_TABLE = Path("/proc/self/mountinfo")
_ESCAPE = re.compile(rb"\\([0-7]{3})")


class Mounted(OSError):
    """Nothing below is removed: what is mounted there may be anybody's."""

    def __init__(self, place: str) -> None:
        super().__init__(errno.EBUSY, "a file system is mounted there", place)


def require_no_mounts(folder: Path) -> None:
    """Raises Mounted. Bind mounts are found as well, which no device number tells from their folder."""
    try:
        table = _TABLE.read_bytes()
    except OSError:  # not Linux, or no /proc
        _require_one_device(folder)
        return
    below = os.fsencode(folder.resolve()) + b"/"
    for line in table.splitlines():
        place = _ESCAPE.sub(lambda octal: bytes([int(octal[1], 8)]), line.split(b" ")[4])
        if (place + b"/").startswith(below):
            raise Mounted(os.fsdecode(place))


def _require_one_device(folder: Path) -> None:
    device = folder.lstat().st_dev
    for path, names, _ in os.walk(folder):
        for name in names:
            place = Path(path, name)
            if place.lstat().st_dev != device:
                raise Mounted(str(place))
