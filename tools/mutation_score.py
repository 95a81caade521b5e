"""Change the decisions of the kernel one by one and count how many changes its tests notice.

    python tools/mutation_score.py [JOBS]     # fails when fewer than 90 % of a module's changes are noticed

Works on a copy in .bench/mutation-work, with mutmut in .bench/mutation (tools/setup-soak.sh puts it there). A change
that makes a test fail or never end is noticed; everything else is not, and is shown with its difference.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MUTMUT = ROOT / ".bench" / "mutation"
WORK = ROOT / ".bench" / "mutation-work"
TESTS_OF = {
    "src/recoup/kernel/breaker.py": ("tests/unit/test_breaker.py", "tests/unit/test_regression.py"),
    "src/recoup/kernel/decide.py": ("tests/unit/test_decide.py", "tests/unit/test_retries.py"),
}
LEAST_PERCENT = 90
LIMIT_S = 900
SHOWN_MAX = 40
NOTICED = {1, 3, 36, -24, 24, 152, 255}
"""What mutmut keeps of a test run that failed, or that was ended after many times its usual time."""

CONFIGURATION = """\
[tool.mutmut]
source_paths = ["src"]
only_mutate = {modules}
pytest_add_cli_args_test_selection = {tests}
# The same examples each time, and no deadline that a busy machine would miss.
pytest_add_cli_args = ["--hypothesis-profile=ci", "-p", "no:cacheprovider"]
use_setproctitle = false
use_git_change_detection = false

[tool.pytest.ini_options]
addopts = "--strict-markers --import-mode=importlib"
asyncio_mode = "auto"
asyncio_default_fixture_loop_scope = "function"
markers = ["soak: takes long"]
"""


def main() -> int:
    if not (MUTMUT / "mutmut").is_dir():
        sys.exit("mutation score: mutmut is not there; run tools/setup-soak.sh first")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("mutation score: told to end"))
    lay_out(WORK)
    run_mutmut(WORK, jobs=int(sys.argv[1]) if sys.argv[1:] else os.cpu_count() or 1)
    passed = [tell(WORK, module) for module in TESTS_OF]
    return 0 if all(passed) else 1


def lay_out(work: Path) -> None:
    """Only what the tests need: nothing of the project itself is changed."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(ROOT / "src", work / "src", ignore=shutil.ignore_patterns("__pycache__"))
    tests = sorted({test for several in TESTS_OF.values() for test in several})
    for test in tests:
        (work / test).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / test, work / test)
    words = CONFIGURATION.format(modules=json.dumps([*TESTS_OF]), tests=json.dumps(tests))
    (work / "pyproject.toml").write_text(words)


def run_mutmut(work: Path, jobs: int) -> None:
    with (work / "mutmut.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "mutmut", "run", "--max-children", str(jobs)],
            cwd=work,
            env=environment(),
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        code = process.wait(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        sys.exit(f"mutation score: not done within {LIMIT_S} s; see {work / 'mutmut.log'}")
    finally:
        end_group(process)
    if code != 0:
        sys.exit(f"mutation score: mutmut ended with {code}; see {work / 'mutmut.log'}")


def end_group(process: subprocess.Popen[bytes]) -> None:
    """It has a process for every change that is being tried; none may outlive this program."""
    if process.poll() is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(MUTMUT), "NO_COLOR": "1"}


def tell(work: Path, module: str) -> bool:
    found = results(work, module)
    missed = sorted(name for name, code in found.items() if code not in NOTICED)
    percent = 100 * (len(found) - len(missed)) / max(1, len(found))
    say(f"{module}: {len(found) - len(missed)} of {len(found)} changes noticed, {percent:.1f} %")
    show(work, missed)
    return bool(found) and percent >= LEAST_PERCENT


def results(work: Path, module: str) -> dict[str, int | None]:
    told = json.loads((work / "mutants" / f"{module}.meta").read_text())["exit_code_by_key"]
    assert isinstance(told, dict), "mutmut keeps one exit code for every change"
    return told


def show(work: Path, missed: Iterable[str]) -> None:
    for name in [*missed][:SHOWN_MAX]:
        shown = subprocess.run(
            [sys.executable, "-m", "mutmut", "show", name],
            cwd=work,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        changed = [
            line for line in shown.stdout.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")
        ]
        say(f"  not noticed: {name}", *(f"      {line}" for line in changed))


def say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
