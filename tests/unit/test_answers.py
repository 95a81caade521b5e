"""Every answer of the HTTP API is a type of `model/answers`, and the OpenAPI document is made from it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import recoup
from recoup.gateway.described import answers, components, one_of
from recoup.gateway.service import described
from recoup.model.answers.answer import Answer, PlainAnswer
from recoup.model.answers.runs import EventLine, UnreadableEvent

SOURCE = Path(recoup.__file__).parent


def below(shape: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    for one in shape.__subclasses__():
        yield one
        yield from below(one)


SHAPES = [*below(Answer), *below(PlainAnswer)]


def test_every_answer_is_described_under_a_name_of_its_own() -> None:
    names = [shape.__name__ for shape in SHAPES]
    assert len(names) == len(set(names)) > 60
    assert set(names) <= described()["components"]["schemas"].keys()


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_an_answer_is_frozen_and_holds_no_unknown_fields(shape: type[msgspec.Struct]) -> None:
    assert shape.__struct_config__.frozen and shape.__struct_config__.forbid_unknown_fields


def test_components_are_made_for_what_is_referred_to_and_all_that_it_holds() -> None:
    made = components({"a": one_of(EventLine), "b": answers(UnreadableEvent)[200]})
    assert made.keys() == {"EventLine", "UnreadableEvent"}
    assert made["EventLine"]["properties"]["runId"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert made["EventLine"]["additionalProperties"] is False


def test_pydantic_describes_requests_alone() -> None:
    """Each of its models in the gateway is the body of a request."""
    bodies = str([one.get("requestBody") for path in described()["paths"].values() for one in path.values()])
    for path in (SOURCE / "gateway").glob("*shapes.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and "Shape" in [ast.unparse(base) for base in node.bases]:
                assert f"/{node.name}'" in bodies, node.name
