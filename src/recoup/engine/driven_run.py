"""One run under one lease: what everything that performs its attempts works with."""

from __future__ import annotations

import asyncio

import msgspec

from recoup.engine.kinds import RunKinds
from recoup.engine.lease import LeaseLifeline
from recoup.engine.recorder import Recorder
from recoup.engine.world import Job, World
from recoup.model.plan import Step, kind_of
from recoup.model.run import RunState


class DrivenRun(msgspec.Struct, frozen=True):
    """The run, its world and the driver's tools."""

    world: World
    job: Job
    recorder: Recorder
    kinds: RunKinds
    lifeline: LeaseLifeline
    stop: asyncio.Event
    """Set when the current attempt must end."""

    @property
    def state(self) -> RunState:
        return self.recorder.state

    def launches(self, step: Step) -> bool:
        """Its attempts run outside the driver."""
        return not self.world.runtimes[kind_of(step.action)].inline
