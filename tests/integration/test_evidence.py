"""Evidence, whole files, and values nobody is shown."""

from __future__ import annotations

import os
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from recoup.durable import write_whole
from recoup.errors import NotFound, SettingsError
from recoup.evidence.folder import FolderEvidence
from recoup.evidence.vault import Vault, vault_key
from recoup.redaction.redactor import SecretRedactor

REDACTOR = SecretRedactor()


async def test_a_handle_opens_what_was_put(tmp_path: Path) -> None:
    evidence = FolderEvidence(tmp_path)
    handle = await evidence.put(REDACTOR.redact("proof"), 100)
    assert await evidence.get(handle) == b"proof"
    assert await evidence.put(REDACTOR.redact("proof"), 100) == handle


async def test_evidence_over_its_limit_is_cut_and_says_so(tmp_path: Path) -> None:
    evidence = FolderEvidence(tmp_path)
    kept = await evidence.get(await evidence.put(REDACTOR.redact("x" * 500), 100))
    assert kept.startswith(b"x" * 100)
    assert b"cut" in kept
    assert len(kept) < 200


async def test_altered_evidence_is_not_served(tmp_path: Path) -> None:
    evidence = FolderEvidence(tmp_path)
    handle = await evidence.put(REDACTOR.redact("proof"), 100)
    (path,) = [p for p in tmp_path.rglob("*") if p.is_file()]
    path.write_text("forged")
    with pytest.raises(NotFound, match="altered"):
        await evidence.get(handle)


@pytest.mark.parametrize("handle", ["", "sha256:..", "../../key", "sha256:" + "0" * 64])
async def test_what_is_not_evidence_is_not_found(tmp_path: Path, handle: str) -> None:
    with pytest.raises(NotFound):
        await FolderEvidence(tmp_path).get(handle)


async def test_several_may_remove_the_same_evidence_at_once(tmp_path: Path) -> None:
    evidence = FolderEvidence(tmp_path)
    handles = [await evidence.put(REDACTOR.redact(f"proof {number}"), 100) for number in range(300)]
    for path in tmp_path.glob("??/*"):
        os.utime(path, (0, 0))
    together = threading.Barrier(4)

    def remove_all() -> int:
        together.wait()
        return sum(evidence.remove(handle, 3600) is not None for handle in handles)

    with ThreadPoolExecutor(4) as threads:
        removed = [threads.submit(remove_all) for _ in range(4)]
    assert sum(one.result() for one in removed) == len(handles)
    assert evidence.older_than(0) == set()


async def test_only_what_is_old_is_removed(tmp_path: Path) -> None:
    evidence = FolderEvidence(tmp_path)
    again, gone, young = [
        await evidence.put(REDACTOR.redact(word), 100) for word in ("again", "gone", "young")
    ]
    for handle in (again, gone):
        name = handle.removeprefix("sha256:")
        os.utime(tmp_path / name[:2] / name, (0, 0))
    assert await evidence.put(REDACTOR.redact("again"), 100) == again, "it is young again"
    assert evidence.older_than(3600) == {gone}
    assert [evidence.remove(handle, 3600) for handle in (again, gone, young)] == [None, 4, None]
    assert await evidence.get(again) == b"again"
    with pytest.raises(NotFound):
        await evidence.get(gone)
    assert evidence.remove(gone, 3600) is None


def test_a_file_that_cannot_be_written_whole_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.json"
    write_whole(path, b"old")

    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="space"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["state.json"]


def test_a_secret_value_is_encrypted_owner_only_and_comes_back(tmp_path: Path) -> None:
    vault = Vault(tmp_path / "secrets", vault_key(tmp_path, None))
    vault.put("inputs.pin", "1234-äß")
    assert vault.get("inputs.pin") == "1234-äß"
    (path,) = (tmp_path / "secrets").iterdir()
    assert b"1234" not in path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600


def test_a_value_of_another_run_is_not_taken_for_its_own_and_older_ones_still_open(tmp_path: Path) -> None:
    one, other = (Vault(tmp_path / name, b"k" * 32, owner=name) for name in ("run-1", "run-2"))
    one.put("inputs.pin", "1234-of-one")
    (kept,) = (tmp_path / "run-1").iterdir()
    (tmp_path / "run-2").mkdir()
    (tmp_path / "run-2" / kept.name).write_bytes(kept.read_bytes())
    with pytest.raises(SettingsError, match="another run"):
        other.get("inputs.pin")
    Vault(tmp_path / "run-2", b"k" * 32).put("inputs.pin", "1234-of-before")
    assert (one.get("inputs.pin"), other.get("inputs.pin")) == ("1234-of-one", "1234-of-before")


def test_another_key_is_refused_with_words(tmp_path: Path) -> None:
    Vault(tmp_path / "secrets", vault_key(tmp_path, "one passphrase")).put("x", "value")
    with pytest.raises(SettingsError, match="another key"):
        Vault(tmp_path / "secrets", vault_key(tmp_path, "another passphrase")).get("x")
    with pytest.raises(NotFound):
        Vault(tmp_path / "secrets", b"k" * 32).get("never kept")


def test_a_mac_tells_values_apart_without_showing_them(tmp_path: Path) -> None:
    vault = Vault(tmp_path, b"k" * 32)
    assert vault.mac("1234") == vault.mac("1234") != vault.mac("1235")
    assert "1234" not in vault.mac("1234")
