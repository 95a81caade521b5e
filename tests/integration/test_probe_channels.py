"""Channels that are really open: servers are stopped, started again and made silent."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest
from tests.integration.probe_peers import (
    Peer,
    StreamPeer,
    WebPeer,
    attempts,
    failures,
    free_port,
    house_of,
    last_fault,
    processes_below,
    recovers,
    runs,
)

from recoup.model.probe import Action, Phase
from recoup.probe.kinds.links.link import trouble_in

CLASSES = {
    "tcp": "tcp_disconnected",
    "unix": "unix_disconnected",
    "http": "http_disconnected",
    "websocket": "websocket_disconnected",
    "dialog": "dialog_target_disconnected",
}


def channel(words: str, timeout: str = "10s") -> str:
    return f"{{version: 1, resources: [{{id: link, channel: {{{words}, connect_timeout: {timeout}}}}}]}}"


def peer_of(transport: str, root: Path) -> tuple[Peer, str]:
    """And how the probe file names it."""
    port = free_port()
    match transport:
        case "tcp":
            return StreamPeer(port), f"tcp: '127.0.0.1:{port}'"
        case "unix":
            return StreamPeer(root / "s"), "unix: s"
        case "http":
            return WebPeer(port), f"http: 'http://127.0.0.1:{port}/'"
        case "websocket":
            return WebPeer(port), f"websocket: 'ws://127.0.0.1:{port}/ws'"
        case _:
            return WebPeer(port), f"dialog: {{url: 'ws://127.0.0.1:{port}/ws'}}"


@pytest.mark.parametrize("transport", CLASSES)
async def test_a_channel_is_lost_with_its_server_and_open_again_only_when_that_is_back(
    tmp_path: Path, transport: str
) -> None:
    peer, words = peer_of(transport, tmp_path)
    await peer.start()
    async with house_of(tmp_path, channel(words)).running() as house:
        await runs(house, "link")
        assert peer.opened == 1
        await peer.stop()
        await house.pass_time(11 if transport == "http" else 0)
        await recovers(house, "link")
        assert last_fault(house, "link").fault_class == CLASSES[transport]
        await house.pass_time(30)
        await house.until(lambda: bool(failures(house, "link")))
        assert failures(house, "link")[0].error_code in ("ECONNREFUSED", "ENOENT")
        (tmp_path / "s").unlink(missing_ok=True)
        await peer.start()
        await house.pass_time(90)
        await runs(house, "link")
        assert peer.opened == 2
        made = [(one.action, one.fault_class, one.retry_count) for one in attempts(house, "link")]
        assert made == [(Action.RECONNECT, CLASSES[transport], number) for number in (1, 2)]
        assert "RecoverySucceeded" in house.types("link")
    await peer.stop()


@pytest.mark.parametrize("transport", ["http", "websocket", "dialog"])
async def test_a_server_that_takes_everything_and_answers_nothing_is_noticed(
    tmp_path: Path, transport: str
) -> None:
    peer, words = peer_of(transport, tmp_path)
    assert isinstance(peer, WebPeer)
    await peer.start()
    async with house_of(tmp_path, channel(words, "1s")).running() as house:
        await runs(house, "link")
        peer.mute.set()
        await house.pass_time(11)
        await recovers(house, "link")
        fault = last_fault(house, "link")
        assert (fault.fault_class, fault.error_code) == (CLASSES[transport], "timeout")
        peer.mute.clear()
        await house.pass_time(30)
        await runs(house, "link")
        assert [one.retry_count for one in attempts(house, "link")] == [1]
    await peer.stop()


async def test_an_http_channel_asks_on_one_connection(tmp_path: Path) -> None:
    peer, words = peer_of("http", tmp_path)
    assert isinstance(peer, WebPeer)
    await peer.start()
    async with house_of(tmp_path, channel(words)).running() as house:
        await runs(house, "link")
        for asked in range(2, 5):
            await house.pass_time(11)
            await house.until(lambda asked=asked: peer.asked > asked)  # type: ignore[misc]
        assert peer.opened == 1
    await peer.stop()


async def test_an_http_server_may_close_what_is_idle(tmp_path: Path) -> None:
    port = free_port()
    peer = WebPeer(port)
    await peer.start()
    async with house_of(tmp_path, channel(f"http: 'http://127.0.0.1:{port}/'")).running() as house:
        await runs(house, "link")
        for opened in (2, 3):
            await peer.close_idle()
            await house.pass_time(11)
            await house.until(lambda opened=opened: peer.opened >= opened)  # type: ignore[misc]
        assert house.phase("link") == Phase.RUNNING and not attempts(house, "link")
    await peer.stop()


async def test_a_websocket_that_says_much_and_asks_back_is_well(tmp_path: Path) -> None:
    port = free_port()
    peer = WebPeer(port, noisy=True)
    await peer.start()
    async with house_of(tmp_path, channel(f"websocket: 'ws://127.0.0.1:{port}/ws'")).running() as house:
        await runs(house, "link")
        await house.until(lambda: peer.pongs == 1)
        assert not attempts(house, "link")
    await peer.stop()


async def test_what_is_not_there_at_the_start_is_a_fault_of_the_channels_own_class(tmp_path: Path) -> None:
    port = free_port()
    async with house_of(tmp_path, channel(f"tcp: '127.0.0.1:{port}'")).running() as house:
        await recovers(house, "link")
        fault = last_fault(house, "link")
        assert (fault.fault_class, fault.error_code) == ("tcp_disconnected", "ECONNREFUSED")
        assert fault.reason == f"127.0.0.1:{port}: Connection refused"


async def test_what_speaks_no_tls_is_said(tmp_path: Path) -> None:
    port = free_port()
    peer = WebPeer(port)
    await peer.start()
    async with house_of(tmp_path, channel(f"http: 'https://127.0.0.1:{port}/'")).running() as house:
        await recovers(house, "link")
        assert last_fault(house, "link").error_code == "tls"
    await peer.stop()


def test_a_host_that_nobody_knows_is_called_so() -> None:
    error = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    assert trouble_in(error) == ("Name or service not known", "unknown_host")
    assert trouble_in(OSError("Multiple exceptions")) == ("Multiple exceptions", "OSError")


async def test_what_speaks_http_but_no_websocket_is_not_taken_for_one(tmp_path: Path) -> None:
    port = free_port()
    peer = WebPeer(port)
    await peer.start()
    async with house_of(tmp_path, channel(f"websocket: 'ws://127.0.0.1:{port}/'")).running() as house:
        await recovers(house, "link")
        assert last_fault(house, "link").error_code == "http_200"
    await peer.stop()


AGENT = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if sys.argv[1:] != ["mute"]:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {}}), flush=True)
"""


def dialog(root: Path, *more: str, timeout: str = "10s") -> str:
    (root / "agent.py").write_text(AGENT)
    command = ", ".join([sys.executable, "agent.py", *more])
    words = f"dialog: {{command: [{command}]}}, connect_timeout: {timeout}"
    return f"{{version: 1, resources: [{{id: link, channel: {{{words}}}}}]}}"


def agents() -> list[int]:
    return [one.pid for one in processes_below(os.getpid()) if one.argv[1:2] == ["agent.py"]]


async def test_a_dialog_with_a_program_is_taken_up_again_when_that_was_killed(tmp_path: Path) -> None:
    async with house_of(tmp_path, dialog(tmp_path)).running() as house:
        await runs(house, "link")
        (agent,) = agents()
        os.kill(agent, 9)
        await recovers(house, "link")
        fault = last_fault(house, "link")
        assert (fault.fault_class, fault.error_code) == ("dialog_target_disconnected", "signal_9")
        await house.pass_time(30)
        await runs(house, "link")
        assert [one.action for one in attempts(house, "link")] == [Action.RECONNECT]
    assert not agents()


async def test_a_program_that_does_not_answer_is_not_a_dialog(tmp_path: Path) -> None:
    async with house_of(tmp_path, dialog(tmp_path, "mute", timeout="1s")).running() as house:
        await recovers(house, "link")
        fault = last_fault(house, "link")
        assert (fault.fault_class, fault.error_code) == ("dialog_target_disconnected", "timeout")
        assert house.phase("link") == Phase.RECOVERING
