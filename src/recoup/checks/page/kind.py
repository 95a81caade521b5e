"""What the kinds of check share that look at the page of the run's browser."""

from __future__ import annotations

import re
from abc import abstractmethod
from functools import lru_cache
from typing import Final, TypeVar

import msgspec

from recoup.checks.kind import Absent, CheckKind, NotAsked, Surroundings
from recoup.checks.spots import Fill, Spot
from recoup.checks.text_match import search
from recoup.model.outcome import PageQuestion
from recoup.model.plan import AnyCheck, TextMatch
from recoup.model.target import SHORT, Target

C = TypeVar("C", bound=AnyCheck)
Answer = tuple[bool | None, str]


class PageKind(CheckKind[C]):
    """Waits until the page shows it, and is never healed."""

    looks_at_page = True

    @abstractmethod
    def question(self, check: C) -> PageQuestion: ...

    async def examine(self, check: C, around: Surroundings) -> str:
        scene, pages = around.scene, around.pages
        if pages is None:
            raise NotAsked("there is no browser here")
        # A page shows what it will show within seconds: a command may take minutes.
        wait_s = min(scene.check_timeout_s, scene.policy.page_check_s)
        scene = msgspec.structs.replace(scene, check_timeout_s=wait_s)
        held, words = await pages.examine(scene.run_id, self.question(check), scene)
        if held is None:
            raise NotAsked(words)
        if not held:
            raise Absent(words)
        return words


def matched(match: TextMatch, text: str, where: str, *, whole: bool = False) -> tuple[bool, str]:
    """Words: white space counts once. Of a field, all that it holds."""
    if match.text is not None:
        wanted, collapsed = " ".join(match.text.split()), " ".join(text.split())
        held = wanted == collapsed if whole else wanted in collapsed
        return held, "found" if held else f"{where} does not contain {match.text!r}"
    held = search(match.regex or "", text) is not None
    return held, "matched" if held else f"{where} does not match /{match.regex}/"


def filled_target(target: Target, fill: Fill) -> Target:
    """Of what was recorded nothing is looked up."""
    words = {name: text for name in SHORT if (text := getattr(target, name)) is not None}
    return msgspec.structs.replace(target, **{name: fill(text, Spot.TEXT) for name, text in words.items()})


@lru_cache(256)
def glob(pattern: str) -> re.Pattern[str]:
    """`*` is anything within a part of an address, `**` anything at all, `\\*` the character itself."""
    parts = re.split(r"(\\\*|\*\*|\*)", pattern)
    return re.compile("".join(_GLOB.get(part, re.escape(part)) for part in parts), re.DOTALL)


_GLOB: Final = {"**": ".*", "*": "[^/]*", r"\*": r"\*"}
