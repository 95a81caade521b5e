"""What agents tell, event by event: progress, their story, and what is concluded from it."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoup.kernel.classify import classify
from recoup.model.failure import Facts, FailureClass, FailureKind
from recoup.model.outcome import Captured, Outcome
from recoup.model.policy import Policy
from recoup.ports import Hooks
from recoup.runtimes.agent.clis import DIALECTS
from recoup.runtimes.agent.conclusion import concluded
from recoup.runtimes.agent.dialect import Call
from recoup.runtimes.agent.lines import Lines
from recoup.runtimes.agent.listener import Listener, event_in
from recoup.runtimes.agent.story import Story

NOBODY = cast(Hooks, None)
"""Without a log nothing is shown."""
SESSION = "0b7c3f52-5f0e-4d19-9a57-0d8a3b1c2d4e"
OTHER = "9a57b0c2-0000-4d19-9a57-0d8a3b1c2d4e"
TRANSIENT = FailureClass.TRANSIENT_RUNTIME
COOLDOWN = FailureClass.COOLDOWN
UNKNOWN = FailureClass.UNKNOWN
CONTRACT = FailureClass.DETERMINISTIC_CONTRACT
POLICY = FailureClass.DETERMINISTIC_POLICY

Line = dict[str, Any]


def assistant(*content: Line, **more: Any) -> Line:
    return {
        "type": "assistant",
        "message": {"model": "m", "content": list(content)},
        "session_id": SESSION,
        **more,
    }


def uses(tool: str, **given: Any) -> Line:
    return {"type": "tool_use", "name": tool, "input": given}


def says(words: str) -> Line:
    return {"type": "text", "text": words}


def result(is_error: bool = False, **more: Any) -> Line:
    told = {
        "subtype": "success",
        "is_error": is_error,
        "num_turns": 2,
        "total_cost_usd": 0.25,
        "result": "done",
    }
    return {"type": "result", **told, "session_id": SESSION, "permission_denials": [], **more}


def item(kind: str, event: str = "item.completed", **more: Any) -> Line:
    return {"type": event, "item": {"id": "item_0", "type": kind, **more}}


INIT = {"type": "system", "subtype": "init", "session_id": SESSION, "tools": ["Bash"]}
THREAD = {"type": "thread.started", "thread_id": SESSION}
BEGIN = {"type": "init", "session_id": SESSION, "model": "g"}
RETRY = {"type": "system", "subtype": "api_retry", "attempt": 1, "retry_delay_ms": 556.38, "error_status": None,
         "error": "unknown", "session_id": SESSION}  # fmt: skip
RECONNECTING = {
    "type": "error",
    "message": "Reconnecting... waiting for network (Connection failed: error sending request)",
}

STREAMS: dict[str, list[Line]] = {
    "claude": [
        INIT,
        RETRY,
        assistant(says("I look first.\nThen I act."), uses("Bash", command="pytest -q")),
        {"type": "user", "message": {"content": [{"type": "tool_result", "content": "3 failed"}]}},
        assistant(uses("Edit", file_path="/w/app.py")),
        result(permission_denials=[{"tool_name": "Bash", "tool_input": {"command": "rm x"}}, {"tool_name": "Web"}]),
    ],
    "codex": [
        THREAD,
        {"type": "turn.started"},
        RECONNECTING,
        item("command_execution", "item.started", command="/bin/bash -lc 'pytest -q'", status="in_progress"),
        item("command_execution", command="/bin/bash -lc 'pytest -q'", exit_code=1, status="completed"),
        item("file_change", changes=[{"path": "/w/app.py", "kind": "update"}], status="completed"),
        item("agent_message", text="done"),
        {"type": "turn.completed", "usage": {"input_tokens": 20, "output_tokens": 10}},
    ],
    "gemini": [
        BEGIN,
        {"type": "message", "role": "user", "content": "Fix it"},
        {"type": "message", "role": "assistant", "content": "I look.", "delta": True},
        {"type": "tool_use", "tool_name": "run_shell_command", "tool_id": "1", "parameters": {"command": "pytest -q"}},
        {"type": "tool_result", "tool_id": "1", "status": "success", "output": "3 failed"},
        {"type": "message", "role": "assistant", "content": "do", "delta": True},
        {"type": "message", "role": "assistant", "content": "ne", "delta": True},
        {"type": "result", "status": "success", "stats": {"total_tokens": 3}},
    ],
}  # fmt: skip


def raw(lines: list[Line]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def heard(cli: str, lines: list[Line]) -> Listener:
    listener = Listener(DIALECTS.get(cli), NOBODY)
    listener.heed("stdout", raw(lines))
    listener.close()
    return listener


# The story


def test_claudes_story() -> None:
    story = heard("claude", STREAMS["claude"]).story
    assert (story.session_id, story.turns, story.cost_usd) == (SESSION, 2, 0.25)
    assert (story.last_command, story.message) == ("pytest -q", "done")
    assert story.denials == ["Bash: rm x", "Web"]
    assert (story.trouble, story.waiting, story.ended) == (None, None, True)


def test_codexs_story() -> None:
    story = heard("codex", STREAMS["codex"]).story
    assert (story.session_id, story.turns, story.cost_usd) == (SESSION, 1, None)
    assert (story.last_command, story.message) == ("pytest -q", "done")
    assert (story.trouble, story.waiting, story.ended) == (None, None, True)


def test_every_command_line_has_a_story_to_be_tried_with() -> None:
    assert set(STREAMS) == set(DIALECTS)


def test_geminis_story() -> None:
    story = heard("gemini", STREAMS["gemini"]).story
    assert (story.session_id, story.last_command, story.message) == (SESSION, "pytest -q", "done")
    assert (story.trouble, story.ended) == (None, True)


@pytest.mark.parametrize("cli", sorted(STREAMS))
@given(data=st.data())
def test_any_cutting_of_the_stream_tells_the_same_story(cli: str, data: st.DataObject) -> None:
    text = raw(STREAMS[cli])
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=40)) | {0, len(text)})
    listener = Listener(DIALECTS[cli], NOBODY)
    for start, end in pairwise(cuts):
        listener.heed("stdout", text[start:end])
    listener.close()
    assert listener.story == heard(cli, STREAMS[cli]).story


@pytest.mark.parametrize("cli", sorted(STREAMS))
def test_another_commands_output_is_understood_by_how_it_begins(cli: str) -> None:
    listener = heard("wrapper", [{"not": "an event"}, *STREAMS[cli]])
    assert listener.dialect is DIALECTS[cli]
    assert listener.story == heard(cli, STREAMS[cli]).story


LEAVES: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, False, 0, -1, 2**70, 0.5, 1e300, "", "error", SESSION, [], {}, [1], ["x"]]
)
VALUES = (
    LEAVES | st.lists(LEAVES, max_size=2) | st.dictionaries(st.sampled_from(["type", "text", "name"]), LEAVES)
)
KEYS = (
    *(
        "type",
        "subtype",
        "message",
        "content",
        "role",
        "error",
        "errors",
        "item",
        "status",
        "command",
        "is_error",
    ),
    *(
        "num_turns",
        "total_cost_usd",
        "name",
        "input",
        "permission_denials",
        "session_id",
        "thread_id",
        "text",
    ),
    *("tool_name", "parameters", "delta", "event", "retry_delay_ms", "error_status", "rate_limit_info"),
)
TYPES: tuple[Any, ...] = (
    *("system", "assistant", "user", "result", "stream_event", "rate_limit_event", "thread.started", "error"),
    *(
        "turn.failed",
        "turn.completed",
        "item.completed",
        "init",
        "message",
        "tool_use",
        "tool_result",
        [],
        {},
        7,
    ),
)
EVENTS = st.builds(
    lambda kind, body: json.dumps({**body, "type": kind}).encode(),
    st.sampled_from(TYPES),
    st.dictionaries(
        st.sampled_from(KEYS), VALUES | st.dictionaries(st.sampled_from(KEYS), VALUES), max_size=5
    ),
)


@given(
    st.sampled_from([*sorted(STREAMS), "wrapper"]),
    st.sampled_from([INIT, THREAD, BEGIN]),
    st.lists(st.binary(max_size=40) | EVENTS, max_size=5),
)
@settings(max_examples=200)
def test_no_garbage_breaks_anything(cli: str, opening: Line, lines: list[bytes]) -> None:
    listener = Listener(DIALECTS.get(cli), NOBODY)
    for line in (raw([opening]), *lines):
        listener.heed("stdout", line + b"\n")
        listener.heed("stderr", line)
    listener.close()
    for code in (0, 1, None):
        told = concluded(Outcome(exit_code=code), listener, cli, Call((cli,), "x"))
        if told.kind:
            assert classify(facts_of(told), Policy()) in FailureClass


def test_a_deep_or_torn_line_is_no_event() -> None:
    assert event_in(b'{"a":' * 100_000) is None
    assert event_in(b'{"type": "resu') is None
    assert event_in(b"[1]") is None


def test_a_line_over_the_limit_is_passed_by_and_the_next_one_is_heard() -> None:
    lines = Lines(limit_bytes=10)
    pieces = [b"short\n123456", b"7890", b"1234\nnext\n", b"x"]
    assert [line for piece in pieces for line in lines.feed(piece)] == [b"short", None, b"next"]
    assert (lines.begun, lines.flush()) == (b"x", b"x")


def test_after_a_line_that_was_too_long_silence_proves_nothing() -> None:
    listener = heard("claude", [INIT])
    assert concluded(Outcome(exit_code=0), listener, "claude", Call(("claude",), "x")).kind is not None
    listener.overlong = True
    assert concluded(Outcome(exit_code=0), listener, "claude", Call(("claude",), "x")).kind is None


@pytest.mark.parametrize("session", ["../../etc", "x" * 36, 7, None, SESSION + "\n", ""])
def test_only_what_has_the_form_of_an_id_is_a_session(session: Any) -> None:
    story = Story()
    story.has_session(session)
    assert story.session_id is None


# Progress


def progress(cli: str, *chunks: bytes | Line, stream: str = "stdout") -> list[bool]:
    listener = Listener(DIALECTS.get(cli), NOBODY)
    return [listener.heed(stream, one if isinstance(one, bytes) else raw([one])) for one in chunks]


@pytest.mark.parametrize(
    ("cli", "first", "line"),
    [
        ("claude", INIT, RETRY),
        ("claude", INIT, {"type": "stream_event", "event": {"type": "ping"}}),
        ("claude", INIT, {"type": "tool_progress", "tool_name": "Bash", "elapsed_time_seconds": 30}),
        ("claude", INIT, {"type": "rate_limit_event", "rate_limit_info": {"status": "allowed"}}),
        ("claude", INIT, {"type": "system", "subtype": "status", "status": "requesting"}),
        ("claude", INIT, assistant(says("API Error: 529"), error="overloaded")),
        ("codex", THREAD, RECONNECTING),
        ("codex", THREAD, {"type": "error", "message": "Reconnecting... 1/5 (stream disconnected)"}),
        ("codex", THREAD, item("error", message="a warning")),
        ("gemini", BEGIN, {"type": "error", "severity": "warning", "message": "Loop detected"}),
        ("gemini", BEGIN, {"type": "message", "role": "user", "content": "Fix it"}),
    ],
)
def test_waiting_and_keeping_alive_are_no_progress(cli: str, first: Line, line: Line) -> None:
    assert progress(cli, first, line, line) == [True, False, False]


@pytest.mark.parametrize(
    ("cli", "line"),
    [
        ("claude", assistant(uses("Bash", command="ls"))),
        ("claude", {"type": "stream_event", "event": {"type": "content_block_delta"}}),
        ("claude", {"type": "user", "message": {"content": []}}),
        ("codex", item("reasoning", text="hm")),
        ("codex", item("command_execution", "item.updated", command="ls")),
        ("gemini", {"type": "tool_result", "tool_id": "1", "status": "success"}),
        ("gemini", {"type": "message", "role": "assistant", "content": "x", "delta": True}),
    ],
)
def test_every_event_with_something_in_it_is_progress(cli: str, line: Line) -> None:
    assert progress(cli, line, line) == [True, True]


def test_an_event_of_an_unknown_kind_counts_once() -> None:
    beats = [{"type": "heartbeat", "at": n, "uuid": id} for n, id in enumerate((SESSION, OTHER, SESSION))]
    assert progress("claude", INIT, *beats) == [True, True, False, False]
    assert progress("claude", INIT, beats[0], {"type": "novelty", "words": "new"}) == [True, True, True]


def test_text_of_an_agent_that_speaks_in_events_is_progress_only_before_the_first() -> None:
    assert progress("claude", b"a line\n", INIT, b"a line\n", b"\n", b"half") == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert progress("codex", b"a line\n", b"half", stream="stderr") == [False, False]


def test_all_text_of_another_command_is_progress() -> None:
    assert progress("mine", b"a line\n", b"half", b"{half") == [True, True, True]
    assert progress("mine", b"a line\n", stream="stderr") == [True]
    assert progress("mine", THREAD, b"a line\n", RECONNECTING) == [True, True, False]


def test_an_unfinished_event_is_no_progress_yet() -> None:
    text = raw([assistant(says("hello"))])
    assert progress("claude", raw([INIT]), text[:20], text[20:]) == [True, False, True]


# What is concluded


def facts_of(outcome: Outcome) -> Facts:
    assert outcome.kind is not None
    excerpt = f"{outcome.stdout.text()}\n{outcome.detail}"
    told = (outcome.agent_event, outcome.retry_after_s, outcome.exit_code)
    return Facts(
        kind=outcome.kind, agent_event=told[0], retry_after_s=told[1], exit_code=told[2], excerpt=excerpt
    )


def judged(
    cli: str, lines: list[Line], **ended: Any
) -> tuple[FailureKind | None, FailureClass | None, str | None]:
    ended = {"exit_code": 1, **ended}
    outcome = concluded(Outcome(**ended), heard(cli, lines), cli, Call((cli,), "x", session_id=SESSION))
    cls = classify(facts_of(outcome), Policy()) if outcome.kind else None
    return outcome.kind, cls, outcome.agent_event


def codex_error(words: str) -> list[Line]:
    error: list[Line] = [
        {"type": "error", "message": words},
        {"type": "turn.failed", "error": {"message": words}},
    ]
    return [THREAD, {"type": "turn.started"}, *error]


def synthetic(error: str, words: str, **more: Any) -> list[Line]:
    return [INIT, assistant(says(words), error=error), result(True, result=words, **more)]


LOST, LIMITED, AGENT = FailureKind.CONNECTION_LOST, FailureKind.RATE_LIMITED, FailureKind.AGENT_ERROR


@pytest.mark.parametrize(
    ("lines", "kind", "cls", "event"),
    [
        (synthetic("server_error", "API Error: Unable to connect to API (ConnectionRefused)"), LOST, TRANSIENT, "server_error"),
        (synthetic("overloaded", "API Error: 529 Overloaded.", api_error_status=529), LOST, TRANSIENT, "overloaded"),
        (synthetic("unknown", "API Error: Repeated 529 Overloaded errors."), LOST, TRANSIENT, "http_529"),
        (synthetic("unknown", "API Error: 500 boom.", api_error_status=500), LOST, TRANSIENT, "http_500"),
        (synthetic("rate_limit", "API Error: Request rejected (429)", api_error_status=429), LIMITED, COOLDOWN, "rate_limit"),
        (synthetic("authentication_failed", "Not logged in · Please run /login"), AGENT, POLICY, "authentication_failed"),
        (synthetic("oauth_org_not_allowed", "disabled", api_error_status=403), AGENT, POLICY, "oauth_org_not_allowed"),
        (synthetic("billing_error", "Credit balance is too low", api_error_status=400), AGENT, POLICY, "billing_error"),
        (synthetic("unknown", "API Error: 400 bad", api_error_status=400), AGENT, CONTRACT, "http_400"),
        ([INIT, result(True, subtype="error_max_turns", result=None)], AGENT, UNKNOWN, "error_max_turns"),
        ([INIT, result(True, subtype="error_max_budget_usd", result=None)], AGENT, POLICY, "error_max_budget_usd"),
        ([INIT, RETRY, result(True, result="")], LOST, TRANSIENT, "connection_error"),
        ([INIT, result(True, subtype="error_during_execution", result=None, errors=["No conversation found with session ID: x"])],
         AGENT, TRANSIENT, "session_not_found"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("code", [0, 1])
def test_claude_by_is_error_and_never_by_subtype_or_exit_code(
    lines: list[Line], kind: FailureKind, cls: FailureClass, event: str, code: int
) -> None:
    assert judged("claude", lines, exit_code=code) == (kind, cls, f"claude:result:{event}")


def test_claude_that_was_told_to_wait_cools_down_for_as_long() -> None:
    retry = {**RETRY, "error_status": 529, "error": "overloaded", "retry_delay_ms": 30_000}
    lines: list[Line] = [
        INIT,
        retry,
        *synthetic("overloaded", "API Error: 529 Overloaded.", api_error_status=529)[1:],
    ]
    outcome = concluded(Outcome(exit_code=1), heard("claude", lines), "claude", Call(("claude",), "x"))
    assert (outcome.kind, outcome.retry_after_s) == (LIMITED, 30)
    assert classify(facts_of(outcome), Policy()) is COOLDOWN


@pytest.mark.parametrize(
    ("words", "kind", "cls", "event"),
    [
        ("unexpected status 503 Service Unavailable: down, url: x", LOST, TRANSIENT, "http_503"),
        ("stream disconnected before completion: closed", LOST, TRANSIENT, "stream_disconnected"),
        ("exceeded retry limit, last status: 429 Too Many Requests", LIMITED, COOLDOWN, "http_429"),
        ("You’ve hit your usage limit. Try again later.", LIMITED, COOLDOWN, "usage_limit_reached"),
        ("unexpected status 401 Unauthorized: Incorrect key, url: x", AGENT, POLICY, "http_401"),
        ("Missing environment variable: `KEY`.", AGENT, POLICY, "authentication_failed"),
        ('{"error": {"type": "invalid_request_error", "code": null, "message": "bad"}}', AGENT, CONTRACT, "invalid_request_error"),
        ('{"error": {"type": "x", "code": "context_length_exceeded", "message": "bad"}}', AGENT, CONTRACT, "context_length_exceeded"),
        ("Check your plan and billing details.", AGENT, POLICY, "billing_error"),
        ("the sandbox of 3 (500 files) is full", AGENT, UNKNOWN, "turn_failed"),
        ("shared rollout token budget exhausted", AGENT, UNKNOWN, "turn_failed"),
    ],
)  # fmt: skip
def test_codex_by_why_its_turn_failed(words: str, kind: FailureKind, cls: FailureClass, event: str) -> None:
    assert judged("codex", codex_error(words)) == (kind, cls, f"codex:turn.failed:{event}")


def test_what_an_agent_says_about_its_work_does_not_classify_its_failure() -> None:
    chat = item("agent_message", text="error: connection refused by the database")
    lines = [THREAD, chat, *codex_error("unexpected status 401 Unauthorized: no")[1:]]
    assert judged("codex", lines)[1] is POLICY


def test_codex_that_recovered_has_not_failed() -> None:
    ending = [item("agent_message", text="done"), {"type": "turn.completed"}]
    assert judged("codex", [*codex_error("stream disconnected")[:3], *ending], exit_code=0) == (
        None,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("cli", "code", "stderr", "cls", "event"),
    [
        ("codex", 2, "error: unexpected argument", CONTRACT, "usage_error"),
        ("codex", 1, "Error: no rollout found for thread id x (code -32600)", TRANSIENT, "session_not_found"),
        ("codex", 1, "Not inside a trusted directory and so on", POLICY, "untrusted_folder"),
        ("gemini", 41, "Please set an Auth method", POLICY, "authentication_failed"),
        ("gemini", 42, "bad input", CONTRACT, "input_error"),
        ("gemini", 42, "Error resuming session: Invalid session identifier", TRANSIENT, "session_not_found"),
        ("gemini", 52, "bad config", CONTRACT, "invalid_config"),
        ("gemini", 53, "too many turns", UNKNOWN, "turn_limit"),
    ],
)
def test_exit_codes_and_last_words_that_mean_something(
    cli: str, code: int, stderr: str, cls: FailureClass, event: str
) -> None:
    said = Captured(stderr.encode(), b"", len(stderr))
    assert judged(cli, [], exit_code=code, stderr=said) == (AGENT, cls, f"{cli}:exit:{event}")


def test_an_exit_code_that_means_nothing_is_left_to_the_engine() -> None:
    assert judged("claude", [], exit_code=1) == (None, None, None)
    assert judged("mine", [], exit_code=2) == (None, None, None)
    assert judged("claude", [*STREAMS["claude"][:5], result()], exit_code=3) == (None, None, None)


@pytest.mark.parametrize(("cli", "first"), [("claude", INIT), ("codex", THREAD), ("gemini", BEGIN)])
def test_exit_zero_without_a_last_word_is_no_success(cli: str, first: Line) -> None:
    silent = (AGENT, UNKNOWN, f"{cli}:exit:no_result")
    assert judged(cli, [first], exit_code=0) == silent
    unknown: Line = {"type": "brand-new", "what": "ever"}
    assert judged(cli, [], exit_code=0) == silent
    assert judged(cli, [unknown, unknown], exit_code=0) == silent
    assert judged("mine", [unknown], exit_code=0) == (None, None, None)


@pytest.mark.parametrize("said", [b"", b"plain words\n", b"{broken", b"{" + b"x" * 20_000_000 + b"\n"])
@pytest.mark.parametrize("cli", ["claude", "codex", "gemini"])
def test_exit_zero_of_an_agent_that_says_nothing_understood_is_no_success(cli: str, said: bytes) -> None:
    """A command line that renames its events would otherwise turn every night green."""
    listener = Listener(DIALECTS[cli], NOBODY)
    listener.heed("stdout", said)
    listener.close()
    outcome = concluded(Outcome(exit_code=0), listener, cli, Call((cli,), "x"))
    assert (outcome.kind, outcome.agent_event) == (AGENT, f"{cli}:exit:no_result")
    plain = concluded(Outcome(exit_code=0), listener, cli, Call((cli,), "x", ("--output-format", "text")))
    assert plain.kind is None, "whoever asks for plain text gets no events"


DENIAL: dict[str, Any] = {"permission_denials": [{"tool_name": "Bash", "tool_input": {"command": "rm x"}}]}


def test_a_denied_tool_decides_unless_the_service_was_down() -> None:
    denied = (FailureKind.TOOL_DENIED, POLICY, "claude:denied:permission_denied")
    assert judged("claude", [INIT, result(**DENIAL)], exit_code=0) == denied
    assert judged("claude", [INIT, result(True, subtype="error_max_turns", result="", **DENIAL)]) == denied
    assert judged("claude", [INIT, result(True, api_error_status=503, **DENIAL)])[0] is LOST
    assert (
        judged("codex", [THREAD, item("command_execution", command="ls", status="declined")])[0]
        is FailureKind.TOOL_DENIED
    )
    refused = {
        "type": "tool_result",
        "status": "error",
        "error": {"type": "policy_violation", "message": "no"},
    }
    assert (
        judged("gemini", [BEGIN, refused, {"type": "result", "status": "success"}])[0]
        is FailureKind.TOOL_DENIED
    )


@pytest.mark.parametrize(
    ("cli", "lines", "cls"),
    [
        ("codex", [THREAD, RECONNECTING], TRANSIENT),
        ("codex", [THREAD, {"type": "error", "message": "Reconnecting... 1/1 (last status: 429 Too Many Requests)"}], COOLDOWN),
        ("claude", [INIT, RETRY], TRANSIENT),
        ("claude", [INIT, {**RETRY, "error_status": 401, "error": "authentication_failed"}], POLICY),
        ("claude", [INIT, RETRY, assistant(says("back"))], FailureClass.STUCK_NO_PROGRESS),
        ("claude", [INIT], FailureClass.STUCK_NO_PROGRESS),
    ],
)  # fmt: skip
def test_an_agent_that_was_idle_because_it_waited_for_its_service_says_so(
    cli: str, lines: list[Line], cls: FailureClass
) -> None:
    idle = {"kind": FailureKind.IDLE_TIMEOUT, "exit_code": None, "outcome_known": False}
    kind, found, event = judged(cli, lines, **idle)
    assert (kind, found) == (FailureKind.IDLE_TIMEOUT, cls)
    assert (event is not None) is (cls is not FailureClass.STUCK_NO_PROGRESS)


# As Gemini CLI 0.61.0 printed them, shortened.
GEMINI_RETRIES = {
    'Attempt 1 failed with status 503. Retrying with backoff... _ApiError: {"error":{"code":503,"message":"The model '
    'is overloaded.","status":"UNAVAILABLE"}}': TRANSIENT,
    "Attempt 1 failed with status 500. Retrying with backoff... _ApiError: Internal": TRANSIENT,
    "Attempt 3 failed: You exceeded your current quota. Please retry in 7s.. Retrying after 28479ms...": COOLDOWN,
    "Attempt 1 failed. Retrying with backoff... Error: exception TypeError: fetch failed sending request": TRANSIENT,
}
GEMINI_ERRORS = {
    ("[API Error: not now]", 503 - 256): TRANSIENT,
    ("[API Error: exception TypeError: fetch failed sending request]", 1): TRANSIENT,
    ("[API Error: You exceeded your current quota. Please retry in 7s.]\nPlease wait and try again later.", 429 - 256):
        COOLDOWN,
    ('[API Error: {"error":{"code":403,"message":"denied","status":"PERMISSION_DENIED"}}]', 403 - 256): POLICY,
    ('[API Error: {"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":'
     '"INVALID_ARGUMENT"}}]', 400 - 256): POLICY,
    ('[API Error: {"error":{"code":400,"message":"no such field","status":"INVALID_ARGUMENT"}}]', 400 - 256): CONTRACT,
}  # fmt: skip


@pytest.mark.parametrize(("line", "cls"), GEMINI_RETRIES.items(), ids=range(len(GEMINI_RETRIES)))
def test_gemini_says_on_stderr_alone_that_it_waits_for_its_service(line: str, cls: FailureClass) -> None:
    idle = Outcome(kind=FailureKind.IDLE_TIMEOUT, exit_code=None, outcome_known=False)
    back: Line = {"type": "message", "role": "assistant", "content": "back", "delta": True}
    for since, wanted in (([], cls), ([back], FailureClass.STUCK_NO_PROGRESS)):
        listener = Listener(DIALECTS["gemini"], NOBODY)
        listener.heed("stdout", raw([BEGIN]))
        assert not listener.heed("stderr", f"Ripgrep is not available.\n{line}\n    at chat.js:7".encode())
        listener.heed("stdout", raw(since))
        told = concluded(idle, listener, "gemini", Call(("gemini",), "x"))
        assert classify(facts_of(told), Policy()) is wanted


@pytest.mark.parametrize("kind", [FailureKind.OUT_OF_MEMORY, FailureKind.TOO_MANY_PROCESSES])
def test_an_agent_that_took_too_much_says_that_whatever_it_waited_for(kind: FailureKind) -> None:
    listener = Listener(DIALECTS["gemini"], NOBODY)
    listener.heed("stdout", raw([BEGIN]))
    listener.heed("stderr", f"{next(iter(GEMINI_RETRIES))}\n".encode())
    killed = Outcome(kind=kind, detail="killed by Recoup", outcome_known=False)
    told = concluded(killed, listener, "gemini", Call(("gemini",), "x"))
    assert (told.detail, classify(facts_of(told), Policy())) == ("killed by Recoup", FailureClass.UNKNOWN)


@pytest.mark.parametrize(("words", "code", "cls"), [(*key, cls) for key, cls in GEMINI_ERRORS.items()])
def test_geminis_last_word_and_its_exit_code_tell_what_the_service_said(
    words: str, code: int, cls: FailureClass
) -> None:
    end = {"type": "result", "status": "error", "error": {"type": "unknown", "message": words}}
    assert judged("gemini", [BEGIN, end], exit_code=code)[1] is cls


def test_a_session_that_is_gone_is_not_gone_on_with() -> None:
    lost = [INIT, result(True, result="", errors=["No conversation found with session ID: x"])]
    outcome = concluded(Outcome(exit_code=1), heard("claude", lost), "claude", Call(("claude",), "x"))
    assert outcome.agent is not None and outcome.agent.session_id is None


def test_the_outcome_prints_the_agents_last_message_in_the_place_of_its_events() -> None:
    lines = raw(STREAMS["codex"])
    outcome = Outcome(exit_code=0, stdout=Captured(lines, b"", len(lines)))
    told = concluded(outcome, heard("codex", STREAMS["codex"]), "codex", Call(("codex",), "x"))
    assert told.stdout.text() == "done"
    assert concluded(outcome, heard("mine", []), "mine", Call(("mine",), "x")).stdout == outcome.stdout


def test_a_prompt_that_is_too_long_says_what_to_do() -> None:
    outcome = Outcome(kind=FailureKind.SPAWN_FAILED, detail="Argument list too long: /bin/claude")
    told = concluded(outcome, heard("claude", []), "claude", Call(("claude",), "x"))
    assert "put the prompt into a file" in told.detail
