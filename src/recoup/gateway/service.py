"""The application that answers: every router, every limit, one OpenAPI document."""

from __future__ import annotations

import inspect
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from recoup import __version__
from recoup.gateway import (
    approvals,
    artifacts,
    bulk,
    escalations,
    heals,
    lists,
    policies,
    probe_acts,
    probes,
    run_controls,
    runs,
    sessions,
    streams,
    system,
    webhooks,
    workflows,
)
from recoup.gateway.access import Role, roles_for
from recoup.gateway.answering import document
from recoup.gateway.console.routers import CONSOLE, MENU
from recoup.gateway.described import components
from recoup.gateway.hosts import OwnHosts
from recoup.gateway.house import House
from recoup.gateway.limits import Bounded
from recoup.gateway.problems import add_handlers
from recoup.gateway.routing import KEY_HEADER, new_router

ROUTERS: Final = (
    *(streams.router, lists.router, bulk.router, runs.router, artifacts.router),
    *(system.router, sessions.router, workflows.router, heals.router),
    *(probes.router, escalations.router, approvals.router, webhooks.router),
    *(policies.router, probe_acts.router, run_controls.router),
)
"""One for each subject; its routes are in the table of `access.py`. Tried one after the other: streams and
lists before runs, as `/api/runs/count` is no run, and all of them before what is asked less often."""
_NO_TELEMETRY: Final = dict.fromkeys(
    ("tracing", "metrics", "logs", "operation_spans", "auto_configure"), False
)
"""Of the framework itself, whatever the environment says: traces are made of stored events."""
_ABOUT: Final = (
    "Recoup over HTTP. Every request but `/healthz` and this document carries `Authorization: Bearer TOKEN`; "
    "`x-roles` says which roles may. Every POST takes an `Idempotency-Key`: asked again under the same key within a "
    "day, the same is answered and nothing is done twice. Errors are `application/problem+json`."
)


def build(house: House) -> FastAPI:
    api = FastAPI(
        title="Recoup",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,  # nobody is sent on to an address that somebody else has written
        **_quiet(),
    )
    api.state.house = house
    api.state.menu = MENU
    for router in (*ROUTERS, _own_description(), *CONSOLE):
        api.include_router(router)
    api.add_middleware(OwnHosts, names=house.hosts)
    api.add_middleware(Bounded)
    add_handlers(api)
    return api


def _quiet() -> dict[str, Any]:
    """Older versions of the framework have no telemetry."""
    return {"telemetry": _NO_TELEMETRY} if "telemetry" in inspect.signature(FastAPI).parameters else {}


def routes_of() -> list[APIRoute]:
    """All of them, as they are declared."""
    served = (*ROUTERS, *CONSOLE)
    return [route for router in served for route in router.routes if isinstance(route, APIRoute)]


def served() -> dict[tuple[str, str], frozenset[Role | None]]:
    """Everything that can be asked for, by method and path, and who may."""
    declared = [(method, route.path) for route in routes_of() for method in route.methods or ()]
    return {key: roles_for(*key) for key in [*declared, ("GET", "/api/openapi.json")]}


def described() -> dict[str, Any]:
    """The OpenAPI document."""
    made = get_openapi(title="Recoup", version=__version__, description=_ABOUT, routes=routes_of())
    parts = made.setdefault("components", {})
    parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    parts["schemas"] = dict(sorted({**parts["schemas"], **components(made)}.items()))
    for path, operations in made["paths"].items():
        for method, operation in operations.items():
            _complete(operation, method.upper(), path)
    return made


def _complete(operation: dict[str, Any], method: str, path: str) -> None:
    may = roles_for(method, path)
    operation["x-roles"] = sorted(role.value for role in may if role)
    operation["security"] = [] if None in may else [{"token": []}]
    if method == "POST":
        words = "The same key with the same request is answered the same, and nothing is done twice."
        schema = {"type": "string", "pattern": r"^[!-~]{1,128}$"}
        operation.setdefault("parameters", []).append(
            {"name": KEY_HEADER, "in": "header", "description": words, "schema": schema}
        )


def _own_description() -> APIRouter:
    router = new_router("system")
    made: list[dict[str, Any]] = []

    @router.get("/api/openapi.json")
    async def openapi(request: Request) -> Response:
        """This document."""
        if not made:
            made.append(described())
        return document(request, made[0])

    return router
