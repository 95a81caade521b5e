"""What a signed-in browser can be made to do: by its own pages everything, by whatever else is on the host nothing."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Browser, Page
from tests.integration.browser_house import needs_browser
from tests.integration.console_reader import browsing
from tests.integration.gateway_house import Gateway, gateway

from recoup.gateway.service import served

PLAN = "{version: 1, name: forged, steps: [{id: a, run: 'true'}]}"
WAITING = "{version: 1, name: waiting, steps: [{id: a, run: 'true'}]}"
_WORD = re.compile(r"(?<![\w-])[\w-]{43}(?![\w-])")
"""256 random bits, as the gateway writes them."""
_STORED = "localStorage.getItem('recoup-csrf')"


class Neighbour(ThreadingHTTPServer):
    """Another service on the same host: its page does what it is told, and it keeps the cookies that it is sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.cookies: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Answer(BaseHTTPRequestHandler):
    server: Neighbour

    def do_GET(self) -> None:
        self.server.cookies += self.headers.get_all("Cookie", [])
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>neighbour</title>")

    def log_message(self, *_about: object) -> None:
        """To nobody."""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with gateway(tmp_path_factory.mktemp("gateway") / "home") as served:
        yield served


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as made:
        yield made


@pytest.fixture
def page(house: Gateway, browser: Browser) -> Iterator[Page]:
    """Signed in as people do it."""
    context = browser.new_context()
    context.set_default_timeout(30_000)
    made = context.new_page()
    sign_in(made, house, "/runs")
    yield made
    context.close()


@pytest.fixture
def neighbour() -> Iterator[Neighbour]:
    with Neighbour() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def sign_in(page: Page, served: Gateway, to: str) -> None:
    page.goto(served.url + "/sign-in?next=" + to)
    page.fill("#token", served.tokens["operator"])
    page.press("#token", "Enter")
    page.wait_for_url(served.url + to)


def cancel(page: Page, served: Gateway, run_id: str) -> None:
    """With the buttons of its page."""
    page.goto(f"{served.url}/runs/{run_id}")
    page.locator(".controls").get_by_role("button", name="Cancel run", exact=True).click()
    page.fill("#ask #reason", "seen")
    page.locator("#ask [type=submit]").click()


@needs_browser
def test_a_service_on_another_port_cannot_change_anything_with_the_cookie_that_it_is_sent(
    house: Gateway, page: Page, neighbour: Neighbour
) -> None:
    word = page.evaluate(_STORED)
    page.goto(neighbour.url)
    cookies = [sent for sent in neighbour.cookies if "recoup_session=" in sent]
    assert cookies, "cookies ignore ports"
    with house.client(None) as thief:
        thief.headers["Cookie"] = cookies[0]
        said = [answer.text for answer in everything(thief)]
        for guess in {"", *(found for text in said for found in _WORD.findall(text))}:
            answer = thief.post("/api/runs", json={"plan": PLAN}, headers={"X-CSRF-Token": guess})
            assert (answer.status_code, answer.json()["type"]) == (403, "urn:recoup:problem:csrf")
        assert thief.get("/api/runs").json()["items"] == []
    assert word and not any(word in text for text in said)


def everything(client: httpx2.Client) -> Iterator[httpx2.Response]:
    """All that can be got by an address alone."""
    for method, path in served():
        if method == "GET" and "{" not in path and not path.endswith("/stream"):
            yield client.get(path)


@needs_browser
def test_a_page_on_another_port_cannot_use_the_browser_that_is_signed_in(
    house: Gateway, page: Page, neighbour: Neighbour
) -> None:
    word = page.evaluate(_STORED)
    page.goto(neighbour.url)
    assert page.evaluate(_STORED) is None, "storage does not ignore ports"
    asked = json.dumps([f"{house.url}/api/runs", json.dumps({"plan": PLAN}), word])
    page.evaluate(
        f"""async () => {{
          const [url, body, word] = {asked};
          const simple = {{method: "POST", body, credentials: "include", mode: "no-cors"}};
          const full = {{...simple, mode: "cors", headers: {{"Content-Type": "application/json", "X-CSRF-Token": word}}}};
          await Promise.allSettled([fetch(url, simple), fetch(url, full)]);
        }}"""
    )
    with house.client() as client:
        assert client.get("/api/runs?workflow=forged").json()["items"] == []
    stream = f"{house.url}/api/stream"
    status = page.evaluate(
        f"new Promise((said) => {{ const s = new EventSource('{stream}', {{withCredentials: true}});"
        " s.onerror = () => said(s.readyState); s.onopen = () => said('open'); })"
    )
    assert status == 2, "refused, and not held open"


@pytest.mark.parametrize("site", ["same-site", "cross-site"])
@pytest.mark.parametrize("path", ["/api/session", "/api/runs", "/api/session/end"])
def test_no_request_from_another_page_changes_anything_whoever_sends_it(
    house: Gateway, site: str, path: str
) -> None:
    with house.client() as client:
        answer = client.post(path, json={}, headers={"Sec-Fetch-Site": site})
        assert (answer.status_code, answer.json()["detail"]) == (403, "this request is from another site")


@needs_browser
def test_every_tab_of_a_signed_in_browser_acts_and_hears_of_changes(house: Gateway, page: Page) -> None:
    run_id = house.submit(WAITING, queue="nobody")
    tab = page.context.new_page()
    tab.goto(f"{house.url}/runs/{run_id}")
    tab.wait_for_selector('#live[data-state="live"]')
    cancel(page, house, run_id)
    tab.locator(".head .badge", has_text="cancelled").wait_for()


@needs_browser
def test_a_browser_that_lost_the_word_is_sent_to_the_door_and_comes_back(house: Gateway, page: Page) -> None:
    run_id = house.submit(WAITING, queue="nobody")
    page.evaluate("localStorage.clear()")
    cancel(page, house, run_id)
    page.wait_for_url("**/sign-in?next=*")
    page.fill("#token", house.tokens["operator"])
    page.press("#token", "Enter")
    page.wait_for_url(f"{house.url}/runs/{run_id}")
    cancel(page, house, run_id)
    page.locator(".head .badge", has_text="cancelled").wait_for()


@needs_browser
def test_signing_out_takes_the_word_away(house: Gateway, page: Page) -> None:
    page.locator(".me summary").click()
    page.click("[data-sign-out]")
    page.wait_for_url("**/sign-in")
    assert page.evaluate(_STORED) is None


@pytest.mark.parametrize(
    ("words", "headers", "secure"),
    [
        ((), {"Origin": "https://127.0.0.1"}, True),
        ((), {"X-Forwarded-Proto": "https"}, False),
        (("--insecure",), {"X-Forwarded-Proto": "https"}, True),
        (("--insecure",), {}, False),
    ],
)
def test_the_cookie_is_for_tls_alone_where_something_before_the_gateway_speaks_it(
    tmp_path: Path, words: tuple[str, ...], headers: dict[str, str], secure: bool
) -> None:
    with gateway(tmp_path / "home", *words) as served, served.client(None) as client:
        said = headers | ({"Host": "127.0.0.1"} if "Origin" in headers else {})
        answer = client.post("/api/session", json={"token": served.tokens["viewer"]}, headers=said)
        name, _, rest = answer.headers["Set-Cookie"].partition("=")
        assert (name, "; secure" in rest.lower()) == (
            "__Host-recoup_session" if secure else "recoup_session",
            secure,
        )
        kept = {"Cookie": f"{name}={rest.partition(';')[0]}"}
        assert client.get("/api/me", headers=kept).json()["role"] == "viewer"
        ended = client.post("/api/session/end", headers=kept | {"X-CSRF-Token": answer.json()["csrf"]})
        assert ended.status_code == 200
        dropped = [text.partition("=")[0] for text in ended.headers.get_list("Set-Cookie")]
        assert sorted(dropped) == ["__Host-recoup_session", "recoup_session"]
