"""The words of a command line, as far as they can be told without running a shell."""

from __future__ import annotations

import shlex

LINE_CHARS_MAX = 10_000
"""Longer lines are not searched."""


def shell_words(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        return list(lexer)
    except ValueError:
        return line.split()
