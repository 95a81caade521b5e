"""Which action belongs to which class of fault: what the kernel says, and what the page says about it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from recoup.kernel.probe import action_for
from recoup.model.probe import (
    Action,
    AnyKind,
    BindingKind,
    ChannelKind,
    EndpointKind,
    MountKind,
    ProcessKind,
    Resource,
)
from recoup.probe.kinds import binding, channel, endpoint, mount, process, ssh_remote

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "probe.md"
KINDS: dict[str, AnyKind] = {
    "process": ProcessKind(command=("true",)),
    "channel": ChannelKind(transport="tcp"),
    "mount": MountKind(path="a", command=("true",)),
    "binding": BindingKind(port=1),
    "endpoint": EndpointKind(file="a"),
}
CLASSES = {
    "process": {process.EXITED, process.NOT_STARTED},
    "channel": {*channel.FAULT_CLASSES.values(), ssh_remote.ATTACH_FAILED, ssh_remote.DISCONNECTED},
    "mount": {mount.MISSING, mount.HANGS},
    "binding": {binding.LOST, binding.TAKEN},
    "endpoint": {endpoint.MISSING, endpoint.STALE, endpoint.UNRESOLVED},
}


def written() -> dict[tuple[str, str], str]:
    """(kind, class of fault): action, from the page's table."""
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| .+? \| `(\w+)` \|$", PAGE.read_text(), re.MULTILINE)
    return {(kind, name): action for kind, names, action in rows for name in re.findall(r"`(\w+)`", names)}


@pytest.mark.parametrize("kind", KINDS)
def test_every_class_of_fault_is_in_the_table_with_its_action(kind: str) -> None:
    resource = Resource(id="it", kind=KINDS[kind])
    table = {name: action for (of_kind, name), action in written().items() if of_kind == kind}
    assert {name: table.get(name) for name in CLASSES[kind]} == {
        name: action_for(resource, name) for name in CLASSES[kind]
    }


def test_the_file_has_the_last_word() -> None:
    on_fault = {"ssh_remote_attach_failed": Action.RECONNECT}
    resource = Resource(id="it", kind=KINDS["channel"], on_fault=on_fault)
    assert action_for(resource, "ssh_remote_attach_failed") is Action.RECONNECT
    assert action_for(resource, "something_else") is Action.RECONNECT
