"""What every gateway must do for probes. Subclass `GatewaySuite` in a test module that has a fixture `gateway`.

The fixture gives a running gateway: its `url`, the `token` that it accepts from probes and the one that it accepts from
people (they may be the same), the name of a `probe` that it has not heard of (nor of others that begin so), and
`restart`, which ends it and starts it again with all that it had acknowledged, at the same address.
"""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlencode, urlsplit

from recoup.model.probe_wire import (
    BODY_BYTES_MAX,
    COMMANDS_PATH,
    ESCALATIONS_PATH,
    EVENTS_AT_ONCE_MAX,
    EVENTS_PATH,
    PROBLEM_MEDIA_TYPE,
    PROBLEM_TYPE,
)

PROBE = "suite"
_PATIENCE_S = 20.0
_NOT_BATCHES = (
    b"",
    b"nonsense",
    b"[]",
    b"null",
    b"{}",
    b'{"probe_id": "suite", "lease_epoch": 1}',
    b'{"probe_id": "suite", "lease_epoch": 1, "events": [1]}',
    b'{"probe_id": "suite", "lease_epoch": 1, "events": [{}]}',
    b'{"probe_id": "suite", "lease_epoch": 0, "events": []}',
    b'{"probe_id": "suite", "lease_epoch": "1", "events": []}',
    b'{"probe_id": "../suite", "lease_epoch": 1, "events": []}',
    b'{"probe_id": "suite", "lease_epoch": 1, "events": [], "more": 1}',
    b'{"probe_id": "\xff", "lease_epoch": 1, "events": []}',
    b"[" * 100_000,
)


class GatewayUnderTest(Protocol):
    @property
    def url(self) -> str: ...

    @property
    def token(self) -> str: ...

    @property
    def people_token(self) -> str: ...

    @property
    def probe(self) -> str: ...

    async def restart(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Heard:
    """One answer."""

    status: int
    media_type: str
    headers: dict[str, str]
    document: Any
    """None: it is not JSON."""

    @property
    def code(self) -> str:
        return str(self.document["type"]).removeprefix(PROBLEM_TYPE)


def event(seq: int, epoch: int = 1, kind: str = "PhaseChanged", **more: Any) -> dict[str, Any]:
    """As a probe sends it."""
    return {
        "type": kind,
        "event_id": f"{PROBE}:{seq}",
        "resource_id": "api",
        "lease_epoch": epoch,
        "monotonic_seq": seq,
        "timestamp_unix": 1_800_000_000.25 + seq,
        "correlation_id": f"{PROBE}:{seq}",
        "causation_id": None,
        **more,
    }


def escalation(seq: int, escalation_id: str) -> dict[str, Any]:
    return event(
        seq,
        kind="Escalated",
        escalation_id=escalation_id,
        action="restart",
        fault_class="process_exited",
        retry_count=4,
        phase="failed",
        reason="it ended",
        result="escalated_to_gateway",
    )


def handled(seq: int, command_id: str, outcome: str = "accepted") -> dict[str, Any]:
    return event(seq, kind="CommandHandled", command_id=command_id, command="act restart", outcome=outcome)


def command(command_id: str, **more: Any) -> dict[str, Any]:
    return {
        "command_id": command_id,
        "action": "restart",
        "resource_id": "api",
        "reason": "somebody has looked at it",
        "desired_version": 1,
        "lease_epoch": 1,
        "deadline_unix": 1_900_000_000,
        **more,
    }


class GatewaySuite:
    # Events

    async def test_events_are_kept_in_order_and_acknowledged(self, gateway: GatewayUnderTest) -> None:
        sent = [event(1), event(2, note="é ✓ \u2028"), event(3, epoch=2)]
        assert await _sent(gateway, *sent, epoch=2) == 3
        assert await _kept(gateway) == sent
        assert await _kept(gateway, after=2) == sent[2:]

    async def test_a_batch_that_comes_again_is_seen_once(self, gateway: GatewayUnderTest) -> None:
        sent = [event(1), event(2)]
        for _ in range(3):
            assert await _sent(gateway, *sent) == 2
        assert await _kept(gateway) == sent

    async def test_of_a_batch_that_overlaps_only_the_rest_is_taken(self, gateway: GatewayUnderTest) -> None:
        assert await _sent(gateway, event(1), event(2)) == 2
        assert await _sent(gateway, event(2), event(3), event(4)) == 4
        assert await _sent(gateway, event(1)) == 4, "it says how far it is, whatever came"
        assert await _kept(gateway) == [event(number) for number in range(1, 5)]

    async def test_a_batch_that_comes_from_many_at_once_is_seen_once(self, gateway: GatewayUnderTest) -> None:
        sent = [event(number) for number in range(1, 21)]
        assert await asyncio.gather(*(_sent(gateway, *sent) for _ in range(5))) == [20] * 5
        assert await _kept(gateway) == sent

    async def test_an_empty_batch_asks_how_far_it_is(self, gateway: GatewayUnderTest) -> None:
        assert await _sent(gateway) == 0
        await _sent(gateway, event(1))
        assert await _sent(gateway) == 1

    async def test_a_gap_is_refused_with_what_is_missing(self, gateway: GatewayUnderTest) -> None:
        for kept, sent in ((0, 2), (1, 3)):
            heard = await _post(gateway, event(sent))
            assert (heard.status, heard.code) == (409, "gap")
            assert heard.document["expected_seq"] == kept + 1
            assert len(await _kept(gateway)) == kept
            await _sent(gateway, event(kept + 1))

    async def test_a_batch_out_of_order_is_refused_whole(self, gateway: GatewayUnderTest) -> None:
        wrong = (
            [event(1), event(3)],
            [event(2), event(1)],
            [event(1), event(1)],
            [event(1, epoch=2), event(2, epoch=1)],
            [event(1), event(2, epoch=3)],
        )
        for batch in wrong:
            heard = await _post(gateway, *batch, epoch=2)
            assert heard.status in (400, 409), batch
            _is_problem(heard)
        assert await _kept(gateway) == []

    async def test_who_has_lost_the_probe_is_refused(self, gateway: GatewayUnderTest) -> None:
        await _sent(gateway, event(1, epoch=1), event(2, epoch=2), epoch=2)
        heard = await _post(gateway, event(3, epoch=1), epoch=1)
        assert (heard.status, heard.code) == (409, "stale_epoch")
        assert (await _asked(gateway, epoch=1)).code == "stale_epoch"
        assert await _sent(gateway, event(1, epoch=1), event(2, epoch=2), event(3, epoch=2), epoch=3) == 3

    async def test_an_event_that_says_something_else_the_second_time_is_refused(
        self, gateway: GatewayUnderTest
    ) -> None:
        await _sent(gateway, event(1, reason="one"))
        same_place = await _post(gateway, event(1, reason="other"), event(2))
        same_id = await _post(gateway, {**event(2), "event_id": f"{PROBE}:1"})
        for heard in (same_place, same_id):
            assert (heard.status, heard.code) == (409, "conflict")
        assert await _kept(gateway) == [event(1, reason="one")]

    async def test_probes_do_not_disturb_each_other(self, gateway: GatewayUnderTest) -> None:
        await _sent(gateway, event(1), event(2), epoch=7)
        assert await _sent(gateway, event(1), probe=_other(gateway)) == 1
        assert len(await _kept(gateway)) == 2 and len(await _kept(gateway, probe=_other(gateway))) == 1

    async def test_the_largest_batch_is_taken(self, gateway: GatewayUnderTest) -> None:
        text = "x" * (BODY_BYTES_MAX // EVENTS_AT_ONCE_MAX - 500)
        sent = [event(number, reason=text) for number in range(1, EVENTS_AT_ONCE_MAX + 1)]
        assert await _sent(gateway, *sent) == EVENTS_AT_ONCE_MAX
        one_more = [event(EVENTS_AT_ONCE_MAX + 1 + number) for number in range(EVENTS_AT_ONCE_MAX + 1)]
        assert (await _post(gateway, *one_more)).status == 400

    async def test_what_was_acknowledged_is_there_after_a_restart(self, gateway: GatewayUnderTest) -> None:
        await _sent(gateway, event(1), escalation(2, "e-1"), handled(3, "c-1"), epoch=4)
        await _ordered(gateway, command("c-1"))
        await _ordered(gateway, command("c-2"))
        await gateway.restart()
        assert [one["monotonic_seq"] for one in await _kept(gateway)] == [1, 2, 3]
        assert await _escalations(gateway) == ["e-1"]
        assert await _waiting(gateway, epoch=4) == ["c-2"]
        assert (await _post(gateway, event(4), epoch=3)).code == "stale_epoch"

    # Escalations

    async def test_an_escalation_appears_exactly_once(self, gateway: GatewayUnderTest) -> None:
        first, second = escalation(1, "suite:api:1"), escalation(3, "suite:api:2")
        for _ in range(3):
            await _sent(gateway, first, event(2))
        assert await _escalations(gateway) == ["suite:api:1"]
        await asyncio.gather(*(_sent(gateway, event(2), second) for _ in range(3)))
        assert await _escalations(gateway) == ["suite:api:1", "suite:api:2"]

    async def test_an_escalation_that_is_told_twice_by_mistake_appears_once(
        self, gateway: GatewayUnderTest
    ) -> None:
        await _sent(gateway, escalation(1, "e-1"), escalation(2, "e-1"))
        assert await _escalations(gateway) == ["e-1"]

    # Commands

    async def test_a_command_is_sent_again_until_its_fate_is_known(self, gateway: GatewayUnderTest) -> None:
        await _ordered(gateway, command("c-1"))
        await _ordered(gateway, command("c-2"))
        for _ in range(2):
            heard = await _asked(gateway)
            assert heard.document == {"commands": [command("c-1"), command("c-2")]}
        await _sent(gateway, event(1), handled(2, "c-1"))
        assert await _waiting(gateway) == ["c-2"]
        await _sent(gateway, handled(3, "c-2", "refused"))
        assert await _waiting(gateway) == []

    async def test_a_command_that_is_given_twice_is_one(self, gateway: GatewayUnderTest) -> None:
        await _ordered(gateway, command("c-1"))
        await _ordered(gateway, command("c-1"))
        assert await _waiting(gateway) == ["c-1"]
        order = {"probe_id": gateway.probe, "command": command("c-1", action="rebind")}
        heard = await _heard(gateway, "POST", COMMANDS_PATH, order)
        assert (heard.status, heard.code) == (409, "conflict")
        await _sent(gateway, handled(1, "c-1"))
        await _ordered(gateway, command("c-1"))
        assert await _waiting(gateway) == [], "it was carried out before"

    async def test_commands_are_for_the_probe_that_they_name(self, gateway: GatewayUnderTest) -> None:
        await _ordered(gateway, command("c-1"))
        assert await _waiting(gateway, probe=_other(gateway)) == []
        await _sent(gateway, handled(1, "c-1"), probe=_other(gateway))
        assert await _waiting(gateway) == ["c-1"]

    async def test_who_waits_for_a_command_gets_it_at_once(self, gateway: GatewayUnderTest) -> None:
        async with asyncio.timeout(_PATIENCE_S):
            waiting = asyncio.create_task(_waiting(gateway, wait_s=2 * _PATIENCE_S))
            await asyncio.sleep(0.2)
            assert not waiting.done(), "there is nothing yet"
            await _ordered(gateway, command("c-1"))
            assert await waiting == ["c-1"]

    async def test_who_waits_in_vain_is_told_that_there_is_nothing(self, gateway: GatewayUnderTest) -> None:
        async with asyncio.timeout(_PATIENCE_S):
            assert await _waiting(gateway, wait_s=0.2) == []

    # Refusals

    async def test_without_the_token_nothing_is_told_and_nothing_taken(
        self, gateway: GatewayUnderTest
    ) -> None:
        for token in (None, "", "wrong", gateway.token + "x", gateway.token[:-1]):
            for method, path in _DOORS:
                heard = await _heard(gateway, method, path, {}, token=token)
                assert (heard.status, heard.headers.get("www-authenticate")) == (401, "Bearer")
                _is_problem(heard)
        assert await _kept(gateway) == []

    async def test_a_body_that_is_too_long_is_refused(self, gateway: GatewayUnderTest) -> None:
        long = json.dumps(
            {"probe_id": gateway.probe, "lease_epoch": 1, "events": [], "x": "x" * BODY_BYTES_MAX}
        )
        whole = await _heard(gateway, "POST", EVENTS_PATH, long.encode())
        in_pieces = await _heard(gateway, "POST", EVENTS_PATH, _pieces(long.encode()))
        for heard in (whole, in_pieces):
            assert heard.status == 413
            _is_problem(heard)
        assert await _sent(gateway, event(1)) == 1, "it goes on"

    async def test_what_is_no_batch_is_refused_with_a_reason(self, gateway: GatewayUnderTest) -> None:
        for body in _NOT_BATCHES:
            heard = await _heard(gateway, "POST", EVENTS_PATH, body)
            assert heard.status == 400, body[:80]
            _is_problem(heard)
        assert await _sent(gateway, event(1)) == 1, "it goes on"

    async def test_an_event_without_its_envelope_is_refused(self, gateway: GatewayUnderTest) -> None:
        for key in event(1):
            less = {name: value for name, value in event(1).items() if name != key}
            heard = await _post(gateway, less)
            assert heard.status == 400, key
            _is_problem(heard)
        assert await _kept(gateway) == []

    async def test_questions_that_make_no_sense_are_refused(self, gateway: GatewayUnderTest) -> None:
        asked = ("", "?probe_id=suite", "?lease_epoch=1", "?probe_id=suite&lease_epoch=x")
        for query in (*asked, "?probe_id=suite&lease_epoch=1&wait_s=-1"):
            heard = await _heard(gateway, "GET", COMMANDS_PATH + query)
            assert heard.status == 400, query
            _is_problem(heard)
        order = await _heard(gateway, "POST", COMMANDS_PATH, {"probe_id": gateway.probe, "command": {}})
        assert order.status == 400
        assert (await _heard(gateway, "DELETE", EVENTS_PATH)).status == 405


_DOORS = (
    ("POST", EVENTS_PATH),
    ("GET", f"{EVENTS_PATH}?probe_id={PROBE}"),
    ("GET", f"{COMMANDS_PATH}?probe_id={PROBE}&lease_epoch=1"),
    ("POST", COMMANDS_PATH),
    ("GET", ESCALATIONS_PATH),
)
_OWN = "its own"


def _other(gateway: GatewayUnderTest) -> str:
    return f"{gateway.probe}-other"


def _token(gateway: GatewayUnderTest, method: str, path: str) -> str:
    """Probes tell events and ask for commands; everything else is for people."""
    of_probes = (("POST", EVENTS_PATH), ("GET", COMMANDS_PATH), ("DELETE", EVENTS_PATH))
    return gateway.token if (method, urlsplit(path).path) in of_probes else gateway.people_token


async def _post(
    gateway: GatewayUnderTest, *events: dict[str, Any], epoch: int = 1, probe: str | None = None
) -> Heard:
    batch = {"probe_id": probe or gateway.probe, "lease_epoch": epoch, "events": list(events)}
    return await _heard(gateway, "POST", EVENTS_PATH, batch)


async def _sent(
    gateway: GatewayUnderTest, *events: dict[str, Any], epoch: int = 1, probe: str | None = None
) -> int:
    """How far the gateway says that it has followed."""
    heard = await _post(gateway, *events, epoch=epoch, probe=probe)
    assert heard.status == 200, heard
    return int(heard.document["acknowledged_seq"])


async def _kept(gateway: GatewayUnderTest, after: int = 0, probe: str | None = None) -> list[dict[str, Any]]:
    query = urlencode({"probe_id": probe or gateway.probe, "after": after})
    heard = await _heard(gateway, "GET", f"{EVENTS_PATH}?{query}")
    assert heard.status == 200, heard
    return list(heard.document["events"])


async def _escalations(gateway: GatewayUnderTest) -> list[str]:
    heard = await _heard(gateway, "GET", ESCALATIONS_PATH)
    assert heard.status == 200, heard
    return [one["escalation_id"] for one in heard.document["escalations"] if one["probe_id"] == gateway.probe]


async def _ordered(gateway: GatewayUnderTest, wanted: dict[str, Any]) -> None:
    heard = await _heard(gateway, "POST", COMMANDS_PATH, {"probe_id": gateway.probe, "command": wanted})
    assert heard.status in (200, 201), heard


async def _asked(
    gateway: GatewayUnderTest, *, epoch: int = 1, probe: str | None = None, wait_s: float = 0
) -> Heard:
    query = urlencode({"probe_id": probe or gateway.probe, "lease_epoch": epoch, "wait_s": wait_s})
    return await _heard(gateway, "GET", f"{COMMANDS_PATH}?{query}")


async def _waiting(
    gateway: GatewayUnderTest, *, epoch: int = 1, probe: str | None = None, wait_s: float = 0
) -> list[str]:
    heard = await _asked(gateway, epoch=epoch, probe=probe, wait_s=wait_s)
    assert heard.status == 200, heard
    return [one["command_id"] for one in heard.document["commands"]]


async def _heard(
    gateway: GatewayUnderTest,
    method: str,
    path: str,
    body: dict[str, Any] | bytes | Iterator[bytes] | None = None,
    token: str | None = _OWN,
) -> Heard:
    sent = json.dumps(body).encode() if isinstance(body, dict) else body
    bearer = _token(gateway, method, path) if token == _OWN else token
    return await asyncio.to_thread(_exchange, gateway.url, method, path, sent, bearer)


def _exchange(
    url: str, method: str, path: str, body: bytes | Iterator[bytes] | None, token: str | None
) -> Heard:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=3 * _PATIENCE_S)
    headers = {"Content-Type": "application/json"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    try:
        with suppress(BrokenPipeError):  # it was answered before everything was sent
            chunked = body is not None and not isinstance(body, bytes)
            connection.request(method, parts.path + path, body, headers, encode_chunked=chunked)
        response = connection.getresponse()
        raw, media_type = response.read(), response.headers.get_content_type()
        heard = {name.lower(): value for name, value in response.getheaders()}
        return Heard(response.status, media_type, heard, json.loads(raw) if "json" in media_type else None)
    finally:
        connection.close()


def _pieces(body: bytes) -> Iterator[bytes]:
    """Without saying how long it is."""
    for start in range(0, len(body), 1 << 16):
        yield body[start : start + (1 << 16)]


def _is_problem(heard: Heard) -> None:
    assert heard.media_type == PROBLEM_MEDIA_TYPE, heard
    assert heard.document["status"] == heard.status
    assert heard.document["title"] and heard.document["detail"], heard
