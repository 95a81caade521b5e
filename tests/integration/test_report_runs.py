"""Reports of real runs: written, bounded, harmless to the run, and opened in a real browser."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.altered import altered

from recoup.errors import LedgerError
from recoup.evidence.folder import FolderEvidence
from recoup.evidence.run_folder import RunFolder
from recoup.kernel.fold import fold
from recoup.kernel.modes import calls_for_report
from recoup.model.failure import Facts, Failure, FailureClass, FailureKind
from recoup.model.instant import Instant
from recoup.model.mode import Mode
from recoup.model.plan import RunAction, Step
from recoup.model.redacted import Redacted
from recoup.model.run import RunStatus
from recoup.ports import Redactor
from recoup.redaction.redactor import SecretRedactor
from recoup.reports.reporter import Reporter
from recoup.runtimes.browser.finding import needed_browser
from recoup.testing.house import House, plan_of
from recoup.testing.runtime import ScriptedRuntime, exits

HOSTILE = "<script>document.title='owned'</script>\x1b[31m\u202e"


def reporter_of(house: House) -> Reporter:
    return Reporter(
        house.ledger,
        house.world.evidence,
        house.redactor,
        lambda run_id: RunFolder(house.root / "runs" / run_id),
        lambda: "git version 2.40",
    )


async def failed_house(root: Path) -> House:
    house = House(root, ScriptedRuntime({"b": [exits(2, f"bad {HOSTILE}")] * 9}))
    state = await house.run(plan_of("a", Step(id="b", title=HOSTILE, action=RunAction("false"))))
    assert state.status == "failed"
    return house


async def test_the_report_of_a_run_lies_among_its_artifacts(tmp_path: Path) -> None:
    house = await failed_house(tmp_path)
    written = await reporter_of(house).write_report("run-1")
    assert (written.path, written.problem) == (tmp_path / "runs/run-1/artifacts/report.html", "")
    assert written.path is not None
    page = written.path.read_text()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert not list(written.path.parent.glob(".*.tmp"))
    again = await reporter_of(house).write_report("run-1")
    assert again.path is not None
    assert again.path.read_text() == page
    await house.ledger.close()


async def test_a_report_that_was_frozen_on_its_way_is_not_put_in_the_place_of_a_newer_one(
    tmp_path: Path,
) -> None:
    house = await failed_house(tmp_path)
    files = RunFolder(house.root / "runs" / "run-1")

    class Frozen(Reporter):
        async def html(
            self, run_id: str, until: Instant | None = None, redactor: Redactor | None = None
        ) -> str:
            page = await super().html(run_id, until, redactor)
            files.driven(files.newest_epoch + 1)
            await reporter_of(house).write_report(run_id)
            return page + "of an hour ago"

    frozen = Frozen(house.ledger, house.world.evidence, house.redactor, lambda _: files)
    written = await frozen.write_report("run-1")
    assert "another driver" in written.problem
    assert "of an hour ago" not in (files.artifacts / "report.html").read_text()
    await house.ledger.close()


async def test_a_report_is_called_for_when_somebody_must_look(tmp_path: Path) -> None:
    house = await failed_house(tmp_path)
    state = await house.state("run-1")
    await house.ledger.close()
    assert not calls_for_report(state, Mode.RUNNING)
    assert not calls_for_report(state, Mode.DEGRADED)
    assert calls_for_report(state, Mode.QUARANTINED)
    assert calls_for_report(altered(state, status=RunStatus.DEAD_LETTER), Mode.RUNNING)
    blocked = altered(state, status=RunStatus.BLOCKED, driver__started_at=None)
    assert not calls_for_report(blocked, Mode.QUARANTINED)


async def test_a_report_that_cannot_be_written_is_words_and_not_an_error(tmp_path: Path) -> None:
    house = await failed_house(tmp_path)
    folder = tmp_path / "runs" / "run-1"
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(exist_ok=True)
    folder.write_text("not a folder")
    written = await reporter_of(house).write_report("run-1")
    assert written.path is None
    assert "run-1 could not be written" in written.problem
    missing = await reporter_of(house).write_report("run-2")
    assert "run-2 has no events" in missing.problem
    await house.ledger.close()


async def test_a_ledger_that_does_not_answer_holds_nobody_up(tmp_path: Path) -> None:
    house = await failed_house(tmp_path)

    class Stuck:
        def __getattr__(self, name: str) -> object:
            return getattr(house.ledger, name)

        async def head(self, stream: str) -> int:
            await asyncio.Event().wait()
            return 0

    class Broken(Stuck):
        async def head(self, stream: str) -> int:
            raise LedgerError(f"{stream} is gone")

    stuck, broken = reporter_of(house), reporter_of(house)
    stuck._ledger, broken._ledger = Stuck(), Broken()  # type: ignore[assignment]
    assert "not ready after 0.05 s" in (await stuck.write_report("run-1", 0.05)).problem
    assert "run:run-1 is gone" in (await broken.write_report("run-1")).problem
    await house.ledger.close()


async def test_nothing_private_is_opened(tmp_path: Path) -> None:
    house = await failed_house(tmp_path)
    private = tmp_path / "runs" / "run-1" / "private"
    (private / "outputs").mkdir(parents=True, exist_ok=True)
    # Whoever opened one of these would wait for ever.
    for name in ("plan.json", "origin.json", "outputs/step-0000-0001.env", "outputs/step-0001-0001.env"):
        (private / name).unlink(missing_ok=True)
        os.mkfifo(private / name)
    page = await asyncio.wait_for(reporter_of(house).html("run-1"), 20)
    assert "Timeline" in page
    await house.ledger.close()


async def test_a_redactor_is_asked_in_its_own_thread_only(tmp_path: Path) -> None:
    house = await failed_house(tmp_path)
    asked: list[int] = []

    class Watched(SecretRedactor):
        def redact(self, text: str | bytes) -> Redacted:
            asked.append(threading.get_ident())
            return super().redact(text)

    watched = reporter_of(house)
    watched._redactor = Watched()
    await watched.html("run-1")
    assert set(asked) == {threading.get_ident()}
    await house.ledger.close()


async def test_patches_and_their_hostile_lines_are_shown(tmp_path: Path) -> None:
    house = await failed_house(tmp_path)
    patch = f"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+{HOSTILE}\n"
    RunFolder(tmp_path / "runs" / "run-1").write_patch(0, house.redactor.redact(patch))
    page = await reporter_of(house).html("run-1")
    assert '<span class="add">+&lt;script&gt;' in page
    assert "\u202e" not in page
    await house.ledger.close()


def failure() -> Failure:
    facts = Facts(kind=FailureKind.EXIT_NONZERO, exit_code=2, excerpt="bad")
    return Failure(
        kind=facts.kind, cls=FailureClass.UNKNOWN, signature="v2:aa", summary="exit code 2", facts=facts
    )


async def stored_case(house: House, limit_bytes: int) -> str | None:
    state = fold("run-1", await house.ledger.read("run:run-1"))
    return await reporter_of(house).store_case(
        state, state.steps[1], failure(), "because", "sha256:22", limit_bytes, redactor=house.redactor
    )


async def test_a_failure_case_is_evidence_that_can_be_opened_and_holds_no_secret(tmp_path: Path) -> None:
    house = await failed_house(tmp_path)
    secret = "correct-horse" + "-battery"
    house.redactor.register("TOKEN", secret)
    log = RunFolder(tmp_path / "runs" / "run-1").log_path(1)
    log.parent.mkdir(parents=True)
    log.write_text("x\n" * 20_000 + f"the end {secret}\n")
    handle = await stored_case(house, 4 << 20)
    assert handle is not None
    stored = await house.world.evidence.get(handle)
    case = json.loads(stored)
    assert case["stepId"] == "b"
    assert case["versions"]["git"] == "git version 2.40"
    assert case["logTail"].endswith("the end [redacted]\n")
    assert case["logBytes"] == log.stat().st_size
    assert secret.encode() not in stored
    await house.ledger.close()


@pytest.mark.parametrize("limit_bytes", [200, 1_000, 3_000, 8_000])
async def test_a_case_stays_a_document_however_little_may_be_stored(tmp_path: Path, limit_bytes: int) -> None:
    house = await failed_house(tmp_path)
    handle = await stored_case(house, limit_bytes)
    assert handle is not None
    stored = await house.world.evidence.get(handle)
    assert len(stored) <= limit_bytes
    assert json.loads(stored)
    await house.ledger.close()


async def test_a_case_that_cannot_be_stored_does_not_hide_the_failure(tmp_path: Path) -> None:
    house = await failed_house(tmp_path)
    full = reporter_of(house)

    class Full(FolderEvidence):
        async def put(self, content: Redacted, limit_bytes: int) -> str:
            raise OSError(28, "No space left on device")

    full._evidence = Full(tmp_path)
    state = fold("run-1", await house.ledger.read("run:run-1"))
    about = (state, state.steps[1], failure(), "because", "d", 1 << 20)
    assert await full.store_case(*about, redactor=house.redactor) is None
    await house.ledger.close()


# The command


def recoup(home: Path, *words: str, code: int = 0) -> str:
    argv = [sys.executable, "-m", "recoup.cli.main", "--home", str(home), *words]
    env = {"PATH": os.environ["PATH"], "HOME": str(home)}
    done = subprocess.run(argv, capture_output=True, text=True, env=env, stdin=subprocess.DEVNULL, timeout=60)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("report")
    (place / "plan.yaml").write_text(
        "{version: 1, name: greet, objective: 'Say <b>hello</b>', steps: ["
        "{id: hello, run: 'echo hello'}, {id: fails, run: 'echo \"<script>\" >&2; exit 3', max_attempts: 1}]}"
    )
    argv = [
        sys.executable,
        "-m",
        "recoup.cli.main",
        "--home",
        str(place / "home"),
        "run",
        str(place / "plan.yaml"),
    ]
    subprocess.run(argv, capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
    return place / "home"


def test_the_command_prints_where_the_page_is(home: Path) -> None:
    path = Path(recoup(home, "report", "last").strip())
    assert path.name == "report.html"
    assert path.parent.name == "artifacts"
    assert "&lt;b&gt;hello" in path.read_text()


def test_the_command_writes_where_it_is_told(home: Path, tmp_path: Path) -> None:
    assert recoup(home, "report", "last", "--output", "-").startswith("<!doctype html>")
    assert recoup(home, "report", "last", "--markdown", "--output", "-").startswith("### ❌ `greet` failed")
    document = json.loads(recoup(home, "report", "last", "--markdown", "--json"))
    assert Path(document["path"]).read_bytes()[:3] == b"###"
    assert document["bytes"] == Path(document["path"]).stat().st_size
    where = tmp_path / "new" / "page.html"
    assert recoup(home, "report", "last", "--output", str(where)).strip() == str(where)
    assert where.exists()


def test_a_device_or_a_pipe_is_written_to_and_not_replaced(home: Path, tmp_path: Path) -> None:
    link = tmp_path / "nowhere"
    link.symlink_to(os.devnull)
    recoup(home, "report", "last", "--output", str(link))
    assert link.is_symlink()
    assert Path(os.devnull).is_char_device()
    link = tmp_path / "link.html"
    link.symlink_to(tmp_path / "page.html")
    recoup(home, "report", "last", "--output", str(link))
    assert link.is_symlink()
    assert (tmp_path / "page.html").read_text().startswith("<!doctype")


def test_the_command_says_what_is_wrong(home: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot be written" in recoup(
        home, "report", "last", "--output", str(tmp_path / "file" / "x"), code=1
    )
    assert "no run begins with" in recoup(home, "report", "nothing", code=2)
    assert "Leave one out" in recoup(home, "report", "last", "--output", "-", "--json", code=2)


@pytest.mark.parametrize("width", [390, 1280])
async def test_a_browser_shows_the_page_and_runs_nothing_in_it(tmp_path: Path, width: int) -> None:
    house = await failed_house(tmp_path)
    written = await reporter_of(house).write_report("run-1")
    await house.ledger.close()
    assert written.path is not None
    argv = [
        needed_browser(os.environ).executable,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path / 'profile'}",
    ]
    argv += [f"--window-size={width},900", "--virtual-time-budget=2000", "--dump-dom", written.path.as_uri()]
    process = await asyncio.create_subprocess_exec(
        *argv, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    shown, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0
    assert b"owned" not in shown.partition(b"</title>")[0]
    assert b"<h2>Timeline</h2>" in shown
    assert b"<script" not in shown
