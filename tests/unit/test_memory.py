"""What a workflow remembers: what may be learned, what may be used, and that all of it can be taken back."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoup.kernel import memory as kernel_memory
from recoup.kernel.memory import (
    FROM_LESSON,
    FROM_MEMORY,
    LESSONS_MAX,
    TargetMemory,
    by_its_screen,
    identity,
    learned,
    likelihood,
    may_learn,
    screen_is_new,
    snapshot_before,
    tells_enough,
)
from recoup.model.events import (
    Event,
    MemoryRollback,
    MemorySnapshot,
    Payload,
    ScreenLearned,
    TargetHealed,
    TargetLearned,
    TargetRejected,
)
from recoup.model.failure import FailureKind
from recoup.model.ids import targets_stream
from recoup.model.instant import Instant
from recoup.model.memory import Entry, Screen, State, WhichScreen
from recoup.model.mode import Health, Mode
from recoup.model.policy import Policy
from recoup.model.target import Element

KEY = ("approve", "target-1")
BUTTON = Element(tag="button", role="button", text="Approve invoice", id="approve")
NAME = identity(BUTTON)


def healed(
    *, verified: bool = True, found_by: str = "model", element: Element = BUTTON, confidence: float = 0.95
) -> TargetHealed:
    return TargetHealed(
        step_id=KEY[0],
        step_index=2,
        attempt=1,
        run_id="run-1",
        target="button 'Approve'",
        verified=verified,
        confidence=confidence,
        margin=0.5,
        found_by=found_by,
        after=element,
        target_digest=KEY[1],
        identity=identity(element),
    )


def rejected(by: str = "ann") -> TargetRejected:
    return TargetRejected(
        step_id=KEY[0],
        step_index=2,
        attempt=None,
        run_id="run-1",
        target="button 'Approve'",
        target_digest=KEY[1],
        identity=NAME,
        by=by,
    )


def snapshot(version: str) -> MemorySnapshot:
    return MemorySnapshot(version=version, digest="", entries=0)


def rollback(to: str) -> MemoryRollback:
    return MemoryRollback(from_version="v9", to_version=to, reason="worse")


def after(*payloads: Payload) -> TargetMemory:
    memory = TargetMemory()
    for payload in payloads:
        memory.add(payload)
    return memory


def test_one_success_is_not_enough_two_are() -> None:
    once = after(healed(), learned(healed()))
    assert not once.usable(KEY) and once.knows(KEY, NAME) and len(once) == 1
    once.add(healed())
    (known,) = once.usable(KEY)
    assert known.element == BUTTON and known.origin == "model" and known.confidence >= 0.9


def test_what_is_found_in_memory_stays_one_entry_with_its_origin() -> None:
    memory = after(learned(healed()), healed(), healed(found_by=FROM_MEMORY))
    memory.add(learned(healed(found_by=FROM_MEMORY)))
    (known,) = memory.usable(KEY)
    assert len(memory) == 1 and known.origin == "model"


def test_what_somebody_accepted_needs_no_second_success() -> None:
    word = msgspec.structs.replace(learned(healed()), origin="accepted")
    (known,) = after(word).usable(KEY)
    assert known.origin == "accepted"
    (known,) = after(learned(healed()), word).usable(KEY)
    assert known.origin == "model", "it stays the entry that it was"


def test_failures_after_a_hit_count_against_it() -> None:
    memory = after(learned(healed()), healed())
    memory.add(healed(verified=False, found_by=FROM_MEMORY))
    assert not memory.usable(KEY)
    for _ in range(3):
        memory.add(healed())
    assert memory.usable(KEY)


def test_what_was_proven_once_is_a_description_to_look_from_the_latest_first() -> None:
    older, later = msgspec.structs.replace(BUTTON, id="a"), msgspec.structs.replace(BUTTON, id="b")
    memory = after(learned(healed(element=older)), learned(healed(element=later)))
    assert memory.lessons(KEY) == (later, older) and not memory.usable(KEY)
    memory.add(healed(element=older))
    assert memory.lessons(KEY) == (older, later), "it was right again, later"
    assert memory.lessons(("another", "target")) == ()


def test_only_the_latest_lessons_are_looked_from() -> None:
    some = [msgspec.structs.replace(BUTTON, id=str(number)) for number in range(LESSONS_MAX + 2)]
    memory = after(*(learned(healed(element=one)) for one in some))
    assert memory.lessons(KEY) == tuple(reversed(some[-LESSONS_MAX:]))


def test_a_lesson_that_led_astray_is_blamed_and_not_looked_from() -> None:
    other = msgspec.structs.replace(BUTTON, text="Reject invoice")
    astray = msgspec.structs.replace(healed(verified=False, found_by=FROM_LESSON, element=other), led_by=NAME)
    memory = after(learned(healed()), astray)
    assert memory.lessons(KEY) == ()
    memory.add(msgspec.structs.replace(astray, led_by=""))
    for _ in range(3):
        memory.add(healed())
    assert memory.lessons(KEY) == (BUTTON,), "three in four were right"


def test_what_somebody_rejected_is_no_lesson() -> None:
    assert after(learned(healed()), rejected()).lessons(KEY) == ()


def test_a_failure_after_another_way_of_finding_does_not_count_against_it() -> None:
    memory = after(learned(healed()), healed(), healed(verified=False))
    assert memory.usable(KEY)


@settings(deadline=None)
@given(st.integers(1, 50), st.integers(0, 50))
def test_a_third_of_failures_is_too_many(successes: int, failures: int) -> None:
    memory = after(learned(healed()))
    for _ in range(successes - 1):
        memory.add(healed())
    for _ in range(failures):
        memory.add(healed(verified=False, found_by=FROM_MEMORY))
    is_good = successes >= 2 and failures / (successes + failures) < 0.30
    assert bool(memory.usable(KEY)) is is_good


@settings(deadline=None)
@given(st.integers(1, 1_000), st.integers(0, 1_000))
def test_more_successes_make_surer_more_failures_less_and_nothing_is_certain(good: int, bad: int) -> None:
    def of(successes: int, failures: int) -> float:
        return likelihood(Entry(*KEY, NAME, BUTTON, "model", 0.95, successes, failures))

    assert 0 < of(good, bad + 1) < of(good, bad) < of(good + 1, bad) < 1


def test_of_several_the_likelier_comes_first() -> None:
    other = Element(tag="a", role="link", text="Approve all invoices", href="/all")
    memory = after(learned(healed()), healed(), learned(healed(element=other)))
    for _ in range(4):
        memory.add(healed(element=other))
    assert [known.element for known in memory.usable(KEY)] == [other, BUTTON]


def test_what_somebody_rejected_is_never_used_again() -> None:
    memory = after(learned(healed()), healed(), rejected())
    assert not memory.usable(KEY) and memory.forbids(KEY, NAME) and memory.forbidden(KEY) == {NAME}
    assert not memory.forbids(("other", "target-1"), NAME)
    assert not after(rejected(by="")).forbidden(KEY)


def test_a_version_is_gone_back_to_as_a_whole() -> None:
    other = Element(tag="a", role="link", text="Elsewhere", href="/else")
    memory = after(learned(healed()), healed(), snapshot("v1"), learned(healed(element=other)), rejected())
    kept = memory.version("v1")
    assert kept is not None and len(kept.entries) == 1 and len(memory) == 2
    memory.add(rollback("v1"))
    assert memory.state.entries == kept.entries and not memory.knows(KEY, identity(other))
    assert memory.forbids(KEY, NAME), "what was forbidden was no lesson"


def test_memory_is_a_fold_of_its_stream() -> None:
    payloads = [learned(healed()), healed()]
    at = Instant(1, 1, "boot")
    events = [Event(targets_stream("w"), n, at, one.TYPE, one, b"") for n, one in enumerate(payloads, 1)]
    assert TargetMemory(events=events).usable(KEY) == after(*payloads).usable(KEY) != ()


def test_a_version_that_was_not_read_is_given() -> None:
    stored = after(learned(healed()), healed()).state
    memory = TargetMemory()
    memory.add(learned(healed(element=Element(tag="a", text="Wrong", href="/w"))))
    assert memory.version("v000001") is None
    memory.know("v000001", stored)
    memory.add(rollback("v000001"))
    assert memory.state.entries == stored.entries and memory.usable(KEY)


def test_what_is_told_after_a_version_goes_on_from_it() -> None:
    stored = after(learned(healed()), healed()).state
    memory = TargetMemory(stored, version="v000007")
    assert (memory.version_name, memory.versions, memory.version("v000007")) == ("v000007", 7, stored)
    assert snapshot_before(memory, Health(), Policy()).version == "v000008"
    memory.add(learned(healed(element=Element(tag="a", text="Wrong", href="/w"))))
    memory.add(rollback("v000007"))
    assert memory.state == stored


def screen(mark: int) -> ScreenLearned:
    seen = Screen((mark,), (1,), (1280.0, 720.0), 1.0)
    return ScreenLearned(step_id=f"s{mark}", step_index=0, attempt=1, run_id="r", screen=seen)


def test_screens_are_learned_and_taken_back_with_the_rest() -> None:
    memory = after(screen(1), snapshot("v000001"), screen(2))
    assert set(memory.screens) == {"s1", "s2"} == set(memory.state.screens)
    memory.add(rollback("v000001"))
    assert set(memory.screens) == {"s1"}


def test_the_oldest_screens_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_memory, "SCREENS_MAX", 2)
    assert set(after(screen(1), screen(2), screen(1), screen(3)).screens) == {"s1", "s3"}


LESSONS = st.lists(
    st.one_of(
        st.builds(
            lambda text: learned(healed(element=Element(tag="a", text=text, href="/x"))),
            st.text("ab", max_size=3),
        ),
        st.builds(
            lambda text: healed(element=Element(tag="a", text=text, href="/x")), st.text("ab", max_size=3)
        ),
        st.just(rejected()),
    ),
    max_size=12,
)


@settings(deadline=None)
@given(LESSONS, LESSONS, LESSONS)
def test_taking_back_is_as_if_it_had_not_been_learned(
    before: list[Payload], bad: list[Payload], later: list[Payload]
) -> None:
    back = after(*before, snapshot("v1"), *bad, rollback("v1"), *later)
    never = after(*before, *later)
    assert back.state.entries == never.state.entries
    assert TargetMemory(back.state).usable(KEY) == back.usable(KEY)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_memory, "ENTRIES_MAX", 3)
    monkeypatch.setattr(kernel_memory, "FORBIDDEN_MAX", 2)
    monkeypatch.setattr(kernel_memory, "VERSIONS_MAX", 2)
    memory = TargetMemory()
    for number in range(5):
        target = {"target_digest": f"target-{number}"}
        memory.add(msgspec.structs.replace(learned(healed()), **target))
        memory.add(msgspec.structs.replace(rejected(), **target))
        memory.add(snapshot(f"v{number}"))
    assert len(memory) == 3 and memory.knows((KEY[0], "target-4"), NAME)
    assert not memory.forbidden((KEY[0], "target-0")) and memory.forbidden((KEY[0], "target-4"))
    assert memory.version("v0") is None and memory.version("v4") is not None
    assert State().entries == {}


@pytest.mark.parametrize(
    ("element", "is_enough"),
    [
        (Element(tag="button", text="Cancel"), False),
        (Element(tag="button", text="Sign in"), False),
        (Element(tag="button", text="Weiter"), False),
        (Element(tag="button"), False),
        (Element(tag="button", text="Cancel", id="stop"), True),
        (Element(tag="button", text="Save", container="INV-1001 20.00 EUR"), True),
        (Element(tag="button", text="Save invoice"), True),
        (Element(tag="input", name_attribute="q"), True),
        (Element(tag="a", text="More", href="/more"), True),
    ],
)
def test_words_that_half_of_all_pages_have_need_more(element: Element, is_enough: bool) -> None:
    assert tells_enough(element) is is_enough


@pytest.mark.parametrize(
    ("fact", "mode", "wanted", "is_learned"),
    [
        (healed(), Mode.RUNNING, True, True),
        (healed(), Mode.RUNNING, False, False),
        (healed(), Mode.DEGRADED, True, False),
        (healed(verified=False), Mode.RUNNING, True, False),
        (healed(confidence=0.89), Mode.RUNNING, True, False),
        (healed(element=Element(tag="button", text="OK")), Mode.RUNNING, True, False),
        (msgspec.structs.replace(healed(), after=None), Mode.RUNNING, True, False),
    ],
)
def test_only_what_was_proven_while_all_was_well_is_learned(
    fact: TargetHealed, mode: Mode, wanted: bool, is_learned: bool
) -> None:
    assert may_learn(fact, mode, Policy(), wanted=wanted) is is_learned


def test_what_is_learned_says_what_was_taken() -> None:
    fact = learned(healed())
    assert isinstance(fact, TargetLearned)
    assert (fact.element, fact.identity, fact.origin) == (BUTTON, NAME, "model")


SAME = WhichScreen("approve", 0.97, 0.5, low_confidence=False)
DRIFTED = WhichScreen("approve", 0.97, 0.5, low_confidence=False, drift=("the scale is 2 and was 1",))
UNKNOWN = WhichScreen("approve", 0.31, 0.1, low_confidence=True, drift=("the scale is 2 and was 1",))
OTHERS = WhichScreen("pay", 0.97, 0.5, low_confidence=False)


@pytest.mark.parametrize(
    ("found", "is_new"),
    [
        (None, True),
        (SAME, False),
        (DRIFTED, True),
        (UNKNOWN, True),
        (msgspec.structs.replace(SAME, confidence=0.89), True),
        (msgspec.structs.replace(SAME, confidence=0.9), False),
    ],
)
def test_a_screen_is_learned_when_it_is_not_as_it_was(found: WhichScreen | None, is_new: bool) -> None:
    assert screen_is_new(found) is is_new


@pytest.mark.parametrize(
    ("kind", "found", "told", "words"),
    [
        (FailureKind.TARGET_NOT_FOUND, None, FailureKind.TARGET_NOT_FOUND, "gone"),
        (FailureKind.TARGET_NOT_FOUND, SAME, FailureKind.TARGET_NOT_FOUND, "gone"),
        (FailureKind.LOW_CONFIDENCE, DRIFTED, FailureKind.RUNTIME_DRIFT, "gone; the scale is 2 and was 1"),
        (FailureKind.TARGET_AMBIGUOUS, DRIFTED, FailureKind.RUNTIME_DRIFT, "gone; the scale is 2 and was 1"),
        (FailureKind.TARGET_AMBIGUOUS, SAME, FailureKind.TARGET_AMBIGUOUS, "gone"),
        (
            FailureKind.TARGET_AMBIGUOUS,
            OTHERS,
            FailureKind.LOW_CONFIDENCE,
            "gone; this looks like the screen of pay",
        ),
        (
            FailureKind.TARGET_NOT_FOUND,
            UNKNOWN,
            FailureKind.LOW_CONFIDENCE,
            "gone; the page is unlike every known page (nearest: that of step approve, 31% alike)",
        ),
        (
            FailureKind.TARGET_NOT_FOUND,
            msgspec.structs.replace(UNKNOWN, confidence=0.0),
            FailureKind.LOW_CONFIDENCE,
            "gone; the page is unlike every known page",
        ),
        (
            FailureKind.TARGET_NOT_FOUND,
            OTHERS,
            FailureKind.TARGET_NOT_FOUND,
            "gone; this looks like the screen of pay",
        ),
        (FailureKind.WATCHDOG, DRIFTED, FailureKind.WATCHDOG, "gone"),
        (None, UNKNOWN, None, "gone"),
    ],
)
def test_a_target_that_was_not_found_is_told_by_its_screen(
    kind: FailureKind | None, found: WhichScreen | None, told: FailureKind | None, words: str
) -> None:
    assert by_its_screen(kind, "gone", "approve", found) == (told, words)
