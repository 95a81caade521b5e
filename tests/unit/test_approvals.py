"""What a second person must agree to, as pure rules."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from recoup.documents.policy_file import ApprovalName
from recoup.kernel import approvals as rules
from recoup.kernel.approvals import (
    APPROVABLE,
    APPROVED,
    DONE,
    EXPIRED,
    REJECTED,
    STATES,
    WAITING,
    Approvals,
    advance_approvals,
    approval_document,
    needs_approval,
    refuse_decision,
    refuse_request,
    state_of,
    urgent_first,
)
from recoup.model import events as ev
from recoup.model.events import Event, Payload
from recoup.model.instant import Instant
from recoup.model.policy import Policy

AT = Instant(1_000_000, 1_000_000, "boot")
LATE = AT.plus_s(61)


def asked(ref: str = "a") -> ev.ApprovalRequested:
    about: dict[str, Any] = {"by": "ada", "reason": "must", "action": "cancel", "target": "r"}
    return ev.ApprovalRequested(ref=ref, request={"x": 1}, expires_s=60, token_id="t-ada", **about)


def approved(ref: str = "a") -> ev.ApprovalApproved:
    return ev.ApprovalApproved(ref=ref, by="bob", reason="yes", token_id="t-bob")


def rejected(ref: str = "a") -> ev.ApprovalRejected:
    return ev.ApprovalRejected(ref=ref, by="bob", reason="no", token_id="t-bob")


def out(ref: str = "a", outcome: str = DONE) -> ev.ApprovalCarriedOut:
    return ev.ApprovalCarriedOut(ref=ref, outcome=outcome, detail="it went well")


def folded(*payloads: Payload) -> Approvals:
    made = Approvals(known={})
    for seq, payload in enumerate(payloads, 1):
        for _ in range(2):
            advance_approvals(made, Event("approvals", seq, AT, payload.TYPE, payload, b"{}"))
    return made


def test_the_policy_names_what_needs_approval() -> None:
    policy = Policy(approval_required=("cancel",))
    assert needs_approval(policy, "cancel") and not needs_approval(policy, "pause")
    assert get_args(ApprovalName) == APPROVABLE


@pytest.mark.parametrize(
    ("payloads", "now", "state"),
    [
        ([asked()], AT, WAITING),
        ([asked()], LATE, EXPIRED),
        ([asked(), approved()], LATE, APPROVED),
        ([asked(), rejected()], AT, REJECTED),
        ([asked(), approved(), out()], LATE, DONE),
        ([asked(), approved(), out(outcome="refused")], AT, "refused"),
        ([asked(), ev.UnknownPayload(), approved("b"), out("b")], AT, WAITING),
    ],
)
def test_its_state_is_what_was_said_last(payloads: list[Payload], now: Instant, state: str) -> None:
    approval = folded(*payloads).known["a"]
    assert state_of(approval, now) == state and state in STATES
    document = approval_document(approval, now)
    assert (document.state, document.asked_by, document.target) == (state, "ada", "r")


def test_nobody_decides_what_they_asked_for() -> None:
    approval = folded(asked()).known["a"]
    assert "this token" in (refuse_decision(approval, "t-ada", AT, True) or "")
    assert refuse_decision(approval, "t-bob", AT, True) is None
    assert refuse_decision(approval, "t-bob", AT, False) is None


def test_what_is_over_is_not_decided_again_and_what_was_interrupted_is_gone_on_with() -> None:
    assert "expired" in (refuse_decision(folded(asked()).known["a"], "t-bob", LATE, True) or "")
    interrupted = folded(asked(), approved()).known["a"]
    assert refuse_decision(interrupted, "t-bob", AT, True) is None
    assert "approved by bob" in (refuse_decision(interrupted, "t-bob", AT, False) or "")
    assert refuse_decision(interrupted, "t-ada", AT, True) is not None
    assert "done by bob" in (
        refuse_decision(folded(asked(), approved(), out()).known["a"], "t", AT, True) or ""
    )


def test_the_oldest_that_are_over_are_forgotten_and_so_many_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "KEPT_MAX", 2)
    monkeypatch.setattr(rules, "WAITING_MAX", 2)
    known = folded(asked("a"), rejected("a"), asked("b"), rejected("b"), asked("c"), asked("d"))
    assert list(known.known) == ["c", "d"]
    assert "2 requests wait" in (refuse_request(known, AT) or "")
    assert refuse_request(known, LATE) is None


def test_what_waits_comes_first_and_of_that_what_expires_first() -> None:
    known = folded(
        *(asked(ref) for ref in ("later", "first", "done", "rejected", "approved")),
        *(approved("done"), out("done"), rejected("rejected"), approved("approved")),
    ).known
    known["first"] = msgspec.structs.replace(known["first"], expires_at_us=AT.plus_s(1).wall_us)
    order = [one.ref for one in urgent_first(known.values(), AT)]
    assert order == ["first", "later", "approved", "done", "rejected"]
