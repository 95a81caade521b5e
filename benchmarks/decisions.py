"""How long the kernel thinks: `decide` must not depend on the run's length."""

from __future__ import annotations

import time

from benchmarks.report import Figure, median, percentile, scaled
from recoup.kernel.decide import decide
from recoup.kernel.fold import advance, submitted
from recoup.kernel.progress import mark_of
from recoup.model import events as ev
from recoup.model.failure import Facts, Failure, FailureClass, FailureKind
from recoup.model.instant import Instant
from recoup.model.plan import Plan, RunAction, Step
from recoup.model.policy import Policy
from recoup.model.run import StepState

CALLS = scaled(20_000, 2_000)
EVENTS = scaled(100_000, 10_000)


def run() -> list[Figure]:
    micros = [1e6 * seconds for seconds in decide_seconds()]
    return [
        Figure("decide, median", median(micros), "µs"),
        Figure("decide, 99th percentile", percentile(micros, 0.99), "µs", bar=50, at_most=True),
        Figure(f"fold of {EVENTS:,} events", fold_seconds(), "s", bar=2, at_most=True),
    ]


def decide_seconds() -> list[float]:
    facts = Facts(kind=FailureKind.EXIT_NONZERO, exit_code=1, output_hash="sha256:o", excerpt="error " * 600)
    failure = Failure(
        kind=facts.kind,
        cls=FailureClass.TRANSIENT_RUNTIME,
        signature="v1:a",
        summary="exit code 1",
        facts=facts,
    )
    now = Instant(1_800_000_000_000_000, 5_000_000_000, "boot")
    state = StepState(
        attempt=2,
        attempts_in_delivery=2,
        earlier=(mark_of(failure),) * Policy().no_progress_window,
        active_since=now,
        can_hard_reset=True,
        retry_tokens=90,
    )
    policy = Policy()
    taken = []
    for _ in range(CALLS):
        began = time.perf_counter()
        decide(state, failure, policy, now)
        taken.append(time.perf_counter() - began)
    return taken


def fold_seconds() -> float:
    now = Instant(1_800_000_000_000_000, 5_000_000_000, "boot")
    steps = tuple(Step(id=f"s{n}", action=RunAction("true")) for n in range(1000))
    first = ev.RunSubmitted(
        workflow="w",
        plan_digest="sha256:p",
        plan=Plan(name="w", steps=steps),
        plan_redacted=False,
        inputs={},
        policy_digest="sha256:q",
    )
    state = submitted("run", first, now)
    facts: list[ev.Payload] = []
    for turn in range(EVENTS // 2):
        about = {"step_id": f"s{turn % 1000}", "step_index": turn % 1000, "attempt": 1 + turn // 1000}
        facts.append(
            ev.AttemptStarted(
                **about,  # type: ignore[arg-type]
                delivery=1,
                kind="run",
                args_digest="sha256:a",
                pre_state=None,
                workspace=None,
                inline=True,
            )
        )
        facts.append(ev.AttemptFinished(**about, verdict="passed", duration_ms=1))  # type: ignore[arg-type]
    began = time.perf_counter()
    for seq, fact in enumerate(facts, 2):
        state = advance(state, fact, now, seq)
    return time.perf_counter() - began
