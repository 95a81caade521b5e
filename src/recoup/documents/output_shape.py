"""Outputs as people write them: the key says where each is found, or that the step itself writes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from recoup.checks.sources.kind import AnySource
from recoup.checks.sources.registry import all_sources, sources_in
from recoup.documents.by_kind import Branches
from recoup.shapes.shape import TAG, Shape


class _BySource:
    """Stands in an annotation for the shape of the source that an output names."""

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(_read)

    def __get_pydantic_json_schema__(
        self, _schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return handler(TypeAdapter[Any](Annotated[Any, Branches(output_shapes())]).core_schema)


OutputShape = Annotated[Any, _BySource()]


def _read(value: Any) -> Any:
    named = sources_in(value) if isinstance(value, dict) else []
    if len(named) != 1:
        raise PydanticCustomError("which_output", "which_output")
    shape = Branches({_branch(named[0]): named[0].shape})
    return TypeAdapter[Any](Annotated[Any, shape]).validate_python(value)


def output_shapes() -> Mapping[str, type[Shape]]:
    """Of all sources, by the branches under which validators name them."""
    return {_branch(source): source.shape for source in all_sources()}


def _branch(source: AnySource) -> str:
    return f"{TAG}output-{source.key or 'declared'}"
