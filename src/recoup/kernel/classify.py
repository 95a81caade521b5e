"""From symptoms to classes: whether trying again can help.

Order: the user's exit codes, and what a step itself says that its failure was; structured facts (kind, waiting time,
agent event, exit code, exception); then words, the user's before the built-in ones. What is not recognised is
unknown: one bounded retry. An outage is never deterministic, so words of an outage overrule whatever is only a
convention or a word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from signal import Signals

from recoup.kernel.masks import without_colours
from recoup.kernel.phrases import (
    DETERMINISTIC,
    DISK_WORDS,
    OUTAGES,
    TEXT_CHARS_MAX,
    Rules,
    first_found,
    words_of,
)
from recoup.kernel.signature import last_error_line, salient, shown_lines
from recoup.model.failure import Facts, FailureClass, FailureKind
from recoup.model.policy import Policy

SUMMARY_CHARS_MAX = 300

Explained = tuple[FailureClass, str]
"""A class and which rule decided it."""

KIND_TO_CLASS: dict[FailureKind, FailureClass] = {
    FailureKind.EXIT_NONZERO: FailureClass.UNKNOWN,
    FailureKind.SIGNALLED: FailureClass.TRANSIENT_RUNTIME,
    FailureKind.WALL_TIMEOUT: FailureClass.TRANSIENT_RUNTIME,
    FailureKind.IDLE_TIMEOUT: FailureClass.STUCK_NO_PROGRESS,
    FailureKind.WATCHDOG: FailureClass.TRANSIENT_RUNTIME,
    FailureKind.CONNECTION_LOST: FailureClass.TRANSIENT_RUNTIME,
    FailureKind.DRIVER_LOST: FailureClass.TRANSIENT_RUNTIME,
    FailureKind.SPAWN_FAILED: FailureClass.DETERMINISTIC_CONTRACT,
    # A lack of memory, processes or disk seldom passes by itself and is no fault of the plan either: one bounded retry.
    FailureKind.OUT_OF_MEMORY: FailureClass.UNKNOWN,
    FailureKind.TOO_MANY_PROCESSES: FailureClass.UNKNOWN,
    FailureKind.DISK_FULL: FailureClass.UNKNOWN,
    # A system call refused for a reason of the machine's: it may work in a moment, or on another machine.
    FailureKind.MACHINE_TROUBLE: FailureClass.TRANSIENT_RUNTIME,
    FailureKind.RATE_LIMITED: FailureClass.COOLDOWN,
    FailureKind.EXCEPTION: FailureClass.UNKNOWN,
    FailureKind.AGENT_ERROR: FailureClass.UNKNOWN,
    FailureKind.TOOL_DENIED: FailureClass.DETERMINISTIC_POLICY,
    FailureKind.POSTCONDITION_FAILED: FailureClass.UNKNOWN,
    FailureKind.OUTPUT_INVALID: FailureClass.DETERMINISTIC_CONTRACT,
    FailureKind.SECRET_UNDECLARED: FailureClass.DETERMINISTIC_CONTRACT,
    FailureKind.INVALID_INPUT: FailureClass.DETERMINISTIC_CONTRACT,
    # Restoring the checkpoint may help, once: see `decide`. What destroys its workspace twice will do so again.
    FailureKind.WORKSPACE_BROKEN: FailureClass.UNKNOWN,
    FailureKind.TARGET_NOT_FOUND: FailureClass.TRANSIENT_RUNTIME,
    FailureKind.LOW_CONFIDENCE: FailureClass.TRANSIENT_RUNTIME,
    # Mistakes in a plan, told only when they were still there at the end of the whole wait.
    FailureKind.TARGET_AMBIGUOUS: FailureClass.DETERMINISTIC_CONTRACT,
    FailureKind.HEAL_REFUSED: FailureClass.DETERMINISTIC_CONTRACT,
    FailureKind.RUNTIME_DRIFT: FailureClass.TRANSIENT_RUNTIME,
    FailureKind.TARGET_BLOCKED: FailureClass.TRANSIENT_RUNTIME,
    FailureKind.BROWSER_CRASHED: FailureClass.TRANSIENT_RUNTIME,
    FailureKind.NAVIGATION_FAILED: FailureClass.TRANSIENT_RUNTIME,
    # Its status says more: it is told as an event.
    FailureKind.HTTP_ERROR: FailureClass.UNKNOWN,
    FailureKind.DIALOG_BLOCKED: FailureClass.UNKNOWN,
    FailureKind.DOWNLOAD_STALLED: FailureClass.TRANSIENT_RUNTIME,
    FailureKind.REJECTED: FailureClass.DETERMINISTIC_POLICY,
    # Whoever works in the step says that it gets no further.
    FailureKind.RESET_REQUESTED: FailureClass.STUCK_NO_PROGRESS,
    FailureKind.HARD_RESET_REQUESTED: FailureClass.STUCK_NO_PROGRESS,
}
"""Every kind but `cancelled`, which is nobody's failure and never classified."""


def classify(facts: Facts, policy: Policy) -> FailureClass:
    return explain(facts, policy)[0]


def explain(facts: Facts, policy: Policy) -> Explained:
    assert facts.kind is not FailureKind.CANCELLED, "a cancelled attempt is not a failure: do not classify it"
    words = words_of(without_colours(facts.excerpt))
    return (
        _by_users_exit_code(facts, policy)
        or _by_steps_own_word(facts)
        or _by_kind(facts, words)
        or _by_convention_and_words(facts, words, policy)
        or (FailureClass.UNKNOWN, f"{facts.kind}: no rule recognised it")
    )


def says_disk_full(facts: Facts) -> bool:
    """Its own last errors say that a disk is full: perhaps another one than the machine can be asked about."""
    if facts.kind not in _READABLE:
        return False
    return first_found(DISK_WORDS, words_of(without_colours(salient(facts.excerpt)))) is not None


def _by_users_exit_code(facts: Facts, policy: Policy) -> Explained | None:
    code = facts.exit_code
    # After a timeout or a kill the exit code is our own doing, not the step's word.
    if code is None or facts.kind not in _EXIT_CODE_COUNTS or code not in policy.exit_codes:
        return None
    return policy.exit_codes[code], f"policy: exit code {code}"


def _by_steps_own_word(facts: Facts) -> Explained | None:
    """The step was asked and has answered: no word that it printed can know better."""
    for name in _lineage(facts):
        if cls := _OWN_WORDS.get(name):
            return cls, f"raised {name}"
    return None


def _by_kind(facts: Facts, words: str) -> Explained | None:
    """Kinds that say enough by themselves; those that the table calls unknown are looked at further."""
    cls = KIND_TO_CLASS[facts.kind]
    if facts.kind is FailureKind.SPAWN_FAILED and (outage := _by_words(OUTAGES, words)):
        return outage
    if facts.kind is FailureKind.IDLE_TIMEOUT and (waiting := _by_agent_event(facts)):
        # The agent did nothing because its service did not answer, and said so.
        return waiting
    if facts.retry_after_s is not None and cls in _MAY_WAIT and not facts.kind.is_excess:
        return FailureClass.COOLDOWN, f"told to wait {_duration(1000 * facts.retry_after_s)}"
    return None if cls is FailureClass.UNKNOWN else (cls, f"kind {facts.kind}")


def _by_convention_and_words(facts: Facts, words: str, policy: Policy) -> Explained | None:
    readable = facts.kind in _READABLE
    convention = _by_convention(facts) if readable else None
    if convention and not convention[0].is_deterministic:
        return convention
    users = _by_users_words(words, policy)
    if users and not (convention and users[0].is_deterministic):
        return users
    if not readable:
        return None
    # An outage may be told anywhere; what ends a step for good must be told with its last errors.
    last_words = words_of(without_colours(salient(facts.excerpt)))
    return _by_words(OUTAGES, words) or convention or _by_words(DETERMINISTIC, last_words)


def _by_convention(facts: Facts) -> Explained | None:
    """What an agent event, an exit code or an exception usually means."""
    return _by_agent_event(facts) or _by_exit_code(facts) or _by_exception(facts)


def _by_agent_event(facts: Facts) -> Explained | None:
    cls = agent_event_class(facts.agent_event or "")
    return (cls, f"agent event {facts.agent_event}") if cls else None


def agent_event_class(event: str) -> FailureClass | None:
    """What an agent's own event means: `rate_limit`, or with where it was told, `claude:result:rate_limit`."""
    return _AGENT_EVENTS.get(event.rpartition(":")[2].lower())


def _by_exit_code(facts: Facts) -> Explained | None:
    code = facts.exit_code
    if code is None:
        return None
    if cls := _EXIT_CODES.get(code):
        return cls, f"exit code {code}"
    if 128 < code <= 128 + _SIGNALS_MAX:
        return FailureClass.TRANSIENT_RUNTIME, f"exit code {code}: {_signal_name(code - 128)}"
    return None


def _by_exception(facts: Facts) -> Explained | None:
    for name in map(_last_part, _lineage(facts)):
        if cls := _EXCEPTIONS.get(name):
            return cls, f"exception {name}"
    return None


def exception_name(lineage: Sequence[str]) -> str:
    """The name of an exception's class for the facts, given with its bases, the nearest first: what the rules know it
    by stands behind it (`shop.Closed < recoup.Transient`) unless that is its own name."""
    own = [name for name in lineage if name in _OWN_WORDS]
    known = [name for name in lineage if _last_part(name) in _EXCEPTIONS]
    return " < ".join(dict.fromkeys((lineage[0], *[*own, *known][:1])))


def _lineage(facts: Facts) -> list[str]:
    return [name.strip() for name in (facts.exception or "").partition(":")[0].split(" < ")]


def _last_part(name: str) -> str:
    return name.rpartition(".")[2]


def _by_users_words(words: str, policy: Policy) -> Explained | None:
    for rule in policy.text_rules:
        if found := first_found((words_of(rule.words),), words):
            return rule.cls, f"policy: words {found!r}"
    return None


def _by_words(rules: Rules, words: str) -> Explained | None:
    for cls, phrases in rules:
        if found := first_found(phrases, words):
            return cls, f"words {found!r}"
    return None


# Waiting


def retry_after_s(text: str) -> float | None:
    """How long a service told us to wait; the last one counts. A date says nothing without a clock: None."""
    text = text[-TEXT_CHARS_MAX:]
    told = [_span_s(text, lead.end()) for lead in _RETRY_LEAD.finditer(text)]
    return next((seconds for seconds in reversed(told) if seconds is not None), None)


def _span_s(text: str, start: int) -> float | None:
    """`120`, `20s`, `6m0s`, `1 minute and 30 seconds`."""
    total: float | None = None
    for _ in range(4):
        part = _SPAN.match(text, start)
        if part is None:
            break
        total = (total or 0) + float(part["number"]) * _UNIT_S[(part["unit"] or "s").lower()]
        start = part.end()
        if part["unit"] is None:
            break
    return total


_RETRY_LEAD = re.compile(
    r"\b(?:retry[ _-]?after|try again (?:in|after)|limits? (?:will )?resets? in)(?: about)?[\"'\s:=(]{0,4}",
    re.IGNORECASE,
)
_SPAN = re.compile(
    r"(?:and )?(?P<number>[0-9]{1,9}(?:\.[0-9]{1,9})?)(?: ?"
    r"(?P<unit>ms|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)(?![a-z])[ ,]{0,2}"
    r"|(?![ \t]{0,2}[a-z]|[-/:.]?[0-9]|[-/:]))",
    re.IGNORECASE,
)
_UNIT_S = {
    unit: seconds
    for units, seconds in (
        ("ms millisecond milliseconds", 0.001),
        ("s sec secs second seconds", 1.0),
        ("m min mins minute minutes", 60.0),
        ("h hr hrs hour hours", 3_600.0),
        ("d day days", 86_400.0),
    )
    for unit in units.split()
}


# In one sentence


def summarise(facts: Facts) -> str:
    """One sentence for people, from redacted facts; at most SUMMARY_CHARS_MAX characters."""
    head, said = _headline(facts), _what_it_said(facts)
    sentence = f"{head}: {said}" if said and not head.startswith(f"{said}, ") else head
    if len(sentence) > SUMMARY_CHARS_MAX:
        sentence = sentence[: SUMMARY_CHARS_MAX - 1] + "…"
    return "".join(char if char.isprintable() else " " for char in sentence)


def _what_it_said(facts: Facts) -> str:
    if facts.kind in _SPEAKS_OF_ERRORS:
        return last_error_line(facts.excerpt)
    return _first_line_of_exception(facts) or _last_line(facts.excerpt)


def _first_line_of_exception(facts: Facts) -> str:
    """As the last traceback has it; what follows there is often advice."""
    head = f"{_lineage(facts)[0]}: "
    told = [line for line in shown_lines(facts.excerpt) if line.startswith(head)] if facts.exception else []
    return told[-1].removeprefix(head).strip() if told else ""


def _last_line(text: str) -> str:
    lines = shown_lines(text)
    return lines[-1].strip() if lines else ""


def _headline(facts: Facts) -> str:
    took = _duration(facts.duration_ms)
    match facts.kind:
        case FailureKind.EXIT_NONZERO:
            return f"exit code {facts.exit_code} after {took}"
        case FailureKind.SIGNALLED:
            return f"killed by {_signal_name(facts.signal)} after {took}"
        case FailureKind.WALL_TIMEOUT:
            return f"timed out; ended after {took}"
        case FailureKind.IDLE_TIMEOUT:
            return f"no output for {_duration(facts.idle_ms)}"
        case FailureKind.EXCEPTION if facts.exception:
            return f"{_lineage(facts)[0]} after {took}"
        case FailureKind.AGENT_ERROR if facts.agent_event:
            return f"the agent reported {facts.agent_event} after {took}"
        case FailureKind.RATE_LIMITED if facts.retry_after_s is not None:
            return f"rate limited, told to wait {_duration(1000 * facts.retry_after_s)}"
    return _HEADLINES[facts.kind]


def _duration(milliseconds: float) -> str:
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    return f"{seconds:.1f} s" if seconds < 10 and seconds % 1 else f"{seconds:.0f} s"


def _signal_name(number: int | None) -> str:
    if number is None:
        return "a signal"
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"


_SPEAKS_OF_ERRORS = frozenset({FailureKind.EXIT_NONZERO, FailureKind.SIGNALLED, FailureKind.AGENT_ERROR})
_HEADLINES = {
    FailureKind.WATCHDOG: "stopped by the watchdog",
    FailureKind.CONNECTION_LOST: "the connection was lost",
    FailureKind.DRIVER_LOST: "the driver was lost, so how the attempt ended is not known",
    FailureKind.SPAWN_FAILED: "could not be started",
    FailureKind.OUT_OF_MEMORY: "out of memory",
    FailureKind.TOO_MANY_PROCESSES: "too many processes",
    FailureKind.DISK_FULL: "no space left",
    FailureKind.MACHINE_TROUBLE: "the machine could not start it",
    FailureKind.RATE_LIMITED: "rate limited",
    FailureKind.EXCEPTION: "an exception was raised",
    FailureKind.AGENT_ERROR: "the agent reported an error",
    FailureKind.TOOL_DENIED: "a tool was denied",
    FailureKind.POSTCONDITION_FAILED: "a postcondition does not hold",
    FailureKind.OUTPUT_INVALID: "an output cannot be read",
    FailureKind.SECRET_UNDECLARED: "an output holds a secret and is not declared as one",
    FailureKind.INVALID_INPUT: "an input is not valid",
    FailureKind.WORKSPACE_BROKEN: "the workspace is broken",
    FailureKind.TARGET_NOT_FOUND: "the target was not found",
    FailureKind.LOW_CONFIDENCE: "no match above the confidence floor",
    FailureKind.TARGET_AMBIGUOUS: "several elements match the target",
    FailureKind.HEAL_REFUSED: "the target is not as written, and healing is off",
    FailureKind.RUNTIME_DRIFT: "the world is not as the step expects it",
    FailureKind.TARGET_BLOCKED: "the target was found but could not be acted on",
    FailureKind.BROWSER_CRASHED: "the browser or its page was lost",
    FailureKind.NAVIGATION_FAILED: "the page could not be loaded",
    FailureKind.HTTP_ERROR: "the page answered with an error",
    FailureKind.DIALOG_BLOCKED: "a dialog was in the way",
    FailureKind.DOWNLOAD_STALLED: "the download did not come to its end",
    FailureKind.CANCELLED: "cancelled",
    FailureKind.REJECTED: "rejected by an operator",
    FailureKind.RESET_REQUESTED: "the step asked for a reset",
    FailureKind.HARD_RESET_REQUESTED: "the step asked for a hard reset",
}


# Conventions

_EXIT_CODE_COUNTS = frozenset(
    {FailureKind.EXIT_NONZERO, FailureKind.AGENT_ERROR, FailureKind.POSTCONDITION_FAILED}
)
_READABLE = frozenset(
    {FailureKind.EXIT_NONZERO, FailureKind.AGENT_ERROR, FailureKind.EXCEPTION, FailureKind.HTTP_ERROR}
)
_MAY_WAIT = frozenset({FailureClass.TRANSIENT_RUNTIME, FailureClass.UNKNOWN, FailureClass.COOLDOWN})
_SIGNALS_MAX = 31
_EXIT_CODES = {
    64: FailureClass.DETERMINISTIC_CONTRACT,  # EX_USAGE
    65: FailureClass.DETERMINISTIC_CONTRACT,  # EX_DATAERR
    69: FailureClass.TRANSIENT_RUNTIME,  # EX_UNAVAILABLE
    75: FailureClass.TRANSIENT_RUNTIME,  # EX_TEMPFAIL
    77: FailureClass.DETERMINISTIC_POLICY,  # EX_NOPERM
    78: FailureClass.DETERMINISTIC_CONTRACT,  # EX_CONFIG
    124: FailureClass.TRANSIENT_RUNTIME,  # timeout(1)
    126: FailureClass.DETERMINISTIC_CONTRACT,  # found but not executable
    127: FailureClass.DETERMINISTIC_CONTRACT,  # command not found
}
_OWN_WORDS = {
    "recoup.Transient": FailureClass.TRANSIENT_RUNTIME,
    "recoup.Cooldown": FailureClass.COOLDOWN,
    "recoup.Deterministic": FailureClass.DETERMINISTIC_CONTRACT,
}
"""What a Python step may raise to say it."""
_EXCEPTIONS = {
    name: cls
    for cls, names in (
        (
            FailureClass.TRANSIENT_RUNTIME,
            "ConnectionError ConnectionResetError ConnectionRefusedError ConnectionAbortedError "
            "BrokenPipeError TimeoutError InterruptedError BlockingIOError gaierror IncompleteRead "
            "IncompleteReadError RemoteDisconnected ServerDisconnectedError RemoteProtocolError ConnectError "
            "ConnectTimeout ReadError ReadTimeout ReadTimeoutError WriteTimeout PoolTimeout "
            "APIConnectionError APITimeoutError InternalServerError ServiceUnavailable DeadlockDetected "
            "SerializationFailure",
        ),
        (FailureClass.COOLDOWN, "RateLimitError TooManyRequests ThrottlingException"),
        (
            FailureClass.DETERMINISTIC_POLICY,
            "PermissionError AuthenticationError PermissionDeniedError PermissionDenied Unauthorized "
            "Forbidden",
        ),
        (
            FailureClass.DETERMINISTIC_CONTRACT,
            "SyntaxError IndentationError TabError ImportError ModuleNotFoundError NotImplementedError "
            "NameError UnboundLocalError "
            "ValidationError BadRequestError UnprocessableEntityError",
        ),
    )
    for name in names.split()
}
_AGENT_EVENTS = {
    name: cls
    for cls, names in (
        (
            FailureClass.COOLDOWN,
            "rate_limit rate_limit_error rate_limit_exceeded usage_limit_reached resource_exhausted http_429",
        ),
        (
            FailureClass.TRANSIENT_RUNTIME,
            "overloaded overloaded_error api_error server_error internal_error timeout timeout_error "
            "stream_error stream_disconnected connection_error service_unavailable unavailable "
            "server_is_overloaded session_not_found http_408 http_409 http_425 "
            + " ".join(f"http_{status}" for status in range(500, 600)),
        ),
        (
            FailureClass.DETERMINISTIC_POLICY,
            "authentication_error authentication_failed permission_error permission_denied billing_error "
            "insufficient_quota invalid_api_key oauth_org_not_allowed unauthenticated unauthorized "
            "error_max_budget_usd untrusted_folder sandbox_error http_401 http_402 http_403 http_407",
        ),
        (
            FailureClass.DETERMINISTIC_CONTRACT,
            "invalid_request_error invalid_request not_found_error model_not_found request_too_large "
            "context_length_exceeded invalid_argument usage_error input_error invalid_config "
            "http_400 http_404 http_413 http_422",
        ),
    )
    for name in names.split()
}
