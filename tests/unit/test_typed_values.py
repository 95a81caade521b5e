"""Small rules of the kernel about single values."""

from __future__ import annotations

import json

import pytest

from recoup.kernel.probe_events import _KINDS, wrong_field
from recoup.kernel.typed_inputs import carries_no_code, why_not
from recoup.kernel.webhooks import delivery_signature, signature
from recoup.kernel.wording import clean, json_escaped
from recoup.model.ids import run_of_stream, run_stream
from recoup.model.plan import InputType


@pytest.mark.parametrize(
    ("wanted", "right", "wrong"),
    [
        (InputType.INTEGER, "-12", "1.5"),
        (InputType.NUMBER, "0.5", "a[$(id)]"),
        (InputType.BOOLEAN, "true", "yes"),
    ],
)
def test_a_typed_input_takes_values_of_its_type_alone(wanted: InputType, right: str, wrong: str) -> None:
    assert why_not(right, wanted) == "" and carries_no_code(wanted)
    assert why_not(wrong, wanted).startswith("must be ")


def test_a_text_may_be_anything_and_may_carry_code() -> None:
    assert why_not("$(id)", InputType.TEXT) == "" and not carries_no_code(InputType.TEXT)


def test_the_signature_of_a_delivery_depends_on_its_id_and_is_no_signature_of_the_body() -> None:
    one, two = (delivery_signature("s" * 32, 5, name, b"body") for name in ("one", "two"))
    assert one != two and one.startswith("t=5,v2=")
    assert one.partition("v2=")[2] != signature("s" * 32, 5, b"body").partition("v1=")[2]


@pytest.mark.parametrize("text", ["a\tb", "\x1b[31m", "\u202e", "\U000e0041", "plain"])
def test_what_nobody_sees_is_spelled_and_json_stays_the_same_value(text: str) -> None:
    assert clean(text).replace("\t", "").isprintable()
    assert json.loads(json_escaped(json.dumps(text, ensure_ascii=False))) == text


def test_the_run_of_a_stream_is_known_by_its_name() -> None:
    assert run_of_stream(run_stream("r")) == "r" and run_of_stream("workflow:w") is None


@pytest.mark.parametrize("kind", [kind.TYPE for kind in _KINDS])
def test_an_event_that_lacks_fields_has_none_of_a_wrong_type(kind: str) -> None:
    assert wrong_field({"type": kind}) is None
