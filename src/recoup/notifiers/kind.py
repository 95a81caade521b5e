"""What a notifier answers about itself. Probe files and couriers ask it, and know none by its name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from recoup.model.redacted import Redacted
from recoup.ports import Keeper, Lifeline

if TYPE_CHECKING:
    from recoup.shapes.shape import Shape

S = TypeVar("S")
DELIVERY_S: Final = 60.0
"""The longest that a delivery may take, where the notifier has no limit of its own."""


@dataclass(frozen=True, slots=True)
class Notification:
    """Something on its way to a person or another system."""

    id: str
    """The same whenever it is delivered again: a receiver can drop what it has already."""
    about: str
    """What it is about: the id of a resource, or of a stream."""
    body: Redacted
    """The event as stored: JSON."""


class NotDelivered(Exception):
    """Nobody has taken the notification; `str` says why. It is delivered again later."""


@dataclass(frozen=True, slots=True)
class NotifierSite:
    """What a process offers to its notifiers."""

    folder: Path
    """Relative paths start here."""
    environ: Mapping[str, str]
    keeper: Keeper
    lifeline: Lifeline


class NotifierKind(ABC, Generic[S]):
    """One way to notify a person or a system."""

    key: str
    """Names it in the ledger and, under `hand_over`, in a probe file."""
    package: str = ""
    """The distribution that brings it. Empty: this one."""

    @abstractmethod
    def fields(self) -> Mapping[str, Any]:
        """Its keys under `hand_over`, each with its type and its `Field`: loaded when a probe file is read."""

    def parts(self) -> Mapping[str, type[Shape]]:
        """The shapes inside, by the key under which each stands."""
        return {}

    @abstractmethod
    def settings(self, written: Shape) -> S | None:
        """What the file says of it. None: the file does not name it."""

    def digested(self, settings: S | None) -> Mapping[str, Any]:
        """What the digest of a probe file is made of."""
        return {} if settings is None else {self.key: settings}

    def timeout_s(self, settings: S) -> float:
        """The longest that one delivery may take."""
        del settings
        return DELIVERY_S

    @abstractmethod
    async def deliver(self, notification: Notification, settings: S, site: NotifierSite) -> str:
        """Returns, with words, when it is certain that the notification was taken. Raises NotDelivered."""


@dataclass(frozen=True, slots=True)
class OpenNotifier:
    """A notifier with its settings, ready to deliver."""

    kind: NotifierKind[Any]
    settings: Any
    site: NotifierSite

    @property
    def name(self) -> str:
        return self.kind.key

    @property
    def timeout_s(self) -> float:
        return self.kind.timeout_s(self.settings)

    async def deliver(self, notification: Notification) -> None:
        await self.kind.deliver(notification, self.settings, self.site)
