"""The command lines that are known, and how a step's agent is called."""

from __future__ import annotations

import re
import shlex
from pathlib import PurePath
from typing import Final

from recoup.model.failure import FailureKind
from recoup.model.outcome import Order
from recoup.model.plan import AgentAction, AgentSession
from recoup.plugins import AGENTS, PluginBroken, plugins
from recoup.runtimes.agent.claude import CLAUDE
from recoup.runtimes.agent.codex import CODEX
from recoup.runtimes.agent.dialect import Call, Dialect
from recoup.runtimes.agent.gemini import GEMINI
from recoup.runtimes.agent.plain import has_place, plain_argv
from recoup.runtimes.agent.prompt import prompt_for
from recoup.runtimes.agent.story import Event, text

DIALECTS: Final = {dialect.name: dialect for dialect in (CLAUDE, CODEX, GEMINI)}
_NAME_CHARS_MAX: Final = 64
_RESETS: Final = frozenset({FailureKind.RESET_REQUESTED, FailureKind.HARD_RESET_REQUESTED})
_NOT_IN_NAMES: Final = re.compile(r"[^\w.-]+")


def dialect_of(action: AgentAction) -> Dialect | None:
    """By the name of the command: where it is installed does not matter. Raises PluginBroken."""
    name = cli_name(action)
    return DIALECTS.get(name) or _brought(name)


def _brought(name: str) -> Dialect | None:
    """By another package. Raises PluginBroken."""
    plugin = plugins(AGENTS).get(name)
    dialect: Dialect | None = None if plugin is None else plugin.load(Dialect)
    return dialect


def trouble_with_dialect(name: str) -> str | None:
    """Why what another package brings under this name cannot be used."""
    try:
        _brought(name)
    except PluginBroken as broken:
        return str(broken)
    return f"{name} is known to Recoup itself" if name in DIALECTS else None


def cli_name(action: AgentAction) -> str:
    name = PurePath((*_words(action), "")[0]).name
    return _NOT_IN_NAMES.sub("-", name)[:_NAME_CHARS_MAX] or "agent"


def _words(action: AgentAction) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(action.cli))
    except ValueError:
        return tuple(action.cli.split())


def opened_by(event: Event) -> Dialect | None:
    """Whose first event this is."""
    return next((dialect for dialect in DIALECTS.values() if dialect.opens(event)), None)


def call_of(order: Order) -> Call:
    action = order.action
    assert isinstance(action, AgentAction), "agents perform agent steps only"
    return Call(_words(action), prompt_for(order), action.args, _session(order, action))


def argv_of(call: Call, dialect: Dialect | None) -> tuple[str, ...]:
    if dialect is None or says_all(call):
        return plain_argv(call)
    return dialect.argv(call)


def says_all(call: Call) -> bool:
    """Who says where the prompt stands, says the whole command."""
    return has_place(call.words)


def _session(order: Order, action: AgentAction) -> str | None:
    """After a hard reset the workspace is another one, and what an earlier session knows about it is not true. And an
    agent that asked for a reset has said that its session is of no use."""
    context = order.retry_context
    anew = text(context, "strategy") == "hard_reset" or text(context, "failureKind") in _RESETS
    return order.session_id if action.resume is AgentSession.SESSION and not anew else None
