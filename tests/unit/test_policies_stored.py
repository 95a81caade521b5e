"""Policies in the ledger, which other versions may have written."""

from __future__ import annotations

import msgspec
import pytest

from recoup.kernel.policies import stored_policy
from recoup.model.policy import Policy


def test_a_policy_is_what_was_stored() -> None:
    policy = Policy(step_max_attempts=7, delivery_max=2)
    assert stored_policy(msgspec.json.encode(policy)) == policy


def test_keys_of_a_newer_version_are_not_followed() -> None:
    said = {**msgspec.to_builtins(Policy(delivery_max=5)), "patience_of_saints": 3}
    assert stored_policy(msgspec.json.encode(said)) == Policy(delivery_max=5)


def test_values_of_a_newer_version_are_refused() -> None:
    said = {**msgspec.to_builtins(Policy()), "delivery_max": "as many as it takes"}
    with pytest.raises(msgspec.ValidationError, match="delivery_max"):
        stored_policy(msgspec.json.encode(said))
