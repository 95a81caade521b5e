"""Who may do what: one table, every route in it. A route that is not in the table cannot be served."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec


class Role(StrEnum):
    VIEWER = "viewer"
    """Looks."""
    OPERATOR = "operator"
    """Looks and changes. Who may submit a plan may run any command that the workers can: a plan is code."""
    WORKER = "worker"
    """A machine that drives runs."""
    PROBE = "probe"
    """A machine that watches processes."""


class Principal(msgspec.Struct, frozen=True):
    """Whoever asks, by their token."""

    token_id: str
    name: str
    role: Role

    @property
    def actor(self) -> str:
        """As it stands in events."""
        return f"{self.name} ({self.role}, {self.token_id})"


ANYBODY: Final = frozenset(Role) | {None}
"""Without a token, too."""
KNOWN: Final = frozenset(Role)
LOOKING: Final = frozenset({Role.VIEWER, Role.OPERATOR})
CHANGING: Final = frozenset({Role.OPERATOR})

MAY: Final[dict[tuple[str, str], frozenset[Role | None]]] = {
    ("GET", "/healthz"): ANYBODY,
    ("GET", "/api/openapi.json"): ANYBODY,
    ("POST", "/api/session"): ANYBODY,
    ("POST", "/api/session/end"): KNOWN,
    ("GET", "/metrics"): KNOWN,
    ("GET", "/api/me"): KNOWN,
    ("GET", "/api/runs"): LOOKING,
    ("POST", "/api/runs"): CHANGING,
    ("GET", "/api/runs/stream"): LOOKING,
    ("GET", "/api/runs/{run_id}"): LOOKING,
    ("GET", "/api/runs/{run_id}/steps"): LOOKING,
    ("GET", "/api/runs/{run_id}/attempts"): LOOKING,
    ("GET", "/api/runs/{run_id}/events"): LOOKING,
    ("GET", "/api/runs/{run_id}/events/stream"): LOOKING,
    ("GET", "/api/runs/{run_id}/logs/{step}"): LOOKING,
    ("GET", "/api/runs/{run_id}/logs/{step}/stream"): LOOKING,
    ("GET", "/api/runs/{run_id}/controls"): LOOKING,
    ("POST", "/api/runs/{run_id}/control"): CHANGING,
    ("POST", "/api/task-runs/{run_id}/control"): CHANGING,
    ("GET", "/api/events"): LOOKING,
    ("GET", "/api/events/stream"): LOOKING,
    ("GET", "/api/workflows"): LOOKING,
    ("GET", "/api/workflows/{name}/mode"): LOOKING,
    ("POST", "/api/workflows/{name}/mode"): CHANGING,
    ("GET", "/api/workflows/{name}/memory"): LOOKING,
    ("POST", "/api/workflows/{name}/memory/snapshot"): CHANGING,
    ("POST", "/api/workflows/{name}/memory/rollback"): CHANGING,
    ("GET", "/api/heals"): LOOKING,
    ("POST", "/api/heals/{run_id}/{step}/accept"): CHANGING,
    ("POST", "/api/heals/{run_id}/{step}/reject"): CHANGING,
    ("GET", "/api/queue"): LOOKING | {Role.WORKER},
    ("GET", "/api/workers"): LOOKING | {Role.WORKER},
    ("GET", "/api/policy"): KNOWN,
    ("GET", "/api/audit/verify"): LOOKING,
    # Pages
    ("GET", "/static/{version}/{name}"): ANYBODY,
    ("GET", "/sign-in"): ANYBODY,
    ("GET", "/"): LOOKING,
    ("GET", "/runs"): LOOKING,
    ("GET", "/runs/new"): LOOKING,
    ("GET", "/runs/{run_id}"): LOOKING,
    ("GET", "/runs/{run_id}/report"): LOOKING,
}
