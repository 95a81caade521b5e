"""From questions to the numbers that are shipped.

Several ensembles of trees, each without a part of the sites; what each says about the sites that it has not seen is
what the calibration is fitted on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from tools.resolver_training.booster import Boosting, Tree, fit
from tools.resolver_training.questions import ROWS_RECORDED, Question

from recoup.targets.features import AT, NAMES
from recoup.targets.weights import DOUBTED, Model, Stored, logit_of

NEVER = 1e30
"""A cut that nothing is beyond: a node that was not split."""
DIGITS = 5
WRONG_WEIGHT = 1.5
"""Of an answer that is wrong, when the curve is fitted: none is better than a wrong one."""


@dataclass(frozen=True)
class Training:
    ensembles: int = 4
    boosting: Boosting = field(default_factory=lambda: Boosting(trees=130, depth=3, rate=0.1))


def train(asked: Sequence[Question], how: Training) -> Stored:
    part = _parts(sorted({question.site for question in asked}), how.ensembles)
    trees: list[Tree] = []
    heard: list[Heard] = []
    for number in range(how.ensembles):
        grown = _grown([q for q in asked if part[q.site] != number], replace(how.boosting, seed=number))
        unseen = [q for q in asked if part[q.site] == number and q.heard]
        heard += _heard(unseen, Model(_stored(grown, 1, how.boosting.depth, Curve())))
        trees += grown
    return _stored(trees, how.ensembles, how.boosting.depth, _curve(heard))


def _parts(sites: Sequence[str], count: int) -> dict[str, int]:
    shuffled = sorted(sites, key=lambda site: hashlib.sha256(site.encode()).hexdigest())
    return {site: number % count for number, site in enumerate(shuffled)}


def _grown(asked: Sequence[Question], how: Boosting) -> list[Tree]:
    short = [question.shorter(ROWS_RECORDED) for question in asked]
    rows = np.vstack([question.rows for question in short])
    right = np.concatenate([question.right for question in short])
    number = np.repeat(np.arange(len(short)), [len(question.right) for question in short])
    return fit(rows, right, number, np.array([question.weight for question in short]), how)


@dataclass(frozen=True)
class Heard:
    """One answer of a model to a question that it has not seen."""

    logit: float
    row: NDArray[np.float64]
    right: bool
    weight: float


def _heard(asked: Sequence[Question], model: Model) -> list[Heard]:
    made = []
    for question in asked:
        likely = model.choice(question.rows)
        best = int(likely.argmax())
        logit = logit_of(float(likely[question.same[best]].sum()))
        made.append(Heard(logit, question.rows[best], bool(question.right[best]), question.heard))
    return made


@dataclass(frozen=True)
class Curve:
    slope: float = 1.0
    shift: float = 0.0
    doubts: tuple[float, ...] = (0.0,) * len(DOUBTED)


def _curve(heard: Sequence[Heard]) -> Curve:
    """A logistic curve over the logit and what is doubted, by Newton's steps; doubts are held back a little."""
    right = np.array([each.right for each in heard], dtype=np.float64)
    weight = np.array([each.weight for each in heard]) * np.where(right > 0, 1.0, WRONG_WEIGHT)
    doubted = np.array([each.row[[AT[name] for name in DOUBTED]] for each in heard])
    middle, spread = doubted.mean(axis=0), doubted.std(axis=0) + 1e-9
    logit = np.array([each.logit for each in heard])
    inputs = np.column_stack((logit, np.ones(len(heard)), (doubted - middle) / spread))
    ridge = np.diag([1e-6, 1e-6, *[1.0] * len(DOUBTED)])
    found = np.array([1.0, 0.0, *[0.0] * len(DOUBTED)])
    for _ in range(30):
        chance = 1 / (1 + np.exp(-inputs @ found))
        firm = (inputs * (weight * chance * (1 - chance))[:, None]).T @ inputs + ridge
        found = found + np.linalg.solve(firm, inputs.T @ (weight * (right - chance)) - ridge @ found)
    doubts = found[2:] / spread
    return Curve(float(found[0]), float(found[1] - doubts @ middle), tuple(map(float, doubts)))


def _stored(trees: Sequence[Tree], ensembles: int, depth: int, curve: Curve) -> Stored:
    complete = [_complete(tree, depth) for tree in trees]
    return Stored(
        features=NAMES,
        depth=depth,
        ensembles=ensembles,
        feature=tuple(int(index) for tree in complete for index in tree[0]),
        cut=tuple(_rounded(value) for tree in complete for value in tree[1]),
        value=tuple(_rounded(value) for tree in complete for value in tree[2]),
        slope=_rounded(curve.slope),
        shift=_rounded(curve.shift),
        doubts=tuple(_rounded(value) for value in curve.doubts),
    )


def _complete(tree: Tree, depth: int) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Every node split down to the leaves: those that end early send all to the left."""
    inner = 2**depth - 1
    feature, cut, value = tree.feature[:inner].copy(), tree.cut[:inner].copy(), tree.value.copy()
    for node in range(inner):
        if feature[node] < 0:
            feature[node], cut[node] = 0, NEVER
            value[2 * node + 1] = value[2 * node + 2] = value[node]
    return feature, cut, value[inner:]


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
