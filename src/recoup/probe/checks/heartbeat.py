"""Does the resource still write its file?"""

from __future__ import annotations

from recoup.kernel.probe_health import Sign
from recoup.model.probe import HeartbeatCheck
from recoup.probe.ports import Site


class HeartbeatChecker:
    """Its age is measured by our own clock from the look that first saw it changed: wall clocks jump."""

    def __init__(self, check: HeartbeatCheck, site: Site) -> None:
        self._path = site.path(check.path)
        self._max_age_s = check.max_age_s
        self._clock = site.world.clock
        self._written_ns: int | None = None
        self._seen_boot_us = 0
        self.begin()

    def begin(self) -> None:
        """What was written before is no sign of life."""
        self._written_ns = self._mtime_ns()
        self._seen_boot_us = self._clock.now().boot_us
        self._beats = False

    async def look(self) -> Sign:
        written_ns, now_us = self._mtime_ns(), self._clock.now().boot_us
        if written_ns is not None and written_ns != self._written_ns:
            self._written_ns, self._seen_boot_us, self._beats = written_ns, now_us, True
        if not self._beats:
            return Sign(
                good=False, reason=f"{self._path} was not written since the start", error_code="no_heartbeat"
            )
        age_s = (now_us - self._seen_boot_us) / 1e6
        if written_ns is None or age_s > self._max_age_s:
            reason = f"{self._path} was not written for {age_s:.0f} s"
            return Sign(good=False, reason=reason, error_code="stale_heartbeat")
        return Sign(good=True)

    def _mtime_ns(self) -> int | None:
        try:
            return self._path.stat().st_mtime_ns
        except OSError:
            return None
