"""From recorded facts to what a report shows. Pure: the same facts give the same report."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from recoup.kernel.advice import Advice, advice
from recoup.kernel.description import Tone
from recoup.kernel.elapsed import spent_words, time_spent
from recoup.kernel.fold import fold
from recoup.kernel.prefix import frontier, is_good, ledger_document, outcome_unknown
from recoup.model import events as ev
from recoup.model.events import Event
from recoup.model.instant import Instant
from recoup.model.run import RunState, RunStatus, StepRecord
from recoup.reports.entries import controls, decisions, heals, mode_of, modes
from recoup.reports.failures import failures
from recoup.reports.moments import moments
from recoup.reports.patches import diff_view
from recoup.reports.plain import Plain
from recoup.reports.spoken import count, lasting, short_digest
from recoup.reports.timeline import mark_of, timeline
from recoup.reports.view import DiffView, Fact, Prefix, Report, StepRow

_TONES = {
    RunStatus.SUCCEEDED: Tone.GOOD,
    RunStatus.FAILED: Tone.BAD,
    RunStatus.DEAD_LETTER: Tone.BAD,
    RunStatus.CANCELLED: Tone.BAD,
    RunStatus.BLOCKED: Tone.BAD,
    RunStatus.ESCALATED: Tone.WARN,
    RunStatus.WAITING: Tone.WARN,
}


class Text(msgspec.Struct, frozen=True):
    """A redacted file or piece of evidence, or its beginning."""

    owner: str
    body: str
    cut: bool = False


class Material(msgspec.Struct, frozen=True, kw_only=True):
    """All that a report is made of."""

    events: Sequence[Event]
    """Of the run, all of them."""
    workflow_events: Sequence[Event] = ()
    """Of its workflow: the changes of mode."""
    patches: Sequence[Text] = ()
    until: Instant | None = None
    """Somebody works on the run now: how far its open attempt is."""
    left_out: Sequence[str] = ()


def report_of(material: Material, plain: Plain) -> Report:
    events = material.events
    state = fold(events[0].stream.removeprefix("run:"), events)
    at_s, end_s = moments(events, material.until)
    failed, failures_left_out = failures(events, at_s, plain)
    mode_changes = modes(material.workflow_events, events, plain)
    chart = timeline(state, events, at_s, end_s, plain)
    left_out = list(material.left_out)
    if chart.run_left_out:
        left_out.append(f"the first {chart.run_left_out:,} deliveries and waits in the run's own row")
    if failures_left_out:
        left_out.append(f"the first {count(failures_left_out, 'failure')}")
    return Report(
        run_id=plain.line(state.run_id, 120),
        workflow=plain.line(state.workflow, 120),
        objective=plain.line(state.plan.objective, 600),
        status=state.status.value.replace("_", " ") + (" (interrupted)" if state.driver.interrupted else ""),
        tone=_TONES.get(state.status, Tone.PLAIN),
        reason=plain.line(state.reason, 1_000),
        advice=_next(advice(state, driven=material.until is not None), plain),
        facts=_facts(state, events, end_s, mode_of(mode_changes), plain),
        timeline=chart,
        failures=failed,
        diffs=_diffs(material.patches, plain),
        heals=heals(zip(events, at_s, strict=True), plain),
        prefix=_prefix(state, plain),
        decisions=decisions(zip(events, at_s, strict=True), plain),
        controls=controls(zip(events, at_s, strict=True), plain),
        modes=mode_changes,
        left_out=tuple(left_out),
        as_of=f"event {events[-1].seq:,}, {_time(events[-1].at)}",
    )


def _time(at: Instant) -> str:
    return f"{at.iso()[:10]} {at.iso()[11:19]} UTC"


def _next(advised: Sequence[Advice], plain: Plain) -> tuple[Advice, ...]:
    return tuple(
        Advice(plain.line(one.text, 600), None if one.command is None else plain.line(one.command, 600))
        for one in advised
    )


def _facts(
    state: RunState, events: Sequence[Event], end_s: float, mode: str, plain: Plain
) -> tuple[Fact, ...]:
    attempts = sum(isinstance(event.payload, ev.AttemptStarted) for event in events)
    facts = [
        Fact("run", state.run_id, code=True),
        Fact("mode of the workflow", mode),
        Fact("steps known to be good", f"{state.progress.prefix_length} of {len(state.steps)}"),
        Fact("attempts", f"{attempts:,}"),
        Fact("retries", f"{state.counts.retries:,}"),
        Fact("hard resets", f"{state.counts.resets:,}"),
        Fact("deliveries", f"{state.driver.delivery:,}"),
        Fact("drivers lost", f"{state.driver.takeovers:,}"),
        Fact("from first to last event", lasting(end_s)),
        Fact("worked on", spent_words(time_spent(state.clocks, events[-1].at), lasting)),
        Fact("submitted", _time(state.submission.at)),
        Fact("policy", short_digest(state.submission.policy_digest), code=True),
        Fact("plan", short_digest(state.submission.plan_digest), code=True),
    ]
    if state.failure.cls is not None:
        facts.insert(2, Fact("failure", f"{state.failure.cls}, {state.failure.kind}"))
    if state.lineage.parent_run_id is not None:
        facts.append(Fact("goes on from", state.lineage.parent_run_id, code=True))
    if state.workspaces.baseline is not None and state.workspaces.baseline.commit is not None:
        facts.append(Fact("began at commit", state.workspaces.baseline.commit[:12], code=True))
    if state.submission.plan_source is not None:
        facts.append(Fact("plan file", state.submission.plan_source, code=True))
    return tuple(Fact(fact.label, plain.line(fact.value, 200), fact.code) for fact in facts)


def _diffs(patches: Sequence[Text], plain: Plain) -> tuple[DiffView, ...]:
    found = (diff_view(text.owner, text.body, plain, text.cut) for text in patches)
    return tuple(view for view in found if view is not None)


def _prefix(state: RunState, plain: Plain) -> Prefix:
    edge = frontier(state)
    documents = ledger_document(state).steps
    return Prefix(
        good=state.progress.prefix_length,
        total=len(state.steps),
        frontier="" if edge is None else plain.line(edge.step_id, 120),
        frontier_reason="" if edge is None else plain.line(edge.reason, 600),
        steps=tuple(
            _row(state, record, document.invalidation_reason, plain)
            for record, document in zip(state.steps, documents, strict=True)
        ),
    )


def _row(state: RunState, record: StepRecord, reason: str | None, plain: Plain) -> StepRow:
    mark, tone = mark_of(state, record)
    verdict = "skipped" if record.skipped else "reused" if record.reused_from else record.verdict.value
    verdict = "outcome unknown" if outcome_unknown(record) else verdict
    behind = (
        not is_good(record)
        and record.index > state.progress.prefix_length
        and record.invalidation_reason is None
    )
    return StepRow(
        index=record.index,
        step_id=plain.line(record.step_id, 120),
        title=plain.line(state.plan.steps[record.index].title, 120),
        kind=plain.line(record.kind, 20),
        mark=mark,
        tone=tone,
        verdict=verdict.replace("_", " "),
        attempts=record.spent.attempts,
        checkpoint=record.results.checkpoint.tree[:12] if record.results.checkpoint else "",
        reason="" if behind else plain.line(record.invalidation_reason or reason, 300),
    )
