"""A plan: ordered steps with contracts. What a person wrote, checked and without defaults left open."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import msgspec

from recoup.model.ident import Ident, NamedText
from recoup.model.policy import IdleBy
from recoup.model.policy_key import StepKey
from recoup.model.target import Heal, Target
from recoup.model.workspace import Source


class Repeat(StrEnum):
    """Whether a step may be performed again when its outcome is not known."""

    SAFE = "safe"
    NEVER = "never"


class Rebuild(StrEnum):
    """How a restored workspace gets back what a checkpoint does not hold."""

    CHECKPOINT = "checkpoint"
    RERUN = "rerun"


class StreamName(StrEnum):
    STDOUT = "stdout"
    STDERR = "stderr"


class TextMatch(msgspec.Struct, frozen=True, omit_defaults=True):
    """Either a text that must occur, or a regular expression (RE2) that must match somewhere."""

    text: str | None = None
    regex: str | None = None


class AnyCheck(msgspec.Struct, frozen=True):
    """Something that must hold after an attempt. Its kind in `recoup.checks` says everything else about it."""

    @property
    def asks_world(self) -> bool:
        """It looks at the world, so it can be asked before and without an attempt."""
        return False

    @property
    def files(self) -> tuple[str, ...]:
        """The files, relative to the workspace, that must be there for it to hold."""
        return ()


class WorldCheck(AnyCheck, frozen=True):
    """Looks at the world, and at nothing that an attempt said."""

    @property
    def asks_world(self) -> bool:
        return True


class ExitCheck(AnyCheck, frozen=True, tag="exit"):
    codes: tuple[int, ...]


class FileCheck(WorldCheck, frozen=True, tag="file", omit_defaults=True):
    """A path, relative to the workspace, that must exist (or not), perhaps with this in it."""

    path: str
    absent: bool = False
    contains: TextMatch | None = None

    @property
    def files(self) -> tuple[str, ...]:
        return () if self.absent else (self.path,)


class OutputCheck(AnyCheck, frozen=True, tag="output"):
    """What the attempt printed."""

    stream: StreamName
    match: TextMatch


class JsonCheck(WorldCheck, frozen=True, tag="json", omit_defaults=True):
    """A value inside a JSON file: it must exist, or equal `equals`."""

    file: str
    path: str
    equals: Any = msgspec.UNSET

    @property
    def files(self) -> tuple[str, ...]:
        return (self.file,)


class RunCheck(WorldCheck, frozen=True, tag="run"):
    """A command that must exit with 0."""

    command: str | tuple[str, ...]


class DiffCheck(AnyCheck, frozen=True, tag="diff", omit_defaults=True):
    """What the step must have changed in the workspace."""

    want: str = "nonempty"
    paths: tuple[str, ...] = ()
    """Patterns; every changed file must match one of them."""


class UrlCheck(WorldCheck, frozen=True, tag="url"):
    """Where the page is: a pattern with * (within a part of the path) and ** (anything)."""

    pattern: str


class TitleCheck(WorldCheck, frozen=True, tag="title"):
    match: TextMatch


class PageTextCheck(WorldCheck, frozen=True, tag="text", omit_defaults=True):
    """Words to be read on the page, in any frame; or not."""

    match: TextMatch
    absent: bool = False


class TargetState(StrEnum):
    VISIBLE = "visible"
    HIDDEN = "hidden"
    """Not to be seen, or not there."""
    COUNT = "count"


class TargetCheck(WorldCheck, frozen=True, tag="target", omit_defaults=True):
    """How an element is, as it was written: checks are never healed."""

    target: Target
    state: TargetState = TargetState.VISIBLE
    count: int | None = None


class ValueCheck(WorldCheck, frozen=True, tag="value", omit_defaults=True):
    """What a form field holds; `checked` for boxes."""

    target: Target
    match: TextMatch | None = None
    checked: bool | None = None
    equals: str | None = None
    """The whole value, to the letter."""


class ResponseCheck(AnyCheck, frozen=True, tag="response", omit_defaults=True):
    """A response that came during the attempt."""

    pattern: str
    status: tuple[int, ...] = ()
    """Any of these; empty: any below 400."""


class RegionCheck(AnyCheck, frozen=True, tag="region", omit_defaults=True):
    """A part of the page looks as it did before the attempt."""

    target: Target | None = None
    """None: what is in view."""
    tolerance: float = 0.01
    """The share of pixels that may differ."""


class CustomCheck(AnyCheck, frozen=True, tag="custom", omit_defaults=True):
    """A check of a kind that another package brings. Every process can read it; the package examines it."""

    kind: Ident
    arguments: dict[str, Any] = {}
    package: Ident = ""
    """The distribution that brings the kind."""
    world: bool = False

    @property
    def asks_world(self) -> bool:
        return self.world


Check = (
    ExitCheck
    | FileCheck
    | OutputCheck
    | JsonCheck
    | RunCheck
    | DiffCheck
    | UrlCheck
    | TitleCheck
    | PageTextCheck
    | TargetCheck
    | ValueCheck
    | ResponseCheck
    | RegionCheck
    | CustomCheck
)


class AnyOutput(msgspec.Struct, frozen=True):
    """Where an output is found. Its source in `recoup.checks.sources` says everything else about it."""


class JsonOutput(AnyOutput, frozen=True, tag="json", omit_defaults=True):
    file: str
    path: str
    secret: bool = False


class RegexOutput(AnyOutput, frozen=True, tag="regex", omit_defaults=True):
    """The first group (or the whole match) of an expression in what was printed or in a file."""

    regex: str
    stream: StreamName = StreamName.STDOUT
    file: str | None = None
    secret: bool = False


class DeclaredOutput(AnyOutput, frozen=True, tag="declared", omit_defaults=True):
    """A name that the step writes into RECOUP_OUTPUT."""

    secret: bool = False


Output = JsonOutput | RegexOutput | DeclaredOutput


class RunAction(msgspec.Struct, frozen=True, tag="run"):
    """A shell script (through `bash -e`) or an argument vector."""

    command: str | tuple[str, ...]


class PythonAction(msgspec.Struct, frozen=True, tag="python", omit_defaults=True):
    """A function, called in a process of its own. What it returns are the outputs."""

    target: str
    """`module:function`; the plan's folder or the workspace is on the path."""
    arguments: dict[str, Any] = {}


class AgentSession(StrEnum):
    """What a second attempt of an agent begins with."""

    FRESH = "fresh"
    SESSION = "session"


class AgentAction(msgspec.Struct, frozen=True, tag="agent", omit_defaults=True):
    """A coding agent's command line, given a prompt."""

    cli: str
    """claude | codex | gemini, or any command; its words are split as a shell would."""
    prompt: str
    args: tuple[str, ...] = ()
    resume: AgentSession = AgentSession.FRESH
    mcp: bool = True
    """Whether the agent is given the tools of `recoup mcp`, where its command line is known to take them."""


class BrowserVerb(StrEnum):
    GOTO = "goto"
    CLICK = "click"
    FILL = "fill"
    PRESS = "press"
    SELECT = "select"
    CHECK = "check"
    UNCHECK = "uncheck"
    UPLOAD = "upload"
    HOVER = "hover"
    WAIT = "wait"
    READ = "read"
    SCREENSHOT = "screenshot"
    DOWNLOAD = "download"
    TAB = "tab"


NEVER_REPEATED = frozenset({BrowserVerb.CLICK, BrowserVerb.PRESS, BrowserVerb.UPLOAD, BrowserVerb.DOWNLOAD})
"""Verbs that may change the world: unless the plan says otherwise, not again when the outcome is unknown."""


class Dialog(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is done with a dialog that opens during the action. Without one it is dismissed, and the step fails."""

    accept: bool = True
    text: str | None = None
    """For a prompt."""


class BrowserAction(msgspec.Struct, frozen=True, kw_only=True, tag="browser", omit_defaults=True):
    """One thing done in the run's browser."""

    verb: BrowserVerb
    target: Target | None = None
    value: str | None = None
    """goto: the address. fill: the text. press: the key. screenshot: the name. tab: which (`new`, `last`, a number, or
    part of its address)."""
    values: tuple[str, ...] = ()
    """select: the options, by label or value. upload: files."""
    attribute: str | None = None
    """read: an attribute instead of the text."""
    table: bool = False
    """read: a table, as a list of rows by the names of its columns."""
    into: str | None = None
    """read: the name of the output. download: the file, relative to the workspace."""
    seconds: float | None = None
    """wait: so long, where no target is named."""
    hidden: bool = False
    """wait: until the target is not to be seen."""
    double: bool = False
    button: str | None = None
    dialog: Dialog | None = None


class ApproveAction(msgspec.Struct, frozen=True, tag="approve"):
    """A gate: the run waits until an operator says yes or no."""

    message: str


class CustomAction(msgspec.Struct, frozen=True, tag="custom", omit_defaults=True):
    """A step of a kind that another package brings. Every process can read it; the package performs it."""

    kind: Ident
    arguments: dict[str, Any] = {}
    package: Ident = ""
    """The distribution that brings the kind."""


WorkAction = RunAction | PythonAction | AgentAction | BrowserAction | CustomAction
"""What a handler may do as well."""
Action = WorkAction | ApproveAction


def kind_of(action: Action) -> str:
    """The key that picks the kind of step in a plan file."""
    return action.kind if isinstance(action, CustomAction) else str(type(action).__struct_config__.tag)


def resumes_session(action: Action) -> bool:
    """A later attempt goes on with the session that an earlier one had."""
    return isinstance(action, AgentAction) and action.resume is AgentSession.SESSION


def is_gate(action: Action) -> bool:
    """Nothing is performed: the run waits for a person."""
    return isinstance(action, ApproveAction)


class Retry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a plan or a step says of its retries. None: nothing."""

    attempts: int | None = None
    delay_s: float | None = None
    backoff: float | None = None
    """By what the wait is multiplied before each further attempt."""
    on: tuple[str, ...] | None = None
    """Kinds and classes of failure. Empty: every one that may pass by itself."""


class Limits(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a plan or a step says over the policy. None: nothing.

    Plan files, their schema and the step's policy read each field; a `@step` takes its key in `StepOptions`.
    """

    timeout_s: Annotated[float | None, StepKey("timeout", "step_timeout_seconds", ("15m", "1h30m", 90))] = (
        None
    )
    idle_timeout_s: Annotated[float | None, StepKey("idle_timeout", "step_idle_timeout_seconds", ("5m",))] = (
        None
    )
    max_attempts: Annotated[
        int | None,
        StepKey(
            "max_attempts",
            "step_max_attempts",
            (3,),
            "Attempts of a step in one delivery, the first included, for every failure that may pass.",
        ),
    ] = None
    no_progress_limit: Annotated[int | None, StepKey("no_progress_limit", "step_no_progress_limit", (2,))] = (
        None
    )
    idle: Annotated[IdleBy | None, StepKey("idle", "idle_by", ("activity",))] = None
    polls: Annotated[
        bool | None,
        StepKey(
            "polls", "polls", (True,), "The step waits for something and may fail the same way many times."
        ),
    ] = None
    max_processes: Annotated[int | None, StepKey("max_processes", "step_processes_max", (200,))] = None
    max_memory_bytes: Annotated[
        int | None,
        StepKey(
            "max_memory",
            "step_memory_max_bytes",
            ("2GB", "512MiB"),
            "How much memory the processes of one attempt may take together.",
        ),
    ] = None
    retry: Retry | None = None


class Handler(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing to do for a step: when it failed for good, when its result is empty, or always."""

    action: WorkAction
    title: str = ""
    expect: tuple[Check, ...] = ()
    env: dict[str, str] = {}
    timeout_s: float | None = None


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One unit of work with pre- and postconditions."""

    id: Ident
    action: Action
    title: str = ""
    expect: tuple[Check, ...] = ()
    outputs: dict[str, Output] = {}
    env: dict[str, str] = {}
    when: str | None = None
    repeat: Repeat = Repeat.SAFE
    heal: Heal = Heal()
    """Of a browser step: what to do where its target is not as it was."""
    rebuild: Rebuild = Rebuild.CHECKPOINT
    limits: Limits = Limits()
    rescue: tuple[Handler, ...] = ()
    """When every attempt has failed: the step is recovered if one of these passes and what it expects holds."""
    on_empty: tuple[Handler, ...] = ()
    """When it ended well with nothing to show."""
    always: tuple[Handler, ...] = ()
    """After the step, however it ended; changes nothing about how it ended."""


class InputType(StrEnum):
    """What a value of an input must look like. It is text all the same."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"


class Input(msgspec.Struct, frozen=True, omit_defaults=True):
    required: bool = False
    default: NamedText | None = None
    secret: bool = False
    type: InputType = InputType.TEXT


class Plan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A named, ordered list of steps."""

    name: Ident
    steps: tuple[Step, ...]
    objective: str = ""
    inputs: dict[str, Input] = {}
    workspace: Source | None = None
    folder: str = "."
    """The folder of the plan file: where steps run when there is no workspace."""
    defaults: Limits = Limits()
    heal: Heal = Heal()
    secrets: tuple[str, ...] = ()
