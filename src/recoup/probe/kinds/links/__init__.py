"""One file for each way of holding a connection open; here is which transport is held how.

A link opens one connection, notices its end, and closes it. It never opens a second one by itself, but for what the
protocol itself calls normal (an HTTP server closes what is idle).
"""

from __future__ import annotations

from recoup.model.probe import ChannelKind
from recoup.probe.kinds.links.dialog import WebsocketDialogLink
from recoup.probe.kinds.links.http import HttpLink
from recoup.probe.kinds.links.link import Link, Lost
from recoup.probe.kinds.links.stream import tcp_link, unix_link
from recoup.probe.kinds.links.websocket import WebsocketLink
from recoup.probe.ports import Site


def link_of(kind: ChannelKind, site: Site, lost: Lost) -> Link:
    """For the transports that need no program of their own."""
    match kind.transport:
        case "tcp":
            return tcp_link(kind.host, kind.port, lost)
        case "unix":
            return unix_link(site.path(kind.address), lost)
        case "http":
            return HttpLink(kind.address)
        case "websocket":
            return WebsocketLink(kind.address, lost)
        case "dialog":
            return WebsocketDialogLink(kind.address, lost, pings=kind.pings)
        case other:
            raise AssertionError(f"no link is made for {other}")
