"""The policy in force, and what another one would have decided."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recoup.app import App


def policy_problem(app: App) -> str:
    """Why the policy file cannot be used; "" where it can, or where there is none."""
    written = None if app.policy_file is None else app.policy_file.read()
    if written is None or written.policy is not None:
        return ""
    return f"the policy file {app.settings.policy} is not followed: {written.problems}"
