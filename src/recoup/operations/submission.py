"""Submit a run to a queue, for whoever asks at any edge. A plan is code: who may submit one is decided at the edge."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from recoup.errors import Conflict, InvalidPlan, NotFound, Problem, RecoupError, UsageError
from recoup.fleet.linked import Reusing
from recoup.fleet.queued import DEFAULT_QUEUE, Queued
from recoup.kernel.canonical import digest
from recoup.kernel.position import is_over
from recoup.model.plan import Plan
from recoup.model.policy import Policy
from recoup.model.run import RunState, RunStatus
from recoup.model.target import HealMode
from recoup.operations.lookup import exact_run
from recoup.operations.recording import record, recorded, run_with_key
from recoup.steps.registry import needs_of

if TYPE_CHECKING:
    from recoup.app import App

_SOURCES: Final = ("plan", "plan_path")


class SubmitRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A plan (its text, a file, or that of the run that is reused) and how it is to be run."""

    plan: str | None = None
    """The text of a plan, YAML or JSON."""
    plan_path: str | None = None
    inputs: dict[str, str] = {}
    queue: str = DEFAULT_QUEUE
    priority: int = 0
    """Higher first."""
    needs: tuple[str, ...] = ()
    """Capabilities that a worker must have, besides those that the plan's steps need."""
    delay_s: float = 0
    """Not before so many seconds from now."""
    dedup_key: str | None = None
    """One run for each key."""
    reuse: str | None = None
    """The run whose proven steps are not repeated."""
    from_step: str | None = None
    """With `reuse`: perform everything from this step on."""
    heal: str | None = None
    """off | report | apply: for all steps, whatever the plan says beyond it."""
    reason: str | None = None


class SubmitResult(msgspec.Struct, frozen=True, rename="camel"):
    """A run in a queue."""

    run_id: str
    queue: str
    duplicate: bool = False
    """It was submitted before, under the same key."""
    note: str | None = None
    differs: tuple[str, ...] = ()
    """What of a duplicate is not as it was submitted before: `plan`, `inputs`. Nothing of it will run."""

    @property
    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = msgspec.to_builtins(self)
        return document


class PlanAccess(msgspec.Struct, frozen=True, kw_only=True):
    """How one edge takes plans, and what it calls things in messages about them."""

    parse_text: Callable[[str, Policy], Awaitable[Plan]]
    folders: tuple[Path, ...] = ()
    """Where plans may come from; empty: from anywhere, and as text."""
    follows_links: bool = False
    """A file counts for where it really is, also without folders."""
    base: Path | None = None
    """What relative paths begin in; None: they must be whole."""
    plan_path: str = "plan_path"
    from_step: str = "from_step"
    where: str = "on the machine that is asked"
    lists_runs: str = "list_runs"


class SubmitMistake(msgspec.Struct, frozen=True):
    """What is wrong with a request by itself, and what to do about it."""

    message: str
    hint: str = ""
    forbidden: bool = False
    """Not for this edge, however it is put."""


class RunPlan(msgspec.Struct, frozen=True):
    """What is to be run: the plan, the inputs it is given, and the file it is from."""

    plan: Plan
    inputs: dict[str, str]
    source: str | None


def mistake_in(request: SubmitRequest, access: PlanAccess) -> SubmitMistake | None:
    """What does not go together, or may not come this way. Raises InvalidPlan where no file can have such a name."""
    given = [name for name in _SOURCES if getattr(request, name) is not None]
    if len(given) > 1:
        return SubmitMistake(f"plan and {access.plan_path} are two plans", "Give one of them.")
    if request.from_step is not None and request.reuse is None:
        return SubmitMistake(f"{access.from_step} says what is reused", "Name the run with reuse.")
    if not given and request.reuse is None:
        hint = f"Give plan, {access.plan_path}, or reuse for the plan of an earlier run."
        return SubmitMistake("there is no plan", hint)
    return _mistaken_place(request, access)


def _mistaken_place(request: SubmitRequest, access: PlanAccess) -> SubmitMistake | None:
    if request.plan is not None and access.folders:
        hint = f"Name a file in one of them: {access.plan_path}."
        return SubmitMistake("plans are taken from certain folders only", hint, forbidden=True)
    if request.plan_path is None:
        return None
    if access.base is None and not Path(request.plan_path).is_absolute():
        return SubmitMistake(f"{access.plan_path} must begin with /", "Name the whole path.")
    if _place(request.plan_path, access) is None:
        where = f"{access.plan_path} is in none of the folders that plans are taken from"
        hint = "Ask whoever serves this where plans are (--plans)."
        return SubmitMistake(where, hint, forbidden=True)
    return None


def _place(named: str, access: PlanAccess) -> Path | None:
    """Where it really is, if plans come from certain folders. None: in none of them."""
    from recoup.documents.plan_folders import allowed_plan

    path = Path(named) if access.base is None else access.base / named
    real = allowed_plan(path, access.folders)
    return path if real is not None and not access.folders and not access.follows_links else real


async def plan_of(app: App, request: SubmitRequest, access: PlanAccess) -> RunPlan:
    """What a request without a mistake would run. Raises InvalidPlan, NotFound."""
    if request.reuse is not None:
        await exact_run(app, request.reuse, access.lists_runs)
    policy = (await app.generations.seen())[0]
    if request.plan is not None:
        return RunPlan(await access.parse_text(request.plan, policy), request.inputs, None)
    if request.plan_path is not None:
        path = _place(request.plan_path, access)
        assert path is not None, "a request with a mistake is refused before its plan is read"
        return RunPlan(await _read(path, access, policy), request.inputs, str(path))
    assert request.reuse is not None, "a request without a plan is refused before its plan is read"
    earlier = await app.runs.state(request.reuse)
    plan, inputs = await recorded(app, earlier)
    return RunPlan(plan, {**inputs, **request.inputs}, earlier.submission.plan_source)


async def _read(path: Path, access: PlanAccess, policy: Policy) -> Plan:
    """Others are answered meanwhile."""
    from recoup.documents.plan_file import read_plan

    if not path.is_file():
        raise InvalidPlan(str(path), [Problem(access.plan_path, f"there is no such file {access.where}")])
    return await asyncio.to_thread(read_plan, path, policy)


def queued_of(request: SubmitRequest, plan: Plan, actor: str | None = None) -> Queued:
    """Where the run will wait, and for whom. Raises UsageError for a queue that cannot be named so."""
    queued = Queued(
        queue=request.queue,
        priority=request.priority,
        needs=tuple(sorted(needs_of(plan) | set(request.needs))),
        dedup_key=request.dedup_key,
        submitted_by=actor,
        submit_reason=request.reason,
    )
    queued.hint("x")
    return queued


async def reusing_of(app: App, request: SubmitRequest) -> Reusing | None:
    """The run that is reused, which nobody may be driving. Raises NotFound, UsageError."""
    if request.reuse is None:
        return None
    await app.driving.must_not_be_driven(await app.runs.state(request.reuse))
    return Reusing(request.reuse, request.from_step)


async def submit(
    app: App,
    request: SubmitRequest,
    run_plan: RunPlan,
    actor: str,
    *,
    not_before_us: int | None = None,
    approval_ref: str | None = None,
) -> SubmitResult:
    """Stores the run for workers. Under a key that is taken nothing is submitted: the run that has it is named.
    `not_before_us`: an exact time instead of a delay."""
    if not_before_us is None:
        now_us = app.world.clock.now().wall_us
        not_before_us = round(now_us + request.delay_s * 1e6) if request.delay_s else 0
    queued = msgspec.structs.replace(
        queued_of(request, run_plan.plan, actor), not_before_us=not_before_us, approval_ref=approval_ref
    )
    heal = None if request.heal is None else HealMode(request.heal)
    return await enqueue(
        *(app, run_plan.plan, run_plan.inputs, run_plan.source, queued), await reusing_of(app, request), heal
    )


async def enqueue(
    app: App,
    plan: Plan,
    given: Mapping[str, str],
    source: str | None,
    queued: Queued,
    reuse: Reusing | None = None,
    heal: HealMode | None = None,
) -> SubmitResult:
    """Records it and tells workers."""
    earlier = await run_with_key(app, plan.name, queued.dedup_key)
    if earlier is not None:
        return await _duplicate(app, earlier, plan, given, queued.queue)
    try:
        run_id = await record(app, plan, given, source, reuse, queued, heal)
    except Conflict:
        earlier = await run_with_key(app, plan.name, queued.dedup_key)
        if earlier is None:
            raise
        return await _duplicate(app, earlier, plan, given, queued.queue)
    delay_s = (queued.not_before_us - app.world.clock.now().wall_us) / 1e6
    return SubmitResult(
        run_id, queued.queue, note=await app.hints.tell(queued.hint(run_id), max(0.0, delay_s))
    )


async def retry(app: App, run_id: str, actor: str | None = None, reason: str | None = None) -> SubmitResult:
    """A run that has ended, once more: a new one, linked to it, in the same queue. Each is retried once:
    the key of the new one is made from the id of the old one alone."""
    state = await app.runs.state(run_id)
    if not is_over(state):
        raise UsageError(
            f"run {run_id} has not ended: {state.status}",
            hint=f"See what it waits for: recoup show {run_id}",
        )
    if state.status is RunStatus.SUCCEEDED:
        raise UsageError(
            f"run {run_id} has succeeded: nothing is left to do",
            hint=f"Do it again from a step: recoup resume {run_id} --from-step STEP",
        )
    plan, given = await recorded(app, state)
    queued = Queued(
        queue=state.queueing.queue or DEFAULT_QUEUE,
        priority=state.queueing.priority,
        needs=tuple(sorted({*state.queueing.needs, *needs_of(plan)})),
        dedup_key=f"retry of {run_id}",
        submitted_by=actor,
        submit_reason=reason,
    )
    return await enqueue(
        app, plan, given, state.submission.plan_source, queued, Reusing(run_id), state.submission.heal
    )


async def _duplicate(app: App, run_id: str, plan: Plan, given: Mapping[str, str], queue: str) -> SubmitResult:
    try:
        state = await app.runs.state(run_id)
    except NotFound:  # the key outlives its run
        return SubmitResult(run_id, queue, duplicate=True)
    differs = ["plan"] if state.submission.plan_digest != digest(msgspec.to_builtins(plan)) else []
    if await _inputs_differ(app, state, plan, given):
        differs.append("inputs")
    note = None
    if differs:
        note = (
            f"the key belongs to run {run_id}, and its {' and '.join(differs)} differ: nothing was submitted"
        )
    return SubmitResult(run_id, queue, duplicate=True, note=note, differs=tuple(differs))


async def _inputs_differ(app: App, state: RunState, plan: Plan, given: Mapping[str, str]) -> bool:
    """By their values, where these can be read here; otherwise by what records show."""
    inputs = {name: given.get(name, spec.default) for name, spec in plan.inputs.items()}
    now = {name: value for name, value in (inputs | dict(given)).items() if value is not None}
    try:
        return (await recorded(app, state))[1] != now
    except RecoupError:
        hidden = {name for name, spec in state.plan.inputs.items() if spec.secret} | {
            *state.submission.private_inputs
        }
        shown = {name: value for name, value in state.submission.inputs.items() if value is not None}
        return any(shown.get(name) != now.get(name) for name in (shown.keys() | now.keys()) - hidden)
