"""`doctor`: what this machine can and cannot do, and what to do about it."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import platform
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from recoup import __version__
from recoup.cli.extras import EXTRAS, Extra
from recoup.cli.output import json_option
from recoup.errors import LearningError, RecoupError
from recoup.terminal.writer import print_json, say

if TYPE_CHECKING:
    from recoup.plugins import Plugin
    from recoup.settings import DatabaseUrl, Settings

_GIT_MIN = (2, 32)
_FREE_MIN_BYTES = 1 << 30
_FREE_NEEDED_BYTES = 4 << 20
"""With less a run fails within its first steps."""
_CLOCK_BACK_MAX_S = 300


@dataclass(frozen=True, slots=True)
class Finding:
    name: str
    ok: bool
    detail: str
    advice: str = ""
    """What to do about it: a command, where there is one."""
    without: str = ""
    """What does not work without it."""
    needed: bool = True
    """Recoup cannot run plans without it."""
    mark: str = ""
    """Printed in front of it, where "MISS" would be wrong."""


@click.command()
@json_option
@click.pass_context
def doctor(ctx: click.Context, as_json: bool) -> None:
    """Say what this machine can and cannot do. Exit code 1: something that is needed is missing.

    For each part that is missing (MISS: needed; note: optional) or damaged (FAIL) it says what does not work, and
    what to do.

    \b
    Examples:
      recoup doctor
      recoup doctor --json
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
            _say(finding)
        say(_summary(findings))
    ctx.exit(1 if broken else 0)


def _say(finding: Finding) -> None:
    mark = "ok  " if finding.ok else finding.mark or ("MISS" if finding.needed else "note")
    say(f"{mark}  {finding.name:<10} {finding.detail}")
    if not finding.ok:
        more = [f"without it: {finding.without}" if finding.without else "", finding.advice]
        for line in filter(None, more):
            say(f"                 {line}")


def _summary(findings: list[Finding]) -> str:
    needed, optional = (
        [finding.name for finding in findings if not finding.ok and finding.needed is kind]
        for kind in (True, False)
    )
    whole = f"missing, and needed: {', '.join(needed)}" if needed else "all that is needed is there"
    return f"{whole}; optional, and not there: {', '.join(optional)}" if optional else whole


def _document(finding: Finding) -> dict[str, object]:
    return {
        "name": finding.name,
        "ok": finding.ok,
        "needed": finding.needed,
        "detail": finding.detail,
        "without": "" if finding.ok else finding.without,
        "advice": "" if finding.ok else finding.advice,
    }


def _python(_home: str | None) -> Iterator[Finding]:
    yield Finding(
        *("python", sys.version_info >= (3, 11), platform.python_version(), "Install Python 3.11 or newer."),
        without="Recoup does not start",
    )
    yield Finding(
        *("sqlite", sqlite3.sqlite_version_info >= (3, 35), sqlite3.sqlite_version),
        "Install a Python with SQLite 3.35 or newer.",
        without="there is no ledger but one in PostgreSQL",
    )


def _programs(_home: str | None) -> Iterator[Finding]:
    git = shutil.which("git")
    version = subprocess.run([git, "--version"], capture_output=True, text=True).stdout if git else ""
    numbers = tuple(int(part) for part in version.split()[2].split(".")[:2]) if version else (0, 0)
    yield Finding(
        *("git", numbers >= _GIT_MIN, version.strip() or "not found"),
        "Install git 2.32 or newer: apt-get install git",
        without="plans with a workspace cannot be run",
    )
    bash = shutil.which("bash")
    yield Finding(
        *("bash", bash is not None, bash or "not found", "apt-get install bash"),
        without="`run:` steps fail: they are given to it",
    )


def _system(_home: str | None) -> Iterator[Finding]:
    trouble = _keeper_trouble()
    yield Finding(
        *("keeper", not trouble, trouble or "whole process trees are kept"),
        "Use Linux 5.4 or newer, with /proc mounted.",
        without="no step can be run: nobody could prove that what it started has ended",
    )


def _keeper_trouble() -> str:
    if sys.platform != "linux":
        return f"{sys.platform} is not supported"
    if not Path("/proc/self/stat").exists():
        return "/proc is not mounted"
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError as error:
        return f"this system has no handles of processes: {error.strerror}"
    return ""


def _for_probes(_home: str | None) -> Iterator[Finding]:
    """Only probes use these."""
    from recoup.processes.shared_process import SHELLS

    dash = next((shell for shell in SHELLS if os.access(shell, os.X_OK)), None)
    yield Finding(
        *("dash", dash is not None, dash or "not found", "apt-get install dash"),
        without="each process of a probe has a keeper of its own, of about 3 MB",
        needed=False,
    )
    ssh = shutil.which("ssh")
    yield Finding(
        *("ssh", ssh is not None, ssh or "not found", "apt-get install openssh-client"),
        without="`ssh_remote` channels of probes cannot be opened",
        needed=False,
    )


def _agents(_home: str | None) -> Iterator[Finding]:
    """Only plans with `agent:` steps need one."""
    from recoup.runtimes.agent.clis import DIALECTS

    found = [name for name in DIALECTS if shutil.which(name)]
    absent = [name for name in DIALECTS if name not in found]
    yield Finding(
        *("agents", bool(found), ", ".join(found) or f"no {', '.join(absent)} on the PATH"),
        "Install one: " + " or ".join(dialect.install for dialect in DIALECTS.values()),
        without="`agent:` steps with these names fail; any other command can be named there",
        needed=False,
    )


def _plugins(_home: str | None) -> Iterator[Finding]:
    """What other packages bring. Nothing is said where there is nothing."""
    from recoup.checks import registry as checks
    from recoup.notifiers import registry as notifiers
    from recoup.plugins import AGENTS, CHECKS, NOTIFIERS, STEPS, plugins
    from recoup.runtimes.agent.clis import trouble_with_dialect
    from recoup.steps.registry import BUILT_IN, trouble_with

    for key, plugin in plugins(STEPS).items():
        trouble = f"`{key}` is a kind of step of Recoup itself" if key in BUILT_IN else trouble_with(key)
        yield _of_plugin(plugin, f"`{key}:` steps", trouble)
    for key, plugin in plugins(CHECKS).items():
        trouble = (
            f"`{key}` is a check of Recoup itself" if key in checks.own_keys() else checks.trouble_with(key)
        )
        yield _of_plugin(plugin, f"`{key}:` checks", trouble)
    for key, plugin in plugins(NOTIFIERS).items():
        ours = f"`{key}` is a notifier of Recoup itself" if key in notifiers.own_keys() else None
        yield _of_plugin(plugin, f"the notifier `{key}`", ours or notifiers.trouble_with(key))
    for name, plugin in plugins(AGENTS).items():
        yield _of_plugin(plugin, f"`agent:` steps with {name}", trouble_with_dialect(name))


def _of_plugin(plugin: Plugin, what: str, trouble: str | None) -> Finding:
    return Finding(
        *("plugin", trouble is None, trouble or f"{what}, by {plugin.package}"),
        f"Update or uninstall it: pip uninstall {plugin.package}",
        without=f"{what} do not work",
        needed=False,
        mark="FAIL",
    )


def _patterns(_home: str | None) -> Iterator[Finding]:
    """What is hidden although nobody registered it."""
    from recoup.redaction.patterns.catalogue import default_cache, pattern_set

    report = pattern_set(default_cache(os.environ)).report
    left_out = f", {len(report.left_out)} left out" if report.left_out else ""
    yield Finding(
        *("redaction", report.trouble is None),
        f"{report.spanned} patterns for unregistered secrets{left_out}",
        f"{report.trouble} pip install --force-reinstall 'recoup[patterns]'",
        without="only Recoup's own patterns find secrets that nobody registered",
        needed=False,
    )


def _chromium(_home: str | None) -> Iterator[Finding]:
    """Only plans with `browser:` steps need one."""
    from recoup.runtimes.browser.finding import driver_hint, driver_trouble, find_browser

    without = "`browser:` steps and `recoup record` do not work"
    trouble = driver_trouble(os.environ)
    if trouble is not None:
        yield Finding("playwright", False, trouble, driver_hint(trouble), without, needed=False)
    try:
        found = find_browser(os.environ)
    except RecoupError as error:
        yield Finding("chromium", False, error.message, error.what_to_do, without, needed=False)
        return
    detail = found.executable if found else "no Chromium"
    yield Finding("chromium", found is not None, detail, "recoup browser install", without, needed=False)
    if importlib.util.find_spec("numpy") is not None:
        yield _weights()


def _extras(home: str | None) -> Iterator[Finding]:
    settings = _settings(home)
    for extra in EXTRAS:
        yield _extra(extra, settings is not None and _asks_for(extra, settings))


def _extra(extra: Extra, asked: bool) -> Finding:
    missing = extra.missing()
    detail = f"not installed: {', '.join(missing)}" if missing else f"recoup[{extra.name}] is installed"
    return Finding(extra.name, not missing, detail, extra.command, extra.without, needed=asked)


def _asks_for(extra: Extra, settings: Settings) -> bool:
    """Whether the settings name what cannot be had without it."""
    return {
        "postgres": not isinstance(settings.database, Path),
        "s3": (settings.evidence or "").startswith("s3:"),
        "otel": settings.otel is True,
    }.get(extra.name, False)


def _settings(home: str | None) -> Settings | None:
    """None: they cannot be read, which is said elsewhere."""
    from recoup.settings import read_settings

    try:
        return read_settings(os.environ, Path.cwd(), home)
    except RecoupError:
        return None


def _state(home: str | None) -> Iterator[Finding]:
    from recoup.cli.output import is_missing
    from recoup.cli.run import read_policy_of
    from recoup.machine import home_trouble
    from recoup.settings import make_home, read_settings

    try:
        settings = read_settings(os.environ, Path.cwd(), home)
    except RecoupError as error:
        yield Finding("settings", False, error.message, error.what_to_do, "nothing starts")
        return
    file = str(settings.file or "no recoup.toml: the environment and defaults")
    yield Finding("settings", True, file)
    is_new = is_missing(settings.home)
    if is_new:
        home_found = _new_home(settings.home, is_named=home is not None)
    else:
        home_found = _tried(
            "home", str(settings.home), lambda: make_home(settings.home), "nothing can be recorded"
        )
    yield home_found
    if not is_new and not home_found.ok and not _is_own(settings.home):
        return
    policy = str(settings.policy or "the defaults")
    yield _tried("policy", policy, lambda: read_policy_of(settings), "no run is begun")
    if settings.sentences is not None:
        yield _sentences(settings.sentences)
    if not is_new and not settings.home.is_dir():
        return
    free = shutil.disk_usage(_there(settings.home)).free
    room, trouble = f"{_size(free)} free", None if is_new else home_trouble(settings.home)
    is_full = trouble is not None or free < _FREE_NEEDED_BYTES
    advice = "Free some space: recoup prune --older-than 30d; or move the home: RECOUP_HOME"
    if trouble is not None:
        advice = "Free some space on that disk by other means (pruning needs room itself), or enlarge it"
    yield Finding(
        *("space", trouble is None and free >= _FREE_MIN_BYTES, trouble or room, advice),
        without="runs end for want of room for checkpoints and evidence",
        needed=is_full,
        mark="FAIL" if is_full else "",
    )
    yield _clock(settings)
    yield _database(settings.database)
    key = settings.home / "key"
    kept = "RECOUP_KEY" if settings.key else f"{key}{'' if key.exists() else ' (made when it is needed)'}"
    yield _key(settings.key, f"secret values are encrypted with {kept}")


def _key(configured: str | None, detail: str) -> Finding:
    from recoup.settings import require_strong_key

    try:
        require_strong_key(configured)
    except RecoupError as error:
        return Finding("key", False, error.message, error.what_to_do, "no new run is begun", mark="FAIL")
    return Finding("key", True, detail)


def _is_own(home: Path) -> bool:
    """Nothing is opened in the home of another user."""
    from recoup.settings import require_own_home

    try:
        with contextlib.suppress(OSError):
            require_own_home(home)
    except RecoupError:
        return False
    return True


def _new_home(home: Path, *, is_named: bool) -> Finding:
    """A look at it makes no home."""
    if is_named:
        hint = "Check --home. `recoup run` and `recoup submit` make a new one."
        return Finding("home", False, f"there is no home {home}", hint, "there is nothing to look at")
    if os.access(_there(home), os.W_OK | os.X_OK):
        return Finding("home", True, f"{home} (made by the first run)")
    hint = "Fix the permissions, or name another folder: RECOUP_HOME or --home."
    return Finding("home", False, f"{home} cannot be made in {_there(home)}", hint, "nothing can be recorded")


def _there(home: Path) -> Path:
    """The home, or the nearest folder above it that is there."""
    return next(place for place in (home, *home.parents) if place.is_dir())


def _size(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count / (1 << 20):.1f} MiB"


def _clock(settings: Settings) -> Finding:
    """Waits and leases do not count by the wall clock; the times that people read do."""
    ledger = settings.database
    changed_s = ledger.stat().st_mtime if isinstance(ledger, Path) and ledger.exists() else 0.0
    back_s = changed_s - time.time()
    if not isinstance(ledger, Path):
        return _clock_of_fleet(ledger)
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    behind = f", {back_s:.0f} s before the last change of {ledger}: it was set back"
    return Finding(
        *("clock", back_s <= _CLOCK_BACK_MAX_S, now + (behind if back_s > _CLOCK_BACK_MAX_S else "")),
        "Set it right, and keep it so: timedatectl set-ntp true",
        without="times in events and reports are wrong, and certificates may be refused",
        needed=False,
    )


def _clock_of_fleet(database: DatabaseUrl) -> Finding:
    """Machines that share a database count by its clock; what a step reads from its own machine's clock stays wrong."""
    from recoup.fleet.overview import clock_words

    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    try:
        ahead_s = asyncio.run(_clock_ahead_s(database))
    except RecoupError:
        return Finding("clock", True, f"{now}, not compared with the database's: it is away", needed=False)
    wrong = clock_words(ahead_s)
    return Finding(
        *("clock", not wrong, f"{now}, {wrong or f'{ahead_s:+.3f} s'} compared with the database's"),
        "Set it right, and keep it so: timedatectl set-ntp true",
        without="steps and their files have wrong times, and certificates may be refused",
        needed=False,
    )


async def _clock_ahead_s(database: DatabaseUrl) -> float:
    from recoup.app import open_ledger
    from recoup.clock import SharedClock

    clock = SharedClock()
    await (await open_ledger(database, clock=clock)).close()
    return clock.ahead_s


def _sentences(folder: Path) -> Finding:
    without = "learned targets are compared by their letters"
    try:
        from recoup.learning.sentences import Sentences

        Sentences(folder)
    except ImportError:
        return Finding("model", False, "no numpy", "pip install 'recoup[sentences]'", without, needed=False)
    except LearningError as error:
        return Finding("model", False, error.message, error.what_to_do, without, needed=False)
    return Finding("model", True, f"what was learned is compared by the model in {folder}")


def _weights() -> Finding:
    """Of the model that finds a changed target again. It is shipped with the package."""
    from recoup.targets.weights import Unusable, shipped

    model, without = shipped(), "targets on changed pages are not healed"
    if isinstance(model, Unusable):
        how = "pip install --force-reinstall recoup"
        return Finding("weights", False, model.why, how, without, needed=False)
    return Finding("weights", True, "the resolver's weights are whole")


def _database(database: Path | DatabaseUrl) -> Finding:
    if isinstance(database, Path):
        return _ledger_file(database)
    without = "nothing can be recorded"
    return _tried("database", str(database), lambda: asyncio.run(_open_and_close(database)), without)


def _ledger_file(path: Path) -> Finding:
    from recoup.ledger.examination import examine

    try:
        detail = examine(path)
    except RecoupError as error:
        without = "what was recorded is missing or cannot be trusted"
        return Finding("database", False, error.message, error.what_to_do, without, mark="FAIL")
    return Finding("database", True, f"{path}{detail}")


async def _open_and_close(database: DatabaseUrl) -> None:
    from recoup.app import open_ledger

    await (await open_ledger(database)).close()


def _tried(name: str, detail: str, attempt: Callable[[], object], without: str) -> Finding:
    try:
        attempt()
    except RecoupError as error:
        return Finding(name, False, error.message, error.what_to_do, without)
    return Finding(name, True, detail)


_EXAMINATIONS: tuple[Callable[[str | None], Iterator[Finding]], ...] = (
    _python,
    _programs,
    _system,
    _state,
    _patterns,
    _extras,
    _chromium,
    _agents,
    _plugins,
    _for_probes,
)
