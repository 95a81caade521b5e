"""Which depot the settings name, and what its errors say, and do not say."""

from __future__ import annotations

from pathlib import Path

import pytest

from recoup.depot.folder import FolderDepot
from recoup.depot.object_store import ObjectStoreDepot
from recoup.depot.opening import open_depot
from recoup.depot.postgres import PostgresDepot
from recoup.errors import DepotError, SettingsError
from recoup.settings import read_settings

PASSWORD = "hush" + "-hush-hush"


def test_what_evidence_names_comes_before_the_database() -> None:
    database = "postgresql://somewhere/db"
    assert isinstance(open_depot("/mnt/shared", database), FolderDepot)
    assert isinstance(open_depot("memory://bucket/prefix", database), ObjectStoreDepot)
    assert isinstance(open_depot(None, database), PostgresDepot)
    assert open_depot(None, None) is None


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("~/depot", "{home}/depot"),
        ("depot", "{cwd}/depot"),
        ("file:///mnt/depot", "/mnt/depot"),
        ("s3://bucket/prefix", "s3://bucket/prefix"),
        ("", None),
    ],
)
def test_a_folder_is_made_absolute_and_a_url_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, meant: str | None
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    found = read_settings({"HOME": str(tmp_path), "RECOUP_EVIDENCE": said}, tmp_path).evidence
    assert found == (meant and meant.format(home=tmp_path, cwd=Path.cwd()))


def test_a_place_that_nobody_knows_is_named_without_its_password() -> None:
    with pytest.raises(SettingsError, match="nowhere://") as refused:
        open_depot(f"nowhere://me:{PASSWORD}@host/path", None)
    assert PASSWORD not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{PASSWORD}@127.0.0.1:1/db",
        f"postgresql://me:{PASSWORD}@127.0.0.1:{PASSWORD}/db",
        f"postgresql://me:{PASSWORD}@[/db",
        f"postgresql://me@127.0.0.1:1/db?password={PASSWORD}&nonsense={PASSWORD}",
    ],
)
async def test_no_error_shows_the_password_of_the_database(url: str) -> None:
    depot = PostgresDepot(url)
    with pytest.raises(DepotError, match="depot") as refused:
        await depot.get("a")
    assert PASSWORD not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__


async def test_no_error_shows_what_stands_in_a_url() -> None:
    depot = ObjectStoreDepot(f"ftp://me:{PASSWORD}@127.0.0.1:1/path")
    with pytest.raises(DepotError, match="ftp://") as refused:
        await depot.get("a")
    assert PASSWORD not in str(refused.value)
