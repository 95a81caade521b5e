"""What the engine may ask of a kind of step, besides performing one.

Most kinds keep nothing between two attempts, and the engine asks them nothing. A kind that does keep something (a
browser step keeps its page) is a `StatefulKind`. It makes one `KindHooks` for every run whose plan has such a step, and
the engine asks those at fixed places in the life of a run. Each hook does nothing unless the kind says otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import msgspec

from recoup.kernel.outset import Outset
from recoup.model.events import Payload
from recoup.model.failure import FailureKind
from recoup.model.outcome import Order, Outcome, Seen
from recoup.model.plan import Check, Plan, Step
from recoup.model.policy import Policy
from recoup.model.run import RunState, StepRecord, Verdict
from recoup.model.storage import Draft
from recoup.ports import Clock, Ledger, Lifeline, Redactor, Secrets

# What may come before a step


class FactsFirst(msgspec.Struct, frozen=True):
    """These facts are recorded before anything else; what comes next follows from them. `release`: the run waits for a
    person."""

    facts: tuple[Payload, ...]
    release: bool = False


class Undone(msgspec.Struct, frozen=True):
    """What this finished step left does not say what it proved: nothing from this step on is good any more, an approval
    included."""

    reason: str
    begins: int
    unaffected: Collection[int] = ()
    """Steps that have nothing to do with it: those that must not be repeated stay done."""


class CannotBegin(msgspec.Struct, frozen=True):
    """What the step acts on cannot be had now: the attempt fails before anything is done, and is retried like any
    other."""

    reason: str
    kind: FailureKind


Obstacle = FactsFirst | Undone | CannotBegin


# What an attempt has shown


class Beside(msgspec.Struct, frozen=True):
    """Facts for another stream than the run's, in the same transaction."""

    stream: str
    payloads: tuple[Payload, ...]


class KindFacts(msgspec.Struct, frozen=True):
    """What an attempt has shown besides how it ended: for the run's stream, and for others."""

    facts: tuple[Payload, ...] = ()
    beside: tuple[Beside, ...] = ()


NO_FACTS = KindFacts()


class RunInHand(Protocol):
    """The run that a driver has in hand, as the hooks of a kind see it."""

    @property
    def run_id(self) -> str: ...

    @property
    def plan(self) -> Plan: ...

    @property
    def policy(self) -> Policy:
        """The one in force: it changes while the run is driven."""
        ...

    @property
    def state(self) -> RunState:
        """After the last fact that was recorded."""
        ...

    @property
    def secrets(self) -> Secrets: ...

    @property
    def redactor(self) -> Redactor: ...

    @property
    def ledger(self) -> Ledger: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def lifeline(self) -> Lifeline: ...

    def expected(self, step: Step) -> tuple[Check, ...]:
        """The checks of the step with the values that they have now. Raises TemplateError."""
        ...

    def steps_behind(self, step: Step) -> frozenset[str]:
        """The steps whose outputs it uses, directly or through those of others."""
        ...

    def draft(self, payload: Payload) -> Draft:
        """As it is stored: redacted."""
        ...

    def new_escalation_id(self) -> str: ...


class KindHooks:
    """What one kind keeps for one run, while one driver has the run. Steps and attempts are of this kind unless a hook
    says otherwise."""

    # The driver takes the run and leaves it

    async def take_up(self) -> None:
        """The driver begins. This process may have kept something open since it drove the run last."""

    async def release(self, *, stays: bool) -> None:
        """The driver is done with the run. `stays`: this process stays, and may drive the run again."""

    # Before a step

    async def obstacle(self, step: Step, record: StepRecord) -> Obstacle | None:
        """What comes before this step, or before a gate: what it builds on was lost or has changed. Restores what can
        be restored. None: nothing. Not asked before the first step, nor where `may_follow_at_once` holds."""
        return None

    async def is_ready(self, step: Step) -> bool:
        """Whether the step, which is performed again for a restored workspace, has what it builds on."""
        return True

    async def gate_reached(self, gate: Step, record: StepRecord) -> None:
        """A person is about to be asked. The gate is not of this kind."""

    def may_follow_at_once(self, seen: Seen | None) -> bool:
        """Whether an attempt may start in the commit that ends the one before it, which has `seen` this."""
        return True

    async def reconsider(self) -> None:
        """Before an attempt starts, and after any attempt of the run has failed: take back what was learned and made
        things worse."""

    # One attempt

    async def order(self, order: Order, step: Step, record: StepRecord, *, hides: bool) -> Order:
        """The order, with what only this kind knows. `hides`: the arguments hold values that records must not show."""
        return order

    def handler_order(self, order: Order, *, hides: bool) -> Order:
        """The same for a handler, of whatever step."""
        return order

    def explained(self, step: Step, outcome: Outcome) -> Outcome:
        """The outcome with what this kind knows about it. One that stays `refuted` counts for nothing: the step is
        approached anew."""
        return outcome

    async def keep(self, step: Step, outcome: Outcome) -> None:
        """Before the ledger says that the step is done: store what it takes to come back."""

    def passed(
        self, step: Step, record: StepRecord, seen: Seen | None, evidence: tuple[str, ...], verdict: Verdict
    ) -> KindFacts:
        """What an attempt that passed has shown."""
        return NO_FACTS

    def failed(
        self, step: Step, record: StepRecord, seen: Seen | None, evidence: tuple[str, ...]
    ) -> KindFacts:
        """What an attempt that failed has shown."""
        return NO_FACTS

    def recorded(self, facts: KindFacts) -> None:
        """These facts are in the ledger now."""

    # What was lost or is undone

    async def come_back(self, step: Step, record: StepRecord) -> None:
        """An attempt ended without saying how: restore what was there before it, so that checks can look."""

    async def seen_by_checks(self, step: Step) -> Seen | None:
        """What the step has left, where its checks have looked at that and say that it was done."""
        return None

    async def go_back(self, index: int) -> None:
        """Before good steps from this one on, of any kind, count as not done."""

    async def reset(self, step: Step, record: StepRecord) -> Sequence[Payload]:
        """A hard reset before this step: make anew what it works with. Returns the facts about it."""
        return ()

    def is_lost_too(self, following: Step) -> bool:
        """A step has lost what it had left. Whether this one, right after it, lost its own with it: one answer of a
        person counts for both."""
        return False


NO_HOOKS = KindHooks()
"""Of a kind that keeps nothing."""


class StatefulKind(Protocol):
    """A kind of step that keeps something outside the ledger between the attempts of a run. One for each process."""

    def of_run(self, run: RunInHand) -> KindHooks: ...

    def waiting(self) -> Mapping[str, int]:
        """The runs for which this process keeps something open while they wait, and the epoch of their last driver."""
        ...

    async def leave(self, run_id: str) -> None:
        """Close what is open for this run. Harmless where nothing is."""
        ...

    def inherited(self, secrets: Secrets, reused: Sequence[StepRecord]) -> Mapping[str, str]:
        """What a run that reuses these steps must keep, too, out of what the earlier run has kept."""
        ...

    def foreseen(self, run: Outset, secrets: Secrets) -> Outset:
        """With what is known, without opening anything, of what the run has kept."""
        ...
