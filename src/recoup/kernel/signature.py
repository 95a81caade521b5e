"""Failure signatures: the same failure gives the same hash on another day, machine, folder and port.

Stateless masks by kind of token over redacted text. Every pattern is linear: what is repeated never overlaps
with what follows it, or the count is bounded. A change of any mask needs a new SIGNATURE_VERSION, because
signatures are compared with those in older ledgers.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

SIGNATURE_VERSION = 1

OUTPUT_TAIL_CHARS = 16_384
OUTPUT_TAIL_LINES = 100
ERROR_LINES_MAX = 12
LINES_BEFORE_ERROR = 4
LINES_AFTER_ERROR = 2
LINES_WITHOUT_ERROR = 5


def signature(kind: str, text: str) -> str:
    """`v1:<16 hex>` of a failure kind and the salient part of redacted text."""
    said = f"{kind}\n{masked(salient(text))}"
    return f"v{SIGNATURE_VERSION}:{_sha256(said)[:16]}"


def output_hash(text: str) -> str:
    """`sha256:<hex>` of the end of redacted output, under the same masks."""
    tail = text[-OUTPUT_TAIL_CHARS:]
    if len(tail) < len(text):
        tail = tail.partition("\n")[2] or tail
    return "sha256:" + _sha256(masked("\n".join(shown_lines(tail)[-OUTPUT_TAIL_LINES:])))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


# The salient part


def salient(text: str) -> str:
    """The last error lines of a log, with the few lines around the very last one; or the end of the log."""
    if "\n" not in text and "\r" not in text:
        return text
    lines = shown_lines(text)
    errors = [index for index, line in enumerate(lines) if _is_error(line)][-ERROR_LINES_MAX:]
    if not errors:
        return "\n".join(lines[-LINES_WITHOUT_ERROR:])
    around = range(max(0, errors[-1] - LINES_BEFORE_ERROR), errors[-1] + LINES_AFTER_ERROR + 1)
    return "\n".join(line for index, line in enumerate(lines) if index in around or index in errors)


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


def without_colours(text: str) -> str:
    return _ANSI.sub("", text) if "\x1b" in text else text


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


_DECORATION = " \t=-*_#"
_COUNTS = re.compile(r"\d+ (?:failed|passed|errors?|failures?|warnings?)\b|FAILED \(")
_NO_ERROR = re.compile(r"\b(?:0|no) (?:errors?|failures?|failed)\b")
_WORD = re.compile(r"\w+")
_ERROR_ENDINGS = ("error", "errors", "exception", "failure", "failures")
_ERROR_PHRASES = (
    *("can't ", "couldn't ", "could not ", "no such ", "timed out", "core dumped"),
    *("not found", "not permitted", "not allowed", "not responding", "not supported", "not exist"),
)
_ERROR_WORDS_WRITTEN = """
    abort aborted assert assertion cannot conflict conflicts crash crashed denied err errno expired fail
    failed failing fails fatal fault forbidden illegal invalid killed missing panic panicked refused rejected
    timeout traceback unable unauthorised unauthorized undefined unexpected unknown unreachable unrecognised
    unrecognized unresolved unsupported
"""
_ERROR_WORDS = frozenset(_ERROR_WORDS_WRITTEN.split())


# Masks


def masked(text: str) -> str:
    """The text with everything volatile replaced by its kind. Masking twice changes nothing more."""
    text = _tidy(text)
    for mark, pattern, kind in _MASKS:
        if mark in text:
            text = pattern.sub(kind, text)
    text = _NUMBER.sub(_masked_number, text)
    return _SIGN.sub("", text) if "-<n>" in text else text


def _tidy(text: str) -> str:
    """Without colours and spinners, every run of blanks one space: the masks rely on it."""
    text = without_colours(text)
    if not text.isascii():
        text = _SPINNER.sub(" ", text)
    if "\n" not in text:
        return " ".join(text.split())
    return "\n".join([" ".join(line.split()) for line in text.split("\n")])


def _masked_hash(hexadecimal: re.Match[str]) -> str:
    """Letters and figures mixed are a hash; figures alone are a number, letters alone a word unless eight."""
    word = hexadecimal.group()
    if word.isdigit() or (word.isalpha() and len(word) != 8):
        return word
    return "<n>"


def _masked_number(number: re.Match[str]) -> str:
    """Numbers are volatile, but an exit code, a status or an error code says which failure it is."""
    word, start = number.group(), number.start()
    if len(word) > 5 or not word.isdigit():
        return word if _STATUS_HEX.fullmatch(word) else "<n>"
    is_code = _CODE_WORD.search(number.string, max(0, start - 16), start) or (
        len(word) > 2 and _CODE_LETTERS.search(number.string, max(0, start - 9), start)
    )
    return word if is_code and not number.string[number.end() : number.end() + 1].isalnum() else "<n>"


_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,512}(?:\x07|\x1b\\)|[@-Z\\^_])?")
_SPINNER = re.compile("[\u2800-\u28ff]+")
_HEX = "[0-9a-fA-F]"
_NAME = r"[\w.+@%~#=-]+"
_MONTH = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_BAR = "=#*~_.+█▓▒░━─╸╺-"

_PROGRESS_BAR = re.compile(rf"\[[ >{_BAR}]{{3,}}\]|([{_BAR}])\1{{3,}}")
_WINDOWS_PATH = re.compile(
    rf"[A-Za-z](?<![\w>/\\].):\\(?:[\w.+@%~#=() -]{{1,255}}\\){{0,64}}({_NAME})(?!:\\)"
)
# An absolute path counts by its last name: the folders above are others elsewhere.
_PATH = re.compile(rf"/(?<![\w./~\\)\]>-].)(?:{_NAME}/+)+({_NAME})/?")
_TEMPORARY = re.compile(r"tmp(?<![A-Za-z0-9>]...)(?:[a-z0-9_]{8}|\.[A-Za-z0-9]{6,10})(?!\w|<n>)")
_DATE_WORD = re.compile(
    rf"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun|{_MONTH})(?<![\w>]...)[a-z]{{0,6}}[.,]?(?=[ -](?:[0-9]|{_MONTH}))"
)
_SHORT_IPV6 = re.compile(
    rf"(?<![\w:>])(?=[a-fA-F:]{{0,12}}[0-9])(?:{_HEX}{{1,4}}:){{0,6}}(?::{_HEX}{{1,4}}){{1,6}}(?![\w:]|<n>)"
)
_IPV6_OR_MAC = re.compile(rf"{_HEX}(?<![\w>].){_HEX}{{0,3}}(?::{_HEX}{{1,4}}){{5,7}}(?![\w:]|<n>)")
_UUID = re.compile(
    rf"{_HEX}(?<![A-Za-z0-9].){_HEX}{{7}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}(?![A-Za-z0-9]|<n>)"
)
_HASH = re.compile(rf"{_HEX}(?<![A-Za-z0-9].)(?<!<n>.){_HEX}{{6,}}(?![A-Za-z0-9]|<n>)")
_MASKS: tuple[tuple[str, re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    ("", _PROGRESS_BAR, "<bar>"),
    ("file:///", re.compile("(?:file://)+(?=/)"), ""),
    (":\\", _WINDOWS_PATH, r"/\1"),
    ("/", _PATH, r"/\1"),
    ("tmp", _TEMPORARY, "<tmp>"),
    (" ", _DATE_WORD, "<d>"),
    ("::", _SHORT_IPV6, "<addr>"),
    (":", _IPV6_OR_MAC, "<addr>"),
    ("-", _UUID, "<n>"),
    ("", _HASH, _masked_hash),
)

_DIGITS = "[0-9]+(?:[.,:][0-9]+)*"
_UNIT = (
    " ?(?:ns|us|µs|ms|secs?|seconds?|mins?|minutes?|hrs?|hours?|days?|[smhd%]"
    "|[KMGTkmgt]i?[Bb]|B|bytes?|[AaPp][Mm])(?![A-Za-z0-9]|<n>)"
)
_NUMBER = re.compile(
    rf"(?:0[xX]{_HEX}+|{_DIGITS})(?:{_UNIT}(?: ?[0-9]{{1,12}}(?:[.][0-9]{{1,9}})?{_UNIT}){{0,3}})?"
)
_SIGN = re.compile(r"(?<=[ =(,:\[_])-(?=<n>)")
_CODE_WORD = re.compile(
    r"(?<![A-Za-z0-9])(?:(?i:status|code|errno|error|exit|signal) ?[:=(]? ?|HTTP/(?:[0-9.]+|<n>)\"? )\Z"
)
_CODE_LETTERS = re.compile(r"(?<![A-Za-z0-9])[A-Z]{1,8}-?\Z")
_STATUS_HEX = re.compile(r"0x[8Cc]0[0-9A-Fa-f]{6}")
