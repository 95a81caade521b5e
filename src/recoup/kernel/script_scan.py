"""Finds what surrounds the places in a bash script.

A small scanner, not a shell. Where it and bash disagree, a value may be split into words or shown wrongly,
but never run: values are filled in as expansions of variables (see `template.substitute_shell`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeVar

from recoup.kernel.quoting import Context, Heredoc
from recoup.kernel.references import TemplateError, where

NESTING_MAX = 40

T = TypeVar("T")


class Scan:
    """One pass over a script. Each method starts inside its construct and returns where that ends."""

    def __init__(self, script: str, places: Mapping[int, int]) -> None:
        self.contexts: dict[int, Context] = {}
        self.verbatim: list[Heredoc] = []
        self._script = script
        self._places = places
        self._waiting: list[tuple[str, bool, bool]] = []
        """Heredocs whose bodies begin on the next line: delimiter, quoted, tabs are stripped."""
        self._nesting = 0

    def commands(self, start: int, end: int, closing: str) -> int:
        """Up to `closing`: a bracket, a backtick, or nothing."""
        at, brackets = start, 0
        while (at := self._next(_IN_COMMANDS, at, end)) < end:
            char = self._script[at]
            if at in self._places:
                at = self._place(at, self._bare(at))
            elif char == closing and (char == "`" or not (brackets or self._in_case(start, at))):
                return at + 1
            elif char == "(" and self._is_calculation(at):
                at = self._nested(self.calculation, at + 2, end, "))")
            elif char in "()":
                brackets = max(0, brackets + (1 if char == "(" else -1))
                at += 1
            elif char == "#":
                at = self._comment(at, end, closing)
            elif char == "<":
                at = self._redirection(at)
            elif char == "\n":
                at = self._bodies(at + 1, end)
            else:
                at = self._expansion(at, end, Context.BARE)
        return end

    def calculation(self, start: int, end: int, closing: str) -> int:
        at, brackets = start, 0
        while (at := self._next(_IN_CALCULATION, at, end)) < end:
            char = self._script[at]
            if at in self._places:
                at = self._place(at, Context.NUMBER)
            elif char == closing[0] and not brackets:
                if not self._script.startswith(closing, at):
                    raise self._error(at, "bash may read this as a calculation: write `( (` with a space")
                return at + len(closing)
            elif char in "([])":
                brackets += 1 if char in "([" else -1
                at += 1
            else:
                at = self._expansion(at, end, Context.NUMBER)
        return end

    def _double(self, start: int, end: int, context: Context) -> int:
        at = start
        while (at := self._next(_IN_DOUBLE, at, end)) < end:
            if at in self._places:
                at = self._place(at, Context.NUMBER if self._is_evaluated(at) else context)
            elif self._script[at] == '"':
                return at + 1
            else:
                at = self._expansion(at, end, context)
        return end

    def _single(self, start: int, end: int, context: Context) -> int:
        at = start
        while (at := self._next(_IN_SINGLE, at, end)) < end:
            if at in self._places:
                at = self._place(at, Context.NUMBER if self._is_evaluated(at) else context)
            elif self._script[at] == "'":
                return at + 1
            else:
                at += 2 if context is Context.ANSI_C and self._script[at] == "\\" else 1
        return end

    def parameter(self, start: int, end: int, context: Context) -> int:
        """In `${…}` only the word after `:-` and its kin is text; the rest may be calculated."""
        word = _DEFAULT_WORD.match(self._script, start, end)
        at = start
        while (at := self._next(_IN_PARAMETER, at, end)) < end:
            here = context if word and word.end() <= at else Context.NUMBER
            if at in self._places:
                at = self._place(at, here)
            elif self._script[at] == "}":
                return at + 1
            elif self._script[at] == '"' and here is Context.DOUBLE:
                at = self._nested(self._double, at + 1, end, here)
            else:
                at = self._expansion(at, end, here)
        return end

    def _expansion(self, at: int, end: int, context: Context) -> int:
        """Backslashes, quotes and dollars, as far as they mean something in this context."""
        script, bare = self._script, context is Context.BARE
        match script[at : at + 2]:
            case "$(" if script.startswith("$((", at):
                return self._nested(self.calculation, at + 3, end, "))")
            case "$(":
                return self._nested(self.commands, at + 2, end, ")")
            case "$[":
                return self._nested(self.calculation, at + 2, end, "]")
            case "${":
                return self._nested(self.parameter, at + 2, end, context)
            case "$'" if bare:
                return self._single(at + 2, end, self._subscript(at) or Context.ANSI_C)
        match script[at]:
            case "\\":
                return at + 2
            case "`":
                return self._nested(self.commands, at + 1, end, "`")
            case "'" if bare:
                return self._single(at + 1, end, self._subscript(at) or Context.SINGLE)
            case '"' if bare:
                return self._nested(self._double, at + 1, end, self._subscript(at) or Context.DOUBLE)
            case "$" if at + 1 in self._places:
                raise self._error(at, "a `$` stands before the reference: write `\\$` for that character")
        return at + 1

    def _comment(self, at: int, end: int, closing: str) -> int:
        if at and self._script[at - 1] not in _BEFORE_WORD:
            return at + 1
        stop = self._next(_COMMENT_END_IN_BACKTICKS if closing == "`" else _COMMENT_END, at, end)
        self._all_places(at, stop, Context.COMMENT)
        return stop

    def _redirection(self, at: int) -> int:
        if self._script.startswith("<<<", at):
            return at + 3
        heredoc = _HEREDOC.match(self._script, at)
        if heredoc is None:
            return at + 1
        if heredoc.end("arrow") in self._places:
            raise self._error(at, "the delimiter of a heredoc cannot be filled in: write it out")
        written = heredoc["word"]
        if not written:
            return heredoc.end()
        delimiter = _QUOTES.sub(lambda quoted: quoted[quoted.lastindex or 1], written)
        self._waiting.append((delimiter, delimiter != written, bool(heredoc["dash"])))
        return heredoc.end()

    def _bodies(self, at: int, end: int) -> int:
        """Past the bodies of the heredocs that begin on this line."""
        waiting, self._waiting = self._waiting, []
        for delimiter, quoted, dash in waiting:
            stop, following = self._delimiter_line(at, end, delimiter, dash)
            if quoted:
                self.verbatim.append(Heredoc(at, stop, delimiter, dash))
                self._all_places(at, stop, Context.VERBATIM)
            else:
                self._body(at, stop)
            at = following
        return at

    def _delimiter_line(self, at: int, end: int, delimiter: str, dash: bool) -> tuple[int, int]:
        """Where the line that ends a heredoc begins, and where the line after it does."""
        while at < end:
            newline = self._script.find("\n", at, end)
            stop = end if newline < 0 else newline
            line = self._script[at:stop]
            if (line.lstrip("\t") if dash else line) == delimiter:
                return at, min(stop + 1, end)
            at = stop + 1
        return end, end

    def _body(self, start: int, end: int) -> None:
        at = start
        while (at := self._next(_IN_HEREDOC, at, end)) < end:
            if at in self._places:
                at = self._place(at, Context.HEREDOC)
            else:
                at = self._expansion(at, end, Context.HEREDOC)

    def _next(self, pattern: re.Pattern[str], at: int, end: int) -> int:
        found = pattern.search(self._script, at, end)
        return found.start() if found else end

    def _place(self, at: int, context: Context) -> int:
        self.contexts[at] = context
        return self._places[at]

    def _all_places(self, start: int, end: int, context: Context) -> None:
        for at in self._places:
            if start <= at < end:
                self.contexts[at] = context

    def _nested(self, scan: Callable[[int, int, T], int], at: int, end: int, how: T) -> int:
        self._nesting += 1
        if self._nesting > NESTING_MAX:
            raise self._error(at - 1, f"nested deeper than {NESTING_MAX} levels: use variables")
        stop = scan(at, end, how)
        self._nesting -= 1
        return stop

    def _error(self, at: int, message: str) -> TemplateError:
        return TemplateError(f"{where(self._script, at)}: {message}")

    def _is_calculation(self, at: int) -> bool:
        begins = _COMMAND_BEGINS.search(self._script, max(0, at - _LOOK_BACK_CHARS), at)
        return self._script.startswith("((", at) and begins is not None

    def _in_case(self, start: int, at: int) -> bool:
        """Inside `case … esac` a closing bracket ends a pattern."""
        text = self._script[start:at]
        return len(_CASE.findall(text)) > len(_ESAC.findall(text))

    def _subscript(self, at: int) -> Context | None:
        """A quote right after `name[`: quotes do not keep bash from calculating what is in them."""
        return Context.NUMBER if _SUBSCRIPT.search(self._script, max(0, at - 2), at) else None

    def _bare(self, at: int) -> Context:
        in_subscript = _SUBSCRIPT_BEFORE.search(self._script, max(0, at - _LOOK_BACK_CHARS), at)
        return Context.NUMBER if in_subscript or self._is_evaluated(at) else Context.BARE

    def _is_evaluated(self, at: int) -> bool:
        script, start = self._script, max(0, at - _LOOK_BACK_CHARS)
        if _EVALUATED_BEFORE.search(script, start, at):
            return True
        # `[` does not calculate, and elsewhere these are options: `ls -lt`.
        if script.rfind("[[", start, at) <= script.rfind("]]", start, at):
            return False
        after = _COMPARED_AFTER.match(script, self._places[at])
        return bool(after or _COMPARED_BEFORE.search(script, start, at))


_LOOK_BACK_CHARS = 200
_BEFORE_WORD = " \t\n;&|()<>`"
_IN_COMMANDS = re.compile(r"[\\'\"`$#()<\n]")
_IN_CALCULATION = re.compile(r"[\\`$()\[\]]")
_IN_DOUBLE = re.compile(r"[\\\"`$]")
_IN_SINGLE = re.compile(r"['\\$]")
_IN_PARAMETER = re.compile(r"[\\'\"`$}]")
_IN_HEREDOC = re.compile(r"[\\`$]")
_COMMENT_END = re.compile(r"\n")
_COMMENT_END_IN_BACKTICKS = re.compile(r"[\n`]")
_DEFAULT_WORD = re.compile(r"!?(?:\w+|[@*#?!$-])(?:\[[^\]\n]*\])?:?[-=?+]")
_HEREDOC = re.compile(
    r"(?P<arrow><<(?P<dash>-?)[ \t]*)(?P<word>(?:'[^'\n]*'|\"[^\"\n]*\"|\\.|[^\s'\"\\|&;<>()`$])*)"
)
_QUOTES = re.compile(r"'([^']*)'|\"([^\"]*)\"|\\(.)")
_BEGIN = r"(?:\A|[\n;&|({!]|\b(?:then|do|else|if|elif|while|until))[ \t]*"
_COMMAND_BEGINS = re.compile(rf"(?:{_BEGIN}|\bfor[ \t]*)\Z")
_CASE = re.compile(rf"{_BEGIN}case\s[^\n]{{1,200}}?\sin\b")
_ESAC = re.compile(r"\besac\b")
_SUBSCRIPT = re.compile(r"\w\[\Z")
_SUBSCRIPT_BEFORE = re.compile(r"\w\[[^\]\n]*\Z")
_COMPARISON = "-(?:eq|ne|lt|le|gt|ge)"
_COMPARED_AFTER = re.compile(rf"(?:\$\{{\{{[^}}\n]*\}}\}}|[^\s$]|\$(?!\{{\{{)){{0,200}}\s+{_COMPARISON}\b")
_COMPARED_BEFORE = re.compile(rf"\s{_COMPARISON}\s+\S*\Z")
_BUILTIN = rf"{_BEGIN}(?:\\|command\s+|builtin\s+)?"
# Bash calculates what these are given, or takes it for the name of a variable with a subscript to calculate.
_EVALUATED_BEFORE = re.compile(
    r"(?:\[\[?\s+(?:!\s+)?-v\s+\S*"
    rf"|{_BUILTIN}printf\s+-v\s+\S*"
    rf"|{_BUILTIN}(?:let|unset)\s[^;\n]*"
    rf"|{_BUILTIN}(?:read|mapfile|readarray)\s[^;\n<>|&]*"
    rf"|{_BUILTIN}(?:declare|typeset|local|readonly|export)\s+-[A-Za-z]*i[A-Za-z]*\s[^;\n]*)\Z"
)
