"""Probes of this machine: made, and asked for what they do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from recoup.errors import InvalidProbe, Problem
from recoup.model.events import Event
from recoup.model.ids import probe_stream, reported_stream
from recoup.model.probe import Command
from recoup.probe.world import ProbeWorld
from recoup.processes.keeper import shared_keeper
from recoup.redaction.registration import register_secret

if TYPE_CHECKING:
    from recoup.app import App
    from recoup.model.probe import ProbeConfig
    from recoup.probe.operators import Operators
    from recoup.probe.supervisor import Probe


def probe_world(
    app: App,
    seen: Callable[[Event], None] = lambda _event: None,
    alive: Callable[[], None] = lambda: None,
) -> ProbeWorld:
    return ProbeWorld(
        clock=app.world.clock,
        ledger=app.ledger,
        redactor=app.redactor,
        census=app.world.census,
        keeper=shared_keeper(),
        environ=app.world.environ,
        home=app.settings.home,
        lease_ttl_s=app.settings.lease_s,
        heartbeat_s=app.settings.heartbeat_s,
        seen=seen,
        alive=alive,
    )


def make_probe(app: App, config: ProbeConfig, world: ProbeWorld) -> Probe:
    """Raises UsageError when it holds a kind that cannot be looked after here, or a gateway that cannot be told."""
    from recoup.probe.outboxes.opening import link_of, outboxes_of
    from recoup.probe.supervisor import Probe

    for name in config.secrets:
        app.hiding.from_environment(app.redactor, name)
    if config.gateway is not None and app.settings.token:
        register_secret(app.redactor, "RECOUP_TOKEN", app.settings.token)
    names = [config.id, *(name for one in config.resources for name in (one.id, *one.on_fault))]
    held = [name for name in names if app.redactor.found_in(name.encode())]
    if held:  # names stand in the ledger as they are
        words = "a name holds the value of a registered secret: call it otherwise"
        raise InvalidProbe(config.id, [Problem("", words)])
    return Probe(
        world,
        config,
        lambda lifeline: outboxes_of(world, config, lifeline),
        link=link_of(world, config, app.settings.token),
    )


async def list_probes(app: App) -> list[str]:
    """Those that have run on this ledger."""
    return await operators_of(app).names()


async def probe_status(app: App, name: str | None) -> dict[str, Any]:
    """What it looks after and how that is. None: the only one there is. Raises NotFound."""
    operators = operators_of(app)
    return await operators.document(await operators.find(name))


async def tell_probe(app: App, name: str | None, command: Command) -> dict[str, Any]:
    """What became of the command. Raises NotFound, UsageError where the probe is not running."""
    operators = operators_of(app)
    command = replace(command, reason=app.redactor.redact(command.reason).text)
    told = await operators.tell(await operators.find(name), command)
    await app.chores.run()
    return told


async def record_refusals(app: App, error: InvalidProbe, source: str) -> None:
    """A file asked for what no probe may do: that is a fact, though nothing was run."""
    await operators_of(app).record_refusals(error.probe_id, source, error.refused)
    await app.chores.run()


def operators_of(app: App) -> Operators:
    """Those who may ask something of the probes of this machine."""
    from recoup.probe.operators import Operators

    return Operators(probe_world(app))


async def known_probes(app: App) -> dict[str, bool]:
    """By name: whether its own events are in this ledger. The others report to a gateway."""
    names: dict[str, bool] = {}
    for is_local in (False, True):
        prefix = probe_events_stream("", is_local=is_local)
        names |= {name.removeprefix(prefix): is_local for name in await app.ledger.streams(prefix)}
    return names


def probe_events_stream(name: str, *, is_local: bool) -> str:
    return probe_stream(name) if is_local else reported_stream(name)
