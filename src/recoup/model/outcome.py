"""What a runtime is asked to do in one attempt, and what it reports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from recoup.model.events import AgentReport, CheckResult
from recoup.model.failure import FailureKind
from recoup.model.memory import Remembered, Screen
from recoup.model.plan import Action, BrowserAction
from recoup.model.policy import Policy
from recoup.model.redacted import Redacted
from recoup.model.target import Element, Fingerprint, Floors, HealMode, Resolution, Target


class Captured(msgspec.Struct, frozen=True):
    """Raw output in memory, never stored: its beginning and its end, with whatever lay between counted only."""

    head: bytes = b""
    tail: bytes = b""
    total: int = 0

    @property
    def gap(self) -> int:
        return self.total - len(self.head) - len(self.tail)

    def text(self) -> str:
        middle = f"\n[{self.gap} bytes not kept]\n".encode() if self.gap else b""
        return (self.head + middle + self.tail).decode("utf-8", "replace")

    def last(self, limit: int) -> bytes:
        """The end of what was printed."""
        return (self.head + self.tail)[-limit:] if not self.gap else self.tail[-limit:]


class Progress(msgspec.Struct, frozen=True):
    """How far an attempt is, in its own words."""

    note: Redacted
    done: float | None = None
    total: float | None = None


class Looking(msgspec.Struct, frozen=True, kw_only=True):
    """How the target of one attempt may be found."""

    level: int = 0
    """Of tolerance: which elements are considered."""
    level_max: int = 0
    """The level that later attempts of this delivery may reach."""
    heal: HealMode = HealMode.APPLY
    floors: Floors
    needs_proof: bool = False
    """Heals that no postcondition would prove are refused."""
    observed: Element | None = None
    """The target in full, as it was when it was last found exactly and verified."""
    limit: str = ""
    """Why heals are only reported now."""
    remembered: tuple[Remembered, ...] = ()
    """What was proven right in place of the target before, likeliest first."""
    lessons: tuple[Element, ...] = ()
    """What stood for the target when it was last proven: further descriptions, for when the recorded one is too old."""
    forbidden: frozenset[str] = frozenset()
    """Identities of elements that somebody rejected for this target."""
    proposed: tuple[Element, ...] = ()
    """What was learned in this workflow and is like the target: worth a look where it is on the page."""
    wait_s: float = 0.0
    """How long the target is waited for before something else is taken for it: as long as it usually takes."""
    expects: bool = False
    """Something is expected that would prove what was done."""


class Rewritten(msgspec.Struct, frozen=True):
    """A value that a field refused as it was written, and took in another form. Shapes, never the value."""

    kind: str
    before: str
    after: str


class Artifact(msgspec.Struct, frozen=True):
    """Something that an attempt leaves for people: a picture, a trace, what the collector saw."""

    name: str
    media_type: str
    data: bytes
    """Pictures show no password, and no secret that was typed."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt in the browser saw and took."""

    resolution: Resolution | None = None
    observed: Element | None = None
    """The element that was acted on, in full."""
    before: Element | None = None
    """What the target was compared with."""
    page: Fingerprint | None = None
    screen: Screen | None = None
    """What the page looked like when the target was looked for."""
    artifacts: tuple[Artifact, ...] = ()
    took_ms: int | None = None
    """How long it took until the target was there as it was written."""
    waited: bool = False
    """It came only because it was waited for longer than others are."""
    rewritten: Rewritten | None = None


class PageSight(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of a page for one question, and no more than it asked for."""

    url: str = ""
    title: str = ""
    texts: Sequence[str] = ()
    """The words to be read, frame by frame."""
    elements: Sequence[Element] = ()
    """Those that the target matches."""
    field: Mapping[str, Any] | None = None
    """What the only element holds, and whether it is checked."""
    responses: Sequence[tuple[str, int]] = ()
    """Address and status of those that came during the attempt."""
    was_pictured: bool = False
    """There is a picture from before the attempt."""
    difference: float | None = None
    """The share of its pixels that differ now. None: it is no longer there."""


class PageQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """What a check must see of a page, and what follows from that."""

    answer: Callable[[PageSight], tuple[bool | None, str]]
    """Whether it holds (None: that cannot be said), and words."""
    target: Target | None = None
    title: bool = False
    texts: bool = False
    field: bool = False
    """What the target holds."""
    responses: bool = False
    difference: bool = False
    """How the target, or what is in view, differs from before the attempt."""
    is_negative: bool = False
    """About what must not be there: right after an action nothing has changed yet."""


class PageClaim(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was true of a page: a check that held, or what a `read` gave, by its digest."""

    question: PageQuestion | None = None
    read: BrowserAction | None = None
    said: str = ""
    looking: Looking | None = None
    """How the target of the read was found, if it was healed."""
    may_be_gone: bool = False
    """Only another value refutes it: what cannot be read any more says nothing."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of one step, with everything substituted."""

    run_id: str
    step_id: str
    step_index: int
    attempt: int
    action: Action
    cwd: str
    env: dict[str, str]
    policy: Policy
    has_own_timeout: bool = False
    """The plan gives this very step, or handler, a timeout; the policy holds it."""
    objective: str = ""
    title: str = ""
    retry_context: dict[str, Any] | None = None
    """What a second attempt is told: the plan's own words, and a redacted summary of the failure. None: this is the
    first one."""
    session_id: str | None = None
    """Of an agent's earlier attempt, when it is to go on there."""
    looking: Looking | None = None
    """In the browser: how its target may be found. None: it has none."""
    pictured: tuple[Target | None, ...] = ()
    """In the browser: what the step expects to look afterwards as it did before. None: what is in view."""
    claims: tuple[PageClaim, ...] = ()
    """In the browser: what a person has approved. It must hold right before the action is carried out."""
    secret_values: tuple[str, ...] = ()
    """Secrets that the action holds: what is typed of them must not be seen in any picture."""
    aside: str | None = None
    """The folder of the driver's own, for whoever opens a file of the run."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What happened, in facts; the kernel concludes.

    `kind` is None when the attempt ran to its own end: then exit code and checks decide.
    """

    kind: FailureKind | None = None
    exit_code: int | None = None
    signal: int | None = None
    exception: str | None = None
    agent_event: str | None = None
    retry_after_s: float | None = None
    refuted: str = ""
    """What a person has approved did not hold any more right before the action, in words: it was not carried out."""
    detail: str = ""
    duration_ms: int = 0
    idle_ms: int = 0
    stdout: Captured = Captured()
    stderr: Captured = Captured()
    outcome_known: bool = True
    interrupted: bool = False
    """Ended because the driver asked: nothing is concluded from it."""
    outputs: dict[str, Any] = {}
    """What the attempt gave back by itself, beside what it printed and wrote."""
    agent: AgentReport | None = None
    seen: Seen | None = None

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """What the attempt leaves for people."""
        return self.seen.artifacts if self.seen is not None else ()


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """Where checks look: the workspace, the page of the run's browser, and the attempt if there was one."""

    run_id: str = ""
    cwd: str
    env: dict[str, str]
    policy: Policy
    outcome: Outcome | None = None
    changed_files: tuple[str, ...] | None = None
    """None: unmanaged, nothing known about changes."""
    output_file: str | None = None
    check_timeout_s: float = 5
    waits: bool = True
    """For what may still come, on the page. False: it is looked at once, as it is."""


class Restored(msgspec.Struct, frozen=True):
    """A page that was opened again."""

    page: Fingerprint | None
    """None: it cannot be had back."""
    why: str = ""
    missing: tuple[str, ...] = ()
    """The steps whose traces in the document were lost with it, in their order: what they typed, opened or ticked."""
    missing_in_other_tabs: tuple[str, ...] = ()
    """The same of the tabs that were opened beside it."""
    unreachable: bool = False
    """Its address, or the browser, does not answer now: it may be had back later."""


class Collected(msgspec.Struct, frozen=True, kw_only=True):
    """The outputs of an attempt, or why they could not be had."""

    plain: dict[str, Any] = {}
    secret: dict[str, str] = {}
    problem: str | None = None
    too_large: bool = False
    """They exist, but their content is unknown."""


class Examined(msgspec.Struct, frozen=True):
    results: tuple[CheckResult, ...]

    @property
    def all_held(self) -> bool:
        """Each was asked, and each held."""
        return all(result.held for result in self.results)
