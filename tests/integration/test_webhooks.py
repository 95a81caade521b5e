"""Webhooks on a real gateway with real receivers: signed, in order, at least once, and nobody waits for another."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import msgspec
import pytest
from tests.integration.gateway_house import Gateway, gateway

from recoup.app import App, open_app
from recoup.errors import UsageError
from recoup.gateway import hooks as couriers
from recoup.gateway.hooks import Hooks
from recoup.kernel.webhooks import GIVEN_UP_S
from recoup.model.answers.inbox import WebhookAdded
from recoup.model.mode import Mode
from recoup.operations.workflows import ModeRequest, set_mode
from recoup.outgoing.places import is_inside
from recoup.settings import read_settings

PATIENCE_S = 20.0
PLACE = "/told/a-key-in-the-path?key=1"
TINY = "{version: 1, name: tiny, steps: [{id: a, run: 'true'}]}"


class Receiver:
    """Somebody who is told."""

    def __init__(self) -> None:
        self.came: list[tuple[dict[str, str], bytes]] = []
        self.paths: set[str] = set()
        self.answers: list[int] = []
        """The first ones; 200 afterwards."""
        self.stuck = threading.Event()
        self.stuck.set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.paths.add(self.path)
                receiver.stuck.wait(PATIENCE_S)
                receiver.came.append(({key.lower(): value for key, value in self.headers.items()}, body))
                status = receiver.answers.pop(0) if receiver.answers else 200
                self.send_response(status)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_words: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}{PLACE}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def types(self) -> list[str]:
        return [json.loads(body)["type"] for _, body in list(self.came)]

    def close(self) -> None:
        self.stuck.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receivers() -> Iterator[Callable[[], Receiver]]:
    with contextlib.ExitStack() as held:

        def made() -> Receiver:
            one = Receiver()
            held.callback(one.close)
            return one

        yield made


@pytest.fixture(autouse=True)
def told_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process."""
    monkeypatch.setattr(couriers, "INSIDE_ANSWER_S", 0.05)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with gateway(tmp_path_factory.mktemp("hooks") / "home", "--workers", "1") as served:
        yield served


def until(look: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not (found := look()):
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.02)
    return found


def added(client: httpx2.Client, url: str, name: str, *kinds: str) -> tuple[str, str]:
    answer = client.post("/api/webhooks", json={"url": url, "name": name, "events": list(kinds)})
    assert answer.status_code == 201, answer.text
    told = msgspec.json.decode(answer.content, type=WebhookAdded)
    return told.id, told.secret


def test_events_are_told_in_order_signed_and_to_each_by_itself(
    house: Gateway, receivers: Callable[[], Receiver]
) -> None:
    quick, slow = receivers(), receivers()
    slow.stuck.clear()
    with house.client() as client:
        hook, secret = added(client, quick.url, "quick", "task.run.*")
        added(client, slow.url, "slow", "task.run.*")
        run_id = house.submit(TINY)
        until(lambda: "task.run.succeeded" in quick.types())
        assert quick.types() == ["task.run.submitted", "task.run.started", "task.run.succeeded"]
        for headers, body in quick.came:
            at, made = (part.partition("=")[2] for part in headers["recoup-signature"].split(","))
            assert made == hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
            assert json.loads(body)["runId"] == run_id
        assert quick.paths == {PLACE}
        numbers = [int(headers["recoup-delivery"]) for headers, _ in quick.came]
        assert numbers == sorted(set(numbers))
        assert slow.came == []
        slow.stuck.set()
        until(lambda: "task.run.succeeded" in slow.types())
        listed = client.get("/api/webhooks").json()["items"]
        assert [one["url"] for one in listed if one["id"] == hook] == [quick.url.replace(PLACE, "/…")]
        for page in ("/api/webhooks", "/settings"):
            told_there = client.get(page).text
            assert secret not in told_there and PLACE.strip("/") not in told_there
        for path in [*house.home.glob("gateway.db*"), *house.home.glob("webhooks/*")]:
            assert secret.encode() not in path.read_bytes(), path
            assert PLACE.encode() not in path.read_bytes(), path
        assert client.post(f"/api/webhooks/{hook}/test").json()["ok"] is True
        assert quick.types()[-1] == "webhook.test"
        gone = client.post(f"/api/webhooks/{hook}/remove", json={"reason": "enough"})
        assert gone.status_code == 200
        count = len(quick.came)
        events = client.get("/api/events", params={"limit": 500}).json()["items"]
        told = [one for one in events if one["type"].startswith("gateway.webhook.")]
        assert [one["payload"]["name"] for one in told] == ["quick", "slow", "quick"]
        assert PLACE not in json.dumps(told) and secret not in json.dumps(told)
        house.wait(house.submit(TINY), lambda run: run["status"] == "succeeded")
        until(lambda: slow.types().count("task.run.succeeded") == 2)
        assert len(quick.came) == count


@pytest.mark.parametrize("url", ["http://hooks.example/x", "ftp://a", "https://u:p@hooks.example"])
def test_what_could_be_read_on_the_way_is_not_told(house: Gateway, url: str) -> None:
    with house.client() as client:
        answer = client.post("/api/webhooks", json={"url": url, "name": "x", "events": ["Escalated"]})
    assert answer.status_code == 409, answer.text


# Trouble


@contextlib.asynccontextmanager
async def working(folder: Path) -> AsyncIterator[tuple[App, Hooks]]:
    settings = read_settings({"HOME": str(folder)}, folder, str(folder / "home"))
    async with open_app(settings, {}) as app:
        hooks = Hooks(app)
        courier = asyncio.create_task(hooks.work())
        try:
            yield app, hooks
        finally:
            courier.cancel()
            await asyncio.gather(courier, return_exceptions=True)
            hooks.close()


async def soon(look: Callable[[], Any]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not look():
            await asyncio.sleep(0.02)


async def test_what_was_not_taken_is_told_again_also_by_the_next_gateway(
    tmp_path: Path, receivers: Callable[[], Receiver], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(couriers, "LOOK_S", 0.02)
    receiver = receivers()
    receiver.answers = [500, 302, 200]
    monkeypatch.setattr(couriers, "retry_s", lambda _failed: 0.05)
    async with working(tmp_path) as (app, hooks):
        hook, _ = await hooks.add(receiver.url, ("workflow.mode.changed",), "x", "me", None)
        await set_mode(app, ModeRequest(workflow="w", mode=Mode.PAUSED, reason="odd"), "me")
        await soon(lambda: len(receiver.came) == 3)
        numbers = {headers["recoup-delivery"] for headers, _ in receiver.came}
        assert len(numbers) == 1, "the same delivery, again and again, and no redirection followed"
        await soon(lambda: hooks.book.find(hook.id).failed == 0)
    async with working(tmp_path) as (app, hooks):
        await set_mode(app, ModeRequest(workflow="w", mode=Mode.RUNNING, reason="mended"), "me")
        await soon(lambda: len(receiver.came) == 4)


async def test_who_cannot_be_told_for_a_day_is_switched_off_and_that_is_recorded(
    tmp_path: Path, receivers: Callable[[], Receiver], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(couriers, "LOOK_S", 0.02)
    monkeypatch.setattr(couriers, "retry_s", lambda _failed: 0.0)
    receiver = receivers()
    receiver.answers = [503] * 1_000
    async with working(tmp_path) as (app, hooks):
        hook, _ = await hooks.add(receiver.url, ("workflow.*",), "x", "me", None)
        await set_mode(app, ModeRequest(workflow="w", mode=Mode.PAUSED, reason="odd"), "me")
        await soon(lambda: hooks.book.find(hook.id).failed)
        assert hooks.book.find(hook.id).off_at is None
        since = "UPDATE webhooks SET first_failed_s = first_failed_s - ?"
        hooks.book._db.execute(since, (GIVEN_UP_S,))
        await soon(lambda: hooks.book.find(hook.id).off_at is not None)
        told = [one for one in await app.ledger.arrivals() if one.type == "gateway.webhook.switched_off"]
        assert len(told) == 1 and "did not take it" in told[0].payload.text


async def test_a_secret_that_cannot_be_read_troubles_its_webhook_alone(
    tmp_path: Path, receivers: Callable[[], Receiver], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(couriers, "LOOK_S", 0.02)
    receiver = receivers()
    async with working(tmp_path) as (app, hooks):
        cut, _ = await hooks.add(receiver.url, ("workflow.*",), "cut", "me", None)
        for path in tmp_path.glob("home/webhooks/*"):
            path.write_bytes(path.read_bytes()[:5])
        await hooks.add(receiver.url, ("workflow.*",), "whole", "me", None)
        await set_mode(app, ModeRequest(workflow="w", mode=Mode.PAUSED, reason="odd"), "me")
        await soon(lambda: receiver.came and "is damaged" in hooks.book.find(cut.id).trouble)
        assert len(receiver.came) == 1


async def test_a_mistake_of_ours_in_one_courier_ends_no_other(
    tmp_path: Path,
    receivers: Callable[[], Receiver],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(couriers, "LOOK_S", 0.02)
    receiver = receivers()
    async with working(tmp_path) as (app, hooks):
        wrong, _ = await hooks.add("http://127.0.0.1:9/x", ("workflow.*",), "wrong", "me", None)
        # Nobody can add such an address; a file that was altered may hold one.
        hooks.book._db.execute("UPDATE webhooks SET url = 'http://[odd' WHERE id = ?", (wrong.id,))
        await hooks.add(receiver.url, ("workflow.*",), "right", "me", None)
        await set_mode(app, ModeRequest(workflow="w", mode=Mode.PAUSED, reason="odd"), "me")
        await soon(lambda: receiver.came and hooks.book.find(wrong.id).failed)
        assert hooks.book.find(wrong.id).trouble == "a mistake of ours: ValueError"
        assert f"the courier of {wrong.id} met ValueError" in caplog.text


async def test_names_are_taken_once_and_no_more_than_so_many(tmp_path: Path) -> None:
    async with working(tmp_path) as (_, hooks):
        await hooks.add("http://127.0.0.1:9/x", ("Escalated",), "x", "me", None)
        with pytest.raises(UsageError):
            await hooks.add("http://127.0.0.1:9/x", ("Escalated",), "x", "me", None)


async def test_inside_our_network_open_closed_and_silent_ports_are_told_alike(
    tmp_path: Path,
    receivers: Callable[[], Receiver],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(couriers, "ANSWER_S", 0.3)
    monkeypatch.setattr(couriers, "INSIDE_ANSWER_S", 0.4)
    slept: list[float] = []
    sleep = asyncio.sleep

    async def noted(delay_s: float) -> None:
        slept.append(delay_s)
        await sleep(0 if delay_s > 0.1 else delay_s)

    angry = receivers()
    angry.answers = [404] * 9
    with socket.socket() as silent, socket.socket() as closed:
        silent.bind(("127.0.0.1", 0))
        silent.listen(1)
        closed.bind(("127.0.0.1", 0))
        places = (
            urlsplit(angry.url).netloc,
            *(f"127.0.0.1:{one.getsockname()[1]}" for one in (silent, closed)),
        )
        async with working(tmp_path) as (_, hooks):
            hooked = [(await hooks.add(f"http://{one}/", ("x",), one, "me", None))[0] for one in places]
            monkeypatch.setattr(asyncio, "sleep", noted)
            told = [await hooks.test(one.id, "me") for one in hooked]
    said = {one.detail.replace(place, "PLACE") for one, place in zip(told, places, strict=True)}
    assert len(said) == 1 and not any(one.ok for one in told)
    assert len([one for one in slept if one <= 0.4]) >= 3, "each waits for the rest of the same time"
    for why in ("answered 404", "has not answered", "cannot be reached"):
        assert why in caplog.text, "the operator's log says what it was"


INSIDE = (
    *("127.0.0.1", "localhost", "10.0.0.1", "192.168.1.1", "169.254.169.254"),
    *("[::1]", "[::ffff:127.0.0.1]", "[fd00::1]"),
)


@pytest.mark.parametrize("host", [*INSIDE, "8.8.8.8"])
async def test_what_is_inside_is_known_by_its_address(host: str) -> None:
    assert await is_inside(urlsplit(f"https://{host}/x")) is (host in INSIDE)


async def test_the_id_of_a_delivery_is_signed(tmp_path: Path, receivers: Callable[[], Receiver]) -> None:
    receiver = receivers()
    async with working(tmp_path) as (_, hooks):
        hook, secret = await hooks.add(receiver.url, ("x",), "x", "me", None)
        assert (await hooks.test(hook.id, "me")).ok
    headers, body = receiver.came[0]
    at, _, made = headers["recoup-delivery-signature"].partition(",v2=")
    signed = f"{at.removeprefix('t=')}.{headers['recoup-delivery']}.".encode() + body
    assert made == hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
