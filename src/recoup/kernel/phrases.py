"""Phrases in the output of tools that tell a class, found as whole words. Nothing here can backtrack.

A phrase has enough words to mean what it says wherever it stands: `digit` holds no `git`, and in
`wrote 503 rows` there is no status.
"""

from __future__ import annotations

import re

from recoup.model.failure import FailureClass

TEXT_CHARS_MAX = 16_384

Rules = tuple[tuple[FailureClass, tuple[str, ...]], ...]


def words_of(text: str) -> str:
    """The words of a text in lower case with one space around each, so that phrases are found as whole words.

    What ends a sentence stays as a word of its own: no phrase reaches over it.
    """
    return f" {' '.join(_WORD.findall(text[-TEXT_CHARS_MAX:].lower()))} "


def first_found(phrases: tuple[str, ...], words: str) -> str | None:
    """The first of the phrases that occurs; phrases and words both as `words_of` writes them."""
    return next((phrase.strip() for phrase in phrases if phrase in words and not phrase.isspace()), None)


_WORD = re.compile(r"\w+|[.;!?](?=\s|$)")


def _phrases(lines: str, statuses: tuple[int, ...] = ()) -> tuple[str, ...]:
    """One phrase a line, and HTTP statuses, each only in the company of a word that makes it one."""
    before = (
        "http",
        "http 1 1",
        "http 2",
        "httperror",
        "status",
        "status code",
        "error",
        "error code",
        "code",
    )
    written = [f" {word} {status} " for status in statuses for word in before]
    written += [f" {status} {side} error " for status in statuses for side in ("server", "client")]
    return (*(words_of(line) for line in lines.strip().splitlines()), *written)


_RESOURCE_WORDS = _phrases(
    """
    no space left on device
    disk quota exceeded
    not enough space on the disk
    database or disk is full
    enospc
    cannot allocate memory
    out of memory
    outofmemoryerror
    oomkilled
    too many open files
    """
)
DISK_WORDS = _phrases(
    """
    no space left on device
    disk quota exceeded
    not enough space on the disk
    database or disk is full
    enospc
    """
)
"""What a command says whose disk is full; its own may be another one than ours."""
_COOLDOWN_WORDS = _phrases(
    """
    too many requests
    rate limit exceeded
    rate limit reached
    rate limit has been exceeded
    exceeded a secondary rate limit
    exceeded your rate limit
    hit your rate limit
    you have been rate limited
    being rate limited
    rate_limit_exceeded
    rate_limit_error
    ratelimiterror
    usage limit reached
    quota exceeded
    exceeded your current quota
    resource_exhausted
    request limit exceeded
    requestlimitexceeded
    throttlingexception
    request was throttled
    requests are being throttled
    please reduce your request rate
    toomanyrequests
    toomanyrequestsexception
    your pull rate limit
    your unauthenticated pull rate limit
    ratelimitexceeded
    userratelimitexceeded
    rate exceeded
    an error occurred throttling
    code e429
    """,
    statuses=(429,),
)
_TRANSIENT_WORDS = _phrases(
    """
    connection reset
    connection refused
    connection timed out
    connection timeout
    connection aborted
    connection lost
    connection closed by remote host
    connection closed by peer
    connection closed unexpectedly
    connection was closed
    lost connection
    server closed the connection
    remote end closed connection
    remote end hung up unexpectedly
    server has gone away
    errno 32 broken pipe
    write failed: broken pipe
    send disconnect: broken pipe
    socket hang up
    empty reply from server
    recv failure
    unexpected disconnect
    unexpected eof while reading
    early eof
    rpc failed
    upstream connect error
    upstream request timeout
    connect timed out
    connect timeout
    read timed out
    read timeout
    request timed out
    request timeout
    operation timed out
    i/o timeout
    timed out waiting
    deadline exceeded
    handshake timeout
    handshake timed out
    network is unreachable
    network unreachable
    network is down
    no route to host
    host is unreachable
    host is down
    failed to connect to
    unable to connect to
    cannot connect to
    couldn't connect to
    temporary failure
    temporarily unavailable
    name or service not known
    could not resolve host
    couldn't resolve host
    could not resolve hostname
    nodename nor servname provided
    no address associated with hostname
    getaddrinfo enotfound
    service unavailable
    bad gateway
    gateway timeout
    gateway time-out
    internal server error
    server error for url
    server is overloaded
    server overloaded
    overloaded_error
    server is busy
    try again later
    too many connections
    too many clients already
    client timeout exceeded while awaiting headers
    unable to handle the request
    is loading the dataset in memory
    error acquiring the state lock
    another operation install upgrade rollback is in progress
    econnreset
    econnrefused
    econnaborted
    etimedout
    esockettimedout
    ehostunreach
    enetunreach
    eai_again
    connectionreseterror
    connectionrefusederror
    newconnectionerror
    readtimeouterror
    connecttimeouterror
    remotedisconnected
    unknownhostexception
    sockettimeoutexception
    deadlock detected
    deadlock found
    database is locked
    database table is locked
    lock wait timeout exceeded
    could not serialize access
    the database system is starting up
    the database system is shutting down
    could not get lock
    could not acquire lock
    another git process seems to be running
    text file busy
    device or resource busy
    resource busy
    address already in use
    """,
    statuses=(408, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529),
)
_POLICY_WORDS = _phrases(
    """
    permission denied
    operation not permitted
    access denied
    access is denied
    access forbidden
    authentication failed
    authentication failure
    authentication required
    authentication is required
    requires authentication
    authorization failed
    not authorized
    not authorised
    401 unauthorized
    unauthorized for url
    403 forbidden
    forbidden for url
    407 proxy authentication required
    402 payment required
    not logged in
    must be logged in
    login required
    please log in
    please run /login
    invalid api key
    incorrect api key
    invalid token
    invalid access token
    token expired
    token has expired
    bad credentials
    invalid credentials
    invalid username or password
    no credentials
    missing credentials
    could not read username
    could not read password
    terminal prompts disabled
    host key verification failed
    insufficient permission
    insufficient permissions
    insufficient privileges
    insufficient scope
    a password is required
    credit balance is too low
    detected dubious ownership
    error from server forbidden
    error from server unauthorized
    is forbidden user
    requested access to the resource is denied
    permission_denied
    the caller does not have permission
    accessdenied
    accessdeniedexception
    unauthorizedoperation
    authorizationfailed
    expiredtoken
    expiredtokenexception
    invalidclienttokenid
    unable to locate credentials
    please run az login
    password authentication was removed
    code e401
    code e403
    eneedauth
    eacces
    eperm
    """,
    statuses=(401, 402, 403, 407),
)
_REPO_WORDS = _phrases(
    """
    not a git repository
    does not appear to be a git repository
    repository not found
    did not match any file
    did not match any files
    couldn't find remote ref
    remote ref does not exist
    not found in upstream origin
    unknown revision or path
    bad revision
    bad object
    non-fast-forward
    updates were rejected
    merge conflict
    automatic merge failed
    unrelated histories
    protected branch
    pre-receive hook declined
    would be overwritten by merge
    would be overwritten by checkout
    commit your changes or stash them
    patch does not apply
    already exists and is not an empty directory
    """
)
_CONTRACT_WORDS = _phrases(
    """
    manifest unknown
    no matching distribution found
    could not find a version that satisfies the requirement
    unable to locate package
    could not find or load main class
    unknown option
    unrecognized option
    unrecognised option
    no such option
    invalid option
    illegal option
    unknown flag
    unknown shorthand flag
    flag provided but not defined
    unknown argument
    unrecognized argument
    unrecognized arguments
    unexpected argument
    arguments are required
    missing required argument
    missing required option
    missing required field
    missing required property
    is a required property
    additional properties are not allowed
    unknown command
    unknown subcommand
    no such command
    command not found
    is not recognized as an internal or external command
    exec format error
    invalid json
    jsondecodeerror
    invalid yaml
    schema validation
    does not match the schema
    validation error
    validation errors
    validationerror
    invalid configuration
    invalid config
    invalid argument
    invalid value for
    syntax error
    syntaxerror
    modulenotfounderror
    no module named
    cannot find module
    no rule to make target
    """,
    statuses=(400, 422),
)
OUTAGES: Rules = (
    # First, because a lack of disk or memory is the cause of whatever else was said.
    (FailureClass.UNKNOWN, _RESOURCE_WORDS),
    (FailureClass.COOLDOWN, _COOLDOWN_WORDS),
    (FailureClass.TRANSIENT_RUNTIME, _TRANSIENT_WORDS),
)
DETERMINISTIC: Rules = (
    (FailureClass.DETERMINISTIC_POLICY, _POLICY_WORDS),
    (FailureClass.DETERMINISTIC_REPO, _REPO_WORDS),
    (FailureClass.DETERMINISTIC_CONTRACT, _CONTRACT_WORDS),
)
