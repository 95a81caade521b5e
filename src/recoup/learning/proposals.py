"""Elements that were learned and are like one that is looked for. Proposals: scoring, floors and vetoes decide."""

from __future__ import annotations

import numpy as np

from recoup.learning.index import Index, Near, new_index
from recoup.learning.vectors import of_element
from recoup.model.memory import State
from recoup.model.target import Element

PROPOSALS_MAX = 5


def index_of(state: State, known: Index | None = None) -> Index:
    """Of all that was learned, by identity. With `known`, an index of some of it, only the rest is computed.

    After going back nothing of what was taken back may stay: begin anew then.
    """
    index = known if known is not None else new_index()
    there = set(index.labels)
    missing = {
        entry.identity: entry.element for entry in state.entries.values() if entry.identity not in there
    }
    if missing:
        index.add(list(missing), np.stack([of_element(element) for element in missing.values()]))
    return index


def proposed(index: Index, element: Element, k: int = PROPOSALS_MAX) -> list[Near]:
    return index.search(of_element(element), k)
