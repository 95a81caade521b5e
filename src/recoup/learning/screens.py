"""Which known screen is this, how sure is that, and has the screen itself moved: sizes, scale, layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

import msgspec
import numpy as np

from recoup.errors import LearningError, VersionDamaged
from recoup.learning.index import Index, Near, new_index
from recoup.learning.stamped import stamped, value_in
from recoup.learning.vectors import CELLS, SCREEN_DIMENSIONS, Vector, layout_of, likeness, of_screen
from recoup.model.memory import Screen, WhichScreen
from recoup.model.target import Box, Element

SCREENS_MAX: Final = 1_000
ID_CHARS_MAX: Final = 200
FLOOR: Final = 0.72
ALIKE_ANYWAY: Final = 0.5
"""Pages that have nothing to do with each other are as alike as that, and more: a page is known by what is beyond it.
What comes of it and the floor is measured by `python -m benchmarks learning`."""
LAYOUT_FLOOR: Final = 0.8
SIZE_SHARE_MAX: Final = 0.02
SCALE_MAX: Final = 0.01
STEPS: Final = 100
SCREENS_FORMAT: Final = 1


class _Prototype(msgspec.Struct, frozen=True):
    screen_id: str
    screen: Screen


class _Stored(msgspec.Struct, frozen=True):
    format: int
    screens: list[_Prototype]


def screen_of(
    title: str, elements: Sequence[Element], page: Box, viewport: tuple[float, float], scale: float = 1.0
) -> Screen:
    width, height = viewport
    size = (float(width), float(height))
    return Screen(_whole(of_screen(title, elements)), _whole(layout_of(elements, page)), size, float(scale))


def which(known: Mapping[str, Screen], screen: Screen, floor: float = FLOOR) -> WhichScreen | None:
    """Of those that are known. None: none is known yet."""
    return KnownScreens(known).which(screen, floor)


class KnownScreens:
    """One prototype for each known screen: how it looked when it was last known to be it."""

    def __init__(self, screens: Mapping[str, Screen] | None = None) -> None:
        self._screens: dict[str, Screen] = dict(screens or {})
        """The one that was seen longest ago first."""
        self._index: Index | None = None

    def __len__(self) -> int:
        return len(self._screens)

    @property
    def screens(self) -> Mapping[str, Screen]:
        return self._screens

    def __contains__(self, screen_id: str) -> bool:
        return screen_id in self._screens

    def learn(self, screen_id: str, screen: Screen) -> None:
        """It was proven to be this screen. The last look replaces the one before, so that slow change is followed."""
        if not 0 < len(screen_id) <= ID_CHARS_MAX:
            raise LearningError(
                f"the id of a screen has 1 to {ID_CHARS_MAX} characters, not {len(screen_id)}"
            )
        self._screens.pop(screen_id, None)
        self._screens[screen_id] = screen
        for forgotten in list(islice(self._screens, max(0, len(self._screens) - SCREENS_MAX))):
            del self._screens[forgotten]
        self._index = None

    def which(self, screen: Screen, floor: float = FLOOR) -> WhichScreen | None:
        """None: no screen is known yet."""
        near = self._indexed().search(_vector(screen.marks), 2)
        if not near:
            return None
        confidence, runner_up = [*map(_confidence, near), 0.0][:2]
        is_low = confidence < floor
        drift = _drift(self._screens[near[0].label], screen, with_layout=not is_low)
        return WhichScreen(near[0].label, confidence, confidence - runner_up, is_low, tuple(drift))

    def to_bytes(self) -> bytes:
        told = [_Prototype(name, screen) for name, screen in self._screens.items()]
        return stamped(msgspec.json.encode(_Stored(SCREENS_FORMAT, told)))

    @classmethod
    def from_bytes(cls, data: bytes) -> KnownScreens:
        stored = value_in(data, _Stored, "what was stored of the screens")
        if stored.format != SCREENS_FORMAT or len(stored.screens) > SCREENS_MAX:
            raise VersionDamaged(
                f"format {stored.format} with {len(stored.screens)} screens is not understood here"
            )
        for told in stored.screens:
            sizes = len(told.screen.marks), len(told.screen.layout)
            if sizes != (SCREEN_DIMENSIONS, CELLS * CELLS):
                raise VersionDamaged(f"a screen has {sizes[0]} marks and {sizes[1]} cells")
        return cls({told.screen_id: told.screen for told in stored.screens})

    def _indexed(self) -> Index:
        if self._index is None:
            self._index = new_index(SCREEN_DIMENSIONS)
            if self._screens:
                rows = np.stack([_vector(screen.marks) for screen in self._screens.values()])
                self._index.add(list(self._screens), rows)
        return self._index


def _confidence(near: Near) -> float:
    return min(1.0, max(0.0, (near.likeness - ALIKE_ANYWAY) / (1.0 - ALIKE_ANYWAY)))


def _drift(known: Screen, seen: Screen, *, with_layout: bool) -> list[str]:
    """The layout of another screen is another one: it is compared only where this is surely the same."""
    words = []
    if any(_differ(a, b) for a, b in zip(known.viewport, seen.viewport, strict=True)):
        words.append(f"the window is {_size(seen.viewport)} and was {_size(known.viewport)}")
    if abs(known.scale - seen.scale) > SCALE_MAX:
        words.append(f"the scale is {seen.scale:g} and was {known.scale:g}")
    alike = likeness(_vector(known.layout), _vector(seen.layout))
    if with_layout and any(known.layout) and any(seen.layout) and alike < LAYOUT_FLOOR:
        words.append(f"the layout is only {alike:.0%} what it was")
    return words


def _differ(one: float, other: float) -> bool:
    """By more than a scroll bar takes."""
    return abs(one - other) > SIZE_SHARE_MAX * max(one, other)


def _size(viewport: tuple[float, float]) -> str:
    return f"{viewport[0]:g}x{viewport[1]:g}"


def _whole(vector: Vector) -> tuple[int, ...]:
    """In steps of a hundredth of the largest: as near as makes no difference, and the same on every machine."""
    largest = float(np.abs(vector).max(initial=0.0))
    return tuple(np.rint(vector * (STEPS / largest)).astype(int).tolist()) if largest else (0,) * len(vector)


def _vector(whole: tuple[int, ...]) -> Vector:
    """Of length one."""
    vector = np.array(whole, np.float64)
    length = float(np.sqrt(vector @ vector))
    return (vector / length if length else vector).astype(np.float32)
