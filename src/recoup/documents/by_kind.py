"""A part of a plan whose shape depends on the kind of step that it names: a step, or a handler."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import cache
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from recoup.shapes.shape import TAG, Shape
from recoup.steps.kind import StepKind
from recoup.steps.registry import all_kinds, kinds_in, trouble_in


class ByKind:
    """Stands in an annotation for the shape of the kind that a value names. Without any it counts as one of the first,
    so that everything else in it is looked at too."""

    def __init__(self, part: str, shape_of: Callable[[StepKind[Any]], type[Shape] | None]) -> None:
        self._part = part
        self._shape_of = shape_of
        self._adapter = cache(self._made)

    def shapes(self) -> Mapping[str, type[Shape]]:
        """Of all kinds, by the branches under which validators name them."""
        pairs = ((self._branch(kind), self._shape_of(kind)) for kind in all_kinds())
        return {tag: shape for tag, shape in pairs if shape is not None}

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._read)

    def __get_pydantic_json_schema__(
        self, _schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return handler(TypeAdapter[Any](Annotated[Any, Branches(self.shapes())]).core_schema)

    def _read(self, value: Any) -> Any:
        return self._adapter(self._kind(value)).validate_python(value)

    def _kind(self, value: Any) -> StepKind[Any]:
        named = kinds_in(value) if isinstance(value, dict) else iter(())
        fitting = (kind for kind in named if self._shape_of(kind) is not None)
        if (kind := next(fitting, None)) is not None:
            return kind
        if isinstance(value, dict) and (trouble := trouble_in(value)) is not None:
            raise ValueError(trouble)
        return next(all_kinds())

    def _made(self, kind: StepKind[Any]) -> TypeAdapter[Any]:
        shape = self._shape_of(kind)
        assert shape is not None, f"there is no {self._part} of the kind {kind.key}"
        return TypeAdapter(Annotated[Any, Branches({self._branch(kind): shape})])

    def _branch(self, kind: StepKind[Any]) -> str:
        return f"{TAG}{self._part}-{kind.key}"


class Branches:
    """A union of these, the first of which is taken: what is wrong inside is told together with the branch."""

    def __init__(self, shapes: Mapping[str, type[Shape]]) -> None:
        self._shapes = shapes

    def __get_pydantic_core_schema__(self, _source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        choices: dict[Hashable, CoreSchema] = {
            tag: handler.generate_schema(shape) for tag, shape in self._shapes.items()
        }
        first = next(iter(choices))
        return core_schema.tagged_union_schema(choices, discriminator=lambda _: first)
