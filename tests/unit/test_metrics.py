"""What events are worth in numbers, and that no number says more than it may."""

from __future__ import annotations

import contextlib
import re
import socket
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoup.kernel.decide import decide
from recoup.kernel.progress import mark_of
from recoup.metrics import measures as m
from recoup.metrics.collector import EVENTS_MAX, Metrics, told
from recoup.metrics.measures import FAILING_MAX, Measurement, RunContext, measure
from recoup.metrics.resolver import Resolver
from recoup.metrics.statsd import PACKET_BYTES_MAX, StatsdSink
from recoup.metrics.statsd_lines import Flavour, lines_of
from recoup.metrics.tally import SERIES_MAX, Tally
from recoup.metrics.vocabulary import NAMES_MAX, Vocabulary
from recoup.model import events as ev
from recoup.model.decision import strategy
from recoup.model.events import Event, Payload, decode_payload
from recoup.model.failure import Facts, Failure, FailureClass, FailureKind
from recoup.model.ids import ProcessIdentity
from recoup.model.instant import Instant
from recoup.model.mode import Mode
from recoup.model.policy import Policy
from recoup.model.run import StepState
from recoup.redaction.redactor import SecretRedactor

AT = Instant(1_800_000_000_000_000, 1_000_000, "boot-1")
OWNER = ProcessIdentity("host", "boot-1", 1, 1)
SECRET = "Zq7" + "xW9vK2" + "tB4mN8"


def event(payload: Payload, stream: str = "run:r1", seq: int = 1) -> Event:
    return Event(stream, seq, AT, payload.TYPE, payload, b"{}")


def failed(
    kind: FailureKind = FailureKind.EXIT_NONZERO,
    cls: FailureClass | None = FailureClass.TRANSIENT_RUNTIME,
    strategy: str | None = "soft_reset",
    **more: Any,
) -> ev.AttemptFailed:
    about: dict[str, Any] = {
        "step_id": "fetch",
        "step_index": 0,
        "attempt": 1,
        "facts": Facts(kind=kind, duration_ms=1500),
        "summary": "it failed",
        "outcome_known": True,
    }
    return ev.AttemptFailed(
        **{**about, "failure_kind": kind, "failure_class": cls, "strategy": strategy, **more}
    )


def finished(**more: Any) -> ev.AttemptFinished:
    about: dict[str, Any] = {
        "step_id": "fetch",
        "step_index": 0,
        "attempt": 2,
        "verdict": "passed",
        "duration_ms": 250,
    }
    return ev.AttemptFinished(**{**about, **more})


def measured(*payloads: Payload, run: RunContext | None = None) -> list[Measurement]:
    found: list[Measurement] = []
    run = run or RunContext("sync")
    for payload in payloads:
        more, run = measure(event(payload), run)
        found += more
    return found


def names(found: list[Measurement]) -> Counter[str]:
    return Counter(one.measure.name for one in found)


# Measures


def test_the_names_and_tags_of_self_healing_are_those_that_were_asked_for() -> None:
    assert {one.name: one.tags for one in m.MEASURES[:7]} == {
        "task.self_heal.attempts_total": ("class", "strategy", "outcome"),
        "task.self_heal.recovered_total": (),
        "task.self_heal.exhausted_total": (),
        "task.step.duration_seconds": (),
        "task.step.idle_timeout_total": (),
        "task.step.wall_timeout_total": (),
        "task.step.no_progress_total": (),
    }


def test_a_step_that_passes_at_once_is_measured_by_its_time_alone() -> None:
    assert measured(finished(attempt=1)) == [Measurement(m.DURATION, 0.25)]


def test_a_step_that_fails_and_passes_has_recovered() -> None:
    found = measured(failed(), finished())
    assert found == [
        Measurement(m.DURATION, 1.5),
        Measurement(m.ATTEMPTS, 1, ("transient_runtime", "soft_reset", "retrying")),
        Measurement(m.DURATION, 0.25),
        Measurement(m.ATTEMPTS, 1, ("transient_runtime", "soft_reset", "success")),
        Measurement(m.RECOVERED),
    ]
    assert names(measured(failed(), finished(), finished()))[m.RECOVERED.name] == 1


@pytest.mark.parametrize(
    ("strategy", "redeliver", "outcome"),
    [
        ("soft_reset", False, "retrying"),
        ("hard_reset", False, "retrying"),
        ("retry", False, "retrying"),
        ("none", True, "queue_retry"),
        ("none", False, "failed"),
        (None, False, "failed"),
    ],
)
def test_an_attempt_says_what_followed(strategy: str | None, redeliver: bool, outcome: str) -> None:
    found = measured(failed(strategy=strategy, redeliver=redeliver))
    assert found[-1].values[2] == outcome


def test_targets_are_counted_by_how_they_were_found() -> None:
    def looked(found_by: str, level: int = 1) -> ev.ResolutionDetails:
        profile: dict[str, float | bool | int] = {"min_ratio": 0.78}
        used: dict[str, Any] = {"fuzzy_threshold_used": 0.78, "spatial_padding_used": 1.3}
        return ev.ResolutionDetails(
            healing_attempt=level, healing_profile=profile, found_by=found_by, duration_ms=2.5, **used
        )

    about: dict[str, Any] = {"step_id": "s", "step_index": 0, "attempt": 1, "run_id": "r", "target": "t"}
    heal: dict[str, Any] = {"confidence": 0.9, "margin": 0.1, "found_by": "model"}
    found = measured(
        msgspec.structs.replace(failed(), resolution=looked("none", 99)),
        ev.TargetRejected(**about),
        finished(resolution=looked("model")),
        ev.TargetHealed(**about, **heal, verified=True),
        ev.TargetHealed(**about, **heal, verified=False),
        finished(resolution=looked("made up")),
    )
    ours = [one for one in found if one.measure in (m.RESOLVED, m.RESOLVING, m.HEALED, m.REJECTED)]
    assert ours == [
        Measurement(m.RESOLVED, 1, ("9", "none", "failed")),
        Measurement(m.RESOLVING, 0.0025),
        Measurement(m.REJECTED),
        Measurement(m.RESOLVED, 1, ("1", "model", "passed")),
        Measurement(m.RESOLVING, 0.0025),
        Measurement(m.HEALED, 1, ("yes",)),
        Measurement(m.HEALED, 1, ("no",)),
        Measurement(m.RESOLVED, 1, ("1", "other", "passed")),
        Measurement(m.RESOLVING, 0.0025),
    ]


def test_strategies_are_counted_by_their_names_and_whether_they_were_proven() -> None:
    about: dict[str, Any] = {"step_id": "s", "step_index": 0, "attempt": 1, "run_id": "r", "target": "t"}
    sure: dict[str, Any] = {"confidence": 0.9, "margin": 0.1}
    healed = [
        ev.TargetHealed(**about, **sure, found_by=name, verified=name != "spatial")
        for name in ("alias", "memory", "model", "semantic", "spatial", "made up")
    ]
    adapted = [
        ev.TargetAdapted(**about, strategy=name, verified=True) for name in ("timing", "format", "made up")
    ]
    found = [one.values for one in measured(*healed, *adapted) if one.measure is m.STRATEGIES]
    assert found == [
        *(("alias", "yes"), ("memory", "yes"), ("model", "yes"), ("semantic", "yes"), ("spatial", "no")),
        *(("other", "yes"), ("timing", "yes"), ("format", "yes"), ("other", "yes")),
    ]


def test_a_timeout_is_counted_as_what_it_was() -> None:
    idle = measured(failed(FailureKind.IDLE_TIMEOUT, FailureClass.STUCK_NO_PROGRESS))
    wall = measured(failed(FailureKind.WALL_TIMEOUT))
    assert m.IDLE.name in names(idle) and m.NO_PROGRESS.name not in names(idle)
    assert m.WALL.name in names(wall) and m.IDLE.name not in names(wall)


@pytest.mark.parametrize("kind", [FailureKind.EXIT_NONZERO, FailureKind.IDLE_TIMEOUT])
@pytest.mark.parametrize("resettable", [True, False])
def test_attempts_that_end_alike_are_no_progress_as_the_kernel_sees_it(
    kind: FailureKind, resettable: bool
) -> None:
    cls = FailureClass.STUCK_NO_PROGRESS if kind is FailureKind.IDLE_TIMEOUT else FailureClass.UNKNOWN
    failure = Failure(kind=kind, cls=cls, signature="s", summary="", facts=Facts(kind=kind))
    policy = Policy()
    first = state_of(1, (), resettable)
    second = state_of(2, (mark_of(failure),), resettable)
    counted = []
    for state in (first, second):
        decision = decide(state, failure, policy, AT)
        found = measured(failed(kind, decision.cls, strategy(decision), reason=decision.reason))
        counted.append(names(found)[m.NO_PROGRESS.name])
    assert counted == [0, 1]


def state_of(attempt: int, earlier: tuple[Any, ...], resettable: bool) -> StepState:
    return StepState(
        attempt=attempt,
        attempts_in_delivery=attempt,
        earlier=earlier,
        unknown_failures=0,
        resets=0,
        retries=0,
        active_s=0,
        active_since=None,
        can_hard_reset=resettable,
        may_repeat=True,
        retry_tokens=None,
    )


@pytest.mark.parametrize(
    "payload",
    [
        failed(not_begun=True),
        failed(phase="always"),
        finished(phase="always"),
        failed(
            FailureKind.DRIVER_LOST,
            None,
            "none",
            outcome_known=False,
            facts=Facts(kind=FailureKind.DRIVER_LOST),
        ),
        finished(settled_by="operator"),
    ],
)
def test_what_was_not_performed_to_an_end_is_not_measured(payload: Payload) -> None:
    assert measured(payload) == []


def test_a_step_that_a_person_settled_has_not_recovered_by_itself() -> None:
    found = measured(failed(), finished(settled_by="operator"), finished())
    assert m.RECOVERED.name not in names(found)


def test_a_step_that_its_handler_saved_has_recovered() -> None:
    found = measured(finished(verdict="recovered", attempt=1))
    assert found[1].values == ("none", "none", "success") and found[2].measure is m.RECOVERED


@pytest.mark.parametrize(
    ("payload", "status"),
    [
        (ev.RunStarted(delivery=1, epoch=1, owner=OWNER, policy_digest="d"), "running"),
        (ev.RunResumed(delivery=2, epoch=2, owner=OWNER, reason=""), "running"),
        (ev.RunWaiting(reason="a gate", waiting_for="approval"), "waiting"),
        (ev.RunBlocked(reason="quarantined"), "blocked"),
        (ev.RunSucceeded(known_good_prefix_length=1, reason=""), "succeeded"),
        (
            ev.RunFailed(reason="", failure_class=None, failure_kind=None, retryable=False, delivery=1),
            "failed",
        ),
        (ev.RunDeadLettered(reason="", failure_class=None, failure_kind=None, delivery=3), "dead_letter"),
        (ev.RunCancelled(reason="", actor="me"), "cancelled"),
        (ev.Escalated(escalation_id="e", reason="", hint=""), "escalated"),
    ],
)
def test_a_run_is_counted_by_the_status_it_comes_into(payload: Payload, status: str) -> None:
    assert measured(payload) == [Measurement(m.RUNS, 1, ("sync", status))]


def test_a_change_of_mode_is_counted_by_workflow_and_mode() -> None:
    changed = ev.WorkflowModeChanged(mode=Mode.DEGRADED, previous=Mode.RUNNING, reason="")
    assert measured(changed) == [Measurement(m.MODES, 1, ("sync", "degraded"))]


def test_what_is_remembered_of_a_run_is_bounded() -> None:
    run = RunContext()
    for index in range(10 * FAILING_MAX):
        _, run = measure(event(failed(step_index=index)), run)
    assert len(run.failing) == FAILING_MAX


def test_a_made_up_strategy_is_not_passed_on() -> None:
    assert measured(failed(strategy="made|up"))[-1].values[1] == "other"


def test_the_reference_lists_every_measure_as_it_is() -> None:
    prometheus = pytest.importorskip("recoup.metrics.prometheus")
    page = (Path(__file__).parents[2] / "docs" / "reference" / "metrics.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith(("| `task.", "| `workflow.", "| `target."))]
    assert rows == [
        f"| `{one.name}` | `{prometheus.prometheus_name(one)}` | {one.kind} |"
        f" {tags + ' ' if (tags := ', '.join(f'`{tag}`' for tag in one.tags)) else ''}| {one.meaning} |"
        for one in m.MEASURES
    ]


# Words and sums


def test_workflows_beyond_the_limit_share_one_name() -> None:
    words = Vocabulary(lambda _name: ())
    assert len({words.word(f"w{n}") for n in range(10 * NAMES_MAX)}) == NAMES_MAX + 1
    assert words.word("w0") == "w0" and words.word("w999") == "other"


def test_a_workflow_whose_name_became_a_secret_is_no_longer_named() -> None:
    redactor = SecretRedactor()
    words = Vocabulary(redactor.found_in)
    assert words.word(f"sync-{SECRET}") == f"sync-{SECRET}"
    redactor.register("TOKEN", SECRET)
    assert words.word(f"sync-{SECRET}") == "other"


def test_a_tally_has_room_for_so_many_series_and_counts_the_rest() -> None:
    tally = Tally()
    for number in range(SERIES_MAX + 7):
        tally.add(Measurement(m.RUNS, 1, (f"w{number}", "failed")))
    tally.add(Measurement(m.RUNS, 1, ("w0", "failed")))
    assert len(tally.counts[m.RUNS]) == SERIES_MAX and tally.dropped == 7
    assert tally.counts[m.RUNS]["w0", "failed"] == 2


# Prometheus


def samples(text: bytes) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    parser = pytest.importorskip("prometheus_client.parser")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in parser.text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def rendered(*payloads: Payload) -> bytes:
    pytest.importorskip("prometheus_client")
    metrics = Metrics()
    for payload in payloads:
        metrics.event(event(payload))
    text = metrics.render()
    metrics.close()
    return text


def test_prometheus_reads_what_was_counted() -> None:
    found = samples(rendered(failed(), finished()))
    labels = (("class", "transient_runtime"), ("outcome", "retrying"), ("strategy", "soft_reset"))
    assert found["recoup_self_heal_attempts_total", labels] == 1
    assert found["recoup_self_heal_recovered_total", ()] == 1
    assert found["recoup_self_heal_exhausted_total", ()] == 0
    assert found["recoup_step_duration_seconds_count", ()] == 2
    assert found["recoup_step_duration_seconds_sum", ()] == 1.75
    assert found["recoup_step_duration_seconds_bucket", (("le", "0.25"),)] == 1
    assert found["recoup_step_duration_seconds_bucket", (("le", "2.5"),)] == 2
    assert found["recoup_metrics_dropped_total", (("where", "queue"),)] == 0


def test_no_label_names_a_run() -> None:
    text = rendered(failed(), finished(), ev.RunSucceeded(known_good_prefix_length=1, reason="r1"))
    assert b'"r1"' not in text and b"run_id" not in text and b"_created" not in text


# Properties

TEXTS = st.one_of(
    st.text(max_size=80),
    st.sampled_from(["a|b", "x:1|c", "t,u", "#", "@0.1", "l\n2", "", SECRET, f"w-{SECRET}", "ä ö"]),
)
COUNTS = st.integers(-(2**62), 2**62)
CLASSES, KINDS = st.sampled_from(FailureClass), st.sampled_from(FailureKind)
STEP = {"step_id": TEXTS, "step_index": st.integers(0, 5), "attempt": st.none() | COUNTS}
ABOUT = {
    **STEP,
    "failure_class": st.none() | CLASSES,
    "failure_kind": st.none() | KINDS,
    "failure_signature": TEXTS,
    "strategy": st.none() | st.sampled_from(["soft_reset", "none"]) | TEXTS,
    "reason": TEXTS,
}
PHASES = st.sampled_from(["main", "rescue", "rebuild", "always"])
PAYLOADS = st.one_of(
    st.builds(
        ev.AttemptFailed,
        **ABOUT,
        facts=st.builds(Facts, kind=KINDS, duration_ms=COUNTS, excerpt=TEXTS),
        summary=TEXTS,
        outcome_known=st.booleans(),
        not_begun=st.booleans(),
        phase=PHASES,
        redeliver=st.booleans(),
    ),
    st.builds(ev.AttemptFinished, **ABOUT, verdict=TEXTS, duration_ms=COUNTS, phase=PHASES),
    st.builds(ev.SelfHealExhausted, **ABOUT, retryable=st.booleans()),
    st.builds(ev.RunWaiting, reason=TEXTS, waiting_for=TEXTS),
    st.builds(ev.RunSucceeded, known_good_prefix_length=COUNTS, reason=TEXTS),
    st.builds(ev.RunCancelled, reason=TEXTS, actor=TEXTS),
    st.builds(ev.Escalated, escalation_id=TEXTS, reason=TEXTS, hint=TEXTS),
    st.builds(
        ev.WorkflowModeChanged, mode=st.sampled_from(Mode), previous=st.sampled_from(Mode), reason=TEXTS
    ),
)
EVENTS = st.lists(st.tuples(TEXTS, PAYLOADS), max_size=40)

NAME = r"(?:task|workflow)(?:\.[A-Za-z0-9_-]+)+"
AMOUNT = r"(?:0|[1-9][0-9]*)\|(?:c|ms)"
TAG = r"[a-z]+:[A-Za-z0-9_./-]{1,64}"
GRAMMAR = {
    Flavour.PLAIN: re.compile(rf"{NAME}:{AMOUNT}"),
    Flavour.DATADOG: re.compile(rf"{NAME}:{AMOUNT}(?:\|#{TAG}(?:,{TAG})*)?"),
}


def stored(name: str, payload: Payload, redactor: SecretRedactor, seq: int) -> Event:
    """As the ledger gives it back: sealed. Its stream is named by a person."""
    raw = redactor.seal(payload).data
    kind = "workflow" if isinstance(payload, ev.WorkflowModeChanged) else "run"
    return Event(f"{kind}:{name}", seq, AT, payload.TYPE, decode_payload(payload.TYPE, raw), raw)


@given(EVENTS, st.sampled_from(Flavour))
@settings(max_examples=150, deadline=None)
def test_every_line_keeps_to_the_grammar_and_no_secret_leaves(
    happened: list[tuple[str, Payload]], flavour: Flavour
) -> None:
    redactor = SecretRedactor()
    redactor.register("TOKEN", SECRET)
    words, run = Vocabulary(redactor.found_in), RunContext()
    for seq, (name, payload) in enumerate(happened, 1):
        one = stored(name, payload, redactor, seq)
        found, run = measure(one, RunContext(words.word(name), run.failing))
        for measurement in found:
            data = lines_of(measurement, flavour)
            assert len(data) <= PACKET_BYTES_MAX
            assert SECRET.encode() not in data and SECRET not in "".join(measurement.values)
            assert all(GRAMMAR[flavour].fullmatch(line) for line in data.decode("ascii").split("\n"))
            assert len(measurement.values) == len(measurement.measure.tags)


@given(EVENTS, st.sampled_from(Flavour), st.sampled_from(["listens", "absent", "full", "unknown"]))
@settings(max_examples=60, deadline=None)
def test_what_was_sent_and_what_was_dropped_is_what_was_measured(
    happened: list[tuple[str, Payload]], flavour: Flavour, state: str
) -> None:
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind(("127.0.0.1", 0))
    receiver.setblocking(False)
    port = receiver.getsockname()[1]
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    resolver = Resolver("127.0.0.1", port)
    match state:
        case "absent":
            receiver.close()
            sink = StatsdSink(resolver, flavour)
        case "full":
            fill(ours)
            sink = StatsdSink(resolver, flavour, connect=lambda _address: ours)
        case "unknown":
            sink = StatsdSink(Resolver("nowhere", port, lookup=lambda _host, _port: []), flavour)
        case _:
            sink = StatsdSink(resolver, flavour)
    run, count = RunContext(), 0
    for seq, (name, payload) in enumerate(happened, 1):
        found, run = measure(event(payload, f"run:{name}", seq), run)
        for measurement in found:
            sink.add(measurement)
            count += 1
        if seq % 7 == 0:
            sink.flush()
            assert sink.sent + sink.dropped + sink.waiting == sink.measured
    sink.close()
    assert sink.measured == count == sink.sent + sink.dropped and sink.waiting == 0
    if state == "listens":
        assert sink.dropped == 0 and received_lines(receiver, flavour) == count
    else:
        assert sink.sent == 0
    for one in (receiver, ours, theirs):
        one.close()


def fill(one: socket.socket) -> None:
    one.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            one.send(b"x" * 1000)


def received_lines(receiver: socket.socket, flavour: Flavour) -> int:
    """Totals alone: the plain flavour says a second time what belongs to which tags."""
    bare = {one.name for one in m.MEASURES}
    seen = 0
    while True:
        try:
            packet = receiver.recv(65536)
        except BlockingIOError:
            return seen
        assert len(packet) <= PACKET_BYTES_MAX
        lines = packet.decode().split("\n")
        assert all(GRAMMAR[flavour].fullmatch(line) for line in lines)
        seen += sum(line.partition(":")[0] in bare for line in lines)


# The collector


def test_a_full_queue_drops_and_counts_and_never_raises() -> None:
    metrics = Metrics()
    with metrics._turn:  # the thread cannot take anything
        for _ in range(EVENTS_MAX + 100):
            metrics.event(event(finished()))
        assert metrics.events_dropped >= 100 - 1
    dropped = metrics.events_dropped
    metrics.close(5)
    assert samples(metrics.render())["recoup_step_duration_seconds_count", ()] == EVENTS_MAX + 100 - dropped
    assert samples(metrics.render())["recoup_metrics_dropped_total", (("where", "queue"),)] == dropped


def test_a_fault_of_ours_is_counted_and_the_next_event_is_measured() -> None:
    class Broken:
        dropped = 0

        def enter(self, run_id: str, workflow: str) -> None: ...

        def event(self, event: Event) -> None:
            raise RuntimeError("broken")

        def close(self, wait_s: float) -> None: ...

    metrics = Metrics(tracer=Broken())
    for _ in range(2):
        metrics.event(event(finished()))
    metrics.close(5)
    assert metrics.faults == 2 and metrics.last_fault == "RuntimeError: broken"
    assert samples(metrics.render())["recoup_step_duration_seconds_count", ()] == 2
    assert samples(metrics.render())["recoup_metrics_dropped_total", (("where", "faults"),)] == 2


def test_listeners_are_told_in_order() -> None:
    seen: list[str] = []
    told(lambda _: seen.append("first"), lambda _: seen.append("second"))(event(finished()))
    assert seen == ["first", "second"]
