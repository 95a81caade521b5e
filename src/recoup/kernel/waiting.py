"""How long the targets of a workflow take to appear, and how long they are therefore waited for.

A fold of the stream of the workflow's targets. What usually takes six seconds is not given up, nor is something else
taken for it, after three.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

from recoup.model.events import Payload, TargetHealed, TargetTimed
from recoup.model.memory import Key
from recoup.model.policy import Policy

SAMPLES_MAX = 20
"""Of one target, the last ones."""
TARGETS_MAX = 2_000
"""Of one workflow; beyond it those that were timed longest ago are forgotten."""
WORTH_MS = 1_000
"""What comes sooner is waited for anyway."""
SHARE = 0.95
ROOM = 1.5
"""So many times what it usually takes."""
SHARE_OF_STEP = 0.5
"""Of the step's own time, the most that may be waited: some of it is for acting."""


class LearnedWaits:
    def __init__(self, base: Mapping[Key, tuple[int, ...]] | None = None) -> None:
        self._samples = dict(base) if base else {}

    @property
    def took_ms(self) -> dict[Key, tuple[int, ...]]:
        return dict(self._samples)

    def add(self, payload: Payload) -> None:
        match payload:
            case TargetTimed():
                self._time((payload.step_id, payload.target_digest), payload.took_ms)
            case TargetHealed(verified=True):
                # It looks otherwise now: to wait for what it was would be in vain.
                self._samples.pop((payload.step_id, payload.target_digest), None)

    def is_worth_telling(self, key: Key, took_ms: int) -> bool:
        """It was slow, or is no longer."""
        return took_ms >= WORTH_MS or key in self._samples

    def wait_s(self, key: Key, policy: Policy) -> float:
        """Before something else is taken for it, or it is given up; 0: nothing was learned."""
        samples = sorted(self._samples.get(key, ()))
        if not samples:
            return 0.0
        usual_s = samples[ceil(SHARE * len(samples)) - 1] / 1000
        step_s = min(policy.step_timeout_seconds, policy.step_idle_timeout_seconds)
        return min(ROOM * usual_s, policy.learned_wait_max_s, SHARE_OF_STEP * step_s)

    def _time(self, key: Key, took_ms: int) -> None:
        samples = (*self._samples.pop(key, ()), took_ms)[-SAMPLES_MAX:]
        if max(samples) < WORTH_MS:
            return
        self._samples[key] = samples
        if len(self._samples) > TARGETS_MAX:
            del self._samples[next(iter(self._samples))]
