"""Runs for workers: what a submission says about its queue, and the queue itself."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from recoup.errors import UsageError
from recoup.kernel.canonical import digest
from recoup.model.dispatch import Hint
from recoup.model.events import Payload, RunSubmitted, SubmissionKeyTaken
from recoup.model.ids import key_stream
from recoup.model.run import RunState

DEFAULT_QUEUE = "default"


class Queued(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run waits for a worker, and which ones will do."""

    queue: str = DEFAULT_QUEUE
    priority: int = 0
    needs: tuple[str, ...] = ()
    not_before_us: int = 0
    dedup_key: str | None = None
    submitted_by: str | None = None
    submit_reason: str | None = None
    approval_ref: str | None = None

    def marked(self, payload: RunSubmitted) -> RunSubmitted:
        self.hint("x")  # what cannot be hinted must not be recorded
        return msgspec.structs.replace(
            payload,
            queue=self.queue,
            priority=self.priority,
            needs=self.needs,
            not_before_us=self.not_before_us,
            dedup_key=self.dedup_key,
            submitted_by=self.submitted_by,
            submit_reason=self.submit_reason,
            approval_ref=self.approval_ref,
        )

    def hint(self, run_id: str) -> Hint:
        try:
            return Hint(run_id, self.queue, self.priority, self.needs)
        except ValueError as error:
            raise UsageError(
                str(error), hint="Example: recoup submit plan.yaml --queue nightly --priority 5"
            ) from None

    def key_taken(self, workflow: str, run_id: str) -> Sequence[tuple[str, Payload]]:
        """What makes a second submission under the key impossible."""
        if self.dedup_key is None:
            return ()
        return ((stream_of_key(workflow, self.dedup_key), SubmissionKeyTaken(run_id=run_id)),)


def stream_of_key(workflow: str, key: str) -> str:
    return key_stream(digest({"workflow": workflow, "key": key}).removeprefix("sha256:"))


def hint_of(state: RunState) -> Hint | None:
    """None: no worker looks for it."""
    return (
        None
        if state.queueing.queue is None
        else Hint(state.run_id, state.queueing.queue, state.queueing.priority, state.queueing.needs)
    )
