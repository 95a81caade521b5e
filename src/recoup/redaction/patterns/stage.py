"""Masks what the rules find in a stream of bytes: the second stage, after the registered secrets.

What comes out is a function of the text alone, however it is cut: everything is decided by lines, or by windows
counted from the beginning of a line that is too long. Held back is the unfinished line up to 16 KB, and after a line
that names a user the next two lines. Hits that come faster than they can be looked at mask their lines, and a flood
of such lines whole stretches: safe beats precise.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from recoup.redaction.masks import MASK
from recoup.redaction.matcher import Span, merged
from recoup.redaction.patterns.compiled import Hit, PatternSet
from recoup.redaction.patterns.keyblock import KeyBlock

WINDOW_BYTES: Final = 16_384
"""The longest line that is looked at as a whole, and the most that is held back of an unfinished one."""
STEP_BYTES: Final = 14_336
"""By how much the window moves along a longer line."""
BACK_BYTES: Final = 1_024
CONTEXT_LINES: Final = 2
CONTEXT_BYTES_MAX: Final = 1_024
PAIR_LINES: Final = 2
PAIR_BYTES_MAX: Final = 1_024
SCAN_BYTES_MAX: Final = 65_536
SCAN_BYTES_MIN: Final = 4_096
HITS_MAX: Final = 256
CREDIT_MAX: Final = 393_216
"""What a burst of hits may cost. Each byte of text earns one."""
NEED_COST: Final = 64
LOOK_COST: Final = 512
MATCH_COST: Final = 768
SECRET_COST: Final = 1_024
COST_BYTES: Final = 2
"""Looking for a rule costs the first, each match the second, each secret the third on top, and each second byte
looked at one more: about a hundredth of a microsecond each."""
LINE_COST: Final = 1_024
"""What each line with a hit costs, even if it is masked without a look."""
DEBT_MAX: Final = 32_768
"""How far that may go before nothing is screened any more."""
COARSE_BYTES_MIN: Final = 4_096
COARSE_BYTES_MAX: Final = 65_536


Lines = dict[int, tuple[int, set[int]]]
"""By where a line begins: where it ends, and the rules that have a hit in it."""


class PatternStage:
    """One stream. `feed` passes on what is decided, `flush` decides the rest."""

    def __init__(self, patterns: PatternSet) -> None:
        self._patterns = patterns
        self.hidden = 0
        self._reset()

    def feed(self, chunk: bytes) -> bytes:
        self._parts.append(chunk)
        self._waiting += len(chunk)
        if self._waiting <= WINDOW_BYTES and b"\n" not in chunk:
            return b""
        return self._advance(final=False)

    def flush(self) -> bytes:
        passed = self._advance(final=True)
        rest = b"\n" if self._newline_owed else b""
        self._reset()
        return passed + rest

    def _reset(self) -> None:
        # The text that is not decided yet, after as much decided text as is needed to decide it.
        self._parts: list[bytes] = []
        self._known = 0
        self._waiting = 0
        self._from_start = True
        self._within_line = False
        self._out: list[bytes] = []
        self._after_mask = False
        self._masked_ahead = 0
        self._in_token = False
        self._block: KeyBlock | None = None
        self._newline_owed = False
        self._coarse = 0
        self._coarse_next = COARSE_BYTES_MIN
        self._credit = CREDIT_MAX
        self._scan_bytes = SCAN_BYTES_MAX

    def _advance(self, final: bool) -> bytes:
        data = b"".join(self._parts)
        at = self._decide(data, self._known, final)
        keep = at - min(at, BACK_BYTES) if self._within_line else self._context(data, at)
        self._from_start = self._from_start and keep == 0
        self._parts = [data[keep:]]
        self._known, self._waiting = at - keep, len(data) - at
        passed = b"".join(self._out)
        self._out.clear()
        return passed

    def _decide(self, data: bytes, at: int, final: bool) -> int:
        """Passes on what can be decided; where that ends."""
        while at < len(data):
            was = at
            if not self._within_line and (end := _lines_end(data, at, final)) > at:
                at = self._lines(data, at, end, final)
            else:
                at = self._piece(data, at, final)
            if at == was:
                break
        return at

    # Whole lines

    def _lines(self, data: bytes, at: int, end: int, final: bool) -> int:
        while at < end:
            was = at
            if self._coarse:
                at = self._swallow(data, at, end)
            else:
                at = self._screen(data, at, end, final)
            if at == was:
                break
        return at

    def _screen(self, data: bytes, at: int, end: int, final: bool) -> int:
        """Looks at some lines at once, at fewer when there is much to see."""
        stop = _line_end(data, min(end, at + self._scan_bytes) - 1, end)
        hits = self._patterns.hits(data[(base := self._context(data, at)) : stop], HITS_MAX)
        if hits is None:
            return self._flooded(data, at, stop, end, final)
        if len(hits) < HITS_MAX // 4:
            self._scan_bytes = min(SCAN_BYTES_MAX, 4 * self._scan_bytes)
        if not hits and self._block is None:
            self._pass_on(data, at, stop, ())
            return stop
        return self._examine(data, at, stop, end, final, self._by_line(data, base, at, hits))

    def _by_line(self, data: bytes, base: int, at: int, hits: list[Hit]) -> Lines:
        screens: Lines = {}
        start = end = at
        for stop, screen in sorted(hits):
            last = base + stop - 1
            if last >= end:
                start = max(at, data.rfind(b"\n", at, last) + 1)
                end = _line_end(data, last, len(data))
            if last >= at:
                screens.setdefault(start, (end, set()))[1].add(screen)
        rules = (
            (start, end, self._rules(data, at, start, end, seen)) for start, (end, seen) in screens.items()
        )
        return {start: (end, found) for start, end, found in rules if found}

    def _rules(self, data: bytes, at: int, start: int, end: int, screens: set[int]) -> set[int]:
        if start > at and not self._has_context(data, start) and self._patterns.cross_lines(screens):
            screens = self._seen_alone(data, start, end, screens)
        return {rule for screen in screens for rule in self._patterns.by_screen[screen]}

    def _seen_alone(self, data: bytes, at: int, end: int, screens: set[int]) -> set[int]:
        """A long line before this one is not looked at together with it, even if it was just there."""
        base = self._context(data, at)
        hits = self._patterns.hits(data[base:end], HITS_MAX)
        return screens if hits is None else {screen for stop, screen in hits if base + stop > at}

    def _flooded(self, data: bytes, at: int, stop: int, end: int, final: bool) -> int:
        """A line that has too many hits by itself is not looked at."""
        if _line_end(data, at, stop) == stop:
            self._begin_coarse(0)
            return self._swallow(data, at, stop)
        self._scan_bytes = SCAN_BYTES_MIN if self._scan_bytes > SCAN_BYTES_MIN else 1
        return self._screen(data, at, end, final)

    def _examine(self, data: bytes, at: int, stop: int, end: int, final: bool, lines: Lines) -> int:
        starts = [*sorted(lines), stop]
        first, n = at, 0
        while at < stop:
            while starts[n] < at:
                n += 1
            if self._coarse:
                at = self._swallow(data, at, stop)
            elif self._block is not None:
                at = self._in_key(data, at, stop, lines)
            elif at < starts[n]:
                self._pass_on(data, at, starts[n], ())
                at = starts[n]
            else:
                unit = self._unit(data, at, end, final, lines)
                if unit == at or (unit > stop and at > first):
                    return at
                at = self._line(data, at, *self._together(data, at, unit, stop, lines))
        return at

    def _unit(self, data: bytes, at: int, end: int, final: bool, lines: Lines) -> int:
        """The end of what is looked at together; `at` itself if more has to come first."""
        line_end, rules = lines[at]
        if not any(self._patterns.rules[rule].opens_pair for rule in rules):
            return line_end
        together = _pair_end(data, at)
        return together if together is not None else end if final else at

    def _together(self, data: bytes, at: int, unit: int, stop: int, lines: Lines) -> tuple[int, set[int]]:
        """Where what is looked at together ends, and by which rules."""
        if unit == lines[at][0]:
            return lines[at]
        if unit > stop:
            base = self._context(data, at)
            hits = self._patterns.hits(data[base:unit], HITS_MAX)
            if hits is None:  # too much for one look, not for one at each line
                return lines[at]
            lines = self._by_line(data, base, at, hits)
        rules: set[int] = set()
        while at < unit:
            rules |= lines[at][1] if at in lines else set()
            at = _line_end(data, at, unit)
        return unit, rules

    def _line(self, data: bytes, at: int, end: int, rules: Iterable[int]) -> int:
        spans: list[Span] = []
        base = self._context(data, at)
        self._credit -= LINE_COST
        for rule in sorted(rules):
            if self._credit < 0:
                break
            if not (spans and self._patterns.rules[rule].last_resort):
                spans += self._found(rule, data, base, at, end)
        if self._credit < 0:
            return self._unseen(data, at, end, rules)
        self._pass_on(data, at, end, merged(_whole(data, span, end) for span in spans))
        self._open_key(data[at:end], rules)
        return end

    def _unseen(self, data: bytes, at: int, end: int, rules: Iterable[int]) -> int:
        """There is no time to look at it: a line with a hit is masked whole."""
        if self._credit < -DEBT_MAX:
            self._begin_coarse(-DEBT_MAX)
            return at
        self._pass_on(data, at, end, [(at, end - data.endswith(b"\n", at, end))])
        self._open_key(data[at:end], rules)
        return end

    def _found(self, rule: int, data: bytes, base: int, at: int, end: int) -> list[Span]:
        """In the line itself; only where the pattern is not there at all, with the lines before it."""
        if self._patterns.rules[rule].opens_pair:
            self._credit -= MATCH_COST
            return []
        before = base if self._patterns.crosses_lines(rule) else at
        if not self._may_be_in(rule, data, before, end):
            return []
        found = self._look(rule, data, at, end)
        if found is None and before < at:
            found = self._look(rule, data, before, end)
        return [(max(at, start), stop) for start, stop in found or () if stop > at]

    def _may_be_in(self, rule: int, data: bytes, at: int, end: int) -> bool:
        needs = self._patterns.rules[rule].needs
        if needs:
            self._credit -= NEED_COST
        return not needs or _has_any(needs, data[at:end].lower())

    def _look(self, rule: int, data: bytes, at: int, end: int) -> list[Span] | None:
        self._credit -= LOOK_COST + (end - at) // COST_BYTES
        found = self._patterns.spans(rule, data[at:end])
        if found is None:
            return None
        self._credit -= found[1] * MATCH_COST + len(found[0]) * SECRET_COST
        return [(at + start, at + stop) for start, stop in found[0]]

    # Keys

    def _open_key(self, text: bytes, rules: Iterable[int]) -> None:
        opening = [rule for rule in rules if self._patterns.rules[rule].opens_block]
        rest = text[text.rfind(b"END ") + 1 :]
        self._credit -= len(opening) * LOOK_COST
        if any(self._patterns.spans(rule, rest) is not None for rule in opening):
            self._block = KeyBlock(rest)

    def _in_key(self, data: bytes, at: int, stop: int, lines: Lines) -> int:
        assert self._block is not None, "only an open key has a body"
        body = self._block.body_end(data, at, stop)
        if body > at:
            self._pass_on(data, at, body, [(at, body)])
            self._newline_owed = data.endswith(b"\n", at, body)
            return body
        self._pay_newline()
        end = _line_end(data, at, stop)
        inside = self._block.meets(data[at:end])
        if self._block.closed:
            self._block = None
            # What is left of the line is an ordinary one.
            self._pass_on(data, at, at + inside, [(at, at + inside)])
            return self._line(data, at + inside, end, lines[at][1]) if inside and at in lines else at + inside
        if at in lines:
            return self._line(data, at, *lines[at])
        self._pass_on(data, at, end, ())
        return end

    def _pay_newline(self) -> None:
        """The body of a key is one mask, however many lines it had and however they came."""
        if self._newline_owed:
            self._plain(b"\n")
            self._newline_owed = False

    # Lines that are too long

    def _piece(self, data: bytes, at: int, final: bool) -> int:
        newline = data.find(b"\n", at, at + WINDOW_BYTES)
        goes_on = newline < 0 and len(data) - at > WINDOW_BYTES
        if newline < 0 and not goes_on and not final:
            return at
        self._pay_newline()
        seen = at + WINDOW_BYTES if goes_on else newline + 1 or len(data)
        end = at + STEP_BYTES if goes_on else seen
        spans = merged(_whole(data, span, seen) for span in self._in_piece(data, at, end, seen))
        self._in_token = goes_on and any(start < end and stop == seen for start, stop in spans)
        self._pass_on(data, at, end, spans)
        self._within_line = goes_on
        return end

    def _in_piece(self, data: bytes, at: int, end: int, seen: int) -> list[Span]:
        spans = self._token(data, at, seen)
        if self._coarse:
            self._coarse = max(0, self._coarse - (end - at))
            return [(at, end)]
        base = max(0, at - BACK_BYTES) if self._within_line else self._context(data, at)
        hits = self._patterns.hits(data[base:seen], HITS_MAX)
        screens = {screen for stop, screen in hits or () if base + stop > at}
        rules = sorted({rule for screen in screens for rule in self._patterns.by_screen[screen]})
        for rule in rules:
            if self._credit >= 0 and self._may_be_in(rule, data, base, seen):
                found = self._look(rule, data, base, seen) or ()
                spans += [(max(at, start), stop) for start, stop in found if stop > at]
        if hits is None or self._credit < 0:
            self._begin_coarse(0)
            return [(at, end)]
        if seen == end:
            self._open_key(data[at:end], rules)
        return spans

    def _token(self, data: bytes, at: int, seen: int) -> list[Span]:
        """What goes on of a token, or of a key, that began before."""
        if not self._in_token and self._block is None:
            return []
        size = _run(data, at, seen)
        in_key = self._block is not None and size > WINDOW_BYTES // 2
        return [(at, at + size)] if size and (self._in_token or in_key) else []

    # Flood

    def _begin_coarse(self, credit: int) -> None:
        self._coarse, self._coarse_next = self._coarse_next, min(COARSE_BYTES_MAX, 2 * self._coarse_next)
        self._credit = credit

    def _swallow(self, data: bytes, at: int, stop: int) -> int:
        """Masks whole lines, as many as it takes."""
        if self._coarse > stop - at:
            self._coarse -= stop - at
            self._pass_on(data, at, stop, [(at, stop)])
            self._swallow_key(data, at, stop)
            return stop
        end = _line_end(data, at + self._coarse - 1, stop)
        self._coarse = 0
        self._pass_on(data, at, end, [(at, end - data.endswith(b"\n", at, end))])
        self._swallow_key(data, at, end)
        return end

    def _swallow_key(self, data: bytes, at: int, end: int) -> None:
        """A key may begin in what is not looked at, and go on after it."""
        found = data.rfind(_KEY_LINE, at, end)
        if found >= 0:
            begins = b"END" not in data[max(at, data.rfind(b"\n", at, found)) : found]
            self._block = KeyBlock(_KEY_LINE) if begins else None

    # Passing on

    def _pass_on(self, data: bytes, at: int, end: int, spans: Iterable[Span]) -> None:
        self._earn(end - at)
        at, ahead = min(end, at + self._masked_ahead), self._masked_ahead - (end - at)
        for start, stop in spans:
            if start < end and stop > max(at, start):
                self._plain(data[at:start])
                self._mask()
                at, ahead = min(end, stop), max(ahead, stop - end)
        self._plain(data[at:end])
        self._masked_ahead = max(0, ahead)

    def _earn(self, size: int) -> None:
        self._credit = min(CREDIT_MAX, self._credit + size)
        if self._credit == CREDIT_MAX:
            self._coarse_next = COARSE_BYTES_MIN

    def _plain(self, text: bytes) -> None:
        if text:
            self._out.append(text)
            self._after_mask = False

    def _mask(self) -> None:
        if not self._after_mask:
            self._out.append(MASK)
            self._after_mask = True
            self.hidden += 1

    def _context(self, data: bytes, at: int) -> int:
        """Where that begins which is looked at together with the line at `at`: the new line before the lines before
        it, for there are patterns that begin with one."""
        start = at
        for _ in range(CONTEXT_LINES):
            newline = data.rfind(b"\n", max(0, at - CONTEXT_BYTES_MAX - 1), start - 1) if start else -1
            if newline < 0:
                if self._from_start and at <= CONTEXT_BYTES_MAX:
                    return 0
                break
            start = newline + 1
        return max(0, start - 1)

    def _has_context(self, data: bytes, at: int) -> bool:
        """Whether all lines are seen that a screen can begin in."""
        newlines = data.count(b"\n", max(0, at - CONTEXT_BYTES_MAX - 1), at)
        return newlines > CONTEXT_LINES or (self._from_start and at <= CONTEXT_BYTES_MAX)


def _lines_end(data: bytes, at: int, final: bool) -> int:
    """The end of the lines from `at` on of which none is too long."""
    while len(data) - at > WINDOW_BYTES:
        newline = data.rfind(b"\n", at, at + WINDOW_BYTES)
        if newline < 0:
            return at
        at = newline + 1
    return len(data) if final else max(at, data.rfind(b"\n", at) + 1)


def _line_end(data: bytes, at: int, end: int) -> int:
    return data.find(b"\n", at, end) + 1 or end


def _pair_end(data: bytes, at: int) -> int | None:
    """The end of the lines that tell what the one at `at` means; None if they may still come."""
    stop = data.find(b"\n", at) + 1 or len(data)
    limit = stop + PAIR_BYTES_MAX
    for _ in range(PAIR_LINES):
        newline = data.find(b"\n", stop, limit)
        if newline < 0:
            return stop if len(data) >= limit else None
        stop = newline + 1
    return stop


def _has_any(words: Iterable[bytes], text: bytes) -> bool:
    for word in words:  # noqa: SIM110 - in half the time
        if word in text:
            return True
    return False


def _whole(data: bytes, span: Span, limit: int) -> Span:
    """A token is masked to its end, however much longer it is than the pattern says."""
    start, stop = span
    if stop < limit and start < stop and data[stop : stop + 1].isalnum():
        stop += _run(data, stop, limit)
    return start, stop


def _run(data: bytes, at: int, limit: int) -> int:
    text = data[at:limit]
    return len(text) - len(text.lstrip(_TOKEN_BYTES))


_KEY_LINE: Final = b" PRIVATE KEY"
_TOKEN_BYTES: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+/=.~%\\"
