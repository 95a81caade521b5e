"""The numbers of one process, counted from the first run that it drives: commands that only look pay nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recoup.metrics.collector import Metrics


class LateMetrics:
    """Loads nothing before it is asked."""

    def __init__(
        self, open_collector: Callable[[], Metrics | None], found_in: Callable[[bytes], object]
    ) -> None:
        self._open_collector = open_collector
        self._found_in = found_in
        self._collector: Metrics | None = None
        self._is_open = False

    def collector(self) -> Metrics | None:
        """None: no sink is set up."""
        if not self._is_open:
            self._collector, self._is_open = self._open_collector(), True
        return self._collector

    def measure_always(self) -> Metrics:
        """Also without a sink: the numbers will be asked for."""
        collector = self.collector()
        if collector is None:
            from recoup.metrics.collector import Metrics

            collector = self._collector = Metrics(None, None, self._found_in)
        return collector

    async def close(self) -> None:
        if self._collector is not None:
            await asyncio.to_thread(self._collector.close)
