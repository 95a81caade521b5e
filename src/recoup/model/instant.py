"""A point in time that survives clock jumps within a boot and reboots between boots."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

LATEST_US = 253_402_300_799_999_999
"""The end of the year 9999: no calendar here goes further."""


class Instant(msgspec.Struct, frozen=True, order=False):
    """Wall time for people, boot time for differences, and the boot that the boot time belongs to."""

    wall_us: int
    boot_us: int
    boot_id: str

    def iso(self) -> str:
        """RFC 3339 in UTC with microseconds."""
        moment = datetime.fromtimestamp(self.wall_us // 1_000_000, UTC)
        return f"{moment:%Y-%m-%dT%H:%M:%S}.{self.wall_us % 1_000_000:06d}Z"

    @property
    def is_sound(self) -> bool:
        """Whether it is a time at all. What was stored may have been damaged."""
        numbers = type(self.wall_us) is int and type(self.boot_us) is int and type(self.boot_id) is str
        return numbers and 0 <= self.wall_us <= LATEST_US

    def plus_s(self, seconds: float) -> Instant:
        """The instant that lies so many seconds later in the same boot."""
        delta = round(seconds * 1_000_000)
        return Instant(self.wall_us + delta, self.boot_us + delta, self.boot_id)
