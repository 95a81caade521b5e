"""What the page of one run says, from its state. Pure; read at once, for a state goes on."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from recoup.kernel.controls import CONTROLS
from recoup.kernel.controls.kind import ControlKind
from recoup.kernel.elapsed import elapsed_s, spent_words, time_spent
from recoup.kernel.position import current_step
from recoup.kernel.prefix import frontier, is_good, outcome_unknown
from recoup.kernel.preview import NEW_RUN, Preview
from recoup.model.instant import Instant
from recoup.model.run import RunState, RunStatus, StepRecord
from recoup.reports.spoken import lasting, short_digest
from recoup.reports.timeline import mark_of

VIEWS: Final = (
    ("steps", "Steps"), ("timeline", "Timeline"), ("log", "Output"), ("changes", "Changes"),
    ("compare", "Compare attempts"), ("events", "Events"), ("plan", "Plan and values"),
)  # fmt: skip
STEPS_SHOWN: Final = 100
_MONTH_S: Final = 30 * 86_400
LOOKS_ONLY: Final = "Your role may only look."


class Fact(msgspec.Struct, frozen=True):
    label: str
    value: str
    code: bool = False
    address: str = ""


class Now(msgspec.Struct, frozen=True):
    """The step at which a run stands."""

    step_id: str
    attempt: int
    words: str


class Button(msgspec.Struct, frozen=True, kw_only=True):
    """One control as it is shown."""

    action: str
    label: str
    post: str
    body: dict[str, Any]
    scope: str
    why_not: str
    danger: bool
    command: str
    in_front: bool


class StepLine(msgspec.Struct, frozen=True, kw_only=True):
    index: int
    step_id: str
    title: str
    kind: str
    mark: str
    tone: str
    verdict: str
    attempts: int
    reason: str
    facts: tuple[tuple[str, str], ...]
    outputs: dict[str, Any]
    evidence: tuple[str, ...]
    reused_from: str
    is_frontier: bool
    buttons: tuple[Button, ...]


def facts_of(state: RunState, driver: str, now: Instant) -> list[Fact]:
    good = f"{state.progress.prefix_length} of {len(state.steps)}"
    began = (
        "not begun"
        if state.driver.started_at is None
        else _between(state.submission.at, state.driver.started_at)
    )
    spent = time_spent(state.clocks, now, driven=bool(driver))
    found = [
        Fact("known to be good", f"{good} steps"),
        Fact("waited to begin", began),
        Fact("time", spent_words(spent, lasting)),
        Fact("delivery", str(state.driver.delivery)),
        Fact("retries", f"{state.counts.retries:,}"),
        Fact("hard resets", f"{state.counts.resets:,}"),
        Fact("queue", state.queueing.queue or "none: people drive it"),
        Fact("driven by", driver or "nobody"),
        Fact("policy", short_digest(state.submission.policy_digest), True),
        Fact("plan", short_digest(state.submission.plan_digest), True),
    ]
    if state.failure.cls is not None:
        found.insert(0, Fact("failure", f"{state.failure.cls}, {state.failure.kind}".replace("_", " ")))
    if state.driver.takeovers:
        found.append(Fact("drivers lost", f"{state.driver.takeovers:,}"))
    if state.lineage.parent_run_id is not None:
        found.append(
            Fact("goes on from", state.lineage.parent_run_id, True, f"/runs/{state.lineage.parent_run_id}")
        )
    if state.escalation.id is not None:
        found.append(Fact("escalation", state.escalation.id, True, f"/escalations/{state.escalation.id}"))
    return found


def now_of(state: RunState, now: Instant) -> Now | None:
    """None: it is over, or has not begun."""
    step = current_step(state)
    if state.status.is_terminal or step is None or state.driver.started_at is None:
        return None
    if step.open is not None:
        for_ = _between(step.open.started_at, now)
        return Now(step.step_id, step.open.attempt, f"attempt {step.open.attempt}, for {for_}")
    if step.recovery.since is not None and state.status is RunStatus.RUNNING:
        how = (step.recovery.strategy or "another attempt").replace("_", " ")
        left_s = max(0.0, step.recovery.delay_ms / 1000 - elapsed_s(step.recovery.since, now, _MONTH_S))
        return Now(step.step_id, step.spent.attempts, f"{how} in {lasting(left_s)}")
    return Now(step.step_id, step.spent.attempts, "comes next")


def buttons_of(run_id: str, seen: Sequence[Preview], may_change: bool) -> list[Button]:
    return [button_of(run_id, one, may_change) for one in seen]


def button_of(run_id: str, one: Preview, may_change: bool) -> Button:
    kind = CONTROLS.get(one.action)
    return Button(
        action=one.action,
        label="New run from here" if kind is None else _label(kind, one),
        post="/api/runs" if one.action == NEW_RUN else f"/api/runs/{run_id}/control",
        body=_body(run_id, one),
        scope="\n".join(one.scope.words),
        why_not=one.why or ("" if may_change else LOOKS_ONLY),
        danger=kind is not None and kind.danger,
        command=command_of(run_id, one),
        in_front=one.allowed or (kind is not None and kind.always_shown),
    )


def _label(kind: ControlKind, one: Preview) -> str:
    if one.answer is not None:
        return f"{kind.label} as {one.answer.replace('-', ' ')}"
    return kind.forced_label if one.force else kind.label


def command_of(run_id: str, one: Preview) -> str:
    """The same on a command line."""
    if one.action == NEW_RUN:
        return shlex.join(
            ["recoup", "submit", "plan.yaml", "--reuse", run_id, "--from-step", one.step_id or ""]
        )
    words = ["recoup", "control", run_id, one.action]
    words += ["--step", one.step_id] if one.step_id else []
    words += ["--as", one.answer] if one.answer else []
    words += ["--force"] if one.force else []
    return f"{shlex.join(words)} --reason '...'"


def first_step(state: RunState, said: int | None) -> int:
    """Where the list of steps begins: where the reader wants, or so that the frontier is on it."""
    last = max(0, (len(state.steps) - 1) // STEPS_SHOWN * STEPS_SHOWN)
    if said is not None:
        return min(max(0, said) // STEPS_SHOWN * STEPS_SHOWN, last)
    return min(state.progress.prefix_length // STEPS_SHOWN * STEPS_SHOWN, last)


def step_line(state: RunState, record: StepRecord, of_step: Sequence[Preview], may_change: bool) -> StepLine:
    mark, tone = mark_of(state, record)
    edge = frontier(state)
    is_edge = edge is not None and edge.step_index == record.index
    behind = edge is not None and record.index > edge.step_index and record.invalidation_reason is None
    reason = edge.reason if edge is not None and is_edge else record.invalidation_reason or ""
    verdict = "skipped" if record.skipped else "reused" if record.reused_from else record.verdict.value
    verdict = "outcome unknown" if outcome_unknown(record) else verdict
    verdict = "running" if record.open is not None else verdict
    return StepLine(
        index=record.index,
        step_id=record.step_id,
        title=state.plan.steps[record.index].title,
        kind=record.kind,
        mark=mark,
        tone=tone.value,
        verdict=verdict,
        attempts=record.spent.attempts + (record.open is not None),
        reason="" if behind and is_good(record) else reason,
        facts=tuple((label, value) for label, value in _facts(record) if value),
        outputs={**record.results.outputs, **dict.fromkeys(record.results.secret_outputs, "[redacted]")},
        evidence=record.results.evidence,
        reused_from=record.reused_from or "",
        is_frontier=is_edge,
        buttons=tuple(buttons_of(state.run_id, of_step, may_change)),
    )


def _facts(record: StepRecord) -> list[tuple[str, str]]:
    failure = f"{record.failure.cls}, {record.failure.kind}" if record.failure.cls else ""
    failure = failure.replace("_", " ")
    return [
        ("last failure", failure),
        ("what it said", record.failure.summary or ""),
        ("signature", short_digest(record.failure.signature) if record.failure.signature else ""),
        ("change", short_digest(record.results.diff_hash) if record.results.diff_hash else ""),
        ("checkpoint", record.results.checkpoint.tree[:12] if record.results.checkpoint else ""),
        ("given up", record.recovery.given_up.reason if record.recovery.given_up else ""),
        ("files changed", ", ".join(record.results.changed_files[:10])),
    ]


def _body(run_id: str, one: Preview) -> dict[str, Any]:
    if one.action == NEW_RUN:
        return {"reuse": run_id, "fromStep": one.step_id}
    body: dict[str, Any] = {"action": one.action}
    if one.step_id is not None:
        body["stepId"] = one.step_id
    if one.answer is not None:
        body["as"] = one.answer
    if one.force:
        body["force"] = True
    return body


def _between(begin: Instant, end: Instant) -> str:
    return lasting(elapsed_s(begin, end, _MONTH_S))
