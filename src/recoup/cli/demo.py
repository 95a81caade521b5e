"""`demo`: a small repository, a plan in which everything goes wrong once, and where to look afterwards."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recoup.cli.output import with_app
from recoup.errors import UsageError
from recoup.terminal.writer import note, say

if TYPE_CHECKING:
    from recoup.app import App

_POLL_S = 0.1
_SEEN_S = 0.7
"""So that a person sees what is killed."""
PLAN = """\
version: 1
name: demo
objective: The monthly report is built, in spite of everything
workspace: {git: ./repo, ref: main}
defaults: {timeout: 20s, idle_timeout: 2s}
secrets: [DEMO_TOKEN]
steps:
  - id: fetch
    title: The network drops once
    run: ./fetch.sh
    expect: [{file: data.csv, contains: total}]
    outputs: {rows: {regex: 'got (\\d+) rows'}}
  - id: convert
    title: The converter hangs once
    run: ./convert.sh ${{ steps.fetch.outputs.rows }}
    expect: [{file: table.txt}]
  - id: build
    title: A crash leaves a corrupt cache, so that trying again cannot help
    run: ./build.sh
    expect: [{file: report.html}, {diff: nonempty}]
  - id: index
    title: The driver itself is killed with kill -9
    run: ./index.sh
    expect: [{file: index.txt}]
  - id: publish
    title: A careless script prints its token
    run: ./publish.sh
    expect: [{stdout: published}]
"""

_SCRIPTS = {
    "fetch.sh": """\
        if [ "$RECOUP_ATTEMPT" = 1 ]; then
            echo "curl: (56) Recv failure: connection reset by peer" >&2
            exit 56
        fi
        printf 'item,amount\\nink,12\\npaper,30\\ntotal,42\\n' > data.csv
        echo "got 3 rows"
    """,
    "convert.sh": """\
        echo "converting $1 rows"
        if [ "$RECOUP_ATTEMPT" = 1 ]; then
            sleep 600   # no output, no end
        fi
        tr ',' '\\t' < data.csv > table.txt
    """,
    "build.sh": """\
        mkdir -p cache
        if [ "$RECOUP_ATTEMPT" = 1 ]; then
            echo garbage > cache/index
        fi
        if [ -e cache/index ]; then
            echo "build: error: cache/index is corrupt" >&2
            exit 1
        fi
        { echo "<pre>"; cat table.txt; echo "</pre>"; } > report.html
        echo "report built"
    """,
    "index.sh": """\
        if [ "$RECOUP_ATTEMPT" = 1 ]; then
            sleep 600   # its driver dies meanwhile, and takes it along
        fi
        grep -n . table.txt > index.txt
    """,
    "publish.sh": """\
        echo "POST /reports authorization: bearer $DEMO_TOKEN"
        echo "published"
    """,
}


@click.command()
@click.option(
    "--folder", type=click.Path(path_type=Path), help="Where to put the demo; a new folder otherwise."
)
@click.pass_context
def demo(ctx: click.Context, folder: Path | None) -> None:
    """Watch a plan get through a dropped connection, a hang, a loop, a crash and a leaked token.

    \b
    Example:
      recoup demo
    """
    place = _empty_folder(folder)
    plan_path = prepare(place)
    token = "demo-" + secrets.token_urlsafe(24)
    os.environ["DEMO_TOKEN"] = token
    home = Path((ctx.find_root().obj or {}).get("home") or place / "state").absolute()
    ctx.find_root().obj = {"home": str(home)}
    say(f"A repository, a plan and an empty state folder are in {place}")
    _until_killed(home, plan_path)
    code = with_app(ctx, _resume)
    kept = files_of(home)
    leaks = [path for path in kept if token.encode() in path.read_bytes()]
    say()
    say(f"files of the state folder that hold the token: {len(leaks)} of {len(kept)}")
    _where_next(home)
    ctx.exit(code or (1 if leaks else 0))


def _empty_folder(folder: Path | None) -> Path:
    for program in ("git", "bash"):
        if shutil.which(program) is None:
            raise UsageError(f"the demo needs {program}", hint="See what is missing: recoup doctor")
    try:
        place = (folder or Path(tempfile.mkdtemp(prefix="recoup-demo-"))).absolute()
        place.mkdir(parents=True, exist_ok=True)
        full = any(place.iterdir())
    except OSError as error:
        raise UsageError(f"{folder} cannot be used: {error.strerror}", hint="Name a new folder.") from None
    if full:
        raise UsageError(f"{place} is not empty", hint="Name a new folder, or leave --folder out.")
    return place


def _until_killed(home: Path, plan_path: Path) -> None:
    """Run the plan in a process of its own, and kill that as soon as the step `index` runs."""
    argv = [sys.executable, "-m", "recoup.cli.main", "--home", str(home), "run", str(plan_path)]
    say()
    say(f"$ recoup --home {home} run {plan_path}", "bold")
    driver = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
    while driver.poll() is None and not asyncio.run(_index_runs(home)):
        time.sleep(_POLL_S)
    if driver.poll() is None:
        time.sleep(_SEEN_S)
        driver.kill()
        driver.wait()
        note(f"kill -9 {driver.pid}: the driver is gone")


async def _index_runs(home: Path) -> bool:
    from recoup.ledger.sqlite import SqliteLedger

    if not (home / "ledger.db").exists():
        return False
    ledger = SqliteLedger(home / "ledger.db")
    try:
        runs = (await ledger.runs(limit=1)).rows
        attempts = await ledger.attempts(runs[0].run_id) if runs else []
    finally:
        await ledger.close()
    return any(attempt.step_id == "index" and attempt.state == "launched" for attempt in attempts)


async def _resume(app: App) -> int:
    from recoup.cli.look import print_ledger
    from recoup.cli.run import drive
    from recoup.kernel.prefix import ledger_document

    run_id = await app.runs.find("last")
    ours = f"recoup --home {app.settings.home}"
    say()
    say(f"$ {ours} resume {run_id}", "bold")
    code = await drive(app, await app.runs.state(run_id), as_json=False, quiet=False)
    say()
    say(f"$ {ours} ledger {run_id}", "bold")
    print_ledger(ledger_document(await app.runs.state(run_id)))
    return code


def prepare(place: Path) -> Path:
    """The repository and the plan; returns the plan's path."""
    import textwrap

    repository = place / "repo"
    repository.mkdir(parents=True, exist_ok=True)
    for name, body in _SCRIPTS.items():
        script = repository / name
        script.write_text("#!/usr/bin/env bash\nset -e\n" + textwrap.dedent(body))
        script.chmod(0o755)
    plan = place / "plan.yaml"
    plan.write_text(PLAN)
    for words in (
        ["init", "-q", "-b", "main"],
        ["add", "-A"],
        [*_AUTHOR, "commit", "-q", "-m", "The scripts"],
    ):
        subprocess.run(["git", "-C", str(repository), *words], check=True, capture_output=True)
    return plan


_AUTHOR = ["-c", "user.name=Demo", "-c", "user.email=demo@localhost", "-c", "commit.gpgsign=false"]


def files_of(home: Path) -> list[Path]:
    """Everything that is kept; workspaces belong to the steps."""
    return [p for p in home.rglob("*") if p.is_file() and "workspaces" not in p.relative_to(home).parts]


def _where_next(home: Path) -> None:
    say()
    say("Where to look next:")
    for command, words in (
        ("show last", "the run: status, driver, prefix, advice"),
        ("events last", "every fact, with its reason"),
        ("logs last build", "what a step printed, redacted"),
        ("report last", "one page about it, for a browser"),
        ("show last --json", "the same for programs"),
        ("serve", "the console: open it in a browser"),
    ):
        say(f"  recoup --home {home} {command:<18} {words}")
