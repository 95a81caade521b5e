"""What came of an agent's attempt: from how its process ended and what it told. Exit 0 is no evidence."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from recoup.kernel.classify import retry_after_s
from recoup.model.events import AgentReport
from recoup.model.failure import FailureKind
from recoup.model.outcome import Captured, Outcome
from recoup.runtimes.agent.dialect import Call, Dialect
from recoup.runtimes.agent.listener import Listener
from recoup.runtimes.agent.story import Trouble
from recoup.runtimes.agent.trouble import SESSION_NOT_FOUND, deciding, fact_in, is_outage, kind_of_trouble

LAST_COMMAND_CHARS_MAX: Final = 2_000
_DENIAL_CHARS_MAX: Final = 200
_WORDS_CHARS_MAX: Final = 1_000
_STDERR_BYTES: Final = 8_192
NO_RESULT: Final = "no_result"
_RESETS: Final = frozenset({FailureKind.RESET_REQUESTED, FailureKind.HARD_RESET_REQUESTED})


def concluded(outcome: Outcome, listener: Listener, cli: str, call: Call) -> Outcome:
    """The outcome in the agent's terms: its own words in the place of its events, and a kind where it failed."""
    if outcome.kind in (FailureKind.SPAWN_FAILED, FailureKind.MACHINE_TROUBLE):
        return replace(outcome, detail=_how_to_start(outcome.detail, listener.dialect, call))
    story = listener.story
    trouble = _trouble(outcome, listener, call)
    told = replace(outcome, agent=_report(listener, cli, trouble))
    if story.events:
        told = replace(told, stdout=_captured(story.message))
    if outcome.interrupted:
        return told
    if outcome.kind in _RESETS:
        return replace(told, agent_event=f"{cli}:asked:{outcome.kind}", stdout=_captured(""))
    if outcome.kind is not None:
        return _stopped(told, story.waiting, cli)
    if trouble and (is_outage(trouble.fact) or not story.denials):
        return _failed(told, trouble, cli)
    return _denied(told, story.denials, cli) if story.denials else told


def _trouble(outcome: Outcome, listener: Listener, call: Call) -> Trouble | None:
    story, code = listener.story, outcome.exit_code
    if story.trouble:
        exits = listener.dialect.exits if listener.dialect else {}
        fact = deciding(story.trouble.fact, fact_in(story.trouble.words), exits.get(code or 0, ""))
        return story.trouble._replace(fact=fact)
    if code == 0:
        return None if story.ended else _silence(listener, call)
    if code is None or listener.dialect is None:
        return None
    return _refusal(outcome, listener.dialect, call) or (None if story.ended else story.waiting)


def _silence(listener: Listener, call: Call) -> Trouble | None:
    """It exited with 0 and did not say that it was done. A command line that changed its events would otherwise succeed
    with everything from then on."""
    if listener.story.events:
        words = "the agent ended without saying how"
        return None if listener.overlong else Trouble("exit", NO_RESULT, words)
    asked_otherwise = any(word.startswith("--output-format") for word in call.args)
    if listener.dialect is None or asked_otherwise:
        return None
    words = "the agent exited with 0 and said nothing that is understood; is its version a known one?"
    return Trouble("exit", NO_RESULT, words)


def _refusal(outcome: Outcome, dialect: Dialect, call: Call) -> Trouble | None:
    """What the command line says on its way out, with an exit code or in words that are no event."""
    words = outcome.stderr.last(_STDERR_BYTES).decode("utf-8", "replace")
    for phrase, fact in dialect.refusals:
        if phrase in words and (call.session_id or fact != SESSION_NOT_FOUND):
            return Trouble("exit", fact, words.strip())
    fact = dialect.exits.get(outcome.exit_code or 0, "")
    return Trouble("exit", fact) if fact else None


def _failed(outcome: Outcome, trouble: Trouble, cli: str) -> Outcome:
    """What the agent said about its work is left out: its words must not be read as those of the failure."""
    told_s = trouble.retry_after_s if trouble.retry_after_s is not None else retry_after_s(trouble.words)
    return replace(
        outcome,
        kind=kind_of_trouble(trouble.fact, told_s),
        agent_event=f"{cli}:{trouble.event}:{trouble.fact}",
        retry_after_s=told_s,
        detail=trouble.words[:_WORDS_CHARS_MAX],
        stdout=_captured(""),
    )


def _stopped(outcome: Outcome, waiting: Trouble | None, cli: str) -> Outcome:
    """Ended from outside. What the agent was waiting for tells why it did nothing."""
    if waiting is None or (outcome.kind and outcome.kind.is_excess):
        return outcome
    words = f"the agent waited for its service: {waiting.words}"[:_WORDS_CHARS_MAX]
    event = f"{cli}:{waiting.event}:{waiting.fact}"
    return replace(outcome, agent_event=event, retry_after_s=waiting.retry_after_s, detail=words)


def _denied(outcome: Outcome, denials: list[str], cli: str) -> Outcome:
    listed = "; ".join(denials)[:_WORDS_CHARS_MAX]
    words = f"the agent was denied: {listed}\nAllow it in the step's `args`, or take the tool from the agent."
    event = f"{cli}:denied:permission_denied"
    return replace(outcome, kind=FailureKind.TOOL_DENIED, agent_event=event, detail=words)


def _how_to_start(detail: str, dialect: Dialect | None, call: Call) -> str:
    if "Argument list too long" in detail:
        return f"{detail}; put the prompt into a file and let the prompt name that"
    if dialect and call.words and detail.endswith(f": {call.words[0]}"):
        return f"{detail}; install it ({dialect.install}) or put it on the PATH"
    return detail


def _report(listener: Listener, cli: str, trouble: Trouble | None) -> AgentReport:
    """Redacted first and cut then. Names stay as they are, so none may hold a secret; a session that is gone is not
    gone on with."""
    story, redacted = listener.story, listener.redacted
    lost = trouble is not None and trouble.fact == SESSION_NOT_FOUND
    return AgentReport(
        cli=cli if redacted(cli) == cli else "agent",
        session_id=None if lost else listener.nameable_session,
        turns=story.turns,
        cost_usd=story.cost_usd,
        last_command=redacted(story.last_command)[:LAST_COMMAND_CHARS_MAX],
        denials=tuple(redacted(one)[:_DENIAL_CHARS_MAX] for one in story.denials),
    )


def _captured(message: str) -> Captured:
    raw = message.encode("utf-8", "replace")
    return Captured(raw, b"", len(raw))
