"""What a step begins from, where that is no workspace: the page of its run, or what its checks said before it.

Never a tree: the workspace is compared, restored and reused by its own digest.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from recoup.kernel.canonical import digest
from recoup.model.events import CheckResult
from recoup.model.outcome import Seen
from recoup.model.plan import ApproveAction, BrowserAction, Step
from recoup.model.run import RunState, StepRecord, Verdict
from recoup.model.target import Fingerprint

NO_PAGE = "page:none"


def pre_fingerprint(
    state: RunState,
    step: Step,
    record: StepRecord,
    seen: Seen | None,
    checks: Sequence[CheckResult] | None,
) -> str | None:
    """None: nothing was looked at. `seen`: by the step before, if that is not in `state` yet; `checks`: what the step's
    checks of the world said before its first attempt."""
    if record.verdict is Verdict.FAILED and record.beginning.pre_fingerprint is not None:
        return (
            record.beginning.pre_fingerprint
        )  # what a failed attempt has changed is not what the step began from
    if isinstance(step.action, BrowserAction):
        left = seen.page if seen is not None else None
        return page_digest(left or page_before(state, record.index)) or NO_PAGE
    if isinstance(step.action, ApproveAction):
        return page_digest(page_before(state, record.index))
    return _checks_digest(checks) if checks else None


def page_before(state: RunState, index: int) -> Fingerprint | None:
    """The page as the last step in the browser before this one has left it."""
    return next(
        (one.results.page for one in reversed(state.steps[:index]) if one.results.page is not None), None
    )


def page_digest(page: Fingerprint | None) -> str | None:
    return None if page is None else f"page:{_hex(msgspec.to_builtins(page))}"


def _checks_digest(checks: Sequence[CheckResult]) -> str:
    """Of the answers alone: what the checks ask is in the plan, and their details may quote what they found."""
    return f"checks:{_hex([check.held for check in checks])}"


def _hex(value: object) -> str:
    return digest(value).rpartition(":")[2]
