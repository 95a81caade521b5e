"""`make bench`: every benchmark, or those that are named; then docs/benchmarks.md is written anew.

Each is a process of its own: what one leaves in memory does not slow the next, and one that fails does not take the
others' figures with it. Exit code 1 when a bar is missed or a benchmark failed.
"""

from __future__ import annotations

import argparse
import ast
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from benchmarks import machine
from benchmarks.page import page
from benchmarks.peers.environments import PLACE, ROOT, last_words
from benchmarks.report import QUICK, Figure, LeftOut
from benchmarks.results import Results, Section, read, write

NAMES = (
    "decisions",
    "breaker",
    "ledger_commits",
    "durable_steps",
    "durable_steps_postgres",
    "durable_runs",
    "keeper_cost",
    "workspace",
    "start_up",
    "stories",
    "control_latency",
    "redaction_floods",
    "redaction_patterns",
    "signatures",
    "audit_export",
    "metrics_cost",
    "dispatch",
    "takeover",
    "retention",
    "probe",
    "gateway",
    "streams",
    "browser",
    "locators",
    "healing_cost",
    "learning",
    "drift",
)
KEPT = ROOT / "docs" / "benchmarks.json"
EACH_MAX_S = 1_800
END_S = 60.0
"""For one that has been interrupted, to stop its servers."""
Told = tuple[tuple[Figure, ...], tuple[LeftOut, ...]]


def main() -> int:
    asked = _arguments()
    stop_when_told()
    kept = PLACE / "quick" / KEPT.name if asked.quick else KEPT
    PLACE.mkdir(exist_ok=True)
    if asked.quick:
        os.environ[QUICK] = "1"
    names = asked.names or ([] if asked.page else list(NAMES))
    results, bad = read(kept), 0
    for number, name in enumerate(names, 1):
        section = _measured(name, f"[{number}/{len(names)}]", results)
        # Another process may have measured something else meanwhile.
        results = read(kept).with_section(section)
        _keep(kept, results)
        bad += section.missed + bool(section.failed)
    _keep(kept, results)
    print(f"\n{bad} bars missed or benchmarks failed" if bad else "", kept.with_suffix(".md"), sep="\n")
    return 1 if bad else 0


def _keep(path: Path, results: Results) -> None:
    """After each benchmark: one may stop here and have the page."""
    write(path, results)
    path.with_suffix(".md").write_text(page(results, NAMES))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument(
        "--quick", action="store_true", help="small forms, into .bench/quick: only to see that they work"
    )
    parser.add_argument(
        "--page", action="store_true", help="measure nothing, write the page from what is kept"
    )
    asked = parser.parse_args()
    unknown = sorted(set(asked.names) - set(NAMES))
    if unknown:
        parser.error(f"there is no benchmark {', '.join(unknown)}; there are {', '.join(NAMES)}")
    return asked


def _measured(name: str, place: str, results: Results) -> Section:
    before = results.sections.get(name)
    about, busy_cores = about_of(name), machine.busy_cores()
    expected = f" (took {before.took_s:.0f} s the last time)" if before else ""
    print(f"\n{place} {name}{expected}: {about.splitlines()[0]}", flush=True)
    pace_ms, began = machine.pace_ms(), time.monotonic()
    (figures, left_out), failed = _in_a_process(name)
    took_s = time.monotonic() - began
    return Section(
        name=name,
        about=about,
        command=f"python -m benchmarks {name}",
        measured_at=datetime.now(UTC).isoformat(timespec="seconds"),
        took_s=round(took_s, 1),
        machine=machine.machine(),
        busy_cores=busy_cores,
        versions=machine.versions(),
        figures=figures,
        left_out=left_out,
        failed=failed,
        pace_ms=(pace_ms, machine.pace_ms()),
    )


def about_of(name: str) -> str:
    """What the benchmark says of itself; reading it does not load it."""
    found = ROOT / "benchmarks" / name
    source = found / "__init__.py" if found.is_dir() else found.with_suffix(".py")
    return ast.get_docstring(ast.parse(source.read_text())) or ""


def _in_a_process(name: str) -> tuple[Told, str]:
    """What it told, or why it did not."""
    with tempfile.TemporaryDirectory(dir=PLACE) as folder:
        path = Path(folder, "told.json")
        child = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.one", name, path],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C reaches it once, through us
        )
        errors: list[str] = []
        reading = threading.Thread(target=_pass_on, args=(child, errors), daemon=True)
        reading.start()
        failed = ended(child)
        reading.join(END_S)
        if not failed and child.returncode:
            failed = f"it failed: {last_words(''.join(errors))}"
        return ((), ()) if failed else msgspec.json.decode(path.read_bytes(), type=Told), failed


def _pass_on(child: subprocess.Popen[str], errors: list[str]) -> None:
    assert child.stderr
    for line in child.stderr:
        sys.stderr.write(line)
        errors.append(line)


def stop_when_told() -> None:
    """By Ctrl-C or by `kill`, also as a job in the background, which a shell lets ignore the former."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def ended(child: subprocess.Popen[str]) -> str:
    """Interrupted rather than killed when it takes too long, or when we are stopped: so it stops what it started."""
    try:
        child.wait(EACH_MAX_S)
        return ""
    except subprocess.TimeoutExpired:
        _interrupt(child)
    except BaseException:
        _interrupt(child)
        raise
    return f"not done after {EACH_MAX_S} s"


def _interrupt(child: subprocess.Popen[str]) -> None:
    child.send_signal(signal.SIGINT)
    try:
        child.wait(END_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


if __name__ == "__main__":
    sys.exit(main())
