"""A command of the user's: given one escalation on its standard input."""

from __future__ import annotations

import asyncio

from recoup.errors import KeeperError
from recoup.model.ids import ProcessIdentity
from recoup.model.probe import HandOver
from recoup.model.process import EndedBy, ProcessSpec
from recoup.ports import Lifeline
from recoup.probe.ports import Letter, NotDelivered
from recoup.probe.world import ProbeWorld


class CommandOutbox:
    """Exit code 0 means that somebody has been told; with any other it is run again later."""

    name = "command"

    def __init__(self, world: ProbeWorld, hand_over: HandOver, folder: str, lifeline: Lifeline) -> None:
        self._world = world
        self._hand_over = hand_over
        self._folder = folder
        self._lifeline = lifeline

    async def deliver(self, letter: Letter) -> None:
        marks = {"RECOUP_ESCALATION_ID": letter.escalation_id, "RECOUP_RESOURCE_ID": letter.resource_id}
        spec = ProcessSpec(
            argv=self._hand_over.command,
            cwd=self._folder,
            env={**self._world.environ, **marks},
            wall_timeout_s=self._hand_over.command_timeout_s,
            idle_timeout_s=None,
            grace_s=1,
            stdin=letter.body.data,
        )
        try:
            ended = await self._world.keeper.keep(
                spec, before_exec=_go, lifeline=self._lifeline, output=_nobody, stop=asyncio.Event()
            )
        except KeeperError as error:
            raise NotDelivered(error.message) from error
        if ended.ended_by is not EndedBy.EXIT or ended.exit_code != 0:
            how = (
                ended.detail or f"exit {ended.exit_code}"
                if ended.ended_by is EndedBy.EXIT
                else ended.ended_by
            )
            raise NotDelivered(f"{self._hand_over.command[0]}: {how}")


async def _go(_keeper: ProcessIdentity) -> None:
    """To tell somebody twice does no harm."""


def _nobody(_stream: str, _chunk: bytes) -> None:
    """What it prints is read and forgotten."""
