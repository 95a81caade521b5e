"""Work of the other kinds as people write it: `python`, `agent` and `browser`."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field

from recoup.documents.forms import WORDS_MAX, ArgumentName, FunctionName, carried, first_said
from recoup.documents.json_values import exact
from recoup.documents.later import Later
from recoup.documents.shape import AnyText, Shape, Text
from recoup.documents.work_shape import Work
from recoup.model.plan import AgentAction, AgentSession, BrowserAction, PythonAction

if TYPE_CHECKING:
    from recoup.documents.browser_shape import VerbShape

ARGUMENTS_MAX = 100
PROMPT_BYTES_MAX = 100_000
"""Leaves room for the objective and for what a retry is told, in one argument of a process."""


class PythonWork(Work):
    kind = "python"
    python: FunctionName = Field(
        description="A function to call in a process of its own, as module:function.",
        examples=["invoices.totals:compute"],
    )
    arguments: dict[ArgumentName, Annotated[Any, exact("write it as text")]] = Field(
        {},
        alias="with",
        max_length=ARGUMENTS_MAX,
        description="Its arguments by name, each any JSON value.",
        examples=[{"count": "${{ steps.fetch.outputs.count }}", "currencies": ["EUR", "USD"]}],
    )

    def action(self) -> PythonAction:
        return PythonAction(self.python, dict(self.arguments))


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

    def value(self) -> AgentAction:
        return AgentAction(self.cli, self.prompt, tuple(self.args), AgentSession(self.resume), self.mcp)


class AgentWork(Work):
    kind = "agent"
    agent: AgentShape = Field(
        description="A coding agent and what it is to do.",
        examples=[{"cli": "claude", "prompt": "Make the tests pass"}],
    )

    def action(self) -> AgentAction:
        return self.agent.value()


def _browser_actions() -> Any:
    from recoup.documents.browser_shape import BrowserShape

    return BrowserShape


class BrowserWork(Work):
    kind = "browser"
    browser: Annotated[Any, Later(_browser_actions)] = Field(
        description="One thing to do in the run's browser: the key is the verb.",
        examples=[
            {"goto": "https://shop.example/invoices"},
            {"click": {"role": "button", "name": "Approve", "near": "INV-1001"}},
        ],
    )

    def action(self) -> BrowserAction:
        shape: VerbShape = self.browser
        return shape.action()
