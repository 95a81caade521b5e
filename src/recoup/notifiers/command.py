"""A command of the user's: given one notification on its standard input."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from recoup.errors import KeeperError
from recoup.model.ids import ProcessIdentity
from recoup.model.process import EndedBy, ProcessSpec
from recoup.notifiers.kind import DELIVERY_S, NotDelivered, Notification, NotifierKind, NotifierSite

if TYPE_CHECKING:
    from recoup.shapes.shape import Shape

KILL_S: Final = 30.0
"""So long after its time a command is certainly gone."""


class CommandSettings(msgspec.Struct, frozen=True):
    argv: tuple[str, ...]
    timeout_s: float = 30


class CommandNotifier(NotifierKind[CommandSettings]):
    """Exit code 0 means delivered; after any other code the command is retried later."""

    key = "command"

    def fields(self) -> Mapping[str, Any]:
        from pydantic import Field

        from recoup.shapes.duration_shape import Duration
        from recoup.shapes.forms import Words

        given = "Given each escalation as JSON on standard input."
        longest = "The longest that the command may take."
        return {
            "command": (Words | None, Field(None, description=given, examples=[["./page-me.sh"]])),
            "timeout": (Duration, Field(30, description=longest, examples=["30s"])),
        }

    def settings(self, written: Shape) -> CommandSettings | None:
        said = vars(written)
        return CommandSettings(tuple(said["command"]), said["timeout"]) if said["command"] else None

    def digested(self, settings: CommandSettings | None) -> Mapping[str, Any]:
        said = settings or CommandSettings(())
        return {"command": said.argv, "command_timeout_s": said.timeout_s}

    def timeout_s(self, settings: CommandSettings) -> float:
        return max(DELIVERY_S, settings.timeout_s + KILL_S)

    async def deliver(self, notification: Notification, settings: CommandSettings, site: NotifierSite) -> str:
        marks = {"RECOUP_ESCALATION_ID": notification.id, "RECOUP_RESOURCE_ID": notification.about}
        spec = ProcessSpec(
            argv=settings.argv,
            cwd=str(site.folder),
            env={**site.environ, **marks},
            wall_timeout_s=settings.timeout_s,
            idle_timeout_s=None,
            grace_s=1,
            stdin=notification.body.data,
        )
        try:
            ended = await site.keeper.keep(
                spec, before_exec=_at_once, lifeline=site.lifeline, output=_unread, stop=asyncio.Event()
            )
        except KeeperError as error:
            raise NotDelivered(error.message) from error
        has_exited = ended.ended_by is EndedBy.EXIT
        if has_exited and ended.exit_code == 0:
            return "exit 0"
        how = ended.detail or f"exit {ended.exit_code}" if has_exited else ended.ended_by
        raise NotDelivered(f"{settings.argv[0]}: {how}")


async def _at_once(_keeper: ProcessIdentity) -> None:
    """Delivering twice does no harm."""


def _unread(_stream: str, _chunk: bytes) -> None:
    """What it prints is read and forgotten."""


NOTIFIER = CommandNotifier()
