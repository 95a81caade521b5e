"""What a probe decides: `recoup.kernel.probe` and its neighbours, by examples and by properties."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoup.kernel.probe import (
    action_for,
    actions_in_a_day,
    decide_fault,
    delay_s,
    due_in_s,
    gives_back,
    retries_used,
    spent_limit,
)
from recoup.kernel.probe_documents import probe_document, probe_line
from recoup.kernel.probe_fold import (
    CLASSES_MAX,
    COMMANDS_MAX,
    ESCALATIONS_MAX,
    advance_probe,
    fold_probe,
)
from recoup.kernel.probe_health import Sign, Tally, counted, fault_of, health_of
from recoup.kernel.probe_rules import (
    FORBIDDEN_KEYS,
    RULES,
    may_be_acted_on,
    refusal_words,
    refuse_command,
    rule_against,
)
from recoup.model import events as ev
from recoup.model.events import Event, decode_payload
from recoup.model.ids import ProcessIdentity, probe_stream, refusals_stream
from recoup.model.instant import Instant
from recoup.model.probe import (
    COMPLETED,
    DAY_S,
    Action,
    Budget,
    ChannelKind,
    Command,
    Downgrade,
    Escalate,
    Fault,
    Finish,
    Health,
    HttpCheck,
    Leave,
    Phase,
    ProbeState,
    ProcessKind,
    Resource,
    ResourceState,
    Retry,
    Rule,
    TcpCheck,
)

START = Instant(1_800_000_000_000_000, 1_000_000_000, "boot-1")
OWNER = ProcessIdentity("host", "boot-1", 7, 9)
API = Resource(id="api", kind=ProcessKind(command=("api",)))
TUNNEL = Resource(
    id="tunnel",
    kind=ChannelKind(transport="ssh_remote", mode="ide_primary", fallback="terminal_fallback"),
    on_fault={"ssh_remote_attach_failed": Action.RESTART},
)
CRASH = Fault(fault_class="process_exited", reason="it exited with 1", error_code="exit_1")


class Story:
    """A probe whose events are told one after the other, as a supervisor would append them."""

    def __init__(self, resource: Resource = API) -> None:
        self.resource = resource
        self.probe = ProbeState(probe_id="p")
        self.now = START
        self.tell(ev.ProbeStarted(owner=OWNER, config_digest="d", resources=1, lease_epoch=1))

    @property
    def state(self) -> ResourceState:
        return self.probe.resources.setdefault(self.resource.id, ResourceState(resource_id=self.resource.id))

    def tell(self, fact: ev.Payload) -> None:
        advance_probe(self.probe, fact, self.now, self.probe.seq + 1)

    def wait(self, seconds: float) -> None:
        self.now = self.now.plus_s(seconds)

    def decide(self, fault: Fault = CRASH, chance: float = 0.0) -> object:
        return decide_fault(self.probe, self.state, self.resource, fault, self.now, chance)

    def attempt(self, fault_class: str = "process_exited", action: Action = Action.RESTART) -> None:
        about: dict[str, Any] = {
            "action": action,
            "fault_class": fault_class,
            "phase": Phase.RECOVERING,
            "reason": "r",
        }
        self.tell(ev.RecoveryAttempted(resource_id=self.resource.id, **about))
        self.tell(ev.RecoveryFailed(resource_id=self.resource.id, **about))

    def give_back(self, **how: object) -> None:
        self.tell(ev.BudgetReset(resource_id=self.resource.id, reason="r", **how))  # type: ignore[arg-type]

    def escalate(self, number: int = 1, fault_class: str = "process_exited") -> None:
        self.tell(
            ev.ProbeEscalated(
                resource_id=self.resource.id,
                fault_class=fault_class,
                phase=Phase.FAILED,
                reason="r",
                escalation_id=f"p:{self.resource.id}:{number}",
                limit="max_retries",
                hint="h",
            )
        )


def test_three_retries_wait_30_90_and_210_seconds_and_the_fourth_is_refused() -> None:
    story, waits = Story(), []
    for _ in range(3):
        step = story.decide()
        assert isinstance(step, Retry) and step.action is Action.RESTART
        waits.append((step.retry_count, step.backoff_s, step.wait_s))
        story.wait(step.wait_s)
        story.attempt()
    assert waits == [(1, 30, 30), (2, 90, 90), (3, 210, 210)]
    refused = story.decide()
    assert refused == Escalate(action=Action.RESTART, fault=CRASH, retry_count=4, limit="max_retries")


def test_an_attempt_without_a_result_counts() -> None:
    story = Story()
    story.tell(
        ev.RecoveryAttempted(
            resource_id="api",
            action=Action.RESTART,
            fault_class="process_exited",
            phase=Phase.RECOVERING,
            reason="r",
            retry_count=1,
            manual=True,
        )
    )
    assert story.state.attempted is not None and story.state.attempted.manual
    assert retries_used(story.probe, story.state, "process_exited", API.budget, story.now) == 1


@settings(deadline=None)
@given(st.floats(0, 1), st.integers(1, 3))
def test_jitter_lengthens_a_delay_and_never_shortens_it(chance: float, retry: int) -> None:
    story = Story()
    for _ in range(retry - 1):
        story.attempt()
    step = story.decide(chance=chance)
    assert isinstance(step, Retry)
    assert step.backoff_s <= step.wait_s <= step.backoff_s * 1.1 + 1e-9


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0, 2_000), st.sampled_from(["a", "b"]), st.booleans()), min_size=1, max_size=60
    )
)
def test_in_no_window_are_there_more_actions_than_the_budget_allows(
    faults: list[tuple[float, str, bool]],
) -> None:
    """Whatever happens and whenever, retries of one class within any 600 s are at most 3, and of all within a day 12."""
    story, done = Story(), list[tuple[float, str]]()
    for wait_s, fault_class, healthy in faults:
        story.wait(wait_s)
        if healthy and gives_back(story.state, API, wait_s):
            story.give_back(automatic=True)
        step = story.decide(Fault(fault_class=fault_class, reason="r"))
        if isinstance(step, Retry):
            story.wait(step.wait_s)
            story.attempt(fault_class)
            done.append((story.now.boot_us / 1e6, fault_class))
    for at_s, fault_class in done:
        near = [one for one in done if at_s - 600 < one[0] <= at_s and one[1] == fault_class]
        assert len(near) <= 3
        assert len([one for one in done if at_s - DAY_S < one[0] <= at_s]) <= 12


def test_time_without_health_gives_nothing_back() -> None:
    """Each retry takes so long to fail that none is in the window any more: it is still the fourth."""
    story = Story()
    for _ in range(3):
        story.attempt()
        story.wait(700)
    assert isinstance(story.decide(), Escalate)


def test_health_gives_back_what_has_left_the_window_and_ends_an_exhaustion() -> None:
    story = Story()
    for _ in range(3):
        story.attempt()
    story.escalate()
    assert isinstance(story.decide(), Leave)
    assert not gives_back(story.state, API, 599)
    assert gives_back(story.state, API, 600)
    story.wait(599)
    story.give_back(automatic=True)
    assert isinstance(story.decide(), Escalate), "they are within the window still"
    story.wait(1)
    step = story.decide()
    assert isinstance(step, Retry) and step.retry_count == 1
    assert not gives_back(story.state, API, 600), "there is nothing to give back"


def test_flapping_every_eleven_minutes_is_caught_by_the_day() -> None:
    story = Story()
    for _ in range(12):
        step = story.decide()
        assert isinstance(step, Retry) and step.retry_count == 1
        story.wait(30)
        story.attempt()
        story.wait(660)
        assert gives_back(story.state, API, 660)
        story.give_back(automatic=True)
    refused = story.decide()
    assert isinstance(refused, Escalate) and refused.limit == "day_max"
    story.wait(DAY_S)
    assert isinstance(story.decide(), Retry)


def test_a_reset_by_hand_gives_everything_back_or_one_class() -> None:
    story = Story()
    for number, fault_class in enumerate(("process_exited", "http_unhealthy"), 1):
        for _ in range(3):
            story.attempt(fault_class)
        story.escalate(number, fault_class)
    story.give_back(automatic=False, fault_class="http_unhealthy", actor="ada")
    assert isinstance(story.decide(), Leave)
    assert isinstance(story.decide(Fault(fault_class="http_unhealthy", reason="r")), Retry)
    story.give_back(automatic=False, actor="ada")
    assert isinstance(story.decide(), Retry)
    assert actions_in_a_day(story.probe, story.state, story.now) == 0


def test_classes_have_budgets_of_their_own() -> None:
    story = Story()
    for _ in range(3):
        story.attempt()
    step = story.decide(Fault(fault_class="http_unhealthy", reason="r"))
    assert isinstance(step, Retry) and step.retry_count == 1


def test_what_must_not_be_restarted_is_handed_over_at_once_and_what_is_done_is_done() -> None:
    story = Story()
    final = Fault(fault_class="process_exited", reason="exit 2", final=True)
    refused = story.decide(final)
    assert isinstance(refused, Escalate) and (refused.limit, refused.retry_count) == ("final", 1)
    done = Fault(fault_class=COMPLETED, reason="exit 0", final=True)
    assert story.decide(done) == Finish(fault=done)


def test_a_channel_is_downgraded_once_before_anybody_is_asked() -> None:
    story = Story(TUNNEL)
    fault = Fault(fault_class="ssh_remote_attach_failed", reason="refused")
    for _ in range(3):
        step = story.decide(fault)
        assert isinstance(step, Retry) and step.action is Action.RESTART
        story.attempt("ssh_remote_attach_failed")
    step = story.decide(fault)
    assert step == Downgrade(
        fault=fault,
        from_mode="ide_primary",
        to_mode="terminal_fallback",
        reason_code="budget_spent:max_retries",
    )
    down = ev.ChannelDowngraded(
        resource_id="tunnel",
        from_mode="ide_primary",
        to_mode="terminal_fallback",
        reason_code="r",
        reason="r",
        fault_class="c",
    )
    story.tell(down)
    assert story.state.mode == "terminal_fallback"
    assert isinstance(story.decide(fault), Escalate)
    story.tell(
        ev.ChannelRestored(
            resource_id="tunnel", from_mode="terminal_fallback", to_mode="ide_primary", reason="r", actor="gw"
        )
    )
    assert isinstance(story.decide(fault), Downgrade)
    assert isinstance(story.decide(Fault(fault_class="x", reason="r", final=True)), Escalate)
    assert msgspec.json.decode(msgspec.json.encode(down))["from"] == "ide_primary"


def test_the_kind_has_an_action_and_the_file_may_name_another() -> None:
    assert action_for(TUNNEL, "dialog_target_disconnected") is Action.RECONNECT
    assert action_for(TUNNEL, "ssh_remote_attach_failed") is Action.RESTART


def test_delays_stay_at_the_last_one() -> None:
    budget = Budget(delays_s=(1, 2), max_retries=5)
    assert [delay_s(retry, budget) for retry in (1, 2, 3, 4)] == [1, 2, 2, 2]


def test_a_plan_waits_for_the_rest_of_its_time_in_a_new_probe_and_a_new_boot() -> None:
    story = Story()
    assert due_in_s(story.state, story.now) is None
    story.tell(
        ev.RecoveryPlanned(
            resource_id="api",
            action=Action.RESTART,
            fault_class="process_exited",
            phase=Phase.RECOVERING,
            reason="r",
            retry_count=2,
            backoff_seconds=90,
            wait_seconds=95,
        )
    )
    story.wait(35)
    assert due_in_s(story.state, story.now) == 60
    story.wait(100)
    assert due_in_s(story.state, story.now) == 0
    rebooted = Instant(START.wall_us + 15_000_000, 5_000_000, "boot-2")
    assert due_in_s(story.state, rebooted) == 80
    set_back = Instant(START.wall_us - 3_600_000_000, 5_000_000, "boot-2")
    assert due_in_s(story.state, set_back) == 95, "never longer than it was told to wait"
    story.tell(
        ev.PhaseChanged(
            resource_id="api",
            phase=Phase.RUNNING,
            previous=Phase.RECOVERING,
            health=Health.HEALTHY,
            reason="r",
        )
    )
    assert due_in_s(story.state, story.now) is None


def test_after_a_reboot_with_a_wrong_wall_clock_what_has_passed_since_is_certain() -> None:
    story = Story()
    for _ in range(3):
        story.attempt()
    story.give_back(automatic=True)
    story.now = Instant(START.wall_us - 10 * DAY_S * 1_000_000, 1_000_000, "boot-2")
    story.tell(ev.ProbeStarted(owner=OWNER, config_digest="d", resources=1, lease_epoch=2))
    assert spent_limit(story.probe, story.state, "process_exited", API.budget, story.now) == "max_retries"
    story.wait(600)
    assert spent_limit(story.probe, story.state, "process_exited", API.budget, story.now) is None
    story.tell(ev.ProbeStarted(owner=OWNER, config_digest="d", resources=1, lease_epoch=3))
    assert story.probe.boot_seen is not None and story.probe.boot_seen.boot_us == 1_000_000


# Rules


@pytest.mark.parametrize(
    ("asked", "rule"),
    [
        ("migrate_host", Rule.HOST_PLACEMENT),
        ("change-route", Rule.STABLE_ROUTE),
        ("set desired state", Rule.DESIRED_STATE),
        ("bypass_approval", Rule.PLATFORM_APPROVAL),
        ("terminate", Rule.SILENT_TERMINATION),
        ("archive_workload", Rule.SILENT_TERMINATION),
        ("format_disk", Rule.ALLOWED_ACTIONS),
        ("", Rule.ALLOWED_ACTIONS),
    ],
)
def test_what_is_forbidden_is_refused_by_the_name_of_its_rule(asked: str, rule: Rule) -> None:
    assert rule_against(asked) is rule
    assert rule in refusal_words(asked, rule)


@settings(deadline=None)
@given(st.text(max_size=40))
def test_only_the_five_actions_pass(asked: str) -> None:
    assert (rule_against(asked) is None) == (asked in list(Action))


def test_every_rule_has_words_and_every_forbidden_key_a_rule() -> None:
    assert RULES.keys() == set(Rule) and set(FORBIDDEN_KEYS.values()) < set(Rule)


def command(**more: object) -> Command:
    given = {
        "command_id": "c1",
        "kind": "act",
        "resource_id": "api",
        "action": "restart",
        "reason": "r",
        "actor": "a",
    }
    return Command(**{**given, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("told", "rule"),
    [
        (command(), None),
        (command(kind="reset_budget", action=None), None),
        (command(command_id="a word of mine"), "command_id"),
        (command(fault_class="because I say so"), "fault_class"),
        (command(fault_class="http_unhealthy"), None),
        (command(action="migrate"), "host_placement"),
        (command(kind="scale"), "desired_state"),
        (command(action=None), "allowed_actions"),
        (command(action="reconnect"), "kind"),
        (command(resource_id="nix"), "unknown_resource"),
        (command(deadline_unix=START.wall_us / 1e6 - 1), "deadline_unix"),
        (command(deadline_unix=START.wall_us / 1e6 + 1), None),
        (command(lease_epoch=0), "lease_epoch"),
        (command(lease_epoch=1), None),
        (command(desired_version=4), "desired_version"),
        (command(desired_version=5), None),
        (command(kind="restore_mode", action=None, resource_id="tunnel"), "gateway_only"),
        (command(kind="restore_mode", action=None, resource_id="tunnel", by_gateway=True), "not_downgraded"),
    ],
)
def test_a_command_is_refused_for_what_it_asks_or_for_when_it_comes(told: Command, rule: str | None) -> None:
    story = Story()
    handled = ev.CommandHandled(
        resource_id="api",
        command_id="c0",
        command="act",
        outcome="accepted",
        reason="r",
        actor="a",
        desired_version=5,
    )
    story.tell(handled)
    refused = refuse_command(story.probe, {"api": API, "tunnel": TUNNEL}, told, START)
    assert (refused.rule if refused else None) == rule


def test_a_downgraded_channel_can_be_restored_by_the_gateway() -> None:
    story = Story(TUNNEL)
    story.state.mode = "terminal_fallback"
    told = command(kind="restore_mode", action=None, resource_id="tunnel", by_gateway=True)
    assert refuse_command(story.probe, {"tunnel": TUNNEL}, told, START) is None


def test_what_waits_or_was_stopped_is_not_acted_on() -> None:
    assert [phase for phase in Phase if not may_be_acted_on(phase)] == [Phase.WAITING, Phase.STOPPED]


# Health

CHECK = TcpCheck(host="h", port=1, failures=3, successes=2)
GOOD, BAD = Sign(good=True), Sign(good=False, reason="refused", error_code="ECONNREFUSED")


def tally(*signs: Sign, starting: bool = False) -> Tally:
    result = Tally()
    for sign in signs:
        result = counted(result, sign, CHECK, starting=starting)
    return result


def test_a_fault_takes_so_many_failures_in_a_row() -> None:
    assert fault_of(tally(GOOD, GOOD, BAD, BAD), CHECK) is None
    assert fault_of(tally(GOOD, GOOD, BAD, BAD, GOOD, BAD, BAD), CHECK) is None
    fault = fault_of(tally(GOOD, GOOD, BAD, BAD, BAD), CHECK)
    assert fault == Fault(fault_class="tcp_unreachable", reason="refused", error_code="ECONNREFUSED")
    certain = Sign(good=False, reason="gone", at_once=True, fault_class="mount_lost")
    named = fault_of(tally(certain), CHECK)
    assert named is not None and named.fault_class == "mount_lost"


def test_health_after_a_fault_takes_so_many_successes_in_a_row() -> None:
    failed = (BAD, BAD, BAD)
    assert tally(*failed, GOOD).good is False
    assert tally(*failed, GOOD, BAD, GOOD).good is False
    assert tally(*failed, GOOD, GOOD).good is True


def test_while_it_starts_a_bad_sign_says_only_that_it_is_not_there_yet() -> None:
    assert tally(BAD, BAD, BAD, BAD, starting=True).good is None
    assert tally(GOOD, GOOD, BAD, BAD, BAD, starting=True).good is False


@settings(deadline=None)
@given(st.lists(st.booleans(), max_size=30))
def test_fewer_bad_signs_in_a_row_than_the_threshold_are_no_fault(signs: list[bool]) -> None:
    result = tally(*(GOOD if good else BAD for good in signs))
    longest = max((len(run) for run in "".join("." if good else "x" for good in signs).split(".")), default=0)
    if longest < 3:
        assert fault_of(result, CHECK) is None


def test_health_is_that_of_the_worst_check() -> None:
    good, lately, bad = tally(GOOD, GOOD), tally(GOOD, GOOD, BAD), tally(BAD, BAD, BAD)
    assert health_of([]) is Health.HEALTHY
    assert health_of([good]) is Health.HEALTHY
    assert health_of([good, lately]) is Health.DEGRADED
    assert health_of([good, lately, Tally()]) is Health.UNKNOWN
    assert health_of([good, lately, Tally(), bad]) is Health.UNHEALTHY


# Events


def test_the_fold_passes_by_what_it_does_not_know() -> None:
    story = Story()
    story.tell(ev.UnknownPayload())
    story.tell(ev.ProbeStopped(reason="r"))
    assert story.probe.resources == {} and story.probe.seq == 3


def test_the_fold_is_bounded() -> None:
    story = Story()
    for number in range(CLASSES_MAX + 5):
        story.attempt(f"class-{number}")
    assert len(story.state.used) == CLASSES_MAX and "class-0" not in story.state.used
    for number in range(CLASSES_MAX + 5):
        story.escalate(number, f"class-{number}")
    assert len(story.state.exhausted) == CLASSES_MAX and "class-0" not in story.state.exhausted
    for number in range(COMMANDS_MAX + 5):
        story.tell(
            ev.CommandHandled(
                command_id=f"c{number}", command="act", outcome="refused", reason="r", actor="a"
            )
        )
    assert len(story.probe.commands) == COMMANDS_MAX and "c0" not in story.probe.commands
    for number in range(ESCALATIONS_MAX + 5):
        story.escalate(number)
    assert len(story.probe.open_escalations) == ESCALATIONS_MAX


def test_an_escalation_is_open_until_all_were_told() -> None:
    story = Story()
    story.escalate(1)
    about = {"resource_id": "api", "escalation_id": "p:api:1"}
    story.tell(ev.EscalationDelivered(**about, outbox="file", complete=False))  # type: ignore[arg-type]
    assert story.probe.open_escalations["p:api:1"].told == ("file",)
    story.tell(ev.EscalationDelivered(**about, outbox="command", complete=True))  # type: ignore[arg-type]
    story.tell(ev.EscalationDelivered(**about, outbox="command", complete=False))  # type: ignore[arg-type]
    assert story.probe.open_escalations == {}


def test_a_launch_says_who_keeps_it_and_an_event_what_it_belongs_to() -> None:
    story = Story()
    launched = ev.ProcessLaunched(
        resource_id="api", keeper=OWNER, event_id="p:2", correlation_id="p:2", lease_epoch=1
    )
    story.tell(launched)
    assert (story.state.keeper, story.state.last_event_id, story.state.correlation_id) == (
        OWNER,
        "p:2",
        "p:2",
    )


def test_both_kinds_of_escalation_are_read_back_as_what_they_are() -> None:
    story = Story()
    story.escalate()
    of_probe = ev.ProbeEscalated(
        phase=Phase.FAILED, reason="r", escalation_id="e", limit="day_max", hint="h", retry_count=4
    )
    of_run = ev.Escalated(escalation_id="e", reason="r", hint="h")
    for fact in (of_probe, of_run):
        assert decode_payload(fact.TYPE, msgspec.json.encode(fact)) == fact


def test_the_document_says_where_everything_stands() -> None:
    story = Story()
    story.attempt()
    planned = ev.RecoveryPlanned(
        resource_id="api",
        action=Action.RESTART,
        fault_class="process_exited",
        phase=Phase.RECOVERING,
        reason="r",
        retry_count=2,
        backoff_seconds=90,
        wait_seconds=90,
    )
    event = Event(
        "probe:p", story.probe.seq + 1, story.now, planned.TYPE, planned, msgspec.json.encode(planned)
    )
    story.tell(planned)
    story.wait(10)
    document = probe_document(story.probe, story.now, running=True, pid=7)
    (api,) = document["resources"]
    assert api["retries"] == {"process_exited": 1} and api["planned"]["due_in_seconds"] == 80
    story.tell(
        ev.PhaseChanged(
            resource_id="api", phase=Phase.FAILED, previous=Phase.RUNNING, health=Health.UNHEALTHY, reason="r"
        )
    )
    (api,) = probe_document(story.probe, story.now, running=False, pid=None)["resources"]
    assert api["planned"] is None and api["since"] is not None
    line = probe_line(event)
    assert (line["type"], line["fault_class"], line["retry_count"]) == (
        "RecoveryPlanned",
        "process_exited",
        2,
    )


def test_a_fold_of_stored_events_is_the_state_they_were_made_from() -> None:
    story = Story()
    facts = [
        ev.RecoveryAttempted(
            resource_id="api", action=Action.RESTART, fault_class="c", phase=Phase.RECOVERING, reason="r"
        ),
        ev.BudgetReset(resource_id="api", automatic=True, reason="r"),
    ]
    stored = [
        Event(probe_stream("p"), number, START, fact.TYPE, fact, msgspec.json.encode(fact))
        for number, fact in enumerate(facts, 1)
    ]
    state = fold_probe("p", stored)
    assert state.seq == 2 and state.resources["api"].given_back_seq == 2
    assert len(state.resources["api"].used["c"]) == 1
    assert refusals_stream("p") != probe_stream("p") and story.probe.epoch == 1


def test_http_and_other_checks_name_their_faults() -> None:
    assert HttpCheck(url="http://h/").FAULT_CLASS == "http_unhealthy"
