"""Heals as those who look through them see them: what was taken for what, and what somebody said about it.

A fold of the stream of the workflow's targets. A word about one heal counts for every heal in which the same element
was taken for the same target of the same step: it is the same question.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

import msgspec

from recoup.kernel.memory import ACCEPTED, TargetMemory
from recoup.model.answers.workflows import HealDocument
from recoup.model.events import Event, TargetHealed, TargetLearned, TargetRejected
from recoup.model.instant import Instant
from recoup.model.target import Element, element_words

SURE_MIN = 0.9
"""From here on a heal that was verified needs no second look."""
VALUE_CHARS_MAX = 200

Name = tuple[str, str, int | None]
Question = tuple[str, str, str]


class HealState(StrEnum):
    WAITING = "waiting"
    APPLIED = "applied"
    """The workflow remembers it by itself; the plan does not say it yet."""
    ACCEPTED = "accepted"
    REJECTED = "rejected"


class Word(msgspec.Struct, frozen=True):
    """What somebody said about a heal."""

    state: HealState
    by: str
    reason: str
    at: Instant


class Reviewed(msgspec.Struct, frozen=True):
    """One heal, and what became of it."""

    heal: TargetHealed
    at: Instant
    state: HealState
    word: Word | None = None

    @property
    def name(self) -> str:
        return heal_name(self.heal)

    @property
    def is_sure(self) -> bool:
        return self.heal.verified and self.heal.confidence >= SURE_MIN


def heal_name(heal: TargetHealed) -> str:
    """As people type it. The attempt is told when it was not the first."""
    again = f"/{heal.attempt}" if heal.attempt is not None and heal.attempt > 1 else ""
    return f"{heal.run_id}/{heal.step_id}{again}"


class Review:
    """All heals of a workflow that are in these events."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._heals: dict[Name, tuple[TargetHealed, Instant]] = {}
        self._words: dict[Name | Question, Word] = {}
        self._memory = TargetMemory()
        for event in events:
            self.add(event)

    def add(self, event: Event) -> None:
        match event.payload:
            case TargetHealed() as heal:
                self._heals.pop(_name(heal), None)
                self._heals[_name(heal)] = (heal, event.at)
            case TargetLearned() as told if told.origin == ACCEPTED:
                self._say(told, Word(HealState.ACCEPTED, told.by, told.reason or "", event.at))
            case TargetRejected() as told if told.by:
                self._say(told, Word(HealState.REJECTED, told.by, told.reason or "", event.at))
        self._memory.add(event.payload)

    def _say(self, told: TargetLearned | TargetRejected, word: Word) -> None:
        """The first word counts: who comes later is told of it."""
        for key in (_name(told), _question(told)):
            if key is not None:
                self._words.setdefault(key, word)

    def heals(self) -> list[Reviewed]:
        """The newest first."""
        return [self.reviewed(heal, at) for heal, at in reversed(self._heals.values())]

    def reviewed(self, heal: TargetHealed, at: Instant) -> Reviewed:
        word = self.word_about(heal)
        if word is not None:
            return Reviewed(heal, at, word.state, word)
        known = heal.identity and self._memory.knows((heal.step_id, heal.target_digest), heal.identity)
        return Reviewed(heal, at, HealState.APPLIED if known else HealState.WAITING)

    def word_about(self, heal: TargetHealed) -> Word | None:
        question = _question(heal)
        return self._words.get(_name(heal)) or (self._words.get(question) if question else None)


def _name(told: TargetHealed | TargetLearned | TargetRejected) -> Name:
    return told.run_id, told.step_id, told.attempt


def _question(told: TargetHealed | TargetLearned | TargetRejected) -> Question | None:
    """None: it was recorded without what names it."""
    return (told.step_id, told.target_digest, told.identity) if told.target_digest and told.identity else None


def named_by(heals: Sequence[Reviewed], run_id: str, step: str, attempt: int | None) -> list[Reviewed]:
    """Those that a name may mean, of one run: by the whole id of the step, or by how it begins. Without an attempt it
    is the first one's name, or that of the only one."""
    there = [one for one in heals if one.heal.run_id == run_id and attempt in (None, one.heal.attempt)]
    meant = [one for one in there if one.heal.step_id == step]
    meant = meant or [one for one in there if one.heal.step_id.startswith(step)]
    if len({one.heal.step_id for one in meant}) > 1:
        return meant
    return [one for one in meant if one.heal.attempt == 1] or meant


# What is said about one


def changed_fields(before: Element | None, after: Element | None) -> list[tuple[str, str, str]]:
    """What is not as it was, field by field."""
    old, new = (_fields(one) for one in (before, after))
    names = [name for name in Element.__struct_fields__ if old.get(name) != new.get(name)]
    return [(name, _value(old.get(name)), _value(new.get(name))) for name in names]


def _fields(element: Element | None) -> dict[str, Any]:
    return {} if element is None else dict(msgspec.to_builtins(element))


def _value(value: Any) -> str:
    match value:
        case None | "" | [] | ():
            return ""
        case str():
            text = value
        case {"x": x, "y": y, "width": width, "height": height}:
            text = f"{width:g} × {height:g} at {x:g}, {y:g}"
        case dict():
            text = ", ".join(f"{key}={item}" for key, item in value.items())
        case list() | tuple():
            text = " · ".join(map(str, value))
        case _:
            text = str(value).lower()
    return text if len(text) <= VALUE_CHARS_MAX else text[: VALUE_CHARS_MAX - 1] + "…"


def heal_document(workflow: str, one: Reviewed) -> HealDocument:
    """For programs."""
    heal, word = one.heal, one.word
    return HealDocument(
        heal=one.name,
        workflow=workflow,
        run_id=heal.run_id,
        step_id=heal.step_id,
        attempt=heal.attempt,
        at=one.at.iso(),
        state=one.state.value,
        by=word.by if word else None,
        reason=word.reason if word else None,
        decided_at=word.at.iso() if word else None,
        target=heal.target,
        taken=element_words(heal.after) if heal.after else None,
        verified=heal.verified,
        confidence=heal.confidence,
        margin=heal.margin,
        found_by=heal.found_by,
        target_digest=heal.target_digest or None,
        identity=heal.identity or None,
        evidence=list(heal.evidence),
    )
