"""Does the resource print what it should, or what it should not?"""

from __future__ import annotations

from collections.abc import Callable

import re2

from recoup.kernel.probe_health import Sign
from recoup.model.probe import Fault, OutputCheck
from recoup.probe.output import Lines
from recoup.probe.ports import Site


class OutputChecker:
    """A line that means a fault is reported as soon as it is printed, and one that means health is looked for as soon
    as it is; the missing of that one is reported when asked.

    The line itself is stored nowhere: it may hold anything.
    """

    def __init__(self, check: OutputCheck, site: Site) -> None:
        self._check = check
        self._site = site
        self._fault = re2.compile(check.fault.encode()) if check.fault else None
        self._ready = re2.compile(check.ready.encode()) if check.ready else None
        self._ready_boot_us: int | None = None
        self.is_ready: Callable[[], None] = lambda: None
        """Called at the first such line since it was begun."""
        site.listen(Lines(self._take).feed)

    def begin(self) -> None:
        self._ready_boot_us = None

    async def look(self) -> Sign:
        if self._ready is None:
            return Sign(good=True)
        if self._ready_boot_us is None:
            return Sign(
                good=False, reason=f"no line like {self._check.ready!r} yet", error_code="not_printed"
            )
        age_s = (self._site.world.clock.now().boot_us - self._ready_boot_us) / 1e6
        if self._check.within_s is not None and age_s > self._check.within_s:
            reason = f"no line like {self._check.ready!r} for {age_s:.0f} s"
            return Sign(good=False, reason=reason, error_code="not_printed")
        return Sign(good=True)

    def _take(self, line: bytes) -> None:
        if self._ready is not None and self._ready.search(line):
            is_first = self._ready_boot_us is None
            self._ready_boot_us = self._site.world.clock.now().boot_us
            if is_first:
                self.is_ready()
        if self._fault is not None and self._fault.search(line):
            reason = f"it printed a line like {self._check.fault!r}"
            self._site.fault(
                Fault(fault_class=self._check.FAULT_CLASS, reason=reason, error_code="pattern_seen")
            )
