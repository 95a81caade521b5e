"""Elements that were learned and are like one that is looked for. Proposals: scoring, floors and vetoes decide."""

from __future__ import annotations

import numpy as np

from recoup.errors import LearningError
from recoup.learning.index import Index, Near, new_index
from recoup.learning.vectors import HASHING, Vectoriser
from recoup.model.memory import State
from recoup.model.target import Element

PROPOSALS_MAX = 5


def index_of(state: State, known: Index | None = None, vectors: Vectoriser = HASHING) -> Index:
    """Of all that was learned, by identity. With `known`, an index of some of it, only the rest is computed; one that
    another vectoriser made is left alone, and all is computed.

    After going back nothing of what was taken back may stay: begin anew then.
    """
    index = known if known is not None and known.made_by == vectors.name else None
    index = index if index is not None else new_index(vectors.dimensions, vectors.name)
    there = set(index.labels)
    missing = {
        entry.identity: entry.element for entry in state.entries.values() if entry.identity not in there
    }
    if missing:
        index.add(list(missing), np.stack([vectors.of_element(element) for element in missing.values()]))
    return index


def proposed(
    index: Index, element: Element, k: int = PROPOSALS_MAX, vectors: Vectoriser = HASHING
) -> list[Near]:
    if index.made_by != vectors.name:
        raise LearningError(f"the index was made by {index.made_by}, and is asked by {vectors.name}")
    return index.search(vectors.of_element(element), k)
