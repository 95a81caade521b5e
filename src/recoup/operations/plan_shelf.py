"""Plans that were sent a moment ago, already read: who submits a thousand runs sends the same text a thousand times."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from pathlib import Path
from typing import Final

from recoup.documents.plan_file import parse_plan
from recoup.kernel.policies import policy_digest
from recoup.model.plan import Plan
from recoup.model.policy import Policy

PLANS_MAX: Final = 64
CHARS_MAX: Final = 50_000
"""Longer ones are read each time."""


class PlanShelf:
    """In memory alone. What is read from a text depends on the text, the policy and the folder, and on nothing else."""

    def __init__(self, source: str, folder: Path) -> None:
        self._source = source
        self._folder = folder
        self._read: OrderedDict[tuple[str, str], Plan] = OrderedDict()

    async def read(self, text: str, policy: Policy) -> Plan:
        """Raises InvalidPlan. Others are answered meanwhile."""
        key = (policy_digest(policy), text)
        plan = self._read.get(key)
        if plan is None:
            plan = await asyncio.to_thread(parse_plan, text, self._source, self._folder, policy=policy)
            if len(text) > CHARS_MAX:
                return plan
            self._read[key] = plan
        self._read.move_to_end(key)
        while len(self._read) > PLANS_MAX:
            self._read.popitem(last=False)
        return plan
