"""A shared store on S3 that refuses, hangs, cuts off, truncates, alters or loses: nothing is silently wrong, the reason is
said, and everything works again when the store does."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from tests.contract.test_depot_contract import _SERVER
from tests.faulty_store import FAULTS, REFUSALS, FaultyStore, faulty_store

from recoup.depot.object_store import ObjectStoreDepot
from recoup.depot.parcels import Parcels
from recoup.depot.patience import PatientDepot
from recoup.depot.sealing import Altered, KeySeal
from recoup.errors import DepotError, NotFound, RecoupError

_S3 = all(importlib.util.find_spec(name) for name in ("s3fs", "moto", "flask", "flask_cors"))
pytestmark = pytest.mark.skipif(not _S3, reason="needs s3fs and moto's server")
BODY = bytes(range(256)) * 40
READING = ("403", "500", "503", "hang", "cut", "truncate", "alter")
WORDS = {  # the library itself asks a store that is too busy again, for longer than a test waits
    "403": "AccessDenied",
    "read-only": "AccessDenied",
    "500": "InternalError",
    "503": "within 6 s (storing",
    "hang": "did not answer within 6 s",
}
WRITING = ("403", "500", "503", "hang", "read-only")


@pytest.fixture(scope="module")
def store() -> Iterator[FaultyStore]:
    argv = [sys.executable, "-W", "ignore", "-c", _SERVER]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as server:
        assert server.stdout is not None
        with faulty_store(int(server.stdout.readline())) as faulty:
            yield faulty
        server.kill()


@pytest.fixture
def depot(store: FaultyStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[PatientDepot]:
    for name, value in {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": store.url,
    }.items():
        monkeypatch.setenv(name, value)
    bucket = f"depot-{uuid4().hex}"
    s3 = importlib.import_module("s3fs").S3FileSystem
    s3.clear_instance_cache()  # it remembers the address of the store
    s3(skip_instance_cache=True).mkdir(bucket)
    yield PatientDepot(ObjectStoreDepot(f"s3://{bucket}/prefix"), timeout_s=60)
    store.heal()
    s3.clear_instance_cache()


def hasty(depot: PatientDepot, fault: str = "") -> PatientDepot:
    """The same store: waited for as long as a test can where it never answers, and for longer where it does."""
    timeout_s = 30 if fault in ("403", "500", "read-only") else 6
    return PatientDepot(depot._depot, timeout_s, pauses_s=(0.01, 0.02))


def parcels_in(depot: PatientDepot) -> Parcels:
    return Parcels(depot, KeySeal("-".join(["a", "key"])), "runs/one", piece_bytes=4096)


@pytest.mark.parametrize("fault", READING)
async def test_a_store_that_fails_while_it_is_read_gives_an_error_and_never_wrong_bytes(
    store: FaultyStore, depot: PatientDepot, tmp_path: Path, fault: str
) -> None:
    parcels = parcels_in(depot)
    await parcels.send("checkpoint", b"head", BODY)
    store.fault = fault
    with pytest.raises((DepotError, Altered)) as raised:
        await parcels_in(hasty(depot, fault)).receive("checkpoint", tmp_path / "first")
    assert not isinstance(raised.value, NotFound), "what cannot be read is not taken for absent"
    assert raised.value.message
    store.heal()
    received = await parcels.receive("checkpoint", tmp_path / "second")
    assert (received.head, (tmp_path / "second").read_bytes()) == (b"head", BODY)


@pytest.mark.parametrize("fault", WRITING)
async def test_a_store_that_refuses_to_write_is_told_and_used_again_later(
    store: FaultyStore, depot: PatientDepot, tmp_path: Path, fault: str
) -> None:
    parcels = parcels_in(depot)
    store.fault = fault
    with pytest.raises(DepotError) as raised:
        await parcels_in(hasty(depot, fault)).send("checkpoint", b"head", BODY)
    assert "RECOUP_EVIDENCE" in raised.value.what_to_do
    assert WORDS[fault] in raised.value.message
    store.heal()
    await parcels.send("checkpoint", b"head", BODY)
    assert (await parcels.receive("checkpoint", tmp_path / "body")).bytes == len(BODY)


async def test_an_object_that_was_lost_after_it_was_acknowledged_is_noticed_before_anybody_relies_on_it(
    store: FaultyStore, depot: PatientDepot
) -> None:
    """A store that says "stored" and stores nothing."""
    store.fault = "lose"
    with pytest.raises(DepotError, match="acknowledged"):
        await parcels_in(hasty(depot, "500")).send("checkpoint", b"head", BODY)


@pytest.mark.parametrize("fault", ["truncate", "alter", "cut", "500"])
async def test_a_fault_that_happens_once_costs_nothing(
    store: FaultyStore, depot: PatientDepot, tmp_path: Path, fault: str
) -> None:
    parcels = parcels_in(depot)
    await parcels.send("checkpoint", b"head", BODY)
    store.fault_once(fault)
    await parcels.receive("checkpoint", tmp_path / "body")
    assert (tmp_path / "body").read_bytes() == BODY


@pytest.mark.soak
async def test_every_fault_in_turn_loses_nothing(
    store: FaultyStore, depot: PatientDepot, tmp_path: Path
) -> None:
    parcels, kept = parcels_in(depot), dict[str, bytes]()
    for number in range(4 * len(FAULTS)):
        store.fault, name = FAULTS[number % len(FAULTS)], f"parcel-{number}"
        body = BODY * (1 + number % 3)
        with contextlib.suppress(RecoupError):
            await parcels_in(hasty(depot)).send(name, b"", body)
            kept[name] = body
        store.heal()
        for stored, contents in kept.items():
            path = tmp_path / f"{number}-{stored}"
            await parcels.receive(stored, path)
            assert path.read_bytes() == contents
            path.unlink()
    assert kept


def test_the_faults_are_those_that_are_known() -> None:
    assert {*REFUSALS, *READING, *WRITING, "lose"} == set(FAULTS)
