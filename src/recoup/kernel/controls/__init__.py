"""What an operator may ask of a run. One value for each control: its rule, effect, fold, scope and words.

    kind.py          ControlKind, and the closed union of orders that the engine carries out
    hold.py          pause, resume, takeover
    retry.py         retry_step, hard_reset_step
    rewind.py        resume_from_step
    gates.py         approve, reject
    settlement.py    settle
    cancellation.py  cancel
    rules.py         reasons for a refusal that several share
    scope.py         what a control would touch, in sentences that several share

To add a control: write a module with a `ControlKind` and name it in `CONTROLS`. The command line, HTTP, MCP, the
console, the policy, storms and their invariants read it from there; nobody else may know its name
(tests/unit/test_control_kinds.py). Only what no order of the engine can do yet needs another one (`Order`).
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from recoup.kernel.controls.cancellation import CANCEL
from recoup.kernel.controls.gates import APPROVE, REJECT
from recoup.kernel.controls.hold import PAUSE, RESUME, TAKEOVER
from recoup.kernel.controls.kind import ControlKind, Hold
from recoup.kernel.controls.retry import HARD_RESET_STEP, RETRY_STEP
from recoup.kernel.controls.rewind import RESUME_FROM_STEP
from recoup.kernel.controls.settlement import SETTLE
from recoup.kernel.position import current_step, with_fresh_budget
from recoup.kernel.records import with_steps
from recoup.model.events import ControlHandled
from recoup.model.policy import Policy
from recoup.model.run import Recovery, RunState
from recoup.model.storage import Control

CONTROLS: Final[dict[str, ControlKind]] = {
    kind.name: kind
    for kind in (
        *(PAUSE, RESUME, TAKEOVER, RETRY_STEP, HARD_RESET_STEP, RESUME_FROM_STEP),
        *(APPROVE, REJECT, SETTLE, CANCEL),
    )
}
"""By name, in the order in which they are listed."""


def refusal(state: RunState, control: Control, policy: Policy) -> str | None:
    """Why this cannot be done now, and what can; None when it can."""
    why = why_not(state, control, policy)
    if why is None:
        return None
    instead = possible(state, policy)
    return f"{why}; possible now: {', '.join(instead) or 'nothing'}"


def why_not(state: RunState, control: Control, policy: Policy) -> str | None:
    """Why alone, for whoever shows what can be done anyway."""
    kind = CONTROLS.get(control.action)
    return f"{control.action} is not a control" if kind is None else kind.refuse(state, control, policy)


def possible(state: RunState, policy: Policy) -> list[str]:
    """The actions that some operator could take now."""
    likely = [(kind, wishes(state, kind)[0]) for kind in answers_last()]
    return [kind.name for kind, control in likely if kind.refuse(state, control, policy) is None]


def answers_last() -> list[ControlKind]:
    """Every control; those that answer what a run has asked come last."""
    kinds = CONTROLS.values()
    return [kind for answers in (False, True) for kind in kinds if kind.is_answer is answers]


def wishes(state: RunState, kind: ControlKind) -> list[Control]:
    """This control at the step where it makes most sense: one for each answer that it takes."""
    step = next(iter(kind.steps(state)), None)
    return [wish(state, kind.name, step, answer) for answer in kind.takes.answers or (None,)]


def wish(state: RunState, action: str, step_id: str | None = None, argument: str | None = None) -> Control:
    """A control that nobody has sent, to ask what would become of it."""
    return Control(
        id="", run_id=state.run_id, action=action, reason="", actor="", at=state.submission.at, step_id=step_id,
        argument=argument,
    )  # fmt: skip


def pre_empts(control: Control) -> bool:
    """Whether an attempt under way must end for it."""
    return control.action in CONTROLS and CONTROLS[control.action].pre_empts


def heed(state: RunState, handled: ControlHandled) -> RunState:
    """The fold of an accepted control."""
    kind = CONTROLS.get(handled.action)
    if kind is None:
        return state
    if kind.recovers:
        state = replace(state, recovery=Recovery(handled.action, handled.step_id, handled.at or ""))
    if kind.hold is Hold.BEGINS:
        state = replace(state, hold=replace(state.hold, paused=True))
    elif kind.hold is Hold.LIFTS:
        state = replace(state, hold=replace(state.hold, paused=False, takeover=False))
    if kind.renews:
        state = _tried_at_once(state, kind.strategy)
    return kind.fold(state, handled)


def _tried_at_once(state: RunState, strategy: str | None) -> RunState:
    step = current_step(state)
    if step is None:
        return state
    step = with_fresh_budget(step)
    recovery = replace(step.recovery, strategy=strategy, since=None, delay_ms=0)
    return with_steps(state, replace(step, recovery=recovery))
