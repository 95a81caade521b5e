"""Which names may stand in a tag: not too many, not too long, and none that holds a secret."""

from __future__ import annotations

from collections.abc import Callable

from recoup.metrics.measures import OTHER

NAMES_MAX = 100
NAME_CHARACTERS_MAX = 64


class Vocabulary:
    """The names of workflows that were admitted. Whatever else is asked for is called `other`."""

    def __init__(self, found_in: Callable[[bytes], object]) -> None:
        self._found_in = found_in
        self._admitted: set[str] = set()

    def word(self, name: str) -> str:
        """Asked about secrets every time: one may have been registered since."""
        if name not in self._admitted and len(self._admitted) >= NAMES_MAX:
            return OTHER
        if not name or self._found_in(name.encode("utf-8", "surrogatepass")):
            return OTHER
        self._admitted.add(name)
        return name[:NAME_CHARACTERS_MAX]
