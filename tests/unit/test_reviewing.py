"""Heals as those who look through them see them: states, words, names, and what changed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.test_memory import BUTTON, healed, rejected, snapshot

from recoup.kernel.memory import learned
from recoup.kernel.reviewing import (
    VALUE_CHARS_MAX,
    HealState,
    Review,
    changed_fields,
    heal_document,
    heal_name,
    named_by,
)
from recoup.model.events import Event, Payload, TargetHealed, TargetLearned, TargetRejected
from recoup.model.ids import targets_stream
from recoup.model.instant import Instant
from recoup.model.target import Box, Element

AT = Instant(1_000_000, 1_000_000, "boot")


def of(*payloads: Payload) -> Review:
    return Review(Event(targets_stream("w"), n, AT, one.TYPE, one, b"") for n, one in enumerate(payloads, 1))


def accepted(by: str = "ann", **more: Any) -> TargetLearned:
    return msgspec.structs.replace(learned(healed()), origin="accepted", by=by, reason="fits", **more)


def refused(by: str) -> TargetRejected:
    return msgspec.structs.replace(rejected(by), attempt=1)


def heal(run_id: str = "run-1", step_id: str = "approve", attempt: int = 1, **more: Any) -> TargetHealed:
    return msgspec.structs.replace(healed(), run_id=run_id, step_id=step_id, attempt=attempt, **more)


def test_a_heal_waits_until_the_workflow_learns_it_or_somebody_says_something() -> None:
    (waiting,) = of(healed()).heals()
    assert waiting.state is HealState.WAITING and waiting.word is None and waiting.is_sure
    (applied,) = of(healed(), learned(healed())).heals()
    assert applied.state is HealState.APPLIED
    (said,) = of(healed(), learned(healed()), accepted()).heals()
    assert said.state is HealState.ACCEPTED and said.word is not None
    assert (said.word.by, said.word.reason) == ("ann", "fits")
    (no,) = of(healed(), rejected("bob")).heals()
    assert no.state is HealState.REJECTED and no.word is not None and no.word.by == "bob"
    assert of(healed(), rejected("")).heals()[0].state is HealState.WAITING, "the engine's own word is none"


def test_the_first_word_counts_and_counts_for_the_same_question() -> None:
    later = heal("run-2")
    review = of(
        healed(), refused("bob"), accepted("ann"), snapshot("v1"), later, heal("run-3", identity="other")
    )
    assert [one.state for one in review.heals()] == [
        HealState.WAITING,
        HealState.REJECTED,
        HealState.REJECTED,
    ]
    assert [one.heal.run_id for one in review.heals()] == ["run-3", "run-2", "run-1"], "the newest first"


def test_a_heal_that_was_recorded_without_what_names_it_has_words_of_its_own() -> None:
    nameless = heal(identity="", target_digest="")
    word = accepted(identity="", target_digest="")
    review = of(nameless, word, heal("run-2", identity="", target_digest=""))
    assert [one.state for one in review.heals()] == [HealState.WAITING, HealState.ACCEPTED]


def test_a_heal_that_is_told_again_is_one() -> None:
    (one,) = of(healed(confidence=0.5), healed(confidence=0.8)).heals()
    assert one.heal.confidence == 0.8 and not one.is_sure
    assert not of(heal(verified=False)).heals()[0].is_sure


def test_names_are_what_people_type() -> None:
    assert heal_name(heal()) == "run-1/approve" and heal_name(heal(attempt=3)) == "run-1/approve/3"
    assert heal_name(msgspec.structs.replace(heal(), attempt=None)) == "run-1/approve"
    heals = of(
        heal(), heal(attempt=2), heal(step_id="approve-all"), heal(step_id="send", attempt=2), heal("run-2")
    ).heals()

    def meant(step: str, attempt: int | None = None) -> list[str]:
        return sorted(one.name for one in named_by(heals, "run-1", step, attempt))

    assert meant("approve") == ["run-1/approve"], "the first attempt's name"
    assert meant("approve", 2) == ["run-1/approve/2"]
    assert meant("send") == ["run-1/send/2"], "the only one"
    assert meant("app") == ["run-1/approve", "run-1/approve-all", "run-1/approve/2"], "not clear"
    assert meant("approve-") == ["run-1/approve-all"]
    assert meant("nothing") == []


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ({"text": "Approve"}, {"text": "Approve invoice"}, ("text", "Approve", "Approve invoice")),
        ({"classes": ("a", "b")}, {}, ("classes", "a · b", "")),
        ({}, {"attributes": {"data-x": "1"}}, ("attributes", "", "data-x=1")),
        ({}, {"visible": False}, ("visible", "", "false")),
        ({}, {"text": "x" * 300}, ("text", "", "x" * (VALUE_CHARS_MAX - 1) + "…")),
        ({}, {"box": Box(1, 2, 30, 40.5)}, ("box", "", "30 × 40.5 at 1, 2")),
    ],
)
def test_what_changed_is_told_field_by_field(
    before: dict[str, Any], after: dict[str, Any], told: tuple[str, str, str]
) -> None:
    assert changed_fields(Element(tag="a", **before), Element(tag="a", **after)) == [told]


def test_where_one_side_is_unknown_all_of_the_other_is_told() -> None:
    assert changed_fields(None, None) == []
    assert ("text", "", "Approve invoice") in changed_fields(None, BUTTON)


def test_programs_get_all_of_it() -> None:
    (one,) = of(healed(), accepted()).heals()
    document = heal_document("w", one)
    assert (document.heal, document.state, document.by) == ("run-1/approve", "accepted", "ann")
    assert document.taken == "button 'Approve invoice'" and document.decided_at == AT.iso()
    (bare,) = of(heal(after=None, identity="", target_digest="")).heals()
    document = heal_document("w", bare)
    assert (document.taken, document.by, document.identity) == (None, None, None)
