"""The conformance suite of the depot on every backend."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from recoup.depot.folder import FolderDepot
from recoup.depot.object_store import ObjectStoreDepot
from recoup.depot.postgres import PostgresDepot
from recoup.errors import DepotError
from recoup.ports import Depot
from recoup.testing.depot_suite import DepotSuite, Opener
from recoup.testing.postgres import PostgresServer

_S3 = all(importlib.util.find_spec(name) for name in ("s3fs", "moto", "flask", "flask_cors"))
_SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
server.stop()
"""


class TestFolder(DepotSuite):
    @pytest.fixture
    async def open_depot(self, tmp_path: Path) -> Opener:
        async def opener() -> Depot:
            return FolderDepot(tmp_path / "shared" / "depot")

        return opener


class TestMemoryFilesystem(DepotSuite):
    @pytest.fixture
    async def open_depot(self) -> Opener:
        url = f"memory://{uuid4().hex}/prefix"

        async def opener() -> Depot:
            return ObjectStoreDepot(url)

        return opener


class TestPostgres(DepotSuite):
    @pytest.fixture
    async def open_depot(self, postgres: PostgresServer) -> AsyncIterator[Opener]:
        url, opened = postgres.fresh_database(), list[PostgresDepot]()

        async def opener() -> Depot:
            opened.append(PostgresDepot(url))
            return opened[-1]

        yield opener
        for depot in opened:
            await depot.close()


async def test_a_depot_in_the_database_heeds_the_options_of_its_address(postgres: PostgresServer) -> None:
    url = postgres.fresh_database()
    writing = PostgresDepot(url)
    await writing.put("a", b"1")
    await writing.close()
    reading = PostgresDepot(f"{url}?options=-c%20default_transaction_read_only%3Don")
    assert await reading.get("a") == b"1"
    with pytest.raises(DepotError, match="read-only"):
        await reading.put("a", b"2")
    await reading.close()


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    if not _S3:
        pytest.skip("needs s3fs and moto's server")
    argv = [sys.executable, "-W", "ignore", "-c", _SERVER]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as server:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        server.kill()


class TestS3(DepotSuite):
    @pytest.fixture
    async def open_depot(self, s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Opener:
        s3fs = importlib.import_module("s3fs")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        monkeypatch.setenv("AWS_ENDPOINT_URL", s3_endpoint)
        bucket = f"depot-{uuid4().hex}"
        s3fs.S3FileSystem().mkdir(bucket)

        async def opener() -> Depot:
            return ObjectStoreDepot(f"s3://{bucket}/some/prefix")

        return opener
