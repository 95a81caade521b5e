"""Rules, ready to search with: a Hyperscan database as the screen, RE2 for the spans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import hyperscan
import msgspec
import re2

from recoup.redaction.matcher import Span
from recoup.redaction.patterns.blanks import blanked, without_noise
from recoup.redaction.patterns.gates import passes
from recoup.redaction.patterns.rewriting import crosses_lines, on_few_lines, screen_of
from recoup.redaction.patterns.rule import Gate, Rule

MATCHES_MAX: Final = 64
"""Text that holds more is masked as a whole."""
MATCH_BYTES_MIN: Final = 8
"""No secret is found in less."""
MATCH_BYTES: Final = 1_024
LARGE_MATCH_BYTES: Final = 16
LARGE_PROGRAM: Final = 1_000
"""How many matched bytes take as long as another match, in a small pattern and in a large one."""
RE2_MEMORY_BYTES_MAX: Final = 32 << 20

Hit = tuple[int, int]
"""Where a match of a screen ends, and the screen's index."""
Found = tuple[list[Span], int]


class PatternReport(msgspec.Struct, frozen=True):
    """What became of the rules, for `recoup doctor`."""

    package: str | None
    """The package whose rules were read, with its version; None when it is not installed or broken."""
    trouble: str | None
    """Why the package, which is there, could not be read."""
    rules_read: int
    spanned: int
    """Compiled by both engines: searched with."""
    left_out: Mapping[str, str] = msgspec.field(default_factory=dict)
    """By name, with the reason."""


class PatternSet:
    """An immutable set of rules. For one thread: the screen has one scratch space."""

    def __init__(self, rules: Sequence[Rule], database: bytes, report: PatternReport) -> None:
        self.rules = rules
        self.report = report
        self._database = hyperscan.loadb(database, hyperscan.HS_MODE_BLOCK)
        self._database.scratch = hyperscan.Scratch(self._database)
        self._spanning: list[_Spanning | None] = [None] * len(rules)
        self.by_screen = rules_by_screen(rules)
        self._crossing: dict[int, bool] = {}

    def occurs(self, data: bytes) -> bool:
        """Whether there is anything to look at more closely: a hit of the screen, not yet a secret."""
        view = blanked(data)
        return self._occurs(data) or (view is not None and self._occurs(view))

    def _occurs(self, data: bytes) -> bool:
        try:
            self._database.scan(data, match_event_handler=_halt)
        except hyperscan.ScanTerminated:
            return True
        return False

    def hits(self, data: bytes, hits_max: int) -> list[Hit] | None:
        """What the screen found, in no order; None if it is more than `hits_max`."""
        found = self._hits(data, hits_max)
        view = None if found is None else blanked(data)
        if found is None or view is None:
            return found
        more = self._hits(view, hits_max)
        if more is None or len(together := {*found, *more}) > hits_max:
            return None
        return list(together)

    def _hits(self, data: bytes, hits_max: int) -> list[Hit] | None:
        found: list[Hit] = []

        def note(rule: int, _start: int, end: int, _flags: int, _context: object) -> bool:
            found.append((end, rule))
            return len(found) > hits_max

        try:
            self._database.scan(data, match_event_handler=note)
        except hyperscan.ScanTerminated:
            return None
        return found

    def spans(self, rule: int, data: bytes) -> Found | None:
        """The secrets that a rule finds, and what looking at its matches is worth, counted in matches; None if its
        pattern is not there at all."""
        view = blanked(data)
        if view is None:
            return self._spans(rule, data)
        as_written, as_seen = self._spans(rule, data), self._spans(rule, view)
        if as_written is None and as_seen is None:
            return None
        spans, worth = as_written or ([], 0)
        more_spans, more_worth = as_seen or ([], 0)
        found = [without_noise(start, stop, data, view) for start, stop in (*spans, *more_spans)]
        return found, worth + more_worth

    def _spans(self, rule: int, data: bytes) -> Found | None:
        spanning = self._spanning[rule] or self._built(rule)
        matches: list[Any] = []
        worth = 0
        for match in _matches(spanning.pattern, data):
            if worth >= MATCHES_MAX:
                return [(0, len(data))], worth
            matches.append(match)
            start, end = match.span()
            worth += 1 + (end - start) // spanning.match_bytes
        # Judged at last: of too many matches nobody asks what they are.
        gate = self.rules[rule].gate
        spans = [span for match in matches for span in _judged(gate, spanning, data, match)]
        return (spans, worth) if matches else None

    def cross_lines(self, screens: Iterable[int]) -> bool:
        """Whether what one of them found may have begun in an earlier line."""
        return any(map(self._screen_crosses, screens))

    def _screen_crosses(self, screen: int) -> bool:
        if screen not in self._crossing:
            self._crossing[screen] = crosses_lines(self.rules[self.by_screen[screen][0]].screen)
        return self._crossing[screen]

    def crosses_lines(self, rule: int) -> bool:
        return (self._spanning[rule] or self._built(rule)).crosses_lines

    def _built(self, rule: int) -> _Spanning:
        spanning = _Spanning(self.rules[rule].pattern)
        self._spanning[rule] = spanning
        return spanning


class _Spanning:
    """A pattern of RE2 with what is to be known about its groups."""

    def __init__(self, pattern: str) -> None:
        self.pattern = spanning_pattern(pattern)
        self.crosses_lines = crosses_lines(pattern)
        # RE2 finds the groups of a large pattern slowly, byte by byte.
        self.match_bytes = LARGE_MATCH_BYTES if self.pattern.programsize > LARGE_PROGRAM else MATCH_BYTES
        groups = {name.decode(): index for name, index in self.pattern.groupindex.items()}
        self.name = groups.get("name", 0)
        self.bare = groups.get("bare", -1)
        self.others = [index for name, index in groups.items() if name.startswith("secret_")]
        told = [index for word in _SECRET_WORDS for name, index in groups.items() if word in name.lower()]
        skipped = {self.name, *self.others}
        self._candidates = [
            n for n in dict.fromkeys([*told, *range(1, self.pattern.groups + 1)]) if n not in skipped
        ]

    def secret(self, match: Any) -> tuple[int, Span]:
        """The group that holds the secret, and where it is."""
        for group in self._candidates:
            start, end = match.span(group)
            if start >= 0:
                return group, (start, end)
        return 0, match.span()


def _matches(pattern: Any, data: bytes) -> Iterator[Any]:
    """One after another, as long as there is enough left for a secret."""
    found, at = pattern.finditer(data), 0
    while len(data) - at >= MATCH_BYTES_MIN and (match := next(found, None)) is not None:
        yield match
        at = max(match.end(), at + 1)


def _judged(gate: Gate, spanning: _Spanning, data: bytes, match: Any) -> list[Span]:
    group, (start, end) = spanning.secret(match)
    name = match.group(spanning.name) if spanning.name else b""
    if not passes(gate, data[start:end], name, group == spanning.bare):
        return []
    others = (match.span(other) for other in spanning.others)
    return [_trimmed(data, *span) for span in ((start, end), *others) if span[0] >= 0]


def screens_of(rules: Sequence[Rule]) -> list[str]:
    """Each once, in the order of the rules."""
    return list(dict.fromkeys(map(_screen, rules)))


def rules_by_screen(rules: Sequence[Rule]) -> list[tuple[int, ...]]:
    found: dict[str, list[int]] = {screen: [] for screen in screens_of(rules)}
    for index, rule in enumerate(rules):
        found[_screen(rule)].append(index)
    return [tuple(indexes) for indexes in found.values()]


def with_screen(rule: Rule) -> Rule:
    return msgspec.structs.replace(rule, screen=on_few_lines(_screen(rule)))


def _screen(rule: Rule) -> str:
    return rule.screen or screen_of(rule.pattern)


def screening_database(patterns: Sequence[str]) -> bytes:
    """Raises hyperscan.error for patterns that it cannot compile."""
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(
        expressions=[pattern.encode() for pattern in patterns],
        ids=list(range(len(patterns))),
        flags=[hyperscan.HS_FLAG_MULTILINE] * len(patterns),
    )
    return hyperscan.dumpb(database)


def spanning_pattern(pattern: str) -> Any:
    """Raises re2.error for a pattern that it cannot compile."""
    return re2.compile(b"(?m)" + pattern.encode(), _options())


@cache
def _options() -> Any:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    options.max_mem = RE2_MEMORY_BYTES_MAX
    return options


_SECRET_WORDS: Final = ("secret", "quoted", "ticked", "bare", "password", "token", "key")


def _trimmed(data: bytes, start: int, end: int) -> Span:
    """The escape of a closing quote belongs to the text around."""
    while end > start and data[end - 1] in b"\\\r\n":
        end -= 1
    return start, end


def _halt(_rule: int, _start: int, _end: int, _flags: int, _context: object) -> bool:
    return True
