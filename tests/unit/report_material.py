"""Events of made-up runs, for reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from recoup.model import events as ev
from recoup.model.events import Event
from recoup.model.failure import Facts, FailureClass, FailureKind
from recoup.model.ids import ProcessIdentity
from recoup.model.instant import Instant
from recoup.model.plan import Plan, RunAction, Step

OWNER = ProcessIdentity("host", "boot-1", 1, 1)


class Story:
    """Tells one run, event by event; time passes when it is told to."""

    def __init__(self, *steps: str, objective: str = "", title: str = "", name: str = "flow") -> None:
        self.events: list[Event] = []
        self._us, self._boot_us, self._boot = 1_800_000_000_000_000, 5_000_000, "boot-1"
        self._names = list(steps)
        self._tries = [0] * len(steps)
        plan = Plan(
            name=name,
            objective=objective,
            steps=tuple(Step(id=step, title=title, action=RunAction("true")) for step in steps),
        )
        self.tell(
            ev.RunSubmitted(
                workflow=name,
                plan_digest="sha256:11",
                plan=plan,
                plan_redacted=False,
                inputs={},
                policy_digest="sha256:22",
            )
        )
        self.tell(ev.RunStarted(delivery=1, epoch=1, owner=OWNER, policy_digest="sha256:22"))

    def tell(self, payload: ev.Payload, stream: str = "run:r", event_type: str = "") -> None:
        at = Instant(self._us, self._boot_us, self._boot)
        raw = msgspec.json.encode(payload)
        seq = len(self.events) + 1
        self.events.append(Event(stream, seq, at, event_type or payload.TYPE, payload, raw))

    def after(self, seconds: float) -> Story:
        self._us += round(seconds * 1e6)
        self._boot_us += round(seconds * 1e6)
        return self

    def jump_wall(self, seconds: float) -> Story:
        self._us += round(seconds * 1e6)
        return self

    def starts(self, index: int, phase: str = "main") -> Story:
        self._tries[index] += 1
        self.tell(
            ev.AttemptStarted(
                **self._about(index),
                delivery=1,
                kind="run",
                args_digest="d",
                pre_state=None,
                workspace=None,
                inline=True,
                phase=phase,
            )
        )
        return self

    def passes(self, index: int, seconds: float = 1) -> Story:
        self.starts(index).after(seconds)
        self.tell(
            ev.AttemptFinished(**self._about(index), verdict="passed", duration_ms=round(seconds * 1000))
        )
        return self

    def fails(
        self,
        index: int,
        seconds: float = 1,
        *,
        words: str = "exit code 1",
        excerpt: str = "first line\nboom",
        signature: str = "v2:aa",
        reason: str = "unknown: fresh process",
        delay_s: float | None = 0.5,
    ) -> Story:
        """And is to be tried again after a delay, unless that is None."""
        self.starts(index).after(seconds)
        about: dict[str, Any] = self._about(index) | {
            "failure_class": FailureClass.UNKNOWN,
            "failure_kind": FailureKind.EXIT_NONZERO,
            "failure_signature": signature,
            "strategy": "soft_reset",
            "reason": reason,
        }
        facts = Facts(kind=FailureKind.EXIT_NONZERO, exit_code=1, duration_ms=1000, excerpt=excerpt)
        self.tell(ev.AttemptFailed(**about, facts=facts, summary=words, outcome_known=True))
        if delay_s is not None:
            self.tell(ev.SelfHealTriggered(**about, delay_ms=round(delay_s * 1000)))
            self.after(delay_s)
        return self

    def succeeds(self) -> Story:
        self.tell(ev.RunSucceeded(known_good_prefix_length=len(self._names), reason="all done"))
        return self

    def ends_badly(self, reason: str = "step failed") -> Story:
        self.tell(
            ev.RunFailed(
                reason=reason,
                failure_class=FailureClass.UNKNOWN,
                failure_kind=FailureKind.EXIT_NONZERO,
                retryable=False,
                delivery=1,
            )
        )
        return self

    def _about(self, index: int) -> dict[str, Any]:
        return {"step_id": self._names[index], "step_index": index, "attempt": self._tries[index]}


def mode_events(story: Story, *changes: ev.WorkflowModeChanged) -> Sequence[Event]:
    """In the workflow's stream, at the time of the run's last event."""
    at = story.events[-1].at
    return [
        Event("workflow:flow", seq, at, change.TYPE, change, msgspec.json.encode(change))
        for seq, change in enumerate(changes, 1)
    ]
