"""Makes a foreign pattern fit both engines, mechanically: what it finds never becomes less.

RE2 knows no verbose mode and refuses repeats over 1,000. A pattern is rewritten token by token, never by meaning.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

REPEAT_MAX: Final = 1_000
COUNTED_MAX: Final = 48
"""How far a screen counts: so many letters and digits in a row are worth a look."""
PATTERN_CHARACTERS_MAX: Final = 20_000
NEWLINES_MAX: Final = 2
"""As many as there are between a line and the first one that is looked at together with it (stage.py)."""


def fitted(pattern: str) -> str:
    """The same pattern without verbose mode, and with `{n,}` for repeats that are too long."""
    tokens = list(_tokens(pattern))
    if any(map(_turns_verbose, tokens)):
        tokens = list(_terse(tokens))
    return "".join(_bounded(token) for token in tokens)


def screen_of(pattern: str) -> str:
    """Finds every match of the pattern, more cheaply: by a beginning of it, once instead of once for each length of
    its tail, and without counting what may be there or not."""
    tokens = list(_tokens(pattern))
    _shorten_tail(tokens)
    for n in range(1, len(tokens)):
        if _is_plain_class(tokens[n - 1]):
            tokens[n] = _uncounted(tokens[n])
    return "".join(tokens)


def on_few_lines(screen: str) -> str:
    """The same screen, taking no more than two new lines: it never begins further back than the lines that are
    looked at together, and so what it finds in a line does not depend on what else it is shown."""
    tokens = list(_tokens(_dots_written_out(screen)))
    left = NEWLINES_MAX
    for n, token in enumerate(tokens):
        if _takes_newline(token) and not token.startswith("(?"):
            left -= 1
            repeat = tokens[n + 1] if n + 1 < len(tokens) else ""
            if _is_many(repeat):
                tokens[n : n + 2] = [_with_one_newline(_without_newline(token), repeat, left >= 0), ""]
                _drop_laziness(tokens, n + 2)
            elif left < 0:
                tokens[n] = _without_newline(token)
    return "".join(tokens)


def crosses_lines(pattern: str) -> bool:
    """Whether a match may begin in one line and end in a later one."""
    return any(map(_takes_newline, _tokens(pattern)))


def _takes_newline(token: str) -> bool:
    if token.startswith("[^"):
        return not any(escape in token for escape in (r"\n", r"\s", "\n"))
    if token.startswith("["):
        return any(escape in token for escape in (r"\n", r"\s", r"\W", r"\D", "\n", "[:space:]"))
    return token in (r"\s", r"\n", r"\W", r"\D", "\n") or (
        token.startswith("(?") and "s" in token.partition("-")[0]
    )


def _dots_written_out(pattern: str) -> str:
    pattern = pattern.replace(r"(?:.|[\n\r])", _ANYTHING)
    if not pattern.startswith("(?s)"):
        return pattern
    return "".join(_ANYTHING if token == "." else token for token in _tokens(pattern[len("(?s)") :]))


def _is_many(token: str) -> bool:
    return token in ("*", "+") or (_is_repeat_token(token) and token not in ("{0}", "{1}", "{0,1}"))


def _without_newline(token: str) -> str:
    if token in _NO_NEWLINE:
        return _NO_NEWLINE[token]
    if token.startswith("[^"):
        return rf"[^\n{token[2:]}"
    return token.replace(r"\s", r" \t\r\f\x0b").replace(r"\n", "")


def _with_one_newline(text: str, repeat: str, may_cross: bool) -> str:
    """Neither whitespace nor what is anything on a line need be counted."""
    many = f"{{0,{_most(repeat)}}}"
    if repeat in ("*", "+") or _is_plain_class(text) or text == _NO_NEWLINE[_ANYTHING]:
        many = "*"
    if repeat == "*" or _may_be_absent(repeat):
        return rf"{text}{many}\n?{text}{many}" if may_cross else f"{text}{many}"
    return rf"(?:{text}{many}\n{text}{many}|{text}{repeat})" if may_cross else f"{text}{repeat}"


def _most(repeat: str) -> str:
    low, _, high = repeat.strip("{}").partition(",")
    return high or low


def _drop_laziness(tokens: list[str], at: int) -> None:
    if tokens[at : at + 1] == ["?"]:
        tokens[at] = ""


_ANYTHING: Final = r"[\s\S]"
_NO_NEWLINE: Final = {r"\s": r"[ \t\r\f\x0b]", r"\W": r"[^\w\n]", r"\D": r"[^\d\n]", _ANYTHING: r"[^\n]"}


def _shorten_tail(tokens: list[str]) -> None:
    end = _before_closing(tokens, len(tokens))
    while end >= 2 and _may_be_absent(tokens[end - 1]) and tokens[end - 2] != ")":
        tokens[end - 2 : end] = ["", ""]
        end = _before_closing(tokens, end - 2)
    if end and tokens[end - 1] == "+":
        tokens[end - 1] = ""
    elif end and _is_repeat_token(tokens[end - 1]) and not _may_be_absent(tokens[end - 1]):
        tokens[end - 1] = f"{{{min(_least(tokens[end - 1]), COUNTED_MAX)}}}"


def _before_closing(tokens: list[str], end: int) -> int:
    while end and tokens[end - 1] in (")", ""):
        end -= 1
    return end


def _may_be_absent(token: str) -> bool:
    return token in ("*", "?") or (_is_repeat_token(token) and _least(token) == 0)


def _least(repeat: str) -> int:
    return int(repeat.strip("{}").partition(",")[0])


def _uncounted(token: str) -> str:
    if token.startswith("{0,"):
        return "*"
    if _is_repeat_token(token) and _least(token) > COUNTED_MAX:
        return f"{{{COUNTED_MAX},}}"
    return token


def _is_plain_class(token: str) -> bool:
    """A negated class or a dot without end would join what has nothing to do with each other."""
    return token in (r"\w", r"\d", r"\s") or (token.startswith("[") and not token.startswith("[^"))


def _tokens(pattern: str) -> Iterator[str]:
    at = 0
    while at < len(pattern):
        size = _token_size(pattern, at)
        yield pattern[at : at + size]
        at += size


def _token_size(pattern: str, at: int) -> int:
    """An escape, a class, a repeat or a group's flags are one token; everything else is one character."""
    if pattern[at] == "\\":
        return 2
    if pattern[at] == "[":
        return _class_size(pattern, at)
    if (
        pattern.startswith("(?", at)
        and (end := pattern.find(")", at)) > 0
        and _is_flags(pattern[at + 2 : end])
    ):
        return end + 1 - at
    if pattern[at] == "{" and (end := pattern.find("}", at)) > 0 and _is_repeat(pattern[at + 1 : end]):
        return end + 1 - at
    return 1


def _class_size(pattern: str, at: int) -> int:
    end = at + 1 + pattern.startswith("^", at + 1)
    end += pattern.startswith("]", end)
    while end < len(pattern) and pattern[end] != "]":
        if pattern.startswith("[:", end):
            end = pattern.find(":]", end) + 1
        end += 1 + (pattern[end] == "\\")
    return end + 1 - at


def _is_flags(text: str) -> bool:
    return bool(text) and not text.strip("imsUux-")


def _is_repeat(text: str) -> bool:
    low, _, high = text.partition(",")
    return low.isdigit() and (not high or high.isdigit())


def _turns_verbose(token: str) -> bool:
    return token.startswith("(?") and "x" in token.partition("-")[0]


def _terse(tokens: list[str]) -> Iterator[str]:
    in_comment = False
    for token in tokens:
        in_comment = token != "\n" if in_comment else token == "#"
        if in_comment or token.isspace():
            continue
        yield _without_verbose(token) if _turns_verbose(token) else token


def _without_verbose(token: str) -> str:
    flags = token[2:-1].replace("x", "").removesuffix("-")
    return f"(?{flags})" if flags else ""


def _is_repeat_token(token: str) -> bool:
    return len(token) > 1 and token.startswith("{")


def _bounded(token: str) -> str:
    if not _is_repeat_token(token):
        return token
    low, comma, high = token[1:-1].partition(",")
    if max(int(low), int(high or 0)) <= REPEAT_MAX:
        return token
    # A longer run is masked to its end anyway, so the upper bound says nothing that is needed.
    return f"{{{min(int(low), REPEAT_MAX)},}}" if comma or int(low) > REPEAT_MAX else token
