"""ssh_remote channels to a real sshd on loopback, which is stopped and started."""

from __future__ import annotations

import asyncio
import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.probe_peers import (
    Below,
    StreamPeer,
    attempts,
    failures,
    free_port,
    house_of,
    last_fault,
    processes_below,
    recovers,
    runs,
)

from recoup.model import events as ev
from recoup.model.probe import Action, Command, Health, Phase
from recoup.testing.probe import ProbeHouse

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


class Sshd:
    """One server with keys of its own, under a port of its own, for this user alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        for name in ("host", "id"):
            make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            subprocess.run(make, check=True)
        (folder / "allowed").write_text((folder / "id.pub").read_text())
        kind, key, *_ = (folder / "host.pub").read_text().split()
        (folder / "hosts").write_text(f"[127.0.0.1]:{self.port} {kind} {key}\n")
        (folder / "config").write_text(
            f"ListenAddress 127.0.0.1\nPort {self.port}\nHostKey {folder}/host\nPidFile none\n"
            f"AuthorizedKeysFile {folder}/allowed\nStrictModes no\nUsePAM no\nPasswordAuthentication no\n"
        )

    def start(self) -> None:
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        assert SSHD is not None
        log = (self.folder / "log").open("ab")
        self._process = subprocess.Popen([SSHD, "-D", "-e", "-f", self.folder / "config"], stderr=log)
        log.close()
        deadline_s = time.monotonic() + 20
        while not self._listens():
            assert self._process.poll() is None and time.monotonic() < deadline_s, (
                self.folder / "log"
            ).read_text()
            time.sleep(0.02)

    def stop(self) -> None:
        """With all its sessions."""
        if self._process is None:
            return
        below = processes_below(self._process.pid)
        self._process.kill()
        for one in below:
            os.kill(one.pid, signal.SIGKILL)
        self._process.wait()
        self._process = None

    def _listens(self) -> bool:
        with socket.socket() as trial:
            return trial.connect_ex(("127.0.0.1", self.port)) == 0


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    if SSHD is None or shutil.which("ssh") is None:
        pytest.skip("there is no sshd here: `make debian` installs one on Debian")
    server = Sshd(tmp_path)
    server.start()
    yield server
    server.stop()


def tunnel(sshd: Sshd, more: str = "", health: str = "") -> str:
    words = (
        f"host: 127.0.0.1, port: {sshd.port}, user: {getpass.getuser()}, identity_file: id, "
        f"known_hosts_file: hosts{more}"
    )
    return (
        f"{{version: 1, resources: [{{id: tunnel, channel: {{ssh_remote: {{{words}}}, connect_timeout: 15s}}"
        f"{health}}}]}}"
    )


def sessions() -> list[Below]:
    return [one for one in processes_below(os.getpid()) if one.argv[:1] == ["ssh"]]


async def test_a_session_is_lost_with_the_server_and_comes_back_with_it(tmp_path: Path, sshd: Sshd) -> None:
    async with house_of(tmp_path, tunnel(sshd)).running() as house:
        await runs(house, "tunnel")
        assert len(sessions()) == 1
        sshd.stop()
        await recovers(house, "tunnel")
        assert last_fault(house, "tunnel").fault_class == "ssh_remote_disconnected"
        await house.pass_time(30)
        await house.until(lambda: bool(failures(house, "tunnel")))
        failed = failures(house, "tunnel")[0]
        assert failed.error_code == "ECONNREFUSED" and "Connection refused" in failed.reason
        sshd.start()
        await house.pass_time(90)
        await runs(house, "tunnel")
        made = [(one.action, one.retry_count) for one in attempts(house, "tunnel")]
        assert made == [(Action.RECONNECT, 1), (Action.RECONNECT, 2)]
        assert len(sessions()) == 1
    assert not sessions()


async def test_a_spent_budget_downgrades_once_and_only_the_gateway_leads_back(
    tmp_path: Path, sshd: Sshd
) -> None:
    """A stranger sits on the forwarded port: the editor's way is blocked, the terminal's is not."""
    blocked, target_port = free_port(), free_port()
    stranger, target = StreamPeer(blocked), StreamPeer(target_port)
    await stranger.start()
    await target.start()
    more = f", fallback: terminal_fallback, forwards: ['127.0.0.1:{blocked}:127.0.0.1:{target_port}']"
    health = f", health: [{{tcp: '127.0.0.1:{blocked}', only_in: ide_primary}}]"
    async with house_of(tmp_path, tunnel(sshd, more, health)).running() as house:
        for delay_s in (30, 90, 210):
            await house.until(lambda: house.probe.state.resources["tunnel"].planned is not None)
            await house.pass_time(delay_s)
            await house.until(lambda: house.probe.state.resources["tunnel"].attempted is None)
        await runs(house, "tunnel")
        made = [(one.action, one.fault_class, one.retry_count) for one in attempts(house, "tunnel")]
        assert made == [(Action.RESTART, "ssh_remote_attach_failed", number) for number in (1, 2, 3)]
        assert {one.error_code for one in failures(house, "tunnel")} == {"forward_failed"}
        (downgraded,) = [one for one in house.facts("tunnel") if isinstance(one, ev.ChannelDowngraded)]
        assert (downgraded.from_mode, downgraded.to_mode) == ("ide_primary", "terminal_fallback")
        assert downgraded.reason_code == "budget_spent:max_retries"
        assert "Escalated" not in house.types("tunnel")
        assert house.probe.minders["tunnel"].health is Health.DEGRADED

        await house.probe.tell(restore("by-a-person", by_gateway=False))
        assert house.probe.state.commands["by-a-person"] == "refused"
        await stranger.stop()
        await house.probe.tell(restore("by-the-gateway", by_gateway=True))
        await house.until(lambda: house.probe.state.commands.get("by-the-gateway") == "accepted")
        await runs(house, "tunnel")
        assert house.probe.state.resources["tunnel"].mode is None
        assert "-L" in sessions()[0].argv
        await house.until(lambda: target.opened > 0)
    await target.stop()
    assert not sessions()


async def test_a_session_that_is_refused_says_why(tmp_path: Path, sshd: Sshd) -> None:
    (tmp_path / "allowed").write_text("")
    async with house_of(tmp_path, tunnel(sshd)).running() as house:
        await recovers(house, "tunnel")
        fault = last_fault(house, "tunnel")
        assert (fault.fault_class, fault.error_code) == ("ssh_remote_attach_failed", "permission_denied")
        (tmp_path / "allowed").write_text((tmp_path / "id.pub").read_text())
        await house.pass_time(30)
        await runs(house, "tunnel")
        assert house.phase("tunnel") == Phase.RUNNING


async def test_a_server_with_another_key_is_not_trusted(tmp_path: Path, sshd: Sshd) -> None:
    (tmp_path / "hosts").write_text("")
    async with house_of(tmp_path, tunnel(sshd)).running() as house:
        await recovers(house, "tunnel")
        assert last_fault(house, "tunnel").error_code == "host_key_unknown"


async def test_ssh_that_stands_still_is_noticed(tmp_path: Path, sshd: Sshd) -> None:
    async with house_of(tmp_path, tunnel(sshd)).running() as house:
        await runs(house, "tunnel")
        os.kill(sessions()[0].pid, signal.SIGSTOP)
        await house.pass_time(11)
        await recovers(house, "tunnel")
        assert last_fault(house, "tunnel").error_code == "no_master"
        await house.pass_time(30)
        await runs(house, "tunnel")
        assert len(sessions()) == 1


ATTACH = """#!/bin/sh
echo "$RECOUP_CHANNEL_MODE" >> modes
[ "$RECOUP_CHANNEL_MODE" = terminal_fallback ] && exec sleep 1000
echo "no editor here" >&2
exit 3
"""


async def test_a_command_of_ones_own_is_told_the_mode_and_the_next_probe_remembers_it(tmp_path: Path) -> None:
    (tmp_path / "attach.sh").write_text(ATTACH)
    (tmp_path / "attach.sh").chmod(0o755)
    text = (
        "{version: 1, budget: {max_retries: 1, delays_s: [1]}, resources: [{id: tunnel, channel: "
        "{ssh_remote: {host: far, fallback: terminal_fallback, command: [./attach.sh]}}}]}"
    )
    first = house_of(tmp_path, text)
    async with first.running():
        await recovers(first, "tunnel")
        fault = last_fault(first, "tunnel")
        assert (fault.fault_class, fault.error_code) == ("ssh_remote_attach_failed", "exit_3")
        assert fault.reason == "no editor here"
        await first.pass_time(1)
        await first.until(lambda: "ChannelDowngraded" in first.types("tunnel"))
        await settles(first, "tunnel")
    second = ProbeHouse(tmp_path, *first.config.resources, clock=first.clock, ledger=first.ledger)
    async with second.running():
        await settles(second, "tunnel")
    modes = (tmp_path / "modes").read_text().split()
    assert modes == ["ide_primary", "ide_primary", "terminal_fallback", "terminal_fallback"]


async def settles(house: ProbeHouse, name: str) -> None:
    """Some seconds on the clock, however long the program takes to start."""
    for _ in range(20):
        if house.phase(name) == Phase.RUNNING:
            return
        await house.pass_time(1)
        await asyncio.sleep(0.1)
    await runs(house, name)


def restore(command_id: str, *, by_gateway: bool) -> Command:
    return Command(
        command_id=command_id,
        kind="restore_mode",
        resource_id="tunnel",
        reason="the port is free",
        actor="test",
        by_gateway=by_gateway,
    )
