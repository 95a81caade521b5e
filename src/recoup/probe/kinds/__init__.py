"""One file for each kind of resource; here is which kind has which holder."""

from __future__ import annotations

from recoup.model.probe import BindingKind, ChannelKind, EndpointKind, MountKind, ProcessKind
from recoup.probe.kinds.binding import CommandBindingHolder, ForwardHolder
from recoup.probe.kinds.channel import ChannelHolder
from recoup.probe.kinds.dialog import DialogHolder
from recoup.probe.kinds.endpoint import EndpointHolder
from recoup.probe.kinds.mount import MountHolder
from recoup.probe.kinds.process import ProcessHolder
from recoup.probe.kinds.ssh_remote import SshHolder
from recoup.probe.ports import Holder, Site


def holder_of(site: Site) -> Holder:
    match site.resource.kind:
        case ProcessKind() as kind:
            return ProcessHolder(site, kind)
        case ChannelKind(transport="ssh_remote") as kind:
            return SshHolder(site, kind)
        case ChannelKind(transport="dialog") as kind if kind.command:
            return DialogHolder(site, kind)
        case ChannelKind() as kind:
            return ChannelHolder(site, kind)
        case MountKind() as kind:
            return MountHolder(site, kind)
        case BindingKind() as kind:
            return CommandBindingHolder(site, kind) if kind.command else ForwardHolder(site, kind)
        case EndpointKind() as kind:
            return EndpointHolder(site, kind)
