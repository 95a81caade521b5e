"""A worker whose shared store on S3 fails in the middle of the work: the run waits for it and is done when it is back."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests.contract.test_depot_contract import _SERVER
from tests.faulty_store import FaultyStore, faulty_store
from tests.keys import KEY
from tests.repositories import new_repository
from tests.scenario.conftest import Cli
from tests.scenario.fleets import QUICK, eventually

from recoup.testing.postgres import PostgresServer

_S3 = all(importlib.util.find_spec(name) for name in ("s3fs", "moto", "flask", "flask_cors"))
pytestmark = pytest.mark.skipif(not _S3, reason="needs s3fs and moto's server")
PLAN = """
    version: 1
    name: stored
    workspace: {git: repo}
    steps:
      - {id: make, run: 'echo made > made', expect: [{file: made}]}
      - {id: pay, run: 'echo paid >> "$JOURNAL"', repeat: never}
"""


@pytest.fixture
def store() -> Iterator[FaultyStore]:
    argv = [sys.executable, "-W", "ignore", "-c", _SERVER]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as server:
        assert server.stdout is not None
        with faulty_store(int(server.stdout.readline())) as faulty:
            yield faulty
        server.kill()


@pytest.mark.parametrize("fault", ["503", "hang", "read-only", "lose"])
def test_a_run_goes_on_when_its_store_is_back(
    cli: Cli, postgres: PostgresServer, store: FaultyStore, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    new_repository(cli.folder / "repo", {"README": "hello\n"})
    journal = cli.folder / "journal"
    aws = {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": store.url,
    }
    for name, value in aws.items():
        monkeypatch.setenv(name, value)
    importlib.import_module("s3fs").S3FileSystem(skip_instance_cache=True).mkdir("runs")
    cli.env |= {
        "RECOUP_DATABASE": postgres.prepared_database(),
        "RECOUP_EVIDENCE": "s3://runs/shared",
        "RECOUP_KEY": KEY,
        "JOURNAL": str(journal),
        **aws,
        **QUICK,
    }
    submitted = cli("submit", cli.plan(PLAN))
    assert submitted.code == 0, submitted.err
    run_id = submitted.out.strip()
    store.fault = fault
    cli.start("worker", "--json")
    assert eventually(lambda: store.done >= 2, 60), "the worker needs the store"
    store.heal()
    assert eventually(lambda: cli("show", run_id, "--json").json["status"] == "succeeded", 100), cli(
        "events", run_id, "--json"
    ).out
    assert journal.read_text() == "paid\n"
