"""The mode of a workflow as the engine lives by it: asked in every transaction that ends or begins a step."""

from __future__ import annotations

import contextlib

import msgspec

from recoup.errors import Conflict
from recoup.kernel.breaker import next_global_mode, refused, rule
from recoup.model.events import Payload, RunBlocked, decode_payload
from recoup.model.ids import EVERY_WORKFLOW, workflow_stream
from recoup.model.instant import Instant
from recoup.model.mode import Refusal
from recoup.model.policy import Policy
from recoup.model.run import WorkflowState
from recoup.model.storage import Append, Draft, Judging, Ruled, StreamAppend
from recoup.ports import Ledger, Redactor

_NOTHING = Ruled()


def judging(
    redactor: Redactor,
    workflow: str,
    run_id: str,
    policy: Policy,
    now: Instant,
    *,
    ended: bool,
    digest: str,
) -> Judging:
    """What the ledger asks when results of the run are appended, or the start of an attempt would be."""

    def judge(state: WorkflowState, begins: bool) -> Ruled:
        run = run_id if begins else None
        ruling = rule(state.health, policy, now, state.seq, ended=ended, begins=run, digest=digest)
        if not ruling.payloads and ruling.refusal is None:
            return _NOTHING
        return Ruled(tuple(_draft(redactor, payload) for payload in ruling.payloads), ruling.refusal)

    return Judging(workflow, judge)


async def kept_out(
    ledger: Ledger, workflow: str, run_id: str | None, policy: Policy, now: Instant
) -> Refusal | None:
    """Why no step of the run may begin now, as far as can be seen from outside a transaction."""
    state = await ledger.workflow_state(workflow)
    refusal = refused(state.health, policy, run_id, now)
    return refusal or await kept_out_everywhere(ledger, policy, now)


async def kept_out_everywhere(ledger: Ledger, policy: Policy, now: Instant) -> Refusal | None:
    state = await ledger.workflow_state(EVERY_WORKFLOW)
    refusal = refused(state.health, policy, None, now)
    return msgspec.structs.replace(refusal, everywhere=True) if refusal else None


async def pause_everything_if_due(
    ledger: Ledger, redactor: Redactor, policy: Policy, digest: str, now: Instant
) -> None:
    """Counts over all workflows. Whoever notices first says so."""
    everywhere = await ledger.workflow_state(EVERY_WORKFLOW)
    prefix = workflow_stream("")
    names = [stream.removeprefix(prefix) for stream in await ledger.streams(prefix)]
    healths = {name: (await ledger.workflow_state(name)).health for name in names if name != EVERY_WORKFLOW}
    change = next_global_mode(everywhere.health, healths, policy, now, digest)
    if change is None:
        return
    told = StreamAppend(workflow_stream(EVERY_WORKFLOW), (_draft(redactor, change),), everywhere.seq)
    with contextlib.suppress(Conflict):  # somebody else was first
        await ledger.append(Append(at=now, streams=(told,)))


def blocked(workflow: str, refusal: Refusal, now: Instant) -> RunBlocked:
    until = now.plus_s(refusal.left_s).iso() if refusal.left_s is not None else None
    return RunBlocked(reason=blocked_words(workflow, refusal, now), until=until)


def blocked_words(workflow: str, refusal: Refusal, now: Instant) -> str:
    """Until when, why, and what to do."""
    until = f" until {now.plus_s(refusal.left_s).iso()[:19]}Z" if refusal.left_s is not None else ""
    why = f" ({refusal.reason})" if refusal.reason else ""
    what = "every workflow" if refusal.everywhere else f"workflow {workflow}"
    name = "--global" if refusal.everywhere else workflow
    how = f"recoup mode {name} running --reason '...'"
    return f"{what} is {refusal.mode}{until}{why}; let it run before that: {how}"


def _draft(redactor: Redactor, payload: Payload) -> Draft:
    """Decoded from what is stored, so that the live state is what a fold would give."""
    stored = redactor.seal(payload)
    return Draft(payload.TYPE, stored, decode_payload(payload.TYPE, stored.data))
