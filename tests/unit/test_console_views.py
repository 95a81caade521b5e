"""What the console's pages about runs say, from values alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.altered import altered

from recoup.gateway.console import comparing, overview_view, run_view
from recoup.gateway.console.event_view import PAYLOAD_CHARS_MAX, event_line
from recoup.gateway.console.lists import Progress, progress
from recoup.gateway.console.patch_view import step_diff
from recoup.gateway.console.runs import line_of
from recoup.gateway.console.runs_query import RunsQuery, filter_of, form, moment_us, runs_query
from recoup.gateway.problems import Refused
from recoup.kernel.elapsed import TimeSpent
from recoup.kernel.fold import advance, submitted
from recoup.kernel.modes import mode_document
from recoup.kernel.preview import previews, previews_of_step
from recoup.model import events as ev
from recoup.model.events import Event, Payload
from recoup.model.failure import Facts, FailureClass, FailureKind
from recoup.model.ids import ProcessIdentity
from recoup.model.instant import Instant
from recoup.model.mode import Health, Mode
from recoup.model.plan import Plan, RunAction, Step
from recoup.model.policy import Policy
from recoup.model.run import RunFailure, RunState
from recoup.model.storage import AttemptRow, RunFilter, RunRow
from recoup.reports.plain import Plain

NOW = Instant(1_800_000_000_000_000, 5_000_000_000, "boot")
PLAIN = Plain()


def row(**more: Any) -> RunRow:
    said: dict[str, Any] = {
        **{"run_id": "r-1", "workflow": "w", "status": "running", "delivery": 1, "reason": ""},
        **{"submitted_at_us": 1_000_000, "updated_at_us": 3_000_000, "seq": 5},
        **more,
    }
    return RunRow(**said)


def begun(*names: str) -> RunState:
    steps = tuple(Step(id=name, action=RunAction("x")) for name in names)
    first = ev.RunSubmitted(
        workflow="w", plan_digest="d", plan=Plan(name="w", steps=steps), plan_redacted=False, inputs={},
        policy_digest="p", queue="default",
    )  # fmt: skip
    owner = ProcessIdentity("host", "boot", 1, 1)
    return told(
        submitted("r-1", first, NOW),
        ev.RunStarted(delivery=1, epoch=1, owner=owner, policy_digest="p"),
    )


def told(state: RunState, *facts: Payload, at: Instant = NOW) -> RunState:
    for fact in facts:
        state = advance(state, fact, at, state.seq + 1)
    return state


def started(attempt: int = 1, step: str = "a", index: int = 0) -> ev.AttemptStarted:
    return ev.AttemptStarted(
        step_id=step, step_index=index, attempt=attempt, delivery=1, kind="run", args_digest="d",
        pre_state=None, workspace=None, inline=True,
    )  # fmt: skip


def failed(attempt: int = 1, signature: str = "v2:aa", excerpt: str = "", **more: Any) -> ev.AttemptFailed:
    return ev.AttemptFailed(
        step_id="a", step_index=0, attempt=attempt, summary="exit 3", outcome_known=True,
        facts=Facts(kind=FailureKind.EXIT_NONZERO, exit_code=3, excerpt=excerpt),
        failure_class=FailureClass.TRANSIENT_RUNTIME, failure_kind=FailureKind.EXIT_NONZERO,
        failure_signature=signature, **more,
    )  # fmt: skip


def finished(attempt: int = 1) -> ev.AttemptFinished:
    return ev.AttemptFinished(step_id="a", step_index=0, attempt=attempt, verdict="passed", duration_ms=1)


def at(seq: int, fact: Payload) -> Event:
    return Event("run:r-1", seq, NOW.plus_s(seq), fact.TYPE, fact, msgspec.json.encode(fact))


# Which runs


def test_filters_are_read_from_an_address_and_written_into_one() -> None:
    wanted = runs_query(
        [
            *(("workflow", " pay "), ("since", "24h"), ("class", "transient_runtime")),
            *(("status", "failed"), ("status", "failed"), ("cursor", "x"), ("text", " ")),
        ]
    )
    assert wanted.values == {
        "status": ("failed",), "workflow": ("pay",), "class": ("transient_runtime",), "since": ("24h",)
    }  # fmt: skip
    assert wanted.query() == "status=failed&workflow=pay&class=transient_runtime&since=24h"
    assert runs_query([]).address() == "/runs" and runs_query([]).is_all
    assert wanted.toggled("status", "failed") == "/runs?workflow=pay&class=transient_runtime&since=24h"
    assert wanted.without("status") == "/runs?workflow=pay&class=transient_runtime&since=24h"
    assert RunsQuery().toggled("status", "queued") == "/runs?status=queued"


def test_filters_ask_the_ledger_for_what_they_say() -> None:
    said = {
        "workflow": "pay",
        "class": "unknown",
        "worker": "w",
        "since": "1s",
        "until": "1970-01-01T00:00:09",
        "text": "x",
    }
    query = runs_query([*said.items(), ("status", "failed"), ("status", "queued")])
    assert filter_of(query, 5_000_000) == RunFilter(
        workflow="pay", statuses=("failed", "queued"), failure_class="unknown", worker="w", since_us=4_000_000,
        until_us=9_000_000, text="x",
    )  # fmt: skip
    assert filter_of(RunsQuery(), 0) == RunFilter()


def test_filters_are_said_as_a_command_that_can_be_pasted() -> None:
    wanted = runs_query(
        [("status", "failed"), ("status", "queued"), ("workflow", "a b"), ("since", "2h"), ("text", "oh")]
    )
    assert wanted.command() == [
        *("recoup", "runs", "--status", "failed", "--status", "queued"),
        *("--workflow", "a b", "--since", "2h", "--text", "oh"),
    ]
    assert runs_query([("since", "2026-11-16T08:00"), ("until", "1h")]).command() == ["recoup", "runs"]


def test_the_form_has_a_field_for_every_filter_that_is_not_chosen_elsewhere() -> None:
    fields = form(runs_query([("workflow", "pay")]), {"workflow": {"pay": ""}})
    assert [field.name for field in fields] == ["text", "workflow", "class", "worker", "since", "until"]
    assert (fields[1].value, fields[1].suggestions, fields[1].is_name) == ("pay", {"pay": ""}, True)
    assert "transient_runtime" in fields[2].choices


def test_times_are_ages_or_moments() -> None:
    assert moment_us("", 0) is None
    assert moment_us("2h", 7_200_000_000) == 0
    assert moment_us("1970-01-01T00:00:01", 0) == 1_000_000
    assert moment_us("1970-01-01T01:00:01+01:00", 0) == 1_000_000
    for wrong in ("yesterday", "24x", "99999d"):
        with pytest.raises(Refused):
            moment_us(wrong, 0)


def test_a_status_that_is_none_is_refused() -> None:
    with pytest.raises(Refused, match="is no status"):
        runs_query([("status", "<script>")])


# Lists


def attempt(index: int, number: int, state: str, begin_us: int, end_us: int | None) -> AttemptRow:
    return AttemptRow(
        "r-1", index, f"s{index}", number, 1, state, None, None, None, None, None, None, begin_us, end_us
    )


def test_progress_is_told_by_the_last_attempt_of_each_step() -> None:
    rows = [
        attempt(0, 1, "failed", 0, 10),
        attempt(0, 2, "finished", 20, 30),
        attempt(1, 1, "started", 40, None),
    ]
    assert progress(rows, 3) == Progress(1, 3, "s1", 40, 1)
    assert progress([], 3) == Progress(0, 3)


def test_a_line_says_how_long_a_run_lasted_and_what_can_be_done_with_it() -> None:
    running = line_of(row(), Progress(1, 2), "w-1", TimeSpent(60.0, 0.0))
    assert (running.lasted, running.progress, running.can_cancel, running.can_retry) == (
        "1 min 00 s",
        "1 of 2",
        True,
        False,
    )
    ended = line_of(row(status="dead_letter", ended_at_us=3_000_000), None, "", TimeSpent(2.0, 840.0))
    assert not running.is_stopped and line_of(row(), None, "", None, driven=False).is_stopped
    assert ended.lasted == "2.0 s of work, waited 14 min 00 s for a person"
    assert (ended.progress, ended.can_cancel, ended.can_retry) == ("", False, True)


def test_tiles_are_loud_only_where_there_is_something() -> None:
    tiles = {tile.status: tile for tile in overview_view.tiles({"failed": 1_000})}
    assert (tiles["failed"].count, tiles["failed"].tone) == ("1,000", "bad")
    assert tiles["failed"].address == "/runs?status=failed"
    assert (tiles["escalated"].count, tiles["escalated"].tone) == ("0", "plain")


def test_only_what_needs_a_person_is_said_to_wait_for_one() -> None:
    state = begun("a")
    cases = {
        "approval": "approval",
        "operator": "paused",
        "driver": None,
        "time": None,
    }
    for waiting_for, what in cases.items():
        state = told(state, ev.RunWaiting(reason="x", waiting_for=waiting_for))
        seen = overview_view.waiting_run(row(status="waiting"), state)
        assert (None if seen is None else seen.what) == what
    state = altered(state, queueing__queue=None, hold__waiting_for="driver")
    alone = overview_view.waiting_run(row(status="waiting"), state)
    assert alone is not None and [one.command for one in alone.advice] == ["recoup resume r-1"]
    assert overview_view.waiting_run(row(status="waiting"), None) is None
    handed = overview_view.waiting_run(row(status="escalated", reason="who knows"), None)
    assert handed is not None and (handed.what, handed.reason) == ("escalation", "who knows")


def test_a_stopped_workflow_waits_for_a_person_and_a_running_one_does_not() -> None:
    now = Instant(10**15, 10**9, "boot")
    mode = mode_document("*", Health(mode=Mode.PAUSED, reason="night"), Policy(), now)
    seen = overview_view.stopped_workflow(mode)
    assert seen is not None and (seen.workflow, seen.what) == ("", "workflow paused")
    assert overview_view.stopped_workflow(msgspec.structs.replace(mode, mode="running")) is None


def test_what_runs_now_is_shown_with_its_step_and_for_how_long() -> None:
    seen = overview_view.running(row(), Progress(1, 3, "build", 2_000_000, 2), "w-1", now_us=5_000_000)
    assert (seen.step, seen.attempt, seen.for_, seen.done) == ("build", 2, "3.0 s", "1 of 3")
    unknown = overview_view.running(row(), None, "", now_us=5_000_000)
    assert (unknown.step, unknown.for_, unknown.done) == ("", "4.0 s", "")


# One run


def test_where_a_run_stands_is_said_with_its_attempt_or_what_it_waits_for() -> None:
    state = begun("a", "b")
    seen = run_view.now_of(state, NOW)
    assert seen is not None and seen.words == "comes next"
    state = told(state, started())
    seen = run_view.now_of(state, NOW.plus_s(3))
    assert seen is not None and (seen.step_id, seen.words) == ("a", "attempt 1, for 3.0 s")
    state = told(state, failed(strategy="soft_reset"))
    heal = ev.SelfHealTriggered(
        step_id="a", step_index=0, attempt=1, delay_ms=500, strategy="soft_reset", reason="again"
    )
    state = told(state, heal)
    seen = run_view.now_of(state, NOW)
    assert seen is not None and seen.words == "soft reset in 500 ms"
    state = told(state, ev.RunCancelled(reason="no", actor="ann"))
    assert run_view.now_of(state, NOW) is None


def test_a_button_says_what_it_would_do_or_why_it_may_not_be_pressed() -> None:
    state = begun("a", "b")
    seen = {one.label: one for one in run_view.buttons_of("r-1", previews(state, Policy(), True), True)}
    pause = seen["Pause"]
    assert pause.why_not == "" and pause.post == "/api/runs/r-1/control" and pause.body == {"action": "pause"}
    assert pause.command == "recoup control r-1 pause --reason '...'"
    assert seen["Resume"].why_not == "the run is not paused" and seen["Resume"].in_front
    assert not seen["Approve"].in_front
    assert seen["Settle as not done"].body == {"action": "settle", "as": "not-done"}
    assert seen["Retry step"].body == {"action": "retry_step", "stepId": "a"}
    looking = run_view.buttons_of("r-1", previews(state, Policy(), True), False)
    assert {one.why_not for one in looking if one.label == "Pause"} == {run_view.LOOKS_ONLY}


def test_a_new_run_from_a_step_is_submitted_and_not_steered() -> None:
    state = told(begun("a", "b"), started(), finished())
    anew = run_view.button_of("r-1", previews_of_step(state, 1, Policy(), False)[1], True)
    assert (anew.post, anew.body) == ("/api/runs", {"reuse": "r-1", "fromStep": "b"})
    assert anew.command == "recoup submit plan.yaml --reuse r-1 --from-step b"


def test_the_frontier_says_why_it_is_there() -> None:
    state = told(begun("a", "b"), started(), failed())
    lines = [run_view.step_line(state, record, (), True) for record in state.steps]
    assert [(line.verdict, line.is_frontier) for line in lines] == [("failed", True), ("not_run", False)]
    assert lines[0].reason == "failed: exit 3" and lines[0].attempts == 1
    assert ("signature", "v2:aa") in lines[0].facts


def test_a_long_plan_is_shown_where_its_frontier_is() -> None:
    state = begun(*[f"s{number}" for number in range(250)])
    assert run_view.first_step(state, None) == 0
    state = altered(state, progress__prefix_length=130)
    assert run_view.first_step(state, None) == 100
    assert run_view.first_step(state, 999) == 200
    state = altered(state, progress__prefix_length=250)
    assert run_view.first_step(state, None) == 200


def test_what_is_known_of_a_run_names_its_failure_its_origin_and_its_escalation() -> None:
    state = altered(
        told(begun("a"), started(), failed()),
        failure=RunFailure(FailureClass.TRANSIENT_RUNTIME, FailureKind.EXIT_NONZERO),
        lineage__parent_run_id="r-0",
        escalation__id="esc-1",
        driver__takeovers=2,
    )
    facts = {fact.label: fact for fact in run_view.facts_of(state, "", NOW.plus_s(2))}
    assert facts["failure"].value == "transient runtime, exit nonzero"
    assert (
        facts["goes on from"].address == "/runs/r-0" and facts["escalation"].address == "/escalations/esc-1"
    )
    assert (facts["driven by"].value, facts["drivers lost"].value) == ("nobody", "2")


# Attempts side by side


def test_two_attempts_are_compared_by_what_they_left() -> None:
    events = [
        at(1, started()),
        at(2, failed(excerpt="one\ntwo", diff_hash="sha256:11")),
        at(3, ev.SelfHealTriggered(step_id="a", step_index=0, attempt=1, delay_ms=500, strategy="soft_reset", reason="x")),
        at(4, started(2)),
        at(5, failed(2, excerpt="one\nthree", diff_hash="sha256:11")),
        at(6, started(3)),
        at(7, finished(3)),
        at(8, started(1, "b", 1)),
        at(9, started(4)),
    ]  # fmt: skip
    known = comparing.tried(events, 0)
    assert sorted(known) == [1, 2, 3, 4]
    assert known[1].decided == "soft reset after 500 ms: x" and known[1].lasted == "1.0 s"
    assert known[4].outcome == "has not ended"
    rows = {one.label: one for one in comparing.rows(known[1], known[2], PLAIN)}
    assert rows["signature"].same and rows["change (diff hash)"].same and not rows["what followed"].same
    assert "nothing new" in comparing.verdict(known[1], known[2])
    assert comparing.verdict(known[1], known[3]) == "Only one of them failed."
    assert comparing.verdict(known[3], known[4]) == "Neither of them failed."


@pytest.mark.parametrize(
    ("signature", "diff", "words"),
    [
        ("v2:aa", "sha256:22", "The same failure after another change."),
        ("v2:bb", "sha256:11", "Another failure after the same change."),
        ("v2:bb", "sha256:22", "Another failure after another change."),
    ],
)
def test_whether_an_attempt_brought_anything_new_is_a_sentence(signature: str, diff: str, words: str) -> None:
    events = [
        *(at(1, started()), at(2, failed(diff_hash="sha256:11"))),
        *(at(3, started(2)), at(4, failed(2, signature, diff_hash=diff))),
    ]
    known = comparing.tried(events, 0)
    assert comparing.verdict(known[1], known[2]) == words


def test_a_log_is_cut_into_what_each_attempt_printed() -> None:
    log = "rest\n--- attempt 1 of a at 2026-11-16T01:02:03.000000Z\none\n--- attempt 2 of a at 2026-11-16T01:02:04.000000Z\ntwo\n"
    assert comparing.outputs(log) == {1: "one\n", 2: "two\n"}
    assert comparing.outputs("no heading\n") == {}


def test_lines_that_differ_stand_beside_each_other() -> None:
    pairs = comparing.side_by_side(["a", "b", "c"], ["a", "x", "y", "c"])
    assert [(pair.kind, pair.left, pair.right) for pair in pairs] == [
        ("same", "a", "a"),
        ("changed", "b", "x"),
        ("right", "", "y"),
        ("same", "c", "c"),
    ]
    assert [pair.kind for pair in comparing.side_by_side(["a"], [])] == ["left"]


# What was changed, and what was recorded

PATCH = """diff --git a/one.txt b/one.txt
index 1..2 100644
--- a/one.txt
+++ b/one.txt
@@ -1,2 +1,2 @@
 same
-old
+new
diff --git a/two.txt b/two.txt
new file mode 100644
--- /dev/null
+++ b/two.txt
@@ -0,0 +1 @@
+<script>
"""


def test_a_patch_is_shown_file_by_file() -> None:
    made = step_diff("build", 1, PATCH, False, PLAIN)
    assert made is not None and (made.added, made.removed, made.files_count) == (2, 1, 2)
    assert [(file.name, file.added, file.removed) for file in made.files] == [
        ("one.txt", 1, 1),
        ("two.txt", 1, 0),
    ]
    assert [piece.kind for piece in made.files[0].pieces] == ["hunk", "same", "del", "add"]
    assert made.files[1].pieces[-1].text == "+<script>"


def test_a_patch_without_a_head_is_shown_all_the_same_and_an_empty_one_is_not() -> None:
    made = step_diff("build", 1, "@@ -1 +1 @@\n-a\n+b\n", True, PLAIN)
    assert made is not None and [file.name for file in made.files] == ["changes"] and made.left_out == 1
    assert step_diff("build", 1, " \n", False, PLAIN) is None


def test_an_event_is_a_line_with_its_payload_within_a_limit() -> None:
    line = event_line(at(7, msgspec.structs.replace(failed(), summary="oh\nno")))
    assert (line.seq, line.tone, line.step_id, line.attempt) == (7, "bad", "a", "1")
    assert line.words == "a: attempt 1 failed: oh no" and '"stepId": "a"' in line.payload and not line.cut
    long = event_line(at(8, msgspec.structs.replace(failed(excerpt="x" * 20_000), summary="y" * 900)))
    assert long.cut and len(long.payload) == PAYLOAD_CHARS_MAX and long.words.endswith("…")
