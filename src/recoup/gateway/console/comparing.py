"""Two attempts of one step, side by side: what was alike and what was not. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from recoup.model import events as ev
from recoup.model.events import Event
from recoup.reports.plain import Plain
from recoup.reports.spoken import lasting, short_digest

LINES_MAX: Final = 120
_FILES_MAX: Final = 20
_HEADING: Final = re.compile(r"^--- attempt ([0-9]+) of .* at [0-9T:.-]+Z?$", re.M)


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt as its events tell it."""

    attempt: int
    began: str = ""
    ended: str = ""
    lasted: str = ""
    outcome: str = "has not ended"
    strategy: str = ""
    """What the attempt was."""
    failure: str = ""
    signature: str = ""
    diff_hash: str = ""
    exit_code: str = ""
    summary: str = ""
    files: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    decided: str = ""
    """What followed from it."""
    excerpt: str = ""


class Row(msgspec.Struct, frozen=True):
    label: str
    left: str
    right: str
    same: bool


class Pair(msgspec.Struct, frozen=True):
    """One line of each output; `kind` is same | changed | left | right."""

    kind: str
    left: str
    right: str


def tried(events: Iterable[Event], index: int) -> dict[int, Tried]:
    """By number. One that never began gave its number to the next."""
    found = dict[int, Tried]()
    began = dict[int, Event]()
    for event in events:
        fact = event.payload
        if not isinstance(fact, ev.StepPayload) or fact.step_index != index or fact.attempt is None:
            continue
        number, was = fact.attempt, found.get(fact.attempt)
        match fact:
            case ev.AttemptStarted():
                began[number] = event
                found[number] = Tried(attempt=number, began=event.at.iso(), strategy=fact.strategy or "")
            case ev.AttemptFinished() if was is not None:
                found[number] = _finished(was, fact, began[number], event)
            case ev.AttemptFailed() if was is not None:
                found[number] = _failed(was, fact, began[number], event)
            case ev.SelfHealTriggered() | ev.SelfHealEscalated() if was is not None:
                wait = f" after {lasting(fact.delay_ms / 1000)}" if fact.delay_ms else ""
                words = f"{(fact.strategy or 'another attempt').replace('_', ' ')}{wait}: {fact.reason or ''}"
                found[number] = msgspec.structs.replace(was, decided=words)
            case _:
                pass
    return found


def rows(left: Tried, right: Tried, plain: Plain) -> list[Row]:
    made = [
        ("outcome", left.outcome, right.outcome),
        ("failure", left.failure, right.failure),
        ("signature", left.signature, right.signature),
        ("change (diff hash)", left.diff_hash, right.diff_hash),
        ("exit code", left.exit_code, right.exit_code),
        ("began as", left.strategy or "the first try", right.strategy or "the first try"),
        ("lasted", left.lasted, right.lasted),
        ("files changed", ", ".join(left.files[:_FILES_MAX]), ", ".join(right.files[:_FILES_MAX])),
        ("what it said", left.summary, right.summary),
        ("what followed", left.decided, right.decided),
    ]
    return [
        Row(label, plain.line(one, 600), plain.line(other, 600), one == other)
        for label, one, other in made
        if one or other
    ]


def verdict(left: Tried, right: Tried) -> str:
    """The two in a sentence: whether the second brought anything new."""
    if not left.signature or not right.signature:
        return "Only one of them failed." if left.signature or right.signature else "Neither of them failed."
    alike, same = left.signature == right.signature, left.diff_hash == right.diff_hash
    if alike and same:
        return "The same failure, and the same change: the later attempt brought nothing new."
    if alike:
        return "The same failure after another change."
    return "Another failure after the same change." if same else "Another failure after another change."


def outputs(log: str) -> dict[int, str]:
    """What each attempt printed, by number, from the end of a step's log."""
    found, headings = dict[int, str](), list(_HEADING.finditer(log))
    for at, heading in enumerate(headings):
        end = headings[at + 1].start() if at + 1 < len(headings) else len(log)
        found[int(heading[1])] = log[heading.end() + 1 : end]
    return found


def side_by_side(left: Sequence[str], right: Sequence[str]) -> list[Pair]:
    """The last lines of both."""
    left, right = left[-LINES_MAX:], right[-LINES_MAX:]
    found = list[Pair]()
    for kind, a, b, c, d in difflib.SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if kind == "equal":
            found += [Pair("same", line, line) for line in left[a:b]]
            continue
        for at in range(max(b - a, d - c)):
            one = left[a + at] if a + at < b else None
            other = right[c + at] if c + at < d else None
            where = "left" if other is None else "right" if one is None else "changed"
            found.append(Pair(where, one or "", other or ""))
    return found


def _finished(was: Tried, fact: ev.AttemptFinished, began: Event, event: Event) -> Tried:
    outcome = fact.verdict if fact.settled_by == "outcome" else f"{fact.verdict}, {fact.settled_by}"
    return msgspec.structs.replace(
        was,
        **_ended(began, event),
        outcome=outcome.replace("_", " "),
        diff_hash=short_digest(fact.diff_hash),
        exit_code="" if fact.exit_code is None else str(fact.exit_code),
        files=fact.changed_files,
        evidence=fact.evidence,
    )


def _failed(was: Tried, fact: ev.AttemptFailed, began: Event, event: Event) -> Tried:
    cls = fact.failure_class.value.replace("_", " ") if fact.failure_class else "not concluded"
    return msgspec.structs.replace(
        was,
        **_ended(began, event),
        outcome="did not begin" if fact.not_begun else "failed",
        failure=f"{cls}, {fact.facts.kind.value.replace('_', ' ')}",
        signature=short_digest(fact.failure_signature),
        diff_hash=short_digest(fact.diff_hash),
        exit_code="" if fact.facts.exit_code is None else str(fact.facts.exit_code),
        summary=fact.summary,
        files=fact.changed_files,
        evidence=fact.evidence,
        decided=was.decided or (fact.reason or ""),
        excerpt=fact.facts.excerpt,
    )


def _ended(began: Event, event: Event) -> dict[str, str]:
    took_s = max(0, event.at.wall_us - began.at.wall_us) / 1e6
    return {"ended": event.at.iso(), "lasted": lasting(took_s)}
