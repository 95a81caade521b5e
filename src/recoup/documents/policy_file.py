"""Policy files: YAML or JSON becomes a Policy, or InvalidPolicy with everything that is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import EnumType
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any, Final, Literal, NamedTuple, get_args, get_origin

import msgspec
from pydantic import AfterValidator, Field, ValidationError, create_model

from recoup.documents.retry_shape import RETRIED, RetriedName
from recoup.documents.text_file import decoded, read_text
from recoup.documents.yaml_tree import parse_tree
from recoup.errors import InvalidPolicy
from recoup.kernel.approvals import APPROVABLE
from recoup.model.failure import FailureClass
from recoup.model.policy import POLICY_KEYS, Policy, TextRule
from recoup.model.policy_key import PolicyKey, ValueRule
from recoup.shapes.shape import Shape, Text, Version, one_of
from recoup.shapes.tree import Tree, Unreadable
from recoup.shapes.wording import NO_VALUE, Finding, Vocabulary, findings, problems_of, said_beside

POLICY_BYTES_MAX = 1 << 18
"""A driver may read it between two heartbeats."""
ENTRIES_MAX = 1_000
RULE_CHARS_MAX = 200


def read_policy(path: str | Path) -> Policy:
    """The policy in a file. Raises InvalidPolicy; nothing else."""
    try:
        text = read_text(Path(path), POLICY_BYTES_MAX)
    except Unreadable as unreadable:
        raise InvalidPolicy(str(path), [unreadable.problem]) from None
    return parse_policy(text, str(path))


def parse_policy(text: str | bytes, source: str = "policy") -> Policy:
    """`source` is what messages call it. Raises InvalidPolicy."""
    try:
        tree = parse_tree(decoded(text, POLICY_BYTES_MAX))
    except Unreadable as unreadable:
        raise InvalidPolicy(source, [unreadable.problem]) from None
    return _policy(tree, source)


def _short(words: str) -> str:
    if len(words) > RULE_CHARS_MAX:
        raise ValueError(f"is longer than {RULE_CHARS_MAX} characters: keep the words that matter")
    return words


ApprovalName: Any = Literal.__getitem__(APPROVABLE)


def _exit_code(key: str) -> str:
    if not re.fullmatch(r"[1-9][0-9]{0,2}", key) or int(key) > 255:
        raise ValueError("must be an exit code from 1 to 255 (0 is no failure)")
    return key


def _not_deterministic(name: str) -> str:
    if FailureClass(name).is_deterministic:
        raise ValueError("a deterministic failure ends the same way every time: it is never redelivered")
    return name


class _Form(NamedTuple):
    """How people write a value, and the most of them that one key lists."""

    shape: Any
    entries_max: int = ENTRIES_MAX


def _form(kind: Any) -> _Form:
    """By the type of a value, or by what its type is marked with."""
    marked = kind.__metadata__[0] if get_origin(kind) is Annotated else kind
    return _FORMS[marked] if marked in _FORMS else _Form(kind)


def _shape(kind: Any) -> Any:
    """What pydantic holds a value of this type to."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (tuple, dict):
        shape, entries_max = _form(inner[0])
        many: Any = (
            GenericAlias(list, shape)
            if origin is tuple
            else GenericAlias(dict, (shape, _form(inner[1]).shape))
        )
        return Annotated[many, Field(max_length=entries_max)]
    return one_of(kind) if isinstance(kind, EnumType) else _form(kind).shape


def _field(field: msgspec.structs.FieldInfo) -> tuple[Any, Any]:
    kind, key = get_args(field.type)
    default = ... if field.required else _DEFAULTS[field.name]
    low, high = key.range or (None, None)
    return _shape(kind), Field(
        default,
        alias=field.encode_name,
        ge=low,
        le=high,
        description=key.description,
        examples=[default if key.example is None else key.example],
    )


def _shape_of(struct: type[msgspec.Struct], name: str, about: str, **more: Any) -> type[Shape]:
    fields = {field.name: _field(field) for field in msgspec.structs.fields(struct)}
    shape: type[Shape] = _create(name, __base__=Shape, __doc__=about, **more, **fields)
    return shape


def _names_of(item: type) -> list[str]:
    """The keys that list such values."""
    kinds = {field.name: get_args(field.type)[0] for field in msgspec.structs.fields(Policy)}
    return [name for name, kind in kinds.items() if item in get_args(kind)]


_create: Any = create_model
_DEFAULTS: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(Policy()))
_HEAD: dict[str, Any] = {
    "editor_schema": (
        str | None,
        Field(None, alias="$schema", description="For editors only.", examples=["policy.json"]),
    ),
    "version": (Version, Field(1, description="The version of the format: 1.", examples=[1])),
}
_CLASS: Final = one_of(FailureClass)
_FORMS: dict[Any, _Form] = {
    FailureClass: _Form(_CLASS),
    str: _Form(Annotated[Text, AfterValidator(_short)]),
}
TextRuleShape = _shape_of(TextRule, "TextRuleShape", "")
_FORMS |= {
    TextRule: _Form(TextRuleShape),
    ValueRule.RETRIED: _Form(RetriedName, len(RETRIED)),
    ValueRule.REDELIVERED: _Form(Annotated[_CLASS, AfterValidator(_not_deterministic)], len(FailureClass)),
    ValueRule.APPROVAL: _Form(ApprovalName, len(APPROVABLE)),
    ValueRule.EXIT_CODE: _Form(Annotated[str, AfterValidator(_exit_code)], 255),
}
PolicyShape = _shape_of(
    Policy, "PolicyShape", "How Recoup behaves. What is not said keeps its default.", **_HEAD
)
_POLICY = Vocabulary(PolicyShape, dict.fromkeys(_names_of(TextRule), TextRuleShape))


def _policy(tree: Tree, source: str) -> Policy:
    if not isinstance(tree.data, dict):
        raise InvalidPolicy(source, [tree.problem((), _not_a_policy(tree.data))])
    said, found, more = _said(tree)
    found += said_beside(found, [*_without_value(tree.data), *_out_of_order(tree.data)])
    if found or tree.problems:
        raise InvalidPolicy(source, problems_of(tree, found, more))
    return msgspec.convert(said, Policy, str_keys=True)


def _without_value(written: Mapping[str, Any]) -> list[Finding]:
    return [Finding((key,), NO_VALUE) for key, value in written.items() if value is None]


def _not_a_policy(data: Any) -> str:
    if data is None:
        return "the file is empty: write `{}` for a policy of defaults"
    return "a policy is a mapping of keys such as `step_max_attempts: 3`, not a list or a single value"


def _said(tree: Tree) -> tuple[dict[str, Any], list[Finding], int]:
    try:
        shape = PolicyShape.model_validate(tree.data)
    except ValidationError as error:
        return {}, *findings(error, _POLICY)
    return shape.model_dump(by_alias=True, exclude_unset=True, exclude={"editor_schema", "version"}), [], 0


def _out_of_order(written: Mapping[str, Any]) -> list[Finding]:
    values = {**_DEFAULTS, **{key: value for key, value in written.items() if _in_range(key, value)}}
    return [
        Finding((low if low in written and high not in written else high,), _order(high, key, values))
        for high, key in POLICY_KEYS.items()
        if (low := key.at_least) and values[high] < values[low] + key.plus
    ]


def _in_range(name: str, value: Any) -> bool:
    key = POLICY_KEYS.get(name)
    low, high = (key and key.range) or (0, -1)
    return isinstance(value, int | float) and low <= value <= high


def _order(high: str, key: PolicyKey, values: dict[str, Any]) -> str:
    low, plus = key.at_least, key.plus
    than = f"{low} - {-plus}" if plus else low
    return f"`{high}` ({values[high]:,}) is less than `{than}` ({values[low] + plus:,}): change one of them"
