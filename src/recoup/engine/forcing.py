"""An operator's word about the mode of a workflow, or of all of them."""

from __future__ import annotations

import msgspec

from recoup.kernel.breaker import failure_counts
from recoup.kernel.modes import forced_change
from recoup.kernel.policies import policy_digest
from recoup.model.events import Event, WorkflowModeChanged
from recoup.model.ids import workflow_stream
from recoup.model.instant import Instant
from recoup.model.mode import Mode
from recoup.model.policy import Policy
from recoup.model.run import WorkflowState
from recoup.model.storage import Append, Draft, Judging, PolicyBody, Ruled, StreamAppend
from recoup.ports import Ledger, Redactor


async def force_mode(
    ledger: Ledger,
    redactor: Redactor,
    workflow: str,
    mode: Mode,
    *,
    reason: str,
    actor: str,
    for_s: float | None,
    policy: Policy,
    now: Instant,
    approval_ref: str | None = None,
    beside: tuple[StreamAppend, ...] = (),
) -> Event:
    """Whatever the mode is by then: the transaction says what it was before. What is `beside` it is written with it, or
    neither is."""
    digest = policy_digest(policy)

    def judge(state: WorkflowState, _begins: bool, at: Instant) -> Ruled:
        change = forced_change(state.health, mode, reason, actor, for_s, policy, digest)
        counters = failure_counts(state.health, policy, at)
        change = msgspec.structs.replace(change, approval_ref=approval_ref, counters=counters)
        return Ruled((Draft(WorkflowModeChanged.TYPE, redactor.seal(change)),))

    body = PolicyBody(digest, redactor.seal(policy))
    appended = await ledger.append(
        Append(at=now, streams=beside, policies=(body,), judging=Judging(workflow, judge))
    )
    position, ((draft,),) = appended.positions[-1], [part.drafts for part in appended.added]
    return Event(position.stream, position.seq, now, draft.type, draft.fact(), draft.payload.data)


async def known_workflows(ledger: Ledger) -> list[str]:
    prefix = workflow_stream("")
    return [stream.removeprefix(prefix) for stream in await ledger.streams(prefix)]
