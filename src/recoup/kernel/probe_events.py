"""Events of probes elsewhere as they come: whatever they say under a name that we know must be of our type.

They may lack what an older probe does not say, and hold what a newer one says besides. Enums are texts here for the
same reason. What was stored before anybody looked is read by the same rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import Annotated, Any, Final, get_args

import msgspec

from recoup.model import events as ev

TEXT_CHARS_MAX: Final = 100_000
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
_Text = Annotated[str, msgspec.Meta(max_length=TEXT_CHARS_MAX)]
_TYPES: Final[dict[type, Any]] = {int: _Count, float: float, bool: bool}
_KINDS: Final = (
    *(ev.ProbeStarted, ev.ProbeStopped, ev.PhaseChanged, ev.ProcessLaunched, ev.RecoveryPlanned),
    *(ev.RecoveryAttempted, ev.RecoverySucceeded, ev.RecoveryFailed, ev.ProbeEscalated),
    *(ev.EscalationDelivered, ev.ChannelDowngraded, ev.ChannelRestored, ev.BudgetReset, ev.ActionRefused),
    ev.CommandHandled,
)


def wrong_field(event: Mapping[str, Any]) -> str | None:
    """The first field whose value is of another type than its event has there, and why; None: all are right."""
    for name, kind in _fields_of(str(event.get("type"))).items():
        try:
            msgspec.convert(event.get(name), kind | None)
        except msgspec.ValidationError as error:
            return f"`{name}`: {error}"
    return None


@cache
def _fields_of(event_type: str) -> dict[str, Any]:
    found = (kind for kind in _KINDS if event_type == kind.TYPE)
    return {
        field.encode_name: _type_of(field.type) for kind in found for field in msgspec.structs.fields(kind)
    }


def _type_of(declared: Any) -> Any:
    """In the plain types of JSON."""
    while arguments := get_args(declared):
        declared = next(one for one in arguments if one is not type(None))
    if isinstance(declared, type) and issubclass(declared, msgspec.Struct):
        return dict[str, Any]
    is_text = isinstance(declared, type) and issubclass(declared, str | Enum)
    return _Text if is_text else _TYPES[declared]
