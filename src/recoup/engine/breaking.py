"""The mode of a workflow as the engine lives by it: asked in every transaction that ends or begins a step."""

from __future__ import annotations

import msgspec

from recoup.kernel.breaker import refused, rule
from recoup.model.events import Payload, RunBlocked, decode_payload
from recoup.model.ids import EVERY_WORKFLOW
from recoup.model.instant import Instant
from recoup.model.mode import Refusal
from recoup.model.policy import Policy
from recoup.model.run import WorkflowState
from recoup.model.storage import Append, Draft, Judging, Ruled
from recoup.ports import Ledger, Redactor

_NOTHING = Ruled()


def judging(
    redactor: Redactor, workflow: str, run_id: str, policy: Policy, *, ended: bool, probes: bool, digest: str
) -> Judging:
    """What the ledger asks when results of the run are appended, or the start of an attempt would be."""

    def judge(state: WorkflowState, begins: bool, now: Instant) -> Ruled:
        run = run_id if begins else None
        ruling = rule(
            state.health, policy, now, state.seq, ended=ended, begins=run, probes=probes, digest=digest
        )
        if not ruling.payloads and ruling.refusal is None:
            return _NOTHING
        return Ruled(tuple(stored_draft(redactor, payload) for payload in ruling.payloads), ruling.refusal)

    return Judging(workflow, judge)


async def kept_out(
    ledger: Ledger, redactor: Redactor, workflow: str, run_id: str | None, policy: Policy, now: Instant
) -> Refusal | None:
    """Why no step of the run may begin now, as far as can be seen from outside a transaction."""
    refusal = await kept_out_of(ledger, redactor, workflow, run_id, policy, now)
    return refusal or await kept_out_everywhere(ledger, redactor, policy, now)


async def kept_out_everywhere(
    ledger: Ledger, redactor: Redactor, policy: Policy, now: Instant
) -> Refusal | None:
    refusal = await kept_out_of(ledger, redactor, EVERY_WORKFLOW, None, policy, now)
    return msgspec.structs.replace(refusal, everywhere=True) if refusal else None


async def kept_out_of(
    ledger: Ledger, redactor: Redactor, workflow: str, run_id: str | None, policy: Policy, now: Instant
) -> Refusal | None:
    """By this workflow's own mode alone."""
    health = (await ledger.workflow_state(workflow)).health
    refusal = refused(health, policy, run_id, now)
    if refusal is not None and refusal.left_s is not None and health.boots.get(now.boot_id) is None:
        # Whoever is refused here begins nothing, so that no transaction would note the boot; and without it a wall
        # clock that was set back while the machine was down would make the mode last as much longer.
        await ledger.append(Append(at=now, streams=(), judging=_boot_noted(redactor, workflow, policy)))
    return refusal


def _boot_noted(redactor: Redactor, workflow: str, policy: Policy) -> Judging:
    def judge(state: WorkflowState, _begins: bool, now: Instant) -> Ruled:
        ruling = rule(state.health, policy, now, state.seq, ended=False)
        return Ruled(tuple(stored_draft(redactor, payload) for payload in ruling.payloads))

    return Judging(workflow, judge)


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


def stored_draft(redactor: Redactor, payload: Payload) -> Draft:
    """Decoded from what is stored, so that the live state is what a fold would give."""
    stored = redactor.seal(payload)
    return Draft(payload.TYPE, stored, decode_payload(payload.TYPE, stored.data))
