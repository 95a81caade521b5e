"""Documents and names from outside that are wrong in their size or their characters: refused in words, at nobody's cost."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.integration.near_gateway import near_gateway

from recoup.documents.plan_file import parse_plan
from recoup.errors import InvalidPlan
from recoup.gateway.access import Role
from recoup.gateway.console import inbox as console_inbox
from recoup.gateway.problems import BUG
from recoup.testing.gateway_suite import event

NAMES = (
    "/a\0b",
    "/tmp/" + "x" * 300,
    "/" + "x/" * 40_000,
    "/\ud800".encode("utf-8", "surrogatepass").decode("utf-8", "replace"),
    "/etc",
    "/dev/null",
    "/proc/self/mem",
    "/" + "../" * 500,
)
DUPLICATES = "version: 1\nname: x\nsteps: [{id: a, run: 'true'}]\n" + "name: y\n" * 150_000
WIDE = "version: 1\nname: x\nsteps: [{id: a, run: 'true'}]\nx: [" + "{a: 1}, " * 90_000 + "]\n"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("folders", [False, True])
async def test_a_plan_path_that_names_no_plan_is_refused_in_words(
    tmp_path: Path, name: str, folders: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with near_gateway(tmp_path) as near:
        near.house.plan_folders = (tmp_path,) if folders else ()
        answer = await near.post("/api/runs", {"planPath": name})
        assert answer.status_code in ((403, 422) if folders else (422,)), answer.text
        assert len(answer.content) < 2_000 and not caplog.text


@pytest.mark.parametrize("plan", [DUPLICATES, WIDE], ids=["duplicates", "wide"])
async def test_others_are_answered_while_a_long_plan_is_read(tmp_path: Path, plan: str) -> None:
    async with near_gateway(tmp_path) as near:
        await near.post("/api/runs", {"plan": "{}"})  # loads what reading needs
        task = asyncio.create_task(near.post("/api/runs", {"plan": plan}))
        answered = 0
        while not task.done():
            assert (await near.client.get("/healthz")).status_code == 200
            answered += 1
            await asyncio.sleep(0.001)
        answer = await task
        assert answer.status_code == 422 and len(answer.json()["problems"]) <= 101
        assert answered > (3 if plan is WIDE else 0)


async def test_others_are_answered_while_a_long_batch_of_events_is_read(tmp_path: Path) -> None:
    events = [event(n, note={str(k): [k] * 3 for k in range(60)}) for n in range(1, 501)]
    sent = {"probe_id": "far", "lease_epoch": 1, "events": events}
    async with near_gateway(tmp_path) as near:
        task = asyncio.create_task(near.post("/api/probe/events", sent, Role.PROBE))
        answered = 0
        while not task.done():
            await near.client.get("/healthz")
            answered += 1
            await asyncio.sleep(0.001)
        assert (await task).json() == {"acknowledged_seq": 500}
        assert answered > 1


def test_only_so_many_duplicates_are_looked_at() -> None:
    with pytest.raises(InvalidPlan, match="more than 1,000 keys stand twice"):
        parse_plan(DUPLICATES)


# Mistakes of ours


@pytest.mark.parametrize("path", ["/escalations", "/api/me"])
async def test_a_mistake_of_ours_is_one_line_with_the_id_that_the_answer_carries(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    path: str,
) -> None:
    async def mistaken(*_: Any) -> Any:
        raise KeyError("hush" * 3 + "\nsecond line")

    def failing(_: Any) -> Any:
        raise ValueError("hush" * 3)

    async with near_gateway(tmp_path, raises=True) as near:
        monkeypatch.setattr(console_inbox, "items", mistaken)
        monkeypatch.setattr("recoup.gateway.system.principal_of", failing)
        answer = await near.get(path)
    assert answer.status_code == 500 and BUG in answer.text
    (record,) = [one for one in caplog.records if one.name == "recoup.gateway"]
    line = record.getMessage()
    mark = line.split()[0]
    assert mark.startswith("err-") and mark in answer.text and "\n" not in line
    assert "hush" not in caplog.text + answer.text and "Traceback" not in caplog.text
    assert "Traceback" not in capfd.readouterr().err
