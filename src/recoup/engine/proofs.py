"""What steps have proven of the run's page: kept with the page, and asked again when the run returns to it.

A page with the same address, title and buttons may still say something else: a person approved 100 EUR, and now it says
99,999. So every check that a step passed on the page, and everything that was read from it, must hold once more. What a
later step has changed on purpose is no proof any more: after each step that acts, those that do not hold are dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from recoup.kernel.canonical import digest
from recoup.kernel.healing import why_another_page
from recoup.model.outcome import Scene
from recoup.model.plan import (
    WORLD_CHECKS,
    BrowserAction,
    BrowserVerb,
    PageTextCheck,
    Step,
    TargetCheck,
    TitleCheck,
    UrlCheck,
    ValueCheck,
)
from recoup.model.run import StepRecord
from recoup.model.target import Fingerprint
from recoup.ports import Lifeline, Pages

if TYPE_CHECKING:
    from recoup.engine.world import Job, World

PROOFS_KEY = "browser.proofs"
DOCUMENT_KEY = "browser.document"
"""The document before any step did something in it, as a fingerprint."""
GATE_KEY = "browser.gate"
PROOFS_MAX = 20
"""The latest ones; each is asked again after every step that acts on the page."""
_LASTING = (UrlCheck, TitleCheck, PageTextCheck, TargetCheck, ValueCheck)
CHANGES_NOTHING = (BrowserVerb.READ, BrowserVerb.WAIT, BrowserVerb.SCREENSHOT)


class Proof(msgspec.Struct, frozen=True):
    """One check of a step that held, by its number; or what a step read, by its digest."""

    step_id: str
    check: int = -1
    read: BrowserAction | None = None
    said: str = ""
    touched: bool = False
    """It held after steps had done something in the document: a document that is just loaded need not show it."""


class Refuted(msgspec.Struct, frozen=True):
    """A proof that does not hold any more, in words, and whose it was."""

    why: str
    step_id: str


class Approved(msgspec.Struct, frozen=True):
    """The page that a gate was reached on."""

    step_id: str
    page: Fingerprint
    proofs: tuple[Proof, ...] = ()


class PageProofs:
    """Of one run. They are in the private store, like the page itself: what was read may be a secret."""

    def __init__(self, world: World, job: Job, lifeline: Lifeline) -> None:
        self._world = world
        self._job = job
        self._lifeline = lifeline

    async def keep(
        self, step: Step, action: BrowserAction, outputs: Mapping[str, Any], untouched: Fingerprint | None
    ) -> None:
        """After the step has passed, before the ledger says so. `untouched`: the document, if no step has done anything
        in it yet."""
        standing = [] if action.verb is BrowserVerb.GOTO else self._before(step)
        if action.verb not in CHANGES_NOTHING:
            standing = [proof for proof in standing if not await self._refuted(proof, waits=False)]
        touched = untouched is None
        standing += [
            Proof(step.id, number, touched=touched)
            for number, check in enumerate(step.expect)
            if isinstance(check, _LASTING)
        ]
        if action.verb is BrowserVerb.READ:
            standing.append(Proof(step.id, read=action, said=digest(dict(outputs)), touched=touched))
        self._put(PROOFS_KEY, standing[-PROOFS_MAX:])
        if untouched is not None:
            self._put(DOCUMENT_KEY, untouched)

    def _before(self, step: Step) -> list[Proof]:
        """Those of earlier steps: what this step and later ones proved before counts no more when it is repeated."""
        ids = [one.id for one in self._job.plan.steps]
        earlier = set(ids[: ids.index(step.id)])
        return [proof for proof in self.all() if proof.step_id in earlier]

    def _put(self, key: str, value: Any) -> None:
        stored = msgspec.json.encode(value).decode()
        if stored != self._job.secrets.find(key):
            self._job.secrets.put(key, stored)

    async def keep_for_gate(self, step_id: str, page: Fingerprint) -> None:
        """What a person is asked about: the page may be lost and made again before they answer."""
        self._put(GATE_KEY, Approved(step_id, page, tuple(self.all())))
        await self._job.secrets.settle()

    def at_gate(self, step_id: str) -> Approved | None:
        kept = self._job.secrets.find(GATE_KEY)
        shown = msgspec.json.decode(kept, type=Approved) if kept else None
        return shown if shown is not None and shown.step_id == step_id else None

    def all(self) -> list[Proof]:
        kept = self._job.secrets.find(PROOFS_KEY)
        return msgspec.json.decode(kept, type=list[Proof]) if kept else []

    async def refuted(self, proofs: Sequence[Proof]) -> Refuted | None:
        """The first of these that does not hold on the page."""
        for proof in proofs:
            why = await self._refuted(proof, waits=True)
            if why:
                return Refuted(why, proof.step_id)
        return None

    async def refuted_by_copy(self, proofs: Sequence[Proof]) -> Refuted | None:
        """The first of these that a second copy of the document refutes: a page that stayed open may show what was true
        long ago. Only what was proven before steps did something in the document can be asked of a copy; and an address
        that leads somewhere else by now says nothing."""
        pages, kept = self._world.pages, self._job.secrets.find(DOCUMENT_KEY)
        if pages is None or kept is None:
            return None
        loaded = msgspec.json.decode(kept, type=Fingerprint)
        async with pages.fresh_copy(self._job.run_id, self._job.policy) as shown:
            if shown is None or why_another_page(loaded, shown):
                return None
            return await self.refuted([proof for proof in proofs if not proof.touched])

    async def is_in_effect(self, record: StepRecord) -> bool:
        """Whether the page shows by itself that the step was done: all that it expects of the page holds, and some of
        it did not before its first attempt."""
        step = self._job.plan.steps[record.index]
        proofs = [
            Proof(step.id, number) for number, one in enumerate(step.expect) if isinstance(one, _LASTING)
        ]
        looks = [check for check in step.expect if isinstance(check, WORLD_CHECKS)]
        was_missing = any(
            isinstance(check, _LASTING) and before.held is False
            for check, before in zip(looks, record.prechecks or (), strict=False)
        )
        return bool(proofs) and was_missing and await self.refuted(proofs) is None

    async def _refuted(self, proof: Proof, *, waits: bool) -> str:
        """`waits`: for a page that was just loaded."""
        step = next((one for one in self._job.plan.steps if one.id == proof.step_id), None)
        if step is None or self._world.pages is None:
            return ""
        if proof.read is not None:
            return await self._reads_otherwise(self._world.pages, proof, proof.read, waits=waits)
        if proof.check >= len(step.expect):
            return ""
        policy = self._job.policy
        scene = Scene(
            run_id=self._job.run_id,
            cwd=self._job.plan.folder,
            env={},
            policy=policy,
            check_timeout_s=policy.page_check_s,
            waits=waits,
        )
        checks = step.expect[proof.check : proof.check + 1]
        (result,) = (
            await self._world.inspector.examine(checks, scene, self._lifeline, asyncio.Event())
        ).results
        return "" if result.held else f"what {step.id} has proven does not hold any more: {result.detail}"

    async def _reads_otherwise(
        self, pages: Pages, proof: Proof, action: BrowserAction, *, waits: bool
    ) -> str:
        run_id, policy = self._job.run_id, self._job.policy
        said = await pages.read_again(run_id, action, policy, self._lifeline, waits=waits)
        if said is not None and digest(said) == proof.said:
            return ""
        what = "says something else now" if said is not None else "cannot be read any more"
        return f"what {proof.step_id} has read {what}"
