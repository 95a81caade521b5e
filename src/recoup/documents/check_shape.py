"""Checks as people write them under `expect`: the main key says which kind it is."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from recoup.checks.registry import all_kinds, keys_in, kind_of_key, trouble_with
from recoup.documents.by_kind import Branches
from recoup.shapes.shape import TAG, Shape


class _ByMainKey:
    """Stands in an annotation for the shape of the kind that a check names: only that one is loaded."""

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(_read)

    def __get_pydantic_json_schema__(
        self, _schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return handler(TypeAdapter[Any](Annotated[Any, Branches(check_shapes())]).core_schema)


CheckShape = Annotated[Any, _ByMainKey()]


def _read(value: Any) -> Any:
    named = keys_in(value) if isinstance(value, dict) else []
    if len(named) != 1:
        raise PydanticCustomError("which_check", "which_check")
    if (trouble := trouble_with(named[0])) is not None:
        raise ValueError(trouble)
    return _adapter(named[0]).validate_python(value)


@cache
def _adapter(key: str) -> TypeAdapter[Any]:
    shape = kind_of_key(key).shapes.by_key[key]
    return TypeAdapter(Annotated[Any, Branches({_branch(key): shape})])


def check_shapes() -> Mapping[str, type[Shape]]:
    """Of all kinds, by the branches under which validators name them."""
    return {_branch(key): shape for kind in all_kinds() for key, shape in kind.shapes.by_key.items()}


def _branch(key: str) -> str:
    return f"{TAG}check-{key}"
