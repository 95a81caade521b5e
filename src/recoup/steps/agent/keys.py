"""`agent:` as people write it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from recoup.model.plan import AgentAction, AgentSession
from recoup.shapes.command_words import LINE_CHARS_MAX, shell_words
from recoup.shapes.forms import WORDS_MAX, carried, first_said
from recoup.shapes.plan_written import mapping
from recoup.shapes.shape import AnyText, Shape, Text
from recoup.shapes.wording import Detail, described
from recoup.steps.kind_shape import KindShape

PROMPT_BYTES_MAX = 100_000
"""Leaves room for the objective and for what a retry is told, in one argument of a process."""


def _words(command: str) -> str:
    try:
        first_said(shlex.split(command) or [""])
    except ValueError as error:
        unclosed = "has a quote or a backslash without an end: close it"
        raise ValueError(unclosed if str(error).startswith("No ") else str(error)) from None
    return command


def _short(prompt: str) -> str:
    if len(prompt.encode()) > PROMPT_BYTES_MAX:
        raise ValueError(
            f"is longer than {PROMPT_BYTES_MAX:,} bytes: put it into a file and let the prompt name that"
        )
    return prompt


class AgentShape(Shape):
    cli: Annotated[Text, AfterValidator(carried), AfterValidator(_words)] = Field(
        description="The agent's command: claude, codex, gemini, or any other.",
        examples=["claude", "codex", "gemini", "my-agent --quiet {prompt}"],
    )
    prompt: Annotated[Text, AfterValidator(_short)] = Field(
        description="What the agent is to do.", examples=["Make the tests pass"]
    )
    args: list[Annotated[AnyText, AfterValidator(carried)]] = Field(
        [],
        max_length=WORDS_MAX,
        description="More arguments of the command: permissions, the model.",
        examples=[["--permission-mode", "acceptEdits"]],
    )
    resume: Literal["session", "fresh"] = Field(
        "fresh",
        description="What a second attempt begins with: a fresh session, or the session of the first.",
        examples=["session"],
    )
    mcp: bool = Field(
        True,
        description="Whether claude and codex get Recoup's tools: tell progress, ask what failed, ask for a reset.",
        examples=[False],
    )


class AgentKeys(KindShape):
    phrase = "asks a coding agent"
    agent: AgentShape = Field(
        description="A coding agent and what it is to do.",
        examples=[{"cli": "claude", "prompt": "Make the tests pass"}],
    )

    def action(self) -> AgentAction:
        said = self.agent
        return AgentAction(said.cli, said.prompt, tuple(said.args), AgentSession(said.resume), said.mcp)

    @classmethod
    def shapes(cls) -> Mapping[str, type[Shape]]:
        return {"agent": AgentShape}

    @classmethod
    def words(cls, detail: Detail, shape: type[Shape]) -> str | None:
        del shape
        given, key = detail["input"], str(detail["loc"][-1])
        if detail["type"] == "model_type" and key == "agent" and given is not None:
            return f"must be a mapping such as {{cli: claude, prompt: …}}, not {described(given)}"
        return None

    @classmethod
    def commands(cls, data: Mapping[str, Any]) -> Mapping[tuple[str, ...], Any]:
        agent = mapping(data.get("agent"))
        cli, args = agent.get("cli"), agent.get("args")
        words = shell_words(cli) if isinstance(cli, str) and len(cli) <= LINE_CHARS_MAX else []
        return {("agent", "cli"): [*words, *(args if isinstance(args, list) else [])]}
