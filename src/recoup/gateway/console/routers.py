"""The routes of all pages, one router for each subject."""

from __future__ import annotations

from typing import Final

from recoup.gateway.console import (
    assets,
    audit,
    door,
    escalations,
    fleet,
    heals,
    overview,
    policy,
    probes,
    run,
    runs,
    settings,
    workflows,
)

CONSOLE: Final = (
    *(
        assets.router,
        door.router,
        overview.router,
        runs.router,
        run.router,
        heals.router,
        workflows.router,
        escalations.router,
    ),
    *(fleet.router, probes.router, audit.router, policy.router, settings.router),
)
"""One for each subject; their routes are in the table of access, too."""
