"""Metrics of real runs over real sockets, and that no sink, however sick, delays a step."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from recoup.errors import SettingsError
from recoup.metrics.collector import Metrics
from recoup.metrics.measures import DURATION, Measurement
from recoup.metrics.opening import open_metrics
from recoup.metrics.resolver import Address, Resolver, look_up
from recoup.metrics.statsd import PACKET_BYTES_MAX, PACKETS_MAX, StatsdSink
from recoup.metrics.statsd_lines import Flavour
from recoup.model.events import Event
from recoup.model.failure import FailureKind
from recoup.model.run import RunState
from recoup.settings import read_settings
from recoup.testing.house import House, plan_of
from recoup.testing.runtime import ScriptedRuntime, exits, hangs

RESET = "error: connection reset by peer"
DIFFERENT = [
    exits(1, RESET),
    exits(1, "error: 503 service unavailable"),
    exits(1, "could not resolve host: example"),
]
TIME = Measurement(DURATION, 0.5)


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    one = House(tmp_path)
    yield one
    await one.ledger.close()


@pytest.fixture(params=[socket.AF_INET, socket.AF_INET6], ids=["IPv4", "IPv6"])
def server(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    made = socket.socket(request.param, socket.SOCK_DGRAM)
    try:
        made.bind(("127.0.0.1" if request.param == socket.AF_INET else "::1", 0))
    except OSError as error:
        made.close()
        pytest.skip(f"this machine has no such address: {error}")
    made.settimeout(5)
    yield made
    made.close()


def host_of(server: socket.socket) -> tuple[str, int]:
    host, port = server.getsockname()[:2]
    return host, port


async def drive(house: House, metrics: Metrics, script: ScriptedRuntime, *steps: str) -> RunState:
    """As the app does it: the run is entered, and its watcher tells the metrics too."""
    house.world.runtimes["run"] = script  # type: ignore[index]
    run_id = await house.submit(plan_of(*steps, name="sync"))
    return await go_on(house, metrics, run_id)


async def go_on(house: House, metrics: Metrics, run_id: str = "run-1") -> RunState:
    metrics.enter(await house.state(run_id))
    house.seen = Heard(metrics)
    return await (await house.driver(run_id)).drive()


class Heard(list[Event]):
    """What the watcher of a house's runs is told, passed on as the app passes it on."""

    def __init__(self, metrics: Metrics) -> None:
        super().__init__()
        self._tell = metrics.beside(super().append)

    def append(self, event: Event) -> None:
        self._tell(event)


def received(server: socket.socket) -> Counter[str]:
    """All that was sent: on loopback it is there when `send` returns."""
    found: Counter[str] = Counter()
    server.setblocking(False)
    while True:
        try:
            packet = server.recv(65536)
        except BlockingIOError:
            return found
        assert len(packet) <= PACKET_BYTES_MAX
        found.update(packet.decode().split("\n"))


async def test_a_run_that_recovers_is_told_to_the_server(house: House, server: socket.socket) -> None:
    metrics = Metrics(StatsdSink(Resolver(*host_of(server)), Flavour.DATADOG))
    script = ScriptedRuntime({"a": [exits(1, RESET, duration_ms=40), hangs(), exits(0, duration_ms=70)]})
    state = await drive(house, metrics, script, "a", "b")
    metrics.close(5)
    assert state.status == "succeeded" and metrics.faults == 0
    found = received(server)
    assert found == Counter(
        {
            "task.run.status_total:1|c|#workflow:sync,status:running": 1,
            "task.run.status_total:1|c|#workflow:sync,status:succeeded": 1,
            "task.step.duration_seconds:40|ms": 1,
            "task.step.duration_seconds:1000|ms": 1,
            "task.step.duration_seconds:70|ms": 1,
            "task.step.duration_seconds:0|ms": 1,
            "task.step.idle_timeout_total:1|c": 1,
            "task.self_heal.attempts_total:1|c|#class:transient_runtime,strategy:soft_reset,outcome:retrying": 1,
            "task.self_heal.attempts_total:1|c|#class:stuck_no_progress,strategy:soft_reset,outcome:retrying": 1,
            "task.self_heal.attempts_total:1|c|#class:stuck_no_progress,strategy:soft_reset,outcome:success": 1,
            "task.self_heal.recovered_total:1|c": 1,
        }
    )


async def test_a_run_that_is_exhausted_is_told_in_the_plain_flavour(
    house: House, server: socket.socket
) -> None:
    metrics = Metrics(StatsdSink(Resolver(*host_of(server))))
    script = ScriptedRuntime({"a": [hangs(FailureKind.WALL_TIMEOUT), *DIFFERENT[:2]]})
    state = await drive(house, metrics, script, "a")
    metrics.close(5)
    assert state.status == "failed"
    found = received(server)
    assert found["task.self_heal.attempts_total:1|c"] == 3
    assert found["task.self_heal.attempts_total.transient_runtime.soft_reset.retrying:1|c"] == 2
    assert found["task.self_heal.attempts_total.transient_runtime.none.queue_retry:1|c"] == 1
    assert found["task.self_heal.exhausted_total:1|c"] == 1
    assert found["task.step.wall_timeout_total:1|c"] == 1
    assert found["task.run.status_total.sync.failed:1|c"] == 1


async def test_a_new_driver_knows_what_failed_under_the_last_one(house: House) -> None:
    """Its process has seen none of the earlier events."""
    script = ScriptedRuntime({"a": DIFFERENT})
    first = Metrics()
    assert (await drive(house, first, script, "a")).failure.retryable
    first.close()
    second = Metrics()
    state = await go_on(house, second)
    second.close()
    assert state.status == "succeeded"
    assert b"recoup_self_heal_recovered_total 1.0" in second.render()
    assert b'outcome="success",strategy="none"' in second.render()


# Sick sinks


def absent() -> StatsdSink:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as gone:
        gone.bind(("127.0.0.1", 0))
        port = gone.getsockname()[1]
    return StatsdSink(Resolver("127.0.0.1", port))


@contextlib.contextmanager
def blocked() -> Iterator[StatsdSink]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            ours.send(b"x" * 1000)
    yield StatsdSink(Resolver("127.0.0.1", 9), connect=lambda _address: ours)
    theirs.close()


@contextlib.contextmanager
def unresolved() -> Iterator[StatsdSink]:
    over = threading.Event()

    def hang(_host: str, _port: int) -> list[Address]:
        over.wait(60)
        return []

    yield StatsdSink(Resolver("statsd.example", 8125, lookup=hang))
    over.set()


SICK: dict[str, Callable[[], AbstractContextManager[StatsdSink]]] = {
    "absent": lambda: contextlib.nullcontext(absent()),
    "blocked": blocked,
    "unresolved": unresolved,
}


@pytest.mark.parametrize("name", SICK)
async def test_a_sick_sink_delays_no_event_and_its_drops_are_counted(house: House, name: str) -> None:
    with SICK[name]() as sink:
        metrics, costs = Metrics(sink), []
        tell = metrics.event

        def timed(event: object) -> None:
            began = time.perf_counter()
            tell(event)  # type: ignore[arg-type]
            costs.append(time.perf_counter() - began)

        metrics.event = timed  # type: ignore[method-assign]
        state = await drive(house, metrics, ScriptedRuntime(), *(f"s{n}" for n in range(50)))
        metrics.close(0.5)
        metrics._thread.join(60)
    assert state.status == "succeeded" and len(costs) > 100 and metrics.faults == 0
    assert sorted(costs)[len(costs) // 2] < 0.05
    assert (sink.measured, sink.sent, sink.dropped, sink.waiting) == (52, 0, 52, 0)


def test_a_server_that_comes_back_is_told_how_much_it_missed(server: socket.socket) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.setblocking(False)
    sink = StatsdSink(Resolver(*host_of(server)), connect=lambda _address: ours)
    with contextlib.suppress(BlockingIOError):
        while True:
            ours.send(b"")
    for _ in range(3):
        sink.add(TIME)
    sink.flush()
    assert (sink.sent, sink.dropped) == (0, 3)
    theirs.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            theirs.recv(100)
    sink.add(TIME)
    sink.flush()
    assert (sink.measured, sink.sent, sink.dropped) == (4, 1, 3)
    assert theirs.recv(2000) == b"task.step.duration_seconds:500|ms"
    assert b"task.metrics.dropped_total.statsd:3|c" in theirs.recv(2000)
    sink.close()
    theirs.close()


def test_what_is_refused_at_one_address_goes_to_the_next(server: socket.socket) -> None:
    """`localhost` may name two addresses, and the server may listen at one of them only."""
    family, port = server.family, server.getsockname()[1]
    nobody = absent()._resolver.addresses()[0]
    there = Address(family, server.getsockname())
    resolver = Resolver("two.example", port, lookup=lambda _host, _port: [nobody, there])
    resolver.addresses()
    resolver.wait(5)
    sink = StatsdSink(resolver)
    sink.add(TIME)
    sink.close()
    assert (sink.sent, sink.dropped) == (1, 0)
    assert server.recv(2000) == b"task.step.duration_seconds:500|ms"


def test_what_waits_for_an_address_is_bounded_and_then_sent(server: socket.socket) -> None:
    known = threading.Event()

    def slow(_host: str, _port: int) -> list[Address]:
        known.wait(10)
        return [Address(server.family, server.getsockname())]

    resolver = Resolver("slow.example", 1, lookup=slow)
    sink = StatsdSink(resolver)
    for _ in range(50_000):
        sink.add(TIME)
    sink.flush()
    assert sink.sent == 0 and 0 < sink.waiting <= PACKETS_MAX * 50
    server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    known.set()
    sink.close(5)
    assert sink.sent + sink.dropped == sink.measured == 50_000 and sink.sent > 1000
    assert server.recv(2000).startswith(b"task.step.duration_seconds:500|ms\ntask.step.")


def test_a_name_is_looked_up_again_only_now_and_then_and_one_at_a_time() -> None:
    now, looked, hold = [0.0], [], threading.Event()

    def lookup(host: str, port: int) -> list[Address]:
        looked.append(host)
        hold.wait(5)
        return look_up("127.0.0.1", port + len(looked))

    resolver = Resolver("statsd.example", 8000, lookup=lookup, now_s=lambda: now[0])
    for _ in range(10):
        assert resolver.addresses() == ()
    hold.set()
    resolver.wait(5)
    assert resolver.addresses()[0].sockaddr == ("127.0.0.1", 8001) and len(looked) == 1
    now[0] = 59
    assert resolver.addresses()[0].sockaddr == ("127.0.0.1", 8001) and len(looked) == 1
    now[0] = 61
    resolver.addresses()
    resolver.wait(5)
    assert resolver.addresses()[0].sockaddr == ("127.0.0.1", 8002) and len(looked) == 2


def test_a_name_that_is_no_name_at_all_is_borne() -> None:
    sink = StatsdSink(Resolver("a" * 70 + ".example", 8125))
    sink.add(TIME)
    sink.close(5)
    assert (sink.sent, sink.dropped) == (0, 1)


# Settings


def test_without_a_listener_nothing_is_built() -> None:
    assert open_metrics(None, "plain", None, {}, lambda _name: ()) is None
    assert open_metrics(None, "plain", False, {"OTEL_EXPORTER_OTLP_ENDPOINT": "x"}, lambda _name: ()) is None


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("localhost:9125", ("localhost", 9125)),
        ("localhost", ("localhost", 8125)),
        ("10.0.0.7:8125", ("10.0.0.7", 8125)),
        ("[::1]:8125", ("::1", 8125)),
    ],
)
def test_a_server_is_named_by_host_and_port(tmp_path: Path, said: str, meant: tuple[str, int]) -> None:
    settings = read_settings({"HOME": str(tmp_path), "RECOUP_STATSD": said}, tmp_path)
    assert (settings.statsd, settings.statsd_flavour, settings.otel) == (meant, "plain", None)


@pytest.mark.parametrize(
    "environ",
    [
        {"RECOUP_STATSD": "http://localhost:8125"},
        {"RECOUP_STATSD": "::1"},
        {"RECOUP_STATSD": "localhost:0"},
        {"RECOUP_STATSD": "localhost:99999"},
        {"RECOUP_STATSD": "a b:1"},
        {"RECOUP_STATSD_FLAVOUR": "vanilla"},
        {"RECOUP_OTEL": "perhaps"},
    ],
)
def test_a_setting_that_means_nothing_is_named(tmp_path: Path, environ: dict[str, str]) -> None:
    with pytest.raises(SettingsError, match=next(iter(environ))) as refused:
        read_settings({"HOME": str(tmp_path), **environ}, tmp_path)
    assert refused.value.hint
