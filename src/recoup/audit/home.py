"""The audit that one home keeps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from recoup.errors import LedgerError, StateError
from recoup.ports import Clock, Ledger

if TYPE_CHECKING:
    from recoup.audit.exporting import Exported

_WAIT_S: Final = 0.5
WHOLE_WAIT_S: Final = 30.0
_EVENTS_MAX: Final = 50_000
"""About a second's work; the next run, or `recoup audit export`, goes on from there."""


class HomeAudit:
    """Follows one ledger. `is_ours`: where many machines share a database each would make the same audit: there one of
    them is told to, by `recoup audit export`."""

    def __init__(self, ledger: Ledger, home: Path, clock: Clock, *, is_ours: bool) -> None:
        self._ledger = ledger
        self.folder = home / "audit"
        self._clock = clock
        self._is_ours = is_ours

    async def chore(self) -> list[str]:
        """What is new since the last time, where it is ours to keep."""
        words = await self.export_new() if self._is_ours else None
        return [] if words is None else [words]

    async def export_new(self) -> str | None:
        """What is new since the last time; why not, in words, if it cannot be written: that harms no run."""
        from recoup.audit.exporting import export

        try:
            await export(
                *(self._ledger, self.folder, self._clock.now()), wait_s=_WAIT_S, events_max=_EVENTS_MAX
            )
        except (StateError, LedgerError) as error:
            return f"the audit is behind: {error}"
        return None

    async def export_whole(self) -> Exported:
        """All that it does not hold yet."""
        from recoup.audit.exporting import export_whole

        return await export_whole(self._ledger, self.folder, self._clock.now(), wait_s=WHOLE_WAIT_S)

    async def export_before_pruning(self) -> int | None:
        """Before anything is forgotten, where this home keeps an audit: all that it does not hold yet. None: it keeps
        none. Raises StateError, LedgerError."""
        if not self._is_ours and not self.folder.is_dir():
            return None
        exported = await self.export_whole()
        if exported.busy:
            raise StateError(
                f"another process was exporting to {self.folder} for {WHOLE_WAIT_S:g} s",
                hint="Let it end, then prune again.",
            )
        return exported.events
