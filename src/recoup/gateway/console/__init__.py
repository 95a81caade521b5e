"""Pages for people, made on the server. They look; whatever they change goes through the HTTP API like everybody's."""

from __future__ import annotations

from typing import Final

from recoup.gateway.console import assets, door, overview, run, runs

CONSOLE: Final = (assets.router, door.router, overview.router, runs.router, run.router)
"""One for each subject; their routes are in the table of access, too."""
