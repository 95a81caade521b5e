"""Steps of kinds that other packages bring, where the package is not here: they can be read, and say what is missing."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import msgspec
import pytest

from recoup.documents.handler_shape import HandlerShape
from recoup.documents.step_shape import GateShape, WorkStepShape
from recoup.kernel.canonical import digest
from recoup.kernel.fold import fold
from recoup.kernel.template import TemplateError
from recoup.model.events import Event, RunSubmitted, decode_payload
from recoup.model.failure import FailureKind
from recoup.model.instant import Instant
from recoup.model.outcome import Order
from recoup.model.plan import CustomAction, Plan, Step, kind_of
from recoup.model.policy import Policy
from recoup.redaction.redactor import SecretRedactor
from recoup.steps.custom import CustomStep
from recoup.steps.custom_keys import TAKEN
from recoup.steps.kind import Values
from recoup.steps.registry import kind_named, needs_of, step_kind

ACTION = CustomAction("teleport", {"to": "${{ inputs.place }}", "tries": 2}, "recoup-teleport")
PLAN = Plan(name="moves", steps=(Step(id="go", action=ACTION),))
STORED = b"""{"name":"moves","steps":[{"id":"go","action":{"type":"custom","kind":"teleport","arguments":\
{"to":"${{ inputs.place }}","tries":2},"package":"recoup-teleport"}}]}"""


class Teleport(CustomStep):
    key = "teleport"
    secret_arguments = ("to",)


def values(secret: frozenset[str] = frozenset(), **known: Any) -> Values:
    scope = {f"inputs.{name}": value for name, value in known.items()}
    return Values(scope, lambda: scope, secret)


def test_its_stored_form_is_plain_and_is_read_without_the_package() -> None:
    assert msgspec.json.encode(PLAN) == STORED
    assert msgspec.json.decode(STORED, type=Plan) == PLAN


def test_a_run_of_it_is_folded_and_needs_a_worker_that_has_the_package() -> None:
    fact = RunSubmitted(
        workflow="moves",
        plan_digest=digest(msgspec.to_builtins(PLAN)),
        plan=PLAN,
        plan_redacted=False,
        inputs={},
        policy_digest="sha256:x",
    )
    raw = msgspec.json.encode(fact)
    payload = decode_payload(RunSubmitted.TYPE, raw)
    event = Event("run:r", 1, Instant(1, 1, "b"), RunSubmitted.TYPE, payload, raw)
    assert [record.kind for record in fold("r", [event]).steps] == ["teleport"]
    assert kind_of(ACTION) == "teleport"
    assert needs_of(PLAN) == {"teleport"}


def test_its_name_is_never_torn_by_redaction_and_its_arguments_are() -> None:
    redactor = SecretRedactor()
    redactor.register("SECRET", "teleport")
    redactor.register("PLACE", "Sherwood-Forest-4711")
    action = CustomAction("teleport", {"to": "Sherwood-Forest-4711"}, "recoup-teleport")
    sealed = redactor.seal(Step(id="go", action=action)).data
    read = msgspec.json.decode(sealed, type=Step).action
    assert isinstance(read, CustomAction)
    assert (read.kind, read.package) == ("teleport", "recoup-teleport")
    assert b"Sherwood" not in sealed


def test_references_are_filled_in_everywhere() -> None:
    action = CustomAction("teleport", {"to": "${{ inputs.place }}", "n": ["x${{ inputs.n }}", 1, None]})
    for kind in (Teleport(), step_kind(ACTION)):
        filled, env = kind.fill(action, values(place="home", n=5))
        assert (filled.arguments, env) == ({"to": "home", "n": ["x5", 1, None]}, {})
        assert kind.texts(action) == ("${{ inputs.place }}", "x${{ inputs.n }}")


def test_a_secret_stands_only_where_the_kind_takes_one() -> None:
    secret = frozenset({"inputs.place"})
    filled, _ = Teleport().fill(ACTION, values(secret, place="home"))
    assert filled.arguments["to"] == "home"
    with pytest.raises(TemplateError, match=r"inputs\.place is a secret"):
        Teleport().fill(
            CustomAction("teleport", {"via": "${{ inputs.place }}"}), values(secret, place="home")
        )
    written = {"teleport": {"to": "x", "via": "y"}}
    assert Teleport().open_to_others(written) == {("teleport", "via"): "write it under `to`"}
    assert Teleport().open_to_others({"teleport": "x"}) == {("teleport",): "write it under `to`"}


def test_it_is_told_in_the_words_of_the_plan() -> None:
    assert step_kind(ACTION).instructions(ACTION) == 'teleport {"to":"${{ inputs.place }}","tries":2}'
    assert step_kind(ACTION).written_at(("arguments", "to")) == ("teleport", "to")


def test_the_keys_of_every_step_are_taken() -> None:
    shapes = (WorkStepShape, GateShape, HandlerShape)
    assert set[str]().union(*(shape.keys() for shape in shapes)) == TAKEN


@pytest.mark.parametrize(
    ("package", "advice"), [("recoup-teleport", ": pip install recoup-teleport"), ("", "")]
)
def test_without_the_package_it_fails_with_what_to_install(package: str, advice: str) -> None:
    order = Order(
        run_id="r",
        step_id="go",
        step_index=0,
        attempt=1,
        action=CustomAction("teleport", {}, package),
        cwd="/",
        env={},
        policy=Policy(),
    )
    runtime = kind_named("teleport").runtime(cast(Any, None))
    outcome = asyncio.run(runtime.perform(order, cast(Any, None)))
    assert outcome.kind is FailureKind.SPAWN_FAILED
    assert outcome.detail == f"no package here brings steps with `teleport`{advice}"
