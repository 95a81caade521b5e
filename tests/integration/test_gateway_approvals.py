"""What a second person must agree to, on a real gateway: nothing is done before, and once afterwards."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from tests.integration.gateway_house import NO_TLS, Gateway, gateway

from recoup.app import App, open_app
from recoup.documents.plan_file import read_plan
from recoup.engine.world import Watcher
from recoup.errors import LedgerBusy
from recoup.gateway import runs, shapes
from recoup.gateway.access import Role
from recoup.gateway.approvals import carry_out
from recoup.gateway.book import Book
from recoup.gateway.console.escalations import gates_of
from recoup.gateway.house import House
from recoup.kernel.approvals import standing
from recoup.kernel.canonical import digest
from recoup.model.answers.inbox import Approval, ApprovalDocument
from recoup.model.events import ApprovalRequested, Pinned
from recoup.model.storage import Append, Control
from recoup.operations import control as operations
from recoup.settings import read_settings
from recoup.testing.gateway_suite import command

POLICY = "approval_required: [approve, cancel, mode, memory_rollback, submit, probe_command]\n"
TINY = "{version: 1, name: tiny, steps: [{id: a, run: 'true'}]}"
GATES = (
    "{version: 1, name: gates, steps: [{id: small, approve: {message: 'Small?'}}, "
    "{id: big, approve: {message: 'Big?'}}]}"
)
AFTER_WORK = (
    "{version: 1, name: after, steps: [{id: work, run: 'true'}, {id: gate, approve: {message: 'Good?'}}]}"
)
SECRET = "{version: 1, name: s, inputs: {pin: {secret: true}}, steps: [{id: a, run: 'true'}]}"


@dataclass
class Two:
    """Two people who may change things."""

    served: Gateway
    ada: httpx2.Client
    bob: httpx2.Client

    def events(self, kind: str) -> list[dict[str, Any]]:
        found = self.ada.get("/api/events", params={"limit": 500}).json()["items"]
        return [one["payload"] for one in found if one["type"] == kind]

    def asked(self, path: str, body: dict[str, Any], key: str | None = None) -> str:
        headers = {} if key is None else {"Idempotency-Key": key}
        answer = self.ada.post(path, json=body, headers=headers)
        assert answer.status_code == 202, answer.text
        told = msgspec.json.decode(answer.content, type=Approval)
        assert told.state == "waiting"
        return told.approval_ref

    def approved(self, ref: str) -> dict[str, Any]:
        answer = self.bob.post(f"/api/approvals/{ref}/approve", json={"reason": "agreed"})
        assert answer.status_code == 200, answer.text
        msgspec.json.decode(answer.content, type=ApprovalDocument)
        told: dict[str, Any] = answer.json()
        return told


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    folder = tmp_path_factory.mktemp("approvals")
    (folder / "policy.yaml").write_text(POLICY)
    env = {"RECOUP_POLICY": str(folder / "policy.yaml")}
    with gateway(folder / "home", "--workers", "1", env=env) as served, contextlib.ExitStack() as held:
        with contextlib.closing(Book(folder / "home" / "gateway.db", time.time)) as book:
            other = book.make(Role.OPERATOR, "bob", "now")
        bob = httpx2.Client(
            base_url=served.url,
            headers={"Authorization": f"Bearer {other}"},
            timeout=20,
            trust_env=False,
            verify=NO_TLS,
        )
        yield Two(served, held.enter_context(served.client()), held.enter_context(bob))


def test_a_submission_waits_for_another_token_and_is_made_once(two: Two) -> None:
    ref = two.asked("/api/runs", {"plan": TINY, "queue": "nobody", "reason": "try"}, "k-1")
    assert two.asked("/api/runs", {"plan": TINY, "queue": "nobody", "reason": "try"}, "k-1") == ref
    assert ref not in [one["approvalRef"] for one in two.events("task.run.submitted")]
    own = two.ada.post(f"/api/approvals/{ref}/approve", json={"reason": "mine"})
    assert own.status_code == 409 and "somebody else" in own.json()["detail"]
    told = two.approved(ref)
    assert told["state"] == "done" and told["request"]["queue"] == "nobody"
    (made,) = [one for one in two.events("task.run.submitted") if one["approvalRef"] == ref]
    assert "first operator" in made["submittedBy"] and "approved by bob" in made["submittedBy"]
    again = two.bob.post(f"/api/approvals/{ref}/approve", json={"reason": "twice"})
    assert again.status_code == 409
    assert sum(one["approvalRef"] == ref for one in two.events("task.run.submitted")) == 1


def test_a_control_a_mode_and_a_command_wait_and_say_by_whom_they_were_approved(two: Two) -> None:
    told = two.approved(two.asked("/api/runs", {"plan": TINY.replace("true", "sleep 60")}))
    run_id = told["detail"].removeprefix("run ")
    two.served.wait(run_id, lambda run: run["status"] == "running")
    cancel = two.asked(f"/api/runs/{run_id}/control", {"action": "cancel", "reason": "enough"})
    assert two.served.run(run_id)["status"] == "running"
    assert two.approved(cancel)["state"] == "done"
    two.served.wait(run_id, lambda run: run["status"] == "cancelled")
    handled = [one for one in two.events("task.control") if one["action"] == "cancel"]
    assert [one["commandId"] for one in handled] == [cancel], "the id of the control is the approval's"
    mode = two.asked("/api/workflows/tiny/mode", {"mode": "paused", "reason": "odd"})
    two.approved(mode)
    assert [one["approvalRef"] for one in two.events("workflow.mode.changed")] == [mode]
    order = two.asked("/api/probe/commands", {"probe_id": "p", "command": command("c-1")})
    assert two.events("probe.command.ordered") == []
    two.approved(order)
    assert [one["approvalRef"] for one in two.events("probe.command.ordered")] == [order]


def test_what_is_not_on_the_list_is_done_at_once(two: Two) -> None:
    answer = two.ada.post("/api/runs/nothing/control", json={"action": "pause", "reason": "x"})
    assert answer.status_code == 404
    odd = two.ada.post("/api/workflows/nothing/mode", json={"mode": "paused", "reason": "x"})
    assert odd.status_code == 404, "what makes no sense does not wait"


def test_what_is_rejected_is_never_done(two: Two) -> None:
    ref = two.asked("/api/runs", {"plan": TINY, "queue": "elsewhere"})
    told = two.bob.post(f"/api/approvals/{ref}/reject", json={"reason": "not today"}).json()
    assert (told["state"], told["decisionReason"]) == ("rejected", "not today")
    assert two.bob.post(f"/api/approvals/{ref}/approve", json={"reason": "or else"}).status_code == 409
    listed = two.ada.get("/api/approvals", params={"state": "rejected"}).json()["items"]
    assert [one["approvalRef"] for one in listed] == [ref]
    assert "elsewhere" not in [one["queue"] for one in two.events("task.run.submitted")]


def test_what_is_not_possible_when_it_is_approved_is_refused(two: Two) -> None:
    told = two.approved(two.asked("/api/workflows/-/memory/rollback", {"reason": "bad lessons"}))
    assert told["state"] == "refused" and "nothing to go back to" in told["detail"]


def test_a_plan_file_that_was_changed_meanwhile_is_not_run(two: Two, tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(TINY)
    ref, same = (two.asked("/api/runs", {"planPath": str(path), "queue": "nobody"}) for _ in range(2))
    shown = two.bob.get(f"/api/approvals/{ref}").json()["pinned"]["planDigest"]
    run = two.served.run(two.approved(same)["detail"].removeprefix("run "))
    assert run["planDigest"] == shown, "who agrees can see to what"
    path.write_text(TINY.replace("true", "false"))
    told = two.approved(ref)
    assert told["state"] == "refused" and "not the one that was asked for" in told["detail"]
    assert ref not in [one["approvalRef"] for one in two.events("task.run.submitted")]


def test_who_agrees_to_pass_one_gate_passes_no_other(two: Two) -> None:
    run_id = two.approved(two.asked("/api/runs", {"plan": GATES}))["detail"].removeprefix("run ")
    two.served.wait(run_id, lambda run: run["waitingFor"] == "approval")
    wish = {"action": "approve", "reason": "small is fine"}
    first, second = (two.asked(f"/api/runs/{run_id}/control", wish) for _ in range(2))
    told = two.approved(first)
    assert (told["state"], told["request"]["stepId"]) == ("done", "small")
    at_big = two.served.wait(
        run_id, lambda run: run["waitingFor"] == "approval" and run["knownGoodPrefixLength"] == 1
    )
    told = two.approved(second)
    assert told["state"] == "refused" and "stands elsewhere by now: at big" in told["detail"]
    assert two.served.run(run_id)["updatedAt"] == at_big["updatedAt"], "nothing was done to it"


def test_a_secret_does_not_wait_in_the_ledger(two: Two) -> None:
    pin = "".join(("12", "34", "5678"))
    answer = two.ada.post("/api/runs", json={"plan": SECRET, "inputs": {"pin": pin}})
    assert answer.status_code == 409 and pin not in answer.text
    assert not [one for one in two.events("approval.requested") if pin in str(one)]


def test_a_request_that_waits_is_seen_whatever_is_decided_after_it(two: Two) -> None:
    waiting = two.asked("/api/workflows/-/mode", {"mode": "paused", "reason": "the one that waits"})
    for _ in range(21):
        ref = two.asked("/api/workflows/-/mode", {"mode": "paused", "reason": "the one decided"})
        two.bob.post(f"/api/approvals/{ref}/reject", json={"reason": "no"})
    assert "the one that waits" in two.bob.get("/").text
    page = two.bob.get("/approvals").text
    assert -1 < page.find("the one that waits") < page.find("the one decided")
    two.bob.post(f"/api/approvals/{waiting}/reject", json={"reason": "seen"})


# Interrupted


@contextlib.asynccontextmanager
async def housed(folder: Path) -> AsyncIterator[tuple[House, App]]:
    folder.mkdir(exist_ok=True)
    settings = read_settings({"HOME": str(folder)}, folder, str(folder / "home"))
    async with open_app(settings, {}) as app:
        with contextlib.closing(Book(folder / "home" / "gateway.db", time.time)) as book:
            yield House(app, book), app


async def asked(
    house: House, action: str, target: str, body: dict[str, Any], pinned: Pinned | None = None
) -> str:
    ref = f"apr-{action}-{target}"
    about: dict[str, Any] = {"by": "ada", "reason": "must", "token_id": "t-ada", "expires_s": 60}
    about["pinned"] = pinned or Pinned()
    wanted = ApprovalRequested(ref=ref, action=action, target=target, request=body, **about)
    return (await house.approvals.request(wanted)).ref


@pytest.mark.parametrize("crashes_at", [1, 2])
async def test_what_was_interrupted_is_gone_on_with_and_nothing_happens_twice(
    tmp_path: Path, crashes_at: int
) -> None:
    """The mode is written with the note that it was; a command is known again by its id."""
    async with housed(tmp_path) as (house, app):
        refs = [
            await asked(house, "mode", "-", {"mode": "paused", "reason": "x"}),
            await asked(house, "probe_command", "p", {"probe_id": "p", "command": command("c-1")}),
        ]
        real, left = app.ledger.append, [0]

        async def failing(append: Append) -> Any:
            left[0] -= 1
            if left[0] == 0:
                raise LedgerBusy("gone for a moment")
            return await real(append)

        for ref in refs:
            approval = await house.approvals.approve(ref, "t-bob", "bob", "agreed")
            app.ledger.append = failing  # type: ignore[method-assign]
            left[0] = crashes_at
            with contextlib.suppress(LedgerBusy):
                await carry_out(house, approval)
            left[0] = 0
    async with housed(tmp_path) as (house, app):
        for ref in refs:
            approval = await house.approvals.find(ref)
            if approval.said == "approved":
                approval = await house.approvals.approve(ref, "t-eve", "eve", "go on")
            assert (await carry_out(house, approval)).said == "done"
        changed = [one for one in await app.ledger.arrivals() if one.type == "workflow.mode.changed"]
        ordered = [one for one in await app.ledger.arrivals() if one.type == "probe.command.ordered"]
        outs = [one for one in await app.ledger.arrivals() if one.type == "approval.carried_out"]
        assert (len(changed), len(ordered), len(outs)) == (1, 1, 2)
        assert refs[0] in changed[0].payload.text and "approved by bob" in changed[0].payload.text


async def test_what_was_done_before_it_was_noted_is_not_refused_for_what_it_changed(tmp_path: Path) -> None:
    """The file is another, the run is past its gate: both because time went by after the deed."""
    async with housed(tmp_path) as (house, app):
        path = tmp_path / "plan.yaml"
        path.write_text(GATES)
        body = {"planPath": str(path)}
        plan = read_plan(path, (await app.generations.seen())[0])
        pinned = Pinned(plan_digest=digest(msgspec.to_builtins(plan)))
        submit = await house.approvals.approve(
            *(await asked(house, "submit", "gates", body, pinned), "t-bob", "bob", "agreed")
        )
        want, wanted = await house.approvals.wanted(submit), shapes.RunRequest.model_validate(body)
        made = await runs.submitted(house, wanted, "ada", f"approval:{submit.ref}", want)
        path.write_text(TINY)
        done = await carry_out(house, submit)
        assert (done.said, done.detail) == ("done", f"run {made.run_id}")

        state = await app.driving.drive(made.run_id, Watcher())
        wish = {"action": "approve", "reason": "x", "stepId": "small"}
        ref = await asked(house, "approve", made.run_id, wish, standing(state, "approve"))
        approval = await house.approvals.approve(ref, "t-bob", "bob", "agreed")
        sent = shapes.ControlRequest.model_validate(wish)
        await operations.control(app, runs.control_request(made.run_id, sent, "ada", ref), runs.PATIENCE_S)
        assert (await app.driving.drive(made.run_id, Watcher())).progress.prefix_length == 1
        assert (await carry_out(house, approval)).said == "done"
        assert (await app.runs.state(made.run_id)).progress.prefix_length == 1, (
            "and the next gate still waits"
        )


async def test_who_agrees_to_pass_a_gate_does_not_agree_to_what_was_done_anew_before_it(
    tmp_path: Path,
) -> None:
    async with housed(tmp_path) as (house, app):
        path = tmp_path / "plan.yaml"
        path.write_text(AFTER_WORK)
        made = await runs.submitted(house, shapes.RunRequest(plan_path=str(path)), "ada", None)
        state = await app.driving.drive(made.run_id, Watcher())
        wish = {"action": "approve", "reason": "x", "stepId": "gate"}
        ref = await asked(house, "approve", made.run_id, wish, standing(state, "approve"))
        for action, step in (("pause", None), ("resume_from_step", "work")):
            back = shapes.ControlRequest.model_validate({"action": action, "reason": "x", "stepId": step})
            request = runs.control_request(made.run_id, back, "ada", None)
            assert (await operations.control(app, request, runs.PATIENCE_S)).outcome == "accepted"
        again = await app.driving.drive(made.run_id, Watcher())
        assert (again.progress.prefix_length, again.driver.delivery, again.hold.waiting_for) == (
            1,
            state.driver.delivery,
            "approval",
        )
        approval = await carry_out(house, await house.approvals.approve(ref, "t-bob", "bob", "agreed"))
        assert approval.said == "refused" and "steps invalidated by then: 1" in approval.detail
        assert (await app.runs.state(made.run_id)).progress.prefix_length == 1, "it still waits"


@pytest.mark.parametrize("action", ["approve", "reject"])
async def test_an_answer_to_a_gate_counts_at_no_later_visit_however_late_it_is_sent(
    tmp_path: Path, action: str
) -> None:
    """The run goes back and comes to the gate again after it was looked at and before the control is there."""
    async with housed(tmp_path) as (house, app):
        path = tmp_path / "plan.yaml"
        path.write_text(AFTER_WORK)
        made = await runs.submitted(house, shapes.RunRequest(plan_path=str(path)), "ada", None)
        state = await app.driving.drive(made.run_id, Watcher())
        wish = {"action": action, "reason": "x", "stepId": "gate"}
        ref = await asked(house, action, made.run_id, wish, standing(state, action))
        send = app.ledger.send_control

        async def late(control: Control) -> bool:
            app.ledger.send_control = send  # type: ignore[method-assign]
            for back, step in (("pause", None), ("resume_from_step", "work")):
                body = shapes.ControlRequest.model_validate({"action": back, "reason": "x", "stepId": step})
                request = runs.control_request(made.run_id, body, "ada", None)
                assert (await operations.control(app, request, runs.PATIENCE_S)).outcome == "accepted"
            assert (await app.driving.drive(made.run_id, Watcher())).hold.waiting_for == "approval"
            return await send(control)

        app.ledger.send_control = late  # type: ignore[method-assign]
        approval = await carry_out(house, await house.approvals.approve(ref, "t-bob", "bob", "agreed"))
        assert approval.said == "refused" and "came to gate again" in approval.detail
        again = await app.runs.state(made.run_id)
        assert (again.progress.prefix_length, again.hold.waiting_for) == (1, "approval"), "it still waits"


async def test_the_page_of_gates_reads_so_much_and_says_if_that_was_not_all(tmp_path: Path) -> None:
    async with housed(tmp_path) as (house, app):
        path = tmp_path / "plan.yaml"
        path.write_text(GATES)
        made = [
            await runs.submitted(house, shapes.RunRequest(plan_path=str(path)), "ada", None) for _ in range(2)
        ]
        seqs = [(await app.driving.drive(one.run_id, Watcher())).seq for one in made]
        both, cut = await gates_of(house)
        assert ({one.run_id for one in both}, cut) == ({one.run_id for one in made}, False)
        first, cut = await gates_of(house, events_max=max(seqs))
        assert ([one.step_id for one in first], cut) == (["small"], True)


async def test_two_who_approve_at_once_have_it_done_once(tmp_path: Path) -> None:
    async with housed(tmp_path) as (house, app), housed(tmp_path) as (other, _):
        ref = await asked(house, "mode", "-", {"mode": "paused", "reason": "x"})
        first = await house.approvals.approve(ref, "t-bob", "bob", "agreed")
        second = await other.approvals.approve(ref, "t-eve", "eve", "me too")
        assert second.decided_by == "bob", "the first word counts"
        for one, approval in ((house, first), (other, second)):
            assert (await carry_out(one, approval)).said == "done"
        changed = [one for one in await app.ledger.arrivals() if one.type == "workflow.mode.changed"]
        assert len(changed) == 1
