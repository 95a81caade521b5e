"""What is sealed can be read back, whatever was registered, and holds no secret in any free text."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoup.model import events as ev
from recoup.model.failure import Facts, FailureClass, FailureKind
from recoup.model.ident import Ident
from recoup.model.ids import ProcessIdentity
from recoup.model.plan import FileCheck, Plan, RunAction, Step, TextMatch
from recoup.model.policy import Policy, TextRule
from recoup.redaction.redactor import SecretRedactor
from recoup.redaction.typed import says_anything, texts_of

SECRET = "open-" + "sesame"
TREE = "3f" * 20
STEP: dict[str, Any] = {"step_id": "build", "step_index": 0, "attempt": 1}
PLAN = Plan(
    name="w",
    objective=f"use {SECRET}",
    steps=(
        Step(
            id="build",
            title=SECRET,
            action=RunAction(f"echo {SECRET}"),
            env={"A": SECRET},
            expect=(FileCheck(SECRET, contains=TextMatch(text=SECRET)),),
        ),
    ),
)
PAYLOADS: list[ev.Payload] = [
    ev.RunSubmitted(
        workflow="w",
        plan_digest="sha256:d",
        plan=PLAN,
        plan_redacted=True,
        inputs={"a": SECRET, "b": None},
        policy_digest="sha256:p",
        plan_source=f"/x/{SECRET}",
    ),
    ev.RunFailed(
        reason=f"said {SECRET}",
        failure_class=FailureClass.UNKNOWN,
        failure_kind=FailureKind.EXIT_NONZERO,
        retryable=False,
        delivery=1,
    ),
    ev.AttemptFailed(
        **STEP,
        facts=Facts(kind=FailureKind.EXIT_NONZERO, excerpt=f"x {SECRET} y", diff_hash=f"sha256:{TREE}"),
        summary=SECRET,
        outcome_known=True,
        changed_files=(f"a-{SECRET}",),
    ),
    ev.AttemptFinished(
        **STEP, verdict="passed", duration_ms=1, outputs={"o": {SECRET: [SECRET, 1]}}, checkpoint=TREE
    ),
    ev.AttemptLaunched(**STEP, keeper=ProcessIdentity("host", "boot", 1, 2)),
    ev.AgentSessionKnown(**STEP, session_id=f"{TREE[:8]}-0000"),
    ev.ControlHandled(
        command_id="c", action="cancel", outcome="accepted", reason=SECRET, actor="me", epoch=1
    ),
]
WORDS = [
    "workflow",
    "stepIndex",
    "build",
    "passed",
    "exit_nonzero",
    "sha256",
    TREE[4:12],
    "cancel",
    "host",
    "command",
    "free",
]


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda payload: payload.TYPE)
@pytest.mark.parametrize("also", ["", *WORDS])
def test_a_payload_comes_back_with_its_structure_and_without_the_secret(
    payload: ev.Payload, also: str
) -> None:
    redactor = SecretRedactor()
    redactor.register("SECRET", SECRET)
    if also:
        redactor.register("ALSO", also)
    stored = redactor.seal(payload)
    assert SECRET.encode() not in stored.data
    again = ev.decode_payload(payload.TYPE, stored.data)
    assert type(again) is type(payload)
    for name in ("step_id", "verdict", "checkpoint", "workflow", "failure_class", "action", "keeper"):
        if hasattr(payload, name):
            assert getattr(again, name) == getattr(payload, name)


@given(st.sampled_from([*msgspec.structs.asdict(Policy()), "transient_runtime", "1048576"]))
def test_a_policy_comes_back_whatever_was_registered(word: str) -> None:
    redactor = SecretRedactor()
    redactor.register("WORD", word)
    policy = Policy(text_rules=(TextRule(words="out of ink", cls=FailureClass.COOLDOWN),))
    assert msgspec.json.decode(redactor.seal(policy).data, type=Policy) == policy


def test_only_payloads_that_cannot_hold_text_are_never_looked_at() -> None:
    assert {name for name, payload in ev.PAYLOADS.items() if not texts_of(payload)} == {
        "workflow.step.result",
        "workflow.probe.permitted",
        "workflow.boot.seen",
        "task.submission.key_taken",
        "ledger.pruned",
        "ProcessLaunched",
        "EscalationDelivered",
        "probe.sender.changed",
        "probe.command.handled",
    }


class Holding(msgspec.Struct):
    words: list[str] = []


@pytest.mark.parametrize(
    "annotation",
    [
        str,
        Any,
        str | None,
        tuple[str, ...],
        list[int | str],
        dict[str, int],
        Holding,
        Holding | None,
        list[Holding],
        bytes,
    ],
)
def test_whatever_may_hold_text_is_looked_at(annotation: Any) -> None:
    struct = msgspec.defstruct("Some", [("number", int), ("held", annotation)])
    assert texts_of(struct) == ("held",)
    assert says_anything(struct(1, ["something"]))
    assert not says_anything(struct(1, None))


@pytest.mark.parametrize("annotation", [int, float | None, Ident, tuple[Ident, ...], FailureKind | None])
def test_what_cannot_hold_text_is_not(annotation: Any) -> None:
    assert texts_of(msgspec.defstruct("Some", [("held", annotation)])) == ()


class Numbered(msgspec.Struct):
    by_name: dict[str, int]


def test_keys_of_a_struct_that_become_equal_keep_their_values_apart() -> None:
    redactor = SecretRedactor()
    redactor.register("FIRST", SECRET)
    redactor.register("SECOND", SECRET.upper())
    sealed = redactor.seal(Numbered({SECRET: 1, SECRET.upper(): 2}))
    assert sorted(msgspec.json.decode(sealed.data)["by_name"].values()) == [1, 2]


def test_the_default_of_an_input_is_redacted_together_with_its_name() -> None:
    from recoup.model.plan import Input, Plan, RunAction, Step
    from recoup.redaction.registration import environment_redactor

    word = "Tr0ub4dor" + "3xyz99"
    inputs = {"password": Input(default=word), "colour": Input(default=word)}
    plan = Plan(name="p", steps=(Step(id="a", action=RunAction("true")),), inputs=inputs)
    redactor = environment_redactor({})
    assert redactor.masked_in(plan) == (("inputs", "password", "default"),)
    stored = msgspec.json.decode(redactor.seal(plan).data, type=Plan)
    assert stored.inputs["password"].default == "[redacted]" and stored.inputs["colour"].default == word
