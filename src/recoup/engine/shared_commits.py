"""Facts that share a commit with those before them, where nothing can come between the two."""

from __future__ import annotations

from collections.abc import Sequence

from recoup.engine.arguments import Arguments, Fresh
from recoup.engine.conclusion import Passed
from recoup.engine.desk import Desk
from recoup.engine.facts import run_succeeded, started
from recoup.engine.passing import fresh_outputs
from recoup.engine.surroundings import Surroundings
from recoup.engine.unknown_outcome import world_checks
from recoup.engine.witness import unsettled_s
from recoup.kernel.prefix import is_good
from recoup.kernel.template import TemplateError
from recoup.model import events as ev
from recoup.model.plan import Repeat, Step, is_gate
from recoup.model.run import StepRecord, Verdict


class SharedCommits:
    """What may be recorded together with what is recorded now."""

    def __init__(self, desk: Desk, surroundings: Surroundings) -> None:
        self._desk = desk
        self._surroundings = surroundings

    def very_first(self) -> Sequence[ev.AttemptStarted]:
        """The start of the first step, with the start of the run."""
        desk = self._desk
        step, record = desk.job.plan.steps[0], desk.state.steps[0]
        if desk.halt.is_set() or not self._surroundings.seen or not self._may_launch_at_once(step):
            return ()
        arguments = None if record.doubt.to_settle else self._arguments(step)
        return () if arguments is None else (started(desk, step, record, arguments, None),)

    def next_start(self, record: StepRecord, passed: Passed) -> Sequence[ev.Payload]:
        """The start of the next step, with the end of this one."""
        desk, index = self._desk, record.index + 1
        if index == len(desk.state.steps) or desk.halt.is_set() or desk.state.hold.paused:
            return ()
        if self._surroundings.refusal is not None or not self._surroundings.seen or desk.step(record).always:
            return ()
        step, following = desk.job.plan.steps[index], desk.state.steps[index]
        if is_good(following) or following.recovery.since or following.doubt.to_settle:
            return ()
        if not self._may_launch_at_once(step) or not desk.kinds.of(step).may_follow_at_once(passed.seen):
            return ()
        arguments = self._arguments(step, fresh_outputs(record.step_id, passed))
        if arguments is None:
            return ()
        pre_state = passed.snapshot.tree if passed.snapshot else desk.pre_state(following)
        return (started(desk, step, following, arguments, pre_state, seen=passed.seen),)

    def success(self, step: Step, record: StepRecord, facts: Sequence[ev.Payload]) -> Sequence[ev.Payload]:
        """The end of the run, with the end of its last step."""
        state = self._desk.state
        if state.progress.prefix_length != record.index or record.index + 1 != len(state.steps):
            return ()
        if self._desk.halt.is_set() or state.hold.paused or state.workspaces.trial is not None:
            return ()
        if (
            step.always
            or state.progress.always_pending
            or state.progress.rebuild_pending
            or state.workspaces.restore_pending
        ):
            return ()
        ended = [fact.verdict for fact in facts if isinstance(fact, ev.AttemptFinished)]
        verdicts = [*(one.verdict for one in state.steps[:-1]), *(Verdict(verdict) for verdict in ended)]
        return (run_succeeded(verdicts),) if len(verdicts) == len(state.steps) else ()

    def _may_launch_at_once(self, step: Step) -> bool:
        """Nothing is to be looked at first, and nothing is waited for."""
        if step.repeat is Repeat.NEVER and unsettled_s(self._desk.world) > 0:
            return False
        return not (is_gate(step.action) or step.when is not None or world_checks(step))

    def _arguments(self, step: Step, fresh: Fresh | None = None) -> Arguments | None:
        """None: a value is missing, which is reported when it is the step's turn."""
        try:
            return self._desk.arguments(step, fresh)
        except TemplateError:
            return None
