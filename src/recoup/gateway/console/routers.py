"""The pages of each subject, in the order in which they are tried and stand in the menu."""

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

PAGES: Final = (
    *(overview.router, runs.router, run.router, escalations.router, heals.router, workflows.router),
    *(fleet.router, probes.router, audit.router, policy.router, settings.router),
)
MENU: Final = tuple(pages.menu for pages in PAGES if pages.menu is not None)
CONSOLE: Final = (assets.router, door.router, *PAGES)
