"""A mistake of ours while a request was answered: one line in the log, under an id that the answer carries."""

from __future__ import annotations

import logging
import secrets
import traceback
from collections.abc import Callable
from pathlib import PurePath
from typing import Final

from starlette.types import Scope

_PATH_CHARS_MAX: Final = 200
_log = logging.getLogger("recoup.gateway")


def log_mistake(scope: Scope, error: Exception, redact: Callable[[str], str]) -> str:
    """Where it was, not its words: they may quote what came. Returns the id."""
    mistake_id = f"err-{secrets.token_hex(6)}"
    at = traceback.extract_tb(error.__traceback__)[-1]
    _log.error(
        *("%s %s %r: %s in %s:%s", mistake_id, scope["method"], redact(scope["path"][:_PATH_CHARS_MAX])),
        *(type(error).__name__, PurePath(at.filename).name, at.lineno),
    )
    return mistake_id
