"""What a command loads before it does anything: seconds of everybody's day, so each loads what it needs and no more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.scenario.conftest import Cli

PLAN = "{version: 1, name: tiny, steps: [{id: a, run: 'true'}]}"
FILES = {"pydantic", "yaml", "recoup.documents.plan_file"}
"""For reading what people write."""
SELDOM = {
    "click.shell_completion",
    "faiss",
    "fastapi",
    "fsspec",
    "importlib.metadata",
    "jinja2",
    "numpy",
    "opentelemetry",
    "pgqueuer",
    "playwright",
    "prometheus_client",
    "nacl",
    "psycopg",
    "s3fs",
    "starlette",
    "uvicorn",
    "recoup.depot.shipping",
    "recoup.kernel.script_scan",
    "recoup.learning.store",
    "recoup.redaction.forms",
    "recoup.reports.reporter",
    "recoup.runtimes.agent.runtime",
    "recoup.runtimes.browser.runtime",
    "recoup.steps.browser.state",
    "recoup.workspace.workspaces",
}
"""For what most runs never do."""
IDLE = {"concurrent.futures.thread", "difflib", "importlib.resources", "shutil", "tempfile", "zipfile"}
"""Parts of Python that bring much with them, for what a run without trouble never does."""
SHAPES = {
    "recoup.documents.check_shape",
    "recoup.documents.handler_shape",
    "recoup.documents.input_shape",
    "recoup.documents.output_shape",
    "recoup.documents.plan_words",
    "recoup.documents.workspace_shape",
    "recoup.shapes.heal_shape",
    "recoup.steps.agent",
    "recoup.steps.approve",
    "recoup.steps.browser",
    "recoup.steps.python",
}
"""For what this plan does not have."""


def loaded(cli: Cli, *words: str) -> set[str]:
    """The modules that a new interpreter loads for this."""
    argv = [sys.executable, "-X", "importtime", *cli.argv(*words)[1:]]
    done = subprocess.run(
        argv, capture_output=True, text=True, cwd=cli.folder, env=cli.environ(), timeout=60, check=True
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    assert len(lines) > 100, "the interpreter says what it loads"
    return {line.rpartition("|")[2].strip() for line in lines}


@pytest.fixture
def plan(cli: Cli) -> str:
    return cli.plan(PLAN)


@pytest.mark.parametrize(
    "words",
    [
        ("runs",),
        ("show", "last"),
        ("events", "last"),
        ("ledger", "last"),
        ("logs", "last"),
        ("mode",),
        ("queue",),
        ("workers",),
        ("control", "last", "--help"),
    ],
    ids=lambda words: words[0],
)
def test_a_command_that_only_looks_reads_no_files_of_people(
    cli: Cli, plan: str, words: tuple[str, ...]
) -> None:
    assert cli("run", plan, "--quiet").code == 0
    assert loaded(cli, *words) & (FILES | SELDOM) == set()


def test_a_run_loads_nothing_for_what_its_plan_does_not_have(cli: Cli, plan: str) -> None:
    modules = loaded(cli, "run", plan, "--quiet")
    assert modules & (SELDOM | IDLE | SHAPES) == set()
    assert modules > FILES


def test_help_loads_no_command(cli: Cli, tmp_path: Path) -> None:
    commands = {name for name in loaded(cli, "--help") if name.startswith("recoup.")}
    assert commands <= {"recoup.cli", "recoup.cli.main", "recoup.errors"}


COUNTED = """
import atexit, gc
from recoup.cli.main import main
before = gc.get_stats()[0]["collections"]
atexit.register(lambda: print(gc.get_stats()[0]["collections"] - before))
main()
"""


def test_a_short_command_never_looks_for_garbage(cli: Cli, plan: str) -> None:
    argv = [sys.executable, "-c", COUNTED, "run", plan, "--quiet"]
    told = subprocess.run(
        argv, capture_output=True, text=True, cwd=cli.folder, env=cli.environ(), timeout=60, check=True
    )
    assert told.stdout.splitlines()[-1] == "0"


LEFT = """
import atexit, gc
from recoup.cli.main import main
atexit.register(lambda: print(len(gc.get_objects())))
main()
"""


def test_a_command_that_ends_leaves_nothing_to_look_through(cli: Cli, plan: str) -> None:
    """Python goes through all that is left when it ends: tens of thousands of objects, twice."""
    argv = [sys.executable, "-c", LEFT, "run", plan, "--quiet"]
    told = subprocess.run(
        argv, capture_output=True, text=True, cwd=cli.folder, env=cli.environ(), timeout=60, check=True
    )
    assert int(told.stdout.splitlines()[-1]) < 1_000
