"""The policy of one step: what the plan and the step say over the run's policy, and the digest that names it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from recoup.kernel.canonical import digest
from recoup.model.plan import Limits, Plan, Step
from recoup.model.policy import Policy


def step_policy(policy: Policy, plan: Plan, step: Step) -> Policy:
    """Defaults ← policy file (both in `policy`) ← plan ← step."""
    return with_limits(with_limits(policy, plan.defaults), step.limits)


def with_limits(policy: Policy, limits: Limits) -> Policy:
    said = {
        key: value
        for key, value in (
            ("step_timeout_seconds", limits.timeout_s),
            ("step_idle_timeout_seconds", limits.idle_timeout_s),
            ("step_max_attempts", limits.max_attempts),
            ("step_no_progress_limit", limits.no_progress_limit),
            ("idle_by", limits.idle),
            ("polls", limits.polls),
            ("step_processes_max", limits.max_processes),
            ("step_memory_max_bytes", limits.max_memory_bytes),
        )
        if value is not None
    }
    return msgspec.structs.replace(policy, **said) if said else policy


def stored_policy(body: bytes) -> Policy:
    """As it was stored, perhaps by a newer version: keys that we do not know are not ours to follow. Raises
    msgspec.ValidationError for values that we do not understand."""
    said = msgspec.json.decode(body, type=dict[str, Any])
    known = {name: value for name, value in said.items() if name in Policy.__struct_fields__}
    return msgspec.convert(known, Policy, strict=True)


def policy_digest(policy: Policy) -> str:
    return _digest_of(msgspec.json.encode(policy))


@lru_cache(maxsize=256)
def _digest_of(raw: bytes) -> str:
    """Remembered: every run asks for the digests of the same few policies, and canonical JSON takes its time."""
    return digest(msgspec.json.decode(raw))
