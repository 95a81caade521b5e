"""Damage that commands name: versions of the target memory, the resolver's weights; and a policy that is followed."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest
from tests.scenario.conftest import Cli

from recoup.cli import doctor
from recoup.learning.recall import Recall
from recoup.learning.store import VersionedStore
from recoup.model.instant import Instant
from recoup.targets import weights

NOW = Instant(1_800_000_000_000_000, 0, "boot")


async def test_versions_that_are_damaged_on_disk_are_named(tmp_path: Path) -> None:
    VersionedStore(tmp_path).snapshot_version("shop", {"targets": b"{}"}, up_to=1, now=NOW)
    recall = Recall(tmp_path)
    assert await recall.troubles("shop") == {}
    (part,) = tmp_path.glob("shop-*/versions/v000001/targets*")
    part.chmod(0o600)
    part.write_bytes(b"[]")
    assert list(await recall.troubles("shop")) == ["v000001"]


def test_doctor_names_weights_that_are_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor._weights().ok
    monkeypatch.setattr(weights, "shipped", lambda: weights.model_from(b"{}"))
    finding = doctor._weights()
    assert (finding.ok, "weights" in finding.detail) == (False, True)


def test_an_idle_worker_follows_its_changed_policy_file(cli: Cli) -> None:
    cli.obey(step_max_attempts=2)
    worker = cli.start("worker", "--json")
    path = Path(cli.env["RECOUP_POLICY"])

    def in_force() -> int:
        policy = json.loads(cli("policy", "show", "--json", env={"RECOUP_POLICY": ""}).out)
        return int(policy.get("policy", policy)["step_max_attempts"])

    wait_until(lambda: in_force() == 2)
    path.write_text(json.dumps({"step_max_attempts": 7}))
    wait_until(lambda: in_force() == 7)
    worker.send_signal(signal.SIGTERM)


def wait_until(holds: object, seconds: float = 100) -> None:
    assert callable(holds)
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.2)
