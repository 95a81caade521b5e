"""The life of a run's page: open, kept while the run waits, lost, restored, proven, or a question for a person.

A page lives in its browser, and the browser in the process that drives the run. Whenever a run returns to a page (after
a gate, a pause, a killed driver, with reused steps), everything that was proven there is asked again before a step acts
on it. What opening the address does not restore is performed again where that is safe. A person is asked once, about
all steps that must not be repeated. docs/howto/restoring-pages.md has the state diagram, decision 61 the reasons.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import msgspec

from recoup.kernel.healing import (
    goes_somewhere,
    needs_tabs,
    page_made_by,
    page_made_since_sign_out,
    turns,
    why_another_page,
)
from recoup.kernel.page_forecast import why_outdated
from recoup.kernel.position import waits_for_a_person
from recoup.model.outcome import Looking, PageClaim, Restored, Seen
from recoup.model.plan import Action, ApproveAction, BrowserAction, Repeat, Step
from recoup.model.run import RunState, StepRecord
from recoup.model.target import Fingerprint
from recoup.ports import Pages
from recoup.steps.browser.kept_page import LOADED_KEY, PAGE_KEY, kept_page
from recoup.steps.browser.proofs import CHANGES_NOTHING, Approved, PageLost, PageProofs, Proof, Refuted
from recoup.steps.hooks import RunInHand

REFUSALS_MAX = 3
"""Attempts of one step that cost nothing because what was approved did not hold in the moment of the action."""
LOOKS_MAX = 3
"""How often a page that is lost while it is asked is restored before the attempt fails."""


class Replay(msgspec.Struct, frozen=True):
    """These finished steps are performed again to restore the page; they stay done."""

    reason: str
    steps: tuple[int, ...]


class Question(msgspec.Struct, frozen=True):
    """Only these finished steps can restore the page, and they must not be repeated: a person decides."""

    reason: str
    steps: tuple[int, ...]


class Changed(msgspec.Struct, frozen=True):
    """The page is there and does not say what this step proved: nothing from this step on is good any more, an approval
    included."""

    reason: str
    begins: int


class Unreachable(msgspec.Struct, frozen=True):
    """The page cannot be opened now: the attempt fails before anything is done, and is retried like any other."""

    reason: str


PageProblem = Replay | Question | Changed | Unreachable


class Since(msgspec.Struct, frozen=True, kw_only=True):
    """What steps in the browser have done since then."""

    has_acted: bool
    has_acted_once: bool
    """One of them must not be repeated."""
    has_turned: bool
    """To another tab."""
    is_elsewhere: bool
    """The page is at another address now."""

    @property
    def is_crossed(self) -> bool:
        """It is another page, or was changed by a step that was to do so."""
        return self.has_acted_once or self.has_turned or self.is_elsewhere


class RunPage:
    """One run's page, as its driver sees it."""

    def __init__(self, run: RunInHand, pages: Pages) -> None:
        self._run = run
        self._pages = pages
        self._proofs = PageProofs(run, pages)
        self._action: BrowserAction | None = None
        self._looking: Looking | None = None
        self._refusals: dict[str, int] = {}
        self._to_prove = False
        """The page was restored or kept: it is not known yet whether it is the same."""
        self._is_kept = False
        """It stayed open while the run waited, so it may show what was true then."""
        self._has_restored = False
        self._has_replayed_all = False
        """Everything since the last `goto` was performed again since the page was last proven."""
        self._is_made_again = False
        """What is open now was made by performing the steps again that made the page, not by opening what was kept."""
        self._sent_back: set[str] = set()
        """Gates that were about to quote what the page does not say any more: that was read again, once."""
        self._missing: tuple[str, ...] = ()
        """The steps whose traces a page that was loaded again lacks."""
        self._has_lost_tabs = False
        """A tab that a later step turns to was loaded again, and lacks what steps did in it."""

    # While a driver has the run

    async def take_up(self, epoch: int) -> None:
        """Continue with the browser that this process kept while the run waited, if nobody has driven the run since."""
        self._is_kept = await self._pages.take_up(self._run.run_id, epoch, self._run.lifeline)
        self._to_prove = self._is_kept

    def begin(self, action: Action, looking: Looking | None) -> None:
        """An attempt, with the action as it is performed, and how its target may be found."""
        self._action = action if isinstance(action, BrowserAction) else None
        self._looking = looking

    def is_to_ask_again(self, step: Step) -> bool:
        """What was approved did not hold in the moment of the action: it is looked at once more before the step is
        performed. Where it holds then and not in the moment of the action, again and again, the attempt fails."""
        if self._refusals.get(step.id, 0) >= REFUSALS_MAX:
            return False
        self._refusals[step.id] = self._refusals.get(step.id, 0) + 1
        return True

    async def keep(self, step: Step, outputs: Mapping[str, Any], seen: Seen) -> None:
        """Before the ledger says that the step is done: what is needed to return to this page."""
        kept = await self._pages.keep(self._run.run_id)
        if kept is None or self._action is None:
            return
        touched_by = await self._pages.touched_by(self._run.run_id)
        self._keep_loaded_by(step, self._action, touched_by)
        self._run.secrets.put(PAGE_KEY, base64.b64encode(kept).decode())
        untouched = None if touched_by else seen.page
        is_healed = seen.resolution is not None and seen.resolution.healed
        healed_by = self._looking if is_healed else None
        await self._proofs.keep(step, self._action, outputs, untouched, touched_by, healed_by)
        await self._run.secrets.settle()

    def _keep_loaded_by(self, step: Step, action: BrowserAction, touched_by: Collection[str]) -> None:
        """This step, if it acted and left no trace in the document. Otherwise the document was there before it: still
        the same one, or another, if traces of earlier steps are gone."""
        kept = kept_page(self._pages, self._run.secrets)
        steps = self._run.plan.steps
        before = [one.id for one in steps[: steps.index(step)] if isinstance(one.action, BrowserAction)]
        is_same = (
            kept is not None and kept.loaded_by in before and {*(kept.touched_by or ())} <= {*touched_by}
        )
        if not before or (action.verb not in CHANGES_NOTHING and step.id not in touched_by):
            self._run.secrets.put(LOADED_KEY, step.id)
        elif not is_same:
            self._run.secrets.put(LOADED_KEY, before[-1])

    async def keep_for_gate(self, step: Step, record: StepRecord) -> None:
        """An approval counts for the page that the steps before have left."""
        self._sent_back.discard(step.id)
        before = _pages_before(record, self._run.state)
        if before:
            await self._proofs.keep_for_gate(step.id, before[-1])

    async def release(self, *, keeps: bool) -> None:
        """The driver is done with the run. `keeps`: this process stays, and may drive the run again."""
        state, policy = self._run.state, self._run.policy
        # Otherwise the next driver restores it from the beginning: what steps did in a restored page may be missing.
        is_whole = not state.progress.rebuild_pending and (self._is_kept or not self._to_prove)
        if keeps and is_whole and waits_for_a_person(state) and policy.waiting_browser_seconds > 0:
            await self._pages.wait(self._run.run_id, state.driver.epoch, policy)
        else:
            await self._pages.leave(self._run.run_id)

    async def seen_now(self) -> Seen | None:
        page = await self._pages.fingerprint(self._run.run_id)
        return None if page is None else Seen(page=page)

    async def has_page(self) -> bool:
        return await self._pages.fingerprint(self._run.run_id) is not None

    async def leave(self, *, made_again: bool = False) -> None:
        """Close the browser. The next step that needs its page restores and proves it. `made_again`: all steps that
        made the page are performed again first."""
        await self._pages.leave(self._run.run_id)
        self._to_prove, self._is_kept, self._is_made_again = True, False, made_again

    async def go_back(self, index: int) -> None:
        """Before good steps from this one on count as not done: what they did in the open page must not be taken for
        what the steps before have left."""
        if any(record.results.page is not None for record in self._run.state.steps[index:]):
            await self.leave()

    async def bring_sign_in(self) -> None:
        """Before a `goto` in a new browser: restore the cookies and storage, so that the run stays signed in."""
        kept = self._run.secrets.find(PAGE_KEY)
        if kept is not None:
            await self._pages.remember(self._run.run_id, base64.b64decode(kept))

    async def come_back(self, step: Step, record: StepRecord) -> None:
        """Restore the page before this step so that checks can look at it. A step that acts on it proves it first."""
        if goes_somewhere(step):
            return
        if _pages_before(record, self._run.state) and not await self.has_page():
            await self._restored(record)

    # Before a step acts on the page, or a person is asked about it

    def claims(self, step: Step, record: StepRecord) -> tuple[PageClaim, ...]:
        """What must hold right before this step acts: what was approved."""
        is_first = record.open is None or record.open.phase == "main"
        if not is_first or step.repeat is Repeat.SAFE:
            return ()
        _, since, proofs = self._approved(record, self._run.state)
        gone = since is not None and since.is_crossed
        claims = [self._proofs.claim(proof, may_be_gone=gone) for proof in proofs]
        return tuple([claim for claim in claims if claim is not None])

    async def _other_values(self, step: Step, record: StepRecord, state: RunState) -> PageProblem | None:
        """The page is there. A gate must not quote what it does not say any more, and a step that must not be repeated
        must not act on what was not approved."""
        if not await self.has_page():
            return None
        if isinstance(step.action, ApproveAction):
            return await self._quoted_otherwise(step, record, state)
        gate, since, proofs = self._approved(record, state)
        if step.repeat is Repeat.SAFE or gate is None or since is None or not proofs:
            return None
        refuted = await self._proofs.refuted(proofs, may_be_gone=since.is_crossed)
        if refuted is None:
            return None
        # What a safe step has changed on purpose is not to be proven again: the person is asked once more, without it.
        is_on_purpose = refuted.is_check and since.has_acted
        return Changed(refuted.why, self._index_of(gate.step_id if is_on_purpose else refuted.step_id))

    async def _quoted_otherwise(self, step: Step, record: StepRecord, state: RunState) -> PageProblem | None:
        """Read again once; what changes all the time is then shown as it was last read."""
        if step.id in self._sent_back or state.page.as_is:
            return None

        def since(proof: Proof) -> Since:
            return self._since(self._index_of(proof.step_id), record, state)

        def is_elsewhere(proof: Proof) -> bool:
            return since(proof).is_elsewhere

        def is_history(proof: Proof) -> bool:
            doubted_by = self._run.plan.steps[self._index_of(proof.doubted_by)] if proof.doubted_by else None
            by_once = doubted_by is not None and doubted_by.repeat is Repeat.NEVER
            return by_once or is_elsewhere(proof)

        refuted = await self._proofs.settle(
            self._quoted(record, state),
            is_elsewhere=is_elsewhere,
            is_history=is_history,
            may_be_gone=lambda proof: since(proof).has_acted_once,
        )
        if refuted is None:
            return None
        self._sent_back.add(step.id)
        return Changed(refuted.why, self._index_of(refuted.step_id))

    def _quoted(self, record: StepRecord, state: RunState) -> frozenset[str]:
        """The steps whose outputs the gates since the last `goto` show, this one included."""
        found: set[str] = set()
        for index in range(record.index, -1, -1):
            step = self._run.plan.steps[index]
            if goes_somewhere(step) and not state.steps[index].skipped:
                break
            if isinstance(step.action, ApproveAction):
                found |= self._run.steps_behind(step)
        return frozenset(found)

    def _since(self, begins: int, record: StepRecord, state: RunState) -> Since:
        """What steps have done in the browser between that step and this one."""
        between = zip(self._run.plan.steps, state.steps, strict=True)
        acting = [
            step for step, one in [*between][begins + 1 : record.index] if _acts(step) and not one.skipped
        ]
        page = state.steps[begins].results.page or next(
            reversed(_pages_before(state.steps[begins], state)), None
        )
        return Since(
            has_acted=bool(acting),
            has_acted_once=any(step.repeat is Repeat.NEVER for step in acting),
            has_turned=any(turns(step) for step in acting),
            is_elsewhere=page is not None and _place(page) != _place(_pages_before(record, state)[-1]),
        )

    def _approved(
        self, record: StepRecord, state: RunState
    ) -> tuple[Approved | None, Since | None, list[Proof]]:
        """What was shown at the last gate and must still hold. Behind a step that must not be repeated, at another
        address and in another tab it is what the gate quotes; behind such a step at another address it is nothing."""
        gate = self._last_gate(record, state)
        if gate is None:
            return None, None, []
        begins = self._index_of(gate.step_id)
        since = self._since(begins, record, state)
        proofs = [proof for proof in gate.proofs if self._is_due(proof, record, state)]
        if since.has_acted_once and since.is_elsewhere:
            proofs = []
        elif since.is_crossed:
            quoted = self._quoted(state.steps[begins], state)
            proofs = [proof for proof in proofs if not proof.is_check and proof.step_id in quoted]
        return gate, since, proofs

    def _last_gate(self, record: StepRecord, state: RunState) -> Approved | None:
        """Since the last `goto`, if a page was shown there."""
        for step, one in zip(
            reversed(self._run.plan.steps[: record.index]), reversed(state.steps[: record.index]), strict=True
        ):
            if one.skipped:
                continue
            if goes_somewhere(step):
                return None
            if isinstance(step.action, ApproveAction):
                return self._proofs.at_gate(step.id)
        return None

    def _is_due(self, proof: Proof, record: StepRecord, state: RunState) -> bool:
        """Not one from a document in which later steps had done something, nor one that a person has done without."""
        if state.page.as_is and proof.touched:
            return False
        earlier = {one.step_id for one in state.steps[: record.index]}
        return earlier.issuperset(proof.traces)

    async def problem(self, step: Step, record: StepRecord) -> PageProblem | None:
        """Restores the page before this step if this driver has none, and proves it. The step acts in the browser or is
        a gate. None: the page is the one that the steps before have left, and says what was approved; or the step needs
        none."""
        state = self._run.state
        for _ in range(LOOKS_MAX):
            with suppress(PageLost):
                problem = await self._other_page(step, record, state)
                return problem or await self._other_values(step, record, state)
        return Unreachable("the page was lost each time it was looked at")

    async def _other_page(self, step: Step, record: StepRecord, state: RunState) -> PageProblem | None:
        skipped = {one.index for one in state.steps if one.skipped}
        made_by = page_made_by(self._run.plan.steps, record.index, skipped)
        if not made_by or not _pages_before(record, state):
            return None
        last = _pages_before(record, state)[-1]
        found, gate = await self._pages.fingerprint(self._run.run_id), self._gate_before(record)
        if found is not None and not self._to_prove and gate is None:
            return None
        tabs_needed = needs_tabs(self._run.plan.steps, record.index)
        if goes_somewhere(step) and (found is not None or not tabs_needed):
            self._missing, self._to_prove = (), False
            await self.bring_sign_in()
            return None
        if found is not None and self._is_of_no_use(found, last, state):
            await self.leave()
            found = None
        outdated = "" if state.page.as_is else self._why_outdated(record, found)
        if outdated:
            await self.leave(made_again=True)
            return await self._made_again(outdated, made_by, state)
        if found is None:
            restored = await self._restored(record)
            if restored.unreachable:
                # A person may be asked all the same: the step that acts after the gate proves the page.
                is_gate = isinstance(step.action, ApproveAction)
                return None if is_gate else Unreachable(restored.why)
            if restored.page is None:
                return await self._made_again(f"its page is gone: {restored.why}", made_by, state)
            found = restored.page
            if self._has_lost_tabs and not state.page.as_is:
                return await self._made_again("what was done in its other tabs is lost", made_by, state)
            if goes_somewhere(step):
                self._missing, self._to_prove = (), False
                return None
            if found.url != last.url and not state.page.as_is:
                return await self._led_elsewhere("the page is at another address", found, record, state)
        return await self._missing_steps(record, made_by, state) or await self._proven(
            record, state, made_by, found, gate
        )

    def _is_of_no_use(self, found: Fingerprint, last: Fingerprint, state: RunState) -> bool:
        """A page that stayed open and shows something else, such as an error, is opened again; so is one on which steps
        are to be performed again, in their order."""
        if state.page.repeats and not self._has_restored:
            return True
        return self._is_kept and not state.page.as_is and bool(why_another_page(last, found))

    def _why_outdated(self, record: StepRecord, found: Fingerprint | None) -> str:
        """In words, if the kept page is another document than the steps before this one have left."""
        if found is not None and self._is_made_again:
            return ""
        kept = kept_page(self._pages, self._run.secrets)
        return why_outdated(kept, self._run.plan.steps[: record.index]) if kept is not None else ""

    async def _restored(self, record: StepRecord) -> Restored:
        self._has_restored, self._is_kept, self._is_made_again = True, False, False
        kept = self._run.secrets.find(PAGE_KEY)
        if kept is None:
            return Restored(None, "nothing was kept of it")
        about = (self._run.run_id, base64.b64decode(kept), self._run.policy, self._run.lifeline)
        tabs_needed = needs_tabs(self._run.plan.steps, record.index)
        restored = await self._pages.restore(*about, with_tabs=tabs_needed)
        self._missing, self._to_prove = restored.missing, restored.page is not None
        self._has_lost_tabs = bool(restored.missing_in_other_tabs)
        return restored

    async def _missing_steps(
        self, record: StepRecord, made_by: Sequence[int], state: RunState
    ) -> PageProblem | None:
        """What steps before this one did in the document is lost with it, unless the page shows it again by itself."""
        missing, self._missing = self._missing, ()
        indices = [one.index for one in state.steps[: record.index] if one.step_id in missing]
        why = "its page was loaded again, and what was done in it is lost"
        if not {*missing} <= {one.step_id for one in state.steps}:
            return await self._made_again(why, made_by, state)  # steps of another plan
        once = [index for index in indices if not self._may_repeat(index, state)]
        unproven = [index for index in once if not await self._proofs.is_in_effect(state.steps[index])]
        if unproven and not state.page.as_is:
            return Question(why, tuple(unproven))
        again = tuple(index for index in indices if index not in once)
        return Replay(why, again) if again else None

    async def _led_elsewhere(
        self, why: str, found: Fingerprint, record: StepRecord, state: RunState
    ) -> PageProblem:
        """The address shows another page than the steps before have left."""
        return await self._made_again(why, self._made_by(found, record, state), state)

    def _made_by(self, found: Fingerprint, record: StepRecord, state: RunState) -> list[int]:
        """With the sign-in, if the address leads back to it."""
        skipped = {one.index for one in state.steps if one.skipped}
        left = {
            one.index: one.results.page for one in state.steps[: record.index] if one.results.page is not None
        }
        return page_made_since_sign_out(self._run.plan.steps, record.index, left, found, skipped)

    async def _made_again(self, why: str, made_by: Sequence[int], state: RunState) -> PageProblem:
        """By performing again everything since the last `goto`, once."""
        once = self._once(made_by, state)
        if once:
            return Question(why, once)
        if self._has_replayed_all:
            return Changed(why, made_by[0])
        if needs_tabs(self._run.plan.steps, made_by[0]):  # these steps open them, and count from one
            await self.leave(made_again=True)
        self._has_replayed_all = self._to_prove = True
        self._missing, self._has_lost_tabs = (), False  # these steps leave their traces again
        return Replay(why, tuple(made_by))

    def _once(self, made_by: Sequence[int], state: RunState) -> tuple[int, ...]:
        return tuple(index for index in made_by if not self._may_repeat(index, state))

    def _may_repeat(self, index: int, state: RunState) -> bool:
        step = self._run.plan.steps[index]
        return step.repeat is Repeat.SAFE or step.id in state.page.repeats

    async def _proven(
        self,
        record: StepRecord,
        state: RunState,
        made_by: Sequence[int],
        found: Fingerprint,
        gate: Approved | None,
    ) -> PageProblem | None:
        other = why_another_page(_pages_before(record, state)[-1], found)
        if other and not state.page.as_is:
            if len(made_by) > 1 and not self._has_replayed_all:  # the address alone does not lead there
                return await self._led_elsewhere(other, found, record, state)
            return Changed(other, made_by[0])
        refuted = await self._refuted(record, state, found, gate)
        if refuted is not None:
            once = self._once(self._made_by(found, record, state), state) if state.page.as_is else ()
            if once:  # the answer was to use this page
                return Question(f"the page cannot be used as it is: {refuted.why}", once)
            return Changed(refuted.why, self._index_of(refuted.step_id))
        self._to_prove = self._is_kept = self._has_replayed_all = False
        return None

    async def _refuted(
        self, record: StepRecord, state: RunState, found: Fingerprint, gate: Approved | None
    ) -> Refuted | None:
        """What was proven before this step, or shown at the gate before it, and does not hold."""
        earlier = {one.step_id for one in state.steps[: record.index]}
        proofs = [proof for proof in self._proofs.all() if proof.step_id in earlier and not proof.doubted_by]
        if gate is not None:
            if not state.page.as_is and (other := why_another_page(gate.page, found)):
                return Refuted(other, gate.step_id)
            proofs += [proof for proof in gate.proofs if proof not in proofs]
        proofs = [proof for proof in proofs if self._is_due(proof, record, state)]
        refuted = await self._proofs.refuted(proofs)
        if refuted is None and self._is_kept:
            refuted = await self._proofs.refuted_by_copy(proofs)
            if refuted is not None:
                await self.leave()  # it shows what was true before the run waited
        return refuted

    def _gate_before(self, record: StepRecord) -> Approved | None:
        """The last gate since the step in the browser before this one, if a page was shown there."""
        for step in reversed(self._run.plan.steps[: record.index]):
            if isinstance(step.action, BrowserAction):
                return None
            if isinstance(step.action, ApproveAction):
                return self._proofs.at_gate(step.id)
        return None

    def _index_of(self, step_id: str) -> int:
        return next(index for index, step in enumerate(self._run.plan.steps) if step.id == step_id)


def _acts(step: Step) -> bool:
    return isinstance(step.action, BrowserAction) and step.action.verb not in CHANGES_NOTHING


def _place(page: Fingerprint) -> tuple[str, str]:
    """Without query and fragment: pages change these while something is typed."""
    parts = urlsplit(page.url)
    return parts.netloc, parts.path


def _pages_before(record: StepRecord, state: RunState) -> list[Fingerprint]:
    return [one.results.page for one in state.steps[: record.index] if one.results.page is not None]
