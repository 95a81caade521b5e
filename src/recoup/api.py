"""The Python edge: plans built in code, and runs driven from code. Translates and calls; decides nothing."""

from __future__ import annotations

import asyncio
import os
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from recoup import inside
from recoup.app import App, open_app
from recoup.documents.plan_file import plan_from_data, read_plan
from recoup.documents.policy_file import read_policy
from recoup.engine.driver import Driver
from recoup.engine.world import Watcher
from recoup.errors import InvalidPlan, NotFound, Problem, UsageError
from recoup.kernel.documents import exit_code, run_document
from recoup.model import plan as model
from recoup.model.events import Event
from recoup.model.policy import Policy
from recoup.model.run import RunState, RunStatus
from recoup.model.target import Target
from recoup.runtimes.python_child import argument_problems
from recoup.settings import Settings, read_settings
from recoup.step_function import StepFunction
from recoup.steps.browser.written import browser_data, target_data
from recoup.steps.registry import step_kind

_HANDLER_LISTS = ("rescue", "on_empty", "always")
_HANDLER_OPTIONS = ("title", "expect", "env", "timeout")

StepLike = StepFunction[..., Any] | Callable[..., Any] | Mapping[str, Any] | model.Step


class Plan:
    """A plan made in code: of functions marked with `@recoup.step`, of steps written as in a plan file, of both.

    Raises InvalidPlan, with the same words as for a file.
    """

    def __init__(
        self,
        name: str,
        steps: Sequence[StepLike],
        *,
        objective: str = "",
        inputs: Mapping[str, Any] | None = None,
        workspace: Mapping[str, str] | None = None,
        defaults: Mapping[str, Any] | None = None,
        heal: str | Mapping[str, Any] | None = None,
        secrets: Sequence[str] = (),
        folder: str | os.PathLike[str] = ".",
    ) -> None:
        home = Path(folder).absolute()
        document = {
            "version": 1,
            "name": name,
            "objective": objective,
            "inputs": _plain(inputs or {}),
            "secrets": list(secrets),
            "steps": [_step_data(item, None if workspace else home) for item in steps],
        }
        optional = {"workspace": workspace, "defaults": defaults, "heal": heal}
        document |= {key: _plain(value) for key, value in optional.items() if value is not None}
        made = plan_from_data(document, name, home)
        _check_arguments(name, steps)
        self.model = msgspec.structs.replace(made, steps=tuple(_restored(made.steps, steps)))

    @property
    def name(self) -> str:
        return self.model.name

    def __repr__(self) -> str:
        return f"<plan {self.name}: {', '.join(step.id for step in self.model.steps)}>"


def browser_step(verb: str, what: Any, /, *, dialog: Any = None, **keys: Any) -> dict[str, Any]:
    """A step that does one thing in the run's browser, for a plan or among the handlers of a step.

        browser_step("click", {"role": "button", "name": "Approve"}, id="approve", expect=[{"text": "Approved"}])

    `what` stands under the verb as in a plan file; in place of an element's words it may be a `Target`. The keys are
    those of a step.
    """
    action = {verb: what} if dialog is None else {verb: what, "dialog": dialog}
    return {**keys, "browser": action}


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run stands when its driver is done with it."""

    run_id: str
    status: RunStatus
    exit_code: int
    """As of the command `recoup run`."""
    reason: str
    outputs: dict[str, dict[str, Any]]
    """By step. Secret ones are not among them."""
    document: dict[str, Any]
    """As `recoup show --json` prints it."""

    @property
    def succeeded(self) -> bool:
        return self.status is RunStatus.SUCCEEDED


async def run(
    plan: Plan | model.Plan | str | os.PathLike[str],
    inputs: Mapping[str, Any] | None = None,
    *,
    home: str | os.PathLike[str] | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> RunResult:
    """Run a plan, or the file of one, in this process: one delivery. A failure of the work is a result, no exception.

    Settings come from the environment and recoup.toml, as for the command. Cancelled, it stops the step first and the
    run can be resumed (`recoup resume`). `on_event` is told of every fact; what it raises stops the run likewise.
    """
    _refuse_while_imported()
    settings = read_settings(os.environ, Path.cwd(), None if home is None else os.fspath(home))
    parsed, source = _parsed(plan, _policy(settings))
    async with open_app(settings, os.environ) as app:
        from recoup.operations.recording import record

        run_id = await record(app, parsed, _texts(inputs or {}), source)
        return _result(await _driven(app, run_id, _Listener(on_event)))


def run_sync(
    plan: Plan | model.Plan | str | os.PathLike[str],
    inputs: Mapping[str, Any] | None = None,
    *,
    home: str | os.PathLike[str] | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> RunResult:
    """`run` for code without an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(run(plan, inputs, home=home, on_event=on_event))
    raise UsageError("run_sync was called inside an event loop", hint="Write: await recoup.run(plan)")


# From functions to a plan


def _step_data(item: StepLike, folder: Path | None) -> dict[str, Any]:
    """As a plan file would have it. `folder` is on the path of the step anyway; None: a workspace will be."""
    match item:
        case StepFunction():
            data = {"id": item.__recoup_function__.__name__, **_function_data(item, item.options, folder)}
        case model.Step():
            return _place_of(item)
        case Mapping():
            data = _plain(item)
        case _ if callable(item):
            return _step_data(StepFunction(item), folder)
        case _:
            raise UsageError(
                f"{item!r} is no step", hint="Give a function, a mapping as in a plan file, or a Step."
            )
    for key in _HANDLER_LISTS:
        if isinstance(data.get(key), list):
            data[key] = [_handler_data(one, folder) for one in data[key]]
    return data


def _place_of(step: model.Step) -> dict[str, Any]:
    """As much of a finished step as those after it may refer to."""
    return {"id": step.id, **step_kind(step.action).stand_in, "outputs": {name: {} for name in step.outputs}}


def _handler_data(item: Any, folder: Path | None) -> Any:
    if not isinstance(item, StepFunction):
        return item
    options = {key: value for key, value in item.options.items() if key in _HANDLER_OPTIONS}
    return _function_data(item, options, folder)


def _function_data(
    item: StepFunction[..., Any], options: Mapping[str, Any], folder: Path | None
) -> dict[str, Any]:
    function = item.__recoup_function__
    target, root = _whereabouts(function)
    title = (function.__doc__ or "").strip().partition("\n")[0]
    data: dict[str, Any] = {
        "title": title,
        **_plain(options),
        "python": target,
        "with": _plain(item.arguments),
    }
    if root is not None and root != folder and not _is_installed(root):
        env = data.get("env", {})
        known = env.get("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
        data["env"] = {**env, "PYTHONPATH": f"{root}{os.pathsep}{known}" if known else str(root)}
    return data


def _whereabouts(function: Callable[..., Any]) -> tuple[str, Path | None]:
    """`module:function` for a new interpreter, and the folder that must be on its path for it."""
    path = function.__qualname__
    if "<" in path:
        raise UsageError(f"{path} cannot be a step: a new process must be able to import it", hint=_TOP_LEVEL)
    name, file = _module_of(function)
    parts = name.split(".")
    if file is None:
        return f"{name}:{path}", None
    place = file.parent if file.name == "__init__.py" else file.with_suffix("")
    if list(place.parts[-len(parts) :]) != parts:
        raise UsageError(
            f"{path} cannot be a step: its module {name} is not where its name says", hint=_TOP_LEVEL
        )
    return f"{name}:{path}", place.parents[len(parts) - 1]


_TOP_LEVEL = "Define it at the top level of a module that can be imported by its name."


def _module_of(function: Callable[..., Any]) -> tuple[str, Path | None]:
    """The name under which it can be imported, also if it is the program's main module, and its file."""
    module = sys.modules.get(function.__module__)
    file = getattr(module, "__file__", None)
    if function.__module__ != "__main__":
        return function.__module__, Path(file).absolute() if file else None
    spec = getattr(module, "__spec__", None)
    if spec is not None:
        return spec.name, Path(file).absolute() if file else None
    if not file or not Path(file).stem.isidentifier():
        words = "the program's own module, which has no name that a new process could import"
        raise UsageError(
            f"{function.__qualname__} cannot be a step: it is defined in {words}", hint=_TOP_LEVEL
        )
    return Path(file).stem, Path(file).absolute()


def _is_installed(root: Path) -> bool:
    """Every new interpreter looks there by itself."""
    return str(root) in {sysconfig.get_path(name) for name in ("stdlib", "platlib", "purelib")}


def _check_arguments(source: str, steps: Sequence[StepLike]) -> None:
    """What a plan file cannot know: whether the functions take what they are given."""
    problems = [
        Problem(f"steps[{index}].with", words)
        for index, item in enumerate(steps)
        if isinstance(item, StepFunction)
        for words in argument_problems(item.__recoup_function__, item.arguments)
    ]
    if problems:
        raise InvalidPlan(source, problems)


def _restored(made: Sequence[model.Step], given: Sequence[StepLike]) -> Iterator[model.Step]:
    """Steps that were values already stand as they are: only their place among the others was to be checked."""
    for step, item in zip(made, given, strict=True):
        yield item if isinstance(item, model.Step) else step


def _plain(value: Any) -> Any:
    """Mappings and sequences of any kind as those that a file would give."""
    match value:
        case StepFunction() | str():
            return value
        case model.BrowserAction():
            return browser_data(value)
        case Target():
            return target_data(value)
        case Mapping():
            return {key: _plain(item) for key, item in value.items()}
        case Sequence():
            return [_plain(item) for item in value]
        case os.PathLike():
            return os.fspath(value)
    return value


# Running


def _refuse_while_imported() -> None:
    module = inside.being_imported()
    if module:
        raise inside.Deterministic(
            f"the module {module} of a step starts a run while it is being imported: put that under"
            ' `if __name__ == "__main__":`'
        )


def _policy(settings: Settings) -> Policy:
    return Policy() if settings.policy is None else read_policy(settings.policy)


def _parsed(
    plan: Plan | model.Plan | str | os.PathLike[str], policy: Policy
) -> tuple[model.Plan, str | None]:
    if isinstance(plan, Plan):
        return plan.model, None
    if isinstance(plan, model.Plan):
        return plan, None
    path = Path(plan)
    if not path.exists():
        raise NotFound(f"there is no plan {path}", hint="Give the path of a YAML or JSON file.")
    return read_plan(path, policy), str(path.absolute())


def _texts(inputs: Mapping[str, Any]) -> dict[str, str]:
    """Inputs are text, as on the command line."""
    return {name: _text(name, value) for name, value in inputs.items()}


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float | os.PathLike):
        return str(value)
    raise UsageError(
        f"the input {name!r} is a {type(value).__name__}", hint="Inputs are text, numbers or booleans."
    )


class _Listener:
    """Tells `on_event`; when that fails, the run is stopped and the failure kept for whoever waits."""

    def __init__(self, on_event: Callable[[Event], None] | None) -> None:
        self._on_event = on_event
        self.drivers: list[Driver] = []
        self.problem: Exception | None = None

    def event(self, event: Event) -> None:
        if self._on_event is None or self.problem is not None:
            return
        try:
            self._on_event(event)
        except Exception as error:  # noqa: BLE001 raised again when the step has been stopped
            self.problem = error
            self.interrupt("on_event failed")

    def interrupt(self, reason: str) -> None:
        for driver in self.drivers:
            driver.interrupt(reason)

    def raise_problem(self) -> None:
        if self.problem is not None:
            raise self.problem


async def _driven(app: App, run_id: str, listener: _Listener) -> RunState:
    for event in await app.runs.events(run_id):
        listener.event(event)
    listener.raise_problem()
    watcher = Watcher(event=listener.event)
    driving = asyncio.create_task(app.driving.drive(run_id, watcher, listener.drivers.append))
    try:
        state = await asyncio.shield(driving)
    except asyncio.CancelledError:
        await _stopped(driving, listener)
        raise
    await app.chores.after_run(state)
    listener.raise_problem()
    return state


async def _stopped(driving: asyncio.Task[RunState], listener: _Listener) -> None:
    """The caller was cancelled: the step ends first, as it would by itself. Cancelled once more, it ends at once."""
    listener.interrupt("the caller was cancelled")
    if not listener.drivers:
        driving.cancel()
    try:
        await asyncio.wait([driving])
    except asyncio.CancelledError:
        driving.cancel()
        await asyncio.wait([driving])
    if not driving.cancelled():
        driving.exception()  # seen, though it is the cancellation that goes on


def _result(state: RunState) -> RunResult:
    code = exit_code(state)
    return RunResult(
        run_id=state.run_id,
        status=state.status,
        exit_code=1 if code is None else code,
        reason=state.reason,
        outputs={record.step_id: dict(record.results.outputs) for record in state.steps},
        document=msgspec.to_builtins(run_document(state, driven=False)),
    )
