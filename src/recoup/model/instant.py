"""A point in time that survives clock jumps within a boot and reboots between boots."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec


class Instant(msgspec.Struct, frozen=True, order=False):
    """Wall time for people, boot time for differences, and the boot that the boot time belongs to."""

    wall_us: int
    boot_us: int
    boot_id: str

    def iso(self) -> str:
        """RFC 3339 in UTC with microseconds."""
        moment = datetime.fromtimestamp(self.wall_us // 1_000_000, UTC)
        return f"{moment:%Y-%m-%dT%H:%M:%S}.{self.wall_us % 1_000_000:06d}Z"

    def plus_s(self, seconds: float) -> Instant:
        """The instant that lies so many seconds later in the same boot."""
        delta = round(seconds * 1_000_000)
        return Instant(self.wall_us + delta, self.boot_us + delta, self.boot_id)
