"""Probes of this machine: made, and asked for what they do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from recoup.errors import InvalidProbe, Problem
from recoup.model.events import Event
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


def operators_of(app: App) -> Operators:
    """Those who may ask something of the probes of this machine."""
    from recoup.probe.operators import Operators

    return Operators(probe_world(app))
