"""What is recorded of runs, and where their files are."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from recoup.errors import LedgerError, NotFound
from recoup.evidence.run_folder import RunFolder
from recoup.kernel.fold import fold
from recoup.kernel.policies import stored_policy
from recoup.model.events import Event
from recoup.model.ids import run_stream
from recoup.model.policy import Policy
from recoup.model.run import RunState
from recoup.ports import Ledger

if TYPE_CHECKING:
    from recoup.depot.shipping import Shipping

_EVENTS_PAGE = 1_000
_POLICIES_MAX = 100


class Records:
    """The runs of one ledger, with what this home has of them."""

    def __init__(self, ledger: Ledger, home: Path, shipping: Shipping | None) -> None:
        self.ledger = ledger
        self._home = home
        self._shipping = shipping
        self._policies: dict[str, Policy] = {}
        """By digest: what a digest names does not change."""

    async def state(self, run_id: str) -> RunState:
        return fold(run_id, await self.events(run_id))

    async def beginning(self, run_id: str) -> RunState:
        """As it was submitted, from its first event alone: the plan, its steps and the inputs. Raises NotFound."""
        first = await self.ledger.read(run_stream(run_id), 0, 1)
        if not first:
            raise NotFound(f"there is no run {run_id!r}", hint="List them: recoup runs")
        return fold(run_id, first)

    async def events(self, run_id: str, after: int = 0) -> list[Event]:
        """All events of a run, in order."""
        found: list[Event] = []
        while True:
            page = await self.ledger.read(run_stream(run_id), after, _EVENTS_PAGE)
            found += page
            if len(page) < _EVENTS_PAGE:
                return found
            after = page[-1].seq
            await asyncio.sleep(0)  # a server answers others meanwhile

    async def find(self, name: str) -> str:
        """A run id from its beginning, or from `last`."""
        if name == "last":
            newest = (await self.ledger.runs(limit=1)).rows
            if newest:
                return newest[0].run_id
            raise NotFound("there are no runs yet", hint="Start one: recoup run PLAN")
        found = await self.ledger.find_runs(name)
        if name in found:
            return name
        if len(found) == 1:
            return found[0]
        if not found:
            raise NotFound(f"no run begins with {name!r}", hint="List them: recoup runs")
        raise NotFound(f"several runs begin with {name!r}: {', '.join(found)}", hint="Give more of the id.")

    def files(self, run_id: str) -> RunFolder:
        return RunFolder(self._home / "runs" / run_id)

    async def fetch_missing(self, run_id: str) -> None:
        if self._shipping is not None:
            await self._shipping.fetch_missing(run_id, self.files(run_id))

    async def policy(self, wanted: str) -> Policy:
        """The policy with this digest."""
        policy = self._policies.get(wanted)
        if policy is None:
            body = await self.ledger.policy_body(wanted)
            if body is None:
                raise LedgerError(
                    f"the policy {wanted} is not in the ledger", hint="The database is damaged."
                )
            policy = stored_policy(body)
            if len(self._policies) >= _POLICIES_MAX:
                self._policies.clear()
            self._policies[wanted] = policy
        return policy
