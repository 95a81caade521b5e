"""Probes in words and in a table, for people who watch."""

from __future__ import annotations

import msgspec
import pytest

from recoup.cli.probe_live import _Table, status_lines, words_of
from recoup.model import events as ev
from recoup.model.events import Event
from recoup.model.ids import ProcessIdentity
from recoup.model.instant import Instant
from recoup.model.probe import Action, Health, Phase, ProbeConfig, ProcessKind, Resource
from recoup.terminal.screen import Size

AT = Instant(1_800_000_000_000_000, 1, "boot")
WHO = ProcessIdentity("host", "boot", 7, 9)
RECOVERY = {"resource_id": "api", "action": Action.RESTART, "phase": Phase.RECOVERING, "reason": "exit 1"}
CHANGED = ev.PhaseChanged(
    resource_id="api",
    phase=Phase.RECOVERING,
    previous=Phase.RUNNING,
    health=Health.UNHEALTHY,
    reason="exit 1",
)
PLANNED = ev.RecoveryPlanned(**RECOVERY, retry_count=2, wait_seconds=90)  # type: ignore[arg-type]
ATTEMPTED = ev.RecoveryAttempted(**RECOVERY, retry_count=2, manual=True, actor="ada")  # type: ignore[arg-type]


def event(payload: ev.Payload) -> Event:
    return Event("probe:p", 1, AT, payload.TYPE, payload, msgspec.json.encode(payload))


@pytest.mark.parametrize(
    ("payload", "words"),
    [
        (CHANGED, "api: recovering, unhealthy: exit 1"),
        (PLANNED, "api: restart in 1 min 30 s (retry 2): exit 1"),
        (ATTEMPTED, "api: restart for ada (retry 2): exit 1"),
        (ev.RecoveryFailed(**RECOVERY), "api: restart did not help: exit 1"),  # type: ignore[arg-type]
        (ev.RecoverySucceeded(**RECOVERY), "api: restart helped: exit 1"),  # type: ignore[arg-type]
        (
            ev.ProbeEscalated(**RECOVERY, retry_count=4, escalation_id="e", limit="max_retries", hint="h"),  # type: ignore[arg-type]
            "api: handed over at retry 4 (max_retries): exit 1",
        ),
        (ev.ProcessLaunched(resource_id="api", keeper=WHO), "api: kept by process 7"),
        (
            ev.ChannelDowngraded(
                resource_id="t", from_mode="a", to_mode="b", reason_code="c", reason="r", fault_class="f"
            ),
            "t: from a to b: r",
        ),
        (ev.BudgetReset(resource_id="api", automatic=False, reason="r", actor="ada"), "given back by ada: r"),
        (ev.BudgetReset(resource_id="api", automatic=True, reason="r"), "api: retries given back: r"),
        (
            ev.EscalationDelivered(resource_id="api", escalation_id="e", outbox="file", complete=True),
            "file was told of e",
        ),
        (ev.ActionRefused(asked="kill", rule="x", reason="no", source="ada"), "ada: no"),
        (
            ev.CommandHandled(
                resource_id="api",
                command_id="c",
                command="act restart",
                outcome="refused",
                reason="no",
                actor="a",
            ),
            "api: act restart refused: no",
        ),
        (
            ev.CommandHandled(
                resource_id="",
                command_id="c",
                command="act restart",
                outcome="refused",
                reason="no",
                actor="a",
            ),
            "act restart refused: no",
        ),
        (ev.ProbeStarted(owner=WHO, config_digest="d", resources=1), "1 resource, process 7"),
        (ev.ProbeStarted(owner=WHO, config_digest="d", resources=3), "3 resources, process 7"),
        (ev.ProbeStopped(reason="told to stop"), "told to stop"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.TYPE,
)
def test_every_fact_has_words(payload: ev.Payload, words: str) -> None:
    said = words_of(event(payload))
    assert words in said and not said.startswith(":")


def test_the_table_shows_what_is_in_trouble_first_and_when_something_is_due() -> None:
    kind = ProcessKind(command=("x",))
    config = ProbeConfig(
        id="p", folder="/", resources=(Resource(id="other", kind=kind), Resource(id="api", kind=kind))
    )
    table = _Table(config)
    table.event(event(CHANGED))
    table.event(event(PLANNED))
    first = table._shown(10)[0]
    assert (first.name, first.phase, first.retries) == ("api", "recovering", 2)
    assert first.why().startswith("in 1 min") and "exit 1" in first.why()
    table.event(event(ATTEMPTED))
    assert first.why() == "restart: exit 1"
    table.event(event(ev.BudgetReset(resource_id="api", automatic=True, reason="r")))
    table.event(event(ev.ProbeStopped(reason="r")))
    assert first.retries == 0 and len(table._drawn(Size(80, 24))) == 4


def test_the_status_says_who_runs_it_what_is_used_and_what_waits() -> None:
    resource = {
        "resource_id": "api",
        "phase": "recovering",
        "health": "unhealthy",
        "reason": "exit 1",
        "retries": {"process_exited": 2, "http_unhealthy": 0},
        "planned": {"action": "restart", "due_in_seconds": 61.0},
    }
    document = {"probe": "p", "running": True, "pid": 7, "resources": [resource], "open_escalations": ["e"]}
    lines = list(status_lines(document))
    assert lines[0] == "probe p: running as process 7"
    assert "restart in 1 min 01 s" in lines[1] and "retries: process_exited 2" in lines[1]
    assert "http_unhealthy" not in lines[1] and lines[2].endswith("e")
    assert next(status_lines({**document, "running": False})) == "probe p: not running"
