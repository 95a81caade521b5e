"""The gateway and what stands behind it: health, metrics, the queue, workers, the policy, the audit, all events."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from recoup import __version__
from recoup.gateway.answering import document, page
from recoup.gateway.described import answers, refusals
from recoup.gateway.house import house_of, principal_of
from recoup.gateway.routing import new_router
from recoup.gateway.runs import After, Limit
from recoup.model.answers.runs import EventPage
from recoup.model.answers.system import AuditDocument, Health, Me, QueueDocument, WorkerList
from recoup.model.answers.workflows import PolicyDocument
from recoup.operations import policies, queues
from recoup.operations.events import arrivals_after, must_answer
from recoup.operations.tail import arrival_line

router = new_router("system")
_PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"


@router.get("/healthz", responses=answers(Health))
async def healthz(request: Request) -> Response:
    """Whether the ledger answers. For anybody: it tells nothing else."""
    await must_answer(house_of(request).app)
    return document(request, {"status": "ok", "version": __version__})


@router.get(
    "/metrics",
    responses={200: {"description": "For Prometheus.", "content": {"text/plain": {}}}, **refusals()},
)
async def metrics(request: Request) -> Response:
    """What the workers of this process have done, in the text format of Prometheus."""
    found = house_of(request).app.metrics.collector()
    assert found is not None, "a gateway always measures"
    return Response(await asyncio.to_thread(found.render), 200, None, _PROMETHEUS)


@router.get("/api/me", responses=answers(Me))
async def me(request: Request) -> Response:
    """Whose token this is."""
    who = principal_of(request)
    return document(request, {"tokenId": who.token_id, "name": who.name, "role": who.role.value})


@router.get("/api/events", responses=answers(EventPage))
async def list_arrivals(request: Request, after: After = None, limit: Limit = 100) -> Response:
    """The events of all streams as they came. The cursor is the number of the last one: `after`."""
    came, behind = await arrivals_after(house_of(request).app, after or 0, limit)
    return page(request, [arrival_line(one) for one in came], None if behind is None else str(behind))


@router.get("/api/queue", responses=answers(QueueDocument))
async def show_queue(request: Request) -> Response:
    """What waits in each queue, what is driven, and what was given up."""
    return document(request, await queues.show_queue(house_of(request).app))


@router.get("/api/workers", responses=answers(WorkerList))
async def list_workers(request: Request) -> Response:
    return page(request, await queues.list_workers(house_of(request).app), None)


@router.get("/api/policy", responses=answers(PolicyDocument))
async def show_policy(request: Request) -> Response:
    """The one that a run would begin with."""
    return document(request, await policies.show_policy(house_of(request).app))


@router.get("/api/audit/verify", responses=answers(AuditDocument))
async def verify_audit(request: Request) -> Response:
    """Walks all files of the audit, line by line, and compares them with the ledger. Takes a while; whoever
    asks meanwhile is told the same."""
    report = await house_of(request).audits.verified()
    return document(request, {"intact": report.intact, **msgspec.to_builtins(report)})
