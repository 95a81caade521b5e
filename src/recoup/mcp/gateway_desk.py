"""A gateway, asked over HTTP with a token: what may be done is what its role may."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote, urlsplit

import httpx2
import msgspec

from recoup.errors import NotFound, RecoupError, StateError, UsageError
from recoup.kernel.listing import FILTERS
from recoup.mcp.desk import Document, EscalationSource, EscalationState, HealWord, Steering
from recoup.model.instant import Instant
from recoup.model.run_filter import FilterKind
from recoup.model.storage import EVERY_RUN, RunFilter
from recoup.operations.submission import SubmitRequest

_Value = str | int | Sequence[str] | None
_TIMEOUT_S: Final = 30.0
_NOT_FOUND: Final = 404
_PAGE_ITEMS: Final = 500
_PAGES_MAX: Final = 100


class GatewayDesk:
    """Whose token it is stands in events; the gateway says so."""

    def __init__(self, url: str, token: str) -> None:
        _must_be_safe(url)
        headers = {"Authorization": f"Bearer {token}"}
        self._client = httpx2.AsyncClient(base_url=url, headers=headers, timeout=_TIMEOUT_S)

    async def aclose(self) -> None:
        await self._client.aclose()

    async def runs(self, wanted: RunFilter, limit: int, cursor: str | None) -> Document:
        return await self._get("/api/runs", **_parameters(wanted), limit=limit, cursor=cursor)

    async def run(self, run_id: str) -> Document:
        return await self._get(_path("/api/runs", run_id))

    async def steps(self, run_id: str) -> Document:
        return await self._get(_path("/api/runs", run_id, "steps"))

    async def attempts(self, run_id: str) -> Document:
        return await self._pages(_path("/api/runs", run_id, "attempts"))

    async def events(self, run_id: str, after: int, limit: int) -> Document:
        return await self._get(_path("/api/runs", run_id, "events"), after=after, limit=limit)

    async def log_end(self, run_id: str, step: str, limit_bytes: int) -> Document:
        return await self._get(_path("/api/runs", run_id, "logs", step), limit=limit_bytes, tail="true")

    async def workflows(self) -> Document:
        return await self._pages("/api/workflows")

    async def mode(self, workflow: str) -> Document:
        return await self._get(_path("/api/workflows", workflow, "mode"))

    async def heals(
        self, workflow: str | None, run_id: str | None, state: HealWord | None, limit: int
    ) -> Document:
        return await self._get("/api/heals", workflow=workflow, run=run_id, state=state, limit=limit)

    async def escalations(
        self, state: EscalationState | None, source: EscalationSource | None, limit: int, cursor: str | None
    ) -> Document:
        return await self._get("/api/escalations", state=state, source=source, limit=limit, cursor=cursor)

    async def queue(self) -> Document:
        return await self._get("/api/queue")

    async def workers(self) -> Document:
        return await self._get("/api/workers")

    async def memory(self, workflow: str) -> Document:
        return await self._get(_path("/api/workflows", workflow, "memory"))

    async def submit(self, request: SubmitRequest) -> Document:
        body: dict[str, Any] = msgspec.to_builtins(request)
        return await self._ask("POST", "/api/runs", body=body)

    async def control(self, run_id: str, wanted: Steering) -> Document:
        said = {
            **{"action": wanted.action, "reason": wanted.reason, "stepId": wanted.step_id},
            **{"as": wanted.as_, "force": wanted.force},
        }
        return await self._ask("POST", _path("/api/runs", run_id, "control"), body=said)

    async def _pages(self, path: str) -> Document:
        """One after the other, as one; with a `nextCursor` where there are more than anybody looks through."""
        items: list[Any] = []
        cursor = None
        for _ in range(_PAGES_MAX):
            found = await self._get(path, limit=_PAGE_ITEMS, cursor=cursor)
            items += found["items"]
            cursor = found["nextCursor"]
            if cursor is None:
                break
        return {"items": items, "nextCursor": cursor}

    async def _get(self, path: str, **query: _Value) -> Document:
        return await self._ask("GET", path, {key: value for key, value in query.items() if value is not None})

    async def _ask(
        self, method: str, path: str, query: dict[str, Any] | None = None, body: dict[str, Any] | None = None
    ) -> Document:
        said = None if body is None else {key: value for key, value in body.items() if value is not None}
        try:
            answer = await self._client.request(method, path, params=query, json=said)
        except httpx2.HTTPError as error:
            raise StateError(
                f"the gateway {self._client.base_url} does not answer: {error}",
                hint="Whether something was done is not known: look before you ask again.",
            ) from None
        if answer.is_success:
            document: Document = msgspec.json.decode(answer.content)
            return document
        raise _refused(answer)


def _parameters(wanted: RunFilter) -> dict[str, _Value]:
    """What differs from the filter that means every run."""
    said = {name: value for name in FILTERS if (value := getattr(wanted, name)) != getattr(EVERY_RUN, name)}
    return {
        FILTERS[name].parameter or FILTERS[name].name: Instant(value, 0, "").iso()
        if FILTERS[name].kind is FilterKind.MOMENT
        else value
        for name, value in said.items()
    }


def _refused(answer: httpx2.Response) -> RecoupError:
    """What the gateway says about it, and what to do."""
    try:
        problem = msgspec.json.decode(answer.content)
        detail, hint = str(problem["detail"]), str(problem["hint"])
        parts = [f"{one['where']}: {one['message']}" for one in problem["problems"]]
    except (msgspec.DecodeError, KeyError, TypeError):
        return StateError(
            f"the gateway answered {answer.status_code}", hint="Is RECOUP_GATEWAY the address of a gateway?"
        )
    kind = NotFound if answer.status_code == _NOT_FOUND else UsageError
    return kind("\n".join((detail, *parts)), hint=hint)


def _path(*parts: str) -> str:
    return "/".join((parts[0], *(quote(part, safe="") for part in parts[1:])))


def _must_be_safe(url: str) -> None:
    """A token goes over this line."""
    place = urlsplit(url)
    if place.scheme not in ("http", "https") or not place.hostname:
        raise UsageError("RECOUP_GATEWAY is no address of a gateway", hint="For example https://HOST:8620")
    if place.scheme == "http" and not _is_loopback(place.hostname):
        raise UsageError(
            f"{place.hostname} is another machine, and the token would go there unencrypted",
            hint="Begin RECOUP_GATEWAY with https://",
        )


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
