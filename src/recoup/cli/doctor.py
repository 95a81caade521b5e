"""`doctor`: what this machine can and cannot do, and what to do about it."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recoup import __version__
from recoup.cli.output import json_option, print_json
from recoup.errors import LearningError, RecoupError

if TYPE_CHECKING:
    from recoup.settings import DatabaseUrl

_GIT_MIN = (2, 32)
_FREE_MIN_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    ok: bool
    detail: str
    advice: str = ""
    needed: bool = True
    """Recoup cannot run plans without it."""


@click.command()
@json_option
@click.pass_context
def doctor(ctx: click.Context, as_json: bool) -> None:
    """Say what this machine can and cannot do. Exit code 1: something that is needed is missing.

    \b
    Example:
      recoup doctor
    """
    home = (ctx.obj or {}).get("home")
    findings = [finding for examine in _EXAMINATIONS for finding in examine(home)]
    broken = any(not finding.ok and finding.needed for finding in findings)
    if as_json:
        print_json(
            {
                "version": __version__,
                "ok": not broken,
                "findings": [_document(finding) for finding in findings],
            }
        )
    else:
        for finding in findings:
            mark = "ok  " if finding.ok else "MISS" if finding.needed else "note"
            click.echo(f"{mark}  {finding.name:<10} {finding.detail}")
            if finding.advice and not finding.ok:
                click.echo(f"                 {finding.advice}")
    ctx.exit(1 if broken else 0)


def _document(finding: Finding) -> dict[str, object]:
    return {
        "name": finding.name,
        "ok": finding.ok,
        "needed": finding.needed,
        "detail": finding.detail,
        "advice": "" if finding.ok else finding.advice,
    }


def _python(_home: str | None) -> Iterator[Finding]:
    yield Finding(
        "python", sys.version_info >= (3, 11), platform.python_version(), "Install Python 3.11 or newer."
    )
    yield Finding(
        "sqlite",
        sqlite3.sqlite_version_info >= (3, 35),
        sqlite3.sqlite_version,
        "Install SQLite 3.35 or newer.",
    )


def _programs(_home: str | None) -> Iterator[Finding]:
    git = shutil.which("git")
    version = subprocess.run([git, "--version"], capture_output=True, text=True).stdout if git else ""
    numbers = tuple(int(part) for part in version.split()[2].split(".")[:2]) if version else (0, 0)
    yield Finding(
        "git",
        numbers >= _GIT_MIN,
        version.strip() or "not found",
        "Install git 2.32 or newer: apt-get install git",
    )
    bash = shutil.which("bash")
    yield Finding(
        "bash", bash is not None, bash or "not found", "Install bash: `run:` steps are given to it."
    )


def _system(_home: str | None) -> Iterator[Finding]:
    linux = sys.platform == "linux"
    yield Finding(
        "keeper",
        linux and hasattr(os, "pidfd_open"),
        "whole process trees are kept" if linux else f"{sys.platform} is not supported",
        "Process trees are kept on Linux 5.4 or newer only.",
    )


def _patterns(_home: str | None) -> Iterator[Finding]:
    """What is hidden although nobody registered it."""
    from recoup.redaction.patterns.catalogue import default_cache, pattern_set

    report = pattern_set(default_cache(os.environ)).report
    left_out = f", {len(report.left_out)} left out" if report.left_out else ""
    found = f"{report.spanned} patterns for unregistered secrets{left_out}"
    why = report.trouble or "Some hundred more, of a kept package, are not installed."
    advice = f"{why} Only Recoup's own patterns are in force: pip install 'recoup[patterns]'"
    yield Finding("patterns", report.package is not None, found, advice, needed=False)


def _browser(_home: str | None) -> Iterator[Finding]:
    """Only plans with `browser:` steps need one."""
    from recoup.runtimes.browser.finding import find_browser, has_library

    try:
        found = find_browser(os.environ)
    except RecoupError as error:
        yield Finding("browser", False, error.message, error.hint, needed=False)
        return
    if found is None:
        yield Finding("browser", False, "no Chromium", "Get one: recoup browser install", needed=False)
        return
    advice = "Playwright, which drives it, is missing: pip install 'recoup[browser]'"
    words = found.executable if has_library() else f"{found.executable}, but nothing to drive it"
    yield Finding("browser", has_library(), words, advice, needed=False)


def _state(home: str | None) -> Iterator[Finding]:
    from recoup.app import make_home
    from recoup.cli.run import read_policy_of
    from recoup.settings import read_settings

    try:
        settings = read_settings(os.environ, Path.cwd(), home)
    except RecoupError as error:
        yield Finding("settings", False, error.message, error.hint)
        return
    yield _tried("home", str(settings.home), lambda: make_home(settings.home))
    yield _tried("policy", str(settings.policy or "the defaults"), lambda: read_policy_of(settings))
    if settings.sentences is not None:
        yield _sentences(settings.sentences)
    if not settings.home.is_dir():
        return
    free = shutil.disk_usage(settings.home).free
    room = f"{free / (1 << 30):.1f} GiB free"
    yield Finding("space", free >= _FREE_MIN_BYTES, room, "Free some space.", needed=False)
    yield _database(settings.database)
    key = settings.home / "key"
    kept = "RECOUP_KEY" if settings.key else f"{key}{'' if key.exists() else ' (made when it is needed)'}"
    yield Finding("key", True, f"secret values are encrypted with {kept}")


def _sentences(folder: Path) -> Finding:
    try:
        from recoup.learning.sentences import Sentences

        Sentences(folder)
    except ImportError:
        return Finding("sentences", False, "no numpy", "pip install 'recoup[sentences]'", needed=False)
    except LearningError as error:
        return Finding("sentences", False, error.message, error.hint, needed=False)
    return Finding("sentences", True, f"what was learned is compared by the model in {folder}")


def _database(database: Path | DatabaseUrl) -> Finding:
    if isinstance(database, Path):
        made = "" if database.exists() else " (made with the first run)"
        return Finding("database", True, f"{database}{made}")
    return _tried("database", str(database), lambda: asyncio.run(_open_and_close(database)))


async def _open_and_close(database: DatabaseUrl) -> None:
    from recoup.app import open_ledger

    await (await open_ledger(database)).close()


def _tried(name: str, detail: str, attempt: Callable[[], object]) -> Finding:
    try:
        attempt()
    except RecoupError as error:
        return Finding(name, False, error.message, error.hint)
    return Finding(name, True, detail)


_EXAMINATIONS: tuple[Callable[[str | None], Iterator[Finding]], ...] = (
    _python,
    _programs,
    _system,
    _patterns,
    _browser,
    _state,
)
