"""The ledger of this home for those who come with a token: held to what the gateway would hold them to.

What a second person must agree to is not done here, because nobody could be asked. Plans come from the folders that are
named, if any are.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from recoup.app import App
from recoup.documents.plan_folders import allowed_plan
from recoup.errors import UsageError
from recoup.kernel.approvals import SUBMIT, needs_approval
from recoup.mcp.desk import Document, Steering, Submission
from recoup.mcp.ledger_desk import LedgerDesk


class TokenDesk(LedgerDesk):
    """For one who asks over HTTP."""

    def __init__(self, app: App, actor: str, plan_folders: Sequence[Path] = ()) -> None:
        super().__init__(app, actor)
        self._plan_folders = plan_folders

    async def submit(self, wanted: Submission) -> Document:
        await self._must_need_nobody_else(SUBMIT)
        return await super().submit(self._held(wanted))

    async def control(self, run_id: str, wanted: Steering) -> Document:
        await self._must_need_nobody_else(wanted.action)
        return await super().control(run_id, wanted)

    async def _must_need_nobody_else(self, action: str) -> None:
        policy, _ = await self._app.generations.seen()
        if needs_approval(policy, action):
            raise UsageError(
                f"the policy's approval_required names {action}: somebody else must agree to it",
                hint="Ask the gateway: recoup mcp with RECOUP_GATEWAY and RECOUP_TOKEN, or its HTTP API.",
            )

    def _held(self, wanted: Submission) -> Submission:
        if not self._plan_folders:
            return wanted
        if wanted.plan is not None:
            raise UsageError(
                "plans are taken from certain folders only", hint="Name a file in one of them: plan_path."
            )
        return wanted if wanted.plan_path is None else self._at_its_place(wanted, wanted.plan_path)

    def _at_its_place(self, wanted: Submission, said: str) -> Submission:
        real = allowed_plan(self._whole(said), self._plan_folders)
        if real is None:
            raise UsageError(
                "plan_path is in none of the folders that plans are taken from",
                hint="Ask whoever serves this where plans are (--plans).",
            )
        return msgspec.structs.replace(wanted, plan_path=str(real))
