"""The documents that go with an attempt: what a retry is told, what people find in the run's folder."""

from __future__ import annotations

from typing import Any

from recoup.model.instant import Instant
from recoup.model.plan import (
    AgentAction,
    ApproveAction,
    BrowserAction,
    BrowserVerb,
    Plan,
    PythonAction,
    RunAction,
    Step,
)
from recoup.model.run import StepRecord
from recoup.model.target import target_words

_LAST_COMMAND_MAX = 2000
CONSTRAINTS = (
    "do not re-run unchanged remediation",
    "if test harness instability is detected, isolate cause before editing product code",
)


def retry_context(plan: Plan, step: Step, record: StepRecord, attempt: int) -> dict[str, Any]:
    """The minimal envelope: what was wanted, what went wrong, what not to do. Never logs, never a transcript."""
    return {
        "objective": plan.objective,
        "stepId": step.id,
        "title": step.title,
        "instructions": instructions(step),
        "attempt": attempt,
        "failureSummary": record.failure_summary,
        "failureClass": record.failure_class,
        "failureKind": record.failure_kind,
        "failureSignature": record.failure_signature,
        "strategy": record.strategy,
        "lastCommand": record.last_command or instructions(step),
        "changedFiles": list(record.changed_files),
        "diffHash": record.diff_hash,
        "constraints": list(CONSTRAINTS),
    }


def instructions(step: Step) -> str:
    """What the step does, in the plan's words."""
    match step.action:
        case RunAction(command=str() as script):
            return script[:_LAST_COMMAND_MAX]
        case RunAction(command=argv):
            return " ".join(argv)[:_LAST_COMMAND_MAX]
        case PythonAction(target=target):
            return target[:_LAST_COMMAND_MAX]
        case AgentAction(prompt=prompt):
            return prompt[:_LAST_COMMAND_MAX]
        case BrowserAction() as browser:
            return browser_words(browser)[:_LAST_COMMAND_MAX]
        case ApproveAction(message=message):
            return message[:_LAST_COMMAND_MAX]


def browser_words(action: BrowserAction) -> str:
    """Without what is typed: that may be anything."""
    where = target_words(action.target) if action.target else ""
    shown = action.value if action.value and action.verb is not BrowserVerb.FILL else ""
    return " ".join(word for word in (action.verb.value, where, shown) if word)


def step_state(
    record: StepRecord, attempt: int, diff_hash: str | None, files: tuple[str, ...], at: Instant
) -> dict[str, Any]:
    return {
        "schemaVersion": "v1",
        "stepId": record.step_id,
        "stepIndex": record.index,
        "attempt": attempt,
        "diffHash": diff_hash,
        "changedFiles": list(files),
        "finishedAt": at.iso(),
    }
