"""What a kind of resource and a check must be able to do, and who is told.

**A new kind** (`probe/kinds/NAME.py`): a class with the methods of `Holder`, made from a `Site`; name it in
`probe/kinds/__init__.py`. `start`, `stop` and `act` return when they are done or have failed, within a limit of their
own, and never raise for a failure of the resource: they return `Done(ok=False, ...)`. They need not find out whether
the resource is healthy: checks do, and `own_check`, if a kind can look at itself. What a holder notices by itself (a
process ended, a connection was closed) it reports with `site.fault(Fault(...))`, at once, from the event loop; reports
about what it was told to stop are passed by. `act` must leave at most one of whatever it holds: the old one is proven
gone before the new one begins. No retrying, waiting or deciding in a holder. Classes of fault and error codes are names
of ours, stored as they are; words of the world belong into `reason`, which is redacted.

**A new check** (`probe/checks/NAME.py`): a struct in `model/probe.py` (a `Check` with a `FAULT_CLASS`), a key in
`documents/probe_check_shape.py`, and a class with `look`, named in `probe/checks/__init__.py`. It is cancelled when the
check's `timeout_s` has passed, which counts as a bad sign. It must not block the loop and must close what it opened.

**A new notifier** is one object in `recoup/notifiers/`, whose map says how. A probe file names it under `hand_over`. It
raises `NotDelivered` when nobody has taken the notification; it is then called again, later, also by the next probe,
until it returns. The same notification may come twice, with the same id: deliver it once.

**The gateway** is an outbox that is told of everything, and asks for things: a `Link`. It is made with the probe's
recorder, and a `Commanded` that takes what is asked for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from recoup.kernel.probe_health import Sign
from recoup.model.ids import ProcessIdentity
from recoup.model.probe import Action, Check, Command, Fault, Refused, Resource
from recoup.notifiers.kind import Notification
from recoup.ports import Lifeline
from recoup.probe.world import ProbeWorld

OutputListener = Callable[[str, bytes], None]
"""Takes ("stdout" | "stderr", chunk) as it was printed; must not block, nor store it."""


@dataclass(frozen=True, slots=True)
class Done:
    """What came of an action, as far as the action itself can tell."""

    ok: bool = True
    reason: str = ""
    error_code: str | None = None
    fault_class: str | None = None
    """Of the failure, when nothing was being mended. None: it was not started."""


class Holder(Protocol):
    """One resource in the probe's hands."""

    @property
    def own_check(self) -> Check | None:
        """How often `look` is asked, and what its bad signs come to. None: this kind reports by itself."""
        ...

    @property
    def settle_s(self) -> float:
        """It counts as healthy when this has passed since it was started or acted on, and not before."""
        ...

    async def look(self) -> Sign:
        """Is it there? Bad signs are returned, not raised."""
        ...

    async def start(self) -> Done:
        """Bring it up for the first time, or after `stop`."""
        ...

    async def stop(self) -> Done:
        """Let it go: when this returns nothing of it is left that this holder made. There may be nothing."""
        ...

    async def act(self, action: Action) -> Done:
        """One of the five, whatever state it is in."""
        ...

    async def downgrade(self, mode: str) -> Done:
        """Go on in a lesser way (channels with a `fallback` only), or back to the full one."""
        ...


def mark_of(probe_id: str, instance: str) -> str:
    """What the processes of one probe have in their environment, and those of no other."""
    return f"probe:{probe_id}:{instance}"


@dataclass(frozen=True, slots=True)
class Site:
    """What a holder or a check is given about its resource and its surroundings."""

    world: ProbeWorld
    probe_id: str
    instance: str
    """Tells the probe from others of its name on this machine."""
    resource: Resource
    folder: Path
    """Of the probe file: relative paths start here."""
    files: Path
    """A private folder for this resource: logs and whatever else is kept beside the ledger."""
    lifeline: Lifeline
    """For keepers: until when the probe's lease holds."""
    fault: Callable[[Fault], None]
    """Something is wrong. Call it from the event loop."""
    launched: Callable[[ProcessIdentity], Awaitable[None]]
    """Await it before anything is executed: the ledger then knows who keeps it."""
    listen: Callable[[OutputListener], None]
    """From now on the listener is told what the resource prints."""
    heard: OutputListener
    """For holders: tell the listeners what was printed."""
    mode: Callable[[], str | None]
    """Of a channel: what it was downgraded to; None: it was not."""

    @property
    def mark(self) -> dict[str, str]:
        """Into the environment of every process: if all else fails they are found by it."""
        return {
            "RECOUP_RUN_ID": mark_of(self.probe_id, self.instance),
            "RECOUP_RESOURCE_ID": self.resource.id,
        }

    def path(self, written: str) -> Path:
        return (self.folder / Path(written).expanduser()).absolute()


class Checker(Protocol):
    """One way of looking at a resource."""

    async def look(self) -> Sign:
        """Bad signs are returned, not raised; an OSError counts as one."""
        ...

    def begin(self) -> None:
        """The resource was just started or acted on: forget what was seen before."""
        ...


class Outbox(Protocol):
    """A receiver of events: a notifier that the file names, or the gateway."""

    @property
    def name(self) -> str:
        """Stands in the ledger: which outboxes have taken a notification."""
        ...

    @property
    def timeout_s(self) -> float:
        """The longest that one delivery may take."""
        ...

    async def deliver(self, notification: Notification) -> None:
        """Returns when it is certain that somebody has it. Raises NotDelivered."""
        ...


class Commanded(Protocol):
    """Takes what the gateway asks for. What becomes of it is recorded, with the command's id."""

    async def tell(self, command: Command) -> object:
        """It is carried out, or refused, once. Raises LedgerError."""
        ...

    async def refuse(self, command: Command, refused: Refused) -> None:
        """It cannot even be considered. Raises LedgerError."""
        ...


class Link(Outbox, Protocol):
    """The way to the gateway and back."""

    async def keep(self) -> None:
        """Until cancelled: events go out, commands come in. Raises LeaseLost."""
        ...

    async def farewell(self) -> None:
        """The probe's last event is recorded: send what can be sent within a moment."""
        ...
