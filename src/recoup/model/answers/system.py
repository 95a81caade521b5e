"""What is answered about the gateway itself, and what is wrong with a request."""

from __future__ import annotations

from typing import Any, Literal

from recoup.model.answers.answer import Answer


class ProblemPart(Answer, frozen=True, kw_only=True):
    where: str
    message: str
    line: int | None = None


class ProblemAnswer(Answer, frozen=True, kw_only=True):
    """RFC 9457, and what to do next."""

    type: str
    title: str
    status: int
    detail: str
    hint: str
    instance: str
    problems: list[ProblemPart]


class Health(Answer, frozen=True, kw_only=True):
    status: Literal["ok"]
    version: str


class Me(Answer, frozen=True, kw_only=True):
    token_id: str
    name: str
    role: str


class SignedIn(Answer, frozen=True, kw_only=True):
    """The cookie is in the headers; `csrf` goes into the header `X-CSRF-Token` of every change."""

    role: str
    name: str
    csrf: str


class SignedOut(Answer, frozen=True, kw_only=True):
    ended: bool


class QueueDocument(Answer, frozen=True, kw_only=True):
    queues: list[dict[str, Any]]
    dead_letters: list[dict[str, Any]]
    more_dead_letters: bool


class WorkerList(Answer, frozen=True, kw_only=True):
    items: list[dict[str, Any]]
    next_cursor: str | None


class AuditDocument(Answer, frozen=True, kw_only=True):
    intact: bool
    files: int
    lines: int
    events: int
    gaps: list[dict[str, Any]]
    gaps_count: int
    first_break: dict[str, Any] | None
    ledger: dict[str, Any] | None
