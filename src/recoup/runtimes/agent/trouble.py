"""The deciding fact in what a service or an agent's command line says: a status, a name of an error, a known phrase."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from recoup.kernel.classify import agent_event_class
from recoup.model.failure import FailureClass, FailureKind

_WORDS_MAX: Final = 4096
_STATUS: Final = re.compile(
    r"(?:\bstatus(?: code)?[:=]? |\bAPI Error: (?:Repeated )?|\"code\": ?|\bHTTP )([45][0-9]{2})\b|\(([45][0-9]{2})\)",
    re.IGNORECASE,
)
_PHRASES: Final = (
    ("billing", "billing_error"),
    ("usage limit", "usage_limit_reached"),
    ("rate limit", "rate_limit"),
    ("resource_exhausted", "rate_limit"),
    ("resource exhausted", "rate_limit"),
    ("quota", "rate_limit"),
    ("not logged in", "authentication_failed"),
    ("please run /login", "authentication_failed"),
    ("api key", "authentication_failed"),
    ("missing environment variable", "authentication_failed"),
    ("auth method", "authentication_failed"),
    ("token could not be refreshed", "authentication_failed"),
    ("waiting for network", "connection_error"),
    ("connection failed", "connection_error"),
    ("unable to connect", "connection_error"),
    ("error sending request", "connection_error"),
    ("connection error", "connection_error"),
    ("fetch failed", "connection_error"),
    ("stream disconnected", "stream_disconnected"),
    ("overloaded", "overloaded"),
    ("context window", "context_length_exceeded"),
)
_NAME: Final = re.compile(r"[^a-z0-9_]+")
_WAITS: Final = frozenset({FailureClass.COOLDOWN, FailureClass.TRANSIENT_RUNTIME})
SESSION_NOT_FOUND: Final = "session_not_found"


def fact_in(words: str) -> str:
    """Empty when nothing in the words is known."""
    words = words[:_WORDS_MAX]
    return _named_in_json(words) or _status_in(words) or _phrase_in(words.lower())


def status_fact(status: Any) -> str:
    return f"http_{status}" if type(status) is int and 400 <= status <= 599 else ""


def deciding(*facts: str) -> str:
    """The first that has a known meaning; otherwise the first that there is."""
    named = [name for fact in facts if (name := _NAME.sub("_", fact.lower()).strip("_")[:64])]
    return next((fact for fact in named if agent_event_class(fact)), (*named, "unknown")[0])


def kind_of_trouble(fact: str, retry_after_s: float | None) -> FailureKind:
    """The symptom: told to wait, unreachable, or some other thing that the agent reported."""
    cls = agent_event_class(fact)
    if cls is FailureClass.COOLDOWN or (retry_after_s is not None and cls in _WAITS):
        return FailureKind.RATE_LIMITED
    if cls is FailureClass.TRANSIENT_RUNTIME and fact != SESSION_NOT_FOUND:
        return FailureKind.CONNECTION_LOST
    return FailureKind.AGENT_ERROR


def is_outage(fact: str) -> bool:
    return agent_event_class(fact) in _WAITS


def _named_in_json(words: str) -> str:
    """`{"error": {"code": …, "type": …}}`, as services answer."""
    try:
        body = msgspec.json.decode(words[words.index("{") : words.rindex("}") + 1])
    except (ValueError, RecursionError):
        return ""
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return ""
    names = [str(error[key]) for key in ("code", "status", "type") if isinstance(error.get(key), str)]
    fact = deciding(*names, status_fact(error.get("code")))
    return "" if fact == "unknown" else fact


def _status_in(words: str) -> str:
    found = _STATUS.search(words)
    return f"http_{found[1] or found[2]}" if found else ""


def _phrase_in(words: str) -> str:
    return next((fact for phrase, fact in _PHRASES if phrase in words), "")
