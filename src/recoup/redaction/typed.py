"""Redacts a struct by its types: field names, enums, numbers and `Ident`s stay, all free text is redacted.

What was stored can therefore always be read back, whatever was registered as a secret.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from functools import cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from recoup.model.ident import STRUCTURAL

Clean = Callable[[Any], Any]
"""Redacts plain data of no known type."""


def redact_struct(document: msgspec.Struct, clean: Clean) -> Any:
    """The struct as plain data, redacted."""
    return _walk(msgspec.to_builtins(document, str_keys=True), type(document), clean)


def _walk(node: Any, annotation: Any, clean: Clean) -> Any:
    if isinstance(node, bool | int | float) or node is None or _is_structural(annotation):
        return node
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        return _walk(node, _chosen(node, get_args(annotation)), clean)
    if origin in (tuple, list) and isinstance(node, list | tuple):
        item = get_args(annotation)[0]
        return [_walk(one, item, clean) for one in node]
    if origin is dict and isinstance(node, dict):
        key_type, value_type = get_args(annotation)
        name = clean if key_type is str else (lambda key: key)
        return {name(key): _walk(one, value_type, clean) for key, one in node.items()}
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct) and isinstance(node, dict):
        types = _fields(annotation)
        return {key: _walk(one, types[key], clean) if key in types else one for key, one in node.items()}
    return clean(node)


@cache
def _fields(struct: type[msgspec.Struct]) -> Mapping[str, Any]:
    return {field.encode_name: field.type for field in msgspec.structs.fields(struct)}


def _is_structural(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        metas = get_args(annotation)[1:]
        return any(isinstance(meta, msgspec.Meta) and (meta.extra or {}).get(STRUCTURAL) for meta in metas)
    return isinstance(annotation, type) and issubclass(annotation, enum.Enum)


def _chosen(node: Any, choices: tuple[Any, ...]) -> Any:
    """The member of a union that this piece of data is."""
    for choice in choices:
        if isinstance(node, dict) and _is_tagged(choice, node):
            return choice
        if isinstance(node, list | tuple) and get_origin(choice) in (tuple, list):
            return choice
        if isinstance(node, str) and _is_structural(choice):
            return choice
    return Any


def _is_tagged(choice: Any, node: dict[str, Any]) -> bool:
    if not (isinstance(choice, type) and issubclass(choice, msgspec.Struct)):
        return False
    config = choice.__struct_config__
    return config.tag is None or node.get(config.tag_field or "type") == config.tag
