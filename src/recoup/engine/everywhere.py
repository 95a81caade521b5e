"""The pause of all workflows: what one process knows of the failures in each of them."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

from recoup.engine.breaking import kept_out_everywhere, stored_draft
from recoup.errors import Conflict
from recoup.kernel.breaker import next_global_mode
from recoup.kernel.elapsed import elapsed_s
from recoup.model.ids import EVERY_WORKFLOW, workflow_stream
from recoup.model.instant import Instant
from recoup.model.mode import Health, Refusal
from recoup.model.policy import Policy
from recoup.model.storage import Append, StreamAppend
from recoup.ports import Clock, Ledger, Redactor

_POLICIES_MAX = 100
LOOK_S = 1.0
"""No more often than this, however many runs a process drives."""


class Seen(NamedTuple):
    at: Instant
    refusal: Refusal | None
    """Why nothing may begin anywhere."""


class Everywhere:
    """Shared by all runs of a process. Only workflows in which something has happened are read again."""

    def __init__(self) -> None:
        self._looked_at: Instant | None = None
        self._known: dict[str, tuple[int, Health]] = {}
        self._seen: dict[str, Seen] = {}

    async def look(
        self, ledger: Ledger, redactor: Redactor, policy: Policy, digest: str, clock: Clock
    ) -> Seen:
        """What any run of this process has seen under this policy, if that is not older than `LOOK_S`."""
        now, seen = clock.now(), self._seen.get(digest)
        if seen is not None and elapsed_s(seen.at, now, LOOK_S) < LOOK_S:
            return seen
        if policy.global_pause:
            await self.pause_if_due(ledger, redactor, policy, digest, clock)
        seen = Seen(now, await kept_out_everywhere(ledger, redactor, policy, now))
        if len(self._seen) >= _POLICIES_MAX:
            self._seen.clear()
        self._seen[digest] = seen
        return seen

    async def pause_if_due(
        self, ledger: Ledger, redactor: Redactor, policy: Policy, digest: str, clock: Clock
    ) -> None:
        """Counts over all workflows. Whoever notices first says so; whoever took long over it counts again next time:
        a process that was frozen must not stop everybody for failures that are long past."""
        now = clock.now()
        if self._looked_at is not None and elapsed_s(self._looked_at, now, LOOK_S) < LOOK_S:
            return
        self._looked_at = now
        everywhere = await ledger.workflow_state(EVERY_WORKFLOW)
        healths = await self._healths(ledger, policy.global_fail_window_s, now)
        change = next_global_mode(everywhere.health, healths, policy, now, digest)
        if change is None or elapsed_s(now, clock.now(), LOOK_S) >= LOOK_S:
            return
        told = StreamAppend(
            workflow_stream(EVERY_WORKFLOW), (stored_draft(redactor, change),), everywhere.seq
        )
        with contextlib.suppress(Conflict):  # somebody else was first
            await ledger.append(Append(at=now, streams=(told,)))

    async def _healths(self, ledger: Ledger, window_s: float, now: Instant) -> dict[str, Health]:
        """Of those with an event within the window: in the others nothing can have failed since."""
        prefix, known = workflow_stream(""), dict[str, tuple[int, Health]]()
        for head in await ledger.heads(prefix):
            name = head.stream.removeprefix(prefix)
            if name == EVERY_WORKFLOW or elapsed_s(head.at, now, window_s) >= window_s:
                continue
            before = self._known.get(name)
            if before is None or before[0] != head.seq:
                before = (head.seq, (await ledger.workflow_state(name)).health)
            known[name] = before
        self._known = known
        return {name: health for name, (_, health) in known.items()}
