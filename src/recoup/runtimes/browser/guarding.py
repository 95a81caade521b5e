"""What the runtime needs of the room that keeps processes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from recoup.model.ids import ProcessIdentity


class Guard(Protocol):
    """Stands before one browser: kills it with the driver, with the lease, and when it is closed."""

    folder: Path
    program: Path
    """What the automation library is to start."""
    marks: dict[str, str]
    """What the browser's environment must hold, so that its processes can be found."""

    def extend(self, deadline_boot_s: float) -> None: ...

    async def ready(self) -> ProcessIdentity: ...

    async def close(self) -> None: ...


MakeGuard = Callable[[str, str, float], Guard]
"""Of an executable, a run's id and a deadline on the boot clock."""
