"""From symptoms to classes."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoup.kernel.classify import (
    KIND_TO_CLASS,
    SUMMARY_CHARS_MAX,
    classify,
    explain,
    retry_after_s,
    says_disk_full,
    summarise,
)
from recoup.kernel.phrases import DETERMINISTIC, OUTAGES
from recoup.model.failure import Facts, FailureClass, FailureKind
from recoup.model.policy import Policy, TextRule

TRANSIENT = FailureClass.TRANSIENT_RUNTIME
STUCK = FailureClass.STUCK_NO_PROGRESS
COOLDOWN = FailureClass.COOLDOWN
UNKNOWN = FailureClass.UNKNOWN
CONTRACT = FailureClass.DETERMINISTIC_CONTRACT
POLICY = FailureClass.DETERMINISTIC_POLICY
REPO = FailureClass.DETERMINISTIC_REPO
DEFAULT = Policy()


def of_exit(code: int, excerpt: str = "", policy: Policy = DEFAULT) -> FailureClass:
    return classify(Facts(kind=FailureKind.EXIT_NONZERO, exit_code=code, excerpt=excerpt), policy)


def of_kind(kind: FailureKind, excerpt: str = "", policy: Policy = DEFAULT) -> FailureClass:
    return classify(Facts(kind=kind, excerpt=excerpt), policy)


# The table


def test_every_kind_but_cancelled_has_a_class() -> None:
    assert set(KIND_TO_CLASS) == set(FailureKind) - {FailureKind.CANCELLED}
    with pytest.raises(AssertionError, match="cancelled"):
        of_kind(FailureKind.CANCELLED)


@pytest.mark.parametrize("kind", FailureKind)
def test_every_kind_has_words(kind: FailureKind) -> None:
    assert summarise(Facts(kind=kind))


@pytest.mark.parametrize(
    ("kind", "cls"),
    [
        (FailureKind.WALL_TIMEOUT, TRANSIENT),
        (FailureKind.WATCHDOG, TRANSIENT),
        (FailureKind.CONNECTION_LOST, TRANSIENT),
        (FailureKind.TARGET_NOT_FOUND, TRANSIENT),
        (FailureKind.LOW_CONFIDENCE, TRANSIENT),
        (FailureKind.RUNTIME_DRIFT, TRANSIENT),
        (FailureKind.TARGET_AMBIGUOUS, CONTRACT),
        (FailureKind.HEAL_REFUSED, CONTRACT),
        (FailureKind.TARGET_BLOCKED, TRANSIENT),
        (FailureKind.BROWSER_CRASHED, TRANSIENT),
        (FailureKind.NAVIGATION_FAILED, TRANSIENT),
        (FailureKind.DOWNLOAD_STALLED, TRANSIENT),
        (FailureKind.HTTP_ERROR, UNKNOWN),
        (FailureKind.DIALOG_BLOCKED, UNKNOWN),
        (FailureKind.DRIVER_LOST, TRANSIENT),
        (FailureKind.SIGNALLED, TRANSIENT),
        (FailureKind.IDLE_TIMEOUT, STUCK),
        (FailureKind.POSTCONDITION_FAILED, UNKNOWN),
        (FailureKind.EXIT_NONZERO, UNKNOWN),
        (FailureKind.OUT_OF_MEMORY, UNKNOWN),
        (FailureKind.TOO_MANY_PROCESSES, UNKNOWN),
        (FailureKind.DISK_FULL, UNKNOWN),
        (FailureKind.RATE_LIMITED, COOLDOWN),
        (FailureKind.SECRET_UNDECLARED, CONTRACT),
        (FailureKind.OUTPUT_INVALID, CONTRACT),
        (FailureKind.INVALID_INPUT, CONTRACT),
        (FailureKind.SPAWN_FAILED, CONTRACT),
        (FailureKind.TOOL_DENIED, POLICY),
        (FailureKind.WORKSPACE_BROKEN, UNKNOWN),
        (FailureKind.MACHINE_TROUBLE, TRANSIENT),
    ],
)
def test_a_kind_without_more_facts_has_the_class_of_the_design(kind: FailureKind, cls: FailureClass) -> None:
    assert of_kind(kind) is cls


SURE = [
    kind for kind, cls in KIND_TO_CLASS.items() if cls is not UNKNOWN and kind is not FailureKind.SPAWN_FAILED
]


@given(
    st.sampled_from(SURE),
    st.text(max_size=80),
    st.sampled_from(["permission denied", "connection refused", ""]),
)
def test_text_never_changes_what_the_kind_says(kind: FailureKind, text: str, phrase: str) -> None:
    assert of_kind(kind, f"{text} {phrase}") is KIND_TO_CLASS[kind]


# Structured facts


@pytest.mark.parametrize(
    ("code", "cls"),
    [
        (1, UNKNOWN), (2, UNKNOWN), (3, UNKNOWN), (255, UNKNOWN), (128, UNKNOWN), (-1, UNKNOWN),
        (126, CONTRACT), (127, CONTRACT), (64, CONTRACT), (65, CONTRACT), (78, CONTRACT), (77, POLICY),
        (75, TRANSIENT), (69, TRANSIENT), (124, TRANSIENT),
        (130, TRANSIENT), (137, TRANSIENT), (139, TRANSIENT), (143, TRANSIENT), (159, TRANSIENT),
    ],
)  # fmt: skip
def test_exit_codes_with_a_known_meaning(code: int, cls: FailureClass) -> None:
    assert of_exit(code) is cls


@pytest.mark.parametrize(
    ("exception", "cls"),
    [
        ("ConnectionResetError", TRANSIENT),
        ("builtins.TimeoutError", TRANSIENT),
        ("socket.gaierror: [Errno -3] x", TRANSIENT),
        ("openai.RateLimitError", COOLDOWN),
        ("PermissionError", POLICY),
        ("pydantic_core.ValidationError: 1 error", CONTRACT),
        ("ModuleNotFoundError", CONTRACT),
        ("ValueError", UNKNOWN),
        ("KeyError", UNKNOWN),
        ("NameError", CONTRACT),
        ("", UNKNOWN),
    ],
)
def test_exceptions_count_by_the_name_of_their_type(exception: str, cls: FailureClass) -> None:
    assert classify(Facts(kind=FailureKind.EXCEPTION, exception=exception), DEFAULT) is cls


@pytest.mark.parametrize(
    ("event", "cls"),
    [
        ("overloaded_error", TRANSIENT),
        ("rate_limit_error", COOLDOWN),
        ("authentication_error", POLICY),
        ("invalid_request_error", CONTRACT),
        ("something_new", UNKNOWN),
        ("claude:result:rate_limit", COOLDOWN),
        ("claude:result:http_529", TRANSIENT),
        ("codex:turn.failed:http_401", POLICY),
        ("codex:exit:session_not_found", TRANSIENT),
        ("gemini:exit:input_error", CONTRACT),
        ("rate_limit:something_new", UNKNOWN),
    ],
)
def test_an_agents_own_event_counts(event: str, cls: FailureClass) -> None:
    assert classify(Facts(kind=FailureKind.AGENT_ERROR, agent_event=event), DEFAULT) is cls


@pytest.mark.parametrize(
    ("event", "cls"),
    [
        (None, STUCK),
        ("codex:waiting:connection_error", TRANSIENT),
        ("claude:waiting:http_429", COOLDOWN),
        ("claude:waiting:authentication_failed", POLICY),
        ("claude:waiting:something_new", STUCK),
    ],
)
def test_an_idle_agent_is_judged_by_what_it_waited_for(event: str | None, cls: FailureClass) -> None:
    assert classify(Facts(kind=FailureKind.IDLE_TIMEOUT, agent_event=event), DEFAULT) is cls


@pytest.mark.parametrize(
    ("kind", "cls"),
    [
        (FailureKind.EXIT_NONZERO, COOLDOWN),
        (FailureKind.CONNECTION_LOST, COOLDOWN),
        (FailureKind.POSTCONDITION_FAILED, COOLDOWN),
        (FailureKind.IDLE_TIMEOUT, STUCK),
        (FailureKind.TOOL_DENIED, POLICY),
    ],
)
def test_a_told_waiting_time_is_a_cooldown_unless_trying_again_cannot_help(
    kind: FailureKind, cls: FailureClass
) -> None:
    assert classify(Facts(kind=kind, exit_code=1, retry_after_s=20), DEFAULT) is cls


@pytest.mark.parametrize("kind", [FailureKind.OUT_OF_MEMORY, FailureKind.TOO_MANY_PROCESSES])
def test_nothing_that_was_printed_makes_a_step_that_took_too_much_a_passing_fault(kind: FailureKind) -> None:
    said = "connection reset by peer\ntoo many requests, retry after 30"
    facts = Facts(kind=kind, signal=9, retry_after_s=30, agent_event="claude:retry:overloaded", excerpt=said)
    assert classify(facts, DEFAULT) is UNKNOWN


# Words

SAID = [
    ("curl: (56) Recv failure: Connection reset by peer", TRANSIENT),
    ("connect ECONNREFUSED 127.0.0.1:5432", TRANSIENT),
    ("ssh: connect to host x port 22: Connection timed out", TRANSIENT),
    ("Temporary failure in name resolution", TRANSIENT),
    ("fatal: unable to access 'x': Could not resolve host: example.org", TRANSIENT),
    ("HTTP 503", TRANSIENT),
    ("server replied with status code 502", TRANSIENT),
    ("HTTP/1.1 504 Gateway Time-out", TRANSIENT),
    ("requests.exceptions.HTTPError: 500 Server Error: x for url: y", TRANSIENT),
    ("net/http: TLS handshake timeout", TRANSIENT),
    ("dial tcp: i/o timeout", TRANSIENT),
    ("Network is unreachable", TRANSIENT),
    ("getaddrinfo EAI_AGAIN registry", TRANSIENT),
    ("ERROR:  deadlock detected", TRANSIENT),
    ("sqlite3.OperationalError: database is locked", TRANSIENT),
    ("npm ERR! network Socket\n   hang\tup", TRANSIENT),
    ("\x1b[31mconnection\x1b[0m \x1b[1mrefused\x1b[0m", TRANSIENT),
    ("429 Too Many Requests", COOLDOWN),
    ("error: API rate limit exceeded for 10.0.0.1", COOLDOWN),
    ("Quota exceeded for requests per minute", COOLDOWN),
    ("code: rate_limit_exceeded", COOLDOWN),
    ("git@example.org: Permission denied (publickey).", POLICY),
    ("remote: HTTP Basic: Access denied", POLICY),
    ("ann@example.org: Permission denied, please try again.", POLICY),
    ("client_loop: send disconnect: Broken pipe", TRANSIENT),
    ("yes: standard output: Broken pipe", UNKNOWN),
    ("fatal: Authentication failed for 'https://example.org/x.git/'", POLICY),
    ("HTTP 401", POLICY),
    ("403 Forbidden", POLICY),
    ("You are not logged in. Please run /login", POLICY),
    ("Invalid API key", POLICY),
    ("message: Bad credentials", POLICY),
    ("tool: unrecognized option '--frob'", CONTRACT),
    ("Error: No such option: --frob", CONTRACT),
    ("bash: line 1: frob: command not found", CONTRACT),
    ("error: 'name' is a required property", CONTRACT),
    ("invalid JSON: expected value", CONTRACT),
    ("ModuleNotFoundError: No module named 'x'", CONTRACT),
    ("error: pathspec 'x' did not match any file(s) known to git", REPO),
    ("fatal: not a git repository (or any of the parent directories)", REPO),
    (" ! [rejected]  main -> main (non-fast-forward)\nerror: failed to push some refs", REPO),
    ("CONFLICT (content): Merge conflict in a.txt", REPO),
    ("fatal: refusing to merge unrelated histories", REPO),
    ("remote: error: GH006: Protected branch update failed", REPO),
    ("OSError: [Errno 28] No space left on device", UNKNOWN),
    ("Disk quota exceeded", UNKNOWN),
    ("AssertionError: 1 != 2", UNKNOWN),
    ("Segmentation fault", UNKNOWN),
    ("", UNKNOWN),
]


@pytest.mark.parametrize(("said", "cls"), SAID)
def test_words_decide_what_the_facts_leave_open(said: str, cls: FailureClass) -> None:
    assert of_exit(1, said) is cls


@pytest.mark.parametrize(
    "said",
    [
        "wrote 503 rows",
        "line 429: assertion",
        "compared 401 files",
        "the digit repository is fine",
        "test_connection_refused FAILED",
        "0 timed out, 3 failed",
        "lost the connection. Reset the counter",
        "unpermission deniedly",
        "a nonfast forwarder",
        "quotaexceeded",
    ],
)
def test_parts_of_words_and_bare_numbers_decide_nothing(said: str) -> None:
    assert of_exit(1, said) is UNKNOWN


@pytest.mark.parametrize(
    "said",
    [
        "invalid response: 503 Service Unavailable",
        "validation error: upstream said 502 Bad Gateway",
        "permission denied\nconnection reset by peer",
        "fatal: not a git repository\nfatal: Could not resolve host: example.org",
        "invalid JSON: Too Many Requests",
    ],
)
def test_an_outage_is_never_deterministic(said: str) -> None:
    assert of_exit(1, said) in (TRANSIENT, COOLDOWN)
    assert of_exit(127, said) in (TRANSIENT, COOLDOWN)
    exception = Facts(kind=FailureKind.EXCEPTION, exception="ValidationError", excerpt=said)
    assert classify(exception, DEFAULT) in (TRANSIENT, COOLDOWN)


OUTAGE_PHRASES = [phrase for _, phrases in OUTAGES for phrase in phrases]
FINAL_PHRASES = [phrase for _, phrases in DETERMINISTIC for phrase in phrases]


@given(st.sampled_from(OUTAGE_PHRASES), st.sampled_from(FINAL_PHRASES), st.booleans())
def test_whatever_else_is_said_an_outage_wins(outage: str, final: str, first: bool) -> None:
    said = f"{outage}\n{final}" if first else f"{final}\n{outage}"
    assert not of_exit(1, said).is_deterministic


@given(st.sampled_from(OUTAGE_PHRASES + FINAL_PHRASES), st.sampled_from("abz09_é"), st.booleans())
def test_a_phrase_inside_longer_words_is_not_found(phrase: str, letter: str, before: bool) -> None:
    word = phrase.strip()
    glued = f"{letter}{word}" if before else f"{word}{letter}"
    reason = explain(Facts(kind=FailureKind.EXIT_NONZERO, exit_code=1, excerpt=glued), DEFAULT)[1]
    assert repr(word) not in reason


def test_what_ends_a_step_for_good_must_be_told_with_its_last_errors() -> None:
    early = "note: permission denied for the cache, going on without\n" + "error: x\n" * 40
    assert of_exit(1, early) is UNKNOWN
    assert of_exit(1, early + "error: permission denied\n") is POLICY
    assert of_exit(1, "warning: connection reset, going on\n" + "error: x\n" * 40) is TRANSIENT


def test_a_postcondition_is_judged_by_the_users_words_only() -> None:
    assert of_kind(FailureKind.POSTCONDITION_FAILED, "permission denied") is UNKNOWN
    policy = Policy(text_rules=(TextRule(words="permission denied", cls=POLICY),))
    assert of_kind(FailureKind.POSTCONDITION_FAILED, "permission denied", policy) is POLICY


def test_a_command_that_cannot_be_started_for_want_of_resources_is_tried_again() -> None:
    assert of_kind(FailureKind.SPAWN_FAILED, "No such file or directory: x") is CONTRACT
    assert of_kind(FailureKind.SPAWN_FAILED, "Resource temporarily unavailable") is TRANSIENT
    assert of_kind(FailureKind.SPAWN_FAILED, "Cannot allocate memory") is UNKNOWN


# The user's own rules


def test_the_users_exit_codes_come_first() -> None:
    policy = Policy(exit_codes={3: TRANSIENT, 127: TRANSIENT, 75: CONTRACT})
    assert of_exit(3, "permission denied", policy) is TRANSIENT
    assert of_exit(127, "", policy) is TRANSIENT
    assert of_exit(75, "503 service unavailable", policy) is CONTRACT
    assert of_exit(4, "", policy) is UNKNOWN


def test_an_exit_code_that_we_caused_ourselves_is_not_the_users() -> None:
    policy = Policy(exit_codes={143: CONTRACT})
    timed_out = Facts(kind=FailureKind.WALL_TIMEOUT, exit_code=143)
    assert classify(timed_out, policy) is TRANSIENT


def test_the_users_words_come_before_the_built_in_ones_and_after_the_facts() -> None:
    rules = (
        TextRule(words="Licence  SERVER busy", cls=TRANSIENT),
        TextRule(words="connection refused", cls=CONTRACT),
    )
    policy = Policy(text_rules=rules)
    assert of_exit(1, "error: licence server\n busy: permission denied", policy) is TRANSIENT
    assert of_exit(1, "connection refused", policy) is CONTRACT
    assert of_exit(75, "connection refused", policy) is TRANSIENT
    assert of_exit(77, "licence server busy", policy) is TRANSIENT
    assert of_exit(1, "licence serverbusy", policy) is UNKNOWN


def test_the_first_of_the_users_rules_that_fits_decides_and_empty_ones_never_fit() -> None:
    rules = (
        TextRule(words=" *** ", cls=REPO),
        TextRule(words="boom", cls=COOLDOWN),
        TextRule(words="boom", cls=REPO),
    )
    assert of_exit(1, "boom ***", Policy(text_rules=rules)) is COOLDOWN


@given(st.text(max_size=30))
def test_no_words_of_a_user_are_an_error(words: str) -> None:
    assert isinstance(
        of_exit(1, f"a {words} b", Policy(text_rules=(TextRule(words=words, cls=REPO),))), FailureClass
    )


# Reasons


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (Facts(kind=FailureKind.WALL_TIMEOUT), "kind wall_timeout"),
        (Facts(kind=FailureKind.EXIT_NONZERO, exit_code=127), "exit code 127"),
        (Facts(kind=FailureKind.EXIT_NONZERO, exit_code=139), "exit code 139: SIGSEGV"),
        (Facts(kind=FailureKind.EXIT_NONZERO, exit_code=1, retry_after_s=1.5), "told to wait 1.5 s"),
        (Facts(kind=FailureKind.EXCEPTION, exception="TimeoutError"), "exception TimeoutError"),
        (Facts(kind=FailureKind.EXIT_NONZERO, exit_code=1, excerpt="Bad Gateway!"), "words 'bad gateway'"),
        (Facts(kind=FailureKind.EXIT_NONZERO, exit_code=1), "exit_nonzero: no rule recognised it"),
    ],
)
def test_the_reason_names_the_rule_that_decided(facts: Facts, reason: str) -> None:
    assert explain(facts, DEFAULT)[1] == reason


facts = st.builds(
    Facts,
    kind=st.sampled_from(sorted(KIND_TO_CLASS)),
    exit_code=st.none() | st.integers(-5, 300),
    signal=st.none() | st.integers(-1, 70),
    exception=st.none() | st.text(max_size=20),
    agent_event=st.none() | st.text(max_size=20),
    retry_after_s=st.none() | st.floats(0, 1e6),
    duration_ms=st.integers(0, 10**9),
    idle_ms=st.integers(0, 10**9),
    excerpt=st.text(max_size=400) | st.sampled_from([said for said, _ in SAID]),
)


@given(facts)
def test_all_facts_have_a_class_a_reason_and_a_summary_and_always_the_same(recorded: Facts) -> None:
    cls, reason = explain(recorded, DEFAULT)
    assert explain(recorded, DEFAULT) == (cls, reason)
    assert reason
    summary = summarise(recorded)
    assert 0 < len(summary) <= SUMMARY_CHARS_MAX
    assert summary.isprintable()


# Waiting


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("Retry-After: 120", 120),
        ("< retry-after: 7\r\n< server: x", 7),
        ('{"retry_after": 3.25, "code": 1}', 3.25),
        ("Please try again in 20s.", 20),
        ("Please try again in 6m0s. Visit x", 360),
        ("try again in 350ms", 0.35),
        ("retry after 1 minute and 30 seconds", 90),
        ("your limit will reset in 2 hours", 7200),
        ("try again in 20s\nretrying\ntry again in 40s", 40),
        ("Retry-After: Wed, 21 Oct 2026 07:28:00 GMT", None),
        ("Retry-After: 2026-11-02", None),
        ("retry after 3 attempts", None),
        ("retry after fixing it", None),
        ("retrying in 5 seconds", None),
        ("", None),
    ],
)
def test_the_waiting_time_that_a_service_tells_is_read(said: str, seconds: float | None) -> None:
    assert retry_after_s(said) == pytest.approx(seconds)


# Summaries


@pytest.mark.parametrize(
    ("facts", "summary"),
    [
        (
            Facts(
                kind=FailureKind.EXIT_NONZERO, exit_code=3, duration_ms=1234, excerpt="go\nerror: boom\nbye"
            ),
            "exit code 3 after 1.2 s: error: boom",
        ),
        (Facts(kind=FailureKind.SIGNALLED, signal=11, duration_ms=90), "killed by SIGSEGV after 90 ms"),
        (Facts(kind=FailureKind.SIGNALLED, signal=999, duration_ms=90), "killed by signal 999 after 90 ms"),
        (Facts(kind=FailureKind.WALL_TIMEOUT, duration_ms=900_000), "timed out; ended after 900 s"),
        (
            Facts(kind=FailureKind.AGENT_ERROR, agent_event="overloaded", duration_ms=2000),
            "the agent reported overloaded after 2 s",
        ),
        (
            Facts(kind=FailureKind.IDLE_TIMEOUT, idle_ms=300_000, excerpt="ok\nstep 2"),
            "no output for 300 s: step 2",
        ),
        (
            Facts(kind=FailureKind.POSTCONDITION_FAILED, excerpt="error: x\nfile out.json: is not there"),
            "a postcondition does not hold: file out.json: is not there",
        ),
        (Facts(kind=FailureKind.RATE_LIMITED, retry_after_s=20), "rate limited, told to wait 20 s"),
        (
            Facts(kind=FailureKind.EXCEPTION, exception="ValueError: x", duration_ms=2000),
            "ValueError after 2 s",
        ),
        (Facts(kind=FailureKind.CANCELLED), "cancelled"),
    ],
)
def test_a_summary_is_one_sentence_for_people(facts: Facts, summary: str) -> None:
    assert summarise(facts) == summary


# Time


@pytest.mark.parametrize(
    "text",
    [
        "a" * 16_000,
        "connection " * 1_500,
        "connection" + " " * 15_000 + "refuse",
        "retry after " * 1_300,
        "retry after" + ":" * 15_000,
        "try again in " + "1 " * 8_000,
        ". " * 8_000,
        "error\n" * 2_700,
        "no " * 5_000,
        "permission denie " * 900,
    ],
    ids=lambda text: text[:12],
)
def test_no_text_makes_classifying_slow(text: str) -> None:
    began = time.process_time()
    of_exit(1, text)
    retry_after_s(text)
    summarise(Facts(kind=FailureKind.EXIT_NONZERO, excerpt=text))
    # A quadratic rule would need minutes for four times the largest excerpt.
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    "text",
    [
        "Error response from daemon: toomanyrequests: You have reached your pull rate limit. You may increase the limit",
        "toomanyrequests: You have reached your unauthenticated pull rate limit.",
        "npm error code E429\nnpm error 429 Too Many Requests - GET https://registry.example/x",
        "An error occurred (Throttling) when calling the DescribeStacks operation: Rate exceeded",
        "An error occurred (TooManyRequestsException) when calling the GetFunction operation",
        'googleapi: Error 403: User Rate Limit Exceeded, userRateLimitExceeded',
        "GitHub: API rate limit exceeded for installation ID 1.",
        "Error from server (TooManyRequests): the server has received too many requests and has asked us to try again",
    ],
)  # fmt: skip
def test_a_tool_that_was_told_to_slow_down_waits(text: str) -> None:
    assert of_exit(1, text) is COOLDOWN


@pytest.mark.parametrize(
    "text",
    [
        'Error from server (Forbidden): pods is forbidden: User "ci" cannot list resource "pods" in API group ""',
        'Error from server (Forbidden): secrets "x" is forbidden',
        "error: You must be logged in to the server (Unauthorized)",
        "denied: requested access to the resource is denied",
        "pull access denied for acme/app, repository does not exist or may require 'docker login'",
        "npm error code E403\nnpm error 403 403 Forbidden - PUT https://registry.example/x",
        "npm error code ENEEDAUTH\nnpm error need auth This command requires you to be logged in",
        "remote: Support for password authentication was removed on August 13, 2021.",
        "An error occurred (AccessDenied) when calling the PutObject operation: Access Denied",
        "An error occurred (UnauthorizedOperation) when calling the RunInstances operation",
        "An error occurred (ExpiredToken) when calling the GetCallerIdentity operation",
        'Unable to locate credentials. You can configure credentials by running "aws configure".',
        "ERROR: (gcloud.run.deploy) PERMISSION_DENIED: The caller does not have permission",
        "(AuthorizationFailed) The client does not have authorization to perform action",
        "Please run 'az login' to setup account.",
    ],
)
def test_a_tool_that_was_refused_is_not_retried(text: str) -> None:
    assert of_exit(1, text) is POLICY


@pytest.mark.parametrize(
    "text",
    [
        "wrote accessdeniedness.txt",
        "the rate exceeded_by column is empty",
        "3 tests of forbidden users passed, 1 failed",
        "compiled code e4290 in 3 s",
    ],
)
def test_words_that_only_look_like_a_refusal_say_nothing(text: str) -> None:
    assert of_exit(1, text) is UNKNOWN


@pytest.mark.parametrize(
    ("text", "cls"),
    [
        ("psycopg.OperationalError: FATAL: sorry, too many clients already", TRANSIENT),
        ("Error: UPGRADE FAILED: another operation (install/upgrade/rollback) is in progress", TRANSIENT),
        ("Error: Error acquiring the state lock", TRANSIENT),
        (
            "Error from server (ServiceUnavailable): the server is currently unable to handle the request",
            TRANSIENT,
        ),
        ("net/http: request canceled (Client.Timeout exceeded while awaiting headers)", TRANSIENT),
        ("remote: Invalid username or password.", POLICY),
        ("docker: manifest unknown: manifest unknown.", CONTRACT),
        ("ERROR: No matching distribution found for requets", CONTRACT),
        ("E: Unable to locate package pythn3", CONTRACT),
        ("the manifest is unknown to 3 clients already", UNKNOWN),
        ("loading the dataset in memory took 3 s, then the sum was wrong", UNKNOWN),
        ("wrote the package list; invalid username", UNKNOWN),
    ],
)
def test_the_words_of_usual_tools_are_known_and_words_like_them_are_not(text: str, cls: FailureClass) -> None:
    assert of_exit(1, text) is cls


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("tar: out: Cannot write: No space left on device\ntar: Error is not recoverable", True),
        ("write /var/lib/docker/tmp/x: no space left on device", True),
        ("Error: ENOSPC: no space left on device, write", True),
        ("cp: error writing 'b': Disk quota exceeded", True),
        ("There is not enough space on the disk.", True),
        ("no space left in the calendar", False),
        ("AssertionError: the disk page says nothing", False),
    ],
)
def test_a_command_that_says_so_failed_on_a_full_disk(text: str, full: bool) -> None:
    assert says_disk_full(Facts(kind=FailureKind.EXIT_NONZERO, exit_code=1, excerpt=text)) is full
    assert not says_disk_full(Facts(kind=FailureKind.IDLE_TIMEOUT, excerpt=text))
