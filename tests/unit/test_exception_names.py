"""What a Python step raised, and which class follows from it."""

from __future__ import annotations

import pytest

from recoup.kernel.classify import classify, exception_name, summarise
from recoup.model.failure import Facts, FailureClass, FailureKind
from recoup.model.policy import Policy, TextRule


@pytest.mark.parametrize(
    ("lineage", "name"),
    [
        (["ValueError"], "ValueError"),
        (["ConnectionResetError", "ConnectionError", "OSError"], "ConnectionResetError"),
        (["shop.Closed", "shop.Fault"], "shop.Closed"),
        (["shop.Closed", "shop.Fault", "recoup.Transient"], "shop.Closed < recoup.Transient"),
        (["shop.Slow", "TimeoutError", "OSError"], "shop.Slow < TimeoutError"),
        (
            ["shop.Gone", "ConnectionError", "OSError", "recoup.Deterministic"],
            "shop.Gone < recoup.Deterministic",
        ),
        (["shop.make.<locals>.Closed", "recoup.Cooldown"], "shop.make.<locals>.Closed < recoup.Cooldown"),
    ],
)
def test_a_name_is_followed_by_what_the_rules_know_it_by(lineage: list[str], name: str) -> None:
    assert exception_name(lineage) == name


@pytest.mark.parametrize(
    ("exception", "cls"),
    [
        ("recoup.Transient", FailureClass.TRANSIENT_RUNTIME),
        ("recoup.Cooldown", FailureClass.COOLDOWN),
        ("recoup.Deterministic", FailureClass.DETERMINISTIC_CONTRACT),
        ("shop.make.<locals>.Closed < recoup.Deterministic", FailureClass.DETERMINISTIC_CONTRACT),
    ],
)
def test_what_a_step_says_of_itself_beats_every_word_it_printed(exception: str, cls: FailureClass) -> None:
    said = "connection refused; 429 too many requests; retry after 5 s; permission denied; SyntaxError"
    policy = Policy(text_rules=(TextRule(words="connection refused", cls=FailureClass.UNKNOWN),))
    facts = Facts(kind=FailureKind.EXCEPTION, exception=exception, excerpt=said, retry_after_s=5)
    assert classify(facts, policy) is cls


def test_somebody_elses_class_of_the_same_name_is_not_ours() -> None:
    facts = Facts(kind=FailureKind.EXCEPTION, exception="chemistry.Transient")
    assert classify(facts, Policy()) is FailureClass.UNKNOWN


def test_the_summary_names_the_class_and_says_what_it_said() -> None:
    facts = Facts(
        kind=FailureKind.EXCEPTION,
        exception="shop.Closed < recoup.Transient",
        duration_ms=20,
        excerpt="Traceback (most recent call last):\n  …\nshop.Closed: not before nine\nsee the door\nnot before nine\nsee the door",
    )
    assert summarise(facts) == "shop.Closed after 20 ms: not before nine"


def test_a_summary_does_not_say_the_same_thing_twice() -> None:
    head = "the driver was lost, so how the attempt ended is not known"
    assert summarise(Facts(kind=FailureKind.DRIVER_LOST, excerpt="the driver was lost")) == head
    told = Facts(kind=FailureKind.DRIVER_LOST, excerpt="its worker was told to stop")
    assert summarise(told) == f"{head}: its worker was told to stop"
