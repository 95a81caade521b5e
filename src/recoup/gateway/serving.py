"""The server: where it listens, how it begins and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec
import uvicorn

from recoup import __version__
from recoup.app import App
from recoup.errors import UsageError
from recoup.files.named import require_no_database
from recoup.fleet.worker import Notice, Shift, Worker
from recoup.gateway.access import Role
from recoup.gateway.book import Book, new_token_id
from recoup.gateway.hosts import is_loopback
from recoup.gateway.house import House
from recoup.gateway.limits import HEADER_BYTES_MAX, STREAMS_MAX
from recoup.gateway.service import build
from recoup.model.events import TokenMade
from recoup.operations.recording import TEXT_PLANS
from recoup.processes.orphans import adopt
from recoup.serving.connections import Patience, bound_buffers, protocol
from recoup.serving.places import PlaceLimits, Places
from recoup.standing import asked_to_end, listening_at, room_for_files
from recoup.tokens import local_user

CONNECTIONS_MAX: Final = 1_500
"""More than streams: they must not leave ordinary requests without one."""
PLACES: Final = PlaceLimits(connections_max=CONNECTIONS_MAX, unproven_max=250, unproven_of_sender_max=100)
IDLE_S: Final = 15
LAST_ANSWERS_S: Final = 5
_BACKLOG: Final = 1_024
OTHER_FILES_MAX: Final = 500
"""Besides connections: logs, databases, processes of steps."""


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """How a gateway is to be served."""

    host: str = "127.0.0.1"
    port: int = 8620
    tls_cert: Path | None = None
    tls_key: Path | None = None
    insecure: bool = False
    """On a public address without TLS: something before it does that."""
    workers: int = 0
    """How many runs are driven here at once."""
    queues: tuple[str, ...] = ("default",)
    capabilities: frozenset[str] = frozenset({"agent", "browser"})
    grace_s: float = 30.0
    plan_folders: tuple[Path, ...] = ()
    allow_hosts: tuple[str, ...] = ()
    """Names by which it may be asked, besides its own address."""
    patience: Patience = Patience()
    token: str | None = None
    """An operator's token to be accepted; then none are made."""


class Opened(msgspec.Struct, frozen=True):
    """What is told once, when it begins."""

    url: str
    tokens: dict[str, str]
    """By role; empty but on the first start."""
    note: str = ""


async def serve(
    app: App, setup: Setup, opened: Callable[[Opened], None], say: Callable[[Notice], None]
) -> None:
    """Until a signal comes."""
    must_be_safe(setup)
    for name in filter(None, (setup.tls_cert, setup.tls_key)):
        require_no_database(name)
    listening = listening_at(setup.host, setup.port, _BACKLOG, bound_buffers)
    book = Book(app.settings.home / "gateway.db", lambda: app.world.clock.now().wall_us / 1e6)
    house = House(
        *(app, book, tuple(folder.resolve() for folder in setup.plan_folders)),
        hosts=(setup.host, *setup.allow_hosts),
        streams_max=streams_for(room_for_files(CONNECTIONS_MAX + OTHER_FILES_MAX)),
        behind_proxy=setup.insecure,
    )
    try:
        (app.settings.home / TEXT_PLANS).mkdir(mode=0o700, exist_ok=True)
        app.metrics.measure_always()
        server = _Server(_config(setup, house))
        house.stopping = lambda: server.should_exit
        worker = await _worker(app, setup, say)
        tokens = await first_tokens(house, setup)
        opened(Opened(_url(setup, listening), tokens, few_streams(house.streams_max)))
        with asked_to_end(_end(server, house, worker)):
            async with asyncio.TaskGroup() as tasks:
                serving = tasks.create_task(server.serve([listening]))
                couriers = tasks.create_task(house.hooks.work())
                serving.add_done_callback(lambda _: couriers.cancel())
                if worker is not None:
                    tasks.create_task(worker.work())
    finally:
        listening.close()
        book.close()
        if "hooks" in house.__dict__:
            house.hooks.close()


async def first_tokens(house: House, setup: Setup) -> dict[str, str]:
    """One for each role, where there is none yet."""
    book, at = house.book, house.app.world.clock.now().iso()
    if setup.token is not None:
        book.accept(setup.token)
        return {}
    if not book.is_new():
        return {}
    ids = {role: new_token_id() for role in Role}
    about = {"by": f"{local_user()} (recoup serve)", "reason": "the first start"}
    await house.tell_of_tokens(
        *(
            TokenMade(token_id=name, name=f"first {role}", role=role.value, **about)
            for role, name in ids.items()
        )
    )
    return {role.value: book.make(role, f"first {role}", at, name) for role, name in ids.items()}


def streams_for(files_max: int) -> int:
    """How many streams there may be where so many files may be open: ordinary requests come first."""
    others = OTHER_FILES_MAX + CONNECTIONS_MAX - STREAMS_MAX
    return max(0, min(STREAMS_MAX, files_max - others))


def few_streams(streams_max: int) -> str:
    if streams_max == STREAMS_MAX:
        return ""
    return f"only {streams_max} of {STREAMS_MAX} streams: too few files may be open (ulimit -Hn)"


def must_be_safe(setup: Setup) -> None:
    """Tokens and plans go over this line: nobody else may listen."""
    if (setup.tls_cert is None) != (setup.tls_key is None):
        raise UsageError("TLS needs both a certificate and a key", hint="Give --tls-cert and --tls-key.")
    for file in (setup.tls_cert, setup.tls_key):
        if file is not None and not file.is_file():
            raise UsageError(
                f"there is no file {file}", hint="TLS needs a certificate and a key, as PEM files."
            )
    if is_loopback(setup.host) or setup.tls_cert is not None or setup.insecure:
        return
    raise UsageError(
        f"{setup.host} can be reached from other machines, and nothing would be encrypted",
        hint="Give --tls-cert and --tls-key; or --insecure if something before it does that.",
    )


class _Server(uvicorn.Server):
    """Signals are ours: uvicorn would raise them again when it has ended, before the workers have."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _config(setup: Setup, house: House) -> uvicorn.Config:
    return uvicorn.Config(
        build(house),
        loop="none",
        http=protocol(setup.patience, Places(PLACES)),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="error",  # whoever sends nonsense must not fill the log
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=LAST_ANSWERS_S,
        h11_max_incomplete_event_size=HEADER_BYTES_MAX,
        ssl_certfile=setup.tls_cert,
        ssl_keyfile=setup.tls_key,
    )


def _url(setup: Setup, listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return f"{'http' if setup.tls_cert is None else 'https'}://{shown}:{port}"


async def _worker(app: App, setup: Setup, say: Callable[[Notice], None]) -> Worker | None:
    if not setup.workers:
        return None
    adopt()
    shift = Shift(
        worker_id=app.worker_id,
        queues=setup.queues,
        capabilities=setup.capabilities,
        concurrency=setup.workers,
        grace_s=setup.grace_s,
        version=__version__,
    )
    return Worker(app.driving.deliveries(), await app.hints.queue(), shift, say, app.chores.run)


def _end(server: uvicorn.Server, house: House, worker: Worker | None) -> Callable[[int], None]:
    """The first time lets answers and runs end; the second does not wait for them."""

    def end(times: int) -> None:
        server.should_exit, server.force_exit = True, times > 1
        house.wake()
        if worker is not None:
            worker.drain()

    return end
