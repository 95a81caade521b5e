"""A part of a shape that is made when a file first has it: most files never do, and making it takes a while."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema


class Later:
    """Stands in an annotation for the type that `load` gives. What is wrong inside it is told where it stands."""

    def __init__(self, load: Callable[[], Any]) -> None:
        self._load = load

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        return TypeAdapter(self._load())

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._read)

    def __get_pydantic_json_schema__(
        self, _schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        # Wrapped: the handler passes over what a schema that it is given says of its own JSON Schema.
        return handler(core_schema.definitions_schema(self._adapter.core_schema, []))

    def _read(self, value: Any) -> Any:
        return self._adapter.validate_python(value)
