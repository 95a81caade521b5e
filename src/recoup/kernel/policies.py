"""The policy of one step: what the plan and the step say over the run's policy, and the digest that names it."""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, Final, get_origin, get_type_hints

import msgspec

from recoup.kernel.canonical import digest
from recoup.model.plan import Limits, Plan, Retry, Step
from recoup.model.policy import Policy
from recoup.model.policy_key import StepKey


def step_policy(policy: Policy, plan: Plan, step: Step) -> Policy:
    """Defaults ← policy file (both in `policy`) ← plan ← step."""
    return with_limits(with_limits(policy, plan.defaults), step.limits)


DELAY_MAX_MS = 86_400_000


def _step_keys() -> dict[str, StepKey]:
    hints = get_type_hints(Limits, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items() if get_origin(hint) is Annotated}


STEP_KEYS: Final = _step_keys()
"""By the field of `Limits`."""


def with_limits(policy: Policy, limits: Limits) -> Policy:
    policy = _with_retries(policy, limits)
    values = {key.sets: getattr(limits, name) for name, key in STEP_KEYS.items()}
    given = {name: value for name, value in values.items() if value is not None}
    return msgspec.structs.replace(policy, **given) if given else policy


def _with_retries(policy: Policy, limits: Limits) -> Policy:
    """A number of attempts is meant for every failure that may pass: neither an unrecognised one nor one like the last
    ends the step before it is used, unless the same place says when a step counts as stuck."""
    retry, said = limits.retry, dict[str, Any]()
    if limits.no_progress_limit is not None:
        said["no_progress_gives_up"] = True
    elif limits.max_attempts is not None or retry is not None:
        said["no_progress_gives_up"] = False
    if limits.max_attempts is not None or retry is not None:
        attempts = limits.max_attempts or (retry and retry.attempts) or policy.step_max_attempts
        said |= {"step_max_attempts": attempts, "unknown_retries_max": attempts - 1}
    if retry is not None:
        said |= _waits(retry)
        said |= {} if retry.on is None else {"retry_on": retry.on}
    return msgspec.structs.replace(policy, **said) if said else policy


def _waits(retry: Retry) -> dict[str, Any]:
    """A delay without a factor stays the same; the policy's cap is for the policy's own waits."""
    if retry.delay_s is None:
        return {} if retry.backoff is None else {"backoff_factor": retry.backoff}
    delay_ms = round(1000 * retry.delay_s)
    return {"backoff_ms": delay_ms, "backoff_factor": retry.backoff or 1.0, "backoff_cap_ms": DELAY_MAX_MS}


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
