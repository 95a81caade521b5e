"""What a report shows, from events alone."""

from __future__ import annotations

from itertools import pairwise

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.report_material import OWNER, Story, mode_events

from recoup.kernel.description import Tone
from recoup.model import events as ev
from recoup.model.events import UnknownPayload
from recoup.model.failure import FailureClass, FailureKind
from recoup.model.ids import EVERY_WORKFLOW, workflow_stream
from recoup.model.mode import Mode
from recoup.reports.axis import axis_of
from recoup.reports.patches import diff_view
from recoup.reports.plain import Plain
from recoup.reports.report import Material, Text, report_of
from recoup.reports.view import Report


def report(story: Story, **more: object) -> Report:
    return report_of(Material(events=story.events, **more), Plain())  # type: ignore[arg-type]


def fact(shown: Report, label: str) -> str:
    return next(fact.value for fact in shown.facts if fact.label == label)


def test_attempts_and_backoff_follow_each_other_on_the_axis() -> None:
    shown = report(Story("a", "b").fails(0, 4, delay_s=2).passes(0, 4).passes(1, 10).succeeds())
    first, second = shown.timeline.lanes
    assert [bar.kind for bar in first.bars] == ["failed", "backoff", "passed"]
    ends = [(bar.begin, bar.end) for bar in (*first.bars, *second.bars)]
    assert ends == [(0, 0.2), (0.2, 0.3), (0.3, 0.5), (0.5, 1)]
    assert first.words == "2 attempts, 8.0 s"
    assert "soft reset" in first.bars[1].words
    assert shown.status == "succeeded"
    assert shown.tone is Tone.GOOD


def test_a_wall_clock_that_was_set_changes_no_length() -> None:
    story = Story("a").passes(0, 4).jump_wall(10 * 365 * 86_400)
    shown = report(story.succeeds())
    assert fact(shown, "from first to last event") == "4.0 s"
    story = Story("a").starts(0).jump_wall(-3600).after(2)
    story.tell(ev.AttemptFinished(step_id="a", step_index=0, attempt=1, verdict="passed", duration_ms=2000))
    assert fact(report(story.succeeds()), "from first to last event") == "2.0 s"


def test_a_night_without_work_is_a_break_and_does_not_press_the_work_together() -> None:
    story = Story("a", "b").fails(0, 30, delay_s=None).ends_badly().after(12 * 3600)
    story.tell(ev.RunResumed(delivery=2, epoch=2, owner=OWNER, reason="next delivery"))
    shown = report(story.passes(0, 30).passes(1, 40).succeeds())
    assert [tick.words for tick in shown.timeline.breaks] == ["12 h 00 min"]
    first, again = shown.timeline.lanes[0].bars
    assert first.end - first.begin > 0.2
    assert abs((again.end - again.begin) - (first.end - first.begin)) < 1e-4
    assert [bar.kind for bar in shown.timeline.run] == ["work", "wait", "work"]


def test_an_attempt_whose_driver_was_lost_lasts_until_the_last_fact_of_that_driver() -> None:
    story = Story("a").starts(0).after(5)
    story.tell(
        ev.AttemptLaunched(step_id="a", step_index=0, attempt=1, keeper=OWNER),
    )
    story.after(3600)
    story.tell(ev.RunTakenOver(epoch=2, previous_epoch=1, previous_owner=OWNER, reason="the driver was lost"))
    shown = report(story)
    (bar,) = shown.timeline.lanes[0].bars
    assert bar.kind == "open"
    assert shown.timeline.breaks
    assert shown.timeline.lanes[0].words == "5.0 s"


def test_attempts_that_end_alike_are_one_failure_with_all_its_attempts() -> None:
    story = Story("a").fails(0).fails(0, words="exit code 1 again").fails(0, signature="v2:bb", delay_s=None)
    shown = report(story.ends_badly())
    assert [(group.signature, group.attempts_count) for group in shown.failures] == [
        ("v2:aa", 2),
        ("v2:bb", 1),
    ]
    assert [one.attempt for one in shown.failures[0].attempts] == [1, 2]
    assert shown.failures[0].summary == "exit code 1 again"
    assert shown.failures[0].excerpt == ("first line", "boom")


def test_a_hundred_attempts_that_end_alike_are_counted_and_not_listed() -> None:
    story = Story("a")
    for _ in range(100):
        story.fails(0)
    shown = report(story)
    assert shown.failures[0].attempts_count == 100
    assert len(shown.failures[0].attempts) == 12
    assert shown.timeline.lanes[0].bars_left_out == 140
    assert len(shown.timeline.lanes[0].bars) == 60


def test_a_run_that_was_interrupted_for_ever_keeps_a_bounded_row() -> None:
    story = Story("a")
    for number in range(300):
        story.after(1).tell(ev.RunInterrupted(reason="stop", epoch=number))
        story.after(1).tell(ev.RunResumed(delivery=1, epoch=number, owner=OWNER, reason="go"))
    shown = report(story)
    assert len(shown.timeline.run) == 200
    assert shown.left_out == ("the first 401 deliveries and waits in the run's own row",)


def test_decisions_are_told_in_order_with_their_reasons() -> None:
    shown = report(Story("a").fails(0, reason="because").passes(0).succeeds())
    assert [(entry.what, entry.about) for entry in shown.decisions] == [
        ("started", ""),
        ("soft reset", "a"),
        ("succeeded", ""),
    ]
    assert shown.decisions[1].reason == "because, next attempt in 500 ms"


def test_one_decision_about_many_steps_is_one_line() -> None:
    story = Story(*(f"s{i}" for i in range(5)))
    for index in range(5):
        story.passes(index)
    for index in range(1, 5):
        story.tell(ev.StepInvalidated(step_id=f"s{index}", step_index=index, attempt=None, reason="edited"))
    shown = report(story)
    last = shown.decisions[-1]
    assert (last.what, last.about, last.reason) == ("invalidated", "s1 … s4 (4 steps)", "edited")
    assert (shown.prefix.good, shown.prefix.frontier, shown.prefix.frontier_reason) == (1, "s1", "edited")
    assert [row.mark for row in shown.prefix.steps] == ["✓", "↺", "↺", "↺", "↺"]


def test_what_operators_asked_for_and_changed_is_told() -> None:
    story = Story("a")
    story.tell(
        ev.ControlHandled(
            command_id="c",
            action="retry_step",
            outcome="refused",
            reason="try",
            actor="dana",
            epoch=1,
            detail="no",
        )
    )
    story.tell(ev.WorkspaceHandedOver(actor="dana"))
    shown = report(story)
    assert [(entry.what, entry.about, entry.reason) for entry in shown.controls] == [
        ("retry step refused", "dana", "try (no)"),
        ("workspace handed over", "dana", ""),
    ]


def test_the_mode_is_the_one_of_the_run_and_not_of_today() -> None:
    story = Story("a").passes(0).succeeds()
    degraded = ev.WorkflowModeChanged(
        mode=Mode.DEGRADED, previous=Mode.RUNNING, reason="3 in a row", causes=(4, 5)
    )
    during = mode_events(story, degraded)
    story.after(3600)
    later = mode_events(
        Story("a").after(90_000).passes(0),
        ev.WorkflowModeChanged(mode=Mode.PAUSED, previous=Mode.DEGRADED, reason="x"),
    )
    shown = report(story, workflow_events=[*during, *later])
    assert [entry.what for entry in shown.modes] == ["degraded"]
    assert "events 4, 5" in shown.modes[0].reason
    assert fact(shown, "mode of the workflow") == "degraded"
    assert fact(report(story), "mode of the workflow") == "running"


def test_a_mode_of_every_workflow_is_told_as_such() -> None:
    story = Story("a").passes(0).succeeds()
    paused = ev.WorkflowModeChanged(mode=Mode.PAUSED, previous=Mode.RUNNING, reason="upgrade", actor="dana")
    (event,) = mode_events(story, paused)
    everywhere = msgspec.structs.replace(event, stream=workflow_stream(EVERY_WORKFLOW))
    shown = report(story, workflow_events=[everywhere])
    assert (shown.modes[0].about, shown.modes[0].reason) == (
        "every workflow",
        "from running by dana: upgrade",
    )
    assert fact(shown, "mode of the workflow") == "running; every workflow: paused"


def test_a_pause_of_every_workflow_tells_which_failures_led_to_it() -> None:
    story = Story("a").passes(0).succeeds()
    causes = {f"w{number}": tuple(range(1, 10)) for number in range(6)}
    paused = ev.WorkflowModeChanged(
        mode=Mode.PAUSED, previous=Mode.RUNNING, reason="too many", causes_elsewhere=causes
    )
    (event,) = mode_events(story, paused)
    everywhere = msgspec.structs.replace(event, stream=workflow_stream(EVERY_WORKFLOW))
    told = report(story, workflow_events=[everywhere]).modes[0].reason
    assert "events 5, 6, 7, 8, 9 of w0; 5, 6, 7, 8, 9 of w1" in told
    assert told.endswith("of w4 ...)")


def test_a_run_that_was_kept_out_says_why_before_anything_began() -> None:
    story = Story("a", "b")
    del story.events[1:]
    story.after(7200)
    story.tell(ev.RunBlocked(reason="workflow flow is quarantined", until="2027-01-01T00:00:00.000000Z"))
    shown = report(story)
    assert (shown.status, shown.tone, shown.reason) == ("blocked", Tone.BAD, "workflow flow is quarantined")
    assert [lane.words for lane in shown.timeline.lanes] == ["not run", "not run"]
    assert shown.decisions[0].what == "blocked"


def test_an_escalated_run_says_what_to_do() -> None:
    story = Story("a").starts(0)
    story.tell(
        ev.Escalated(
            escalation_id="e",
            reason="outcome unknown",
            hint="Look whether it was done",
            step_id="a",
            step_index=0,
            failure_class=FailureClass.UNKNOWN,
            failure_kind=FailureKind.IDLE_TIMEOUT,
        )
    )
    shown = report(story)
    assert (shown.status, shown.tone) == ("escalated", Tone.WARN)
    assert [one.text for one in shown.advice] == ["Check whether a was done", "If it was", "If it was not"]


def test_each_end_has_its_advice() -> None:
    def interrupted() -> Story:
        story = Story("a")
        story.tell(ev.RunInterrupted(reason="Ctrl-C", epoch=1))
        return story

    def waiting(what: str) -> Story:
        story = Story("a")
        story.tell(ev.RunWaiting(reason="waits", waiting_for=what))
        return story

    assert report(Story("a").passes(0).succeeds()).advice == ()
    assert report(Story("a").fails(0).ends_badly()).advice[-1].text.startswith("Fix the cause")
    assert report(interrupted()).advice[0].text.startswith("Resume it where it stopped")
    assert report(waiting("driver")).advice[0].text.startswith("Resume it")
    assert [one.text for one in report(waiting("approval")).advice] == ["To approve", "To reject"]


def test_heals_are_shown_when_there_are_any() -> None:
    story = Story("a")
    assert report(story).heals == ()

    class Healed(UnknownPayload, frozen=True, kw_only=True):
        step_id: str
        before: str
        after: str
        reason: str

    story.tell(
        Healed(step_id="a", before="#old", after="#new", reason="same text"), event_type="target.healed"
    )
    (heal,) = report(story).heals
    assert (heal.step_id, heal.before, heal.after, heal.reason) == ("a", "#old", "#new", "same text")


def test_a_fact_of_a_newer_version_is_passed_by() -> None:
    story = Story("a").passes(0)
    story.tell(UnknownPayload(), event_type="task.novelty")
    assert report(story.succeeds()).status == "succeeded"


PATCH = """diff --git a/x.py b/x.py
index 1..2 100644
--- a/x.py
+++ b/x.py
@@ -1,2 +1,2 @@
 same
-old
--- looks like a header
+new
+++ looks like one too
"""


def test_a_patch_is_counted_line_by_line() -> None:
    view = diff_view("a", PATCH, Plain())
    assert view is not None
    assert (view.files, view.added, view.removed, view.lines_left_out) == (("x.py",), 2, 2, 0)
    assert diff_view("a", "\n", Plain()) is None
    long = diff_view("a", PATCH + "+x\n" * 5_000, Plain())
    assert long is not None
    assert long.lines_left_out == 3_010


def test_patches_of_steps_are_in_the_report() -> None:
    shown = report(Story("a"), patches=[Text("a", PATCH), Text("b", "")])
    assert [diff.owner for diff in shown.diffs] == ["a"]


times = st.floats(0, 1e6, allow_nan=False)


@given(st.lists(st.tuples(times, st.floats(0, 1e5)), max_size=20), times)
def test_the_axis_keeps_the_order_of_time_and_stays_in_its_bounds(
    spans: list[tuple[float, float]], more: float
) -> None:
    busy = [(begin, begin + length) for begin, length in spans]
    end = max((stretch[1] for stretch in busy), default=0) + more
    axis = axis_of(busy, end)
    moments = sorted({0.0, end, *(edge for stretch in busy for edge in stretch)})
    places = [axis.place(moment) for moment in moments]
    assert all(0 <= place <= 1.000001 for place in places)
    assert all(one <= other + 1e-9 for one, other in pairwise(places))
    assert len(axis.ticks()) <= 18
    assert len(axis.breaks()) <= 8
