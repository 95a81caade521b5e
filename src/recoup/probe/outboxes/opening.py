"""Which outboxes a probe file asks for."""

from __future__ import annotations

from pathlib import Path

from recoup.model.probe import ProbeConfig
from recoup.ports import Lifeline
from recoup.probe.outboxes.command import CommandOutbox
from recoup.probe.outboxes.file import FileOutbox
from recoup.probe.ports import Outbox
from recoup.probe.supervisor import probe_folder
from recoup.probe.world import ProbeWorld

ESCALATIONS_FILE = "escalations.jsonl"


def outboxes_of(world: ProbeWorld, config: ProbeConfig, lifeline: Lifeline) -> list[Outbox]:
    """Where no gateway is told, a file always is: an escalation must be found somewhere."""
    hand_over, outboxes = config.hand_over, list[Outbox]()
    if hand_over.file is not None:
        outboxes.append(FileOutbox(Path(config.folder) / Path(hand_over.file).expanduser()))
    if hand_over.command:
        outboxes.append(CommandOutbox(world, hand_over, config.folder, lifeline))
    if config.gateway is None and not outboxes:
        outboxes.append(FileOutbox(probe_folder(world.home, config.id) / ESCALATIONS_FILE))
    return outboxes
