"""Every fact of a run has words of its own in `recoup events`."""

from __future__ import annotations

from typing import Any

import pytest

from recoup.cli.words import line_of, words_of
from recoup.kernel.wording import one_line
from recoup.model import events as ev
from recoup.model.events import Event
from recoup.model.ids import ProcessIdentity
from recoup.model.instant import Instant
from recoup.model.plan import Plan, RunAction, Step

ABOUT: dict[str, Any] = {"step_id": "ask", "step_index": 0, "attempt": 1}
PLAN = Plan(name="w", steps=(Step(id="ask", action=RunAction("x")),))
SUBMITTED = ev.RunSubmitted(
    workflow="w", plan_digest="p", plan=PLAN, plan_redacted=False, inputs={}, policy_digest="q"
)
LAUNCHED = ev.AttemptLaunched(**ABOUT, keeper=ProcessIdentity("here", "boot", 42, 1))


def event(payload: ev.Payload) -> Event:
    return Event("run:r", 1, Instant(0, 0, "boot"), payload.TYPE, payload, b"")


def told_by_operator(verdict: str, actor: str | None) -> ev.AttemptFinished:
    return ev.AttemptFinished(**ABOUT, verdict=verdict, duration_ms=0, settled_by="operator", actor=actor)


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (SUBMITTED, "submitted: w, 1 step"),
        (LAUNCHED, "ask: process 42 performs it"),
        (told_by_operator("passed", "ada"), "ask: approved by ada"),
        (told_by_operator("passed", None), "ask: approved"),
        (told_by_operator("unverified", "ada"), "ask: settled as done by ada"),
        (ev.Escalated(escalation_id="e", reason="it is lost", hint="Look"), "handed over: it is lost"),
    ],
)
def test_a_fact_has_words(payload: ev.Payload, words: str) -> None:
    assert one_line(words_of(event(payload))) == words


def test_what_nobody_wants_to_watch_has_no_line() -> None:
    assert line_of(event(SUBMITTED)) is line_of(event(LAUNCHED)) is None
