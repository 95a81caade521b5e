"""Telling others of events: which ones, where to, signed how, and how often it is tried."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

from recoup.kernel.addresses import is_local

RETRIES_S: Final = (1, 5, 30, 120, 600, 1_800, 3_600)
"""After so many failures in a row; the last one again and again."""
GIVEN_UP_S: Final = 86_400.0
KINDS_MAX: Final = 50
HIDDEN: Final = "/…"
"""Instead of the rest of an address."""
_KIND: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.]{0,99}\*?")


def matches(kinds: Collection[str], types: Collection[str]) -> bool:
    """A kind is the name of an event, or how names begin, with a star behind."""
    return any(
        kind == name or (kind.endswith("*") and name.startswith(kind[:-1]))
        for kind in kinds
        for name in types
    )


def refuse_kinds(kinds: Collection[str]) -> str | None:
    if not kinds:
        return "it names no events"
    if len(kinds) > KINDS_MAX:
        return f"it names more than {KINDS_MAX} kinds of events"
    odd = next((kind for kind in kinds if not _KIND.fullmatch(kind)), None)
    return (
        None
        if odd is None
        else f"{odd[:100]!r} is neither the name of an event nor the beginning of some with a *"
    )


def refuse_hook(url: str) -> str | None:
    """Why nothing may be sent there; None: it may."""
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError:
        return "it is not an address"
    if (
        parts.scheme not in ("http", "https")
        or not host
        or not url.isascii()
        or not url.isprintable()
        or " " in url
    ):
        return "it is not an address that begins with https://"
    if parts.username is not None or parts.fragment:
        return "neither a user nor a fragment may stand in it"
    if parts.scheme == "http" and not is_local(host):
        return "it is neither https nor on this machine: everybody between could read the events"
    return None


def shown_hook(url: str) -> str:
    """Where to, and no more: path and query may be a key."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{HIDDEN}"


def is_hidden(url: str) -> bool:
    """Whether it is an address as it is shown: no whole one can end so, as it is ASCII."""
    return url.endswith(HIDDEN)


def signature(secret: str, at_unix: int, body: bytes) -> str:
    """Of the time and the body: who knows the secret can tell that it is from us, and when it was sent."""
    made = hmac.new(secret.encode(), f"{at_unix}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at_unix},v1={made}"


def delivery_signature(secret: str, at_unix: int, delivery: str, body: bytes) -> str:
    """Of the id of the delivery, too: nobody on the way can make one delivery look like another."""
    signed = f"{at_unix}.{delivery}.".encode() + body
    return f"t={at_unix},v2={hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()}"


def retry_s(failed: int) -> float:
    """How long to wait after so many failures in a row, from 1 on."""
    return RETRIES_S[min(failed, len(RETRIES_S)) - 1]


def is_hopeless(first_failed_s: float, now_s: float) -> bool:
    return now_s - first_failed_s >= GIVEN_UP_S
