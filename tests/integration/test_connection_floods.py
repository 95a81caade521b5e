"""Connections that show no token: however many they are, whoever has one is answered. With real sockets."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from tests.integration.gateway_house import Gateway, gateway

from recoup.gateway.serving import CONNECTIONS_MAX, PLACES
from recoup.mcp import serving as mcp
from recoup.serving.brake import WRONG_TOKENS_MAX

TOKEN = "-".join(["operators", "token"] * 3)
WAIT_S = 60


class Flood:
    """Many connections to one place, and what became of them."""

    def __init__(self, url: str, count: int, said: bytes = b"") -> None:
        place = urlsplit(url)
        assert place.hostname and place.port
        self.lines = [socket.create_connection((place.hostname, place.port), 30) for _ in range(count)]
        for line in self.lines:
            line.sendall(said)

    def __enter__(self) -> Flood:
        return self

    def __exit__(self, *_raised: object) -> None:
        for line in self.lines:
            line.close()

    def wait_until_open(self, count_max: int) -> int:
        """How many are open once no more than these are."""
        lines, deadline_s = {line.fileno(): line for line in self.lines}, time.monotonic() + WAIT_S
        poll = select.poll()
        for number in lines:
            poll.register(number, select.POLLIN)
        while len(lines) > count_max:
            assert time.monotonic() < deadline_s, f"{len(lines)} are open"
            for number, _ in poll.poll(1_000):
                poll.unregister(number)
                del lines[number]
        return len(lines)


def answered(url: str, head: str, token: str = TOKEN) -> int:
    """The status of one request over a connection of its own."""
    place = urlsplit(url)
    assert place.hostname and place.port
    with socket.create_connection((place.hostname, place.port), WAIT_S) as line:
        words = [head, f"Host: {place.netloc}", f"Authorization: Bearer {token}", "Connection: close"]
        line.sendall("\r\n".join(words).encode() + b"\r\n\r\n")
        first = line.makefile("rb").readline()
    return int(first.split()[1]) if first else 0


GET_ME = "GET /api/me HTTP/1.1"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    home = tmp_path_factory.mktemp("flooded") / "home"
    with gateway(home, env={"RECOUP_TOKEN": TOKEN}) as served:
        yield served


@pytest.mark.parametrize("said", [b"", b"GET /api/me HTTP/1.1\r\nHost: 127"])
def test_connections_that_show_no_token_keep_nobody_out(house: Gateway, said: bytes) -> None:
    with Flood(house.url, CONNECTIONS_MAX, said) as flood:
        assert answered(house.url, GET_ME) == 200
        flood.wait_until_open(PLACES.unproven_of_sender_max)
        assert answered(house.url, GET_ME) == 200


def test_a_connection_that_has_shown_a_token_stays_while_others_are_dropped(house: Gateway) -> None:
    place = urlsplit(house.url)
    with socket.create_connection((str(place.hostname), place.port), WAIT_S) as line:
        words = [GET_ME, f"Host: {place.netloc}", f"Authorization: Bearer {TOKEN}"]
        asked = "\r\n".join(words).encode() + b"\r\n\r\n"
        line.sendall(asked)
        assert b" 200 " in line.recv(100)
        with Flood(house.url, 2 * PLACES.unproven_of_sender_max) as flood:
            flood.wait_until_open(PLACES.unproven_of_sender_max)
            line.sendall(asked)
            assert line.recv(1 << 16), "it was not dropped"


def test_a_head_that_does_not_end_is_not_waited_for(house: Gateway) -> None:
    with Flood(house.url, 3, b"GET /api/me HTTP/1.1\r\nHost: 127") as flood:
        assert flood.wait_until_open(0) == 0


def test_a_right_token_is_never_refused_and_wrong_ones_are_slowed_down(house: Gateway) -> None:
    wrong = [answered(house.url, GET_ME, f"{TOKEN}{number}") for number in range(WRONG_TOKENS_MAX + 2)]
    assert wrong == [401] * WRONG_TOKENS_MAX + [429] * 2
    assert answered(house.url, GET_ME) == 200
    assert answered(house.url, GET_ME, "other") == 429


# recoup mcp --http


@pytest.fixture(scope="module")
def mcp_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Served by a process of its own: its signals are not ours."""
    home = tmp_path_factory.mktemp("mcp") / "home"
    env = {**os.environ, "RECOUP_HOME": str(home), "RECOUP_TOKEN": TOKEN}
    words = [sys.executable, "-m", "recoup.cli.main", "mcp", "--http", "--port", "0", "--json"]
    process = subprocess.Popen(words, env=env, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield json.loads(process.stdout.readline())["url"]
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)


GET_MCP = "GET /mcp HTTP/1.1"


@pytest.mark.parametrize("said", [b"", b"POST /mcp HTTP/1.1\r\nHost: 127"])
def test_mcp_answers_whoever_has_a_token_however_many_have_none(mcp_url: str, said: bytes) -> None:
    with Flood(mcp_url, 2 * mcp.CONNECTIONS_MAX, said) as flood:
        assert answered(mcp_url, GET_MCP) not in (0, 401, 429, 503)
        flood.wait_until_open(mcp.PLACES.unproven_max)
        assert answered(mcp_url, GET_MCP) not in (0, 401, 429, 503)
        flood.wait_until_open(0)


def test_mcp_slows_down_wrong_tokens_and_never_refuses_a_right_one(mcp_url: str) -> None:
    wrong = [answered(mcp_url, GET_MCP, f"{TOKEN}{number}") for number in range(WRONG_TOKENS_MAX + 1)]
    assert wrong == [401] * WRONG_TOKENS_MAX + [429]
    assert answered(mcp_url, GET_MCP) not in (0, 401, 429, 503)
