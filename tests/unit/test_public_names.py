"""The names that `import recoup` promises, with their signatures: whoever changes one changes other people's programs."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import recoup

REFERENCE = (Path(__file__).parents[2] / "docs" / "reference" / "python.md").read_text()
NAMES_MAX = 15

PROMISED = """
Context(run_id: str, step_id: str, attempt: int, idempotency_key: str, retry_context: dict[str, Any] | None, workspace: Path) -> None
    attempt, idempotency_key, retry_context, run_id, step_id, workspace
Cooldown(seconds: float, message: str = '') -> None
Deterministic(*args: object)
InvalidPlan(source: str, problems: Sequence[Problem], *, hint: str = '') -> None
    advice, exit_code, noun, what_to_do
Plan(name: str, steps: Sequence[StepLike], *, objective: str = '', inputs: Mapping[str, Any] | None = None, workspace: Mapping[str, str] | None = None, defaults: Mapping[str, Any] | None = None, heal: str | Mapping[str, Any] | None = None, secrets: Sequence[str] = (), folder: str | os.PathLike[str] = '.') -> None
    name
RecoupError(message: str, *, hint: str = '') -> None
    advice, exit_code, what_to_do
RunResult(run_id: str, status: RunStatus, exit_code: int, reason: str, outputs: dict[str, dict[str, Any]], document: dict[str, Any]) -> None
    document, exit_code, outputs, reason, run_id, status, succeeded
StepFunction(function: Callable[P, R], options: StepOptions | None = None, arguments: Mapping[str, Any] | None = None) -> None
    but, with_
Transient(*args: object)
browser_step(verb: str, what: Any, /, *, dialog: Any = None, **keys: Any) -> dict[str, Any]
context() -> Context
progress(note: str = '', done: float | None = None, total: float | None = None) -> None
run(plan: Plan | model.Plan | str | os.PathLike[str], inputs: Mapping[str, Any] | None = None, *, home: str | os.PathLike[str] | None = None, on_event: Callable[[Event], None] | None = None) -> RunResult
run_sync(plan: Plan | model.Plan | str | os.PathLike[str], inputs: Mapping[str, Any] | None = None, *, home: str | os.PathLike[str] | None = None, on_event: Callable[[Event], None] | None = None) -> RunResult
step(function: Callable[..., Any] | None = None, /, **options: Unpack[StepOptions]) -> Any
"""
OF_EVERY_EXCEPTION = {"add_note", "args", "with_traceback"}


def shown(name: str) -> str:
    """One line for a name, and one for what a class has."""
    value = getattr(recoup, name)
    lines = [name + _signature(value)]
    if inspect.isclass(value):
        own = [one for one in dir(value) if not one.startswith("_") and one not in OF_EVERY_EXCEPTION]
        lines += ["    " + ", ".join(own)] if own else []
    return "\n".join(lines)


def _signature(value: object) -> str:
    assert callable(value)
    try:
        return re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(value)))
    except ValueError:
        return "(*args: object)"  # that of every exception


def test_the_names_and_their_signatures_are_those_that_were_promised() -> None:
    assert "\n".join(shown(name) for name in recoup.__all__) == PROMISED.strip()


def test_they_are_few() -> None:
    assert len(recoup.__all__) <= NAMES_MAX
    assert sorted(recoup.__all__) == recoup.__all__


def test_the_reference_has_a_line_for_each_of_them_and_for_nothing_else() -> None:
    named = set(re.findall(r"^\| `recoup\.(\w+)", REFERENCE, re.MULTILINE))
    assert named == {*recoup.__all__}


def test_importing_it_loads_nothing_of_it() -> None:
    code = "import sys, recoup; print([name for name in sys.modules if name.startswith('recoup.')])"
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert told.stdout.strip() == "[]"
