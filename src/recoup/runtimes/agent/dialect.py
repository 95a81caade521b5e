"""What a command line must tell about itself, so that its agent can be started and understood."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from recoup.runtimes.agent.story import Event, Heard, Story
from recoup.runtimes.agent.tools import Offer


@dataclass(frozen=True)
class Call:
    """What an agent is to be started with."""

    words: tuple[str, ...]
    """The command, as the plan names it."""
    prompt: str
    args: tuple[str, ...] = ()
    session_id: str | None = None
    """Of the session to go on in; None: a fresh one."""


@dataclass(frozen=True)
class Dialect:
    """One command line: how it is called, what its events mean, what its exit codes say."""

    name: str
    argv: Callable[[Call], tuple[str, ...]]
    opens: Callable[[Event], bool]
    """Whether an event is one with which only this command line begins."""
    hear: Callable[[Event, Story], Heard | None]
    """Folds one event into the story; None: it is of no kind that is known."""
    install: str
    exits: Mapping[int, str] = field(default_factory=dict)
    """Exit codes with a meaning, as facts."""
    aside: Callable[[str, Story], str] | None = None
    """Folds a line on stderr into the story; gives what to tell people of it. Without it nobody reads that."""
    refusals: tuple[tuple[str, str], ...] = ()
    """Words on its way out that are no event, and the fact they tell."""
    offer: Callable[[tuple[str, ...]], Offer] | None = None
    """How it is given an MCP server that is started by these words. None: it is given none."""
