"""One file for each way of looking at a resource; here is which check is looked at how."""

from __future__ import annotations

from recoup.model.probe import (
    AnyCheck,
    CommandCheck,
    ExitCheck,
    HeartbeatCheck,
    HttpCheck,
    OutputCheck,
    TcpCheck,
)
from recoup.probe.checks.command import CommandChecker
from recoup.probe.checks.heartbeat import HeartbeatChecker
from recoup.probe.checks.http import HttpChecker
from recoup.probe.checks.output import OutputChecker
from recoup.probe.checks.tcp import TcpChecker
from recoup.probe.ports import Checker, Site


def checker_of(check: AnyCheck, site: Site) -> Checker | None:
    """None: the holder notices this by itself."""
    match check:
        case ExitCheck():
            return None
        case TcpCheck():
            return TcpChecker(check)
        case HttpCheck():
            return HttpChecker(check)
        case CommandCheck():
            return CommandChecker(check, site)
        case HeartbeatCheck():
            return HeartbeatChecker(check, site)
        case OutputCheck():
            return OutputChecker(check, site)
