"""Plans that come as text, over HTTP or MCP: each run works in a folder of its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from recoup.app import App, open_app
from recoup.engine.world import Watcher
from recoup.mcp.ledger_desk import LedgerDesk
from recoup.model.run import RunState, RunStatus
from recoup.operations.retention import retention
from recoup.operations.submission import SubmitRequest, retry
from recoup.settings import read_settings

_LEAVING = "{version: 1, name: left, steps: [{id: a, run: 'test ! -e secret && echo word > secret'}]}"
_FAILING = """
version: 1
name: twice
steps:
  - {id: a, run: "echo a >> made; pwd", expect: [{file: made}]}
  - {id: b, run: "cat made; test -e ready || no-such-command"}
"""
_CLONED = "{version: 1, name: read, workspace: {folder: ./site}, steps: [{id: a, run: 'test -e page'}]}"


def opened(folder: Path) -> Any:
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "RECOUP_HOME": str(folder / "home")}
    return open_app(read_settings(environ, folder), environ)


async def submitted(app: App, plan: str) -> str:
    made = await LedgerDesk(app, "me").submit(SubmitRequest(plan=plan, queue="nobody"))
    return str(made["runId"])


async def driven(app: App, plan: str) -> RunState:
    return await app.driving.drive(await submitted(app, plan), Watcher())


async def test_a_run_of_a_text_finds_nothing_that_another_one_left(tmp_path: Path) -> None:
    async with opened(tmp_path) as app:
        states = [await driven(app, _LEAVING) for _ in range(2)]
        assert [state.status for state in states] == [RunStatus.SUCCEEDED] * 2
        folders = [tmp_path / "home" / "runs" / state.run_id / "work" for state in states]
        assert [list(folder.iterdir()) for folder in folders] == [[folder / "secret"] for folder in folders]
        assert [folder.stat().st_mode & 0o077 for folder in folders] == [0, 0]
        assert list((tmp_path / "home" / "plans").iterdir()) == []
        assert len({state.submission.plan_digest for state in states}) == 1
        await retention(app).prune(2**62, 100)
    assert not any(folder.exists() for folder in folders)


async def test_a_run_that_goes_on_from_a_text_works_where_that_one_did(tmp_path: Path) -> None:
    async with opened(tmp_path) as app:
        first = await driven(app, _FAILING)
        assert first.status is RunStatus.FAILED
        folder = tmp_path / "home" / "runs" / first.run_id / "work"
        (folder / "ready").touch()
        second = await retry(app, first.run_id)
        state = await app.driving.drive(second.run_id, Watcher())
        assert state.status is RunStatus.SUCCEEDED
        assert (folder / "made").read_text() == "a\n"
        assert (tmp_path / "home" / "runs" / second.run_id / "work").resolve() == folder.resolve()


async def test_a_relative_workspace_of_a_text_begins_in_the_folder_of_plans(tmp_path: Path) -> None:
    site = tmp_path / "home" / "plans" / "site"
    site.mkdir(parents=True)
    (site / "page").touch()
    async with opened(tmp_path) as app:
        state = await driven(app, _CLONED)
    assert state.status is RunStatus.SUCCEEDED
    assert not (tmp_path / "home" / "runs" / state.run_id / "work").exists()
