"""What a gateway takes from probes, as pure rules."""

from __future__ import annotations

from typing import Any

import pytest

from recoup.kernel import reports
from recoup.kernel.reports import (
    Commands,
    Refusal,
    Reports,
    Told,
    advance_commands,
    advance_reports,
    foreign,
    judge_batch,
    judge_order,
)
from recoup.model import events as ev
from recoup.model.events import Event, Payload
from recoup.model.ids import commands_stream, probe_stream, reported_stream, senders_stream
from recoup.model.instant import Instant
from recoup.model.probe_wire import Envelope

AT = Instant(0, 0, "boot")


def told(seq: int, epoch: int = 1, digest: str = "", event_id: str = "") -> Told:
    envelope = Envelope(
        type="PhaseChanged",
        event_id=event_id or f"p:{seq}",
        resource_id="",
        lease_epoch=epoch,
        monotonic_seq=seq,
        timestamp_unix=0,
        correlation_id="",
        causation_id=None,
    )
    return Told(envelope, digest or f"d{seq}", {"event_id": envelope.event_id, "lease_epoch": epoch})


def stored(seq: int, payload: Payload) -> Event:
    return Event("s", seq, AT, payload.TYPE, payload, b"{}")


def kept(count: int, epoch: int = 1) -> Reports:
    made = Reports(ids={})
    for seq in range(1, count + 1):
        one = told(seq, epoch)
        payload = ev.ProbeReported(sender_epoch=epoch, digest=one.digest, event=one.event)
        advance_reports(made, stored(seq, payload))
    return made


def judged(have: Reports, *batch: Told, epoch: int = 1, sender: int = 1) -> Any:
    digests = {seq: f"d{seq}" for seq in range(1, have.seq + 1)}
    return judge_batch(have, epoch, sender, batch, digests)


def test_what_is_new_is_taken_and_what_is_kept_is_passed_by() -> None:
    assert judged(kept(2), told(2), told(3), told(4)) == [told(3), told(4)]
    assert judged(kept(2)) == [] and judged(kept(2), told(1)) == []


@pytest.mark.parametrize(
    ("batch", "code"),
    [
        ([told(4)], "gap"),
        ([told(3), told(5)], "order"),
        ([told(3, epoch=2)], "order"),
        ([told(3, epoch=1), told(4, epoch=0)], "order"),
        ([told(3, epoch=0)], "order"),
        ([told(2, digest="other")], "conflict"),
        ([told(3, event_id="p:1")], "conflict"),
        ([told(3, event_id="x"), told(4, event_id="x")], "conflict"),
    ],
)
def test_what_does_not_follow_or_contradicts_is_refused(batch: list[Told], code: str) -> None:
    refusal = judged(kept(2), *batch)
    assert isinstance(refusal, Refusal) and refusal.code == code
    assert refusal.expected_seq == (3 if code == "gap" else None)


def test_who_speaks_from_an_earlier_epoch_is_refused_whatever_they_say() -> None:
    refusal = judged(kept(2), told(3), epoch=2, sender=1)
    assert isinstance(refusal, Refusal) and refusal.code == "stale_epoch"


def test_a_probe_belongs_to_the_token_that_spoke_for_it_first() -> None:
    assert foreign(None, "t-1") is None and foreign("t-1", "t-1") is None
    for other in ("t-2", None):
        refusal = foreign("t-1", other)
        assert refusal is not None and (refusal.status, refusal.code) == (403, "role")


def test_only_the_ids_of_the_last_events_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "IDS_KEPT", 3)
    have = kept(5)
    assert list(have.ids) == ["p:3", "p:4", "p:5"]
    advance_reports(have, stored(5, ev.UnknownPayload()))
    advance_reports(have, stored(6, ev.UnknownPayload()))
    assert have.seq == 6 and len(have.ids) == 3


def ordered(name: str, digest: str = "d") -> ev.ProbeCommandOrdered:
    return ev.ProbeCommandOrdered(command_id=name, digest=digest, command={"is": name}, by="ada", reason="x")


def handled(name: str) -> ev.ProbeCommandHandled:
    return ev.ProbeCommandHandled(command_id=name, outcome="accepted", monotonic_seq=1)


def folded(*payloads: Payload) -> Commands:
    made = Commands(waiting={}, known={})
    for seq, payload in enumerate(payloads, 1):
        advance_commands(made, stored(seq, payload))
        advance_commands(made, stored(seq, payload))
    return made


def test_a_command_waits_until_the_probe_has_answered() -> None:
    commands = folded(ordered("a"), ordered("b"), ordered("b"), handled("a"), ev.UnknownPayload())
    assert commands.waiting == {"b": {"is": "b"}}
    assert folded(handled("a"), ordered("a")).waiting == {}, "it was carried out before"


def test_the_same_id_means_the_same_command() -> None:
    commands = folded(ordered("a"), handled("b"))
    assert judge_order(commands, "a", "d") is None and judge_order(commands, "b", "any") is None
    refusal = judge_order(commands, "a", "other")
    assert refusal is not None and refusal.code == "conflict"


def test_the_commands_of_a_probe_have_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "COMMANDS_WAITING_MAX", 2)
    monkeypatch.setattr(reports, "COMMANDS_KNOWN_MAX", 3)
    commands = folded(ordered("a"), ordered("b"))
    refusal = judge_order(commands, "c", "d")
    assert refusal is not None and refusal.code == "full"
    assert judge_order(commands, "a", "d") is None
    later = folded(ordered("a"), *(handled(name) for name in ("b", "c", "d")))
    assert list(later.known) == ["a", "c", "d"], "one that waits is never forgotten"


def test_each_part_of_a_probe_elsewhere_has_a_stream_of_its_own() -> None:
    streams = {reported_stream("p"), senders_stream("p"), commands_stream("p"), probe_stream("p")}
    assert streams == {"reported:p", "senders:p", "commands:p", "probe:p"}
