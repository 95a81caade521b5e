"""Filling values into plans. Values are data: in text, in scripts, in conditions."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any

import msgspec

from recoup.kernel.canonical import canonical_json
from recoup.kernel.quoting import Context, Heredoc, quoting
from recoup.kernel.references import OPENING, Escape, Mark, Reference, TemplateError, marks, references, where

__all__ = [
    "Reference",
    "Scope",
    "TemplateError",
    "check_condition",
    "holds",
    "references",
    "shell_script",
    "substitute",
    "substitute_shell",
    "substitute_value",
    "texts_in",
]

KNOWN_SHOWN_MAX = 10

Scope = Mapping[str, Any]
"""Values by the name of their reference, such as `inputs.customer`."""


def substitute(text: str, scope: Scope, escape: Callable[[str], str] | None = None) -> str:
    """The text with every reference replaced: strings as they are, other values as canonical JSON. `escape` makes the
    value stand for itself where the text is a pattern."""
    if OPENING not in text:
        return text
    filled = {
        mark: "$" if isinstance(mark, Escape) else (escape or str)(_value(mark, text, scope))
        for mark in marks(text)
    }
    return _filled_in(text, filled, 0, len(text))


def substitute_value(value: Any, scope: Scope) -> Any:
    """Plain data with the references in its strings replaced. A string that is one reference and nothing else becomes
    the value itself, of whatever type."""
    match value:
        case str():
            return _whole(value, scope) if OPENING in value else value
        case dict():
            return {key: substitute_value(item, scope) for key, item in value.items()}
        case list() | tuple():
            return [substitute_value(item, scope) for item in value]
    return value


def texts_in(value: Any) -> Iterator[str]:
    """Every string of plain data in which a reference is filled in."""
    match value:
        case str():
            yield value
        case dict():
            for item in value.values():
                yield from texts_in(item)
        case list() | tuple():
            for item in value:
                yield from texts_in(item)


def _whole(text: str, scope: Scope) -> Any:
    found = tuple(marks(text))
    if (
        len(found) == 1
        and isinstance(found[0], Reference)
        and text.strip() == text[found[0].start : found[0].end]
    ):
        if found[0].name not in scope:
            _value(found[0], text, scope)
        return scope[found[0].name]
    return substitute(text, scope)


def _value(reference: Reference, text: str, scope: Scope) -> str:
    try:
        value = scope[reference.name]
    except KeyError:
        raise TemplateError(f"{where(text, reference.start)}: {_unknown(reference.name, scope)}") from None
    written = value if isinstance(value, str) else _json(value, reference, text)
    if "\0" in written:
        raise TemplateError(
            f"{where(text, reference.start)}: the value of {reference.name} holds a NUL character, "
            "which no command can be given: write it to a file instead"
        )
    return written


def _json(value: Any, reference: Reference, text: str) -> str:
    try:
        return canonical_json(value).decode()
    except ValueError as error:
        raise TemplateError(f"{where(text, reference.start)}: {reference.name}: {error}") from error


def _unknown(name: str, scope: Scope) -> str:
    known = sorted(scope)
    more = f" and {len(known) - KNOWN_SHOWN_MAX} more" if len(known) > KNOWN_SHOWN_MAX else ""
    return f"{name} has no value here; known are: {', '.join(known[:KNOWN_SHOWN_MAX]) or 'none'}{more}"


def _filled_in(text: str, filled: Mapping[Mark, str], start: int, end: int) -> str:
    """The part of the text from `start` to `end` with the marks in it replaced."""
    parts, at = [], start
    for mark, replacement in filled.items():
        if start <= mark.start < end:
            parts += [text[at : mark.start], replacement]
            at = mark.end
    return "".join([*parts, text[at:end]])


# Scripts


def substitute_shell(script: str, scope: Scope) -> str:
    """A bash script in which every reference stands for its value as data, never as code.

    A value of harmless characters is written where it stands. Any other is assigned to a variable before the
    script, and the reference becomes an expansion of it that fits the quotes around, so that bash never
    parses the value. Outside quotes a value is one word. Where bash calculates (`$((…))`, subscripts, `-eq`)
    only whole numbers pass, because an expression can run commands. In a comment the name stays. What the
    script hands to another interpreter (`bash -c`, `eval`, `ssh`, `trap`) is text for that interpreter: pass
    values there as arguments or through `env:`.
    """
    return shell_script(script, scope).text


class ShellScript(msgspec.Struct, frozen=True):
    """A script with its values filled in, and the environment that holds those nobody may see in its arguments."""

    text: str
    env: dict[str, str]


def shell_script(
    script: str, scope: Scope, secret: Container[str] = frozenset(), env: dict[str, str] | None = None
) -> ShellScript:
    """As `substitute_shell`; the values of `secret` names reach the script through its environment, because every
    user of the machine can read a process's arguments. `env`: of scripts that share it; it grows."""
    env = {} if env is None else env
    if OPENING not in script:
        return ShellScript(script, env)
    found = tuple(marks(script))
    quotes = quoting(script, {mark.start: mark.end for mark in found})
    variables: dict[str, str] = {}
    filled: dict[Mark, str] = {}
    for mark in found:
        context = quotes.contexts[mark.start]
        if isinstance(mark, Escape):
            filled[mark] = "$" if context in _BACKSLASH_IS_TEXT else "\\$"
        elif mark.name in secret:
            filled[mark] = _as_variable(mark, _value(mark, script, scope), context, env, script)
        else:
            filled[mark] = _as_data(mark, _value(mark, script, scope), context, variables, script)
    for body in quotes.verbatim:
        _check_verbatim(body, filled, script)
    return ShellScript("".join(variables.values()) + _filled_in(script, filled, 0, len(script)), env)


_BACKSLASH_IS_TEXT = (Context.SINGLE, Context.ANSI_C, Context.VERBATIM, Context.COMMENT)
_HARMLESS = re.compile(r"[A-Za-z0-9_@%+:./-]*")
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,18}")


def _as_data(
    reference: Reference, value: str, context: Context, variables: dict[str, str], script: str
) -> str:
    match context:
        case Context.COMMENT:
            return reference.name
        case Context.VERBATIM:
            return value
        case Context.NUMBER:
            return _number(reference, value, script)
    harmless = _HARMLESS.fullmatch(value) is not None
    # A line of a heredoc that is harmless in itself may still be its delimiter.
    if harmless and context is not Context.HEREDOC:
        return f"'{value}'" if context is Context.BARE else value
    variable = f"_recoup_{len(variables) + 1}"
    variables[variable] = f"{variable}={shlex.quote(value)}; "
    return _expansion(variable, context)


def _as_variable(reference: Reference, value: str, context: Context, env: dict[str, str], script: str) -> str:
    if context is Context.COMMENT:
        return reference.name
    if context in (Context.VERBATIM, Context.NUMBER):
        raise TemplateError(
            f"{where(script, reference.start)}: {reference.name} is secret and bash expands no variable here: "
            "put it into a variable or into `env:` first"
        )
    variable = f"RECOUP_VALUE_{len(env) + 1}"
    env[variable] = value
    return _expansion(variable, context)


def _expansion(variable: str, context: Context) -> str:
    """The variable's value as one piece of data, in quotes that fit."""
    expansion = f"${{{variable}}}"
    match context:
        case Context.BARE:
            return f'"{expansion}"'
        case Context.SINGLE:
            return f"'\"{expansion}\"'"
        case Context.ANSI_C:
            return f"'\"{expansion}\"$'"
    return expansion


def _number(reference: Reference, value: str, script: str) -> str:
    if _WHOLE_NUMBER.fullmatch(value):
        return f" {value}" if value[0] == "-" else value  # `5--3` and `${x:-3}` would mean something else
    raise TemplateError(
        f"{where(script, reference.start)}: bash calculates here, so only a whole number can be filled in "
        f"for {reference.name}: put it into a variable or into `env:` first"
    )


def _check_verbatim(body: Heredoc, filled: Mapping[Mark, str], script: str) -> None:
    """Nothing is expanded there, so values stand as they are, and must not be what bash looks for."""
    lines = _filled_in(script, filled, body.start, body.end).split("\n")
    values = [text for mark, text in filled.items() if body.start <= mark.start < body.end]
    if any(line.lstrip("\t") == body.delimiter for line in lines):
        problem = "a value would end the heredoc"
    elif body.strips_tabs and any("\t" in value for value in values):
        problem = "a value would lose its tabs in the heredoc"
    else:
        return
    raise TemplateError(
        f"{where(script, body.start)}: {problem} `{body.delimiter}`: write its delimiter without quotes"
    )


# Conditions


def holds(condition: str, scope: Scope) -> bool:
    """`A`, `A == B`, `A != B`, `not …`, joined by `and` and `or` (`and` binds closer).

    An operand is a word or a quoted text, both with references. Alone it holds unless it is empty, false, 0,
    no, null, [] or {}. Values are compared as text.
    """
    return any(all(_term_holds(term, scope) for term in group) for group in _groups(condition))


def check_condition(condition: str) -> None:
    """Raises TemplateError unless `holds` can read it."""
    references(condition)
    _groups(condition)


class _Term(msgspec.Struct, frozen=True):
    negated: bool
    left: str
    operator: str | None = None
    right: str = ""


class _Token(msgspec.Struct, frozen=True):
    kind: str
    """operator | word | text."""
    text: str
    start: int


def _term_holds(term: _Term, scope: Scope) -> bool:
    left = substitute(term.left, scope)
    if term.operator is None:
        return (left.strip().lower() not in _FALSE) != term.negated
    return ((left == substitute(term.right, scope)) == (term.operator == "==")) != term.negated


def _groups(condition: str) -> list[list[_Term]]:
    """The terms of each `and` group; the groups are joined by `or`."""
    tokens = list(reversed(_tokens(condition)))
    groups = [[_term(tokens, condition)]]
    while tokens:
        joint = tokens.pop()
        if joint.kind != "word" or joint.text not in ("and", "or"):
            raise _unreadable(condition, joint.start, "expected `and` or `or` here")
        if joint.text == "or":
            groups.append([])
        groups[-1].append(_term(tokens, condition))
    return groups


def _term(tokens: list[_Token], condition: str) -> _Term:
    negated = False
    while tokens and tokens[-1].kind == "word" and tokens[-1].text == "not":
        negated = not negated
        tokens.pop()
    left = _operand(tokens, condition)
    if not tokens or tokens[-1].kind != "operator":
        return _Term(negated, left)
    return _Term(negated, left, tokens.pop().text, _operand(tokens, condition))


def _operand(tokens: list[_Token], condition: str) -> str:
    if not tokens:
        raise _unreadable(condition, len(condition), "a value is missing at the end")
    token = tokens.pop()
    if token.kind == "operator" or (token.kind == "word" and token.text in ("and", "or", "not")):
        raise _unreadable(condition, token.start, f"expected a value before `{token.text}`")
    return token.text


def _tokens(condition: str) -> list[_Token]:
    found, at = [], 0
    while at < len(condition.rstrip()):
        token = _TOKEN.match(condition, at)
        if token is None:
            raise _unreadable(condition, at, "this cannot be read")
        kind = str(token.lastgroup)
        found.append(_Token("text" if kind in ("single", "double") else kind, token[kind], token.start(kind)))
        at = token.end()
    return found


def _unreadable(condition: str, at: int, problem: str) -> TemplateError:
    return TemplateError(
        f"{where(condition, at)}: {problem}: write A, A == B, A != B or not A, joined by `and` and `or`; "
        "put quotes around a text with blanks or signs"
    )


_FALSE = ("", "false", "0", "no", "null", "[]", "{}")
_TOKEN = re.compile(
    r"""\s*(?:(?P<operator>[=!]=)|'(?P<single>[^']*)'|"(?P<double>[^"]*)\"|(?P<word>(?:\$\{\{[^}]*\}\}|\$(?!\{\{)|[^\s'"=!()$])+))"""
)
