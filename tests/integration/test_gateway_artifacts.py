"""What runs left behind, over HTTP: the right bytes, of the right type, and nothing of them can run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from tests.integration.gateway_house import Gateway, gateway
from tests.repositories import new_repository

from recoup.evidence.folder import FolderEvidence
from recoup.gateway.artifacts import ATTEMPT_LOG_BYTES_MAX, media_of
from recoup.model.answers.runs import AttemptDetail
from recoup.operations.logs import attempt_section
from recoup.redaction.redactor import SecretRedactor

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 20
PLAN = """
version: 1
name: mender
workspace: {git: REPO}
steps:
  - id: change
    run: |
      echo "second" >> file.txt
      echo "--- attempt 2 of change at 2020-01-01T00:00:00.000000Z"
  - id: twice
    run: |
      seq 1 20000; echo "try $(cat tries 2>/dev/null)"
      test -e tries && exit 0; echo x > tries; echo "no luck: <b>here</b>" >&2; exit 7
"""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with gateway(tmp_path_factory.mktemp("artifacts") / "home", "--workers", "1") as served:
        yield served


@pytest.fixture(scope="module")
def run_id(house: Gateway, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run whose second step failed once; each has changed a file."""
    repo = new_repository(tmp_path_factory.mktemp("repo"), {"file.txt": "first\n"})
    found = house.submit(PLAN.replace("REPO", str(repo)))
    house.wait(found, lambda run: run["status"] == "succeeded")
    return found


@pytest.fixture
def client(house: Gateway) -> Iterator[httpx2.Client]:
    with house.client("viewer") as made:
        yield made


def must_be_locked(answer: httpx2.Response) -> None:
    assert answer.headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_a_patch_is_what_the_step_changed_and_comes_in_pieces(client: httpx2.Client, run_id: str) -> None:
    path = f"/api/runs/{run_id}/patches/change"
    whole = client.get(path)
    must_be_locked(whole)
    assert whole.headers["Content-Type"] == "text/x-diff; charset=utf-8"
    assert whole.headers["Content-Disposition"].startswith("attachment; filename=")
    assert "+second" in whole.text and "file.txt" in whole.text
    assert client.get(f"/api/runs/{run_id}/patches/0").content == whole.content
    known = client.get(path, headers={"If-None-Match": whole.headers["ETag"]})
    assert known.status_code == 304 and known.content == b""
    pieces, place = b"", 0
    while place < int(whole.headers["Recoup-Size"]):
        piece = client.get(path, params={"after": place, "limit": 50})
        pieces += piece.content
        place = int(piece.headers["Recoup-Next-Offset"])
    assert pieces == whole.content
    assert client.get(path, params={"after": 10**9}).content == b""


def test_what_is_not_there_is_said_in_words(client: httpx2.Client, run_id: str) -> None:
    for path in (
        f"/api/runs/{run_id}/patches/none",
        f"/api/runs/{run_id}/attempts/change/9",
        f"/api/runs/{run_id}/attempts/none/1",
        "/api/runs/none/report",
        f"/api/evidence/sha256:{'0' * 64}",
    ):
        answer = client.get(path)
        assert answer.status_code == 404, path
        assert answer.headers["Content-Type"] == "application/problem+json"
    assert client.get("/api/evidence/nonsense").status_code == 422


def test_the_report_is_the_one_that_the_command_makes(
    client: httpx2.Client, house: Gateway, run_id: str
) -> None:
    answer = client.get(f"/api/runs/{run_id}/report")
    must_be_locked(answer)
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    argv = [sys.executable, "-m", "recoup.cli.main", "--home", str(house.home), "report", run_id]
    made = subprocess.run([*argv, "--output", "-"], capture_output=True, check=True, timeout=60).stdout
    assert answer.content == made


@pytest.mark.parametrize(
    ("data", "media", "shown"),
    [
        (PNG, "image/png", "inline"),
        (b"\xff\xd8\xff\xe0rest", "image/jpeg", "inline"),
        (b'{"a": [1, 2]}', "application/json", "inline"),
        (b"{not json", "text/plain; charset=utf-8", "inline"),
        (b"<html><script>alert(1)</script>", "text/plain; charset=utf-8", "inline"),
        (
            b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>",
            "text/plain; charset=utf-8",
            "inline",
        ),
        ("grüezi".encode(), "text/plain; charset=utf-8", "inline"),
        (b"PK\x03\x04\x00", "application/zip", "attachment"),
        (b"%PDF-1.7\xff\xfe", "application/octet-stream", "attachment"),
        (b"[" * 100_000, "text/plain; charset=utf-8", "inline"),
        (b"", "text/plain; charset=utf-8", "inline"),
    ],
)
async def test_evidence_has_the_type_of_its_content(
    client: httpx2.Client, house: Gateway, data: bytes, media: str, shown: str
) -> None:
    assert media_of(data) == media
    stored = SecretRedactor().picture(data) if media.startswith("image/") else SecretRedactor().redact(data)
    handle = await FolderEvidence(house.home / "evidence").put(stored, 1 << 20)
    answer = client.get(f"/api/evidence/{handle}")
    must_be_locked(answer)
    assert answer.content == stored.data
    assert answer.headers["Content-Type"] == media_of(stored.data)
    assert answer.headers["Content-Disposition"].startswith(shown)


def test_evidence_that_was_altered_is_not_given(client: httpx2.Client, house: Gateway) -> None:
    path = house.home / "evidence" / "ab" / ("ab" + "0" * 62)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"something else")
    answer = client.get(f"/api/evidence/sha256:{path.name}")
    assert answer.status_code == 404 and "altered" in answer.json()["detail"]


def attempt(client: httpx2.Client, run_id: str, step: str, number: int) -> Any:
    answer = client.get(f"/api/runs/{run_id}/attempts/{step}/{number}")
    assert answer.status_code == 200, answer.text
    msgspec.json.decode(answer.content, type=AttemptDetail)
    return answer.json()


def test_one_attempt_is_told_with_all_that_is_known(client: httpx2.Client, run_id: str) -> None:
    first, second = (attempt(client, run_id, "twice", number) for number in (1, 2))
    assert (first["state"], first["exitCode"], first["facts"]["exitCode"]) == ("failed", 7, 7)
    assert "no luck" in first["summary"] and first["durationMs"] >= 0
    assert {one["payload"]["attempt"] for one in first["events"]} == {1}
    assert first["events"][-1]["type"] in ("task.self_heal.triggered", "task.step.attempt.failed")
    assert first["changedFiles"] == ["tries"] and first["diffHash"]
    assert "try \n" in first["log"]["text"] and "no luck" in first["log"]["text"]
    assert "try x" in second["log"]["text"] and "no luck" not in second["log"]["text"]
    assert (second["state"], second["verdict"], second["facts"]) == ("finished", "unverified", None)
    assert first["log"]["size"] > ATTEMPT_LOG_BYTES_MAX >= len(first["log"]["text"].encode())
    log = client.get(f"/api/runs/{run_id}/logs/twice", params={"after": second["log"]["offset"]}).json()[
        "log"
    ]
    assert log.startswith("--- attempt 2 of twice at ")


def test_a_step_that_prints_a_heading_deceives_nobody(client: httpx2.Client, run_id: str) -> None:
    told = attempt(client, run_id, "change", 1)
    assert "--- attempt 2 of change at 2020" in told["log"]["text"]
    assert client.get(f"/api/runs/{run_id}/attempts/change/2").status_code == 404


def test_sections_are_found_by_headings_that_can_be_true(tmp_path: Path) -> None:
    path = tmp_path / "step.log"
    lines = [
        "--- attempt 1 of a at 2026-01-01T00:00:01.000000Z",
        "--- attempt 2 of a at 2026-01-01T00:00:01.500000Z",
        "--- attempt 3 of a at 2099-01-01T00:00:00.000000Z",
        "--- attempt 2 of a at 2026-01-01T00:00:03.000000Z",
        "end",
    ]
    path.write_text("\n".join(lines) + "\n")
    begun = {1: "2026-01-01T00:00:00.900000Z", 2: "2026-01-01T00:00:02.900000Z"}
    offsets = [sum(len(line) + 1 for line in lines[:n]) for n in range(len(lines) + 1)]
    assert attempt_section(path, 1, begun) == (0, offsets[3])
    assert attempt_section(path, 2, begun) == (offsets[3], offsets[5])
    assert attempt_section(path, 3, begun) is None
    assert attempt_section(tmp_path / "none", 1, begun) is None
    (tmp_path / "empty").touch()
    assert attempt_section(tmp_path / "empty", 1, begun) is None
