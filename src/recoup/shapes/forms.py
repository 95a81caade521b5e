"""Text with a form of its own: names, regular expressions, commands, ways into JSON."""

from __future__ import annotations

import re
from typing import Annotated, Any

import re2
from pydantic import AfterValidator, BeforeValidator, Field, Tag

from recoup.model.plan import TextMatch
from recoup.shapes.shape import (
    TAG,
    AnyText,
    Shape,
    Text,
    as_written,
    at_most,
    branch,
    matching,
    said,
    scalar_schema,
    text_or,
)

WORDS_MAX = 1_000
REGEX_CHARS_MAX = 10_000
ADDRESS_CHARS_MAX = 20_000
WORD_BYTES_MAX = 131_071
"""The longest argument or variable that Linux hands to a process."""

_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
_STEP_ID = r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}"
_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]{0,254}"
_FIELD = r"[A-Za-z_][A-Za-z0-9_-]{0,99}"
_IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_]{0,99}"
_DOTTED = rf"{_IDENTIFIER}(?:\.{_IDENTIFIER}){{0,19}}"
_JSON_PATH = r"(?:[^.\[\]]+|\[[0-9]{1,6}\])(?:\.[^.\[\]]+|\[[0-9]{1,6}\])*"

WorkflowName = Annotated[
    str,
    BeforeValidator(as_written),
    matching(_NAME, "at most 100 letters, digits, `.`, `_` or `-`, beginning with a letter or digit"),
    scalar_schema(pattern=f"^{_NAME}$"),
]
StepId = Annotated[
    str,
    BeforeValidator(as_written),
    matching(_STEP_ID, "at most 100 letters, digits, `.`, `_`, `:` or `-`, beginning with a letter or digit"),
    scalar_schema(pattern=f"^{_STEP_ID}$"),
]
VariableName = Annotated[
    str,
    matching(
        _VARIABLE, "the name of an environment variable: letters, digits and `_`, not beginning with a digit"
    ),
    Field(json_schema_extra={"pattern": f"^{_VARIABLE}$"}),
]
FieldName = Annotated[
    str,
    matching(_FIELD, "a name of at most 100 letters, digits, `_` or `-`, beginning with a letter or `_`"),
    Field(json_schema_extra={"pattern": f"^{_FIELD}$"}),
]
ArgumentName = Annotated[
    str,
    matching(_IDENTIFIER, "the name of a parameter: letters, digits and `_`, not beginning with a digit"),
    Field(json_schema_extra={"pattern": f"^{_IDENTIFIER}$"}),
]
FunctionName = Annotated[
    str,
    matching(f"{_DOTTED}:{_DOTTED}", "`module:function`, such as `invoices.totals:compute`"),
    Field(json_schema_extra={"pattern": f"^{_DOTTED}:{_DOTTED}$"}),
]
JsonPath = Annotated[
    str,
    BeforeValidator(as_written),
    matching(_JSON_PATH, "the way to a value, such as `count` or `items[0].name`"),
    scalar_schema(pattern=f"^{_JSON_PATH}$"),
]


AddressPattern = Annotated[Text, at_most(ADDRESS_CHARS_MAX)]
"""* stands for a part of the path, ** for anything."""


def _compiled(pattern: str) -> str:
    """Only that it compiles matters: what `${{ … }}` will stand for is not known yet."""
    if len(pattern) > REGEX_CHARS_MAX:
        raise ValueError(f"is longer than {REGEX_CHARS_MAX:,} characters: look for something shorter")
    try:
        re2.compile(TEMPLATE.sub("x", pattern), _QUIET)
    except re2.error as error:
        raise ValueError(f"is not a regular expression that can be used: {_re2_reason(error)}") from None
    return pattern


TEMPLATE = re.compile(r"\$\{\{.*?\}\}", re.DOTALL)
_QUIET = re2.Options()
_QUIET.log_errors = False
_BACKTRACKING = re.compile(rb"perl operator|invalid escape sequence: \\[1-9]|named capture")


def _re2_reason(error: Exception) -> str:
    reason = error.args[0] if error.args and isinstance(error.args[0], bytes) else str(error).encode()
    words = reason.decode("utf-8", "replace")
    if _BACKTRACKING.search(reason):
        return f"{words} (lookaround and backreferences do not exist in RE2: say it without)"
    return words


Regex = Annotated[
    str,
    BeforeValidator(as_written),
    AfterValidator(said),
    AfterValidator(_compiled),
    scalar_schema(minLength=1),
]


def carried(text: str) -> str:
    if len(text.encode()) > WORD_BYTES_MAX:
        raise ValueError(
            f"is longer than {WORD_BYTES_MAX:,} bytes, more than a process can be given: use a file"
        )
    return text


def list_or_text(value: Any) -> str:
    return TAG + ("list" if isinstance(value, list) else "text")


Words = Annotated[
    list[Annotated[AnyText, AfterValidator(carried)]],
    Field(min_length=1, max_length=WORDS_MAX),
    AfterValidator(lambda w: first_said(w)),
]


def first_said(words: list[str]) -> list[str]:
    if not words[0].strip():
        raise ValueError("must begin with the program to run")
    return words


Command = Annotated[
    Annotated[Text, AfterValidator(carried), Tag(TAG + "text")] | Annotated[Words, Tag(TAG + "list")],
    branch(list_or_text),
]


def command_value(command: str | list[str]) -> str | tuple[str, ...]:
    return command if isinstance(command, str) else tuple(command)


class RegexShape(Shape):
    regex: Regex = Field(
        description="A regular expression (RE2 syntax) that must match somewhere.", examples=["total: [0-9]+"]
    )


Match = Annotated[
    Annotated[Text, Tag(TAG + "text")] | Annotated[RegexShape, Tag(TAG + "mapping")],
    branch(text_or("mapping")),
]


def match_value(match: str | RegexShape) -> TextMatch:
    return TextMatch(text=match) if isinstance(match, str) else TextMatch(regex=match.regex)
