"""Notifiers that other packages bring."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from recoup.notifiers.kind import NotDelivered, Notification, NotifierKind, NotifierSite
from recoup.plugins import PluginBroken, guarded_call

if TYPE_CHECKING:
    from recoup.shapes.shape import Shape

__all__ = ["CustomNotifier", "NotDelivered", "Notification", "NotifierSite"]


class CustomNotifier(NotifierKind[dict[str, Any]]):
    """Delivers in the process of the probe: whatever blocks belongs into a thread or a process of its own."""

    keys: str
    """What people write under its key, a `Shape`, as `module:class`: loaded when a probe file names it."""

    @abstractmethod
    async def tell(self, notification: Notification, settings: Mapping[str, Any], site: NotifierSite) -> None:
        """Returns when it is certain that the notification was taken. Raises NotDelivered; any other exception means
        the same."""

    def fields(self) -> Mapping[str, Any]:
        from pydantic import Field

        shape = self.shape()
        example = {name: field.examples[0] for name, field in shape.keys().items() if field.is_required()}
        told = (shape.__doc__ or f"Told by {self.package}.").strip().splitlines()[0]
        return {self.key: (shape | None, Field(None, description=told, examples=[example]))}

    def parts(self) -> Mapping[str, type[Shape]]:
        return {self.key: self.shape()}

    def shape(self) -> type[Shape]:
        shape: type[Shape] = resolve_name(self.keys)
        return shape

    def settings(self, written: Shape) -> dict[str, Any] | None:
        said: Shape | None = vars(written)[self.key]
        return None if said is None else said.model_dump(mode="json", by_alias=True)

    async def deliver(self, notification: Notification, settings: dict[str, Any], site: NotifierSite) -> str:
        try:
            await guarded_call(lambda: self.tell(notification, settings, site), NotDelivered)
        except PluginBroken as broken:
            raise NotDelivered(str(broken)) from broken
        return "taken"
