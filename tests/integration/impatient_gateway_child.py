"""A gateway that waits for nobody long. Its arguments are those of `recoup serve`, of which it heeds none."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import msgspec

from recoup.app import open_app
from recoup.gateway.serving import Opened, Setup, serve
from recoup.serving.connections import Patience
from recoup.settings import read_settings

PATIENCE = Patience(first_head_s_max=0.5, head_s_max=0.5, body_s_max=0.8, send_s_max=0.5)


def opened(told: Opened) -> None:
    sys.stdout.write(msgspec.json.encode(told).decode() + "\n")
    sys.stdout.flush()


async def main() -> None:
    settings = read_settings(os.environ, Path.cwd(), None)
    async with open_app(settings, os.environ) as app:
        await serve(app, Setup(port=0, patience=PATIENCE), opened, lambda _notice: None)


if __name__ == "__main__":
    asyncio.run(main())
