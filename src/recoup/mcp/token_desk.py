"""The ledger of this home for those who come with a token: held to what the gateway would hold them to.

What a second person must agree to is not done here, because nobody could be asked. Plans come from the folders that are
named, if any are.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from recoup.app import App
from recoup.errors import UsageError
from recoup.kernel.approvals import SUBMIT, needs_approval
from recoup.mcp.desk import Document, Steering
from recoup.mcp.ledger_desk import LedgerDesk
from recoup.operations.policies import seen_policy
from recoup.operations.submission import SubmitRequest


class TokenDesk(LedgerDesk):
    """For one who asks over HTTP."""

    def __init__(self, app: App, actor: str, plan_folders: Sequence[Path] = ()) -> None:
        super().__init__(app, actor, plan_folders=plan_folders)

    async def submit(self, request: SubmitRequest) -> Document:
        await self._must_need_nobody_else(SUBMIT)
        return await super().submit(request)

    async def control(self, run_id: str, wanted: Steering) -> Document:
        await self._must_need_nobody_else(wanted.action)
        return await super().control(run_id, wanted)

    async def _must_need_nobody_else(self, action: str) -> None:
        policy, _ = await seen_policy(self._app)
        if needs_approval(policy, action):
            raise UsageError(
                f"the policy's approval_required names {action}: somebody else must agree to it",
                hint="Ask the gateway: recoup mcp with RECOUP_GATEWAY and RECOUP_TOKEN, or its HTTP API.",
            )
