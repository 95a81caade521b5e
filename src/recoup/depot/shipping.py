"""Everything of a run that must be found on another machine, through one door."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import msgspec

from recoup.depot.evidence import ShippedEvidence, remove_evidence
from recoup.depot.names import run_prefix
from recoup.depot.parcels import Parcels
from recoup.depot.patience import TIMEOUT_S, PatientDepot
from recoup.depot.private import PrivateParcels
from recoup.depot.sealing import KeySeal, Open
from recoup.depot.workspaces import ShippedWorkspaces
from recoup.durable import write_whole
from recoup.errors import SettingsError, UsageError
from recoup.evidence.folder import FolderEvidence
from recoup.evidence.run_folder import RunFolder
from recoup.kernel.commands import control_command
from recoup.kernel.controls.retry import HARD_RESET_STEP
from recoup.model.plan import BrowserAction, Plan
from recoup.model.run import RunState
from recoup.ports import Depot, Secrets, Workspaces
from recoup.workspace.workspaces import GitWorkspaces

_SET_KEY = "Set RECOUP_KEY to the same long random text on all machines."


class Shipping:
    """What leaves this machine and what comes to it. Without a key nothing private does."""

    def __init__(self, depot: Depot, key: str | None, timeout_s: float = TIMEOUT_S) -> None:
        self._depot = PatientDepot(depot, timeout_s)
        self._seal = KeySeal(key) if key else None

    # Parts for the engine

    def evidence(self, inner: FolderEvidence, aside: Path) -> ShippedEvidence:
        return ShippedEvidence(inner, self._depot, aside)

    def workspaces(
        self, run_id: str, files: RunFolder, inner: GitWorkspaces, *, sends: bool = True
    ) -> Workspaces:
        """`sends`: False for a look that leaves nothing behind."""
        if self._seal is None:
            return inner
        return ShippedWorkspaces(inner, run_id, files, self._parcels, sends=sends)

    def secrets(self, run_id: str, files: RunFolder, inner: Secrets, epoch: int) -> Secrets:
        """Those of a driver whose lease has this epoch."""
        if self._seal is None:
            return _ShippedSecrets(inner, files, epoch)
        belongings = self._belongings(run_id, files)
        return _ShippedSecrets(inner, files, epoch, lambda: belongings.send(epoch))

    # The life of a run

    def must_be_fit(self, plan: Plan, private: str | None) -> None:
        """Another machine can drive it. `private`: what of its submission is in the private store only, in words.
        Raises SettingsError."""
        what = kept_private(plan, private)
        if self._seal is None and what is not None:
            raise SettingsError(
                f"{plan.name} has {what}, and without RECOUP_KEY nothing of that may leave this machine",
                hint=f"{_SET_KEY} Or drive it here: recoup run.",
            )

    async def submitted(self, run_id: str, files: RunFolder, plan: Plan, private: str | None) -> None:
        """Before the ledger knows the run: what it keeps for itself is sent, and this machine is up to date."""
        if kept_private(plan, private) is None:
            return
        _note(files, [0])
        if self._seal is not None:
            await self._belongings(run_id, files).send(0)

    async def enter(self, state: RunState, files: RunFolder, inner: GitWorkspaces | None, epoch: int) -> None:
        """A driver comes to the run, with a lease of this epoch. Whatever another one has made of it since it was last
        driven on this machine is fetched, and what lies here of its workspaces is no longer true."""
        private = kept_private(state.plan, _private_now(state))
        if private is None:
            return
        is_stale = state.driver.epoch not in _driven(files, state)
        if is_stale:
            _must_not_be_handed_over(state)
            self._must_have_key(state, private)
            if inner is not None:
                await inner.forsake()
            await self._replace(state.run_id, files)
        _note(files, [epoch] if is_stale else [state.driver.epoch, epoch])

    async def fetch_missing(self, run_id: str, files: RunFolder) -> None:
        """For somebody who looks: the plan and the secret values, as far as they are not here."""
        if self._seal is None:
            return
        if not _note_path(files).exists() and not files.plan_path.exists():
            files.make()
            _note(files, [])
        await self._belongings(run_id, files).fetch(replace=False)

    async def remove_run(self, run_id: str) -> int:
        """All that was sent of it but evidence, which other runs may cite. How many objects that was."""
        return await Parcels(self._depot, Open(), run_prefix(run_id)).remove_all()

    async def remove_evidence(self, handles: Iterable[str]) -> None:
        """What no run cites any more."""
        await remove_evidence(self._depot, handles)

    async def close(self) -> None:
        await self._depot.close()

    def _parcels(self, run_id: str) -> Parcels:
        assert self._seal is not None, "without a key nothing private is sent"
        return Parcels(self._depot, self._seal, run_prefix(run_id))

    def _belongings(self, run_id: str, files: RunFolder) -> PrivateParcels:
        return PrivateParcels(self._parcels(run_id), files)

    def _must_have_key(self, state: RunState, what: str) -> None:
        if self._seal is None:
            raise SettingsError(
                f"run {state.run_id} has {what}, was last driven on another machine, and RECOUP_KEY is not set here",
                hint=_SET_KEY,
            )

    async def _replace(self, run_id: str, files: RunFolder) -> None:
        if not await self._belongings(run_id, files).fetch(replace=True):
            raise SettingsError(
                f"what run {run_id} keeps for itself is not in the depot: RECOUP_KEY was not set where it was "
                "submitted, or this machine has another depot",
                hint="See that RECOUP_EVIDENCE names the same place on all machines, and is mounted. Without a key "
                "the run can be driven only where it was submitted.",
            )


class _ShippedSecrets:
    """The vault of a run, sent when it is settled. Without a key nothing is sent: then only this machine can drive
    the run, and the note says that it is this one."""

    def __init__(
        self, inner: Secrets, files: RunFolder, epoch: int, send: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self._inner = inner
        self._files = files
        self._epoch = epoch
        self._send = send

    def put(self, name: str, value: str) -> None:
        self._inner.put(name, value)

    async def settle(self) -> None:
        await self._inner.settle()
        if not _note_path(self._files).exists():
            # Its plan promised nothing private; an output turned out to be.
            _note(self._files, [self._epoch])
        if self._send is not None:
            await self._send()

    def get(self, name: str) -> str:
        return self._inner.get(name)

    def find(self, name: str) -> str | None:
        return self._inner.find(name)

    def mac(self, value: str) -> str:
        return self._inner.mac(value)


def _private_now(state: RunState) -> str | None:
    """What records of the run show redacted, in words."""
    if state.submission.plan_redacted or state.submission.private_inputs:
        return "text that records show redacted"
    steps = [record.step_id for record in state.steps if record.results.private_outputs]
    return f"an output of {steps[0]} that records show redacted" if steps else None


def kept_private(plan: Plan, private: str | None) -> str | None:
    """What of it no other machine may have unless it is encrypted, in words. None: nothing."""
    if plan.workspace is not None:
        return "a workspace"
    if private is not None:
        return private
    if any(isinstance(step.action, BrowserAction) for step in plan.steps):
        return "a browser"
    outputs = [output for step in plan.steps for output in step.outputs.values()]
    if plan.secrets or any(one.secret for one in (*plan.inputs.values(), *outputs)):
        return "secret values"
    return None


def _must_not_be_handed_over(state: RunState) -> None:
    if state.workspaces.handed_over is not None and not state.workspaces.restore_pending:
        raise UsageError(
            f"the workspace of run {state.run_id} was handed over to an operator on another machine",
            hint="Resume it there; or give up what was changed: "
            + control_command(state.run_id, HARD_RESET_STEP.name),
        )


def _note_path(files: RunFolder) -> Path:
    return files.private / "driven.json"


def _driven(files: RunFolder, state: RunState) -> list[int]:
    """The epochs under which this folder was up to date: the last that the ledger knows of, and those of drivers that
    came after and may have recorded nothing."""
    try:
        return msgspec.json.decode(_note_path(files).read_bytes(), type=list[int])
    except msgspec.MsgspecError:
        return []
    except FileNotFoundError:
        # Begun by a version, or with settings, that knew of one machine only.
        return [state.driver.epoch] if files.plan_path.exists() else []


def _note(files: RunFolder, epochs: list[int]) -> None:
    write_whole(_note_path(files), msgspec.json.encode(epochs), aside=files.aside)
