"""How tolerant an attempt in the browser may be, which heals are allowed, and whether two pages are the same."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.altered import altered

from recoup.kernel.fold import advance, fold
from recoup.kernel.healing import (
    DAY_S,
    NAMES_ALIKE,
    OBSERVED_MAX,
    KnownTargets,
    adapted_words,
    details,
    details_of,
    floors,
    heal_mode,
    healed_words,
    level,
    needs_proof,
    needs_tabs,
    page_can_be_made_again,
    page_comes_from,
    page_made_by,
    page_made_since_sign_out,
    rejected_words,
    seen_at_the_end,
    target_digest,
    too_many_heals,
    why_another_page,
)
from recoup.model.events import (
    BrowserReset,
    Event,
    ResolutionDetails,
    RunSubmitted,
    TargetAdapted,
    TargetHealed,
    TargetObserved,
    TargetRejected,
)
from recoup.model.ids import targets_stream
from recoup.model.instant import Instant
from recoup.model.mode import Mode
from recoup.model.outcome import Seen
from recoup.model.plan import BrowserAction, BrowserVerb, ExitCheck, Handler, Plan, Repeat, RunAction, Step
from recoup.model.policy import Policy
from recoup.model.target import (
    Element,
    Fingerprint,
    Floors,
    Heal,
    HealMode,
    Profile,
    Resolution,
    Score,
    Target,
    element_words,
    target_words,
)

BUTTON = Target(role="button", name="Approve")
START = Instant(1_750_000_000_000_000, 5_000_000, "boot")


def click(id: str = "s", **said: Any) -> Step:
    step = Step(id=id, action=BrowserAction(verb=BrowserVerb.CLICK, target=BUTTON))
    return msgspec.structs.replace(step, **said)


def go(id: str) -> Step:
    return Step(id=id, action=BrowserAction(verb=BrowserVerb.GOTO, value="http://localhost/"))


def tab(id: str, which: str) -> Step:
    return Step(id=id, action=BrowserAction(verb=BrowserVerb.TAB, value=which))


def shell(id: str) -> Step:
    return Step(id=id, action=RunAction("true"))


def plan(*steps: Step, heal: Heal = Heal()) -> Plan:  # noqa: B008
    return Plan(name="p", steps=steps or (click(),), heal=heal)


MODES = st.sampled_from([None, *HealMode])


@given(step=MODES, whole=MODES, run=MODES, policy=st.sampled_from(HealMode))
def test_the_most_particular_word_counts_and_the_runs_own_is_never_exceeded(
    step: HealMode | None, whole: HealMode | None, run: HealMode | None, policy: HealMode
) -> None:
    found = heal_mode(click(heal=Heal(step)), plan(heal=Heal(whole)), run, Policy(heal=policy))
    said = next(one for one in (step, whole, policy) if one is not None)
    order = [HealMode.OFF, HealMode.REPORT, HealMode.APPLY]
    assert found is (said if run is None or order.index(said) <= order.index(run) else run)


@given(
    attempts=st.integers(0, 10),
    mode=st.sampled_from(Mode),
    most=st.integers(0, 2),
    step=st.none() | st.integers(0, 2),
    whole=st.none() | st.integers(0, 2),
)
def test_each_attempt_may_be_more_tolerant_but_never_than_it_is_allowed(
    attempts: int, mode: Mode, most: int, step: int | None, whole: int | None
) -> None:
    policy = Policy(heal_level_max=most)
    of_step, of_plan = click(heal=Heal(max_level=step)), plan(heal=Heal(max_level=whole))
    levels = [level(of_step, of_plan, number, mode, policy) for number in range(attempts + 1)]
    assert levels[0] == 0
    assert all(0 <= after - before <= 1 for before, after in pairwise(levels))
    limits = [most, *(one for one in (step, whole) if one is not None)]
    assert levels[-1] == (min(attempts, *limits) if mode is Mode.RUNNING else 0)


def test_a_workflow_that_is_not_well_is_more_careful() -> None:
    assert floors(Mode.RUNNING, Policy()) == Floors(0.72, 0.0)
    assert floors(Mode.DEGRADED, Policy()) == Floors(0.82, 0.08)
    checked = click(expect=(ExitCheck((0,)),))
    assert [
        needs_proof(step, mode) for step in (click(), checked) for mode in (Mode.RUNNING, Mode.DEGRADED)
    ] == [
        *(False, True),
        *(False, False),
    ]


def healed(at: Instant) -> Event:
    payload = TargetHealed(
        step_id="s",
        step_index=0,
        attempt=1,
        run_id="r",
        target="t",
        verified=True,
        confidence=0.9,
        margin=0.5,
        found_by="model",
    )
    return Event(targets_stream("w"), 1, at, payload.TYPE, payload, b"")


def observed(step_id: str, target: Target, element: Element) -> Event:
    digest = target_digest(target)
    about: dict[str, Any] = {"step_id": step_id, "step_index": 0, "attempt": 1, "run_id": "r"}
    payload = TargetObserved(**about, target_digest=digest, element=element)
    return Event(targets_stream("w"), 1, START, payload.TYPE, payload, b"")


def later(seconds: float) -> Instant:
    passed = round(seconds * 1e6)
    return Instant(START.wall_us + passed, START.boot_us + passed, START.boot_id)


def test_the_last_look_of_a_target_is_known_and_only_so_many() -> None:
    first, second = Element(tag="a"), Element(tag="b")
    other = Target(role="link")
    known = KnownTargets(
        [observed("s", BUTTON, first), observed("s", BUTTON, second), observed("s", other, first)]
    )
    assert known.observed("s", BUTTON) == second
    assert known.observed("s", other) == first
    assert known.observed("t", BUTTON) is None
    known = KnownTargets(observed(f"s{number}", BUTTON, first) for number in range(OBSERVED_MAX + 1))
    assert (known.observed("s0", BUTTON), known.observed("s1", BUTTON)) == (None, first)


def test_heals_count_for_a_day_and_there_is_a_limit_to_them() -> None:
    known = KnownTargets([healed(START), healed(later(60)), healed(later(DAY_S - 1))])
    assert known.heals_within_a_day(later(DAY_S + 30)) == 2
    policy = Policy(max_heals_per_run=2, max_heals_per_day=3)
    assert "max_heals_per_run (2)" in too_many_heals(2, 0, policy)
    assert "max_heals_per_day (3)" in too_many_heals(1, 3, policy)
    assert too_many_heals(1, 2, policy) == ""


def test_the_run_counts_its_heals_and_knows_what_it_was_told() -> None:
    submission = RunSubmitted(
        workflow="p",
        plan_digest="d",
        plan=plan(),
        plan_redacted=False,
        inputs={},
        policy_digest="d",
        heal=HealMode.REPORT,
    )
    state = fold("r", [Event("run:r", 1, START, submission.TYPE, submission, b"")])
    assert (state.submission.heal, state.counts.heals) == (HealMode.REPORT, 0)
    state = advance(state, healed(START).payload, START, 2)
    assert state.counts.heals == 1
    for number, strategy in enumerate(("timing", "format")):
        state = advance(state, adapted(strategy), START, state.seq + 1)
        assert state.counts.heals == 1 + number, "to wait is no heal"


def test_the_end_of_an_attempt_says_what_it_saw() -> None:
    assert seen_at_the_end(None) == {"resolution": None, "page": None}
    page = Fingerprint("http://site/", "Home")
    assert seen_at_the_end(Seen(page=page)) == {"resolution": None, "page": page}
    profile = Profile(level=0, min_ratio=0.9, padding=1.0, expands_roles=False)
    resolution = Resolution(chosen=None, best=None, profile=profile, floors=Floors(0.72, 0.0))
    assert details_of(Seen(resolution=resolution)) == details(resolution)


def test_how_a_target_was_looked_for_is_told_in_the_words_of_the_profile() -> None:
    profile = Profile(level=1, min_ratio=0.78, padding=1.3, expands_roles=True)
    best = Score(index=3, confidence=0.876543, element=Element(tag="button"))
    about: dict[str, Any] = {
        "profile": profile,
        "floors": Floors(0.72, 0.0),
        "role_aliases_used": ("submit",),
    }
    told = details(
        Resolution(chosen=best, best=best, margin=0.31, strategy="model", clamped=True, considered=7, **about)
    )
    assert told.healing_profile == {
        "min_ratio": 0.78,
        "pad_mul": 1.3,
        "expand_roles": True,
        "attempt_level": 1,
    }
    assert (told.healing_attempt, told.fuzzy_threshold_used, told.spatial_padding_used) == (1, 0.78, 1.3)
    assert (told.found_by, told.confidence, told.margin, told.considered) == ("model", 0.8765, 0.31, 7)
    assert (told.role_aliases_used, told.clamped) == (("submit",), True)
    none = details(Resolution(chosen=None, best=None, **about))
    assert (none.found_by, none.confidence, none.margin) == ("none", None, None)


PAGE = Fingerprint("url", "title", tuple(f"name{number}" for number in range(20)))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, ""),
        ({"url": "other"}, "another address"),
        ({"title": "other"}, "another title"),
        ({"names": PAGE.names[1:]}, ""),
        ({"names": ("a", "b", "c", *PAGE.names[3:])}, "other things"),
        ({"names": ()}, "0% of the names"),
    ],
)
def test_pages_are_compared_part_by_part(changed: dict[str, object], words: str) -> None:
    found = msgspec.structs.replace(PAGE, **changed)
    why = why_another_page(PAGE, found)
    assert (words in why) if words else why == ""
    assert why_another_page(found, found) == ""
    assert 0.5 < NAMES_ALIKE < 1


def test_a_page_comes_from_the_last_step_that_went_somewhere() -> None:
    steps = [shell("a"), go("b"), click("c"), go("d"), shell("e"), click("f")]
    assert [page_comes_from(steps, frontier) for frontier in range(7)] == [None, None, 1, 1, 3, 3, 3]
    assert page_comes_from([click("a"), click("b")], 2) == 0


def test_a_page_that_later_steps_leave_for_another_tab_comes_from_before_the_first_turn() -> None:
    new, turn = tab("n", "new"), tab("t", "1")
    steps = [go("a"), click("b"), go("c"), new, go("d"), click("e"), turn, go("f"), click("g")]
    assert [page_comes_from(steps, frontier) for frontier in range(1, 10)] == [0, 0, 2, 2, 2, 2, 2, 7, 7]
    assert page_comes_from([new, go("a"), turn], 2) == 0
    handled = click("h", rescue=(Handler(action=BrowserAction(verb=BrowserVerb.TAB, value="1")),))
    assert page_comes_from([go("a"), new, go("b"), handled], 3) == 0
    assert not needs_tabs([new, click("a")], 0)


def test_a_target_is_named_as_a_person_would() -> None:
    assert (
        target_words(Target(role="button", name="Approve", nth=2))
        == "role 'button', name 'Approve', number 2"
    )
    assert target_words(Target(test_id="x")) == "test id 'x'"
    assert target_words(Target(recorded=Element(tag="a", text="More"))) == "a 'More'"
    assert target_words(Target(recorded=Element(tag="i", role="img", id="x"))) == "img 'x'"
    assert target_words(Target()) == ""


def test_a_page_is_made_again_only_by_steps_that_may_be_repeated() -> None:
    never = click("n", repeat=Repeat.NEVER)
    assert page_can_be_made_again([go("a"), click("b")], 1)
    assert page_can_be_made_again([never, go("a"), click("b")], 2), (
        "what came before it went there does not matter"
    )
    assert not page_can_be_made_again([go("a"), never, click("b")], 2)
    assert not page_can_be_made_again([go("a"), shell("b")], 1)
    assert not page_can_be_made_again([click("a")], 0)
    assert not page_can_be_made_again([go("a")], 1)
    assert page_can_be_made_again(
        [go("a"), msgspec.structs.replace(shell("s"), repeat=Repeat.NEVER), click("b")], 2
    ), "what others do beside it is not in the page"


def test_a_page_is_made_by_the_steps_in_the_browser_that_act() -> None:
    read = Step(id="r", action=BrowserAction(verb=BrowserVerb.READ, target=Target(css="#r")))
    steps = [click("x"), go("a"), shell("s"), read, click("b"), click("c")]
    assert page_made_by(steps, 5) == [1, 4]
    assert page_made_by(steps, 0) == []


def test_heals_and_refusals_are_told_in_words() -> None:
    payload = healed(START).payload
    assert isinstance(payload, TargetHealed)
    assert healed_words(payload) == "took another element for t: verified, 90% sure, 50% ahead"
    taken = Element(tag="button", role="button", name="Confirm")
    unproven = msgspec.structs.replace(payload, after=taken, verified=False)
    assert healed_words(unproven) == "took button 'Confirm' for t: unverified, 90% sure, 50% ahead"
    refused = TargetRejected(step_id="s", step_index=0, attempt=1, run_id="r", target="t", reason="none fits")
    assert rejected_words(refused) == "nothing was taken for t: none fits"
    near = msgspec.structs.replace(refused, best=taken, confidence=0.5)
    assert rejected_words(near) == "nothing was taken for t: none fits; nearest: button 'Confirm' (50% sure)"
    assert element_words(Element(tag="i")) == "i"


def adapted(strategy: str, **more: Any) -> TargetAdapted:
    about: dict[str, Any] = {"step_id": "s", "step_index": 0, "attempt": 1, "run_id": "r", "target": "t"}
    return TargetAdapted(**about, strategy=strategy, **{"verified": True, **more})


def test_patience_and_other_forms_are_told_in_words() -> None:
    waited = adapted("timing", took_ms=6040)
    assert adapted_words(waited) == "t came after 6.0 s: verified"
    typed = adapted("format", verified=False, value_kind="date", before="9999-99-99", after="99.99.9999")
    assert adapted_words(typed) == "typed the date for t as 99.99.9999, not as 9999-99-99: unverified"


def test_a_value_in_another_form_counts_as_a_heal_and_patience_does_not() -> None:
    known = KnownTargets()
    for payload in (adapted("timing"), adapted("format"), healed(START).payload):
        known.add(payload, START)
    assert known.heals_within_a_day(START) == 2


def test_what_is_known_can_be_kept_and_gone_on_with() -> None:
    known = KnownTargets([healed(START), observed("s", BUTTON, Element(tag="a"))])
    again = KnownTargets(base=known.found)
    assert again.found == known.found
    assert again.heals_within_a_day(START) == 1 and again.observed("s", BUTTON) == Element(tag="a")


def test_only_targets_concern_what_is_known_of_targets() -> None:
    known = KnownTargets()
    known.add(BrowserReset(step_id="s", step_index=0, attempt=None), START)
    assert known.heals_within_a_day(START) == 0
    assert known.observed("s", BUTTON) is None


def test_a_new_browser_ends_the_wait_for_a_restore_unless_a_workspace_is_to_come_back_too() -> None:
    submission = RunSubmitted(
        workflow="p", plan_digest="d", plan=plan(), plan_redacted=False, inputs={}, policy_digest="d"
    )
    state = fold("r", [Event("run:r", 1, START, submission.TYPE, submission, b"")])
    state = altered(state, workspaces__restore_pending=True)
    state = advance(state, BrowserReset(step_id="s", step_index=0, attempt=None), START, 2)
    assert not state.workspaces.restore_pending


def test_what_was_found_as_it_was_written_was_not_healed() -> None:
    score = Score(index=0, confidence=1.0, element=Element(tag="a"))
    profile = Profile(level=0, min_ratio=0.82, padding=1.0, expands_roles=False)
    found = Resolution(chosen=score, best=score, strategy="exact", profile=profile, floors=Floors(0.72, 0.0))
    assert not found.healed
    assert msgspec.structs.replace(found, strategy="model").healed
    assert not msgspec.structs.replace(found, chosen=None, strategy="none").healed


def test_what_was_considered_is_told_in_short() -> None:
    def score(index: int) -> Score:
        said = Element(tag="a", role="link" if index else "", text=f"No {index}", name="other")
        return Score(index=index, confidence=0.9 / (index + 1), element=said)

    made = Resolution(
        chosen=score(0),
        best=score(0),
        runner_up=score(1),
        further=tuple(map(score, range(2, 9))),
        profile=Profile(level=0, min_ratio=1, padding=1, expands_roles=False),
        floors=Floors(0.7, 0.1),
    )
    assert [(one.role, one.name, one.confidence) for one in made.candidates] == [
        ("a", "No 0", 0.9),
        ("link", "No 1", 0.45),
        ("link", "No 2", 0.3),
        ("link", "No 3", 0.225),
        ("link", "No 4", 0.18),
    ]
    alone = msgspec.structs.replace(made, runner_up=None, further=())
    assert [one.name for one in alone.candidates] == ["No 0"]


def test_a_resolution_says_all_its_fields_also_where_they_are_empty() -> None:
    shown = msgspec.to_builtins(
        ResolutionDetails(
            healing_attempt=0, healing_profile={}, fuzzy_threshold_used=0.82, spatial_padding_used=1.0
        )
    )
    assert (shown["foundBy"], shown["roleAliasesUsed"], shown["clamped"], shown["confidence"]) == (
        "none",
        (),
        False,
        None,
    )


SIGN_IN = Fingerprint("sign-in", "Sign in", ("button Log in", "textbox User"))
SIGNED_IN = [go("open"), click("user"), click("log-in"), go("form"), click("item")]
LEFT = {0: SIGN_IN, 1: SIGN_IN, 2: PAGE, 3: PAGE, 4: PAGE}


@pytest.mark.parametrize(
    ("found", "made_by"),
    [
        (SIGN_IN, [0, 1, 2, 3, 4]),
        (msgspec.structs.replace(SIGN_IN, url="sign-in?next=form"), [0, 1, 2, 3, 4]),
        (msgspec.structs.replace(SIGN_IN, title="Busy"), [3, 4]),
        (PAGE, [3, 4]),
    ],
)
def test_a_page_that_leads_back_to_a_sign_in_needs_it_again(found: Fingerprint, made_by: list[int]) -> None:
    left = {**LEFT, 2: msgspec.structs.replace(PAGE, title="home", names=("home",))}
    assert page_made_since_sign_out(SIGNED_IN, 5, left, found) == made_by


def test_orders_between_a_sign_in_and_the_last_goto_are_not_repeated_for_it() -> None:
    home = msgspec.structs.replace(PAGE, title="home")
    steps = [go("open"), click("log-in"), click("order"), go("form"), click("item")]
    left = {0: SIGN_IN, 1: home, 2: home, 3: PAGE, 4: PAGE}
    assert page_made_since_sign_out(steps, 5, left, SIGN_IN) == [0, 1, 3, 4]


def test_pages_without_names_are_like_each_other_only_where_they_are_equal() -> None:
    blank = Fingerprint("blank", "", ())
    left = {0: blank, 1: PAGE}
    steps = [go("open"), go("form")]
    assert page_made_since_sign_out(steps, 2, left, msgspec.structs.replace(blank, url="other")) == [1]
    assert page_made_since_sign_out(steps, 2, left, blank) == [0, 1]
