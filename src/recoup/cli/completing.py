"""What a shell may complete: names that lie in folders, read without opening the ledger.

Somebody waits for each of these with a finger on the key: they import next to nothing, and where anything is wrong they
offer nothing.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recoup.files.named import read_named

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

ENTRIES_MAX = 10_000
RUNS_MAX = 100
STEPS_MAX = 1_000
_PLANS = (".yaml", ".yml", ".json")
_RUN = re.compile(r"\d{8}-\d{6}-[0-9a-f]+")
_LOG_HEAD = re.compile(rb"--- attempt \d+ of (\S+) at ")
_HEAD_BYTES = 300


def complete_run(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """`last`, and the newest runs of this home, newest first."""
    return [name for name in ("last", *_runs(ctx)) if name.startswith(incomplete)]


def complete_step(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """The steps of the named run that were tried; of the last one if none is named."""
    named = str(ctx.params.get("run_name") or ctx.params.get("reuse_name") or "last")
    runs = [run for run in _runs(ctx) if named == "last" or run.startswith(named)]
    steps = dict.fromkeys(_steps(_home(ctx) / "runs" / runs[0])) if runs else {}
    return [step for step in steps if step.startswith(incomplete)]


def complete_plan(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Files that may be plans, where nothing else can be meant; otherwise the shell's own completion."""
    from click.shell_completion import CompletionItem

    folder, _, beginning = incomplete.rpartition("/")
    with contextlib.suppress(OSError), os.scandir(f"{folder}/" if "/" in incomplete else ".") as found:
        near = [
            one for one in islice(found, ENTRIES_MAX) if one.name.startswith(beginning) and one.name[0] != "."
        ]
        plans = sorted(one.name for one in near if one.name.endswith(_PLANS) and one.is_file())
        if plans and not any(one.is_dir() for one in near):
            return [CompletionItem(incomplete[: len(incomplete) - len(beginning)] + name) for name in plans]
    return [CompletionItem(incomplete, type="file")]


def complete_topic(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    from recoup.cli.topics import topics

    return [
        CompletionItem(name, help=title) for name, title in topics().items() if name.startswith(incomplete)
    ]


def _runs(ctx: click.Context) -> list[str]:
    with contextlib.suppress(OSError):
        names = [path.name for path in (_home(ctx) / "runs").iterdir() if _RUN.fullmatch(path.name)]
        return sorted(names, reverse=True)[:RUNS_MAX]
    return []


def _steps(run: Path) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for log in sorted((run / "artifacts" / "logs" / "steps").glob("step-*.log"))[:STEPS_MAX]:
            if found := _LOG_HEAD.match(read_named(log, _HEAD_BYTES)):
                yield found[1].decode(errors="replace")


def _home(ctx: click.Context) -> Path:
    from recoup.errors import RecoupError
    from recoup.settings import read_settings

    said = ctx.find_root().params.get("home")
    try:
        return read_settings(os.environ, Path.cwd(), said).home
    except RecoupError:
        return Path(os.devnull)
