"""`agent:` steps: a coding agent's command line in a process tree that a keeper keeps."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import msgspec

from recoup.model.failure import FailureKind
from recoup.model.outcome import Order, Outcome
from recoup.model.plan import AgentAction
from recoup.plugins import PluginBroken
from recoup.ports import Hooks, Keeper
from recoup.runtimes.agent.clis import argv_of, call_of, cli_name, dialect_of, says_all
from recoup.runtimes.agent.conclusion import concluded
from recoup.runtimes.agent.dialect import Call, Dialect
from recoup.runtimes.agent.listener import Listener
from recoup.runtimes.agent.tools import MISSING, Offer
from recoup.runtimes.process_attempt import perform_process
from recoup.runtimes.step_log import StepLog


class AgentRuntime:
    """Claude Code, Codex, Gemini, and any command that takes a prompt."""

    inline = False

    def __init__(
        self, keeper: Keeper, open_log: Callable[[Order], StepLog], server: tuple[str, ...] | None = None
    ) -> None:
        self._keeper = keeper
        self._open_log = open_log
        self._server = server
        """The words that start Recoup's MCP server for agents; None: it cannot be started here."""
        self._missing_was_told = False

    async def perform(self, order: Order, hooks: Hooks) -> Outcome:
        assert isinstance(order.action, AgentAction), "agents perform agent steps only"
        try:
            call, dialect = call_of(order), dialect_of(order.action)
        except PluginBroken as broken:
            return Outcome(kind=FailureKind.SPAWN_FAILED, detail=str(broken))
        if not any(call.words[:1]):
            # Otherwise the prompt would be the first word, and be executed.
            return Outcome(kind=FailureKind.SPAWN_FAILED, detail="the step names no command in `cli`")
        listener = Listener(dialect, hooks)
        offer = self._offer(order.action, call, dialect)
        outcome = await perform_process(
            *(self._keeper, self._open_log),
            msgspec.structs.replace(order, env={**offer.env, **order.env}),
            hooks,
            argv_of(dataclasses.replace(call, args=(*offer.args, *call.args)), dialect),
            listen=listener.open,
            note=offer.note,
        )
        listener.close()
        return concluded(outcome, listener, cli_name(order.action), call)

    def _offer(self, action: AgentAction, call: Call, dialect: Dialect | None) -> Offer:
        if not action.mcp or dialect is None or dialect.offer is None or says_all(call):
            return Offer()
        if self._server is not None:
            return dialect.offer(self._server)
        note, self._missing_was_told = "" if self._missing_was_told else MISSING, True
        return Offer(note=note)
