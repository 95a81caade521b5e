"""Says in words what kind of secret a text looks like."""

from __future__ import annotations

from typing import Final

from recoup.redaction.patterns.compiled import PatternSet

_HITS_MAX: Final = 256
_WORDS: Final = (
    (("recoup.shape.url_password", "recoup.shape.driver_url"), "a URL with a password"),
    (("recoup.shape.connection_string", "recoup.shape.pgpass"), "a connection string with a password"),
    (("recoup.shape.url_token", "recoup.shape.url_query", "recoup.shape.webhook"), "a URL with a token"),
    (
        ("recoup.shape.authorization", "recoup.shape.bearer", "recoup.shape.header", "recoup.shape.cookie"),
        "a header with credentials",
    ),
    (("recoup.block.",), "a private key"),
    (("recoup.command.", "recoup.shape.curl_user", "recoup.shape.flag"), "a password on a command line"),
    (("recoup.shape.",), "a password or key"),
)
_TOKEN: Final = "a token or key"


def looks_like(patterns: PatternSet, data: bytes) -> str | None:
    """What the first rule that finds a secret in it takes it for; None: no rule finds any by itself."""
    screens = {screen for _, screen in patterns.hits(data, _HITS_MAX) or ()}
    rules = sorted({rule for screen in screens for rule in patterns.by_screen[screen]})
    for rule in rules:
        found = patterns.spans(rule, data)
        if patterns.rules[rule].opens_block or (found is not None and found[0]):
            return _words_for(patterns.rules[rule].name)
    return None


def _words_for(name: str) -> str:
    return next((words for prefixes, words in _WORDS if name.startswith(prefixes)), _TOKEN)
