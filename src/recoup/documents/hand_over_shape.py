"""Who else is told of escalations, as people write it under `hand_over`: the keys are those of the notifiers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter, create_model
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from recoup.notifiers.kind import NotifierKind
from recoup.notifiers.registry import custom_in, custom_keys, trouble_with, usable
from recoup.shapes.shape import Shape


class HandOverShape(Shape):
    """One key for each notifier."""

    def value(self) -> dict[str, Any]:
        """The settings of those that the file names, by the key of the notifier."""
        kinds = usable([key for key in self.keys() if key in custom_keys()])
        settings = {kind.key: kind.settings(self) for kind in kinds}
        return {key: said for key, said in settings.items() if said is not None}


class _ByNotifiers:
    """Stands in an annotation for the shape that has the keys of the notifiers that a file names."""

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(_read)

    def __get_pydantic_json_schema__(
        self, _schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return handler(TypeAdapter(hand_over_shape(custom_keys())).core_schema)


AnyHandOver = Annotated[Any, _ByNotifiers()]


def _read(value: Any) -> HandOverShape:
    named = custom_in(value) if isinstance(value, dict) else []
    if (trouble := next(filter(None, map(trouble_with, named)), None)) is not None:
        raise ValueError(trouble)
    return hand_over_shape(named).model_validate(value)


def hand_over_shapes() -> dict[str, type[Shape]]:
    """With all notifiers that can be used here: the shape itself, and those inside, by the key of each."""
    parts = {key: part for kind in usable(custom_keys()) for key, part in kind.parts().items()}
    return {"hand_over": hand_over_shape(custom_keys()), **parts}


def hand_over_shape(custom: Sequence[str] = ()) -> type[HandOverShape]:
    """With the keys of our own notifiers and of these."""
    return _shape(tuple(usable(custom)))


@cache
def _shape(kinds: tuple[NotifierKind[Any], ...]) -> type[HandOverShape]:
    fields = {name: field for kind in kinds for name, field in kind.fields().items()}
    shape: type[HandOverShape] = create_model("HandOverShape", __base__=HandOverShape, **fields)
    return shape
