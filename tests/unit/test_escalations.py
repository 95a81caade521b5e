"""The inbox, as pure rules."""

from __future__ import annotations

import pytest

from recoup.kernel.escalations import (
    ACKNOWLEDGE,
    ASSIGN,
    RESOLVE,
    STATES,
    escalation_document,
    history,
    inbox_id,
    merged_count,
    raised,
    refuse_move,
)
from recoup.model import events as ev
from recoup.model.events import Event
from recoup.model.instant import Instant
from recoup.model.probe import Phase
from recoup.model.redacted import restored
from recoup.model.storage import EscalationRow

BODY = restored(b'{"escalationId": "e", "reason": "look"}')


def row(state: str = "open", stream: str = "run:r", body: bytes = BODY.data) -> EscalationRow:
    assignee = "bob" if state == "assigned" else None
    return EscalationRow(1, "e", stream, "look", restored(body), state, assignee, 0)


def reported(**event: object) -> ev.ProbeReported:
    return ev.ProbeReported(sender_epoch=1, digest="d", event=event)


def test_escalations_of_runs_and_probes_are_raised_under_their_own_names() -> None:
    of_run = raised("run:r", ev.Escalated(escalation_id="e", reason="look", hint=""), BODY)
    assert of_run is not None and (of_run.id, of_run.stream, of_run.reason) == ("e", "run:r", "look")
    own = ev.ProbeEscalated(escalation_id="dev:api:1", phase=Phase.FAILED, reason="x", limit="final", hint="")
    assert (made := raised("probe:dev", own, BODY)) is not None and made.id == "dev:api:1"


def test_what_a_probe_elsewhere_reports_is_raised_under_its_probes_name() -> None:
    told = reported(type="Escalated", escalation_id="e-1", reason=7)
    made = raised("reported:dev", told, BODY)
    assert made is not None and (made.id, made.reason) == ("dev~e-1", "")
    assert (made := raised("reported:far", reported(type="Escalated", escalation_id="e-1", reason="x"), BODY))
    assert (made.id, made.reason) == ("far~e-1", "x")
    odd = inbox_id("dev", "any / name?")
    assert odd.startswith("dev~") and "/" not in odd and odd != inbox_id("dev", "any / other?")


def test_other_events_raise_nothing() -> None:
    assert raised("run:r", ev.UnknownPayload(), BODY) is None
    assert raised("reported:dev", reported(type="PhaseChanged", escalation_id="e"), BODY) is None
    assert raised("reported:dev", reported(type="Escalated", escalation_id=1), BODY) is None


@pytest.mark.parametrize(
    ("move", "from_states"),
    [(ACKNOWLEDGE, STATES[:1]), (ASSIGN, STATES[:3]), (RESOLVE, STATES[:3])],
)
def test_what_is_resolved_stays_so_and_an_acknowledgement_comes_first(
    move: str, from_states: tuple[str, ...]
) -> None:
    assert [state for state in STATES if refuse_move(row(state), move) is None] == list(from_states)
    assert "to bob" in (refuse_move(row("assigned"), ACKNOWLEDGE) or "")


def test_a_document_says_whose_it_is() -> None:
    of_run = escalation_document(row())
    assert (of_run.source, of_run.run_id, of_run.probe_id) == ("run", "r", None)
    elsewhere = escalation_document(row(stream="reported:dev", body=b'{"event": {"escalation_id": "e-1"}}'))
    assert (elsewhere.source, elsewhere.run_id, elsewhere.probe_id) == ("probe", None, "dev")
    assert elsewhere.escalation_id == "e-1" and elsewhere.event == {"escalation_id": "e-1"}
    own = escalation_document(row(stream="probe:dev", body=b'{"escalation_id": "dev:api:1"}'))
    assert (own.probe_id, own.escalation_id) == ("dev", "dev:api:1")


@pytest.mark.parametrize("body", [b"\xff", b"[]", b"{", b"{}"])
def test_a_damaged_copy_of_its_event_says_so(body: bytes) -> None:
    document = escalation_document(row(stream="reported:dev", body=body))
    assert document.event["unreadable"]
    assert document.probe_id == "dev"


def test_its_history_is_what_people_did() -> None:
    assigned = ev.EscalationAssigned(escalation_id="e", by="ada", reason="hers", assignee="bea")
    told = [Event("escalation:e", 1, Instant(0, 0, ""), assigned.TYPE, assigned, b"{}")]
    told.append(Event("escalation:e", 2, Instant(0, 0, ""), "later", ev.UnknownPayload(), b"{}"))
    ((one),) = history(told)
    assert (one.change, one.by, one.assignee) == ("assigned", "ada", "bea")


def test_an_entry_counts_how_many_more_it_stands_for() -> None:
    merged = [ev.EscalationMerged(escalation_id="e", by="p", reason="again", count=count) for count in (2, 3)]
    told = [
        Event("escalation:e", seq, Instant(0, 0, ""), one.TYPE, one, b"{}")
        for seq, one in enumerate(merged, 1)
    ]
    assert (
        merged_count([*told, Event("escalation:e", 3, Instant(0, 0, ""), "x", ev.UnknownPayload(), b"{}")])
        == 5
    )
