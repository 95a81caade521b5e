"""What every working process does now and then, and after each run that it drove."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from recoup.engine.generations import Generations
from recoup.errors import LedgerError
from recoup.model.run import RunState


class Chores:
    """Each returns what is worth telling, in words."""

    def __init__(
        self,
        generations: Generations,
        clear_abandoned: Callable[[], Awaitable[list[str]]],
        audit: Callable[[], Awaitable[list[str]]],
        report: Callable[[RunState], Awaitable[list[str]]],
    ) -> None:
        self._generations = generations
        self._clear_abandoned = clear_abandoned
        self._audit = audit
        self._report = report
        self._policy_trouble = ""

    async def run(self) -> list[str]:
        exported = await self._audit()
        ended = await self._clear_abandoned()
        return [*ended, *await self._follow_policy(), *exported]

    async def after_run(self, state: RunState) -> list[str]:
        """Writes the report, if one is due, and does the chores."""
        return [*await self._report(state), *await self.run()]

    async def _follow_policy(self) -> list[str]:
        """A worker without work reads its changed file, too: others follow what it says there."""
        try:
            await self._generations.current()
            problem = ""
        except LedgerError as error:
            problem = error.message
        is_new, self._policy_trouble = problem != self._policy_trouble, problem
        return [problem] if problem and is_new else []
