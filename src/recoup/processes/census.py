"""Who is alive on this host, in the engine's terms."""

from __future__ import annotations

from recoup.errors import KeeperError
from recoup.model.ids import ProcessIdentity
from recoup.processes.identity import is_alive, own_identity, wait_dead
from recoup.processes.sweep import sweep_run

_KEEPER_WAIT_S = 30
"""A keeper kills its tree as soon as its driver is gone; longer than this it is stuck in the kernel."""


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
            await wait_dead(keeper, _KEEPER_WAIT_S)
        await sweep_run(run_id)
        if keeper is not None and is_alive(keeper):
            raise KeeperError(
                f"process {keeper.pid}, which keeps an attempt of run {run_id}, does not end",
                hint="The attempt may still be running: end that process, then resume the run.",
            )
