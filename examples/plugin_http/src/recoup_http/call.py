"""The requests themselves, in a process of their own."""

from __future__ import annotations

from json import dumps, loads
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from recoup import Cooldown, Deterministic, Transient

BODY_BYTES_MAX = 1 << 20
LATER = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses after which the same request may go well."""


def call(
    url: str,
    method: str = "GET",
    headers: dict[str, str] | None = None,
    json: Any = None,
    status: list[int] | None = None,
) -> dict[str, Any]:
    """The outputs: `status`, and `json` or `text`."""
    body = None if json is None else dumps(json).encode()
    typed = {} if body is None else {"Content-Type": "application/json"}
    request = Request(url, body, {**typed, **(headers or {})}, method=method)
    try:
        with urlopen(request) as answer:
            code, received = answer.status, answer.read(BODY_BYTES_MAX)
    except HTTPError as error:
        code, received = error.code, error.read(BODY_BYTES_MAX)
        if code not in (status or ()):
            raise _refused(code, error.headers.get("Retry-After", "")) from None
    except URLError as error:
        raise Transient(f"the server cannot be reached: {error.reason}") from None
    if status and code not in status:
        raise Deterministic(f"the answer has status {code}")
    return {"status": code, **_content(received)}


def must_answer(url: str, contains: str | None = None) -> str:
    """For `answers:`. Raises AssertionError when the check does not hold."""
    try:
        with urlopen(url) as answer:
            code, received = answer.status, answer.read(BODY_BYTES_MAX)
    except HTTPError as error:
        raise AssertionError(f"the answer has status {error.code}") from None
    except URLError as error:
        raise AssertionError(f"the server cannot be reached: {error.reason}") from None
    if contains is not None and contains not in received.decode("utf-8", "replace"):
        raise AssertionError(f"the answer does not contain {dumps(contains)}")
    return f"status {code}"


def _refused(code: int, retry_after: str) -> Exception:
    words = f"the answer has status {code}"
    if code not in LATER:
        return Deterministic(words)
    return Cooldown(int(retry_after), words) if retry_after.isdecimal() else Transient(words)


def _content(received: bytes) -> dict[str, Any]:
    text = received.decode("utf-8", "replace")
    try:
        return {"json": loads(text)}
    except ValueError:
        return {"text": text}
