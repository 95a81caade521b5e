"""Redacts a struct by its types: field names, enums, numbers and `Ident`s stay, all free text is redacted.

What was stored can therefore always be read back, whatever was registered as a secret.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from operator import attrgetter
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from recoup.model.ident import NAMED_BY_KEY, STRUCTURAL
from recoup.redaction.documents import free_key

Clean = Callable[[Any], Any]
"""Redacts plain data of no known type."""


def redact_struct(document: msgspec.Struct, clean: Clean) -> Any:
    """The struct as plain data, redacted."""
    return _walk(msgspec.to_builtins(document, str_keys=True), type(document), clean)


def says_anything(document: msgspec.Struct) -> bool:
    """Whether any part of it that may hold free text holds something: most facts are structure alone."""
    return any(_texts_in(type(document))(document))


def named_pairs(document: msgspec.Struct) -> Iterator[dict[str, str]]:
    """The texts whose meaning the key of their struct says, each with that key. In the encoded document the two stand
    apart."""
    for name in _holders_of_named(type(document)):
        value = getattr(document, name)
        if isinstance(value, msgspec.Struct):
            yield from named_pairs(value)
        elif isinstance(value, dict):
            for key, one in value.items():
                struct: type[msgspec.Struct] = type(one)
                texts = (getattr(one, field) for field in _named_by_key(struct))
                yield from ({key: text} for text in texts if isinstance(text, str))


@cache
def _holders_of_named(struct: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(field.name for field in msgspec.structs.fields(struct) if _holds_named(field.type))


def _holds_named(annotation: Any) -> bool:
    if get_origin(annotation) is dict:
        annotation = get_args(annotation)[1]
        return _is_struct(annotation) and bool(_named_by_key(annotation))
    return _is_struct(annotation) and bool(_holders_of_named(annotation))


def _is_struct(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, msgspec.Struct)


@cache
def _texts_in(struct: type[msgspec.Struct]) -> Callable[[msgspec.Struct], tuple[Any, ...]]:
    """Takes out what stands in those fields. Made once for each type: it is asked of every fact."""
    names = texts_of(struct)
    if len(names) > 1:
        return attrgetter(*names)
    return lambda document: tuple([getattr(document, name) for name in names])


@cache
def texts_of(struct: type[msgspec.Struct]) -> tuple[str, ...]:
    """The fields that may hold anything that is not the structure of such a struct itself."""
    return tuple(field.name for field in msgspec.structs.fields(struct) if _may_hold_text(field.type))


def _may_hold_text(annotation: Any) -> bool:
    """Whatever is not known to hold none may hold some."""
    if _is_structural(annotation) or annotation in (bool, int, float, NoneType):
        return False
    if get_origin(annotation) is Annotated:
        return _may_hold_text(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType, tuple, list):
        return any(_may_hold_text(part) for part in get_args(annotation) if part is not Ellipsis)
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return bool(texts_of(annotation))
    return True


def _walk(node: Any, annotation: Any, clean: Clean) -> Any:
    if isinstance(node, bool | int | float) or node is None or _is_structural(annotation):
        return node
    origin = get_origin(annotation)
    if origin is Annotated:
        return _walk(node, get_args(annotation)[0], clean)
    if origin in (Union, UnionType):
        return _walk(node, _chosen(node, get_args(annotation)), clean)
    if origin in (tuple, list) and isinstance(node, list | tuple):
        item = get_args(annotation)[0]
        return [_walk(one, item, clean) for one in node]
    if origin is dict and isinstance(node, dict):
        key_type, value_type = get_args(annotation)
        if key_type is str and _is_free(value_type):
            # As a whole: what a value is may be said by its key.
            return clean(node)
        return _walk_entries(node, key_type, value_type, clean)
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct) and isinstance(node, dict):
        types = _fields(annotation)
        return {key: _walk(one, types[key], clean) if key in types else one for key, one in node.items()}
    return clean(node)


def _walk_entries(node: dict[Any, Any], key_type: Any, value_type: Any, clean: Clean) -> dict[Any, Any]:
    walked: dict[Any, Any] = {}
    for key, one in node.items():
        name = free_key(clean(key), walked) if key_type is str else key
        walked[name] = _walk_named(key, _walk(one, value_type, clean), value_type, clean)
    return walked


def _walk_named(key: Any, node: Any, annotation: Any, clean: Clean) -> Any:
    """With the texts whose meaning their struct's key says redacted together with it."""
    if not (
        isinstance(annotation, type) and issubclass(annotation, msgspec.Struct) and isinstance(node, dict)
    ):
        return node
    texts = {field: node[field] for field in _named_by_key(annotation) if isinstance(node.get(field), str)}
    return {**node, **{field: next(iter(clean({key: text}).values())) for field, text in texts.items()}}


@cache
def _named_by_key(struct: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(name for name, annotation in _fields(struct).items() if _is_marked(annotation, NAMED_BY_KEY))


def _is_marked(annotation: Any, mark: str) -> bool:
    if get_origin(annotation) in (Union, UnionType):
        return any(_is_marked(part, mark) for part in get_args(annotation))
    metas = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
    return any(isinstance(meta, msgspec.Meta) and bool((meta.extra or {}).get(mark)) for meta in metas)


@cache
def _fields(struct: type[msgspec.Struct]) -> Mapping[str, Any]:
    return {field.encode_name: field.type for field in msgspec.structs.fields(struct)}


def _is_structural(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        return _is_marked(annotation, STRUCTURAL)
    return isinstance(annotation, type) and issubclass(annotation, enum.Enum)


def _is_free(annotation: Any) -> bool:
    """Nothing but text, or anything at all."""
    return annotation in (str, Any) or (
        get_origin(annotation) in (Union, UnionType) and set(get_args(annotation)) <= {str, NoneType}
    )


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
