"""The console's desk in a real browser: every page can be read by everybody, every button does what it says."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page, Route, ViewportSize, expect
from tests.integration.browser_house import needs_browser
from tests.integration.console_house import HOSTILE, PAGES, PLANS, Console, console, sign_in

from recoup.model.answers.inbox import ProbeActed
from recoup.model.answers.whatif import WhatIfAnswer
from recoup.model.answers.workflows import MemoryDiff

pytestmark = needs_browser
PHONE: ViewportSize = {"width": 390, "height": 844}
DESK: ViewportSize = {"width": 1280, "height": 860}
IN_THE_DARK = (
    "/",
    "/runs",
    "/heals/{run_id}/{step}/{attempt}",
    "/workflows/{name}",
    "/escalations/{escalation_id}",
    "/fleet",
)
"""Between them they show every tone there is."""
_AXE = """async (rules) => {
  for (const body of document.querySelectorAll("tbody")) while (body.rows.length > 4) body.deleteRow(4);
  return (await axe.run(document, {resultTypes: ["violations"], runOnly: rules})).violations;
}"""
"""Rows of one table are alike: a few of them tell it all, and the rest takes seconds."""
_ALL = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}
_CONTRAST = {"type": "rule", "values": ["color-contrast"]}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    with console(tmp_path_factory.mktemp("console")) as made:
        yield made


@pytest.fixture(scope="module")
def examiner(desk: Console) -> Page:
    """A page in which scripts of ours may look at those of the console."""
    page = _examined(desk)
    sign_in(page, desk.gateway, "operator")
    return page


def _examined(desk: Console) -> Page:
    context = desk.browser.new_context(bypass_csp=True, viewport=DESK)
    context.add_init_script(AXE_SCRIPT)
    return context.new_page()


# Everybody


@pytest.mark.parametrize("template", PAGES)
def test_every_page_can_be_read_by_everybody(desk: Console, examiner: Page, template: str) -> None:
    page = examiner if template != "/sign-in" else _examined(desk)
    page.set_viewport_size(DESK)
    page.emulate_media(color_scheme="light")
    answer = page.goto(desk.gateway.url + desk.address(template))
    assert answer is not None and answer.status == 200
    page.set_viewport_size(PHONE)
    over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert over <= 0, f"{template} is {over} px too wide for a phone"
    page.set_viewport_size(DESK)
    found = _serious(page.evaluate(_AXE, _ALL))
    if template in IN_THE_DARK:
        page.emulate_media(color_scheme="dark")
        found += _serious(page.evaluate(_AXE, _CONTRAST))
    assert not found, f"{template}: {found}"
    assert page.locator("h1").count() == 1


def _serious(violations: list[dict[str, Any]]) -> list[str]:
    return [
        f"{one['id']}: {one['help']}: {[node['html'][:160] for node in one['nodes'][:3]]}"
        for one in violations
        if one["impact"] in ("serious", "critical")
    ]


def test_the_menu_is_walked_with_the_keyboard_alone(desk: Console) -> None:
    page = desk.open("/heals")
    page.keyboard.press("Tab")
    assert _focused(page) == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    page.reload()
    seen = []
    for _ in range(30):
        page.keyboard.press("Tab")
        seen.append(_focused(page))
        if seen[-1] == "Fleet":
            break
    names = [
        name for name in seen if name in ("Overview", "Runs", "Escalations", "Heals", "Workflows", "Fleet")
    ]
    assert names == ["Overview", "Runs", "Escalations", "Heals", "Workflows", "Fleet"]
    page.keyboard.press("Enter")
    page.wait_for_url("**/fleet")
    expect(page.locator('.menu [aria-current="page"]')).to_have_text("Fleet")


def _focused(page: Page) -> str:
    words = "(document.activeElement.childNodes[0]?.textContent || document.activeElement.id || '').trim()"
    return str(page.evaluate(words))


def test_a_viewer_is_shown_why_nothing_can_be_pressed(desk: Console) -> None:
    with desk.gateway.client("viewer") as client:
        for path in ("/heals/run-1/print/1", "/workflows/shop", "/workflows/shop/memory", "/fleet", "/probes/near",
                     "/escalations/esc-1", "/approvals"):  # fmt: skip
            body = client.get(path).text
            assert 'aria-disabled="true"' in body and "A viewer may only look." in body, path


# Heals


def test_heals_are_found_by_filters_and_hostile_words_stay_words(desk: Console) -> None:
    page = desk.open("/heals")
    expect(page.locator("#heals tbody tr")).to_have_count(3)
    assert HOSTILE in page.locator("#heals").inner_text() or "onerror" in page.locator("#heals").inner_text()
    assert page.locator("#heals img").count() == 0
    pill = page.locator('.menu a[href="/heals"] .pill')
    expect(pill).to_have_text("2")
    page.select_option("#f-state", "applied")
    page.click("text=Show")
    page.wait_for_url("**/heals?**state=applied**")
    expect(page.locator("#heals tbody tr")).to_have_count(1)
    page.goto(desk.gateway.url + "/heals?run=run-1&state=waiting")
    expect(page.locator("#heals tbody tr")).to_have_count(2)
    page.goto(desk.gateway.url + "/heals?workflow=nobody")
    expect(page.locator("#heals")).to_contain_text("Nothing was healed that fits.")


def test_a_heal_shows_its_picture_its_boxes_and_what_else_there_was(desk: Console) -> None:
    page = desk.page
    with page.expect_response("**/api/evidence/**") as picture:
        desk.open("/heals/run-1/print/1")
    assert picture.value.status == 200 and picture.value.headers["content-type"] == "image/png"
    places = page.locator("svg.shot rect.box").evaluate_all(
        "all => all.map(one => [one.classList[1], one.getAttribute('y')])"
    )
    assert places == [["before", "40.0"], ["next", "240.0"], ["taken", "140.0"]]
    rows = page.locator("table", has_text="Sure").locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("81 %")
    expect(rows.nth(1)).to_contain_text("runner-up")
    assert page.title().startswith("Heal of print")


def test_a_heal_is_accepted_with_a_reason_and_gives_a_patch_for_the_plan(desk: Console) -> None:
    page = desk.open("/heals/run-1/approve/1")
    expect(page.locator("pre.diff .add")).to_contain_text("Approve invoice")
    with page.expect_download() as taken:
        page.click("text=Download the patch")
    assert '+        name: "Approve invoice"' in taken.value.path().read_text()
    page.click("#heal-state >> text=Accept")
    expect(page.locator("#ask .scope")).to_contain_text("remembers button 'Approve invoice'")
    desk.answer("the button was renamed")
    desk.said("Accepted.")
    expect(page.locator("#heal-state .head .badge").first).to_have_text("accepted")
    expect(page.locator("#heal-state .note")).to_contain_text("the button was renamed")
    page.click("#heal-state >> text=Reject", force=True)
    desk.said("has accepted it already")


def test_a_heal_is_rejected(desk: Console) -> None:
    page = desk.open("/heals/run-1/save/1")
    page.click("#heal-state >> text=Reject")
    desk.answer("another button")
    desk.said("Rejected.")
    expect(page.locator("#heal-state .head .badge").first).to_have_text("rejected")


# Workflows


def test_a_workflow_is_paused_for_a_while_and_let_go_again(desk: Console) -> None:
    page = desk.open("/workflows/hello")
    page.select_option("#mode-choice", "paused")
    expect(page.locator("#mode-means")).to_contain_text("No step of any run begins")
    page.select_option("#mode-for", "900")
    page.click("text=Set…")
    expect(page.locator("#ask .scope")).to_contain_text("For 15 minutes.")
    desk.answer("the shop is closed")
    desk.said("hello is paused.")
    expect(page.locator("#mode .head .badge")).to_have_text("paused")
    expect(page.locator("#mode")).to_contain_text("the shop is closed")
    page.select_option("#mode-choice", "running")
    page.select_option("#mode-for", "")
    page.click("text=Set…")
    desk.answer("open again")
    expect(page.locator("#mode .head .badge")).to_have_text("running")
    expect(page.locator("#workflow-runs")).to_contain_text("first operator")
    listed = desk.open("/workflows")
    expect(listed.locator("#workflows")).to_contain_text("All together")


def test_all_workflows_together_are_paused_and_let_go(desk: Console) -> None:
    page = desk.open("/workflows/-")
    for mode in ("paused", "running"):
        page.select_option("#mode-choice", mode)
        page.click("text=Set…")
        desk.answer("the whole house")
        expect(page.locator("#mode .head .badge")).to_have_text(mode)


def test_what_causes_a_mode_leads_to_the_runs(desk: Console) -> None:
    page = desk.open("/workflows/broken")
    expect(page.locator("#mode .cells")).to_contain_text("1 of 9")
    expect(page.locator("figure.plot").first).to_be_visible()
    expect(page.locator("#workflow-runs")).to_contain_text("for somebody")


def test_lessons_are_kept_compared_and_taken_back(desk: Console) -> None:
    page = desk.open("/workflows/shop/memory")
    page.click("text=Keep as a version")
    desk.answer("before the change")
    desk.said("Kept.")
    expect(page.locator("#versions tbody tr")).to_have_count(2)
    page.select_option("#f-old", "v000001")
    page.click("button:text-is('Compare')")
    expect(page.locator("table", has_text="From v000001 to now")).to_contain_text("Approve invoice")
    oldest = page.locator("#versions tbody tr").last
    oldest.get_by_role("button", name="Go back").click()
    expect(page.locator("#ask .scope")).to_contain_text("all of it (1 difference)")
    desk.answer("too soon")
    desk.said("Taken back.")
    with desk.gateway.client() as client:
        found = client.get("/api/workflows/shop/memory/diff", params={"old": "v000001"})
    assert msgspec.json.decode(found.content, type=MemoryDiff).items == []


# What waits for somebody


def test_an_escalation_says_what_to_do_and_asks_why_before_it_is_moved(desk: Console) -> None:
    page = desk.open("/escalations?state=all")
    page.click("#inbox >> text=it is not known whether")
    page.wait_for_url("**/escalations/esc-1")
    expect(page.locator("h1")).to_contain_text("onerror")
    expect(page.locator("body")).to_contain_text("recoup show run-2")
    sent: list[tuple[str, Any]] = []

    def taken(route: Route) -> None:
        sent.append((route.request.url.rpartition("/")[2], route.request.post_data_json))
        route.fulfill(status=200, content_type="application/json", body="{}")

    page.route("**/api/escalations/esc-1/*", taken)
    _assign(desk, "ada", "she knows it")
    page.unroute("**/api/escalations/esc-1/*")
    assert sent == [("assign", {"assignee": "ada", "reason": "she knows it"})]


def _assign(desk: Console, whom: str, why: str) -> None:
    desk.page.click("#escalation >> text=Assign…")
    desk.page.fill("#assignee", whom)
    desk.answer(why)
    desk.said("Assigned.")


def test_an_escalation_is_acknowledged_assigned_and_resolved(desk: Console) -> None:
    page, badge = desk.open("/escalations/esc-1"), desk.page.locator("#escalation .head .badge")
    page.click("#escalation >> text=Acknowledge")
    desk.answer("I look at it")
    expect(badge).to_have_text("acknowledged")
    _assign(desk, "ada", "she knows it")
    expect(badge).to_have_text("assigned")
    page.click("#escalation >> text=Resolve")
    desk.answer("it was done")
    expect(badge).to_have_text("resolved")
    expect(page.locator("#escalation-history li")).to_have_count(3)
    expect(page.locator("#escalation-history")).to_contain_text("to ada")


def test_a_second_person_agrees_and_the_first_cannot(desk: Console) -> None:
    with desk.policy("approval_required: [mode]\n"):
        page = desk.open("/workflows/hello")
        page.select_option("#mode-choice", "degraded")
        page.click("text=Set…")
        desk.answer("with care")
        desk.said("somebody else must agree")
        page = desk.open("/approvals")
        card = page.locator("#asked .card", has_text="with care")
        expect(card).to_contain_text('"mode": "degraded"')
        expect(card).to_contain_text("You asked for it: somebody else must decide.")
        card.get_by_role("button", name="Approve").click(force=True)
        desk.said("You asked for it")
        with desk.another_operator() as client:
            (asked,) = client.get("/api/approvals", params={"state": "waiting"}).json()["items"]
            done = client.post(f"/api/approvals/{asked['approvalRef']}/approve", json={"reason": "fine"})
            assert done.json()["state"] == "done", done.text
            client.post("/api/workflows/hello/mode", json={"mode": "running", "reason": "as it was"})
        expect(desk.open("/approvals").locator("#asked .card", has_text="with care")).to_contain_text(
            "Done by bob"
        )


def test_a_run_that_a_second_person_must_agree_to_is_asked_for(desk: Console) -> None:
    with desk.policy("approval_required: [submit]\n"):
        page = desk.open("/runs/new")
        page.locator("[name=plan]").fill(PLANS["hello"])
        page.click("#submit-run [type=submit]")
        desk.said("somebody else must agree")
        assert page.url.endswith("/runs/new"), "there is no run to go to yet"


def test_a_gate_is_opened(desk: Console) -> None:
    page = desk.open("/approvals")
    card = page.locator("#gates .card", has_text=desk.runs["gate"])
    expect(card).to_contain_text("Release?")
    expect(card).to_contain_text("first operator")
    card.get_by_role("button", name="Approve").click()
    expect(page.locator("#ask .scope")).to_contain_text("goes on behind its gate g")
    desk.answer("tested")
    desk.said("Approved")
    desk.gateway.wait(desk.runs["gate"], lambda run: run["status"] == "succeeded")


# Machines


def test_the_fleet_is_seen_and_a_dead_letter_tried_once_more(desk: Console) -> None:
    page = desk.open("/fleet")
    expect(page.locator("#workers tbody tr")).to_have_count(1)
    expect(page.locator("#workers")).to_contain_text("working")
    row = page.locator("#dead tbody tr", has_text=desk.runs["broken"])
    assert page.title() == "Fleet · Recoup", "what a step printed is text"
    row.get_by_role("button", name="Try again").click()
    desk.answer("the line is mended")
    desk.said("Done: 1.")
    with desk.gateway.client() as client:
        twice = {"action": "retry", "runIds": [desk.runs["broken"]], "reason": "twice"}
        (told,) = client.post("/api/runs/bulk", json=twice).json()["items"]
        assert "it was retried before" in told["detail"], "asked twice it is one run"
        (first,) = client.get(f"/api/runs/{told['newRunId']}/events", params={"limit": 1}).json()["items"]
    assert first["payload"]["submitReason"] == "the line is mended"
    assert first["payload"]["submittedBy"].startswith("first operator")


def test_a_probe_is_told_to_act_and_answers(desk: Console) -> None:
    page = desk.open("/probes")
    expect(page.locator("#probes tbody tr")).to_have_count(2)
    page.click("#probes >> text=near")
    page.wait_for_url("**/probes/near")
    expect(page.locator("#resources")).to_contain_text("api")
    page.select_option("#order-action", "restart")
    page.click("text=Order…")
    expect(page.locator("#ask .scope")).to_contain_text("api of probe near: Stop it and start it again.")
    desk.answer("new certificate")
    desk.said("Accepted.")
    expect(page.locator("#orders")).to_contain_text("new certificate")
    expect(page.locator("#orders")).to_contain_text("first operator")
    with desk.gateway.client() as client:
        asked = {"resourceId": "nothing", "action": "restart", "reason": "by a program"}
        told = client.post("/api/probes/near/act", json=asked)
        answer = msgspec.json.decode(told.content, type=ProbeActed)
        assert (answer.outcome, answer.rule) == ("refused", "unknown_resource")
        assert client.post("/api/probes/nobody/act", json=asked).status_code == 404


def test_a_probe_elsewhere_is_shown_as_it_told_and_ordered_by_wire(desk: Console) -> None:
    page = desk.open("/probes/far")
    expect(page.locator("#resources")).to_contain_text("downgraded to poll")
    expect(page.locator("#resources")).to_contain_text("channel down: 2")
    expect(page.locator("#orders")).to_contain_text("the line is back")
    assert page.locator("#resources img").count() == 0
    page.select_option("#order-action", "restore_primary")
    page.click("text=Order…")
    desk.answer("try again")
    desk.said("Ordered")
    asked = {"probe_id": "far", "lease_epoch": "3"}
    with desk.gateway.client("probe") as client:
        *_, order = client.get("/api/probe/commands", params=asked).json()["commands"]
    assert order.pop("command_id").startswith("gateway-") and order.pop("deadline_unix") > time.time()
    assert order == {
        **{"resource_id": "tunnel", "action": "restore_primary", "reason": "try again"},
        **{"actor": "first operator", "lease_epoch": 3, "desired_version": 1},
    }


# The record and the rules


def test_the_audit_is_filtered_and_its_chain_checked(desk: Console) -> None:
    page = desk.open("/audit")
    page.fill("#f-type", "task.run.submitted")
    page.fill("#f-who", "first operator")
    page.click("text=Show")
    page.wait_for_url("**/audit?**")
    rows = page.locator("#events tbody tr")
    assert rows.count() >= 3
    assert all("task.run.submitted" in words for words in rows.all_inner_texts())
    page.click("#verify")
    expect(page.locator("#verified .note")).to_contain_text("The chain is intact")
    broken = {
        **{"intact": False, "files": 1, "lines": 9, "events": 8, "ledger": None, "gapsCount": 1},
        "firstBreak": {"file": "audit-000001.jsonl", "line": 7, "what": HOSTILE},
        "gaps": [{"file": "audit-000001.jsonl", "line": 3, "gap": {}, "filled": True}],
    }
    page.route("**/api/audit/verify", lambda route: route.fulfill(json=broken))
    page.click("#verify")
    expect(page.locator("#verified .note.bad")).to_contain_text("BROKEN in audit-000001.jsonl, line 7: <img")
    expect(page.locator("#verified li")).to_have_text(
        "audit-000001.jsonl, line 3: a gap, filled from the ledger"
    )
    page.unroute("**/api/audit/verify")
    page.goto(desk.gateway.url + "/audit?since=yesterday")
    expect(page.locator(".note.bad")).to_contain_text("no length of time")


def test_the_policy_says_what_was_changed_and_what_another_would_have_decided(desk: Console) -> None:
    page = desk.open("/policy")
    expect(page.locator("tr.changed", has_text="delivery_max")).to_contain_text("Deliveries of one run.")
    expect(page.locator(".entries")).to_contain_text("delivery_max: 3 → 1")
    page.fill("#what-if-policy", "step_max_attempts: 1\nstep_max_attemps: 2\n")
    page.click("text=Try it")
    expect(page.locator(".problems li")).to_contain_text(["line 2: step_max_attemps"])
    page.fill("#what-if-policy", "step_max_attempts: 1\n")
    page.select_option("#f-workflow", "broken")
    page.click("text=Try it")
    answer = page.locator("#what-if-answer")
    expect(answer).to_contain_text("Some decisions would have been different")
    expect(answer.locator("table").last).to_contain_text(desk.runs["broken"])
    with desk.gateway.client("viewer") as client:
        told = client.post("/api/policy/what-if", json={"policy": "step_max_attempts: 1", "limit": 1})
        assert msgspec.json.decode(told.content, type=WhatIfAnswer).runs == 1
        assert client.post("/api/policy/what-if", json={"policy": "{}", "limit": 51}).status_code == 422


def test_tokens_are_listed_and_never_shown(desk: Console) -> None:
    page = desk.open("/settings")
    expect(page.locator("tbody tr", has_text="first viewer")).to_contain_text("working")
    body = page.content()
    assert not any(token in body for token in desk.gateway.tokens.values())
    expect(page.locator("body")).to_contain_text("recoup tokens make operator --name ada")


def test_no_page_did_anything_that_its_policy_forbids(desk: Console) -> None:
    """The last one: what the browser refused in all of the above."""
    assert desk.wrong == []
