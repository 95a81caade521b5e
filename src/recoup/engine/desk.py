"""What a driver works with: the run's papers, its pen, and the questions it keeps asking of them."""

from __future__ import annotations

import asyncio

import msgspec

from recoup.engine.arguments import (
    Arguments,
    Fresh,
    Scope,
    arguments_of,
    fixed_arguments,
    refuse_unmaskable,
    secret_names,
)
from recoup.engine.attempt import Attempts
from recoup.engine.checkpoints import last_checkpoint
from recoup.engine.driven_run import DrivenRun
from recoup.engine.kinds import RunKinds, RunView
from recoup.engine.lease import LeaseLifeline
from recoup.engine.recorder import Recorder
from recoup.engine.work_folder import WorkFolder
from recoup.engine.world import Job, World
from recoup.kernel.elapsed import run_seconds_left
from recoup.kernel.policies import step_policy
from recoup.kernel.template import holds
from recoup.model.ids import Lease
from recoup.model.instant import Instant
from recoup.model.plan import Limits, Step, is_gate, kind_of
from recoup.model.policy import Policy
from recoup.model.run import RunState, StepRecord, Verdict
from recoup.model.storage import Control


class Desk:
    """One run in hand."""

    def __init__(self, world: World, job: Job, state: RunState, lease: Lease) -> None:
        self.world = world = world.of(job)
        self.job = job
        self.recorder = Recorder(world, job, state, lease)
        self.lifeline = LeaseLifeline(lease.deadline_boot_s)
        self.halt = asyncio.Event()
        """Set when the current attempt or wait must end: a control, an interruption, a lost lease."""
        self.kinds = RunKinds(world, RunView(world, job, self.recorder, self.lifeline))
        run = DrivenRun(world, job, self.recorder, self.kinds, self.lifeline, self.halt)
        self.folder = WorkFolder(run)
        self.attempts = Attempts(run, self.folder)
        self.epoch = lease.epoch
        self.paused_by: Control | None = None
        """Whose pause this driver has taken; another one reads in the events whose it was."""
        self._policies: dict[Limits, Policy] = {}
        self._fixed: dict[str, Arguments] = {}
        self._secret = secret_names(job.plan)

    @property
    def state(self) -> RunState:
        """After the last fact that was recorded."""
        return self.recorder.state

    @property
    def workspace(self) -> int | None:
        return self.state.workspaces.in_use

    def now(self) -> Instant:
        return self.world.clock.now()

    def step(self, record: StepRecord) -> Step:
        return self.job.plan.steps[record.index]

    def current(self, record: StepRecord) -> StepRecord:
        """The record of the same step after the last fact that was recorded."""
        return self.state.steps[record.index]

    def pre_state(self, record: StepRecord) -> str | None:
        """The tree from which an attempt of this step begins. None: the run has no workspace."""
        if self.job.workspaces is None:
            return None
        if record.beginning.pre_state is not None and record.verdict is Verdict.FAILED:
            return record.beginning.pre_state
        return last_checkpoint(self.state)[1].tree

    def policy(self, step: Step) -> Policy:
        """One value for all steps with the same limits, so that its digest is made once."""
        policy = self._policies.get(step.limits)
        if policy is None:
            policy = self._policies[step.limits] = step_policy(self.job.policy, self.job.plan, step)
        return policy

    def follow(self, policy: Policy) -> None:
        """From here on; what was decided names the policy that it was decided by."""
        self.job.policy = policy
        self._policies.clear()

    def capped(self, policy: Policy, left_s: float) -> Policy:
        """No attempt may outlast the run's own time."""
        if left_s >= policy.step_timeout_seconds:
            return policy
        return msgspec.structs.replace(policy, step_timeout_seconds=max(0.1, left_s))

    def run_seconds_left(self) -> float:
        return run_seconds_left(self.state, self.job.policy, self.now())

    def arguments(self, step: Step, fresh: Fresh | None = None) -> Arguments:
        """Raises TemplateError."""
        known = self._fixed.get(step.id) or fixed_arguments(step)
        if known is None:
            arguments = arguments_of(step, self.job, self.state, self._secret, fresh)
            refuse_unmaskable(arguments, self.world.redactor)
            return arguments
        self._fixed[step.id] = known
        return known

    def wanted(self, step: Step) -> bool:
        """Raises TemplateError."""
        return step.when is None or holds(step.when, Scope(self.job, self.state))

    def outside(self, step: Step) -> bool:
        """The step's attempts run outside the driver and so have files of their own."""
        return not is_gate(step.action) and not self.world.runtimes[kind_of(step.action)].inline
