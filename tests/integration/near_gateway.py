"""A gateway in this process: its routes without its sockets."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx2

from recoup.app import App, open_app
from recoup.gateway.access import Role
from recoup.gateway.book import Book
from recoup.gateway.house import House
from recoup.gateway.service import build
from recoup.model.events import Payload
from recoup.model.storage import Append, Draft, StreamAppend
from recoup.settings import read_settings


@dataclass
class Near:
    """What a test can reach of it."""

    app: App
    house: House
    tokens: dict[Role, str]
    client: httpx2.AsyncClient

    def auth(self, role: Role = Role.OPERATOR) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[role]}"}

    async def get(self, path: str, role: Role = Role.OPERATOR) -> httpx2.Response:
        return await self.client.get(path, headers=self.auth(role))

    async def post(self, path: str, document: object, role: Role = Role.OPERATOR) -> httpx2.Response:
        return await self.client.post(path, json=document, headers=self.auth(role))

    async def keep(self, stream: str, *facts: Payload) -> None:
        """Straight into the ledger."""
        drafts = tuple(Draft(fact.TYPE, self.app.redactor.seal(fact)) for fact in facts)
        await self.app.ledger.append(
            Append(at=self.app.world.clock.now(), streams=(StreamAppend(stream, drafts),))
        )


@contextlib.asynccontextmanager
async def near_gateway(folder: Path, *, raises: bool = False) -> AsyncIterator[Near]:
    settings = read_settings({"HOME": str(folder)}, folder, str(folder / "home"))
    async with open_app(settings, {}) as app:
        with contextlib.closing(Book(folder / "home" / "gateway.db", time.time)) as book:
            tokens = {role: book.make(role, role.value, "now") for role in Role}
            house = House(app, book)
            served = httpx2.ASGITransport(app=build(house), raise_app_exceptions=raises)
            async with httpx2.AsyncClient(transport=served, base_url="http://127.0.0.1") as client:
                yield Near(app, house, tokens, client)
