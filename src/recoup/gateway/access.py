"""Who may do what: one table for the API. A route of the API that is not in the table cannot be served."""

from __future__ import annotations

from typing import Final

from recoup.tokens import Principal as Principal
from recoup.tokens import Role as Role

ANYBODY: Final = frozenset(Role) | {None}
"""Without a token, too."""
KNOWN: Final = frozenset(Role)
LOOKING: Final = frozenset({Role.VIEWER, Role.OPERATOR})
CHANGING: Final = frozenset({Role.OPERATOR})
REPORTING: Final = frozenset({Role.PROBE})

MAY: Final[dict[tuple[str, str], frozenset[Role | None]]] = {
    ("GET", "/healthz"): ANYBODY,
    ("GET", "/api/openapi.json"): ANYBODY,
    ("POST", "/api/session"): ANYBODY,
    ("POST", "/api/session/end"): KNOWN,
    ("GET", "/metrics"): KNOWN,
    ("GET", "/api/me"): KNOWN,
    ("GET", "/api/runs"): LOOKING,
    ("POST", "/api/runs"): CHANGING,
    ("GET", "/api/runs/count"): LOOKING,
    ("POST", "/api/runs/bulk"): CHANGING,
    ("GET", "/api/tallies"): LOOKING,
    ("GET", "/api/history"): LOOKING,
    ("GET", "/api/runs/stream"): LOOKING,
    ("GET", "/api/stream"): LOOKING,
    ("GET", "/api/runs/{run_id}"): LOOKING,
    ("GET", "/api/runs/{run_id}/steps"): LOOKING,
    ("GET", "/api/runs/{run_id}/attempts"): LOOKING,
    ("GET", "/api/runs/{run_id}/attempts/{step}/{attempt}"): LOOKING,
    ("GET", "/api/runs/{run_id}/patches/{step}"): LOOKING,
    ("GET", "/api/runs/{run_id}/report"): LOOKING,
    ("GET", "/api/evidence/{handle}"): LOOKING,
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
    ("GET", "/api/workflows/{name}/memory/diff"): LOOKING,
    ("POST", "/api/workflows/{name}/memory/snapshot"): CHANGING,
    ("POST", "/api/workflows/{name}/memory/rollback"): CHANGING,
    ("GET", "/api/heals"): LOOKING,
    ("GET", "/api/heals/{run_id}/{step}/patch"): LOOKING,
    ("POST", "/api/heals/{run_id}/{step}/accept"): CHANGING,
    ("POST", "/api/heals/{run_id}/{step}/reject"): CHANGING,
    ("GET", "/api/queue"): LOOKING | {Role.WORKER},
    ("GET", "/api/workers"): LOOKING | {Role.WORKER},
    ("GET", "/api/policy"): KNOWN,
    ("POST", "/api/policy/what-if"): LOOKING,
    ("GET", "/api/audit/verify"): LOOKING,
    ("POST", "/api/probe/events"): REPORTING,
    ("GET", "/api/probe/events"): LOOKING,
    ("GET", "/api/probe/commands"): REPORTING,
    ("POST", "/api/probe/commands"): CHANGING,
    ("GET", "/api/escalations"): LOOKING,
    ("GET", "/api/escalations/{escalation_id}"): LOOKING,
    ("POST", "/api/escalations/{escalation_id}/acknowledge"): CHANGING,
    ("POST", "/api/escalations/{escalation_id}/assign"): CHANGING,
    ("POST", "/api/escalations/{escalation_id}/resolve"): CHANGING,
    ("GET", "/api/approvals"): LOOKING,
    ("GET", "/api/approvals/{ref}"): LOOKING,
    ("POST", "/api/approvals/{ref}/approve"): CHANGING,
    ("POST", "/api/approvals/{ref}/reject"): CHANGING,
    ("GET", "/api/webhooks"): LOOKING,
    ("POST", "/api/webhooks"): CHANGING,
    ("POST", "/api/webhooks/{webhook_id}/remove"): CHANGING,
    ("POST", "/api/webhooks/{webhook_id}/test"): CHANGING,
    ("POST", "/api/probes/{probe_id}/act"): CHANGING,
    ("POST", "/api/probes/{probe_id}/release"): CHANGING,
    # Open pages
    ("GET", "/static/{version}/{name}"): ANYBODY,
    ("GET", "/sign-in"): ANYBODY,
}
"""Every route of the API, and the pages that are open to all."""


def roles_for(method: str, path: str) -> frozenset[Role | None]:
    """Pages look and never change anything: those that the table leaves out are for the roles that may look. Raises
    KeyError for any other route that is not in the table."""
    is_page = method == "GET" and not path.startswith("/api/")
    return MAY.get((method, path), LOOKING) if is_page else MAY[method, path]
