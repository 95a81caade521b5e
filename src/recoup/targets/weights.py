"""The learned numbers: trees that score a candidate, and the curve that makes a probability of the score."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from math import exp, fsum, log
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from recoup.targets.features import AT, NAMES
from recoup.targets.page import Floats, Ints

DEPTH_MAX: Final = 6
TREES_MAX: Final = 2_000
LOGIT_MAX: Final = 10.0
DOUBTED: Final = ("nearer", "landmarks")
"""Beside how likely the choice is, what tells one that moved from another one like it, where the right one is gone."""
_DOUBTED_AT: Final = [AT[name] for name in DOUBTED]


class Stored(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """As it is shipped. Trees are complete: a node's children follow it as in a heap, values are of the leaves."""

    features: tuple[str, ...]
    depth: int
    ensembles: int
    """How many times over the trees answer the question: their sum is divided by it."""
    feature: tuple[int, ...]
    cut: tuple[float, ...]
    value: tuple[float, ...]
    slope: float
    shift: float
    doubts: tuple[float, ...]
    """What each of DOUBTED adds to the logit of being right."""
    digest: str = ""


class Unusable(msgspec.Struct, frozen=True):
    """Why there is no model. Exact resolution goes on without one."""

    why: str


class Model:
    """Read-only arrays; one model serves all threads."""

    def __init__(self, stored: Stored) -> None:
        self._depth: Final = stored.depth
        self._inner: Final = 2**stored.depth - 1
        self._trees: Final = len(stored.feature) // self._inner
        self._ensembles: Final = stored.ensembles
        by_tree = (self._trees, self._inner)
        feature = np.array(stored.feature).reshape(by_tree).T.ravel()
        cut = np.array(stored.cut, dtype=np.float32).reshape(by_tree).T.ravel()
        cuts = {pair: number for number, pair in enumerate(dict.fromkeys(zip(feature, cut, strict=True)))}
        self._feature: Final[Ints] = np.array([feature for feature, _ in cuts])
        self._cut: Final = np.array([cut for _, cut in cuts], dtype=np.float32)[:, None]
        self._asks: Final[Ints] = np.array([cuts[pair] for pair in zip(feature, cut, strict=True)])
        """Which of the different cuts each node asks for: many trees cut at the same places."""
        self._value: Final[Floats] = np.array(stored.value)
        self._first: Final = (np.arange(self._trees, dtype=np.uint32) * (self._inner + 1))[:, None]
        self._slope: Final = stored.slope
        self._shift: Final = stored.shift
        self._doubts: Final = tuple(zip(_DOUBTED_AT, stored.doubts, strict=True))

    def choice(self, rows: Floats) -> Floats:
        """How likely each candidate is the one; what is missing to 1 is the likelihood of none of them."""
        scores = self.scores(rows)
        top = max(0.0, float(scores.max(initial=0.0)))
        power = np.exp(scores - top)
        likely: Floats = power / (power.sum() + np.exp(-top))
        return likely

    def scores(self, rows: Floats) -> Floats:
        """All nodes of all trees are asked at once: (node, tree, candidate)."""
        above = rows.T.astype(np.float32).take(self._feature, axis=0) > self._cut
        asked = np.negative(above.view(np.uint8)).take(self._asks, axis=0)
        leaf = _leaf(asked.reshape(self._inner, self._trees, len(rows)), 0, self._depth)
        values = self._value.take(leaf + self._first)
        scores: Floats = values.sum(axis=0) / self._ensembles
        return scores

    def calibrated(self, likely: float, row: Floats) -> float:
        """The share of answers like this one that were right, with half of the targets gone."""
        doubt = fsum(weight * float(row[at]) for at, weight in self._doubts)
        return 1 / (1 + exp(-(self._slope * logit_of(likely) + doubt + self._shift)))


def logit_of(likely: float) -> float:
    likely = min(max(likely, 1e-9), 1 - 1e-9)
    return min(max(log(likely / (1 - likely)), -LOGIT_MAX), LOGIT_MAX)


def _leaf(asked: NDArray[np.uint8], node: int, levels: int) -> NDArray[np.uint8]:
    """Which leaf below a node each (tree, candidate) ends in. A node's answer is all bits or none."""
    if levels == 1:
        last: NDArray[np.uint8] = asked[node] & np.uint8(1)
        return last
    left, right = (_leaf(asked, child, levels - 1) for child in (2 * node + 1, 2 * node + 2))
    right |= np.uint8(2 ** (levels - 1))
    right ^= left
    right &= asked[node]
    right ^= left
    return right


@cache
def shipped() -> Model | Unusable:
    """The model of this version, read once."""
    try:
        data = files("recoup.targets").joinpath("weights.json").read_bytes()
    except OSError as error:
        return Unusable(f"the resolver's weights cannot be read ({error.strerror or type(error).__name__})")
    return model_from(data)


def model_from(data: bytes) -> Model | Unusable:
    try:
        stored = msgspec.json.decode(data, type=Stored)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Unusable("the resolver's weights are not what they should be: install the package again")
    problem = _problem_with(stored)
    return (
        Unusable(f"the resolver's weights {problem}: install the package again") if problem else Model(stored)
    )


def stored_bytes(stored: Stored) -> bytes:
    """With the digest that is checked when they are loaded."""
    return msgspec.json.encode(msgspec.structs.replace(stored, digest=digest_of(stored)))


def digest_of(stored: Stored) -> str:
    plain = msgspec.json.encode(msgspec.structs.replace(stored, digest=""))
    return hashlib.sha256(plain).hexdigest()


def _problem_with(stored: Stored) -> str:
    if stored.digest != digest_of(stored):
        return "do not have the digest that they were stored with"
    if stored.features != NAMES:
        return "are of another version"
    return "" if _fits_together(stored) else "do not fit together"


def _fits_together(stored: Stored) -> bool:
    if not 1 <= stored.depth <= DEPTH_MAX or stored.ensembles < 1 or len(stored.doubts) != len(DOUBTED):
        return False
    inner = 2**stored.depth - 1
    trees, rest = divmod(len(stored.feature), inner)
    sizes = rest == 0 and len(stored.cut) == inner * trees and len(stored.value) == (inner + 1) * trees
    return sizes and 1 <= trees <= TREES_MAX and all(0 <= index < len(NAMES) for index in stored.feature)
