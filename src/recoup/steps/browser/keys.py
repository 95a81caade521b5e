"""`browser:` as people write it. What stands under the verb is in `shape.py`, made when a file first has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec
from pydantic import Field

from recoup.model.plan import NEVER_REPEATED, BrowserAction, Repeat, Step
from recoup.model.target import Heal
from recoup.shapes.heal_shape import AnyHeal, heal_value
from recoup.shapes.later import Later
from recoup.shapes.page_keys import HEAL_EXAMPLES, VERBS
from recoup.shapes.plan_written import Written
from recoup.shapes.shape import Shape
from recoup.shapes.wording import Detail, Finding
from recoup.steps.kind_shape import KindShape

if TYPE_CHECKING:
    from recoup.steps.browser.shape import VerbShape


def _actions() -> Any:
    from recoup.steps.browser.shape import BrowserShape

    return BrowserShape


class BrowserKeys(KindShape):
    phrase = "does something in the browser"
    elsewhere: ClassVar = {
        "heal": "is for `browser` only, where a target may have changed: remove it",
        **{verb: f"stands under `browser`: write `browser: {{{verb}: …}}`" for verb in VERBS},
    }
    means = frozenset(VERBS)
    browser: Annotated[Any, Later(_actions)] = Field(
        description="One thing to do in the run's browser: the key is the verb.",
        examples=[
            {"goto": "https://shop.example/invoices"},
            {"click": {"role": "button", "name": "Approve", "near": "INV-1001"}},
        ],
    )

    def action(self) -> BrowserAction:
        shape: VerbShape = self.browser
        return shape.action()

    def usual_repeat(self) -> Repeat:
        return Repeat.NEVER if self.browser.verb in NEVER_REPEATED else Repeat.SAFE

    @classmethod
    def in_steps(cls) -> type[KindShape]:
        return BrowserStepKeys

    @classmethod
    def shapes(cls) -> Mapping[str, type[Shape]]:
        from recoup.steps.browser.words import BROWSER_SHAPES

        return BROWSER_SHAPES

    @classmethod
    def words(cls, detail: Detail, shape: type[Shape]) -> str | None:
        from recoup.steps.browser.words import browser_words

        return browser_words(detail, shape)

    @classmethod
    def broken_rules(cls, plan: Written) -> Iterator[Finding]:
        from recoup.steps.browser.rules import broken_page_rules

        return broken_page_rules(plan)


class BrowserStepKeys(BrowserKeys):
    phrase = "does one thing in the run's browser"
    heal: AnyHeal | None = Field(
        None,
        description="What to do where its target is not as it was. Default: as the plan says.",
        examples=HEAL_EXAMPLES,
    )

    def completed(self, step: Step) -> Step:
        heal = heal_value(self.heal)
        return step if heal == Heal() else msgspec.structs.replace(step, heal=heal)
