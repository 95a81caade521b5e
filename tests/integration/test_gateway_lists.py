"""Many runs over HTTP, on a real server: filters, counts, histories, and the same for many at once."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import httpx2
import msgspec
import pytest
from tests.integration.gateway_house import Gateway, gateway

from recoup.gateway import list_shapes
from recoup.model.answers.lists import BulkAnswer, HistoryDocument, RunCounted, Tallies
from recoup.model.answers.runs import RunSummary

FINE = "{version: 1, name: fine, steps: [{id: a, run: 'true'}, {id: b, run: 'true'}]}"
BROKEN = "{version: 1, name: broken, steps: [{id: a, run: 'true'}, {id: b, run: 'exit 64'}]}"
FLAKY = '{version: 1, name: flaky, steps: [{id: a, run: \'test -e "$MARK" || { touch "$MARK"; exit 56; }\'}]}'
SLOW = "{version: 1, name: slow, steps: [{id: a, run: 'sleep 60'}]}"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("lists")
    with gateway(folder / "home", "--workers", "4", env={"MARK": str(folder / "mark")}) as served:
        yield served


def ends_as(status: str) -> Callable[[Any], bool]:
    return lambda run: run["status"] == status


@pytest.fixture(scope="module")
def runs(house: Gateway) -> dict[str, str]:
    """One that is over in each way, and one that waits for a worker that never comes."""
    made = {
        name: house.submit(plan) for name, plan in {"fine": FINE, "broken": BROKEN, "flaky": FLAKY}.items()
    }
    made["queued"] = house.submit(FINE, queue="nobody")
    for name, status in {"fine": "succeeded", "broken": "failed", "flaky": "succeeded"}.items():
        house.wait(made[name], ends_as(status))
    return made


@pytest.fixture
def client(house: Gateway) -> Iterator[httpx2.Client]:
    with house.client() as made:
        yield made


def ids(client: httpx2.Client, **asked: Any) -> set[str]:
    answer = client.get("/api/runs", params=asked)
    assert answer.status_code == 200, answer.text
    found = {item["runId"] for item in answer.json()["items"]}
    count = client.get("/api/runs/count", params=asked)
    msgspec.json.decode(count.content, type=RunCounted)
    assert count.json() == {"count": len(found), "capped": False}
    return found


@pytest.mark.parametrize(
    ("path", "there_are"),
    [
        ("/api/runs/count", "failureClass, since, status, text, until, worker, workflow"),
        ("/api/probe/events", "after, probe_id"),
        ("/api/policy", "none"),
    ],
)
def test_a_parameter_that_is_misspelt_is_refused_with_those_there_are(
    client: httpx2.Client, path: str, there_are: str
) -> None:
    answer = client.get(path, params={"stauts": "failed", "probe_id": "p", "after": "0"})
    assert answer.status_code == 422
    answer = client.get(path, params={"stauts": "failed"})
    assert answer.json()["detail"] == "there is no parameter 'stauts' here"
    assert answer.json()["hint"] == f"There are{':' if ',' in there_are else ''} {there_are}."


def test_runs_are_listed_and_counted_by_every_filter(client: httpx2.Client, runs: dict[str, str]) -> None:
    (broken,) = client.get("/api/runs", params={"workflow": "broken"}).json()["items"]
    msgspec.convert(broken, RunSummary)
    (worker,) = client.get("/api/workers").json()["items"]
    assert (broken["worker"], broken["stepCount"]) == (worker["workerId"], 2)
    assert broken["endedAt"] is not None
    assert ids(client, failureClass=broken["failureClass"]) == {runs["broken"]}
    assert ids(client, worker=broken["worker"]) == {runs["fine"], runs["broken"], runs["flaky"]}
    assert ids(client, worker="nobody") == set()
    assert ids(client, status="queued") == {runs["queued"]}
    assert ids(client, status=["queued", "failed"]) == {runs["queued"], runs["broken"]}
    assert ids(client, text="FLAK") == {runs["flaky"]}
    assert ids(client, text=runs["fine"][-6:].upper(), workflow="fine") == {runs["fine"]}
    submitted = datetime.fromisoformat(broken["submittedAt"])
    later = submitted + timedelta(microseconds=1)
    assert ids(client, workflow="broken", since=submitted.isoformat()) == {runs["broken"]}
    assert ids(client, workflow="broken", since=later.isoformat()) == set()
    assert ids(client, workflow="broken", until=submitted.isoformat()) == set()
    assert ids(client, workflow="broken", until=later.isoformat()) == {runs["broken"]}


@pytest.mark.parametrize(
    ("path", "name"), [("/api/workflows", "workflow"), ("/api/runs/{}/attempts", "stepId")]
)
def test_workflows_and_attempts_come_in_pages(
    client: httpx2.Client, runs: dict[str, str], path: str, name: str
) -> None:
    path = path.format(runs["broken"])
    whole = client.get(path).json()
    assert len(whole["items"]) >= 2 and whole["nextCursor"] is None
    seen: list[str] = []
    asked: dict[str, Any] = {"limit": 1}
    while len(seen) < 20:
        answer = client.get(path, params=asked).json()
        seen += [item[name] for item in answer["items"]]
        if (cursor := answer["nextCursor"]) is None:
            break
        asked["cursor"] = cursor
    assert seen == [item[name] for item in whole["items"]]
    assert client.get(path, params={"limit": 501}).status_code == 422
    assert client.get(path, params={"cursor": "?"}).status_code == 400


def test_tallies_and_histories_count_what_happened(client: httpx2.Client, runs: dict[str, str]) -> None:
    tallies = client.get("/api/tallies")
    msgspec.json.decode(tallies.content, type=Tallies)
    told = tallies.json()
    assert told["total"] == sum(told["byStatus"].values())
    assert told["byStatus"]["queued"] >= 1 and told["byStatus"]["escalated"] == 0
    history = client.get("/api/history", params={"workflow": "flaky", "bucketS": 600})
    msgspec.json.decode(history.content, type=HistoryDocument)
    buckets = history.json()["items"]
    assert len(buckets) in (144, 145)
    assert sum(one["ended"].get("succeeded", 0) for one in buckets) == 1
    (recovered,) = [one for one in buckets if one["recoveries"]]
    assert recovered["recoveries"] == 1 and 0.4 < recovered["recoveryP50S"] <= recovered["recoveryP95S"] < 60
    assert history.json()["wholeSince"] == history.json()["since"] == buckets[0]["start"]
    assert len(runs) == 4


@pytest.mark.parametrize(
    "path",
    [
        "/api/runs?since=yesterday",
        "/api/runs?since=2026-01-01T00:00:00",
        "/api/runs?failureClass=odd",
        f"/api/runs?text={'x' * 201}",
        "/api/runs/count?status=odd",
        "/api/history?bucketS=1",
        "/api/history?bucketS=0",
        "/api/history?since=2999-01-01T00:00:00Z",
    ],
)
def test_a_question_that_cannot_be_answered_is_a_problem(client: httpx2.Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 422, answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"


def bulk(client: httpx2.Client, action: str, run_ids: list[str], key: str | None = None) -> dict[str, Any]:
    headers = {} if key is None else {"Idempotency-Key": key}
    body = {"action": action, "runIds": run_ids, "reason": "no longer wanted"}
    answer = client.post("/api/runs/bulk", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    msgspec.json.decode(answer.content, type=BulkAnswer)
    items = answer.json()["items"]
    assert [one["runId"] for one in items] == list(dict.fromkeys(run_ids))
    return {one["runId"]: one for one in items}


def forget_answers(house: Gateway) -> None:
    """As if the gateway had died before it could answer."""
    with contextlib.closing(sqlite3.connect(house.home / "gateway.db", timeout=10)) as book:
        book.execute("DELETE FROM answers")
        book.commit()


def test_what_is_listed_is_cancelled_and_nothing_else(
    house: Gateway, client: httpx2.Client, runs: dict[str, str]
) -> None:
    driven, waiting, spared = house.submit(SLOW), house.submit(FINE, queue="nobody"), house.submit(SLOW)
    for run_id in (driven, spared):
        house.wait(run_id, lambda run: run["status"] == "running")
    listed = [driven, runs["fine"], "nothing", waiting, waiting]
    told = bulk(client, "cancel", listed, key="all-of-these")
    outcomes = {run_id: one["outcome"] for run_id, one in told.items()}
    assert outcomes == {driven: "done", waiting: "done", runs["fine"]: "refused", "nothing": "refused"}
    assert told["nothing"]["detail"] and told[runs["fine"]]["detail"]
    assert [house.run(one)["status"] for one in (driven, waiting, spared)] == [
        "cancelled",
        "cancelled",
        "running",
    ]
    assert bulk(client, "cancel", listed, key="all-of-these") == told
    forget_answers(house)
    assert bulk(client, "cancel", listed, key="all-of-these") == told
    lines = client.get(f"/api/runs/{driven}/events").json()["items"]
    (handled,) = [line["payload"] for line in lines if line["type"] == "task.control"]
    assert handled["reason"] == "no longer wanted" and "operator" in handled["actor"]
    assert bulk(client, "cancel", [spared])[spared]["outcome"] == "done"


def test_runs_that_are_over_are_retried_once_and_reuse_what_is_proven(
    house: Gateway, client: httpx2.Client, runs: dict[str, str]
) -> None:
    listed = [runs["queued"], runs["broken"], runs["fine"]]
    told = bulk(client, "retry", listed, key="once-more")
    assert [told[one]["outcome"] for one in listed] == ["refused", "done", "refused"]
    assert "queued" in told[runs["queued"]]["detail"] and told[runs["queued"]]["newRunId"] is None
    new = told[runs["broken"]]["newRunId"]
    forget_answers(house)
    again = bulk(client, "retry", listed, key="once-more")[runs["broken"]]
    assert again["newRunId"] == new
    ended = house.wait(new, lambda run: run["status"] == "failed")
    assert ended["parentRunId"] == runs["broken"]
    lines = client.get(f"/api/runs/{new}/events").json()["items"]
    assert lines[0]["payload"]["submitReason"] == "no longer wanted"
    assert lines[0]["payload"]["reuseFrom"] == runs["broken"]
    assert "operator" in lines[0]["payload"]["submittedBy"]
    later = bulk(client, "retry", [runs["broken"]])[runs["broken"]]
    assert (later["outcome"], later["newRunId"]) == ("refused", new)
    assert new in later["detail"]


def test_a_bulk_has_a_limit(client: httpx2.Client) -> None:
    body = {"action": "cancel", "runIds": ["x"] * (list_shapes.BULK_MAX + 1), "reason": "x"}
    assert client.post("/api/runs/bulk", json=body).status_code == 422
    assert client.post("/api/runs/bulk", json={**body, "runIds": []}).status_code == 422
    assert client.post("/api/runs/bulk", json={**body, "runIds": ["x"], "action": "pause"}).status_code == 422


def test_the_command_line_has_the_same_filters(house: Gateway, runs: dict[str, str]) -> None:
    words = [
        "--status",
        "failed",
        "--status",
        "queued",
        "--workflow",
        "broken",
        "--since",
        "2h",
        "--text",
        "BROKEN",
    ]
    argv = [sys.executable, "-m", "recoup.cli.main", "--home", str(house.home), "runs", "--json", *words]
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=60, env={"PATH": "/usr/bin:/bin"}, check=True
    )
    found = json.loads(done.stdout)
    assert runs["broken"] in {one["runId"] for one in found}
    assert {one["workflow"] for one in found} == {"broken"}
