"""A run and all that it takes to drive it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from recoup.engine.world import Job, Watcher, World
from recoup.errors import StateError
from recoup.evidence.run_folder import RunFolder
from recoup.evidence.vault import NoSecrets
from recoup.fleet.hiding import Hiding
from recoup.fleet.linked import LinkedRuns
from recoup.fleet.records import Records
from recoup.model.ids import Lease
from recoup.model.plan import Plan
from recoup.model.policy import Policy
from recoup.model.run import RunState
from recoup.ports import Redactor, Secrets

if TYPE_CHECKING:
    from recoup.depot.shipping import Shipping
    from recoup.metrics.collector import Metrics
    from recoup.workspace.workspaces import GitWorkspaces


class Jobs(msgspec.Struct, frozen=True):
    """Makes them. Where machines share runs, what is missing here is fetched first."""

    world: World
    records: Records
    hiding: Hiding
    linked: LinkedRuns
    shipping: Shipping | None
    metrics: Callable[[], Metrics | None]

    async def of(self, state: RunState, watcher: Watcher, lease: Lease) -> Job:
        files = self.records.files(state.run_id).driven(lease.epoch)
        for record in state.steps:
            if record.open is not None:
                # Beside the event loop, which has the leases of other runs to renew: a log may be large.
                await asyncio.to_thread(files.take_log, record.index)
        if self.shipping is not None:
            inner = workspaces_of(files) if state.plan.workspace else None
            await self.shipping.enter(state, files, inner, lease.epoch)
        plan, redactor = await self.hiding.plan_to_run(state)
        watcher = self._measured(state, watcher)
        policy = await self.records.policy(state.submission.policy_digest)
        reuse_from = None if state.begun else state.lineage.reuse_from
        job = await self.made(state.run_id, plan, policy, files, redactor, reuse_from, watcher, lease.epoch)
        if state.submission.own_folder:
            job.own_folder = str(self._own_folder(state, files))
        return job

    async def bare(self, state: RunState) -> Job:
        """For whoever needs nothing but the ledger."""
        return self.without_secrets(state, await self.records.policy(state.submission.policy_digest))

    def without_secrets(self, state: RunState, policy: Policy) -> Job:
        files, redactor = self.records.files(state.run_id), self.hiding.redactors.of(state.run_id)
        return Job(state.run_id, state.plan, policy, files, redactor, NoSecrets(), None)

    async def made(
        self,
        run_id: str,
        plan: Plan,
        policy: Policy,
        files: RunFolder,
        redactor: Redactor,
        reuse_from: str | None,
        watcher: Watcher,
        epoch: int | None = None,
    ) -> Job:
        """Without an epoch of a lease: for a question that leaves nothing behind."""
        if reuse_from is not None:
            await self.records.fetch_missing(reuse_from)
        job = Job(
            run_id=run_id,
            plan=plan,
            policy=policy,
            files=files,
            redactor=redactor,
            secrets=self._secrets(run_id, files, epoch),
            workspaces=None,
            watcher=watcher,
            earlier=None if reuse_from is None else await self.linked.earlier(reuse_from, plan, redactor),
        )
        if plan.workspace:
            # The run may follow another policy before it takes its next checkpoint.
            inner = workspaces_of(files, lambda: job.policy.checkpoint_bytes_max)
            job.workspaces = inner
            if self.shipping is not None:
                job.workspaces = self.shipping.workspaces(run_id, files, inner, sends=epoch is not None)
        return job

    def _own_folder(self, state: RunState, files: RunFolder) -> Path:
        """A run that continues another one works in the same folder: what its steps left is there. Raises
        StateError."""
        earlier = (
            None if state.lineage.reuse_from is None else self.records.files(state.lineage.reuse_from).work
        )
        try:
            return files.make_work(earlier)
        except OSError as error:
            raise StateError.of(error) from error

    def _secrets(self, run_id: str, files: RunFolder, epoch: int | None) -> Secrets:
        vault = self.hiding.vault(files)
        if self.shipping is None or epoch is None:
            return vault
        return self.shipping.secrets(run_id, files, vault, epoch)

    def _measured(self, state: RunState, watcher: Watcher) -> Watcher:
        metrics = self.metrics()
        if metrics is None:
            return watcher
        metrics.enter(state)
        return msgspec.structs.replace(watcher, event=metrics.beside(watcher.event))


def workspaces_of(files: RunFolder, *checkpoint_bytes_max: Callable[[], int]) -> GitWorkspaces:
    # Imported late: many plans have no workspace.
    from recoup.workspace.workspaces import GitWorkspaces

    return GitWorkspaces(files.root, *checkpoint_bytes_max, aside=files.aside)
