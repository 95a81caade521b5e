"""`check`: everything that is wrong with a plan, and what is probably not meant."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recoup.cli.completing import complete_plan
from recoup.cli.output import json_option, settings_of
from recoup.errors import InvalidPlan, Problem
from recoup.kernel.wording import duration
from recoup.terminal.writer import print_json, say

if TYPE_CHECKING:
    from recoup.cli.masked_values import MaskedValue
    from recoup.model.plan import Handler, Plan, Step
    from recoup.model.policy import Policy


_NAMES_MAX = 10


@click.command()
@click.argument("plan", type=click.Path(path_type=Path), shell_complete=complete_plan)
@json_option
@click.pass_context
def check(ctx: click.Context, plan: Path, as_json: bool) -> None:
    """Say everything that is wrong with PLAN, or that nothing is. Nothing is run and nothing is written.

    \b
    Example:
      recoup check plan.yaml
    """
    from recoup.cli.masked_values import MaskedValues
    from recoup.cli.run import read_plan_of, read_policy_of

    settings = settings_of(ctx)
    policy = read_policy_of(settings)
    parsed = read_plan_of(plan, policy)
    _check_scripts(parsed, str(plan))
    notes = [
        *asyncio.run(_look_at_source(parsed, settings.home)),
        *_notes_on_healing(parsed, policy),
        *_notes_on_scripts(parsed),
        *_notes_on_this_machine(parsed),
    ]
    from recoup.cli.foresight import missing_parts

    notes += missing_parts(parsed)
    masked = MaskedValues(parsed, plan, policy)
    notes += masked.notes
    if as_json:
        print_json(_document(parsed, notes, masked.values))
        return
    say(f"{plan}: {parsed.name}, {_count(len(parsed.steps), 'step')}, nothing wrong")
    lines = _lines(parsed, policy)
    shown = [masked.shown(line) for line in lines]
    for line in shown:
        say(f"  {line}")
    if shown != lines:
        say("note: the steps above are shown as records will show them; what is executed is the original")
    for note in notes:
        say(f"note: {note}")


async def notes_on(plan: Plan, home: Path) -> list[str]:
    """What is not wrong but probably not meant."""
    notes = [
        f"{name} is not set here, so nothing is kept out of the records for it"
        for name in plan.secrets
        if not os.environ.get(name)
    ]
    notes += notes_on_names(plan)
    if plan.workspace is not None:
        from recoup.workspace.workspaces import GitWorkspaces

        unseen = await GitWorkspaces(home / "runs" / "new").uncommitted(plan.workspace)
        if unseen:
            files = f"{_count(unseen, 'file')} {'is' if unseen == 1 else 'are'}"
            notes.append(
                f"{files} changed or new in {plan.workspace.path} and not committed: steps do not see that"
            )
    return notes


def notes_on_names(plan: Plan) -> list[str]:
    """Not treated as secrets by themselves: a `sort_key` with a default would be no plan any more."""
    from recoup.redaction.environment import names_a_secret

    specs = [(f"input {name}", name, spec.secret) for name, spec in plan.inputs.items()]
    for step in plan.steps:
        specs += [(f"output {name} of {step.id}", name, spec.secret) for name, spec in step.outputs.items()]
    return [
        f"{what} is named like a secret and is not one: its value stands in logs; declare it with `secret: true`"
        for what, name, is_secret in specs
        if not is_secret and names_a_secret(name)
    ]


def _notes_on_healing(plan: Plan, policy: Policy) -> list[str]:
    from recoup.kernel.healing import heal_mode
    from recoup.model.target import Heal, HealMode

    aimed = [step for step in plan.steps if _has_target(step)]
    if plan.heal != Heal() and not aimed:
        return ["the plan says how to heal, but none of its steps has a target"]
    applied = [step for step in aimed if heal_mode(step, plan, None, policy) is HealMode.APPLY]
    unproven = [step.id for step in applied if not step.expect]
    words = "may heal with nothing to expect: a heal would be unverified, add `expect`"
    return [f"{_some(unproven)} {words}"] if unproven else []


def _notes_on_scripts(plan: Plan) -> list[str]:
    """Where bash reads a value a second time, as code."""
    from recoup.kernel.rereading import rereads
    from recoup.kernel.typed_inputs import carries_no_code

    safe = {f"inputs.{name}" for name, spec in plan.inputs.items() if carries_no_code(spec.type)}
    safe |= {"run.id", "run.workflow"}
    works = dict(_works(plan))
    advice = "give the input `type: integer`, or compare it as text"
    return [
        f"{where}, line {one.line}: {one.words}; {advice}"
        for where, script in _scripts(plan)
        for one in rereads(script, _env_around(where, works), safe.__contains__)
    ][:_NAMES_MAX]


def _env_around(where: str, works: Mapping[str, Step | Handler]) -> Mapping[str, str]:
    """Of the work that a script belongs to: itself, or one of its checks."""
    work = works.get(where.rpartition(".run")[0]) or works.get(where.rpartition(".expect")[0])
    return work.env if work is not None else {}


def _notes_on_this_machine(plan: Plan) -> list[str]:
    """Only notes: another machine may drive it."""
    import shutil

    from recoup.cli.extras import EXTRAS
    from recoup.runtimes.agent.clis import DIALECTS
    from recoup.steps.registry import step_kind

    works = [(step_kind(work.action), work.action) for _, work in _works(plan)]
    extras = {extra.name: extra for extra in EXTRAS}
    notes = []
    for kind in dict.fromkeys(kind for kind, _ in works if kind.extra in extras):
        if missing := extras[kind.extra].missing():
            how = ", then ".join(filter(None, [extras[kind.extra].command, kind.after_extra]))
            notes.append(f"{kind.key} steps need {', '.join(missing)}, not installed here: {how}")
    asked = dict.fromkeys(name for kind, action in works for name in kind.programs(action))
    absent = [name for name in asked if name in DIALECTS and shutil.which(name) is None]
    return [*notes, *(f"{name} is not on the PATH here: recoup doctor says how to get it" for name in absent)]


def _has_target(step: Step) -> bool:
    from recoup.model.plan import BrowserAction

    action = step.action
    return isinstance(action, BrowserAction) and action.target is not None and not action.hidden


def _some(names: list[str]) -> str:
    more = len(names) - _NAMES_MAX
    return ", ".join(names[:_NAMES_MAX]) + (f" and {more} more" if more > 0 else "")


async def _look_at_source(plan: Plan, home: Path) -> list[str]:
    """The source must be usable; raises WorkspaceError."""
    if plan.workspace is None:
        folder = f"no workspace: steps run in {plan.folder}; no checkpoint, no diff, no hard reset"
        return [*await notes_on(plan, home), folder]
    from recoup.workspace.workspaces import GitWorkspaces

    await GitWorkspaces(home / "runs" / "new").check(plan.workspace)
    return await notes_on(plan, home)


def _check_scripts(plan: Plan, source: str) -> None:
    """Bash itself reads every script, without running it."""
    from recoup.runtimes.shell import script_problem

    problems = [
        Problem(where, words) for where, script in _scripts(plan) if (words := script_problem(script))
    ]
    if problems:
        raise InvalidPlan(source, problems, hint="`bash -n` says so; values are filled in later.")


def _scripts(plan: Plan) -> Iterator[tuple[str, str]]:
    """Of steps, their handlers and their checks, each with its path in the plan."""
    from recoup.checks.registry import check_kind
    from recoup.steps.registry import step_kind

    for where, work in _works(plan):
        kind = step_kind(work.action)
        if (script := kind.script(work.action)) is not None:
            yield f"{where}.{kind.key}", script
        for number, check in enumerate(work.expect):
            if (checked := check_kind(check).script(check)) is not None:
                script, key = checked
                yield f"{where}.expect[{number}].{key}", script


def _works(plan: Plan) -> Iterator[tuple[str, Step | Handler]]:
    for index, step in enumerate(plan.steps):
        yield f"steps[{index}]", step
        for key, handlers in (("rescue", step.rescue), ("on_empty", step.on_empty), ("always", step.always)):
            yield from ((f"steps[{index}].{key}[{n}]", handler) for n, handler in enumerate(handlers))


def _document(plan: Plan, notes: list[str], masked: list[MaskedValue]) -> dict[str, Any]:
    import msgspec

    from recoup.kernel.canonical import digest

    return {
        "valid": True,
        "workflow": plan.name,
        "steps": [step.id for step in plan.steps],
        "planDigest": digest(msgspec.to_builtins(plan)),
        "problems": [],
        "notes": notes,
        "masked": msgspec.to_builtins(masked),
    }


def _lines(plan: Plan, policy: Policy) -> list[str]:
    from recoup.kernel.policies import step_policy
    from recoup.steps.registry import step_kind

    lines = []
    for index, step in enumerate(plan.steps):
        kind = step_kind(step.action)
        if not kind.is_work:
            lines.append(f"{index}  {step.id}: waits for an operator's yes or no")
            continue
        limits = step_policy(policy, plan, step)
        proof = _count(len(step.expect), "check") if step.expect else "unverified: no `expect`"
        timeout = duration(limits.step_timeout_seconds)
        done = f"{summary}; " if (summary := kind.summary(step.action)) else ""
        lines.append(f"{index}  {step.id}: {done}{proof}, {attempts_words(limits)}, each up to {timeout}")
        for name, handlers in (("rescue", step.rescue), ("on_empty", step.on_empty), ("always", step.always)):
            if handlers:
                lines.append(f"   {' ' * len(str(index))} {name}: {_count(len(handlers), 'handler')}")
    return lines


def attempts_words(policy: Policy) -> str:
    """How many attempts a step gets in one delivery under its own policy, and what makes it fewer."""
    most = min(policy.step_max_attempts, policy.run_retries_max + 1)
    words = "1 attempt" if most == 1 else f"up to {most} attempts"
    remarks = ["run_retries_max"] if most < policy.step_max_attempts else []
    if most > 1:
        remarks += _fewer(most, policy)
    remarked = f" ({'; '.join(remarks)})" if remarks else ""
    return words + remarked + _apart(most, policy)


def _fewer(most: int, policy: Policy) -> list[str]:
    remarks = [f"only of {', '.join(policy.retry_on)}"] if policy.retry_on else []
    if policy.unknown_retries_max + 1 < most:
        remarks.append(f"{policy.unknown_retries_max + 1} if the failure is not recognised")
    elif policy.no_progress_gives_up and policy.step_no_progress_limit < most and not policy.polls:
        remarks.append(f"fewer if {policy.step_no_progress_limit} end alike")
    return remarks


def _apart(most: int, policy: Policy) -> str:
    """Only where the plan or the policy sets the delay."""
    from recoup.kernel.backoff import backoff_ms
    from recoup.model.policy import Policy

    usual = Policy()
    if most == 1 or (policy.backoff_ms, policy.backoff_factor) == (usual.backoff_ms, usual.backoff_factor):
        return ""
    first, last = backoff_ms(1, policy), backoff_ms(most - 1, policy)
    span = _wait(first) if first == last else f"{_wait(first)} to {_wait(last)}"
    return f", {span} apart"


def _wait(milliseconds: int) -> str:
    return duration(milliseconds / 1000).replace(".0 s", " s").replace(" min 00 s", " min")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
