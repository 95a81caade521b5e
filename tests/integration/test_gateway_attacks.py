"""A gateway among people who mean it ill: whatever is sent, it answers in words, soon, and gives away nothing."""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import re
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, urlsplit

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance
from tests.integration.gateway_house import Gateway, gateway
from tests.integration.impatient_gateway_child import PATIENCE

from recoup.gateway.access import Role
from recoup.gateway.book import Book
from recoup.gateway.hosts import OwnHosts
from recoup.gateway.limits import BODY_BYTES_MAX, HEADER_BYTES_MAX, HEADERS_MAX
from recoup.gateway.service import served
from recoup.serving.brake import WRONG_TOKENS_MAX, Brake

SCRIPT = "<script>alert(document.cookie)</script>"
MEAN = {
    "version": 1,
    "name": "mean",
    "objective": SCRIPT,
    "steps": [
        {"id": "a", "title": f'"><img src=x onerror=alert(1)>{SCRIPT}', "run": f"echo '{SCRIPT}'; exit 3"}
    ],
}
LAX = settings(
    deadline=None,
    database=None,
    max_examples=4,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    home = tmp_path_factory.mktemp("attacks") / "home"
    with gateway(home, "--workers", "1", "--allow-host", "recoup.example") as served:
        yield served


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    home = tmp_path_factory.mktemp("impatient") / "home"
    with gateway(home, module="tests.integration.impatient_gateway_child") as served:
        yield served


@pytest.fixture(scope="module")
def mean(house: Gateway) -> str:
    """A run that holds scripts wherever words may stand, and has failed."""
    run_id = house.submit(json.dumps(MEAN), reason=SCRIPT)
    house.wait(run_id, lambda run: run["status"] == "failed")
    return run_id


@pytest.fixture
def client(house: Gateway) -> Iterator[httpx2.Client]:
    with house.client() as made:
        yield made


def connected(house: Gateway, source: str = "127.0.0.1") -> socket.socket:
    place = urlsplit(house.url)
    assert place.hostname and place.port
    return socket.create_connection((place.hostname, place.port), 10, (source, 0))


def asked(house: Gateway, raw: bytes, source: str = "127.0.0.1") -> bytes:
    """All that comes back until the line is closed."""
    with connected(house, source) as line:
        line.sendall(raw)
        return until_closed(line)


def until_closed(line: socket.socket) -> bytes:
    found = bytearray()
    try:
        while piece := line.recv(1 << 16):
            found += piece
    except ConnectionResetError:
        pass
    return bytes(found)


def request(house: Gateway, method: str, target: str, *more: str, body: bytes = b"") -> bytes:
    lines = [
        f"{method} {target} HTTP/1.1",
        f"Authorization: Bearer {house.tokens['operator']}",
        "Connection: close",
        *more,
    ]
    if not any(line.startswith("Host:") for line in more):
        lines.append(f"Host: {urlsplit(house.url).netloc}")
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


def is_still_there(house: Gateway) -> bool:
    return status_of(asked(house, request(house, "GET", "/healthz"))) == 200


# Against its own description


def conforms(house: Gateway, known: dict[str, str], examples: int) -> None:
    """What the description allows, and what it forbids, is answered as it says, and never as a mistake of ours."""
    with house.client() as client:
        told = client.get("/api/openapi.json").json()
    for one in [one for methods in told["paths"].values() for one in methods.values()]:
        del one["security"]  # wrong tokens are tried elsewhere: here nothing else would be listened to
    del told["components"]["securitySchemes"]
    schema = schemathesis.openapi.from_dict(told)
    operations: list[Any] = [found.ok() for found in schema.get_all_operations()]  # type: ignore[union-attr]
    assert (
        len(operations) == len([path for _, path in served() if path in OPEN or path.startswith("/api/")]) - 1
    )
    for operation in operations:
        if operation.path.endswith("/stream") or operation.path == "/api/session":
            continue
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            if mode is GenerationMode.POSITIVE or can_be_wrong(operation):
                role = "operator" if "operator" in operation.definition.raw["x-roles"] else "probe"
                attack(house, role, operation.as_strategy(generation_mode=mode), known, examples)


def can_be_wrong(operation: Any) -> bool:
    """Any text may stand in most paths."""
    return bool(operation.query or operation.body)


def attack(house: Gateway, role: str, strategy: Any, known: dict[str, str], examples: int) -> None:
    turn = [0]

    @settings(LAX, max_examples=examples)
    @given(case=strategy)
    def one(case: Any) -> None:
        turn[0] += 1
        for name in case.path_parameters or {}:
            if name in known and turn[0] % 2:
                case.path_parameters[name] = known[name]
        if isinstance(wait_s := (case.query or {}).get("wait_s"), int | float):
            case.query["wait_s"] = min(wait_s, 0.5)  # it may wait for half a minute, and the client does not
        answer = case.call(base_url=house.url, headers=house.auth(role))
        assert answer.status_code not in (401, 403, 429)
        if answer.status_code != 413:
            # What fits its description may still be refused: fields go together, and runs go on.
            case.validate_response(answer, excluded_checks=[positive_data_acceptance])

    one()


def test_it_answers_as_it_is_described_whatever_it_is_asked(house: Gateway, mean: str) -> None:
    conforms(house, {"run_id": mean, "step": "a"}, 2)


@pytest.mark.soak
def test_it_answers_as_it_is_described_for_long(house: Gateway, mean: str) -> None:
    conforms(house, {"run_id": mean, "step": "a", "name": "mean"}, 200)


# Forged requests


@pytest.fixture
def signed_in(house: Gateway) -> Iterator[tuple[httpx2.Client, str]]:
    """A browser that is signed in, and the word that its own page knows."""
    with house.client(None) as browser:
        csrf = browser.post("/api/session", json={"token": house.tokens["operator"]}).json()["csrf"]
        yield browser, csrf


OPEN = ("/healthz", "/metrics")
FORMS = (
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "",
    "text/json",
)


def test_another_site_can_make_a_browser_change_nothing(
    house: Gateway, signed_in: tuple[httpx2.Client, str]
) -> None:
    browser, csrf = signed_in
    body = json.dumps({"plan": "{version: 1, name: forged, steps: [{id: a, run: 'true'}]}"}).encode()
    as_json, right = {"Content-Type": "application/json"}, {"X-CSRF-Token": csrf}
    theirs = [path for (method, path), may in served().items() if method == "POST" and Role.OPERATOR in may]
    changing = [path for path in theirs if path != "/api/session"]
    for template in changing:
        path = re.sub(r"\{\w+\}", "x", template)
        for headers in (
            as_json,
            as_json | {"X-CSRF-Token": ""},
            as_json | {"X-CSRF-Token": csrf[:-1]},
            as_json | right | {"Origin": "https://evil.example"},
            as_json | right | {"Origin": "null"},
            as_json | right | {"Origin": house.url.replace("http://", "http://evil.")},
        ):
            assert browser.post(path, content=body, headers=headers).status_code == 403, (path, headers)
        for media in FORMS:
            answer = browser.post(path, content=body, headers=right | {"Content-Type": media})
            assert answer.status_code == 415, (path, media)
    assert "forged" not in browser.get("/api/runs").text


@pytest.mark.parametrize("media", FORMS)
def test_bodies_that_are_not_json_are_not_taken_from_anybody(client: httpx2.Client, media: str) -> None:
    body = json.dumps({"token": "x" * 40}).encode()
    for path in ("/api/session", "/api/runs"):
        answer = client.post(path, content=body, headers={"Content-Type": media})
        assert answer.status_code == 415
        assert answer.headers["Content-Type"] == "application/problem+json"


# Names that lead elsewhere

OTHER_PLACES = (
    "..",
    "../..",
    "../private/plan.json",
    "....//....//etc/passwd",
    "/etc/passwd",
    "..\\..\\private",
    "\x00",
    "a\x00.png",
    "%2e%2e%2fprivate",
    "‥/‥",
    "sha256:../../../ledger.db",
    "sha256:" + "a" * 63 + "/",
    "x" * 20_000,
    "-1",
    "1e9",
    "0x0",
    "٣",
)


def spellings(place: str) -> Iterator[str]:
    yield quote(place, safe="")
    yield quote(quote(place, safe=""), safe="")
    yield quote(place, safe="/.").replace("..", "%2e%2e")
    yield quote(place, safe="/")


NAMES = {name for _, template in served() for name in re.findall(r"\{(\w+)\}", template)}


def elsewhere(known: dict[str, str]) -> Iterator[str]:
    """Every path with each of its parameters led astray in every spelling, and the others right."""
    for method, template in served():
        if method != "GET" or template.endswith("/stream"):
            continue
        for name in re.findall(r"\{(\w+)\}", template):
            filled = template.format_map({**dict.fromkeys(NAMES, "1"), **known, name: "@"})
            for spelt in {one for place in OTHER_PLACES for one in spellings(place)}:
                if len(spelt) < HEADER_BYTES_MAX // 2:
                    yield filled.replace("@", spelt)


def test_no_parameter_leads_anywhere_else(house: Gateway, mean: str) -> None:
    secret = house.home / "runs" / mean / "private"
    secret.mkdir(exist_ok=True)
    (secret / "plan.json").write_text(mark := "never-to-be-" + "shown")
    known = {"run_id": mean, "step": "a", "attempt": "1", "name": "mean", "handle": "sha256:" + "0" * 64}
    place = urlsplit(house.url)
    assert place.hostname
    line = HTTPConnection(place.hostname, place.port, timeout=10)  # it sends a target as it is
    for target in elsewhere(known):
        line.request("GET", target, headers=house.auth("operator"))
        answer = line.getresponse()
        body = answer.read().decode()
        assert answer.status in (400, 404, 405, 422), (target[:200], answer.status)
        assert mark not in body and "root:" not in body
        is_page = not target.startswith("/api/") and answer.headers.get_content_type() == "text/html"
        assert is_page or answer.headers["Content-Type"] == "application/problem+json"
    line.close()


def test_what_is_not_http_is_refused_in_a_word(house: Gateway) -> None:
    netloc = urlsplit(house.url).netloc
    for raw in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 100,
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        f"GET /../../etc/passwd HTTP/1.1\r\nHost: {netloc}\r\nHost: {netloc}\r\n\r\n".encode(),
        f"GET /\x00 HTTP/1.1\r\nHost: {netloc}\r\n\r\n".encode(),
        f"GET / HTTP/1.1\r\nHost: {netloc}\r\nA\x00: b\r\n\r\n".encode(),
        f"POST /api/runs HTTP/1.1\r\nHost: {netloc}\r\nContent-Length: -1\r\n\r\n".encode(),
        f"POST /api/runs HTTP/1.1\r\nHost: {netloc}\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n".encode(),
        f"POST /api/runs HTTP/1.1\r\nHost: {netloc}\r\nTransfer-Encoding: odd\r\n\r\n".encode(),
    ):
        answer = asked(house, raw)
        assert status_of(answer) in (400, 421, 501), raw
    assert is_still_there(house)


def test_a_length_beside_chunks_smuggles_nothing(house: Gateway) -> None:
    """Whoever stands before us must not see another end of the first request than we do."""
    inner = request(house, "GET", "/api/me")
    body = b"0\r\n\r\n" + inner
    more = ("Transfer-Encoding: chunked", f"Content-Length: {len(body)}", "Content-Type: application/json")
    raw = request(house, "POST", "/api/runs", *more).replace(b"Connection: close\r\n", b"") + body
    answer = asked(house, raw)
    assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"400"]


# Scripts


def test_what_was_stored_as_a_script_is_told_as_words(client: httpx2.Client, mean: str) -> None:
    paths = [
        *("/api/runs", f"/api/runs/{mean}", f"/api/runs/{mean}/steps", f"/api/runs/{mean}/events"),
        *(f"/api/runs/{mean}/logs/a", f"/api/runs/{mean}/attempts/a/1", "/api/events", "/api/workflows"),
    ]
    for path in paths:
        answer = client.get(path)
        assert answer.status_code == 200
        assert answer.headers["Content-Type"] == "application/json", path
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert SCRIPT in client.get(f"/api/runs/{mean}/logs/a").json()["log"], "it is told as it was printed"
    report = client.get(f"/api/runs/{mean}/report")
    assert report.headers["Content-Type"] == "text/html; charset=utf-8"
    policy = report.headers["Content-Security-Policy"]
    assert policy.startswith("sandbox; default-src 'none'; style-src 'sha256-") and "unsafe" not in policy
    assert "<script" not in report.text and "<img" not in report.text
    assert "&lt;script&gt;" in report.text
    with client.stream("GET", f"/api/runs/{mean}/events/stream") as stream:
        assert stream.headers["Content-Type"].startswith("text/event-stream")
        assert stream.headers["X-Content-Type-Options"] == "nosniff"


def test_a_name_in_an_address_is_told_back_as_json(client: httpx2.Client) -> None:
    answer = client.get(f"/api/runs/{quote(SCRIPT, safe='')}")
    assert answer.status_code == 404
    assert answer.headers["Content-Type"] == "application/problem+json"


# Too much


def test_a_body_that_is_compressed_is_not_unpacked(client: httpx2.Client) -> None:
    bomb = gzip.compress(b" " * 50_000_000)
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    assert client.post("/api/runs", content=bomb, headers=headers).status_code == 415
    large = b" " * (BODY_BYTES_MAX + 1)
    assert client.post("/api/runs", content=large, headers=headers).status_code == 413


def test_deep_and_wide_documents_are_refused(client: httpx2.Client) -> None:
    as_json = {"Content-Type": "application/json"}
    deep = b"[" * 500_000 + b"]" * 500_000
    wide = b'{"inputs":{' + b",".join(b'"k%d":"v"' % n for n in range(50_000)) + b"}}"
    for body in (deep, wide, b'{"plan": "' + b"[" * 900_000 + b'"}', b'{"plan": "&a [*a, *a]"}', b"\xff\xfe"):
        assert client.post("/api/runs", content=body, headers=as_json).status_code in (400, 422), body[:20]


def test_numbers_beyond_all_bounds_are_refused(client: httpx2.Client, mean: str) -> None:
    huge = 10**30
    cursor = base64.urlsafe_b64encode(json.dumps([huge, "x"]).encode()).decode().rstrip("=")
    assert client.get("/api/runs", params={"cursor": cursor}).status_code == 400
    paths = ("/api/events", f"/api/runs/{mean}/events", f"/api/runs/{mean}/logs/a", "/api/stream")
    for path in (*paths, f"/api/runs/{mean}/patches/a", f"/api/runs/{mean}/events/stream"):
        assert client.get(path, params={"after": huge}).status_code == 422, path
    assert client.get(f"/api/runs/{mean}/attempts/a/{huge}").status_code == 422
    late = client.get("/api/events", params={"after": 10**18 - 1})
    assert late.status_code == 200 and late.json()["items"] == []


def test_heads_have_a_limit(house: Gateway) -> None:
    long = "X-Long: " + "x" * HEADER_BYTES_MAX
    many = [f"X-Many-{n}: x" for n in range(HEADER_BYTES_MAX // 10)]
    for more in ([long], many, ["Cookie: " + "a=b; " * HEADER_BYTES_MAX]):
        assert status_of(asked(house, request(house, "GET", "/api/me", *more))) in (400, 431)
    few = [f"X-Many-{n}: x" for n in range(HEADERS_MAX)]
    assert status_of(asked(house, request(house, "GET", "/api/me", *few))) == 431
    target = "/api/runs?workflow=" + "x" * HEADER_BYTES_MAX
    assert status_of(asked(house, request(house, "GET", target))) in (400, 431)
    assert is_still_there(house)


# Too slow


def closed_after_s(line: socket.socket, feed: Callable[[], None] = lambda: None) -> float:
    """How long the gateway listens to somebody who says a little now and then."""
    line.settimeout(0.1)
    began_s = time.monotonic()
    while time.monotonic() - began_s < 10:
        try:
            feed()
            if not line.recv(1 << 16):
                break
        except TimeoutError:
            continue
        except OSError:
            break
    return time.monotonic() - began_s


def test_who_says_a_letter_at_a_time_is_not_listened_to_for_long(impatient: Gateway) -> None:
    with connected(impatient) as line:
        line.sendall(b"GET /api/me HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        assert closed_after_s(line, lambda: line.sendall(b"X: y\r\n")) < 4 * PATIENCE.head_s_max
    with connected(impatient) as line:
        assert closed_after_s(line) < 4 * PATIENCE.head_s_max, "who says nothing at all"


def test_a_body_that_does_not_come_is_not_waited_for(impatient: Gateway) -> None:
    length, chunks = "Content-Length: 100000", "Transfer-Encoding: chunked"
    targets = [("/api/runs", chunks)]
    targets += [(path, length) for path in ("/api/runs", "/api/session", "/api/nothing", "/healthz")]
    with contextlib.ExitStack() as closing, ThreadPoolExecutor(len(targets)) as together:
        waits = []
        for target, how in targets:
            line = closing.enter_context(connected(impatient))
            raw = request(impatient, "POST", target, how, "Content-Type: application/json")
            line.sendall(raw.replace(b"Connection: close\r\n", b""))
            piece = b"1\r\n \r\n" if how is chunks else b" "
            waits.append(together.submit(closed_after_s, line, partial(line.sendall, piece)))
        assert max(wait.result() for wait in waits) < 4 * PATIENCE.body_s_max
    assert is_still_there(impatient)


def test_who_asks_for_much_and_reads_nothing_is_cut_off(impatient: Gateway) -> None:
    asking = request(impatient, "GET", "/api/openapi.json").replace(b"Connection: close\r\n", b"")
    with connected(impatient) as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        line.settimeout(5)
        deadline_s = time.monotonic() + 60
        try:
            while time.monotonic() < deadline_s:
                line.sendall(asking * 10)
        except (OSError, TimeoutError):
            pass
        assert time.monotonic() < deadline_s, "it was never cut off"
    assert is_still_there(impatient)


def test_a_line_that_is_half_closed_holds_nothing(impatient: Gateway) -> None:
    for raw in (b"", b"GET /api/me HTT", request(impatient, "GET", "/api/stream")):
        with connected(impatient) as line:
            line.sendall(raw)
            line.shutdown(socket.SHUT_WR)
            assert closed_after_s(line) < 4 * PATIENCE.head_s_max


def test_requests_that_are_sent_ahead_are_answered_in_order(house: Gateway) -> None:
    first = request(house, "GET", "/api/me").replace(b"Connection: close\r\n", b"")
    second = request(house, "GET", "/api/nothing").replace(b"Connection: close\r\n", b"")
    answer = asked(house, first + second + request(house, "GET", "/healthz"))
    assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"200", b"404", b"200"]


def test_what_is_sent_behind_a_stream_does_not_keep_it(impatient: Gateway) -> None:
    raw = request(impatient, "GET", "/api/stream").replace(b"Connection: close\r\n", b"")
    for _ in range(20):
        with connected(impatient) as line:
            line.sendall(raw * 3)
            assert line.recv(100).startswith(b"HTTP/1.1 200")
    assert is_still_there(impatient)


# Who asks


def test_signing_in_with_wrong_tokens_is_slowed_down_by_address(house: Gateway) -> None:
    told = []
    for number in range(WRONG_TOKENS_MAX + 1):
        body = json.dumps({"token": "x" * (50 + number)}).encode()
        raw = request(house, "POST", "/api/session", "Content-Type: application/json", body=body)
        raw = re.sub(rb"Authorization: [^\r]+\r\n", b"", raw)
        told.append(status_of(asked(house, raw, "127.0.0.7")))
    assert told == [401] * WRONG_TOKENS_MAX + [429]
    right = request(house, "GET", "/api/me")
    assert status_of(asked(house, right, "127.0.0.7")) == 200, "who shares the address is not kept out"


def test_one_who_has_many_addresses_is_one() -> None:
    brake = Brake(lambda: 1.0)
    for number in range(WRONG_TOKENS_MAX):
        brake.wrong(f"2001:db8:1:2::{number:x}", str(number))
    assert brake.wait_s("2001:db8:1:2:ffff::1") > 0
    assert brake.wait_s("2001:db8:1:3::1") == 0
    for number in range(WRONG_TOKENS_MAX):
        brake.wrong("::ffff:192.0.2.1", str(number))
    assert brake.wait_s("192.0.2.1") > 0


def test_a_token_is_never_compared_but_by_its_hash(tmp_path: Path) -> None:
    """Nothing is told by how long it takes: a token that differs in its last letter has quite another hash."""
    book = Book(tmp_path / "gateway.db", time.time)
    token = book.make(Role.VIEWER, "a", "now")
    secret, _ = book.open_session(found := book.who(token) or pytest.fail("unknown"))
    seen: list[str] = []
    db: sqlite3.Connection = book._db
    db.set_trace_callback(seen.append)
    assert book.who(token) == found and book.session(secret)
    assert book.who(token[:-1] + "~") is None and book.session(secret[:-1] + "~") is None
    book.close()
    assert seen and not [line for line in seen if token[:20] in line or secret[:20] in line]


# By which name


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.example", 421),
        ("evil.example:8620", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example", 421),
        ("192.0.2.1", 421),
        ("[2001:db8::1]", 421),
        ("", 421),
        ("recoup.example.evil.example", 421),
        ("user@127.0.0.1", 421),
        ("127.0.0.1", 200),
        ("127.0.0.1:9", 200),
        ("localhost:8620", 200),
        ("LOCALHOST.", 200),
        ("[::1]:8620", 200),
        ("recoup.example", 200),
        ("Recoup.Example:443", 200),
    ],
)
def test_only_its_own_names_are_answered(house: Gateway, host: str, status: int) -> None:
    answer = asked(house, request(house, "GET", "/api/me", f"Host: {host}"))
    assert status_of(answer) == status
    if status == 421:
        assert b"application/problem+json" in answer and b"--allow-host" in answer


def test_the_address_that_was_reached_is_its_own_in_any_spelling() -> None:
    hosts = OwnHosts(cast(Any, None), ["gateway.example", ""])
    for host, reached in (("192.0.2.1", "::ffff:192.0.2.1"), ("2001:db8:0::1", "2001:db8::1")):
        assert hosts._is_ours(host, reached)
    for host, reached in (("192.0.2.2", "192.0.2.1"), ("", ""), ("evil.example", "192.0.2.1")):
        assert not hosts._is_ours(host, reached)


def test_no_header_makes_another_name_its_own(house: Gateway) -> None:
    more = ("Host: evil.example", "X-Forwarded-Host: localhost", "Forwarded: host=localhost")
    assert status_of(asked(house, request(house, "GET", "/healthz", *more))) == 421
    absolute = asked(house, request(house, "GET", "http://localhost/api/me", "Host: evil.example"))
    assert status_of(absolute) == 421
    old = asked(house, b"GET /healthz HTTP/1.0\r\n\r\n")
    assert status_of(old) == 421


def test_an_address_that_somebody_pretends_to_have_is_not_believed(house: Gateway) -> None:
    status = 0
    for number in range(WRONG_TOKENS_MAX + 1):
        body = json.dumps({"token": "y" * (50 + number)}).encode()
        pretended = f"X-Forwarded-For: 192.0.2.{number}"
        raw = request(house, "POST", "/api/session", pretended, "Content-Type: application/json", body=body)
        status = status_of(asked(house, re.sub(rb"Authorization: [^\r]+\r\n", b"", raw), "127.0.0.8"))
    assert status == 429


def test_no_other_method_does_anything(client: httpx2.Client, mean: str) -> None:
    for method in ("PUT", "DELETE", "PATCH", "TRACE", "OPTIONS", "CONNECT", "ODD"):
        for path in ("/api/runs", f"/api/runs/{mean}/control", "/healthz"):
            answer = client.request(method, path)
            assert answer.status_code == 405, (method, path)
            assert "access-control-allow-origin" not in answer.headers
