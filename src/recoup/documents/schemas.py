"""JSON Schemas (2020-12) of the files that people write, for completion in editors.

A plan's first line can name one: `# yaml-language-server: $schema=plan.schema.json`.
"""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from recoup.shapes.shape import Shape

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def plan_schema() -> dict[str, Any]:
    from recoup.documents.plan_shape import PlanShape

    return _schema(PlanShape, "Recoup plan")


def policy_schema() -> dict[str, Any]:
    from recoup.documents.policy_file import PolicyShape

    return _schema(PolicyShape, "Recoup policy")


def probe_schema() -> dict[str, Any]:
    from recoup.documents.probe_shape import ProbeShape

    return _schema(ProbeShape, "Recoup probe")


def _schema(shape: type[Shape], title: str) -> dict[str, Any]:
    generated = shape.model_json_schema(schema_generator=_Generator, mode="validation")
    return {"$schema": DIALECT, **_tidy(generated), "title": title}


class _Generator(GenerateJsonSchema):
    """A key is left out or has a value: null is written nowhere."""

    def nullable_schema(self, schema: Any) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])


_NAMED = ("properties", "patternProperties", "$defs")
_VERBATIM = ("examples", "default", "const", "enum")


def _tidy(node: Any) -> Any:
    """Without titles made from names of fields and defaults that say nothing; unnamed keys are refused."""
    if isinstance(node, list):
        return [_tidy(item) for item in node]
    if not isinstance(node, dict):
        return node
    tidy = {key: _tidy_part(key, value) for key, value in node.items() if not _is_noise(key, value)}
    return {**tidy, "additionalProperties": False} if "patternProperties" in node else tidy


def _tidy_part(key: str, value: Any) -> Any:
    if key in _NAMED:
        return {name: _tidy(part) for name, part in value.items()}
    return value if key in _VERBATIM else _tidy(value)


def _is_noise(key: str, value: Any) -> bool:
    return key == "title" or (key == "default" and value is None)
