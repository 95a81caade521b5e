"""What to do next about a run: one answer, printed with the same words wherever the run is shown."""

from __future__ import annotations

import shlex

import msgspec

from recoup.kernel.commands import control_command, gate_commands, settle_commands
from recoup.kernel.controls.cancellation import CANCEL
from recoup.kernel.controls.hold import RESUME
from recoup.kernel.deeds import lost_words
from recoup.model.run import RunState, RunStatus


class Advice(msgspec.Struct, frozen=True):
    """One thing to do, and the command that does it."""

    text: str
    command: str | None = None
    """A whole line, ready to paste. None: there is nothing to run."""

    def __str__(self) -> str:
        return f"{self.text}." if self.command is None else f"{self.text}: {self.command}"


def advice(state: RunState, driven: bool | None = None) -> tuple[Advice, ...]:
    """What to do next, the most useful first; empty when nothing is left to do. `driven`: whether somebody drives the
    run now; None: unknown."""
    if state.unreadable is not None:
        return _unreadable(state)
    if state.status is RunStatus.ESCALATED:
        return _escalated(state)
    if state.status.is_terminal:
        return _ended(state)
    if driven:
        return (_watch(state),)
    if state.status is RunStatus.WAITING and state.hold.waiting_for in ("approval", "operator"):
        return _at_gate(state) if state.hold.waiting_for == "approval" else _stopped(state)
    if state.status is RunStatus.BLOCKED:
        return _blocked(state)
    if driven is None and state.status is RunStatus.RUNNING and not state.driver.interrupted:
        return (_watch(state), Advice("If nobody drives it", _resume(state)))
    return _undriven(state)


def settle_advice(run_id: str, step_id: str, lost: str = "") -> tuple[Advice, ...]:
    """The question about a step whose outcome is unknown. `lost`: what is gone whatever the answer is."""
    lost = f". {lost.rstrip('.')}" if lost else ""
    done, not_done = settle_commands(run_id, step_id)
    return (
        Advice(f"Check whether {step_id} was done{lost}"),
        Advice("If it was", done),
        Advice("If it was not", not_done),
    )


def page_advice(run_id: str, step_id: str, names: tuple[str, ...]) -> tuple[Advice, ...]:
    """The question whether steps may be performed again to restore a lost page."""
    done, not_done = settle_commands(run_id, step_id)
    return (
        Advice(f"To perform {', '.join(names)} again, with all effects", not_done),
        Advice("To continue on the page as it is", done),
    )


def retry_advice(run_id: str, queue: str | None) -> Advice:
    """How to try a run again that was given up."""
    again = f"recoup resume {run_id}" if queue is None else f"recoup queue retry {run_id}"
    return Advice("Fix the cause, then try again in a new run; passed steps are not repeated", again)


def hint_of(advised: tuple[Advice, ...]) -> str:
    """The same words as one text."""
    return " ".join(map(str, advised))


def _unreadable(state: RunState) -> tuple[Advice, ...]:
    return (
        Advice(
            "An event cannot be read, so nobody acts on the run. Upgrade Recoup if a newer version wrote it; otherwise "
            "restore a backup"
        ),
        Advice("Read the other events", f"recoup events {state.run_id}"),
        Advice("Compare them with the audit", "recoup audit verify"),
    )


def _escalated(state: RunState) -> tuple[Advice, ...]:
    run_id = state.run_id
    record = next((one for one in state.steps if one.index == state.escalation.step_index), None)
    if record is None:
        return (
            Advice("See why it was handed over", f"recoup events {run_id}"),
            Advice("To end it", control_command(run_id, CANCEL.name)),
        )
    if state.page.question:
        return page_advice(run_id, record.step_id, state.page.question)
    return settle_advice(run_id, record.step_id, lost_words(state.plan.steps[record.index], record))


def _ended(state: RunState) -> tuple[Advice, ...]:
    if state.status is RunStatus.SUCCEEDED:
        return ()
    if state.status is RunStatus.CANCELLED:
        return (Advice("To continue it in a new run; passed steps are not repeated", _resume(state)),)
    if state.failure.retryable:
        return _redelivered(state)
    begun = [step for step in state.steps[state.progress.prefix_length :][:1] if step.spent.attempts]
    logs = [f"recoup logs {state.run_id} {shlex.quote(step.step_id)}" for step in begun]
    printed = (Advice("See what it printed", command) for command in logs)
    return (*printed, retry_advice(state.run_id, state.queueing.queue))


def _redelivered(state: RunState) -> tuple[Advice, ...]:
    if state.queueing.queue is None:
        return (Advice("It is worth another try: resume it", _resume(state)),)
    return (
        Advice("Nothing to do: a worker tries it again, as often as delivery_max allows"),
        Advice("To try it here at once", _resume(state)),
    )


def _at_gate(state: RunState) -> tuple[Advice, ...]:
    approve, reject = gate_commands(state.run_id)
    return Advice("To approve", approve), Advice("To reject", reject)


def _stopped(state: RunState) -> tuple[Advice, ...]:
    taken = "It was taken over. When the work by hand is done, resume it"
    resume = _resume(state) if state.queueing.queue is None else control_command(state.run_id, RESUME.name)
    return (
        Advice(taken if state.hold.takeover else "It is paused. When the reason is gone, resume it", resume),
    )


def _blocked(state: RunState) -> tuple[Advice, ...]:
    why = Advice("Its workflow is stopped. See why, and until when", _mode(state))
    if state.queueing.queue is not None:
        return why, Advice("When the workflow may run again, a worker continues the run")
    return why, Advice("When the workflow may run again, resume the run", _resume(state))


def _undriven(state: RunState) -> tuple[Advice, ...]:
    if state.queueing.queue is not None:
        return _by_worker(state, state.queueing.queue)
    if state.status is RunStatus.QUEUED:
        return (Advice("Start it", _resume(state)),)
    if state.hold.waiting_for == "time" and state.hold.waiting_until is not None:
        return (
            Advice(
                f"Nothing to do before {state.hold.waiting_until}. Then, if nobody drives it", _resume(state)
            ),
        )
    trouble = "The machine was in trouble: fix that first, then resume it" if state.driver.in_trouble else ""
    return (Advice(trouble or "Resume it where it stopped", _resume(state)),)


def _by_worker(state: RunState, queue: str) -> tuple[Advice, ...]:
    able = f" that has {', '.join(state.queueing.needs)}" if state.queueing.needs else ""
    return (
        Advice(f"Nothing to do: a worker of the queue {queue}{able} takes it"),
        Advice("If none does, see which workers there are", "recoup workers"),
        Advice("See whether its workflow is stopped", _mode(state)),
        Advice("To drive it here", _resume(state)),
    )


def _watch(state: RunState) -> Advice:
    return Advice("Watch it", f"recoup events {state.run_id} --follow")


def _resume(state: RunState) -> str:
    return f"recoup resume {state.run_id}"


def _mode(state: RunState) -> str:
    return f"recoup mode {shlex.quote(state.workflow)}"
