"""The mark in the environment of everything that is kept: it is unique, and names the process that is to end it."""

from __future__ import annotations

import re
import secrets
from typing import Final

from recoup.model.ids import ProcessIdentity
from recoup.processes.identity import own_identity

_MARKER: Final = re.compile(r"[0-9a-f]{32}\.([0-9a-f]{32})\.([0-9a-f-]{1,64})\.([0-9]{1,10})\.([0-9]{1,20})")


def new_marker() -> str:
    driver = own_identity()
    named = (driver.host, driver.boot_id, str(driver.pid), str(driver.start_ticks))
    return ".".join((secrets.token_hex(16), *named))


def driver_of(marker: str) -> ProcessIdentity | None:
    """The process that made the marker. None: it is none of ours, or of a version that named nobody."""
    found = _MARKER.fullmatch(marker)
    return ProcessIdentity(found[1], found[2], int(found[3]), int(found[4])) if found else None
