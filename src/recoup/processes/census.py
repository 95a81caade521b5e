"""Who is alive on this host, in the engine's terms."""

from __future__ import annotations

import signal

from recoup.errors import KeeperError
from recoup.model.ids import ProcessIdentity
from recoup.processes.identity import is_alive, own_identity, signal_stopped, wait_dead
from recoup.processes.sweep import sweep_run

_KEEPER_WAIT_S = 30
"""A keeper kills its tree as soon as its driver is gone; longer than this it is stuck in the kernel."""
_LOOK_S = 0.25
_STOPPED_MAX = 10


class HostCensus:
    """The processes of this host. `alone`: whoever is asked about was on this machine, as no other has the ledger."""

    def __init__(self, *, alone: bool = False) -> None:
        self._alone = alone

    def own_identity(self) -> ProcessIdentity:
        return own_identity()

    def is_alive(self, identity: ProcessIdentity) -> bool | None:
        return is_alive(identity, alone=self._alone)

    async def clear(self, run_id: str, keeper: ProcessIdentity | None) -> None:
        if keeper is not None:
            await _wait_ended(keeper)
        await sweep_run(run_id)
        if keeper is not None and is_alive(keeper):
            raise KeeperError(
                f"process {keeper.pid}, which keeps an attempt of run {run_id}, does not end",
                hint=f"The attempt may still be running: end that process. Then: recoup resume {run_id}",
            )


async def _wait_ended(keeper: ProcessIdentity) -> None:
    """One that was stopped (SIGSTOP) does not see that its driver is gone: it is woken. One that its own tree stops
    again and again is killed, and what it leaves is found by its marks."""
    times_left = _STOPPED_MAX
    for _ in range(round(_KEEPER_WAIT_S / _LOOK_S)):
        if await wait_dead(keeper, _LOOK_S):
            return
        times_left -= signal_stopped(keeper, signal.SIGCONT if times_left > 0 else signal.SIGKILL)
