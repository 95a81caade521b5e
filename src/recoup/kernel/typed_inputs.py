"""Inputs with a type: what a value must look like. A number or a boolean can carry no code, wherever it ends up."""

from __future__ import annotations

import re
from typing import Final

from recoup.model.plan import InputType

_FORMS: Final = {
    InputType.INTEGER: (re.compile(r"-?(?:0|[1-9][0-9]{0,17})"), "a whole number such as 12 or -3"),
    InputType.NUMBER: (
        re.compile(r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,18})?"),
        "a number such as 12 or 0.5",
    ),
    InputType.BOOLEAN: (re.compile(r"true|false"), "`true` or `false`"),
}


def why_not(value: str, wanted: InputType) -> str:
    """In words; "" where the value is of the type. Text may be anything."""
    form = _FORMS.get(wanted)
    if form is None or form[0].fullmatch(value):
        return ""
    return f"must be {form[1]}"


def carries_no_code(wanted: InputType) -> bool:
    return wanted in _FORMS
