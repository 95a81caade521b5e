"""What passes between a probe and its gateway (recoup.kernel.probe_gateway): words, commands and pauses."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recoup.kernel.probe_gateway import (
    ASKED,
    RETRIES,
    TEXT_MAX,
    TOLD_S_MAX,
    Unreadable,
    again_s,
    event_line,
    fitting,
    pause_s,
    read_command,
    refuse_address,
)
from recoup.model import events as ev
from recoup.model.events import Event
from recoup.model.instant import Instant
from recoup.model.probe import Action, CommandKind
from recoup.model.probe_wire import Envelope, Problem

GOOD: dict[str, Any] = {
    "command_id": "c-1",
    "action": "restart",
    "resource_id": "api",
    "reason": "new certificate",
    "desired_version": 3,
    "lease_epoch": 2,
    "deadline_unix": 1_800_000_000,
}
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def fact(reason: str) -> Event:
    payload = ev.ActionRefused(
        event_id="p:7",
        lease_epoch=2,
        monotonic_seq=7,
        timestamp_unix=1.5,
        correlation_id="p:7",
        asked="scale",
        rule="desired_state",
        reason=reason,
        source="gateway",
    )
    return Event(
        "probe:p", 7, Instant(1_500_000, 1, "boot"), payload.TYPE, payload, msgspec.json.encode(payload)
    )


# Commands


def test_a_command_keeps_everything_that_it_is_checked_against() -> None:
    command, refused = read_command({**GOOD, "actor": "ada", "fault_class": "tcp_unreachable"})
    assert refused is None
    assert (command.command_id, command.kind, command.action) == ("c-1", CommandKind.ACT, "restart")
    assert (command.resource_id, command.reason, command.actor) == ("api", "new certificate", "gateway: ada")
    assert (command.desired_version, command.lease_epoch, command.deadline_unix) == (3, 2, 1_800_000_000)
    assert command.by_gateway and command.fault_class == "tcp_unreachable"


def test_the_five_actions_and_the_way_back_are_all_that_can_be_asked_for() -> None:
    assert ASKED.keys() == {*Action, "restore_primary"}
    for asked in ASKED:
        command, refused = read_command({**GOOD, "action": asked})
        assert refused is None
        restores = asked == "restore_primary"
        assert (command.kind == CommandKind.RESTORE_MODE, command.action is None) == (restores, restores)


@pytest.mark.parametrize(
    ("asked", "rule"),
    [
        ("move_to_host", "host_placement"),
        ("reroute", "stable_route"),
        ("scale", "desired_state"),
        ("bypass_approval", "platform_approval"),
        ("terminate", "silent_termination"),
        ("archive", "silent_termination"),
        ("reset_budget", "allowed_actions"),
        ("Restart", "allowed_actions"),
        ("act", "allowed_actions"),
        ("x" * 1_001, "allowed_actions"),
    ],
)
def test_another_action_is_refused_by_the_rule_that_forbids_it(asked: str, rule: str) -> None:
    command, refused = read_command({**GOOD, "action": asked})
    assert refused is not None and refused.rule == rule
    assert rule in refused.reason and len(refused.reason) < 300
    assert command.command_id == "c-1" and command.action not in ASKED


@pytest.mark.parametrize(
    ("key", "rule"),
    [
        ("host_placement", "host_placement"),
        ("workspace_id", "stable_route"),
        ("agent_id", "stable_route"),
        ("desired_state", "desired_state"),
        ("skip_approval", "platform_approval"),
        ("silent_termination", "silent_termination"),
        ("note", "malformed_command"),
        ("k" * 500, "malformed_command"),
    ],
)
def test_a_key_that_asks_for_more_is_refused_beside_a_good_action(key: str, rule: str) -> None:
    _command, refused = read_command({**GOOD, key: "x"})
    assert refused is not None and refused.rule == rule and len(refused.reason) < 300


@pytest.mark.parametrize(
    "wrong",
    [
        {"action": None},
        {"action": ""},
        {"action": 5},
        {"resource_id": "a b"},
        {"resource_id": None},
        {"reason": ""},
        {"reason": "x" * 1_001},
        {"desired_version": None},
        {"desired_version": True},
        {"desired_version": -1},
        {"lease_epoch": "2"},
        {"deadline_unix": None},
        {"deadline_unix": float("nan")},
        {"deadline_unix": 10**400},
        {"deadline_unix": True},
        {"actor": 7},
        {"fault_class": "a secret word"},
    ],
)
def test_a_command_that_lacks_something_is_refused_and_still_has_its_id(wrong: dict[str, Any]) -> None:
    command, refused = read_command({**GOOD, **wrong})
    (key,) = wrong
    assert refused is not None and refused.rule == "malformed_command" and f"`{key}`" in refused.reason
    assert command.command_id == "c-1" and command.lease_epoch is None


@pytest.mark.parametrize("command_id", [None, "", 5, "a b", "x" * 101, "a\n"])
def test_without_an_id_nothing_can_be_answered(command_id: object) -> None:
    with pytest.raises(Unreadable):
        read_command({**GOOD, "command_id": command_id})


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from([*GOOD, "actor", "fault_class", "route"]) | st.text(), anything))
def test_whatever_is_sent_is_read_as_one_of_the_few_or_refused(said: dict[str, Any]) -> None:
    command, refused = read_command({**said, "command_id": "c-1"})
    if refused is None:
        assert said["action"] in ASKED and said.keys() <= {*GOOD, "actor", "fault_class"}
        assert None not in (command.desired_version, command.lease_epoch, command.deadline_unix)


# Addresses


@pytest.mark.parametrize(
    "url",
    [
        "https://gateway.example",
        "https://gateway.example:8443/team",
        "http://127.0.0.1:8620",
        "http://[::1]:8620",
        "http://localhost/",
    ],
)
def test_a_token_may_go_where_nobody_can_read_it(url: str) -> None:
    assert refuse_address(url) is None


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://gateway.example", "neither https nor on this machine"),
        ("http://10.0.0.1:8620", "neither https nor on this machine"),
        ("http://127.0.0.1.example", "neither https nor on this machine"),
        ("https://ada:pw@gateway.example", "RECOUP_TOKEN"),
        ("https://gateway.example/?token=x", "RECOUP_TOKEN"),
        ("ftp://gateway.example", "begins with https"),
        ("https://", "begins with https"),
        ("https://gateway.example:port", "not an address"),
    ],
)
def test_a_token_goes_nowhere_else(url: str, why: str) -> None:
    assert why in (refuse_address(url) or "")


# Words


def test_a_line_is_the_event_as_it_is_stored_with_its_type() -> None:
    event = fact("because")
    line = msgspec.json.decode(event_line(event))
    assert line == {"type": "ActionRefused", **msgspec.json.decode(event.raw)}
    assert msgspec.convert(line, Envelope).monotonic_seq == 7


@given(st.text(max_size=100), st.integers(0, 3 * TEXT_MAX))
def test_a_line_is_short_and_the_same_every_time(text: str, count: int) -> None:
    event = fact(text + "x" * count)
    line = event_line(event)
    assert line == event_line(event) and len(line) < 8 * TEXT_MAX
    said = msgspec.json.decode(line)["reason"]
    assert said == text + "x" * count or (len(said) == TEXT_MAX and said.endswith("…"))


@given(st.lists(st.integers(0, 50), min_size=1), st.integers(1, 200))
def test_as_many_lines_are_taken_as_fit_and_one_in_any_case(sizes: list[int], room: int) -> None:
    lines = [b"x" * size for size in sizes]
    count = fitting(lines, room)
    assert 1 <= count <= len(lines)
    assert count == 1 or sum(map(len, lines[:count])) + count <= room
    assert count == len(lines) or sum(map(len, lines[: count + 1])) + count + 1 > room


# Pauses


@given(st.integers(1, 1_000), st.floats(0, 1), st.none() | st.floats(0, 1e9))
def test_pauses_grow_to_a_minute_and_are_only_lengthened(
    failed: int, chance: float, told_s: float | None
) -> None:
    pause = pause_s(failed, chance, told_s)
    delay = RETRIES.delays_s[min(failed, 6) - 1]
    assert delay <= pause <= max(delay * 1.2, TOLD_S_MAX)
    assert told_s is None or pause >= min(told_s, TOLD_S_MAX)
    assert pause_s(failed, 0) == delay


def test_a_command_is_asked_for_soon_after_the_one_before_it_and_nobody_is_asked_without_end() -> None:
    assert again_s(0) == 0
    assert again_s(1) <= 0.1, "the one before it is sent again, as what became of it is on its way"
    assert sum(again_s(in_vain) for in_vain in range(1, 1_001)) > 990, "a gateway that never waits itself"


def test_a_problem_has_our_code_or_none() -> None:
    assert Problem(type="urn:recoup:problem:gap").code == "gap"
    assert Problem().code == "" and Problem(type="https://else.where/gap").code == ""
