"""What passes between a probe and its gateway: which words go out, which commands come in, how long to wait.

A gateway may ask for the five actions, and for a downgraded channel to be brought back: nothing else can be read from
what it sends. A command that asks for more is still a command: it is refused by the rule that it offends, and its
sender is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from recoup.kernel.addresses import is_local
from recoup.kernel.probe import delay_s
from recoup.kernel.probe_rules import FORBIDDEN_KEYS, is_name, refusal_words, rule_against
from recoup.model.events import Event
from recoup.model.probe import Action, Budget, Command, CommandKind, Refused

RESTORE_PRIMARY = "restore_primary"
ASKED: dict[str, CommandKind] = {
    **dict.fromkeys(Action, CommandKind.ACT),
    RESTORE_PRIMARY: CommandKind.RESTORE_MODE,
}
"""Everything that a gateway may ask for."""
ORDERS: dict[str, CommandKind] = {**ASKED, CommandKind.RESET_BUDGET.value: CommandKind.RESET_BUDGET}
"""Everything that a person may order through a gateway."""
MALFORMED = "malformed_command"
RETRIES = Budget(delays_s=(1, 2, 5, 15, 30, 60), jitter=0.2)
TOLD_S_MAX = 600.0
AGAIN_S, AGAIN_S_MAX = 0.05, 1.0
TEXT_MAX = 4_000
WORDS_MAX = 1_000
_DEPTH_MAX = 8
_SHOWN_MAX = 100
_KEYS = frozenset(
    {
        "command_id",
        "action",
        "resource_id",
        "reason",
        "actor",
        "fault_class",
        "desired_version",
        "lease_epoch",
        "deadline_unix",
    }
)


def pause_s(failed: int, chance: float, told_s: float | None = None) -> float:
    """After so many failures in a row, with jitter upwards; longer if the gateway has asked for it, within a limit."""
    backoff_s = delay_s(failed, RETRIES) * (1 + RETRIES.jitter * chance)
    return max(backoff_s, min(told_s or 0.0, TOLD_S_MAX))


def again_s(in_vain: int) -> float:
    """Until the next question, after so many in a row that brought nothing new. A command is sent again until what
    became of it has reached the gateway, which is soon: the one behind it must not wait for long. But a gateway may
    never wait itself before it answers."""
    return min(AGAIN_S_MAX, AGAIN_S * 2 ** min(in_vain - 1, 10)) if in_vain else 0.0


def refuse_address(url: str) -> str | None:
    """Why a token must not be sent there; None: it may be."""
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError:
        return "it is not an address"
    if parts.scheme not in ("http", "https") or not host:
        return "it is not an address that begins with https://"
    if parts.username is not None or parts.query or parts.fragment:
        return "nothing but a host, a port and a path may stand in it: the token comes from RECOUP_TOKEN"
    if parts.scheme == "http" and not is_local(host):
        return "it is neither https nor on this machine: everybody between could read the token"
    return None


# Out


def event_line(event: Event) -> bytes:
    """One event as it is sent: its type, and its payload as it is stored. The same every time; what is too long for
    any gateway is cut."""
    payload: dict[str, Any] = msgspec.json.decode(event.raw)
    return msgspec.json.encode({"type": event.type, **_cut(payload, _DEPTH_MAX)})


def fitting(lines: Sequence[bytes], bytes_max: int) -> int:
    """How many of these, from the first on, fit into one request; at least one."""
    room = bytes_max
    for count, line in enumerate(lines):
        room -= len(line) + 1
        if room < 0:
            return max(1, count)
    return len(lines)


def _cut(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= TEXT_MAX else value[: TEXT_MAX - 1] + "…"
    if isinstance(value, dict) and depth:
        return {key: _cut(one, depth - 1) for key, one in value.items()}
    return value


# In


class Unreadable(ValueError):
    """It has no id: nobody can be told what became of it."""


def read_command(said: Mapping[str, Any]) -> tuple[Command, Refused | None]:
    """As the gateway sent it. With a refusal it must not be carried out, whatever the state of things; without one it
    is only known to be a command. Raises Unreadable."""
    command_id = said.get("command_id")
    if not isinstance(command_id, str) or not is_name(command_id):
        raise Unreadable("a command without a usable command_id")
    action = said.get("action")
    asked = action if isinstance(action, str) else ""
    refused = _forbidden(said, asked) or _malformed(said)
    kind = ASKED.get(asked, CommandKind.ACT)
    command = Command(
        command_id=command_id,
        kind=kind,
        resource_id=_text(said, "resource_id"),
        action=_shown(asked) if kind is CommandKind.ACT else None,
        fault_class=None if refused else said.get("fault_class"),
        reason=_text(said, "reason"),
        actor=f"gateway: {_text(said, 'actor')}" if said.get("actor") else "gateway",
        by_gateway=True,
        desired_version=None if refused else said["desired_version"],
        lease_epoch=None if refused else said["lease_epoch"],
        deadline_unix=None if refused else float(said["deadline_unix"]),
    )
    return command, refused


def _forbidden(said: Mapping[str, Any], asked: str) -> Refused | None:
    """By an action that is none, or by a key that asks for more than an action."""
    for key in sorted(said.keys() - _KEYS):
        if rule := FORBIDDEN_KEYS.get(key):
            return Refused(rule=rule, reason=refusal_words(key, rule))
    rule = None if not asked or asked in ASKED else rule_against(asked)
    return None if rule is None else Refused(rule=rule, reason=refusal_words(_shown(asked), rule))


def _malformed(said: Mapping[str, Any]) -> Refused | None:
    unknown = sorted(said.keys() - _KEYS)
    if unknown:
        return Refused(rule=MALFORMED, reason=f"it holds an unknown key: {_shown(unknown[0])}")
    wrong = [key for key, holds in _HOLD.items() if not holds(said.get(key))]
    if wrong:
        return Refused(rule=MALFORMED, reason=f"`{wrong[0]}` is missing or not what it must be")
    return None


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and is_name(value)


def _is_words(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= WORDS_MAX


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 2**53


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 2**53


_HOLD: dict[str, Callable[[Any], bool]] = {
    "action": _is_words,
    "resource_id": _is_name,
    "reason": _is_words,
    "desired_version": _is_count,
    "lease_epoch": _is_count,
    "deadline_unix": _is_time,
    "actor": lambda value: value is None or _is_words(value),
    "fault_class": lambda value: value is None or _is_name(value),
}


def _text(said: Mapping[str, Any], key: str) -> str:
    value = said.get(key)
    return str(value) if _is_words(value) else ""


def _shown(text: str) -> str:
    """Whole or not at all: half of a secret cannot be recognised and hidden any more."""
    return text if len(text) <= _SHOWN_MAX else f"({len(text)} characters)"
