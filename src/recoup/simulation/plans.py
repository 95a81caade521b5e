"""Plans and policies that chance makes: every kind of step, and limits small enough to be met."""

from __future__ import annotations

import random

from recoup.model.plan import (
    Action,
    ApproveAction,
    FileCheck,
    Handler,
    Limits,
    Plan,
    PythonAction,
    Rebuild,
    Repeat,
    RunAction,
    Step,
)
from recoup.model.policy import Policy
from recoup.model.workspace import FolderSource
from recoup.simulation.scripted import HANDLER


def storm_plan(chance: random.Random, name: str, folder: str) -> Plan:
    workspace = FolderSource("storm") if chance.random() < 0.5 else None
    steps = [_step(chance, f"s{number}") for number in range(chance.choice((1, 1, 2, 2, 3, 4)))]
    return Plan(name=name, steps=tuple(steps), workspace=workspace, folder=folder)


def _step(chance: random.Random, step_id: str) -> Step:
    if chance.random() < 0.05:
        return Step(id=step_id, action=ApproveAction("may it go on?"))
    action: Action = RunAction("work") if chance.random() < 0.6 else PythonAction("m:f")
    handler = (Handler(action=RunAction(HANDLER)),)
    return Step(
        id=step_id,
        action=action,
        expect=(FileCheck(path=step_id),) if chance.random() < 0.25 else (),
        repeat=Repeat.NEVER if chance.random() < 0.2 else Repeat.SAFE,
        rebuild=Rebuild.RERUN if chance.random() < 0.1 else Rebuild.CHECKPOINT,
        limits=Limits(max_attempts=chance.choice((None, None, None, None, 1, 4))),
        rescue=handler if chance.random() < 0.1 else (),
        on_empty=handler if chance.random() < 0.05 else (),
        always=handler if chance.random() < 0.1 else (),
    )


def storm_policy(chance: random.Random) -> Policy:
    count_min = chance.choice((6, 10, 20))
    return Policy(
        step_max_attempts=chance.choice((2, 3, 3, 5)),
        step_timeout_seconds=chance.choice((20.0, 60.0)),
        step_idle_timeout_seconds=chance.choice((10.0, 40.0)),
        step_no_progress_limit=chance.choice((2, 3)),
        unknown_retries_max=chance.choice((0, 1, 3)),
        backoff_ms=chance.choice((100, 500)),
        cooldown_default_seconds=chance.choice((5.0, 30.0)),
        cooldown_max_seconds=60,
        job_self_heal_max_resets=chance.choice((0, 1, 2, 2)),
        run_retries_max=chance.choice((2, 20, 20)),
        run_timeout_seconds=chance.choice((60.0, 600.0, 86_400.0)),
        takeovers_max=chance.choice((1, 5)),
        delivery_max=chance.choice((1, 2, 3)),
        retry_tokens=chance.choice((20, 1_000, 1_000)),
        step_fail_streak_to_degraded=chance.choice((2, 3)),
        workflow_fail_window_s=chance.choice((60.0, 600.0)),
        workflow_fail_max_in_window=chance.choice((3, 10)),
        workflow_count_window=count_min + 5,
        workflow_count_min=count_min,
        workflow_fail_ratio=chance.choice((0.5, 0.8)),
        degraded_clean_steps=chance.choice((2, 5)),
        quarantine_duration_s=chance.choice((30.0, 300.0)),
        half_open_probes=chance.choice((1, 2)),
        half_open_permit_s=chance.choice((30.0, 120.0)),
        global_pause=chance.random() < 0.2,
        global_fail_max_in_window=20,
        global_fail_window_s=60,
        polls=chance.random() < 0.1,
    )
