"""What can go wrong in a browser, told as a kind and words."""

from __future__ import annotations

import email.utils
import re
import time
from typing import Final

from playwright.async_api import TimeoutError as LibraryTimeoutError

from recoup.model.failure import FailureKind
from recoup.model.target import Resolution

_LOST: Final = (
    "has been closed",
    "Target crashed",
    "Page crashed",
    "Browser closed",
    "browser has disconnected",
    "Target closed",
)
_LACKING: Final = (":FATAL:", "error while loading")
_DRIVER_LOST: Final = ("Connection closed", "pipe closed", "Connection.init", "driver")
_NET: Final = re.compile(r"net::(ERR_[A-Z0-9_]+)")
_MISWRITTEN: Final = (
    "ERR_INVALID_URL",
    "ERR_UNKNOWN_URL_SCHEME",
    "ERR_UNSAFE_PORT",
    "ERR_DISALLOWED_URL_SCHEME",
)
_CHANGED: Final = (
    "Execution context was destroyed",
    "Cannot find context",
    "Frame was detached",
    "Element is not attached",
    "JSHandle is disposed",
    "Unable to adopt element",
    "frame got detached",
    "Protocol error (DOM",
    "Protocol error (Runtime",
)
NO_ANSWER: Final = "the page does not answer: its scripts do not end, or the browser is frozen"
_WORDS_MAX: Final = 400
_COOLDOWN_STATUS: Final = (429, 503)


class Trouble(Exception):
    """The attempt cannot go on. A value for the outcome, raised only within this room."""

    def __init__(
        self,
        kind: FailureKind,
        detail: str,
        *,
        event: str | None = None,
        retry_after_s: float | None = None,
        resolution: Resolution | None = None,
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        self.detail = detail
        self.event = event
        self.retry_after_s = retry_after_s
        self.resolution = resolution


def of_error(error: Exception, doing: str) -> Trouble:
    """What an error of the automation library says."""
    words = first_line(error)
    if is_driver_lost(error):
        return Trouble(FailureKind.CONNECTION_LOST, f"{doing}: the automation driver was lost: {words}")
    if is_lost(error):
        return Trouble(FailureKind.BROWSER_CRASHED, f"{doing}: the browser or the page is gone: {words}")
    net = _NET.search(str(error))
    if net:
        kind = FailureKind.INVALID_INPUT if net[1] in _MISWRITTEN else FailureKind.NAVIGATION_FAILED
        return Trouble(kind, f"{doing}: {words}")
    return Trouble(FailureKind.EXCEPTION, f"{doing}: {words}")


def is_lost(error: Exception) -> bool:
    return any(words in str(error) for words in _LOST)


def is_driver_lost(error: Exception) -> bool:
    return any(str(error).startswith(words) for words in _DRIVER_LOST)


def is_changed_page(error: Exception) -> bool:
    """The page went on to another document, or the element was taken out of it."""
    return any(words in str(error) for words in _CHANGED)


def was_performed(error: Exception) -> bool:
    """Whether the library's log says that the action itself had begun when the error came."""
    return "performing" in str(error)


def of_status(status: int, url: str, retry_after: str | None) -> Trouble:
    """The answer to a goto that is none."""
    words = f"{url} answered with status {status}"
    wait_s = _wait_s(retry_after)
    if status in _COOLDOWN_STATUS and (wait_s is not None or status == 429):
        return Trouble(FailureKind.RATE_LIMITED, words, retry_after_s=wait_s)
    return Trouble(FailureKind.HTTP_ERROR, words, event=f"browser:http_{status}")


def _wait_s(told: str | None) -> float | None:
    """Retry-After: seconds, or a date."""
    if not told:
        return None
    if re.fullmatch(r"[0-9]{1,9}", told.strip()):
        return float(told)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(told).timestamp() - time.time())
    except (ValueError, TypeError):
        return None


def first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:_WORDS_MAX] or type(error).__name__


def not_started(error: Exception) -> Trouble:
    """A browser that was slow to start, or was killed while it started, is worth another try; one that says what it
    lacks will say so again."""
    may_help = isinstance(error, Trouble) or _is_late(error) or is_lost(error) or is_driver_lost(error)
    lacks = any(words in str(error) for words in _LACKING)
    kind = FailureKind.BROWSER_CRASHED if may_help and not lacks else FailureKind.SPAWN_FAILED
    return Trouble(kind, f"the browser did not start: {_why_not_started(error)}")


def _is_late(error: Exception) -> bool:
    """Both kinds: the loop's own, and the library's."""
    return isinstance(error, TimeoutError | LibraryTimeoutError)


def _why_not_started(error: Exception) -> str:
    """What a browser said before it ended; its library tells that in a hundred lines."""
    if isinstance(error, TimeoutError):
        return "it did not answer in time; the machine may be busy"
    lines = [line.strip() for line in str(error).splitlines()]
    fatal = [line for line in lines if any(words in line for words in (*_LACKING, "[err] "))]
    telling = next((line for line in fatal if "[err] /usr/bin" not in line), "")
    return " ".join(filter(None, (first_line(error), telling[:_WORDS_MAX])))


def why_not_ready(error: Exception) -> str:
    """From the library's log: what the target was, last of all, that it must not be."""
    lines = [line.strip(" -") for line in str(error).splitlines()]
    telling = [
        line
        for line in lines
        if "intercepts pointer events" in line
        or line.startswith(("element is not", "element is outside", "Element is not", "element was detached"))
    ]
    return telling[-1][:_WORDS_MAX] if telling else first_line(error)
