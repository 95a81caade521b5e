"""A browser without a browser: pages that are values, found exactly or by what the test says."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from recoup.kernel.canonical import digest
from recoup.kernel.memory import FROM_LESSON, FROM_MEMORY, identity
from recoup.model.failure import FailureKind
from recoup.model.ids import ProcessIdentity
from recoup.model.memory import Screen
from recoup.model.outcome import (
    Looking,
    Order,
    Outcome,
    PageClaim,
    PageQuestion,
    PageSight,
    Restored,
    Rewritten,
    Scene,
    Seen,
)
from recoup.model.plan import BrowserAction, BrowserVerb
from recoup.model.policy import Policy
from recoup.model.target import (
    Box,
    Element,
    Fingerprint,
    Floors,
    HealMode,
    Resolution,
    Score,
    Target,
    target_words,
)
from recoup.ports import Hooks, Lifeline
from recoup.runtimes.browser.matching import Sketch
from recoup.targets.profiles import profile

_KEEPER = ProcessIdentity("scripted", "boot", 1, 1)


class ScriptedPage(msgspec.Struct, frozen=True):
    title: str
    elements: tuple[Element, ...] = ()
    text: str = ""


class Guess(msgspec.Struct, frozen=True):
    """What a resolver would find for a target that is not there as it was written."""

    name: str
    """Of the element."""
    confidence: float
    from_level: int = 0
    led_by: str = ""
    """The identity of what was learned that leads to it; "" where the model finds it by itself."""


@dataclass
class ScriptedSite:
    """Pages by their addresses, and what a click on an element (by its name) leads to: another address, or anything."""

    pages: dict[str, ScriptedPage]
    clicks: Mapping[str, str | Callable[[], None]] = field(default_factory=dict)


class ScriptedBrowser:
    """A runtime and pages, for one site. `guesses` by the name that a target is written with; `sketch` says what a
    screen is known by."""

    inline = False

    def __init__(
        self, site: ScriptedSite, guesses: Mapping[str, Guess] | None = None, sketch: Sketch | None = None
    ) -> None:
        self.site = site
        self.viewport = (1280.0, 720.0)
        self._sketch = sketch
        self.guesses = dict(guesses or {})
        self.done: list[tuple[str, str]] = []
        """Verb and name of the element, or address, of all that was done."""
        self.looked: list[Looking] = []
        self.took_ms: int | None = None
        """How long targets take to appear."""
        self.rewrites: dict[str, Rewritten] = {}
        """How values are typed, by the name of the field."""
        self.fails: list[Outcome] = []
        """What the next attempts come to, instead of being performed."""
        self._at: dict[str, str] = {}
        self._touched: dict[str, list[str]] = {}
        """The steps that did something in the open document, by run."""
        self._waiting: dict[str, int] = {}
        self._values: dict[tuple[str, str], str] = {}

    async def perform(self, order: Order, hooks: Hooks) -> Outcome:
        await hooks.launched(_KEEPER)
        action = order.action
        assert isinstance(action, BrowserAction)
        if hooks.stop.is_set():
            return Outcome(interrupted=True)
        if order.looking is not None:
            self.looked.append(order.looking)
        if self.fails:
            return self.fails.pop(0)
        if action.verb is BrowserVerb.GOTO:
            return self._gone_to(order.run_id, action.value or "")
        if action.target is None or order.looking is None:
            return Outcome(seen=self._seen(order.run_id))
        return self._acted(order, action, action.target, order.looking)

    async def examine(self, run_id: str, question: PageQuestion, scene: Scene) -> tuple[bool | None, str]:
        del scene
        return self._answer(run_id, question)

    def _answer(self, run_id: str, question: PageQuestion) -> tuple[bool | None, str]:
        page = self._page(run_id)
        if page is None:
            return None, "there is no page"
        if question.responses or question.difference:
            return None, "this page cannot tell"
        return question.answer(self._sight(run_id, page, question.target))

    def _sight(self, run_id: str, page: ScriptedPage, target: Target | None) -> PageSight:
        value = self._values.get((run_id, (target.name if target else None) or ""), "")
        return PageSight(
            url=self._at[run_id],
            title=page.title,
            texts=(page.text,),
            elements=_matching(page, target) if target else (),
            field={"holds": value, "checked": None},
        )

    async def fingerprint(self, run_id: str) -> Fingerprint | None:
        return self._fingerprint(run_id)

    async def keep(self, run_id: str) -> bytes | None:
        if run_id not in self._at:
            return None
        return json.dumps([self._at[run_id], self._touched.get(run_id, [])]).encode()

    def touched_in(self, kept: bytes) -> tuple[str, ...] | None:
        return tuple(json.loads(kept)[1])

    def touched_in_other_tabs(self, kept: bytes) -> tuple[str, ...]:
        del kept
        return ()

    async def restore(
        self, run_id: str, kept: bytes, policy: Policy, lifeline: Lifeline, *, with_tabs: bool = False
    ) -> Restored:
        del policy, lifeline, with_tabs
        url, touched_by = json.loads(kept)
        if url not in self.site.pages:
            return Restored(None, "it could not be opened again")
        self._load(run_id, url)
        self.done.append(("restore", url))
        return Restored(self._fingerprint(run_id), missing=tuple(touched_by))

    async def refuted(self, run_id: str, claims: Sequence[PageClaim], wait_s: float = 0) -> Sequence[str]:
        del wait_s
        return [await self._refuted(run_id, claim) for claim in claims]

    async def _refuted(self, run_id: str, claim: PageClaim) -> str:
        if claim.question is not None:
            held, words = self._answer(run_id, claim.question)
            return "" if held else words
        action = claim.read
        if run_id not in self._at or action is None or action.target is None:
            return "there is no page"
        chosen = self._resolved(run_id, action.target, claim.looking or Looking(floors=Floors(1, 0))).chosen
        if chosen is None:
            return "" if claim.may_be_gone else "cannot be read any more"
        said = digest({action.into or "text": chosen.element.text})
        return "" if said == claim.said else "says something else now"

    async def remember(self, run_id: str, kept: bytes) -> None:
        if run_id not in self._at:
            self.done.append(("remember", json.loads(kept)[0]))

    async def touched_by(self, run_id: str) -> tuple[str, ...]:
        return tuple(self._touched.get(run_id, ()))

    @contextlib.asynccontextmanager
    async def fresh_copy(self, run_id: str, policy: Policy) -> AsyncIterator[Fingerprint | None]:
        del policy
        yield self._fingerprint(run_id)

    async def leave(self, run_id: str) -> None:
        self._waiting.pop(run_id, None)
        self._at.pop(run_id, None)
        self._touched.pop(run_id, None)

    async def wait(self, run_id: str, epoch: int, policy: Policy) -> None:
        if run_id in self._at:
            self._waiting[run_id] = epoch
        for crowded in [*self._waiting][: max(0, len(self._waiting) - policy.waiting_browsers_max)]:
            await self.leave(crowded)

    async def take_up(self, run_id: str, epoch: int, lifeline: Lifeline) -> bool:
        del lifeline
        stayed = self._waiting.pop(run_id, None) == epoch
        if not stayed:
            await self.leave(run_id)
        return stayed

    def waiting(self) -> Mapping[str, int]:
        return dict(self._waiting)

    def _gone_to(self, run_id: str, url: str) -> Outcome:
        if url not in self.site.pages:
            return Outcome(kind=FailureKind.NAVIGATION_FAILED, detail=f"{url}: nobody answers")
        self.done.append(("goto", url))
        self._load(run_id, url)
        return Outcome(seen=self._seen(run_id))

    def _acted(self, order: Order, action: BrowserAction, target: Target, looking: Looking) -> Outcome:
        resolution = self._resolved(order.run_id, target, looking)
        chosen = resolution.chosen
        screen = self._screen(order.run_id)
        seen = msgspec.structs.replace(self._seen(order.run_id), resolution=resolution, screen=screen)
        if chosen is None:
            low = resolution.best is not None
            kind = FailureKind.LOW_CONFIDENCE if low else FailureKind.TARGET_NOT_FOUND
            if resolution.runner_up is not None:
                kind = FailureKind.TARGET_AMBIGUOUS
            return Outcome(kind=kind, detail=resolution.reason, seen=seen)
        self._done(order, action, chosen.element)
        outputs = {action.into: chosen.element.text} if action.into else {}
        seen = msgspec.structs.replace(
            self._seen(order.run_id),
            resolution=resolution,
            observed=chosen.element,
            before=looking.observed,
            screen=screen,
            took_ms=self.took_ms,
            waited=looking.wait_s > 0 and resolution.strategy == "exact",
            rewritten=self.rewrites.get(chosen.element.name),
        )
        return Outcome(seen=seen, outputs=outputs)

    def _load(self, run_id: str, url: str) -> None:
        """Another document: what was done in the one before is gone."""
        self._at[run_id], self._touched[run_id] = url, []
        self._values = {key: value for key, value in self._values.items() if key[0] != run_id}

    def _done(self, order: Order, action: BrowserAction, element: Element) -> None:
        run_id = order.run_id
        self.done.append((action.verb.value, element.name))
        if action.verb in (BrowserVerb.FILL, BrowserVerb.CLICK):
            self._touched.setdefault(run_id, []).append(order.step_id)
        if action.verb is BrowserVerb.FILL:
            self._values[run_id, element.name] = action.value or ""
        if action.verb is BrowserVerb.CLICK:
            leads = self.site.clicks.get(element.name)
            if isinstance(leads, str):
                self._load(run_id, leads)
            elif leads is not None:
                leads()

    def _resolved(self, run_id: str, target: Target, looking: Looking) -> Resolution:
        page = self._page(run_id)
        elements = page.elements if page else ()
        about = Resolution(chosen=None, best=None, profile=profile(looking.level), floors=looking.floors)
        exact = _matching(page, target) if page else []
        if len(exact) == 1:
            score = _score(elements, exact[0], 1.0)
            return msgspec.structs.replace(about, chosen=score, best=score, margin=1.0, strategy="exact")
        if exact:
            first, second = (_score(elements, one, 1 / len(exact)) for one in exact[:2])
            why = f"{len(exact)} elements fit {target_words(target)}"
            return msgspec.structs.replace(about, best=first, runner_up=second, reason=why)
        known = _remembered(elements, looking)
        if known is not None:
            return msgspec.structs.replace(
                about, chosen=known, best=known, margin=known.confidence, strategy=FROM_MEMORY
            )
        guess = self.guesses.get(target.name or "")
        found = next((one for one in elements if guess and one.name == guess.name), None)
        if guess is None or found is None or guess.from_level > looking.level:
            return msgspec.structs.replace(about, reason=f"nothing fits {target_words(target)}")
        best = _score(elements, found, guess.confidence)
        why = _refused(guess, looking) or _forbidden(found, looking)
        return msgspec.structs.replace(
            about,
            chosen=None if why else best,
            best=best,
            margin=guess.confidence,
            strategy="none" if why else FROM_LESSON if guess.led_by else "model",
            led_by=guess.led_by,
            reason=why,
        )

    def _page(self, run_id: str) -> ScriptedPage | None:
        return self.site.pages.get(self._at.get(run_id, ""))

    def _seen(self, run_id: str) -> Seen:
        return Seen(page=self._fingerprint(run_id))

    def _screen(self, run_id: str) -> Screen | None:
        page = self._page(run_id)
        if self._sketch is None or page is None:
            return None
        return self._sketch(page.title, page.elements, Box(0, 0, *self.viewport), self.viewport, 1.0)

    def _fingerprint(self, run_id: str) -> Fingerprint | None:
        page = self._page(run_id)
        if page is None:
            return None
        names = sorted({_digest(f"{one.role}:{one.name}") for one in page.elements})
        return Fingerprint(_digest(self._at[run_id]), _digest(page.title), tuple(names))


def _remembered(elements: tuple[Element, ...], looking: Looking) -> Score | None:
    for one in looking.remembered:
        same = [each for each in elements if identity(each) == identity(one.element)]
        if len(same) == 1 and one.confidence >= looking.floors.confidence and looking.heal is HealMode.APPLY:
            return _score(elements, same[0], one.confidence)
    return None


def _forbidden(element: Element, looking: Looking) -> str:
    return "somebody rejected it for this target" if identity(element) in looking.forbidden else ""


def _refused(guess: Guess, looking: Looking) -> str:
    if looking.heal is HealMode.OFF:
        return "healing is off"
    if guess.confidence < looking.floors.confidence:
        return f"confidence {guess.confidence:.2f} is below {looking.floors.confidence:.2f}"
    if looking.needs_proof:
        return "nothing would prove the heal"
    if looking.heal is HealMode.REPORT:
        return looking.limit or "heals are only reported"
    return ""


def _matching(page: ScriptedPage, target: Target) -> list[Element]:
    wanted = {"role": target.role, "name": target.name, "text": target.text, "test_id": target.test_id}
    said = {key: value for key, value in wanted.items() if value is not None}
    return [one for one in page.elements if all(getattr(one, key) == value for key, value in said.items())]


def _score(elements: tuple[Element, ...], element: Element, confidence: float) -> Score:
    return Score(index=elements.index(element), confidence=confidence, element=element)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
