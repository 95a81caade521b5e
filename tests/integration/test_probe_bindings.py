"""Ports that are held and files that say which: strangers in the way, listeners that are lost, addresses that change."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.integration.probe_peers import (
    StreamPeer,
    attempts,
    failures,
    free_port,
    house_of,
    last_fault,
    recovers,
    runs,
)

from recoup.errors import InvalidProbe
from recoup.model.probe import Action, Phase
from recoup.probe.kinds.endpoint import Unresolved, local_address, value_in, with_value
from recoup.probe.port_owner import who_listens

HOLD = "import socket, sys; s = socket.create_server(('127.0.0.1', int(sys.argv[1]))); print('held', flush=True); sys.stdin.read()"


@contextmanager
def stranger(port: int) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the port."""
    argv = [sys.executable, "-c", HOLD, str(port)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(await reader.read())
    await writer.drain()
    writer.close()


async def said_through(port: int, words: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(words)
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    return answer


async def ended(answer: Awaitable[bytes]) -> bool:
    """Whether the connection was closed, in whatever way, without a word."""
    try:
        return await answer == b""
    except ConnectionResetError:
        return True


def stop_listening(port: int) -> None:
    """As if the system had taken the listener away: the file descriptor is there, and nobody can connect."""
    inodes = {
        line.split()[9]
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
        if line.split()[3] == "0A" and line.split()[1].endswith(f":{port:04X}")
    }
    for opened in Path("/proc/self/fd").iterdir():
        found = re.fullmatch(r"socket:\[(\d+)\]", str(opened.readlink()) if opened.is_symlink() else "")
        if found and found[1] in inodes:
            with socket.socket(fileno=os.dup(int(opened.name))) as listener:
                listener.shutdown(socket.SHUT_RDWR)


def binding(words: str) -> str:
    return f"{{version: 1, resources: [{{id: front, binding: {{{words}}}}}]}}"


async def test_a_forward_passes_on_and_is_bound_again_when_its_listener_is_lost(tmp_path: Path) -> None:
    target, port = await asyncio.start_server(echo, "127.0.0.1", 0), free_port()
    to = target.sockets[0].getsockname()[1]
    text = binding(f"port: {port}, forward_to: '127.0.0.1:{to}'")
    async with house_of(tmp_path, text).running() as house:
        await runs(house, "front")
        much = os.urandom(1 << 20)
        assert await said_through(port, much) == much
        stop_listening(port)
        await house.pass_time(11)
        await recovers(house, "front")
        assert last_fault(house, "front").fault_class == "binding_lost"
        await house.pass_time(30)
        await runs(house, "front")
        assert await said_through(port, b"again") == b"again"
        assert [one.action for one in attempts(house, "front")] == [Action.REBIND]
    with pytest.raises(ConnectionRefusedError):
        await said_through(port, b"it is over")
    target.close()


async def test_what_is_being_passed_on_ends_with_the_binding(tmp_path: Path) -> None:
    target_port, port = free_port(), free_port()
    target = StreamPeer(target_port)
    await target.start()
    text = binding(f"port: {port}, forward_to: '127.0.0.1:{target_port}'")
    async with house_of(tmp_path, text).running() as house:
        await runs(house, "front")
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await house.until(lambda: target.opened == 1)
    assert await ended(reader.read())
    writer.close()
    await target.stop()


async def test_a_target_that_is_not_there_ends_the_connection_and_not_the_binding(tmp_path: Path) -> None:
    port = free_port()
    async with house_of(tmp_path, binding(f"port: {port}, forward_to: '127.0.0.1:9'")).running() as house:
        await runs(house, "front")
        assert await ended(said_through(port, b"hello"))
        await house.pass_time(11)
        assert house.phase("front") == Phase.RUNNING


async def test_only_who_holds_the_same_address_is_in_the_way() -> None:
    port = free_port()
    with stranger(port) as holder:
        assert f"process {holder.pid} " in (who_listens(port, "127.0.0.1") or "")
        assert f"process {holder.pid} " in (who_listens(port, "0.0.0.0") or "")
        assert who_listens(port, "127.0.0.2") is None


async def test_looks_are_not_passed_on(tmp_path: Path) -> None:
    target_port, port = free_port(), free_port()
    target = StreamPeer(target_port)
    await target.start()
    text = binding(f"port: {port}, forward_to: '127.0.0.1:{target_port}'")
    async with house_of(tmp_path, text).running() as house:
        await runs(house, "front")
        for _ in range(3):
            await house.pass_time(11)
        assert house.phase("front") == Phase.RUNNING and target.opened == 0
    await target.stop()


@pytest.mark.parametrize("how", ["forward", "command"])
async def test_a_port_that_a_stranger_holds_is_said_with_his_name_and_he_is_left_alone(
    tmp_path: Path, how: str
) -> None:
    port = free_port()
    serve = f"command: [{sys.executable}, -m, http.server, --bind, 127.0.0.1, '{port}']"
    text = binding(f"port: {port}, " + ("forward_to: '127.0.0.1:9'" if how == "forward" else serve))
    with stranger(port) as holder:
        async with house_of(tmp_path, text).running() as house:
            await recovers(house, "front")
            fault = last_fault(house, "front")
            assert (fault.fault_class, fault.error_code) == ("binding_port_taken", "EADDRINUSE")
            assert f"process {holder.pid} (python" in fault.reason
            await house.pass_time(30)
            await house.until(lambda: bool(failures(house, "front")))
            assert holder.poll() is None, "nobody touches him"
            holder.kill()
            holder.wait()
            await house.pass_time(90)
            await runs(house, "front")
            assert [one.retry_count for one in attempts(house, "front")] == [1, 2]
            assert f"process {os.getpid()} " in (who_listens(port, "127.0.0.1") or "") or how == "command"


async def test_a_program_that_listens_is_started_again_when_it_ends(tmp_path: Path) -> None:
    port = free_port()
    text = binding(f"port: {port}, command: [{sys.executable}, -m, http.server, --bind, 127.0.0.1, '{port}']")
    async with house_of(tmp_path, text).running() as house:
        await runs(house, "front")
        found = re.match(r"process (\d+) ", who_listens(port, "127.0.0.1") or "")
        assert found is not None
        os.kill(int(found[1]), 9)
        await recovers(house, "front")
        fault = last_fault(house, "front")
        assert (fault.fault_class, fault.error_code) == ("binding_lost", "signal_9")
        await house.pass_time(30)
        await runs(house, "front")
    assert who_listens(port, "127.0.0.1") is None


# Endpoints


async def test_an_endpoint_follows_the_port_of_its_binding(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("# ours\nexport API_URL=old\nOTHER='x y'\n")
    (tmp_path / ".env").chmod(0o640)
    text = """
version: 1
resources:
  - {id: front, binding: {port: 0, forward_to: "127.0.0.1:9"}}
  - id: url
    needs: [front]
    endpoint: {file: .env, variable: API_URL, binding: front, format: "http://{host}:{port}/"}
"""
    async with house_of(tmp_path, text).running() as house:
        await runs(house, "url")
        found = re.fullmatch(
            r"# ours\nexport API_URL=http://127\.0\.0\.1:(\d+)/\nOTHER='x y'\n",
            (tmp_path / ".env").read_text(),
        )
        assert found is not None
        stop_listening(int(found[1]))
        await house.pass_time(11)
        await recovers(house, "front")
        await house.pass_time(30)
        await runs(house, "front")
        await runs(house, "url")
        port = re.search(r":(\d+)/", (tmp_path / ".env").read_text())
        assert port is not None and f"process {os.getpid()} " in (
            who_listens(int(port[1]), "127.0.0.1") or ""
        )
    assert (tmp_path / ".env").stat().st_mode & 0o777 == 0o640
    assert sorted(one.name for one in tmp_path.iterdir() if one.name.startswith(".env")) == [".env"]


@pytest.mark.parametrize("source", ["command", "port_file"])
async def test_an_endpoint_that_has_become_wrong_is_refreshed(tmp_path: Path, source: str) -> None:
    (tmp_path / "port").write_text("127.0.0.1:4001\n")
    words = "command: [cat, port]" if source == "command" else "port_file: port"
    text = f"{{version: 1, resources: [{{id: url, endpoint: {{file: where, {words}}}}}]}}"
    async with house_of(tmp_path, text).running() as house:
        await runs(house, "url")
        assert (tmp_path / "where").read_text() == "127.0.0.1:4001\n"
        (tmp_path / "port").write_text("127.0.0.1:4002\n")
        await house.pass_time(11)
        await recovers(house, "url")
        assert last_fault(house, "url").fault_class == "endpoint_stale"
        await house.pass_time(30)
        await runs(house, "url")
        assert (tmp_path / "where").read_text() == "127.0.0.1:4002\n"
        (tmp_path / "where").unlink()
        await house.pass_time(11)
        await recovers(house, "url")
        assert last_fault(house, "url").fault_class == "endpoint_missing"
        await house.pass_time(30)
        await runs(house, "url")
        actions = [one.action for one in attempts(house, "url")]
        assert actions == [Action.REFRESH_LOCAL_ENDPOINT] * 2


async def test_an_endpoint_is_never_sent_to_another_machine(tmp_path: Path) -> None:
    text = "{version: 1, resources: [{id: url, endpoint: {file: where, command: [echo, 'http://192.0.2.7:80/']}}]}"
    async with house_of(tmp_path, text).running() as house:
        await recovers(house, "url")
        fault = last_fault(house, "url")
        assert fault.fault_class == "endpoint_unresolved" and "not an address of this machine" in fault.reason
    assert not (tmp_path / "where").exists()


def test_local_addresses_are_known_without_asking_anybody() -> None:
    for good in (
        "127.0.0.1:80",
        "http://localhost:1/x?y",
        "[::1]:443",
        "/run/a.sock",
        "unix:/a",
        "127.3.2.1",
    ):
        assert local_address(good) == good
    for bad in (
        "example.com:80",
        "http://192.0.2.7/",
        "a b",
        "",
        "http://127.0.0.1:99999/",
        "x" * 3_000,
        "$(id)",
    ):
        with pytest.raises(Unresolved):
            local_address(bad)


LINE = st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=30)


@given(st.lists(LINE, max_size=8), st.sampled_from(["A", "URL", "API_URL"]), st.integers(1, 65_535))
def test_setting_a_variable_changes_its_lines_alone(lines: list[str], variable: str, port: int) -> None:
    text = "".join(f"{line}\n" for line in lines)
    value = f"127.0.0.1:{port}"
    after = with_value(text, variable, value)
    assert value_in(after, variable) == value
    assert with_value(after, variable, value) == after
    kept = after.split("\n")[: len(lines)]
    assert all(new == old for new, old in zip(kept, lines, strict=True) if f"{variable}=" not in old)


@pytest.mark.parametrize(
    ("resource", "words"),
    [
        ("endpoint: {file: a, binding: front}", "add front to `needs`"),
        ("endpoint: {file: a, command: [b], port_file: c}", "must name one source of the address"),
        ("endpoint: {file: a, port_file: c, format: here}", "where the {port} goes"),
        ("binding: {port: 0, command: [a]}", "the port must be known"),
        ("mount: {path: a}", "must name `command` or `source`"),
        ("mount: {path: a, command: [b], type: tmpfs}", "are about `source`"),
        ("channel: {ssh_remote: {host: '-oProxyCommand=x'}}", "name or the address of a machine"),
        ("channel: {ssh_remote: {host: a, forwards: ['-x']}}", "[address:]port:host:hostport"),
        ("channel: {tcp: 'a:1'}, health: [{tcp: 'a:1', only_in: ide_primary}]", "modes of ssh_remote"),
    ],
)
def test_what_cannot_be_is_refused_when_the_file_is_read(tmp_path: Path, resource: str, words: str) -> None:
    with pytest.raises(InvalidProbe) as caught:
        house_of(tmp_path, f"{{version: 1, resources: [{{id: it, {resource}}}]}}")
    assert words in str(caught.value)
