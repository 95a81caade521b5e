"""A state that was handed out stays as it is while others go on folding."""

from __future__ import annotations

import msgspec

from recoup.kernel.copies import copied
from recoup.kernel.fold import advance, submitted
from recoup.model import events as ev
from recoup.model.ids import ProcessIdentity
from recoup.model.instant import Instant
from recoup.model.plan import Plan, RunAction, Step

AT = Instant(1_800_000_000_000_000, 5_000_000, "boot")
OWNER = ProcessIdentity("host", "boot", 1, 1)
FACTS = (
    ev.RunStarted(delivery=1, epoch=1, owner=OWNER, policy_digest="p"),
    ev.AttemptStarted(
        step_id="a", step_index=0, attempt=1, delivery=1, kind="run", args_digest="d", pre_state=None,
        workspace=None, inline=True,
    ),
    ev.AttemptFinished(
        step_id="a", step_index=0, attempt=1, verdict="passed", duration_ms=1, outputs={"rows": [1, {"b": 2}]}
    ),
)  # fmt: skip


def test_a_copy_is_equal_and_the_first_does_not_change_when_the_copy_goes_on() -> None:
    first = ev.RunSubmitted(
        workflow="w",
        plan_digest="d",
        plan=Plan(name="w", steps=(Step(id="a", action=RunAction("x")),)),
        plan_redacted=False,
        inputs={"n": "1"},
        policy_digest="p",
    )
    state = submitted("r", first, AT)
    for fact in FACTS:
        following, before = copied(state), msgspec.json.encode(state)
        assert following == state and following.plan is state.plan
        advance(following, fact, AT, following.seq + 1)
        assert msgspec.json.encode(state) == before != msgspec.json.encode(following)
        state = following
    changed = copied(state)
    changed.steps[0].results.outputs["rows"].append(3)
    assert state.steps[0].results.outputs == {"rows": [1, {"b": 2}]}
