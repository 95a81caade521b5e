"""What a probe's token can send and nobody else's pages may suffer from: wrong types, and floods for the inbox."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.integration.near_gateway import Near, near_gateway

from recoup.gateway.access import Role
from recoup.kernel.escalations import OPEN_OF_SENDER_MAX
from recoup.kernel.probe_events import wrong_field
from recoup.model.events import ProbeReported
from recoup.model.ids import reported_stream
from recoup.testing.gateway_suite import escalation, event

WRONG: tuple[tuple[str, str, Any], ...] = (
    ("RecoveryAttempted", "retry_count", "x"),
    ("RecoveryAttempted", "retry_count", -1),
    ("RecoveryAttempted", "retry_count", 1.5),
    ("RecoveryAttempted", "fault_class", {"a": 1}),
    ("RecoveryPlanned", "backoff_seconds", "soon"),
    ("RecoveryPlanned", "wait_seconds", []),
    ("PhaseChanged", "phase", 3),
    ("PhaseChanged", "health", {}),
    ("Escalated", "reason", 5),
    ("Escalated", "escalation_id", 5),
    ("BudgetReset", "automatic", "yes"),
    ("ChannelDowngraded", "from", 1),
    ("CommandHandled", "command_id", []),
    ("CommandHandled", "desired_version", True),
)
PAGES = ("/", "/probes", "/probes/far", "/escalations", "/audit", "/api/probe/events?probe_id=far&after=0")


def batch(*events: dict[str, Any], probe_id: str = "far") -> dict[str, Any]:
    return {"probe_id": probe_id, "lease_epoch": 1, "events": events}


@pytest.mark.parametrize(("kind", "field", "value"), WRONG)
async def test_a_value_of_a_wrong_type_is_refused_with_the_name_of_its_field(
    tmp_path: Path, kind: str, field: str, value: Any
) -> None:
    async with near_gateway(tmp_path) as near:
        sent = batch(event(1, kind=kind) | {field: value})
        answer = await near.post("/api/probe/events", sent, Role.PROBE)
        assert answer.status_code == 422 and answer.json()["type"] == "urn:recoup:problem:invalid"
        assert f"`{field}`" in answer.json()["detail"]
        assert await near.app.ledger.head(reported_stream("far")) == 0


async def test_events_of_newer_and_older_probes_are_taken(tmp_path: Path) -> None:
    new = event(1, kind="MoonPhaseChanged", retry_count="many")
    more = event(2, kind="PhaseChanged", phase="hibernating", moon={"phase": 1})
    async with near_gateway(tmp_path) as near:
        answer = await near.post("/api/probe/events", batch(new, more), Role.PROBE)
        assert answer.json() == {"acknowledged_seq": 2}


async def test_wrong_values_that_were_stored_before_are_rows_that_say_so(tmp_path: Path) -> None:
    async with near_gateway(tmp_path) as near:
        right = event(1, kind="RecoveryAttempted", retry_count=3, fault_class="process_exited")
        wrong = [event(n, kind=kind) | {field: value} for n, (kind, field, value) in enumerate(WRONG, 2)]
        facts = [ProbeReported(sender_epoch=1, digest="sha256:1", event=one) for one in (right, *wrong)]
        await near.keep(reported_stream("far"), *facts)
        for path in PAGES:
            answer = await near.get(path)
            assert answer.status_code == 200, path
        page = (await near.get("/probes/far")).text
        assert page.count("unreadable: ") == len(WRONG)
        assert "process exited</bdi>: 3" in page, "what can be read counts"


def test_every_type_of_field_that_an_event_of_a_probe_has_is_checked() -> None:
    for kind, field, value in WRONG:
        assert (wrong_field({"type": kind, field: value}) or "").startswith(f"`{field}`")
        assert wrong_field({"type": kind, field: None}) is None and wrong_field({"type": kind}) is None


# The inbox


async def test_a_flood_of_one_token_fills_the_inbox_up_to_a_limit_and_the_rest_is_counted(
    tmp_path: Path,
) -> None:
    async with near_gateway(tmp_path) as near:
        await flood(near, "far", 300)
        await flood(near, "near", 20)
        rows = await near.app.ledger.inbox(limit=500)
        assert len(rows) == OPEN_OF_SENDER_MAX
        last = (await near.get(f"/api/escalations/{rows[-1].id}")).json()
        assert last["merged"] == 320 - OPEN_OF_SENDER_MAX
        assert [one["change"] for one in last["history"]] == ["merged", "merged"]
        assert f"{320 - OPEN_OF_SENDER_MAX} more" in (await near.get(f"/escalations/{rows[-1].id}")).text
        assert await near.app.ledger.head(reported_stream("far")) == 300, "every event is kept"


async def test_a_resolved_entry_makes_room_for_the_next_one(tmp_path: Path) -> None:
    async with near_gateway(tmp_path) as near:
        await flood(near, "far", OPEN_OF_SENDER_MAX + 1)
        done = await near.post("/api/escalations/far~e-1/resolve", {"reason": "fixed"})
        assert done.status_code == 200
        sent = batch(escalation(OPEN_OF_SENDER_MAX + 2, "later"))
        await near.post("/api/probe/events", sent, Role.PROBE)
        assert (await near.get("/api/escalations/far~later")).status_code == 200


async def test_a_limit_of_one_token_keeps_no_other_probe_out(tmp_path: Path) -> None:
    async with near_gateway(tmp_path) as near:
        await flood(near, "far", OPEN_OF_SENDER_MAX + 5)
        near.tokens[Role.PROBE] = near.house.book.make(Role.PROBE, "other", "now")
        await flood(near, "other", 1)
        assert (await near.get("/api/escalations/other~e-1")).status_code == 200


async def flood(near: Near, probe_id: str, count: int) -> None:
    events = [escalation(n, f"e-{n}") for n in range(1, count + 1)]
    answer = await near.post("/api/probe/events", batch(*events, probe_id=probe_id), Role.PROBE)
    assert answer.json() == {"acknowledged_seq": count}
