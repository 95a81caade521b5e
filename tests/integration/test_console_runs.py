"""The console's pages about runs, in a real browser on a real gateway."""

from __future__ import annotations

import base64
import importlib
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.integration.browser_house import needs_browser
from tests.integration.console_reader import Reader, append_to, browsing, signed_in
from tests.integration.gateway_house import Gateway, gateway
from tests.repositories import new_repository

from recoup.gateway.console import run_view
from recoup.model import events as ev
from recoup.model.answers.controls import ControlPreviews
from recoup.model.plan import Plan, RunAction, Step

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = needs_browser
HOSTILE = "<img src=x onerror=window.x=1><script>window.x=1</script>"
BROKEN = """{version: 1, name: broken, defaults: {max_attempts: 2}, steps: [
  {id: good, run: 'echo fine'},
  {id: bad, title: Fails always, run: "echo $RECOUP_ATTEMPT; printf '\\\\033[31moh no\\\\033[0m\\\\n'; exit 3"}]}"""
GATE = "{version: 1, name: gated, steps: [{id: a, run: 'true'}, {id: g, approve: {message: 'Go on?'}}, {id: z, run: 'true'}]}"
SLOW = "{version: 1, name: slow, steps: [{id: a, run: 'true'}, {id: b, run: 'echo begun; sleep 60'}, {id: c, run: 'true'}]}"
UNKNOWN = "{version: 1, name: pay, steps: [{id: pay, run: sleep 60, timeout: 1s, repeat: never}, {id: z, run: 'true'}]}"
IDLE = "{version: 1, name: idle, steps: [{id: a, run: 'true'}]}"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("console")
    (folder / "policy.yaml").write_text("delivery_max: 1\n")  # what has failed is not tried again by itself
    policy = {"RECOUP_POLICY": str(folder / "policy.yaml")}
    with gateway(folder / "home", "--workers", "4", env=policy) as served:
        yield served


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as opened:
        yield opened


@pytest.fixture(scope="module")
def shared(house: Gateway, browser: Browser) -> Iterator[Reader]:
    reader = signed_in(house, browser)
    yield reader
    reader.context.close()


@pytest.fixture
def reader(shared: Reader) -> Iterator[Reader]:
    shared.troubles.clear()
    yield shared
    told = shared.troubles
    assert told == []


@pytest.fixture(scope="module")
def broken(house: Gateway) -> str:
    """A run that failed for good, after two attempts of its second step."""
    run_id = house.submit(BROKEN, reason="to look at it")
    house.wait(run_id, lambda run: run["status"] in ("failed", "dead_letter"))
    return run_id


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_repository(tmp_path_factory.mktemp("origin"), {"a.txt": "one\n"})


def at_work(house: Gateway, plan: str = SLOW, step: str = "b") -> str:
    run_id = house.submit(plan)
    house.wait(run_id, lambda run: (run["frontier"] or {}).get("reason") == "attempt 1 has not ended"
               and run["frontier"]["stepId"] == step)  # fmt: skip
    return run_id


def stands(house: Gateway, run_id: str, status: str) -> Any:
    return house.wait(run_id, lambda run: run["status"] == status)


def cancel(house: Gateway, run_id: str) -> None:
    with house.client() as client:
        client.post(f"/api/runs/{run_id}/control", json={"action": "cancel", "reason": "seen"})


def button(page: Page, label: str) -> Any:
    return page.locator(".controls").get_by_role("button", name=label, exact=True)


# Overview and lists


def test_the_overview_says_what_failed_what_waits_and_what_runs(
    house: Gateway, reader: Reader, broken: str
) -> None:
    gate = house.submit(GATE)
    stands(house, gate, "waiting")
    slow = at_work(house)
    page = reader.see("/")
    asked = page.locator(".asks li", has_text=gate)
    assert "approval" in asked.inner_text() and "Go on?" in asked.inner_text()
    assert (
        "oh no"
        in page.locator("section", has_text="Newest failures").locator("tr", has_text=broken).inner_text()
    )
    now = page.locator("section", has_text="Runs now").locator("tr", has_text=slow)
    assert "b" in now.locator("td").nth(1).inner_text() and "1 of 3" in now.inner_text()
    assert page.locator("figure.plot svg[role=img]").count() == 3
    page.locator("figure.plot summary").first.click()
    assert page.locator("figure.plot table").first.is_visible()
    page.locator("a.tile", has_text="dead letters").click()
    page.wait_for_url("**/runs?status=dead_letter")
    assert page.locator("tbody tr", has_text=broken).count() == 1
    cancel(house, slow)


def test_runs_are_filtered_by_their_address_and_paged(house: Gateway, reader: Reader, broken: str) -> None:
    ids = [house.submit(IDLE, queue="nobody") for _ in range(52)]
    page = reader.see("/runs?workflow=idle")
    assert page.locator("[data-select]").count() == 50
    page.get_by_role("link", name="Older runs").click()
    page.wait_for_url("**cursor=**")
    assert page.locator("tbody tr[id]").count() == 2
    assert page.locator("tbody").inner_text().count(ids[0]) == 1
    page = reader.see("/runs")
    page.locator(".chips").get_by_role("link", name="failed").click()
    page.locator(".chips").get_by_role("link", name="dead letter").click()
    assert page.url.endswith("/runs?status=failed&status=dead_letter")
    page.fill("#f-text", "OH NO")
    page.press("#f-text", "Enter")
    page.wait_for_url("**text=OH**")
    assert page.locator("tbody tr[id]").count() == 1
    row = page.locator(f"#row-{broken}").inner_text()
    assert "1 of 2" in row and "broken" in row
    copied = page.get_by_role("button", name="Copy as command").get_attribute("data-copy")
    assert copied == "recoup runs --status failed --status dead_letter --text 'OH NO'"
    page = reader.see("/runs?text=nothing-is-like-this")
    assert "No run fits all of this." in page.locator("tbody").inner_text()
    far = base64.urlsafe_b64encode(f'[{"9" * 40}, "x"]'.encode()).decode().rstrip("=")
    wrong = {"/runs?since=yesterday": 422, "/runs?status=odd": 422, "/runs?cursor=x": 400, f"/runs?cursor={far}": 400,
             f"/runs/{broken}?from={'9' * 5000}": 200, f"/runs/{broken}?view=events&before={'9' * 30}": 200,
             f"/runs/{broken}?view=log&step=none": 404, "/runs/none": 404}  # fmt: skip
    for path, status in wrong.items():
        assert reader.context.request.get(reader.url + path).status == status, path[:80]


def test_many_runs_are_cancelled_with_the_keyboard_after_exactly_these_were_listed(
    house: Gateway, reader: Reader
) -> None:
    ids = [house.submit(IDLE.replace("idle", "bulk"), queue="nobody") for _ in range(3)]
    page = reader.see("/runs?workflow=bulk")
    cancel = page.locator("[data-bulk-act=cancel]")
    assert cancel.get_attribute("aria-disabled") == "true"
    for run_id in ids[:2]:
        page.locator(f'[data-select][value="{run_id}"]').focus()
        page.keyboard.press("Space")
    assert page.locator("[data-bulk-count]").inner_text() == "2 selected"
    cancel.focus()
    page.keyboard.press("Enter")
    listed = page.locator("#ask .scope-list li").all_inner_texts()
    assert sorted(line.split(" ")[0] for line in listed) == sorted(ids[:2])
    page.fill("#ask #reason", "not needed")
    page.keyboard.press("Enter")
    page.wait_for_selector("#bulk-result:not([hidden])")
    assert page.locator("[data-bulk-results] li").count() == 2
    assert [house.run(run_id)["status"] for run_id in ids] == ["cancelled", "cancelled", "queued"]
    page.wait_for_function(
        "() => [...document.querySelectorAll('tr')].filter((row) => row.innerText.includes('cancelled')).length === 2"
    )
    page.wait_for_function("""() => {
        const all = document.querySelector('[data-select-all]');
        if (!all.checked) all.click();
        return document.querySelector('[data-bulk-count]').innerText === '3 selected';
    }""")
    page.locator("[data-bulk-act=retry]").click()
    assert "The other 1 selected cannot be" in page.locator("#ask .scope").inner_text()
    page.fill("#ask #reason", "after all")
    page.locator("#ask [type=submit]").click()
    page.wait_for_function("() => document.querySelectorAll('[data-bulk-results] a').length === 4")


# One run


def test_every_view_of_a_run_says_what_the_ledger_says(reader: Reader, broken: str) -> None:
    page = reader.see(f"/runs/{broken}")
    assert page.locator("h1").inner_text() == "broken"
    assert "oh no" in page.locator(".lead").inner_text()
    steps = page.locator(".run-steps > li")
    assert steps.count() == 2 and "frontier" in steps.nth(1).inner_text()
    for name, words in run_view.VIEWS:
        page.locator(".tabs").get_by_role("link", name=words).click()
        page.wait_for_url(f"**view={name}")
        assert page.locator(".tabs [aria-current=page]").inner_text() == words
    page = reader.see(f"/runs/{broken}?view=timeline")
    assert page.locator(".chart .row").count() >= 3
    assert page.locator(".chart rect.wait title").first.text_content() == "in the queue default"
    assert page.locator("article.card h3").all_inner_texts() == ["bad"]
    page = reader.see(f"/runs/{broken}?view=plan")
    assert "Fails always" in page.locator(".plan-text").inner_text()
    with page.expect_download() as begun:
        page.get_by_role("link", name="Download report").click()
    assert begun.value.suggested_filename == f"{broken}.html"


def test_old_events_show_the_clock_and_the_zone_is_named_once(reader: Reader, broken: str) -> None:
    page = reader.see(f"/runs/{broken}?view=events")
    page.wait_for_function("document.querySelector('[data-zone]').textContent !== 'Times: UTC'")
    assert page.locator("[data-zone]").count() == 1
    shown = page.evaluate(
        """() => {
          const [first, second] = document.querySelectorAll(".event-list time");
          first.dateTime = new Date(Date.now() - 600_000).toISOString();
          second.dateTime = new Date(Date.now() - 9_000).toISOString();
          document.dispatchEvent(new Event("htmx:afterSettle"));
          return [first.textContent, second.textContent, first.title.includes(`(${first.dateTime})`)];
        }"""
    )
    assert re.search(r"\b\d\d:\d\d:\d\d$", shown[0]) and shown[1].startswith("9") and shown[2]


def test_two_attempts_are_compared_side_by_side(reader: Reader, broken: str) -> None:
    page = reader.see(f"/runs/{broken}?view=compare&step=bad&a=1&b=2")
    assert "The same failure" in page.locator("#content .lead").last.inner_text()
    signature = page.locator("table.compare tr", has_text="signature")
    assert "same" in signature.inner_text()
    assert page.locator("table.sides tr.changed td").all_inner_texts() == ["1", "2"]
    assert "oh no" in page.locator("table.sides tr.same").inner_text()


def test_events_are_filtered_and_their_payloads_open(reader: Reader, broken: str) -> None:
    page = reader.see(f"/runs/{broken}?view=events")
    page.fill("#e-type", "attempt.failed")
    page.press("#e-type", "Enter")
    page.wait_for_url("**type=attempt.failed")
    lines = page.locator(".event-list > li")
    assert lines.count() == 2
    lines.first.locator("summary").click()
    assert '"stepId": "bad"' in lines.first.locator("pre").inner_text()


def test_what_a_step_changed_is_shown_file_by_file(house: Gateway, reader: Reader, repository: Path) -> None:
    steps = "[{id: edit, run: 'echo two >> a.txt; echo \"<script>window.x=1</script>\" > b.html'}]"
    run_id = house.submit(f"{{version: 1, name: edits, workspace: {{git: {repository}}}, steps: {steps}}}")
    stands(house, run_id, "succeeded")
    page = reader.see(f"/runs/{run_id}?view=changes")
    files = page.locator("details.diff-file")
    assert files.locator("summary code").all_inner_texts() == ["a.txt", "b.html"]
    assert "+two" in files.first.locator(".add").inner_text()
    assert "<script>" in files.nth(1).inner_text() and page.evaluate("window.x") is None
    files.first.locator("summary").click()
    assert not files.first.locator("pre").is_visible()


# Controls


def test_a_run_is_paused_resumed_taken_over_and_cancelled(house: Gateway, reader: Reader) -> None:
    run_id = at_work(house)
    page = reader.see(f"/runs/{run_id}")
    assert button(page, "Resume").get_attribute("aria-disabled") == "true"
    button(page, "Resume").click(force=True)
    assert "the run is not paused" in page.locator("#said").inner_text()
    assert "Attempt 1 of b goes on to its end" in reader.act("Pause")
    page = reader.see(f"/runs/{run_id}")
    assert "The run goes on at b" in reader.act("Resume")
    assert "Attempt 1 of b is ended now" in reader.act("Take over")
    stands(house, run_id, "waiting")
    page = reader.see(f"/runs/{run_id}")
    assert "taken over" in page.locator(".head").first.inner_text()
    assert "workspace" not in reader.act("Resume"), "its plan has none"
    house.wait(run_id, lambda run: "attempt 2" in (run["frontier"] or {}).get("reason", ""))
    reader.see(f"/runs/{run_id}")
    assert "This cannot be taken back." in reader.act("Cancel run", "enough")
    assert stands(house, run_id, "cancelled")["reason"] == "enough"


def test_a_step_is_tried_again_reset_and_gone_back_to(
    house: Gateway, reader: Reader, repository: Path
) -> None:
    plan = SLOW.replace("steps:", f"workspace: {{git: {repository}}}, steps:").replace(
        "'true'", "echo x > f", 1
    )
    run_id = at_work(house, plan)
    reader.see(f"/runs/{run_id}")
    assert "b is tried again at once" in reader.act("Retry step")
    house.wait(run_id, lambda run: "attempt 2" in run["frontier"]["reason"])
    page = reader.see(f"/runs/{run_id}")
    assert "The workspace is restored to the end of a" in reader.act("Hard reset step")
    house.wait(run_id, lambda run: "attempt 3" in run["frontier"]["reason"])
    page = reader.see(f"/runs/{run_id}")
    assert "job_self_heal_max_resets" in (button(page, "Hard reset step").get_attribute("data-why-not") or "")
    assert "does not count" in reader.act("Hard reset beyond the limit")
    house.wait(run_id, lambda run: "attempt 4" in run["frontier"]["reason"])
    reader.see(f"/runs/{run_id}")
    reader.act("Take over")
    stands(house, run_id, "waiting")
    page = reader.see(f"/runs/{run_id}")
    page.locator("#more-0 summary").click()
    assert page.locator("#more-2 [data-act]", has_text="Go back").get_attribute("aria-disabled") == "true"
    scope = reader.act("Go back to here", within="#more-0")
    assert "a: what it did counts no more" in scope and "restored to the beginning" in scope
    house.wait(run_id, lambda run: run["frontier"]["stepId"] == "b")
    with house.client() as client:
        rows = client.get(f"/api/runs/{run_id}/attempts").json()["items"]
        assert [row["attempt"] for row in rows if row["stepId"] == "a"] == [1, 2]
    cancel(house, run_id)


@pytest.mark.parametrize(("label", "status"), [("Approve", "succeeded"), ("Reject", "failed")])
def test_a_gate_is_answered(house: Gateway, reader: Reader, label: str, status: str) -> None:
    run_id = house.submit(GATE)
    stands(house, run_id, "waiting")
    reader.see(f"/runs/{run_id}")
    scope = reader.act(label, "seen by two")
    assert ("The run goes on with z." in scope) == (label == "Approve")
    stands(house, run_id, status)


@pytest.mark.parametrize(
    ("label", "words"), [("Settle as done", "not performed again"), ("Settle as not done", "done twice")]
)
def test_a_step_with_an_unknown_outcome_is_settled(
    house: Gateway, reader: Reader, label: str, words: str
) -> None:
    run_id = house.submit(UNKNOWN)
    stands(house, run_id, "escalated")
    page = reader.see(f"/runs/{run_id}")
    assert "settle it first" in (button(page, "Retry step").get_attribute("data-why-not") or "")
    assert words in reader.act(label)
    if label == "Settle as done":
        stands(house, run_id, "succeeded")
    else:
        house.wait(run_id, lambda run: "attempt 2" in (run["frontier"] or {}).get("reason", ""))
        cancel(house, run_id)


def test_a_new_run_begins_at_a_step_and_reuses_what_is_before_it(
    house: Gateway, reader: Reader, broken: str
) -> None:
    page = reader.see(f"/runs/{broken}")
    page.locator("#more-1 summary").click()
    scope = reader.act("New run from here", within="#more-1")
    assert "performs bad" in scope and "This run stays as it is." in scope
    page.wait_for_url(re.compile(rf"/runs/(?!{broken})"))
    made = page.url.rpartition("/")[2]
    assert house.run(made)["parentRunId"] == broken
    assert page.locator(".facts a", has_text=broken).count() >= 1


def test_programs_are_told_what_every_control_would_do(house: Gateway, broken: str) -> None:
    with house.client("viewer") as client:
        answer = client.get(f"/api/runs/{broken}/controls?stepId=good")
        told = msgspec.json.decode(answer.content, type=ControlPreviews)
        assert client.get(f"/api/runs/{broken}/controls?stepId=none").status_code == 404
    assert {"pause", "settle", "cancel", "resume_from_step", "new_run"} <= {one.action for one in told.items}
    anew = told.items[-1]
    assert anew.allowed and anew.scope.again == ["good", "bad"]


def test_a_viewer_sees_every_control_disabled_and_is_told_why(
    house: Gateway, browser: Browser, broken: str
) -> None:
    viewer = signed_in(house, browser, "viewer")
    page = viewer.see(f"/runs/{broken}")
    acts = page.locator("[data-act]")
    assert acts.count() > 10 and page.locator('[data-act]:not([aria-disabled="true"])').count() == 0
    page.locator("#more-1 summary").click()
    page.locator("#more-1").get_by_role("button", name="New run from here").click(force=True)
    assert page.locator("#said").inner_text() == run_view.LOOKS_ONLY
    page = viewer.see("/runs/new")
    assert "may only look" in page.locator(".note.bad").inner_text()
    viewer.context.close()


# Submitting


def test_a_plan_is_submitted_or_all_its_problems_are_said_with_their_lines(reader: Reader) -> None:
    page = reader.see("/runs/new")
    assert "A plan is code." in page.locator(".note").inner_text()
    page.fill("#plan", "version: 1\nname: typed\nsteps:\n  - id: a\n    run: 'true'\n    retries: 3\n")
    page.get_by_role("button", name="Submit").click()
    problem = page.locator("#problems li").first
    problem.wait_for()
    assert "line 6" in problem.inner_text() and "retries" in problem.inner_text()
    assert all("422" in one or "404" in one for one in reader.troubles)
    reader.troubles.clear()
    problem.get_by_role("button").click()
    chosen = "(() => { const t = document.getElementById('plan'); return t.value.slice(t.selectionStart, t.selectionEnd); })()"
    assert page.evaluate(chosen) == "    retries: 3"
    page.fill("#plan", "version: 1\nname: typed\ninputs: {who: {}}\nsteps: [{id: a, run: 'true'}]")
    page.fill("#inputs", "who=you=me")
    page.fill("#why", "by hand")
    page.get_by_role("button", name="Submit").click()
    page.wait_for_url(re.compile(r"/runs/[0-9]{8}-"))
    page.goto(f"{page.url}?view=plan")
    assert "you=me" in page.locator("section", has_text="Inputs").first.inner_text()


# What others wrote


def test_nothing_that_runs_say_can_act_on_a_page(house: Gateway, reader: Reader) -> None:
    steps = (Step(id="s", action=RunAction(HOSTILE), title=HOSTILE),)
    first = ev.RunSubmitted(
        workflow=HOSTILE, plan_digest="d", plan=Plan(name=HOSTILE, steps=steps, objective=HOSTILE),
        plan_redacted=False, inputs={HOSTILE: HOSTILE}, policy_digest="p", plan_source=HOSTILE,
        submitted_by=HOSTILE,
    )  # fmt: skip
    run_id = "20200101-000000-abcdef"
    ended = ev.RunCancelled(reason=HOSTILE, actor=HOSTILE)
    append_to(house.home, f"run:{run_id}", [first, ended])
    log = house.home / "runs" / run_id / "artifacts" / "logs" / "steps" / "step-0000.log"
    patch = house.home / "runs" / run_id / "artifacts" / "patches" / "steps" / "step-0000.patch"
    for file in (log, patch):
        file.parent.mkdir(parents=True)
    log.write_text(f"{HOSTILE}\n\x1b]8;;javascript:window.x=1\x07link\x1b]8;;\x07\n")
    patch.write_text(f"diff --git a/{HOSTILE} b/{HOSTILE}\n@@ -0,0 +1 @@\n+{HOSTILE}\n")
    views = [f"/runs/{run_id}?view={name}" for name, _ in run_view.VIEWS]
    for path in ("/", f"/runs?text={run_id}", *views):
        page = reader.see(path)
        if "view=log" in path:
            page.wait_for_selector(".log-lines .l")
            assert page.locator(".log-lines").inner_text().splitlines()[:2] == [HOSTILE, "link"]
        assert (
            page.evaluate("window.x") is None
            and page.locator("#content img[src=x], #content script").count() == 0
        )
    assert reader.dialogs == []


# Output


def test_colours_become_classes_and_every_other_sequence_is_dropped(reader: Reader) -> None:
    page = reader.see("/runs/new")
    source = page.locator("script[src$='new_run.js']").get_attribute("src") or ""
    read = """async ([address, lines]) => {
      const { parseLine, plainStyle } = await import(address);
      const style = plainStyle();
      return lines.map((line) => parseLine(line, style));
    }"""

    def parsed(*lines: str) -> Any:
        return page.evaluate(read, [source.replace("new_run.js", "ansi.js"), lines])

    assert parsed("plain") == [{"text": "plain", "spans": []}]
    assert parsed("\x1b[1;31mred\x1b[0m no") == [{"text": "red no", "spans": [[0, 3, "a-bold a-red"]]}]
    assert parsed("\x1b[32mgreen", "still\x1b[39m not") == [
        {"text": "green", "spans": [[0, 5, "a-green"]]},
        {"text": "still not", "spans": [[0, 5, "a-green"]]},
    ]
    assert parsed("\x1b[38;5;9mx\x1b[48;2;1;2;3my\x1b[mz")[0]["spans"] == [
        [0, 1, "a-bright-red"],
        [1, 2, "a-bright-red"],
    ]
    assert parsed("\x1b[4;7;90;103mx")[0]["spans"] == [
        [0, 1, "a-underline a-inverse a-bright-black a-on-bright-yellow"]
    ]
    assert parsed("a\x1b[2Kb\x1b]0;title\x07c\x1b[10;3Hd\x08\x1bcé")[0]["text"] == "abcdé"
    assert parsed("10 %\r20 %\r")[0]["text"] == "20 %"
    assert parsed("\x1b[999;;38;5m\x1b[38mok")[0]["text"] == "ok"
    assert len(parsed("x" * 20_000)[0]["text"]) == 10_002


def test_a_long_log_with_colours_stays_quick_and_can_be_searched(house: Gateway, reader: Reader) -> None:
    command = "seq 1 50000 | sed 's/.*/\\x1b[32mline\\x1b[0m & of the log/'; echo the needle"
    run_id = house.submit(
        f'{{version: 1, name: loud, steps: [{{id: a, run: "{command}"}}]}}'.replace("\\", "\\\\")
    )
    stands(house, run_id, "succeeded")
    page = reader.see(f"/runs/{run_id}?view=log")
    page.locator(".log-lines", has_text="the needle").wait_for()
    assert page.locator(".log-lines .l").count() < 400
    assert page.locator(".log-lines .a-green").first.inner_text() == "line"
    before = page.locator("[data-log-size]").evaluate("one => one.clientHeight")
    page.locator("[data-log=earlier]").click()
    page.wait_for_function(
        "before => document.querySelector('[data-log-size]').clientHeight > before", arg=before
    )
    page.fill("#log-find", "49999 of the log")
    page.wait_for_function(
        "() => document.querySelector('[data-log-count]').textContent === '1 of 1 in this part'"
    )
    assert page.locator(".log-lines .found mark").inner_text() == "49999 of the log"
    page.fill("#log-find", "LINE 4999")
    page.wait_for_function("() => document.querySelector('[data-log-count]').textContent.includes(' of 10 ')")
    first = page.locator("[data-log-count]").inner_text()
    page.press("#log-find", "Enter")
    assert page.locator("[data-log-count]").inner_text() != first
    page.locator("[data-log=previous]").click()
    assert page.locator("[data-log-count]").inner_text() == first


def test_a_log_is_followed_as_it_grows_until_somebody_looks_back(house: Gateway, reader: Reader) -> None:
    loop = "for n in $(seq 1 200); do echo tick $n; done; sleep 0.6; echo later; sleep 60"
    run_id = at_work(house, f"{{version: 1, name: ticks, steps: [{{id: b, run: '{loop}'}}]}}")
    page = reader.see(f"/runs/{run_id}?view=log")
    page.locator(".log-lines", has_text="later").wait_for()
    assert page.locator("[data-log-state]").inner_text() == "following"
    page.locator("[data-log-view]").hover()
    page.mouse.wheel(0, -1500)
    page.wait_for_function(
        "() => document.querySelector('[data-log=follow]').getAttribute('aria-pressed') === 'false'"
    )
    page.locator("[data-log=follow]").click()
    page.locator(".log-lines", has_text="later").wait_for()
    cancel(house, run_id)
    page.wait_for_function(
        "() => document.querySelector('[data-log-state]').textContent === 'the run has ended'"
    )


def test_a_timeline_follows_the_run_to_its_end(house: Gateway, reader: Reader) -> None:
    run_id = at_work(house, "{version: 1, name: follows, steps: [{id: b, run: 'sleep 60'}]}")
    page = reader.see(f"/runs/{run_id}?view=timeline")
    page.evaluate("() => { window.same = true }")
    before = page.locator(".small.soft", has_text="As of event").inner_text()
    cancel(house, run_id)
    page.locator(".badge", has_text="cancelled").first.wait_for()
    assert page.locator(".small.soft", has_text="As of event").inner_text() != before
    assert page.locator(".chart .row").count() >= 1
    assert page.evaluate("window.same"), "nothing was loaded again"


def test_the_output_of_one_attempt_is_shown_alone(reader: Reader, broken: str) -> None:
    page = reader.see(f"/runs/{broken}?view=log&step=bad")
    page.locator(".log-lines .l").first.wait_for()
    assert page.locator(".log-lines .heading").count() == 2
    page.select_option("#log-attempt", "2")
    page.wait_for_function("() => document.querySelectorAll('.log-lines .heading').length === 1")
    assert page.locator(".log-lines .l").nth(1).inner_text() == "2"


# Many events, other people, lost connections


@pytest.mark.soak
def test_twenty_thousand_events_do_not_stall_the_page(house: Gateway, reader: Reader) -> None:
    run_id = house.submit(IDLE.replace("idle", "huge"), queue="nobody")
    waits: list[ev.Payload] = [
        fact
        for number in range(10_000)
        for fact in (
            ev.RunWaiting(reason=f"wait {number}", waiting_for="driver"),
            ev.RunBlocked(reason="not now"),
        )
    ]
    append_to(house.home, f"run:{run_id}", waits, many=5_000)
    for view in ("steps", "events", "timeline", "events&before=10000", "events&type=submitted"):
        begun = time.monotonic()
        page = reader.see(f"/runs/{run_id}?view={view}")
        took_s = time.monotonic() - begun
        assert took_s < 5, (view, took_s)
        assert page.evaluate("document.querySelectorAll('*').length") < 6_000
    begun = time.monotonic()
    reader.see(f"/runs/{run_id}")
    assert time.monotonic() - begun < 1, "what was folded once is not folded again"


def test_what_one_operator_does_another_sees_at_once(
    house: Gateway, browser: Browser, reader: Reader
) -> None:
    run_id = at_work(house)
    other = signed_in(house, browser)
    page = other.see(f"/runs/{run_id}")
    page.wait_for_selector('#live[data-state="live"]')
    page.locator(".all-controls summary").click()
    assert button(page, "Pause").get_attribute("aria-disabled") is None
    reader.see(f"/runs/{run_id}")
    reader.act("Pause", "lunch")
    page.wait_for_function(
        "() => [...document.querySelectorAll('.controls [data-act]')].find((one) => one.textContent === 'Pause').ariaDisabled === 'true'"
    )
    assert "paused already" in (button(page, "Pause").get_attribute("data-why-not") or "")
    assert page.locator(".all-controls").evaluate("one => one.open"), "what was open stays open"
    cancel(house, run_id)
    other.context.close()


def test_a_page_outlives_the_gateway(tmp_path: Path, browser: Browser) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    token = "-".join(["operators", "token"] * 3)
    how = ("--port", port)
    with gateway(tmp_path / "home", *how, env={"RECOUP_TOKEN": token}) as first:
        first.tokens["operator"] = token
        run_id = first.submit(IDLE, queue="nobody")
        reader = signed_in(first, browser)
        page = reader.see(f"/runs/{run_id}")
        page.wait_for_selector('#live[data-state="live"]')
        url = first.url
    page.wait_for_selector('#live[data-state="again"]')
    assert page.locator(".live-words").inner_text() == "connecting again"
    with gateway(tmp_path / "home", *how, env={"RECOUP_TOKEN": token}) as second:
        second.tokens["operator"] = token
        assert second.url == url
        page.wait_for_selector('#live[data-state="live"]')
        with second.client() as client:
            client.post(f"/api/runs/{run_id}/control", json={"action": "cancel", "reason": "gone"})
        page.locator(".head .badge", has_text="cancelled").wait_for()
        assert page.evaluate("performance.getEntriesByType('navigation').length") == 1
        reader.context.close()


# For everybody


@pytest.mark.parametrize(
    ("theme", "views"), [("light", ("", "timeline", "events")), ("dark", ("log", "compare"))]
)
def test_every_view_of_a_run_is_accessible_and_fits_a_telephone(
    house: Gateway, browser: Browser, broken: str, theme: Any, views: tuple[str, ...]
) -> None:
    """Pages as a whole are looked at in test_console_desk.py."""
    axe = importlib.import_module("axe_playwright_python.sync_playwright").Axe()  # it has no types
    reader = signed_in(house, browser, color_scheme=theme)
    for name in views:
        page = reader.see(f"/runs/{broken}?view={name}")
        found = axe.run(page, options={"resultTypes": ["violations"]}).response["violations"]
        serious = [
            (one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")
        ]
        assert serious == [], name
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
        page.set_viewport_size({"width": 1280, "height": 860})
    reader.context.close()


def test_plans_from_folders_only_are_said_to_be(tmp_path: Path) -> None:
    folder = tmp_path / "plans"
    folder.mkdir()
    with gateway(tmp_path / "home", "--plans", str(folder)) as served, served.client() as client:
        said = client.get("/runs/new").text
        assert str(folder) in said and 'id="plan"' not in said and 'id="plan-path"' in said
