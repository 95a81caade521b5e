"""`agent:` steps: a coding agent's command line, given a prompt. The command lines that are known are in
`runtimes/agent/`."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from recoup.kernel.template import substitute
from recoup.model.plan import AgentAction
from recoup.ports import Runtime
from recoup.steps.kind import Data, Site, StepKind, Values, Way


class AgentStep(StepKind[AgentAction]):
    """An agent sends its prompt away, and every user can read the arguments of its process: no secret may be in
    either."""

    key = "agent"
    keys = "recoup.steps.agent.keys:AgentKeys"
    needs = frozenset({"agent"})
    filled = (("agent", "prompt"), ("agent", "args"))
    literal = (("agent", "cli"),)
    filled_words = ("prompt", "args")

    def open_to_others(self, data: Data) -> Mapping[Way, str]:
        del data
        return dict.fromkeys(self.filled, "pass it through `env`")

    def texts(self, action: AgentAction) -> tuple[str, ...]:
        return (action.prompt, *action.args)

    def fill(self, action: AgentAction, values: Values) -> tuple[AgentAction, dict[str, str]]:
        values.refuse_secrets(*self.texts(action))
        prompt = substitute(action.prompt, values.scope)
        args = tuple(substitute(word, values.scope) for word in action.args)
        return msgspec.structs.replace(action, prompt=prompt, args=args), {}

    def instructions(self, action: AgentAction) -> str:
        return action.prompt

    def runtime(self, site: Site) -> Runtime:
        from recoup.runtimes.agent.runtime import AgentRuntime

        return AgentRuntime(site.keeper, site.open_log, site.tool_server())

    def programs(self, action: AgentAction) -> tuple[str, ...]:
        return (action.cli.partition(" ")[0],)


STEP = AgentStep()
