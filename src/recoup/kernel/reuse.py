"""What of an earlier run need not be done again in a new one: a prefix, compared step by step, and why it ends there.

Whatever differs, or is not known, ends it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from recoup.kernel.earlier import Deed, Earlier
from recoup.kernel.outset import Outset
from recoup.kernel.page_forecast import PageForecast, page_forecast
from recoup.kernel.prefix import Frontier, frontier, is_good
from recoup.kernel.references import OPENING
from recoup.model.events import AskedStep, EarlierDeed, StepReused
from recoup.model.plan import (
    AgentAction,
    ApproveAction,
    BrowserAction,
    Handler,
    Plan,
    Rebuild,
    Repeat,
    Step,
    kind_of,
)
from recoup.model.redacted import holds_mask
from recoup.model.run import RunState, RunStatus, StepRecord, Verdict
from recoup.model.workspace import Baseline

REUSED: Final = "reused"
IF_PAGE_HOLDS: Final = "reused_if_page_holds"
"""Its page must be restored, and must still show all that was proven."""
PERFORMED: Final = "performed"
UNLESS_DONE: Final = "performed_unless_done"
"""Its last attempt has no known end: if its checks hold now, it is done."""
FOR_PAGE: Final = "page"
FOR_WORKSPACE: Final = "workspace"
ASKED: Final = "asked"
"""A person is asked before it is performed."""
OUTCOME_UNKNOWN = "its outcome is unknown and it must not be repeated: a person is asked"
_NOT_LOOKED_AT = "nothing is known about it now"
NOTHING_PROVES = "nothing proves that what it left is still there"
_MAY_BE_DONE = "it counts as done if its checks hold now"


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What one step would be now, if everything before it is reused."""

    wanted: bool = True
    """Its `when` holds."""
    args_digest: str | None = None
    changed: tuple[str, ...] = ()
    """The references in it whose values are not what they were."""
    problem: str | None = None
    """The first thing that does not support reuse: evidence, an output, a checkpoint, the world."""


class StepReuse(msgspec.Struct, frozen=True, rename="camel"):
    """What becomes of one step of the new plan, and why."""

    step_id: str
    step_index: int
    reused: bool
    reason: str
    expected: str
    """`reused`, `reused_if_page_holds`, `performed`, `performed_unless_done` or `asked`."""
    repeated_for: str | None = None
    """It is performed again to restore the `page` or the `workspace`, and stays done thereby."""


class Reuse(msgspec.Struct, frozen=True):
    """The answer: a prefix is reused, the rest runs."""

    run_id: str
    steps: tuple[StepReuse, ...]
    refusal: str | None = None
    """Why the run must not begin like this at all."""
    hint: str = ""
    page: PageForecast | None = None
    """How the page that the run needs is restored; null where it needs none, and where nobody asked for it."""
    asks: tuple[AskedStep, ...] = ()
    """Steps that were done, must not be repeated and cannot be reused: a linked run asks a person before each."""

    @property
    def count(self) -> int:
        return sum(step.reused for step in self.steps)

    @property
    def frontier(self) -> Frontier | None:
        step = next((step for step in self.steps if not step.reused), None)
        return None if step is None else Frontier(step.step_id, step.step_index, step.reason)

    def document(self) -> dict[str, Any]:
        """`--dry-run --json`."""
        edge = self.frontier
        return {
            "runId": self.run_id,
            "reused": [step.step_id for step in self.steps if step.reused],
            "frontier": None if edge is None else msgspec.to_builtins(edge),
            "steps": msgspec.to_builtins(self.steps),
            "page": msgspec.to_builtins(self.page),
        }


def compare(
    earlier: Earlier,
    plan: Plan,
    baseline: Baseline | None,
    found: Sequence[Found],
    *,
    from_step: str | None = None,
    later_digests: Mapping[str, Collection[str] | None] | None = None,
) -> Reuse:
    """`found`: for the leading steps, as far as somebody looked. `later_digests`: what steps that must not be repeated
    would be given, where that is known before the steps before them have run."""
    run_id = earlier.state.run_id
    ids = [step.id for step in plan.steps]
    if from_step is not None and from_step not in ids:
        return Reuse(run_id, (), f"the plan has no step {from_step!r}", f"Its steps: {', '.join(ids[:20])}.")
    end, reason = _end(earlier, plan, baseline, found, from_step)
    steps = tuple(
        _step_reuse(earlier, step, index, end, reason, ids) for index, step in enumerate(plan.steps)
    )
    digests = later_digests or {}
    refused = _refusal(steps, end, from_step) or _under_way(earlier, plan.steps[end:], digests)
    if refused is not None:
        return Reuse(run_id, steps, *refused)
    asks = _asks(earlier, plan, steps, end, digests)
    return Reuse(run_id, _with_questions(steps, asks), asks=asks)


def in_place(state: RunState, from_step: str | None = None) -> Reuse:
    """The same answer for a run that goes on itself."""
    ids = [record.step_id for record in state.steps]
    edge = frontier(state)
    end, reason = (edge.step_index, edge.reason) if edge else (len(ids), "")
    if from_step is not None and from_step in ids[:end]:
        end, reason = ids.index(from_step), _asked(from_step)
    done, good = done_in_place(state, from_step), f"done in run {state.run_id}"
    steps = [
        StepReuse(step_id, index, True, good, REUSED)
        if index in done
        else _goes_on(state, state.steps[index], _why_later(index, end, reason, ids))
        for index, step_id in enumerate(ids)
    ]
    return Reuse(state.run_id, tuple(steps))


def done_in_place(state: RunState, from_step: str | None = None) -> frozenset[int]:
    """The steps that are not performed again when the run goes on. Some may stand behind the frontier: they stay done
    when the steps in the browser before them are lost."""
    ids = [record.step_id for record in state.steps]
    again = range(ids.index(from_step) if from_step in ids else len(ids), state.progress.prefix_length)
    return frozenset(record.index for record in state.steps if is_good(record) and record.index not in again)


def foreseen(reuse: Reuse, run: Outset, rebuilt: Collection[int]) -> Reuse:
    """With what becomes of the run's page, and of the steps that are `rebuilt` in the restored workspace."""
    page = page_forecast(run)
    steps = tuple(_with_forecast(step, page, run, rebuilt) for step in reuse.steps)
    return msgspec.structs.replace(reuse, steps=steps, page=page)


def reused_fact(state: RunState, record: StepRecord) -> StepReused:
    """The step counts as done in the new run, with all that is known of it."""
    return StepReused(
        step_id=record.step_id,
        step_index=record.index,
        attempt=None,
        reason=record.invalidation_reason if record.skipped else None,
        diff_hash=record.results.diff_hash,
        from_run_id=record.reused_from or state.run_id,
        verdict=record.verdict,
        kind=record.kind,
        args_digest=record.beginning.args_digest,
        pre_state=record.beginning.pre_state,
        evidence=record.results.evidence,
        outputs=dict(record.results.outputs),
        secret_outputs=record.results.secret_outputs,
        private_outputs=record.results.private_outputs,
        snapshot=record.results.checkpoint,
        phase=record.phase,
        skipped=record.skipped,
        page=record.results.page,
        pre_fingerprint=record.beginning.pre_fingerprint,
    )


def why_not(
    earlier: Earlier, plan: Plan, baseline: Baseline | None, index: int, found: Found | None = None
) -> str | None:
    """Why this step must be performed, given that all before it are reused. Without `found`: as far as the ledger and
    the plans tell. None: nothing speaks against reuse."""
    step = plan.steps[index]
    why = _not_good_there(earlier, step, index) or _edited(earlier.plan, plan, index)
    if why is not None:
        return why
    record = earlier.state.steps[index]
    why = _begins_elsewhere(earlier, plan, baseline) or (
        _not_proven(step, record) if baseline is None else _no_way_back(earlier, step, record)
    )
    return why if why is not None or found is None else _differs_now(record, found)


# The end of the prefix


def _end(
    earlier: Earlier,
    plan: Plan,
    baseline: Baseline | None,
    found: Sequence[Found],
    from_step: str | None,
) -> tuple[int, str]:
    for index, step in enumerate(plan.steps):
        looked_at = index < len(found)
        why = why_not(earlier, plan, baseline, index, found[index] if looked_at else None)
        if step.id == from_step:
            why = _asked(from_step)
        elif why is None and not looked_at:
            why = _NOT_LOOKED_AT
        if why is not None:
            return index, why
    return len(plan.steps), ""


def _step_reuse(
    earlier: Earlier, step: Step, index: int, end: int, reason: str, ids: Sequence[str]
) -> StepReuse:
    if index >= end:
        return StepReuse(step.id, index, False, _why_later(index, end, reason, ids), PERFORMED)
    record = earlier.state.steps[index]
    verdict = "skipped" if record.skipped else record.verdict.value
    gaps, before = earlier.incomplete.get(index), earlier.incomplete.get(index - 1)
    is_new = gaps is not None and (before is None or gaps.missing != before.missing)
    lacks = (
        f"; its checkpoint lacks {_paths(gaps.missing_count)}"
        if gaps and is_new and not record.skipped
        else ""
    )
    reason = f"{verdict} in run {_prover(earlier.state, record)}{lacks}"
    return StepReuse(step.id, index, True, reason, REUSED)


def _paths(count: int) -> str:
    return "1 path" if count == 1 else f"{count} paths"


def _goes_on(state: RunState, record: StepRecord, reason: str) -> StepReuse:
    """Of a run that goes on: what its driver has left open may be done."""
    is_open = record.open is not None and record.open.launched and record.open.phase == "main"
    once = state.plan.steps[record.index].repeat is Repeat.NEVER
    about = (record.step_id, record.index, False)
    if is_open and any(check.held is False for check in record.beginning.prechecks or ()):
        words = f"{_MAY_BE_DONE}; otherwise a person is asked" if once else _MAY_BE_DONE
        return StepReuse(*about, f"{reason}; {words}", UNLESS_DONE)
    if record.doubt.asks is not None and record.doubt.to_settle and record.is_done_elsewhere:
        return StepReuse(*about, f"{deed_words(record.doubt.asks)}: a person is asked", ASKED)
    if record.doubt.to_settle and not record.doubt.lost:
        return StepReuse(*about, f"{reason}; it was done and must not be repeated: a person is asked", ASKED)
    if record.doubt.to_settle or (is_open and once) or _is_asked_about(state, record):
        return StepReuse(*about, f"{reason}; {OUTCOME_UNKNOWN}", ASKED)
    return StepReuse(*about, reason, PERFORMED)


def _is_asked_about(state: RunState, record: StepRecord) -> bool:
    """By the escalation that waits for an answer."""
    if state.status is not RunStatus.ESCALATED:
        return False
    return record.index == state.escalation.step_index or record.step_id in state.escalation.also_settled


def _with_forecast(
    step: StepReuse, page: PageForecast | None, run: Outset, rebuilt: Collection[int]
) -> StepReuse:
    if step.reused and step.step_index in rebuilt:
        reason = f"{step.reason}; performed again in the restored workspace"
        step = msgspec.structs.replace(step, repeated_for=FOR_WORKSPACE, reason=reason)
    if page is None or not step.reused:
        return step
    ids = [one.id for one in run.steps]
    begins, needed_by = ids.index(page.since), ids.index(page.needed_by)
    if step.step_index < begins or step.step_index >= needed_by:
        return step
    if step.step_id in page.asks_about:
        unless = ", unless the page shows that this was done" if page.unless_shown else ""
        reason = f"{step.reason}; must not be repeated: a person is asked whether it is, to restore the page{unless}"
        return msgspec.structs.replace(step, expected=ASKED, reason=reason)
    if step.step_id not in page.repeated:
        return msgspec.structs.replace(step, expected=IF_PAGE_HOLDS)
    reason = f"{step.reason}; performed again to restore the page"
    return msgspec.structs.replace(step, expected=IF_PAGE_HOLDS, repeated_for=FOR_PAGE, reason=reason)


def _why_later(index: int, end: int, reason: str, ids: Sequence[str]) -> str:
    return reason if index == end else f"after the frontier: {ids[end]}"


def _asked(from_step: str) -> str:
    return f"asked for: --from-step {from_step}"


def _prover(state: RunState, record: StepRecord) -> str:
    return record.reused_from or state.run_id


# What speaks against one step


def _not_good_there(earlier: Earlier, step: Step, index: int) -> str | None:
    state = earlier.state
    if index >= len(state.steps) or state.steps[index].step_id != step.id:
        there = next((record for record in state.steps if record.step_id == step.id), None)
        return (
            "was not in that run" if there is None else f"stood at another place in that run: {there.index}"
        )
    if index in state.progress.always_pending:
        return "its `always` was not done there"
    if index < state.progress.prefix_length:
        return None
    edge = frontier(state)
    assert edge is not None, "a step beyond the prefix has a frontier before it"
    return (
        f"not good there: {edge.reason}"
        if edge.step_index == index
        else f"after the frontier there: {edge.step_id}"
    )


def _edited(there: Plan, plan: Plan, index: int) -> str | None:
    """Titles and limits say nothing about what a step does; but an agent is told its title and the objective."""
    before, now = there.steps[index], plan.steps[index]
    keys = [name for name in Step.__struct_fields__ if _encoded(before, name) != _encoded(now, name)]
    if not _has_agent(now):
        keys = [name for name in keys if name != "title"]
    elif there.objective != plan.objective:
        keys.append("objective")
    said = [kind_of(now.action) if name == "action" else name for name in keys if name != "limits"]
    return f"edited since: {', '.join(said)}" if said else None


def _encoded(step: Step, name: str) -> bytes:
    """As bytes, because 1, 1.0 and true are equal in Python and not in a plan."""
    return msgspec.json.encode(getattr(step, name), order="deterministic")


def _has_agent(step: Step) -> bool:
    works: tuple[Step | Handler, ...] = (step, *step.rescue, *step.on_empty, *step.always)
    return any(isinstance(work.action, AgentAction) for work in works)


def _begins_elsewhere(earlier: Earlier, plan: Plan, baseline: Baseline | None) -> str | None:
    there = earlier.state.workspaces.baseline
    if (there is None) != (baseline is None):
        return "that run had no workspace" if there is None else "that run worked in a workspace"
    if there is None or baseline is None:
        same = posixpath.normpath(earlier.plan.folder) == posixpath.normpath(plan.folder)
        return None if same else "that run worked in another folder"
    if there.commit != baseline.commit:
        return (
            f"the source is at another commit: {_short(baseline.commit)}, in that run {_short(there.commit)}"
        )
    if there.tree != baseline.tree:
        return "the source holds other files than in that run"
    if there.manifest != baseline.manifest:
        return "the source has other branches, tags, modes or empty folders than in that run"
    return None


def _short(commit: str | None) -> str:
    return commit[:12] if commit else "none"


def _not_proven(step: Step, record: StepRecord) -> str | None:
    """Without a workspace only the world itself can tell; of a step in the browser, the page that is come back to."""
    if _left_nothing(step, record) or (
        isinstance(step.action, BrowserAction) and record.results.page is not None
    ):
        return None
    looks = any(check.asks_world for check in step.expect)
    return None if looks and record.verdict is not Verdict.UNVERIFIED else NOTHING_PROVES


def _no_way_back(earlier: Earlier, step: Step, record: StepRecord) -> str | None:
    """With a workspace: what it began from and what it left must both be known."""
    state = earlier.state
    base, before = state.workspaces.base, _tree_before(state, record.index)
    if base is not None and base.index == record.index and base.snapshot.tree != before:
        return "an operator changed the workspace before it"
    if base is not None and base.in_checkpoint and base.index == record.index + 1:
        return "an operator changed the workspace before its `always` was done"
    if _left_nothing(step, record):
        return None
    if record.beginning.pre_state != before:
        return "it began from another state of the workspace than the steps before it left"
    if record.results.checkpoint is None:
        return "it left no checkpoint"
    return _gone_from_checkpoint(earlier, step, record.index)


def _left_nothing(step: Step, record: StepRecord) -> bool:
    return record.skipped or isinstance(step.action, ApproveAction)


def _tree_before(state: RunState, index: int) -> str | None:
    for record in reversed(state.steps[:index]):
        if record.results.checkpoint is not None:
            return record.results.checkpoint.tree
    return state.workspaces.baseline.tree if state.workspaces.baseline else None


def _gone_from_checkpoint(earlier: Earlier, step: Step, index: int) -> str | None:
    """A file that the step had to leave, and that its checkpoint does not hold."""
    gaps = earlier.incomplete.get(index)
    if gaps is None or _rebuilds(earlier, index):
        return None
    left = _paths_left(step)
    paths = [posixpath.normpath(path) for path in left if OPENING not in path]
    if len(paths) < len(left) and gaps.missing_count:
        return "its checkpoint is incomplete, and a file that it must leave is named by a value"
    for missing in (each for each in gaps.missing if not each.stored):
        place = missing.path.rstrip("/")
        if any(path == place or path.startswith(f"{place}/") for path in paths):
            return f"its checkpoint does not hold {missing.path}, which it must leave: {missing.why}"
        if paths and holds_mask(place):
            return f"its checkpoint does not hold {missing.path}, a masked name that may be of a file it must leave"
    if paths and gaps.missing_count > len(gaps.missing):
        return f"its checkpoint lacks {_paths(gaps.missing_count)}, more than are named"
    return None


def _rebuilds(earlier: Earlier, index: int) -> bool:
    """A step up to here is performed again after every restore, for just that."""
    pairs = zip(earlier.plan.steps[: index + 1], earlier.state.steps, strict=False)
    return any(step.rebuild is Rebuild.RERUN and not record.skipped for step, record in pairs)


def _paths_left(step: Step) -> list[str]:
    return [path for check in step.expect for path in check.files]


def _differs_now(record: StepRecord, found: Found) -> str | None:
    if found.problem is not None:
        return found.problem
    if found.wanted is record.skipped:
        return "its `when` gives another answer now"
    if not record.skipped and found.args_digest != record.beginning.args_digest:
        names = f": {', '.join(found.changed)}" if found.changed else ""
        return f"its arguments are not what they were{names}"
    return None


# Refusals and questions


def _refusal(steps: Sequence[StepReuse], end: int, from_step: str | None) -> tuple[str, str] | None:
    if from_step is None or end == len(steps) or steps[end].step_id == from_step:
        return None
    edge = steps[end]
    words = f"cannot begin at {from_step}: {edge.step_id} comes before it and cannot be reused: {edge.reason}"
    return words, f"Without --from-step it begins at {edge.step_id}."


def _under_way(
    earlier: Earlier, steps: Sequence[Step], digests: Mapping[str, Collection[str] | None]
) -> tuple[str, str] | None:
    """Nobody is asked about what may happen yet: "not done" may be true now, and false when it is acted upon."""
    for step in _unrepeatable(steps):
        deeds = repeated(earlier, step, digests.get(step.id))
        run_id = next((deed.run_id for deed in deeds if deed.under_way), None)
        if run_id is not None:
            linked = f"run {run_id}, which is linked to this one, has begun it"
            words = f"step {step.id} must not be repeated, and {linked}: go on there (recoup show {run_id})"
            return (
                words,
                "When that run has ended or asks about it, a linked one can ask whether it was done.",
            )
    return None


def _unrepeatable(steps: Iterable[Step]) -> Iterator[Step]:
    """A gate asks by itself."""
    return (
        step for step in steps if step.repeat is Repeat.NEVER and not isinstance(step.action, ApproveAction)
    )


def _asks(
    earlier: Earlier,
    plan: Plan,
    steps: Sequence[StepReuse],
    end: int,
    digests: Mapping[str, Collection[str] | None],
) -> tuple[AskedStep, ...]:
    asks, reuses = [], {reuse.step_id: reuse for reuse in steps}
    for step in _unrepeatable(plan.steps[end:]):
        now, reuse = digests.get(step.id), reuses[step.id]
        deeds = tuple(_as_recorded(deed, now) for deed in repeated(earlier, step, now))
        if deeds:
            asks.append(_asked_step(earlier.state, reuse, deeds, _whole_reason(reuse, steps[end])))
    return tuple(asks)


def _as_recorded(deed: Deed, now: Collection[str] | None) -> EarlierDeed:
    """Where the arguments of today are not known yet, those of the deed are kept to be compared."""
    args = deed.args_digest if now is None else None
    return EarlierDeed(run_id=deed.run_id, start=deed.start, args_digest=args, is_known=deed.is_known)


def _asked_step(there: RunState, reuse: StepReuse, deeds: tuple[EarlierDeed, ...], why: str) -> AskedStep:
    record = next((one for one in there.steps if one.step_id == reuse.step_id), None)
    is_whole = record is not None and is_good(record) and record.results.private_outputs == ()
    outputs = dict(record.results.outputs) if record is not None and is_whole else {}
    return AskedStep(
        step_id=reuse.step_id, step_index=reuse.step_index, reason=why, deeds=deeds, outputs=outputs
    )


def _with_questions(steps: Sequence[StepReuse], asks: Sequence[AskedStep]) -> tuple[StepReuse, ...]:
    asked = {one.step_index: f"{deed_words(one)}: a person is asked ({one.reason})" for one in asks}
    return tuple(
        msgspec.structs.replace(step, expected=ASKED, reason=asked[step.step_index])
        if step.step_index in asked
        else step
        for step in steps
    )


def deed_words(asked: AskedStep) -> str:
    """What is known of it, and where."""
    runs = ", ".join(dict.fromkeys(deed.run_id for deed in asked.deeds))
    was = "was done" if any(deed.is_known for deed in asked.deeds) else "may have been done"
    return f"{was} in run {runs} and must not be repeated"


def repeated(
    earlier: Earlier, step: Step, digests: Collection[str] | None, besides: Sequence[EarlierDeed] = ()
) -> list[Deed]:
    """With other arguments it is another deed; where those are not known, here or there, it may be the same.
    `digests`: all under which the same arguments may be recorded. `besides`: deeds that a person is asked about."""
    asked = {(deed.run_id, deed.start) for deed in besides}
    return [
        deed
        for deed in earlier.performed.get(step.id, ())
        if (deed.run_id, deed.start) not in asked
        and (digests is None or deed.args_digest is None or deed.args_digest in digests)
    ]


def is_same_deed(asked: AskedStep, digests: Collection[str]) -> bool:
    """With the arguments that the step has now, that they are known."""
    return any(deed.args_digest is None or deed.args_digest in digests for deed in asked.deeds)


def _whole_reason(reuse: StepReuse, edge: StepReuse) -> str:
    return reuse.reason if reuse is edge else f"{reuse.reason} ({edge.reason})"
