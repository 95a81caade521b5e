"""The HTTP API on a real server: who may do what, what is answered, and that nothing is done twice."""

from __future__ import annotations

import json
import re
import sqlite3
import ssl
import stat
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.integration.gateway_house import Gateway, gateway
from tests.integration.heal_house import Shop, plan_file
from tests.keys import KEY, TOKEN

from recoup.gateway import shapes
from recoup.gateway.access import ANYBODY, LOOKING, MAY, Role, roles_for
from recoup.gateway.described import AnswerType
from recoup.gateway.limits import BODY_BYTES_MAX
from recoup.gateway.service import described, served
from recoup.model.answers.controls import Controlled
from recoup.model.answers.runs import AttemptList, EventPage, LedgerDocument, Log, RunDocument, RunPage
from recoup.model.answers.system import (
    AuditDocument,
    Health,
    Me,
    ProblemAnswer,
    QueueDocument,
    SignedIn,
    WorkerList,
)
from recoup.model.answers.workflows import (
    HealAccepted,
    HealDocument,
    HealList,
    ModeDocument,
    ModeList,
    PolicyDocument,
    Rollback,
    VersionList,
)
from recoup.serving.brake import WRONG_TOKENS_MAX
from recoup.testing.postgres import PostgresServer

TINY = "{version: 1, name: tiny, steps: [{id: a, run: 'echo grüezi'}]}"
OPEN = ("/healthz", "/metrics")
SLOW = "{version: 1, name: slow, steps: [{id: a, run: 'true'}, {id: b, run: 'sleep 60'}]}"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with gateway(tmp_path_factory.mktemp("gateway") / "home", "--workers", "2") as served:
        yield served


@pytest.fixture(scope="module")
def done(house: Gateway) -> str:
    """A run that has succeeded."""
    run_id = house.submit(TINY, reason="to look at it")
    house.wait(run_id, lambda run: run["status"] == "succeeded")
    return run_id


@pytest.fixture
def client(house: Gateway) -> Iterator[httpx2.Client]:
    with house.client() as made:
        yield made


def a_path(template: str, run_id: str) -> str:
    known = {"run_id": run_id, "step": "a", "name": "tiny", "version": "0"}
    known |= {"attempt": "1", "handle": f"sha256:{'0' * 64}"}
    return re.sub(r"\{(\w+)\}", lambda found: known.get(found[1], "nothing"), template)


# Who may


def test_every_route_of_the_api_is_in_the_table_and_the_table_has_no_other() -> None:
    assert set(MAY) <= set(served())
    assert {key for key in served() if key[1].startswith("/api/")} <= set(MAY)


def test_pages_are_for_those_who_may_look_and_only_the_door_is_open() -> None:
    pages = {key: may for key, may in served().items() if not key[1].startswith("/api/")}
    machines = {("GET", "/healthz"), ("GET", "/metrics")}
    doors = {("GET", "/sign-in"), ("GET", "/static/{version}/{name}")}
    assert {key for key, may in pages.items() if may != LOOKING} == machines | doors
    assert {key for key, may in pages.items() if may == ANYBODY} == {("GET", "/healthz")} | doors


def test_nothing_outside_of_the_table_changes_anything() -> None:
    with pytest.raises(KeyError):
        roles_for("POST", "/runs/new")
    with pytest.raises(KeyError):
        roles_for("GET", "/api/made-up")


def test_each_role_may_what_the_table_says_and_nothing_else(house: Gateway, done: str) -> None:
    """A request that is let in fails for another reason, or is answered: it is never 401 or 403."""
    asked = [(key, may, role) for key, may in served().items() for role in [*Role, None]]
    with house.client(None) as client:
        for (method, template), may, role in asked:
            if template.endswith("/stream"):
                continue
            body: dict[str, str] | None = {} if method == "POST" else None
            answer = client.request(method, a_path(template, done), json=body, headers=house.auth(role))
            to_the_door = answer.headers.get("Location", "").startswith("/sign-in?next=")
            refused = answer.status_code in (401, 403) or to_the_door
            assert refused == (role not in may), (method, template, role, answer.text)


def test_a_session_may_what_its_role_may_and_nothing_else(house: Gateway, done: str) -> None:
    """Signed in, with the word that its own page knows; and by that alone."""
    for role in LOOKING:
        with house.client(None) as browser:
            csrf = browser.post("/api/session", json={"token": house.tokens[role.value]}).json()["csrf"]
            said = {"X-CSRF-Token": csrf}
            for (method, template), may in served().items():
                if template.startswith("/api/session"):
                    continue
                path = a_path(template, done)
                body: dict[str, str] | None = {} if method == "POST" else None
                with browser.stream(method, path, json=body, headers=said) as answer:
                    refused = answer.status_code in (401, 403)
                assert refused == (role not in may), (method, template, role)
                if method == "POST":
                    assert browser.post(path, json={}).status_code == 403, "without the word"


def test_machines_do_not_sign_in(house: Gateway) -> None:
    with house.client(None) as client:
        for role in set(Role) - LOOKING:
            answer = client.post("/api/session", json={"token": house.tokens[role.value]})
            assert answer.status_code == 403 and "Set-Cookie" not in answer.headers


def test_streams_are_for_those_who_may_look(house: Gateway, done: str) -> None:
    templates = [template for _, template in MAY if template.endswith("/stream")]
    assert len(templates) == 5
    for template in templates:
        for role in [*Role, None]:
            with (
                house.client(role) as client,
                client.stream("GET", a_path(template, done)) as answer,
            ):
                lets_in = answer.status_code == 200
            assert lets_in == (role in MAY["GET", template]), (template, role)


def test_tokens_are_kept_as_hashes_by_their_owner_alone(house: Gateway) -> None:
    for path in house.home.glob("gateway.db*"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
        held = path.read_bytes()
        assert not [token for token in house.tokens.values() if token.encode() in held]


def test_wrong_and_revoked_tokens_are_refused_even_where_none_is_needed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    made = recoup(home, "tokens", "make", "viewer", "--name", "board").strip()
    with gateway(home) as served, served.client(None) as client:
        assert served.tokens == {}, "they are made where there are none"
        asked = {"Authorization": f"Bearer {made}"}
        assert client.get("/api/me", headers=asked).json()["name"] == "board"
        (row,) = json.loads(recoup(home, "tokens", "list", "--json"))
        recoup(home, "tokens", "revoke", row["id"], "--reason", "lost")
        for number in range(WRONG_TOKENS_MAX):
            other = {"Authorization": f"Bearer {made}{number}"}
            assert client.get("/healthz", headers=asked).status_code == 401, "the same again is no try"
            assert client.get("/healthz", headers=asked if number == 0 else other).status_code == 401
        late = client.get("/healthz", headers=asked)
        assert late.status_code == 429
        assert int(late.headers["Retry-After"]) > 0
        assert client.get("/healthz").status_code == 200
    told = [(one["type"], one["payload"]) for one in arrivals(home) if one["stream"] == "gateway"]
    assert [kind for kind, _ in told] == ["gateway.token.made", "gateway.token.revoked"]
    assert {payload["tokenId"] for _, payload in told} == {row["id"]}
    assert told[1][1]["reason"] == "lost" and all(payload["by"] for _, payload in told)
    assert made not in json.dumps(told)


def arrivals(home: Path) -> list[dict[str, Any]]:
    """Of a home in which nobody works."""
    with sqlite3.connect(home / "ledger.db") as ledger:
        rows = ledger.execute("SELECT stream, type, payload FROM event_lines").fetchall()
    ledger.close()
    return [{"stream": stream, "type": kind, "payload": json.loads(raw)} for stream, kind, raw in rows]


def every_event(client: httpx2.Client) -> Iterator[dict[str, Any]]:
    after: str | None = "0"
    while after is not None:
        found = client.get("/api/events", params={"limit": 500, "after": after}).json()
        yield from found["items"]
        after = found["nextCursor"]


def recoup(home: Path, *words: str) -> str:
    argv = [sys.executable, "-m", "recoup.cli.main", "--home", str(home), *words]
    env = {"PATH": "/usr/bin:/bin"}
    return subprocess.run(argv, capture_output=True, text=True, env=env, check=True, timeout=60).stdout


def test_a_browser_signs_in_and_only_its_own_page_may_change_anything(house: Gateway) -> None:
    with house.client(None) as client:
        foreign = {"Origin": "https://elsewhere.example"}
        token = {"token": house.tokens["operator"]}
        assert client.post("/api/session", json=token, headers=foreign).status_code == 403
        answer = client.post("/api/session", json=token)
        msgspec.json.decode(answer.content, type=SignedIn)
        cookie = answer.headers["Set-Cookie"].lower()
        assert "httponly" in cookie and "samesite=strict" in cookie
        assert client.get("/api/me").json()["role"] == "operator"
        body, csrf = {"plan": TINY, "queue": "nobody"}, {"X-CSRF-Token": answer.json()["csrf"]}
        assert client.post("/api/runs", json=body).status_code == 403
        assert client.post("/api/runs", json=body, headers={b"X-CSRF-Token": "é".encode()}).status_code == 403
        assert client.post("/api/runs", json=body, headers=csrf | foreign).status_code == 403
        assert client.post("/api/runs", json=body, headers=csrf | {"Origin": house.url}).status_code == 201
        kept = client.cookies["recoup_session"]
        assert client.post("/api/session/end", headers=csrf).status_code == 200
        client.cookies.set("recoup_session", kept)
        assert client.get("/api/me").status_code == 401
        for path in house.home.glob("gateway.db*"):
            assert kept.encode() not in path.read_bytes()
    with house.client() as other:
        events = list(every_event(other))
    told = [one for one in events if one["stream"] == "gateway"]
    assert [one["payload"]["role"] for one in told if one["type"] == "gateway.token.made"][:4] == [*Role]
    sessions = [
        one["type"] for one in told if "session" in one["type"] and one["payload"]["role"] == "operator"
    ]
    assert sessions[-2:] == ["gateway.session.opened", "gateway.session.ended"]
    assert not [secret for secret in (*house.tokens.values(), kept) if secret in json.dumps(told)]


def test_signing_in_again_under_a_key_keeps_no_secret(house: Gateway) -> None:
    with house.client() as client:
        asked = {"json": {"token": house.tokens["viewer"]}, "headers": {"Idempotency-Key": "sign-in"}}
        told = [client.post("/api/session", json=asked["json"], headers=asked["headers"]) for _ in range(2)]
    assert [one.status_code for one in told] == [200, 200]
    assert told[0].json()["csrf"] != told[1].json()["csrf"]


def test_a_public_address_needs_tls_or_a_word(tmp_path: Path) -> None:
    words = ["--home", str(tmp_path / "home"), "serve", "--host", "0.0.0.0"]
    argv = [sys.executable, "-m", "recoup.cli.main", *words]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert "--tls-cert" in ended.stderr
    assert not (tmp_path / "home").exists()


# What is answered


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("/healthz", Health),
        ("/api/me", Me),
        ("/api/runs", RunPage),
        ("/api/runs/{run_id}", RunDocument),
        ("/api/runs/{run_id}/steps", LedgerDocument),
        ("/api/runs/{run_id}/attempts", AttemptList),
        ("/api/runs/{run_id}/events", EventPage),
        ("/api/runs/{run_id}/logs/{step}", Log),
        ("/api/events", EventPage),
        ("/api/workflows", ModeList),
        ("/api/workflows/{name}/mode", ModeDocument),
        ("/api/workflows/-/mode", ModeDocument),
        ("/api/workflows/{name}/memory", VersionList),
        ("/api/heals", HealList),
        ("/api/queue", QueueDocument),
        ("/api/workers", WorkerList),
        ("/api/policy", PolicyDocument),
        ("/api/audit/verify", AuditDocument),
    ],
)
def test_what_is_answered_is_what_is_described(
    client: httpx2.Client, done: str, path: str, shape: AnswerType
) -> None:
    answer = client.get(a_path(path, done))
    assert answer.status_code == 200, answer.text
    msgspec.json.decode(answer.content, type=shape)
    again = client.get(a_path(path, done), headers={"If-None-Match": answer.headers["ETag"]})
    assert again.status_code in (200, 304)
    assert again.status_code == 200 or again.content == b""
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


def test_a_run_that_did_not_change_is_not_sent_again(client: httpx2.Client, done: str) -> None:
    tag = client.get(f"/api/runs/{done}").headers["ETag"]
    assert client.get(f"/api/runs/{done}", headers={"If-None-Match": tag}).status_code == 304
    assert client.get(f"/api/runs/{done}", headers={"If-None-Match": '"other"'}).status_code == 200


def test_the_description_is_complete(client: httpx2.Client) -> None:
    told = client.get("/api/openapi.json").json()
    assert told == json.loads(json.dumps(described()))
    operations = [
        (path, method, one) for path, methods in told["paths"].items() for method, one in methods.items()
    ]
    for_programs = {(method, path) for method, path in MAY if path.startswith("/api/") or path in OPEN}
    described_ones = {(method.upper(), path) for path, method, _ in operations}
    assert described_ones | {("GET", "/api/openapi.json")} == for_programs
    for path, method, one in operations:
        refusals = [one["responses"][status]["content"] for status in ("401", "404", "409", "422")]
        assert all("application/problem+json" in content for content in refusals), (path, method)
        names = {parameter["name"] for parameter in one.get("parameters", ())}
        assert ("Idempotency-Key" in names) == (method == "post")
    held = json.dumps(told)
    for reference in set(re.findall(r'"#/components/schemas/(\w+)"', held)):
        assert reference in told["components"]["schemas"]


def test_lists_come_in_pages_that_miss_nothing_and_repeat_nothing(
    client: httpx2.Client, house: Gateway
) -> None:
    made = {house.submit(TINY, queue="nobody") for _ in range(5)}
    seen: list[str] = []
    cursor = None
    while True:
        asked: dict[str, str | int] = {"limit": 2, "status": "queued", "workflow": "tiny"}
        if cursor is not None:
            asked["cursor"] = cursor
        answer = client.get("/api/runs", params=asked).json()
        seen += [item["runId"] for item in answer["items"]]
        assert len(answer["items"]) <= 2
        if (cursor := answer["nextCursor"]) is None:
            break
    assert len(seen) == len(set(seen))
    assert made <= set(seen)
    assert client.get("/api/runs", params={"cursor": "x"}).status_code == 400


def test_events_come_in_pages(client: httpx2.Client, done: str) -> None:
    whole = client.get(f"/api/runs/{done}/events").json()["items"]
    first = client.get(f"/api/runs/{done}/events", params={"limit": 2}).json()
    rest = client.get(f"/api/runs/{done}/events", params={"after": first["nextCursor"]}).json()
    assert first["items"] + rest["items"] == whole
    assert whole[0]["payload"]["submittedBy"].startswith("first operator (operator, tok-")
    assert whole[0]["payload"]["submitReason"] == "to look at it"


def test_a_log_is_read_piece_by_piece_in_whole_characters(client: httpx2.Client, done: str) -> None:
    path = f"/api/runs/{done}/logs/a"
    whole = client.get(path).json()["log"]
    assert "grüezi" in whole
    pieces, place = [], 0
    while (piece := client.get(path, params={"after": place, "limit": 5}).json())["log"]:
        pieces.append(piece["log"])
        place = piece["nextOffset"]
    assert "".join(pieces) == whole


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/api/runs/nothing", None, 404),
        ("GET", "/api/nothing", None, 404),
        ("DELETE", "/api/runs", None, 405),
        ("GET", "/api/runs?limit=0", None, 422),
        ("GET", "/api/runs?status=odd", None, 422),
        ("POST", "/api/runs", {"plan": TINY, "odd": 1}, 422),
        ("POST", "/api/runs", {}, 422),
        ("POST", "/api/runs", {"plan": "{version: 1}"}, 422),
        ("POST", "/api/runs", {"plan": TINY, "planPath": "/x"}, 422),
        ("POST", "/api/runs", {"planPath": "x.yaml"}, 422),
        ("POST", "/api/runs", {"plan": TINY, "fromStep": "a"}, 422),
        ("POST", "/api/runs", {"reuse": "nothing"}, 404),
        ("POST", "/api/runs", {"plan": TINY, "inputs": {"odd": "1"}}, 409),
        ("POST", "/api/workflows/nothing/mode", {"mode": "paused", "reason": "x"}, 404),
        ("POST", "/api/workflows/tiny/mode", {"mode": "paused", "reason": " "}, 422),
        ("POST", "/api/workflows/tiny/mode", {"mode": "paused", "reason": "x", "forS": True}, 422),
        ("POST", "/api/workflows/tiny/memory/rollback", {"reason": "x"}, 404),
        ("POST", "/api/heals/nothing/a/accept", {}, 404),
    ],
)
def test_what_goes_wrong_is_a_problem_in_words(
    client: httpx2.Client, done: str, method: str, path: str, body: Any, status: int
) -> None:
    answer = client.request(method, path, json=body)
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    told = msgspec.json.decode(answer.content, type=ProblemAnswer)
    assert told.status == status and told.detail


def test_a_problem_does_not_tell_back_what_was_given(client: httpx2.Client) -> None:
    given = "".join(("not", "for", "anybody"))
    answer = client.post("/api/runs", json={"plan": TINY, "priority": given})
    assert answer.status_code == 422
    assert given not in answer.text


def numbers_asked_for() -> Iterator[tuple[type[shapes.Shape], str]]:
    for shape in shapes.Shape.__subclasses__():
        for name, told in (
            shape.model_json_schema()["properties"].items() if "Request" in shape.__name__ else ()
        ):
            if {"number", "integer"} & {one.get("type") for one in (told, *told.get("anyOf", ()))}:
                yield shape, name


def test_neither_true_nor_text_is_taken_for_a_number() -> None:
    asked = list(numbers_asked_for())
    assert {"forS", "delayS", "priority", "attempt", "limit"} <= {name for _, name in asked}
    for shape, name in asked:
        took = [value for value in (True, "1", 1) if is_taken(shape, name, value)]
        assert [type(value) for value in took] == [int], f"{shape.__name__}.{name}"


def is_taken(shape: type[shapes.Shape], name: str, value: Any) -> bool:
    try:
        shape.model_validate({name: value})
    except ValidationError as error:
        return (name,) not in [one["loc"] for one in error.errors()]
    return True


FIELDS = (
    "action",
    "as",
    "attempt",
    "force",
    "forS",
    "fromStep",
    "inputs",
    "mode",
    "needs",
    "plan",
    "planPath",
)
MORE_FIELDS = (
    "priority",
    "queue",
    "reason",
    "reuse",
    "stepId",
    "token",
    "version",
    "delayS",
    "dedupKey",
    "heal",
)
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
CHANGING = sorted(path for method, path in MAY if method == "POST" and path != "/api/session")


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(CHANGING),
    st.dictionaries(st.sampled_from([*FIELDS, *MORE_FIELDS]), ODD, max_size=6) | ODD,
    st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=8),
)
def test_nothing_that_is_sent_breaks_it(
    client: httpx2.Client, done: str, template: str, body: Any, odd: str
) -> None:
    for run_id in (done, odd):
        answer = client.post(a_path(template, run_id), content=json.dumps(body).encode())
        assert answer.status_code < 500, (template, body, answer.text)
    assert client.get("/api/runs", params={"cursor": odd, "workflow": odd}).status_code in (200, 400)


def test_a_body_has_a_limit_whatever_it_announces(house: Gateway) -> None:
    with house.client() as client:
        large = b" " * (BODY_BYTES_MAX + 1)
        assert client.post("/api/runs", content=large).status_code == 413
        assert client.post("/api/runs", content=iter([large[:-1], b"  "])).status_code == 413


# What is changed


def test_a_key_makes_a_second_request_harmless(client: httpx2.Client) -> None:
    body, key = {"plan": TINY, "queue": "nobody"}, {"Idempotency-Key": "november"}
    first, second = (client.post("/api/runs", json=body, headers=key) for _ in range(2))
    assert first.json() == second.json()
    assert second.headers["Idempotency-Replayed"] == "true"
    assert second.headers["Location"] == first.headers["Location"] == f"/api/runs/{first.json()['runId']}"
    other = client.post("/api/runs", json={**body, "priority": 1}, headers=key)
    assert other.status_code == 422
    fresh = client.post("/api/runs", json=body, headers={"Idempotency-Key": "december"})
    assert fresh.json()["runId"] != first.json()["runId"]


def test_keys_of_two_tokens_are_two_keys(house: Gateway) -> None:
    other = recoup(house.home, "tokens", "make", "operator", "--name", "b").strip()
    told = []
    with house.client() as client:
        for token in (house.tokens["operator"], other):
            asked = {"Idempotency-Key": "same", "Authorization": f"Bearer {token}"}
            answer = client.post("/api/runs", json={"plan": TINY, "queue": "nobody"}, headers=asked)
            told.append(answer.json()["runId"])
    assert told[0] != told[1]


def test_a_mode_is_set_once_under_a_key_and_says_who_and_why(client: httpx2.Client, done: str) -> None:
    before = client.get("/api/events", params={"limit": 500}).json()["items"]
    body, key = {"mode": "degraded", "reason": "the bank is odd"}, {"Idempotency-Key": "mode-1"}
    answers = [client.post("/api/workflows/tiny/mode", json=body, headers=key) for _ in range(2)]
    msgspec.json.decode(answers[0].content, type=ModeDocument)
    assert answers[0].json()["mode"] == "degraded" and answers[0].content == answers[1].content
    events = client.get("/api/events", params={"after": 0, "limit": 500}).json()["items"]
    changed = [one for one in events if one["type"] == "workflow.mode.changed"]
    assert len(changed) == 1 + sum(one["type"] == "workflow.mode.changed" for one in before)
    held = json.dumps(changed[-1])
    assert "the bank is odd" in held and "first operator" in held
    client.post("/api/workflows/tiny/mode", json={"mode": "running", "reason": "mended"})


def test_a_run_is_steered_and_a_control_that_cannot_be_is_a_conflict(
    client: httpx2.Client, house: Gateway
) -> None:
    run_id = house.submit(SLOW)
    house.wait(run_id, lambda run: run["status"] == "running" and run["knownGoodPrefixLength"] == 1)
    path = f"/api/runs/{run_id}/control"
    odd = client.post(path, json={"action": "approve", "reason": "x"})
    assert odd.status_code == 409
    assert "possible now" in odd.json()["detail"]
    asked = {"action": "takeover", "reason": "by hand"}
    taken = client.post(path, json=asked, headers={"Idempotency-Key": "t-1"})
    assert taken.status_code == 200, taken.text
    msgspec.json.decode(taken.content, type=Controlled)
    live = house.wait(run_id, lambda run: run["status"] == "waiting")["liveControl"]
    assert live["takeover"] is True and live["recovery"]["action"] == "takeover"
    assert client.post(path, json=asked, headers={"Idempotency-Key": "t-1"}).content == taken.content
    alias = client.post(f"/api/task-runs/{run_id}/control", json={"action": "cancel", "reason": "enough"})
    assert alias.status_code == 200, alias.text
    assert house.wait(run_id, lambda run: run["status"] == "cancelled")["exitCode"] == 6
    handled = [
        one["payload"]
        for one in client.get(f"/api/runs/{run_id}/events").json()["items"]
        if one["type"] == "task.control"
    ]
    assert all("first operator" in one["actor"] for one in handled)
    assert [one["action"] for one in handled] == ["approve", "takeover", "cancel"]


def test_a_new_run_reuses_what_an_earlier_one_has_proven(
    client: httpx2.Client, house: Gateway, done: str
) -> None:
    answer = client.post("/api/runs", json={"reuse": done, "fromStep": "a"})
    assert answer.status_code == 201, answer.text
    again = house.wait(answer.json()["runId"], lambda run: run["status"] == "succeeded")
    assert again["parentRunId"] == done


def test_plans_can_be_kept_to_certain_folders(tmp_path: Path) -> None:
    inside, outside = tmp_path / "plans", tmp_path / "other"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "plan.yaml").write_text(TINY)
    (inside / "link.yaml").symlink_to(outside / "plan.yaml")
    with gateway(tmp_path / "home", "--plans", str(inside)) as served, served.client() as client:
        refused: list[dict[str, str]] = [
            {"plan": TINY},
            {"planPath": str(outside / "plan.yaml")},
            {"planPath": str(inside / "link.yaml")},
            {"planPath": str(inside / ".." / "other" / "plan.yaml")},
        ]
        for body in refused:
            assert client.post("/api/runs", json=body).status_code == 403, body
        answer = client.post("/api/runs", json={"planPath": str(inside / "plan.yaml")})
        assert answer.status_code == 201
        missing = client.post("/api/runs", json={"planPath": str(inside / "nothing.yaml")})
        assert missing.status_code == 422


# Streams


def messages(answer: httpx2.Response) -> Iterator[dict[str, str]]:
    one: dict[str, str] = {}
    for line in answer.iter_lines():
        if not line and one.get("id"):
            yield one
        if not line:
            one = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(": ")
            one[name] = value


def test_a_stream_tells_every_event_of_a_run_and_goes_on_where_it_was_left(
    client: httpx2.Client, house: Gateway
) -> None:
    run_id = house.submit("{version: 1, name: tiny, steps: [{id: a, run: sleep 0.5}, {id: b, run: 'true'}]}")
    path = f"/api/runs/{run_id}/events/stream"
    with client.stream("GET", path) as answer:
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        seen = [next(told) for told in [messages(answer)] for _ in range(2)]
    with client.stream("GET", path, headers={"Last-Event-ID": seen[-1]["id"]}) as answer:
        seen += list(messages(answer))
    assert seen.pop()["event"] == "end"
    listed = client.get(f"/api/runs/{run_id}/events").json()["items"]
    assert [json.loads(one["data"]) for one in seen] == listed
    over = client.get(path, headers={"Last-Event-ID": str(listed[-1]["seq"])})
    assert over.status_code == 204
    assert client.get(path, headers={"Last-Event-ID": "x"}).status_code == 400


def test_a_log_is_followed_to_its_end(client: httpx2.Client, house: Gateway) -> None:
    run_id = house.submit("{version: 1, name: tiny, steps: [{id: a, run: 'echo one; sleep 0.4; echo two'}]}")
    with client.stream("GET", f"/api/runs/{run_id}/logs/a/stream") as answer:
        told = list(messages(answer))
    whole = client.get(f"/api/runs/{run_id}/logs/a").json()["log"]
    assert "".join(json.loads(one["data"])["log"] for one in told[:-1]) == whole
    assert "one" in whole and "two" in whole


def test_runs_and_events_of_all_are_followed(client: httpx2.Client, house: Gateway) -> None:
    run_id = house.submit(TINY, queue="nobody")
    with client.stream("GET", "/api/runs/stream") as answer:
        runs = (json.loads(one["data"]) for one in messages(answer) if one["event"] == "run")
        assert next(one for one in runs if one["runId"] == run_id)["status"] == "queued"
    with client.stream("GET", "/api/events/stream") as answer:
        events = (json.loads(one["data"]) for one in messages(answer))
        assert next(one for one in events if one["runId"] == run_id)["type"] == "task.run.submitted"


# Where it runs


def test_it_is_the_same_on_postgresql(tmp_path: Path, postgres: PostgresServer) -> None:
    env = {"RECOUP_DATABASE": postgres.prepared_database(), "RECOUP_TOKEN": TOKEN, "RECOUP_KEY": KEY}
    with gateway(tmp_path / "home", "--workers", "1", env=env) as served:
        assert served.tokens == {}
        served.tokens["operator"] = env["RECOUP_TOKEN"]
        ids = [served.submit(TINY) for _ in range(2)]
        for run_id in ids:
            served.wait(run_id, lambda run: run["status"] == "succeeded")
        with served.client() as client:
            first = client.get("/api/runs", params={"limit": 1}).json()
            second = client.get("/api/runs", params={"limit": 1, "cursor": first["nextCursor"]}).json()
            assert {first["items"][0]["runId"], second["items"][0]["runId"]} == set(ids)
            with client.stream("GET", f"/api/runs/{ids[0]}/events/stream") as answer:
                told = list(messages(answer))
            assert told[-1]["event"] == "end"
            assert len(told) - 1 == len(client.get(f"/api/runs/{ids[0]}/events").json()["items"])


def test_tls_is_spoken_where_a_certificate_is_given_and_the_end_waits_for_no_stream(tmp_path: Path) -> None:
    cert, key = a_certificate(tmp_path)
    with gateway(tmp_path / "home", "--tls-cert", str(cert), "--tls-key", str(key)) as served:
        assert served.url.startswith("https://127.0.0.1:")
        trusting = ssl.create_default_context(cafile=str(cert))
        with httpx2.Client(base_url=served.url, verify=trusting, trust_env=False) as client:
            answer = client.post("/api/session", json={"token": served.tokens["viewer"]})
            assert "secure" in answer.headers["Set-Cookie"].lower()
            with client.stream("GET", "/api/events/stream") as answer:
                assert answer.status_code == 200
                served.process.terminate()
                assert served.process.wait(4) == 0, "answers would be waited for 5 s"


def a_certificate(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    cert_path, key_path = folder / "cert.pem", folder / "key.pem"
    cert_path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    key_path.write_bytes(key.private_bytes(*form))
    return cert_path, key_path


# What was learned


async def test_heals_are_looked_through_and_lessons_taken_back(tmp_path: Path) -> None:
    path, home = plan_file(tmp_path), tmp_path / "home"
    written = path.read_bytes()
    shop = Shop(home)
    assert (await shop.run_file(path, "run-1")).status == "succeeded"
    await shop.ledger.close()
    with gateway(home) as served, served.client() as client:
        heals = client.get("/api/heals", params={"workflow": "shop"})
        msgspec.json.decode(heals.content, type=HealList)
        assert {one["stepId"] for one in heals.json()["items"]} >= {"approve", "save"}
        first = client.post("/api/workflows/shop/memory/snapshot", json={"reason": "before"}).json()[
            "version"
        ]
        accepted = client.post("/api/heals/run-1/approve/accept", json={})
        told = msgspec.json.decode(accepted.content, type=HealAccepted)
        assert told.heal.state == "accepted" and (told.heal.by or "").startswith("first operator")
        assert "+" in told.patch and "Approve invoice" in told.patch and not told.problem
        assert path.read_bytes() == written, "the gateway changes no plan"
        late = client.post("/api/heals/run-1/approve/reject", json={"reason": "no"})
        assert late.status_code == 409 and "was accepted" in late.json()["detail"]
        rejected = client.post("/api/heals/run-1/save/reject", json={"reason": "another button"})
        assert msgspec.json.decode(rejected.content, type=HealDocument).state == "rejected"
        assert client.post("/api/heals/run-1/save/accept", json={}).status_code == 409
        asked = {"json": {"reason": "as it is"}, "headers": {"Idempotency-Key": "snap"}}
        memory = "/api/workflows/shop/memory"
        made = [
            client.post(f"{memory}/snapshot", json=asked["json"], headers=asked["headers"]) for _ in (1, 2)
        ]
        assert made[0].json() == made[1].json()
        versions = client.get(memory)
        msgspec.json.decode(versions.content, type=VersionList)
        names = [one["version_id"] for one in versions.json()["items"]]
        assert names[0] == made[0].json()["version"]
        back = client.post(f"{memory}/rollback", json={"reason": "too soon", "version": names[0]})
        assert back.status_code == 409, "nothing was learned since"
        back = client.post(f"{memory}/rollback", json={"reason": "too soon", "version": first})
        gone = msgspec.json.decode(back.content, type=Rollback)
        assert (gone.to_version, gone.reason) == (first, "too soon") and gone.by.startswith("first operator")


def test_first_tokens_that_nobody_would_see_are_kept_in_a_file_of_their_owner(tmp_path: Path) -> None:
    home = tmp_path / "home"
    words = ["--home", str(home), "serve", "--port", "0"]
    command = [sys.executable, "-m", "recoup.cli.main", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        try:
            while "serving on " not in (line := process.stderr.readline()):
                assert line, "it ended"
            url = line.split()[2]
            kept = home / "first-tokens"
            tokens = dict(line.split() for line in kept.read_text().splitlines())
            assert set(tokens) == {"viewer", "operator", "worker", "probe"}
            assert stat.S_IMODE(kept.stat().st_mode) == 0o600
            auth = {"Authorization": f"Bearer {tokens['viewer']}"}
            assert httpx2.get(f"{url}/api/runs", headers=auth, trust_env=False).status_code == 200
        finally:
            process.terminate()
        printed = process.stdout.read() + process.stderr.read()
    assert str(kept) in printed and not any(token in printed for token in tokens.values())
