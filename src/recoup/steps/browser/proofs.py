"""What steps have proven of the run's page: kept with the page, and asked again when the run returns to it.

A page with the same address, title and buttons may still say something else: a person approved 100 EUR, and now it says
99,999. So every check that a step passed on the page, and everything that was read from it, must hold once more.

A step that acts may change on purpose what others have proven, and a page may show something else for a moment. So what
does not hold right after a step is doubted, not forgotten, and the next gate settles it. What stood at a gate is
approved: it must hold until the run has acted on it. Decision 77 has the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec

from recoup.checks.registry import asks_page, question_of
from recoup.kernel.canonical import digest
from recoup.kernel.healing import why_another_page
from recoup.kernel.references import TemplateError
from recoup.model.outcome import Looking, PageClaim
from recoup.model.plan import (
    BrowserAction,
    BrowserVerb,
    Step,
)
from recoup.model.run import StepRecord
from recoup.model.target import Fingerprint
from recoup.ports import Pages
from recoup.steps.hooks import RunInHand

PROOFS_KEY = "browser.proofs"
DOCUMENT_KEY = "browser.document"
"""The document before any step did something in it, as a fingerprint."""
GATE_KEY = "browser.gate"
CHANGES_NOTHING = (BrowserVerb.READ, BrowserVerb.WAIT, BrowserVerb.SCREENSHOT)


class Proof(msgspec.Struct, frozen=True):
    """One check of a step that held, by its number; or what a step read, by its digest."""

    step_id: str
    check: int = -1
    read: BrowserAction | None = None
    said: str = ""
    touched: bool = False
    """It held after steps had done something in the document: a document that is just loaded need not show it."""
    traces: tuple[str, ...] = ()
    """These steps had done something in the document by then."""
    looking: Looking | None = None
    """How the target of the read was found, if it was healed."""
    doubted_by: str = ""
    """The first step after which it did not hold, and has not held since."""

    @property
    def is_check(self) -> bool:
        return self.read is None


class Refuted(msgspec.Struct, frozen=True):
    """A proof that does not hold any more, in words, and whose it was."""

    why: str
    step_id: str
    is_check: bool = False


class PageLost(Exception):
    """While it was asked. What it did not answer refutes nothing: the page is restored and asked again."""


class Approved(msgspec.Struct, frozen=True):
    """The page that a gate was reached on."""

    step_id: str
    page: Fingerprint
    proofs: tuple[Proof, ...] = ()


class PageProofs:
    """Of one run. They are in the private store, like the page itself: what was read may be a secret."""

    def __init__(self, run: RunInHand, pages: Pages) -> None:
        self._run = run
        self._pages = pages

    async def keep(
        self,
        step: Step,
        action: BrowserAction,
        outputs: Mapping[str, Any],
        untouched: Fingerprint | None,
        traces: Sequence[str],
        looking: Looking | None = None,
    ) -> None:
        """After the step has passed, before the ledger says so. `untouched`: the document, if no step has done anything
        in it yet; `traces`: the steps that have. `looking`: how a target that was healed was found."""
        standing = [] if action.verb is BrowserVerb.GOTO else await self._after(step, action)
        touched, left = untouched is None, tuple(traces)
        standing += [
            Proof(step.id, number, touched=touched, traces=left)
            for number, check in enumerate(step.expect)
            if asks_page(check)
        ]
        if action.verb is BrowserVerb.READ:
            standing = [proof for proof in standing if not _is_reading(proof, action)]
            read = Proof(step.id, read=action, said=digest(dict(outputs)), touched=touched, traces=left)
            standing.append(msgspec.structs.replace(read, looking=looking))
        self._put(PROOFS_KEY, standing)
        if untouched is not None:
            self._put(DOCUMENT_KEY, untouched)

    async def _after(self, step: Step, action: BrowserAction) -> list[Proof]:
        """Those of earlier steps, with those in doubt that do not hold after this one. What this step and later ones
        proved before counts no more when it is repeated."""
        ids = [one.id for one in self._run.plan.steps]
        earlier = {*ids[: ids.index(step.id)]}
        standing = [proof for proof in self.all() if proof.step_id in earlier]
        changes = action.verb not in CHANGES_NOTHING
        asked = [changes or bool(proof.doubted_by) for proof in standing]
        whys = iter(await self._whys([proof for proof, one in zip(standing, asked, strict=True) if one]))
        return [
            _doubted(proof, (proof.doubted_by or step.id) if one and next(whys) else "")
            for proof, one in zip(standing, asked, strict=True)
        ]

    def _put(self, key: str, value: Any) -> None:
        stored = msgspec.json.encode(value).decode()
        if stored != self._run.secrets.find(key):
            self._run.secrets.put(key, stored)

    async def keep_for_gate(self, step_id: str, page: Fingerprint) -> None:
        """What a person is asked about: the page may be lost and made again before they answer. What is in doubt did
        not hold there."""
        proofs = tuple(proof for proof in self.all() if not proof.doubted_by)
        self._put(GATE_KEY, Approved(step_id, page, proofs))
        await self._run.secrets.settle()

    def at_gate(self, step_id: str) -> Approved | None:
        kept = self._run.secrets.find(GATE_KEY)
        shown = msgspec.json.decode(kept, type=Approved) if kept else None
        return shown if shown is not None and shown.step_id == step_id else None

    def all(self) -> list[Proof]:
        kept = self._run.secrets.find(PROOFS_KEY)
        return msgspec.json.decode(kept, type=list[Proof]) if kept else []

    async def settle(
        self,
        quoted: Collection[str],
        *,
        is_elsewhere: Callable[[Proof], bool],
        is_history: Callable[[Proof], bool],
        may_be_gone: Callable[[Proof], bool],
    ) -> Refuted | None:
        """Before a gate: what was doubted and holds now is proven again; what was changed on purpose is no proof any
        more. Gives back what the gate quotes and the page does not say any more: that must be read again.
        `is_elsewhere`: proven at another address, so nobody waits for it, unless the gate quotes it. `is_history`:
        that, or changed by a step that must not be repeated."""
        standing = self.all()
        asked = [proof for proof in standing if proof.doubted_by or _is_quoted(proof, quoted)]
        left = [proof for proof in asked if not _is_quoted(proof, quoted) and is_elsewhere(proof)]
        here = [proof for proof in asked if proof not in left]
        whys = [*await self._whys(left, wait_s=0), *await self._whys(here, wait_s=self._wait_s)]
        refuted = [(proof, why) for proof, why in zip([*left, *here], whys, strict=True) if why]
        for proof, why in refuted:
            if not _is_quoted(proof, quoted) or is_history(proof):
                continue
            if not may_be_gone(proof) or await self.refuted([proof], may_be_gone=True):
                return _refuted(proof, why)
        gone = [proof for proof, _ in refuted]
        self._put(PROOFS_KEY, [_doubted(proof, "") for proof in standing if proof not in gone])
        return None

    async def refuted(self, proofs: Sequence[Proof], *, may_be_gone: bool = False) -> Refuted | None:
        """The first of these that does not hold on the page, which gets time to show it."""
        whys = await self._whys(proofs, wait_s=self._wait_s, may_be_gone=may_be_gone)
        return next((_refuted(proof, why) for proof, why in zip(proofs, whys, strict=True) if why), None)

    async def refuted_by_copy(self, proofs: Sequence[Proof]) -> Refuted | None:
        """The first of these that a second copy of the document refutes: a page that stayed open may show what was true
        long ago. Only what was proven before steps did something in the document can be asked of a copy; and an address
        that leads somewhere else by now says nothing."""
        kept = self._run.secrets.find(DOCUMENT_KEY)
        if kept is None:
            return None
        loaded = msgspec.json.decode(kept, type=Fingerprint)
        async with self._pages.fresh_copy(self._run.run_id, self._run.policy) as shown:
            if shown is None or why_another_page(loaded, shown):
                return None
            return await self.refuted([proof for proof in proofs if not proof.touched])

    async def is_in_effect(self, record: StepRecord) -> bool:
        """Whether the page shows by itself that the step was done: all that it expects of the page holds, and some of
        it did not before its first attempt."""
        step = self._run.plan.steps[record.index]
        proofs = [Proof(step.id, number) for number, check in enumerate(step.expect) if asks_page(check)]
        looks = [check for check in step.expect if check.asks_world]
        was_missing = any(
            asks_page(check) and before.held is False
            for check, before in zip(looks, record.beginning.prechecks or (), strict=False)
        )
        return bool(proofs) and was_missing and await self.refuted(proofs) is None

    def claim(self, proof: Proof, *, may_be_gone: bool = False) -> PageClaim | None:
        """The check as the page is asked it. None: the plan no longer has it."""
        if proof.read is not None:
            return PageClaim(read=proof.read, said=proof.said, looking=proof.looking, may_be_gone=may_be_gone)
        step = next((one for one in self._run.plan.steps if one.id == proof.step_id), None)
        if step is None or proof.check >= len(step.expect):
            return None
        try:
            check = self._run.expected(step)[proof.check]
        except TemplateError:
            return PageClaim()  # a value that it names is gone: it does not hold
        return PageClaim(question=question_of(check)) if asks_page(check) else None

    @property
    def _wait_s(self) -> float:
        return self._run.policy.page_check_s

    async def _whys(
        self, proofs: Sequence[Proof], *, wait_s: float | None = None, may_be_gone: bool = False
    ) -> list[str]:
        """Why each does not hold; "" if it does, or if nobody can ask it. `wait_s` None: of a page that is lost nothing
        holds; otherwise PageLost is raised."""
        claims = [self.claim(proof, may_be_gone=may_be_gone) for proof in proofs]
        asked = [claim for claim in claims if claim is not None]
        if not asked:
            return [""] * len(proofs)
        answers = await self._pages.refuted(self._run.run_id, asked, wait_s or 0)
        if wait_s is not None and any(answers) and await self._pages.fingerprint(self._run.run_id) is None:
            raise PageLost
        told = iter(answers)
        return [next(told) if claim is not None else "" for claim in claims]


def _doubted(proof: Proof, step_id: str) -> Proof:
    return msgspec.structs.replace(proof, doubted_by=step_id)


def _refuted(proof: Proof, why: str) -> Refuted:
    words = f"has proven does not hold any more: {why}" if proof.is_check else f"has read {why}"
    return Refuted(f"what {proof.step_id} {words}", proof.step_id, proof.is_check)


def _is_quoted(proof: Proof, quoted: Collection[str]) -> bool:
    return not proof.is_check and proof.step_id in quoted


def _is_reading(proof: Proof, action: BrowserAction) -> bool:
    """A later reading of the same thing: the earlier one is history."""
    one = proof.read
    return one is not None and (one.target, one.attribute, one.table) == (
        action.target,
        action.attribute,
        action.table,
    )
