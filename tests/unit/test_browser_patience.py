"""How long targets are waited for, and when a page is kept for the next attempt."""

from __future__ import annotations

import pytest

from recoup.model.failure import FailureKind
from recoup.model.plan import BrowserAction, BrowserVerb
from recoup.model.policy import Policy
from recoup.runtimes.browser.patience import Patience, Visit, patience
from recoup.runtimes.browser.seeking import Certainty

CLICK = BrowserAction(verb=BrowserVerb.CLICK, value="x")


def of(step_timeout_s: float = 900, *, second: bool = False, own: bool = False) -> Patience:
    """Of an attempt that began at 1,006, of a target that was first looked for at 1,000."""
    policy = Policy(step_timeout_seconds=step_timeout_s)
    return patience(policy, began_s=1006, since_s=1000, is_second_look=second, has_own_timeout=own)


def test_a_first_look_lasts_as_long_as_the_policy_says() -> None:
    first = of()
    assert (first.rest_s, first.is_used_up(5000)) == (5, False)
    assert first.until_s < 0


def test_a_second_look_at_the_same_page_lasts_until_five_times_that_are_over() -> None:
    assert of(second=True).until_s == 1025


def test_a_timeout_of_the_steps_own_is_used_but_for_what_it_takes_to_report() -> None:
    assert of(30, own=True).until_s == of(30, own=True).end_s == 1006 + 28
    assert of(5, own=True).until_s == 1006 + 4.5


def test_no_look_outlasts_the_steps_time() -> None:
    assert of(10, second=True).until_s == of(10, second=True).end_s == 1006 + 9


@pytest.mark.parametrize(
    ("now_s", "least_s", "left_s"),
    [(1006, 5, 19), (1023, 5, 5), (1300, 5, 5), (2000, 5, 0.001)],
    ids=["as long as the target", "at least", "afterwards, too", "not beyond the step"],
)
def test_what_else_a_target_needs_may_take_as_long(now_s: float, least_s: float, left_s: float) -> None:
    assert of(second=True).at_least_s(now_s, least_s) == left_s


@pytest.mark.parametrize(
    ("visit", "kept"),
    [
        (Visit(attempts=1), True),
        (Visit(attempts=1, failed_by=FailureKind.TARGET_NOT_FOUND), True),
        (Visit(attempts=1, failed_by=FailureKind.LOW_CONFIDENCE), True),
        (Visit(attempts=1, failed_by=FailureKind.TARGET_BLOCKED), True),
        (Visit(attempts=2, failed_by=FailureKind.TARGET_NOT_FOUND), False),
        (Visit(attempts=2), False),
        (Visit(attempts=1, failed_by=FailureKind.TARGET_NOT_FOUND, is_used_up=True), False),
        (Visit(attempts=1, failed_by=FailureKind.DIALOG_BLOCKED), False),
        (Visit(attempts=1, failed_by=FailureKind.WALL_TIMEOUT), False),
        (Visit(attempts=1, failed_by=FailureKind.EXCEPTION), False),
    ],
)
def test_a_page_is_kept_once_and_only_where_time_may_help(visit: Visit, kept: bool) -> None:
    assert visit.is_worth_another is kept


@pytest.mark.parametrize(("since_s", "restarted_s"), [(1000, 1007), (None, None)])
def test_another_document_has_all_the_time_again(since_s: float | None, restarted_s: float | None) -> None:
    visit = Visit("pay", CLICK, 2, since_s, True, FailureKind.TARGET_NOT_FOUND, True)
    visit.restart(1007)
    assert visit == Visit("pay", CLICK, 1, restarted_s)


def test_waiting_begins_once_and_ends_with_the_action() -> None:
    visit = Visit("pay", CLICK)
    visit.began_waiting(1000)
    visit.began_waiting(1006)
    assert visit.since_s == 1000
    visit.performed()
    assert visit.since_s is None


def test_a_visit_is_of_one_action_of_one_step() -> None:
    visit = Visit("pay", CLICK)
    assert visit.is_of("pay", BrowserAction(verb=BrowserVerb.CLICK, value="x"))
    assert not visit.is_of("approve", CLICK)
    assert not visit.is_of("pay", BrowserAction(verb=BrowserVerb.CLICK, value="y"))


@pytest.mark.parametrize(
    ("looks", "kind"),
    [
        ([], None),
        ([FailureKind.TARGET_AMBIGUOUS] * 3, FailureKind.TARGET_AMBIGUOUS),
        ([FailureKind.TARGET_AMBIGUOUS, None, FailureKind.TARGET_AMBIGUOUS], None),
        ([None, FailureKind.TARGET_AMBIGUOUS], None),
        ([FailureKind.HEAL_REFUSED, FailureKind.TARGET_AMBIGUOUS], None),
    ],
)
def test_a_mistake_of_the_plan_is_one_in_every_look(
    looks: list[FailureKind | None], kind: FailureKind | None
) -> None:
    """Rows that are still being removed, or a page that is still loading, are none."""
    certain = Certainty()
    for look in looks:
        certain.add(look)
    assert certain.kind is kind
