"""Failure signatures: the same failure gives the same hash on another day, machine, folder and port.

The salient part of redacted text is chosen first, then masked (`masks`), then hashed: stateless, so that two machines
agree. The end of the text is looked at and no more. A change of what is chosen or masked needs a new
SIGNATURE_VERSION, because signatures are compared with those in older ledgers.
"""

from __future__ import annotations

import hashlib
import re

from recoup.kernel.masks import masked, without_colours

SIGNATURE_VERSION = 2

TEXT_CHARS_MAX = 16_384
OUTPUT_TAIL_LINES = 100
ERROR_LINES_MAX = 12
FIRST_ERROR_LINES_MAX = 6
LINES_BETWEEN_ERRORS_OF_A_BLOCK = 3
LINES_BEFORE_ERROR = 4
LINES_AFTER_ERROR = 2
LINES_WITHOUT_ERROR = 5
LINES_TO_FRAME_MAX = 60
UNCUT_LINES_MAX = 30


def signature(kind: str, text: str) -> str:
    """`v2:<16 hex>` of a failure kind and the salient part of redacted text."""
    said = f"{kind}\n{_unwrapped(masked(_telling(text)))}"
    return f"v{SIGNATURE_VERSION}:{_sha256(said)[:16]}"


def output_hash(text: str) -> str:
    """`sha256:<hex>` of the end of redacted output, under the same masks."""
    lines = shown_lines(_end(text))[-OUTPUT_TAIL_LINES:]
    return "sha256:" + _sha256(_unwrapped(masked("\n".join(lines))))


def _end(text: str) -> str:
    """The last of it, from the start of a line: where a line was cut depends on how long its numbers are."""
    if len(text) <= TEXT_CHARS_MAX:
        return text
    end = text[-TEXT_CHARS_MAX:]
    return end.partition("\n")[2] or end


def _unwrapped(text: str) -> str:
    """As one line: many tools wrap at a width, so that a longer folder breaks the line elsewhere."""
    return text.replace("\n", " ")


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


# The salient part


def salient(text: str) -> str:
    """The last error lines of a log, with the few lines around the very last one; or the end of the log."""
    if "\n" not in text and "\r" not in text:
        return text[-TEXT_CHARS_MAX:]
    lines = shown_lines(_end(text))
    return "\n".join(lines[index] for index in sorted(_last_errors(lines, _errors(lines))))


def _telling(text: str) -> str:
    """The salient part, the beginning of its error block, and the place in the project where it came from."""
    if "\n" not in text and "\r" not in text:
        return text[-TEXT_CHARS_MAX:]
    lines = shown_lines(_end(text))
    errors = _errors(lines)
    chosen = _last_errors(lines, errors) | _first_of_block(lines, errors)
    return "\n".join(lines[index] for index in sorted(chosen | _project_frame(lines, chosen)))


def _errors(lines: list[str]) -> list[int]:
    return [index for index, line in enumerate(lines) if _is_error(line)]


def _last_errors(lines: list[str], errors: list[int]) -> set[int]:
    if not errors:
        return set(range(max(0, len(lines) - LINES_WITHOUT_ERROR), len(lines)))
    before, after = errors[-1] - LINES_BEFORE_ERROR, errors[-1] + LINES_AFTER_ERROR
    return {*errors[-ERROR_LINES_MAX:], *range(max(0, before), min(len(lines), after + 1))}


def _first_of_block(lines: list[str], errors: list[int]) -> set[int]:
    """Where every line speaks of the error, the first ones say what it was and the last ones only how it ended."""
    begin = max(0, len(errors) - 1)
    while begin and errors[begin] - errors[begin - 1] <= LINES_BETWEEN_ERRORS_OF_A_BLOCK:
        begin -= 1
    # What begins with the text may be the rest of a longer block, cut elsewhere the next time.
    if not errors or (errors[begin] <= 1 and len(lines) > UNCUT_LINES_MAX):
        return set()
    return set(errors[begin : begin + FIRST_ERROR_LINES_MAX])


def _project_frame(lines: list[str], chosen: set[int]) -> set[int]:
    """The nearest frame in the project: after the error, or before it where the last call is written last."""
    if not chosen:
        return set()
    first, last = min(chosen), max(chosen)
    near = range(max(0, first - LINES_TO_FRAME_MAX), min(len(lines), last + LINES_TO_FRAME_MAX))
    frames = [index for index in near if _FRAME.search(lines[index]) and not _OUTSIDE.search(lines[index])]
    later = [index for index in frames if index > last and "File" not in lines[index]]
    return set(later[:1] or frames[-1:])


def last_error_line(text: str) -> str:
    """The line that a person would quote: the last one that speaks of an error, or the last one."""
    lines = [line.strip(_DECORATION) for line in shown_lines(text)]
    errors = [line for line in lines if _is_error(line)]
    telling = [line for line in errors if not _COUNTS.match(line)]
    return (telling or errors or lines or [""])[-1]


def shown_lines(text: str) -> list[str]:
    """The lines as a terminal would show them: without colours, the last state of what was overwritten."""
    lines = (_overwritten(line) for line in without_colours(text).split("\n"))
    return [line for line in lines if line and not line.isspace()]


def _overwritten(line: str) -> str:
    return line if "\r" not in line else line.rstrip("\r").rpartition("\r")[2]


def _is_error(line: str) -> bool:
    said = _NO_ERROR.sub("", line.lower())
    words = _WORD.findall(said)
    return (
        not _ERROR_WORDS.isdisjoint(words)
        or any(word.endswith(_ERROR_ENDINGS) for word in words)
        or any(phrase in said for phrase in _ERROR_PHRASES)
        or line.startswith("E   ")
    )


# JavaScript and Java (`at f (file:1:2)`), .NET (`at F() in file:line 1`), Python, Ruby, Go.
_FRAME = re.compile(
    r"(?:^|\s\s)at (?:\S{1,256} ){0,4}\S{1,512}:(?:line )?[0-9]{1,6}\)?(?: \{)?\s*$"
    r"|^\s*File ['\"]|^\s*from \S{1,512}:[0-9]|^\s+/\S{1,512}\.go:[0-9]"
)
_OUTSIDE = re.compile(
    r"node:|node_modules|-packages/|lib/python|java\.base/|(?:java|javax|jdk|sun)\.|File .<|/rustc/|\.cargo/"
    r"|/gems/|go/(?:src|pkg)/"
)
_DECORATION = " \t=-*_#"
_COUNTS = re.compile(r"\d+ (?:failed|passed|errors?|failures?|warnings?)\b|FAILED \(")
_NO_ERROR = re.compile(r"\b(?:0|no) (?:errors?|failures?|failed)\b")
_WORD = re.compile(r"\w+")
_ERROR_ENDINGS = ("error", "errors", "exception", "failure", "failures")
_ERROR_PHRASES = (
    *("can't ", "couldn't ", "could not ", "no such ", "timed out", "core dumped"),
    *("not found", "not permitted", "not allowed", "not responding", "not supported", "not exist"),
    *("not ok ", "✗", "✖", "✕", "❌"),
)
_ERROR_WORDS_WRITTEN = """
    abort aborted assert assertion cannot conflict conflicts crash crashed denied err errno expired fail
    failed failing fails fatal fault forbidden illegal invalid killed missing panic panicked refused rejected
    timeout traceback unable unauthorised unauthorized undefined unexpected unknown unreachable unrecognised
    unrecognized unresolved unsupported
"""
_ERROR_WORDS = frozenset(_ERROR_WORDS_WRITTEN.split())
