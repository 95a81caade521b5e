"""Which outboxes a probe file asks for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from recoup.errors import UsageError
from recoup.model.probe import ProbeConfig
from recoup.notifiers.file import NOTIFIER as FILE
from recoup.notifiers.kind import NotifierSite, OpenNotifier
from recoup.notifiers.registry import notifier_named
from recoup.ports import Lifeline
from recoup.probe.ports import Commanded, Link, Outbox
from recoup.probe.recorder import ProbeRecorder
from recoup.probe.supervisor import probe_folder
from recoup.probe.world import ProbeWorld

ESCALATIONS_FILE = "escalations.jsonl"


def outboxes_of(world: ProbeWorld, config: ProbeConfig, lifeline: Lifeline) -> list[Outbox]:
    """Where no gateway is told, a file always is: an escalation must be found somewhere."""
    site = NotifierSite(Path(config.folder), world.environ, world.keeper, lifeline)
    named = config.hand_over
    if config.gateway is None and not named:
        named = {FILE.key: str(probe_folder(world.home, config.id) / ESCALATIONS_FILE)}
    return [OpenNotifier(notifier_named(key), settings, site) for key, settings in named.items()]


def link_of(
    world: ProbeWorld, config: ProbeConfig, token: str | None
) -> Callable[[ProbeRecorder, Commanded], Link | None]:
    """The gateway of the file, if it names one. Raises UsageError where it cannot be told anything."""
    if config.gateway is None:
        return lambda _recorder, _commanded: None
    if token is None:
        raise UsageError(
            f"probe {config.id} has a gateway, and there is no token to show it",
            hint="Set RECOUP_TOKEN to the token that the gateway accepts.",
        )
    # Imported when there is a gateway: TLS alone takes longer to load than a probe to start.
    from recoup.probe.gateway.client import GatewayClient
    from recoup.probe.gateway.link import GatewayLink

    client, folder = GatewayClient(config.gateway, token), probe_folder(world.home, config.id)

    def link(recorder: ProbeRecorder, commanded: Commanded) -> Link:
        return GatewayLink(world, recorder, commanded, client, folder)

    return link
