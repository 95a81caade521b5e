"""What an attempt came to. Values; nothing is decided from them here."""

from __future__ import annotations

import msgspec

from recoup.model.events import AgentReport, HandlerResult
from recoup.model.failure import Failure
from recoup.model.outcome import Collected, Seen
from recoup.model.run import Verdict
from recoup.model.workspace import Change, Snapshot

NO_CHANGE = Change(None)
NO_OUTPUTS = Collected()
SecretsFound = tuple[tuple[str, tuple[str, ...]], ...]
"""Paths, and the names of the registered secrets in each."""


class Passed(msgspec.Struct, frozen=True):
    """The step is done, and this proves it (or, unverified, does not)."""

    verdict: Verdict
    duration_ms: int = 0
    exit_code: int | None = None
    outputs: Collected = NO_OUTPUTS
    private_outputs: tuple[str, ...] = ()
    """Those of the plain ones whose originals are in the private store."""
    evidence: tuple[str, ...] = ()
    change: Change = NO_CHANGE
    snapshot: Snapshot | None = None
    secrets_found: SecretsFound = ()
    settled_by: str = "outcome"
    agent: AgentReport | None = None
    handlers: tuple[HandlerResult, ...] = ()
    seen: Seen | None = None
    files_lost: bool = False
    """Its workspace was lost with it: the run goes on without the files that the step changed."""


class Kept(msgspec.Struct, frozen=True):
    """A checkpoint, and what it should not hold."""

    snapshot: Snapshot
    secrets_found: SecretsFound = ()


class Failed(msgspec.Struct, frozen=True):
    """The attempt failed, or nobody can know."""

    failure: Failure
    evidence: tuple[str, ...] = ()
    change: Change = NO_CHANGE
    agent: AgentReport | None = None
    handlers: tuple[HandlerResult, ...] = ()
    seen: Seen | None = None


class Interrupted:
    """The driver asked for the end; nothing is concluded."""


class Troubled(msgspec.Struct, frozen=True):
    """The command failed because the machine is in trouble: nothing is learned about the step, and nothing is spent."""

    words: str
    outcome_known: bool = True


class ApprovalRefuted(msgspec.Struct, frozen=True):
    """The step was not performed: what a person has approved does not hold any more."""

    words: str


Conclusion = Passed | Failed | Interrupted | Troubled | ApprovalRefuted
