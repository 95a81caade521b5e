"""Where bash reads a value a second time, as code: in calculations, names, `eval` and the like.

Values reach a script as data (see `template.substitute_shell`). What the script does with them afterwards is its own
business, and bash has more places that evaluate text than its writers know. This finds the usual ones, for notes of
`recoup check`. It is no proof: what it does not find may still be one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from recoup.kernel.references import OPENING, Reference, TemplateError, marks

_VALUE: Final = "__recoup_value__"
_PASSES_MAX: Final = 4
"""Variables that are assigned from variables, that often."""
_NAMES_MAX: Final = 200
LINE_CHARS_MAX: Final = 4_000


class Reread(msgspec.Struct, frozen=True):
    """One place."""

    line: int
    words: str


def rereads(script: str, env: Mapping[str, str], is_safe: Callable[[str], bool]) -> list[Reread]:
    """`env`: of the step, as written. `is_safe`: whether the value of this reference can be no code, such as a whole
    number. The first place of each kind."""
    try:
        text = _with_tokens(script, is_safe)
        carried = {name for name, value in env.items() if _VALUE in _with_tokens(value, is_safe)}
    except TemplateError:
        return []
    if _VALUE not in text and not carried:
        return []
    names = _tainted(text, carried)
    found = {found.words: found for found in reversed([*_in_lines(text, names), *_in_heredocs(text, names)])}
    return sorted(found.values(), key=lambda one: one.line)


def _with_tokens(text: str, is_safe: Callable[[str], bool]) -> str:
    if OPENING not in text:
        return text
    parts, at = [], 0
    for mark in marks(text):
        token = (_VALUE if not is_safe(mark.name) else "0") if isinstance(mark, Reference) else "$"
        parts += [text[at : mark.start], token]
        at = mark.end
    return "".join([*parts, text[at:]])


_ASSIGNED: Final = re.compile(
    r"""(?:^|(?<=[\s;&|(]))([A-Za-z_]\w{0,99})\+?=("[^"\n]{0,2000}"|'[^'\n]{0,2000}'|[^\s;&|]{0,2000})"""
)
_LOOPED: Final = re.compile(r"\bfor\s+([A-Za-z_]\w{0,99})\s+in\s([^;\n]{0,2000})")
_READ: Final = re.compile(r"\bread\s+(?:-\w+\s+)*([A-Za-z_]\w{0,99})([^;\n]{0,2000})")


def _tainted(text: str, carried: set[str]) -> frozenset[str]:
    names = set(carried)
    pairs = [found for pattern in (_ASSIGNED, _LOOPED, _READ) for found in pattern.findall(text)]
    for _ in range(_PASSES_MAX):
        more = {name for name, value in pairs if _VALUE in value or _expands(value, names)}
        if more <= names:
            break
        names |= more
    return frozenset(sorted(names)[:_NAMES_MAX])


def _expands(value: str, names: set[str]) -> bool:
    return any(name in names for name in re.findall(r"\$\{?([A-Za-z_]\w*)", value))


_EVALUATES: Final = "bash reads it again as a command"
_CALCULATES: Final = "bash calculates with it, and a calculation can run commands"
_NAMES: Final = "bash takes it for the name of a variable, and a subscript in it can run commands"
_PIPED: Final = "`| bash`: the value becomes part of another script"


_COMMAND: Final = r"(?:^|[\s;&|({`])"
_DECLARE: Final = r"(?:declare|local|typeset)"
_COMPARES: Final = r"-(?:eq|ne|lt|le|gt|ge)\s"
_SHELL: Final = "(?:ba|da|z|k)?sh"
_INSIDE: Final = r"(?:[^)\n]|\)(?!\))){0,500}?"
"""Of `((…))`."""
_RULES: Final = (
    (rf"\(\({_INSIDE}NAMED", f"`((…))`: {_CALCULATES}"),
    (rf"\$\(\({_INSIDE}\$\([^\n]{{0,300}}?VALUE", f"`((…))`: {_CALCULATES}"),
    (rf"{_COMMAND}let\s[^\n;]{{0,300}}?NAMED", f"`let`: {_CALCULATES}"),
    (rf"\[\[[^\n]{{0,300}}?NAMED[^\n]{{0,200}}?\s{_COMPARES}", f"`[[ … -eq … ]]`: {_CALCULATES}"),
    (rf"\[\[[^\n]{{0,300}}?\s{_COMPARES}[^\n]{{0,200}}?NAMED", f"`[[ … -eq … ]]`: {_CALCULATES}"),
    (r"[\w\]]\[[^\]\n=]{0,200}?NAMED", f"a subscript: {_CALCULATES}"),
    (
        rf"{_COMMAND}{_DECLARE}\s[^\n;]{{0,100}}?-\w{{0,8}}i\w{{0,8}}\s[^\n;]{{0,300}}?NAMED",
        f"`declare -i`: {_CALCULATES}",
    ),
    (r"\$\{!NAMED", f"`${{!…}}`: {_NAMES}"),
    (rf"(?:{_COMMAND}test|\[\[?)\s[^\n;]{{0,200}}?-[vR]\s[^\n;]{{0,200}}?VALUE", f"`-v`: {_NAMES}"),
    (rf"{_COMMAND}{_DECLARE}\s[^\n;]{{0,100}}?-\w{{0,8}}n\w{{0,8}}\s[^\n;]{{0,300}}?VALUE", f"`declare -n`: {_NAMES}"),
    (rf"{_COMMAND}(?:{_DECLARE}|export|readonly)\s[^\n;=]{{0,300}}?VALUE", f"`declare`: {_NAMES}"),
    (rf"{_COMMAND}(?:printf\s+-v|read|mapfile|unset)\s[^\n;<]{{0,100}}?VALUE", f"`printf -v`, `read`: {_NAMES}"),
    (r"[<>]&\s?\"?VALUE", "`>&`: bash takes it for a file descriptor, or writes to a file of that name"),
    (r"\bPS4=[^\n]{0,300}?VALUE", f"`PS4`: {_EVALUATES} at each trace"),
    (r"\bcompgen\s[^\n;]{0,300}?VALUE", f"`compgen -W`: {_EVALUATES}"),
    (rf"{_COMMAND}(?:eval|source|\.)\s[^\n]{{0,500}}?VALUE", f"`eval`: {_EVALUATES}"),
    (rf"{_COMMAND}trap\s[^\n]{{0,500}}?VALUE", f"`trap`: {_EVALUATES}"),
    (
        r"\b(?:ba|da|z|k)?sh\s+(?:-\w+\s+){0,5}-\w*c\s[^\n]{0,500}?VALUE",
        "`bash -c`: the value becomes part of another script",
    ),
    (rf"VALUE[^\n;]{{0,300}}?\|\s{{0,9}}{_SHELL}\b", _PIPED),
    (rf"\b{_SHELL}\s[^\n;]{{0,200}}?<<<[^\n;]{{0,300}}?VALUE", _PIPED),
    (
        r"\b(?:python3?|perl|ruby|node)\s+(?:-\w+\s+){0,5}-\w{0,8}[ce]\s"
        rf"(?:\"[^\"\n]{{0,500}}?VALUE|'[^'\n]{{0,500}}?{_VALUE})",
        "`python -c`: the value becomes part of another program",
    ),
)  # fmt: skip
"""VALUE: where the value itself stands. NAMED: where a variable that holds it is named; a reference that stands there
itself is refused unless its value is a whole number."""


def _patterns(names: frozenset[str]) -> list[tuple[re.Pattern[str], str]]:
    known = "|".join(map(re.escape, sorted(names)))
    value = rf"(?:{_VALUE}|\$\{{?(?:{known})\b)" if known else _VALUE
    rules = [(rule, words) for rule, words in _RULES if known or "NAMED" not in rule]
    filled = ((rule.replace("VALUE", value), words) for rule, words in rules)
    return [(re.compile(rule.replace("NAMED", rf"\b(?:{known})\b")), words) for rule, words in filled]


def _in_lines(text: str, names: frozenset[str]) -> Iterator[Reread]:
    rules = _patterns(names)
    for number, line in enumerate(text.replace("\\\n", "  ").split("\n"), 1):
        if line.lstrip().startswith("#") or len(line) > LINE_CHARS_MAX:
            continue
        yield from (Reread(number, words) for pattern, words in rules if pattern.search(line))


_TO_A_SHELL: Final = re.compile(
    r"\b(?:ba|da|z|k)?sh\b[^\n|;<]{0,200}<<(?P<tabs>-?)[ \t]{0,4}(?P<quote>['\"\\]?)(?P<word>\w{1,100})[^\n]{0,200}\n"
)


def _in_heredocs(text: str, names: frozenset[str]) -> Iterator[Reread]:
    known = "|".join(map(re.escape, sorted(names)))
    for found in _TO_A_SHELL.finditer(text):
        end = re.compile(rf"^\t*{found['word']}$", re.MULTILINE).search(text, found.end())
        body = text[found.end() : end.start() if end else len(text)]
        expands = known and not found["quote"] and re.search(rf"\$\{{?(?:{known})\b", body)
        if _VALUE in body or expands:
            line = text.count("\n", 0, found.start()) + 1
            yield Reread(line, "a heredoc for a shell: the value becomes part of another script")
