"""Does a command end well? Kept like everything else that is started: nothing of it is left behind."""

from __future__ import annotations

import asyncio

from recoup.errors import KeeperError
from recoup.kernel.probe_health import Sign
from recoup.model.ids import ProcessIdentity
from recoup.model.probe import CommandCheck
from recoup.model.process import EndedBy, ProcessSpec
from recoup.probe.ports import Site


class CommandChecker:
    def __init__(self, check: CommandCheck, site: Site) -> None:
        self._check = check
        self._site = site

    def begin(self) -> None:
        """A command remembers nothing."""

    async def look(self) -> Sign:
        try:
            ended = await self._site.world.keeper.keep(
                self._spec(),
                before_exec=_go,
                lifeline=self._site.lifeline,
                output=_nobody,
                stop=asyncio.Event(),
            )
        except KeeperError as error:
            return Sign(good=False, reason=error.message, error_code="keeper")
        if ended.exit_code == 0 and ended.ended_by is EndedBy.EXIT:
            return Sign(good=True)
        code = ended.ended_by if ended.exit_code is None else f"exit_{ended.exit_code}"
        return Sign(good=False, reason=f"{self._check.command[0]}: {ended.detail or code}", error_code=code)

    def _spec(self) -> ProcessSpec:
        site = self._site
        return ProcessSpec(
            argv=self._check.command,
            cwd=str(site.folder),
            env={**site.world.environ, **site.mark},
            wall_timeout_s=self._check.timeout_s,
            idle_timeout_s=None,
            grace_s=0,
        )


async def _go(_keeper: ProcessIdentity) -> None:
    """A check changes nothing that would have to be known before."""


def _nobody(_stream: str, _chunk: bytes) -> None:
    """What a check prints is read and forgotten."""
