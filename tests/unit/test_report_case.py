"""A failure case says enough, is bounded, and stays a document."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from tests.unit.report_material import Story

from recoup.kernel.fold import fold
from recoup.model.failure import Facts, Failure, FailureClass, FailureKind
from recoup.reports.failure_case import (
    CASE_BYTES_MAX,
    EVENTS_MAX,
    LOG_BYTES_MAX,
    FailureCase,
    Versions,
    failure_case,
    smaller,
)

VERSIONS = Versions(recoup="1", python="3.11", git="2.40", kernel="Linux 6")


def failure(excerpt: str = "boom") -> Failure:
    facts = Facts(kind=FailureKind.EXIT_NONZERO, exit_code=1, excerpt=excerpt)
    return Failure(
        kind=facts.kind, cls=FailureClass.UNKNOWN, signature="v2:aa", summary="exit code 1", facts=facts
    )


def case_of(story: Story, log: bytes = b"", log_bytes: int | None = None, **more: Any) -> FailureCase:
    state = fold("r", story.events)
    return failure_case(
        state,
        state.steps[0],
        failure(),
        "step_max_attempts: 3 of 3 attempts used",
        events=story.events,
        log_tail=log,
        log_bytes=len(log) if log_bytes is None else log_bytes,
        policy_digest="sha256:33",
        versions=VERSIONS,
        **more,
    )


def test_a_case_says_what_failed_with_what_and_what_came_before() -> None:
    case = case_of(Story("a").fails(0), b"one\ntwo\n", screenshots=["sha256:44"])
    document = json.loads(msgspec.json.encode(case))
    assert document["schemaVersion"] == "failure-case.v1"
    assert (document["stepId"], document["attempt"], document["policyDigest"]) == ("a", 1, "sha256:33")
    assert document["failure"]["class"] == "unknown"
    assert document["failure"]["facts"]["exitCode"] == 1
    assert document["versions"] == {"recoup": "1", "python": "3.11", "git": "2.40", "kernel": "Linux 6"}
    assert document["lastEvents"][-1]["type"] == "task.self_heal.triggered"
    assert document["logTail"] == "one\ntwo\n"
    assert document["screenshots"] == ["sha256:44"]


def test_only_the_last_events_are_kept_and_a_plan_is_not_copied() -> None:
    story = Story("a")
    for _ in range(30):
        story.fails(0)
    case = case_of(story)
    assert len(case.last_events) == EVENTS_MAX
    assert case.events_left_out == len(story.events) - EVENTS_MAX
    few = case_of(Story("a"))
    assert few.last_events[0]["payload"].keys() == {"leftOutBytes"}


def test_a_log_is_kept_from_the_beginning_of_a_line() -> None:
    log = b"".join(b"line %d\n" % number for number in range(5_000))
    case = case_of(Story("a"), log[-LOG_BYTES_MAX:], len(log))
    assert case.log_tail.startswith("line ")
    assert case.log_tail.endswith("line 4999\n")
    assert len(case.log_tail) <= LOG_BYTES_MAX
    assert case.log_bytes == len(log)


def test_bytes_that_are_no_text_are_shown_as_such() -> None:
    assert case_of(Story("a"), b"\xff\xfe").log_tail == "\ufffd\ufffd"


def test_a_case_is_bounded_whatever_the_events_hold() -> None:
    story = Story("a")
    for _ in range(40):
        story.fails(0, words="\x01" * 5_000, excerpt="\x01" * 50_000)
    assert len(msgspec.json.encode(case_of(story, b"\x01" * LOG_BYTES_MAX))) < CASE_BYTES_MAX


def test_smaller_forms_get_smaller_and_say_what_they_lack() -> None:
    story = Story("a")
    for _ in range(30):
        story.fails(0)
    forms = list(smaller(case_of(story, b"x\n" * 8_000)))
    sizes = [len(msgspec.json.encode(form)) for form in forms]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < 1_000
    assert all(form.events_left_out + len(form.last_events) == len(story.events) for form in forms)
