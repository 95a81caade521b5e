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

from recoup.targets.features import NAMES
from recoup.targets.weights import LOGIT_MAX, Model, Stored

NEVER = 1e30
"""A cut that nothing is beyond: a node that was not split."""
DIGITS = 5


@dataclass(frozen=True)
class Training:
    ensembles: int = 4
    boosting: Boosting = field(default_factory=lambda: Boosting(trees=130, depth=3, rate=0.1))


def train(asked: Sequence[Question], how: Training) -> Stored:
    part = _parts(sorted({question.site for question in asked}), how.ensembles)
    trees: list[Tree] = []
    heard: list[tuple[float, bool]] = []
    for number in range(how.ensembles):
        grown = _grown([q for q in asked if part[q.site] != number], replace(how.boosting, seed=number))
        unseen = [q for q in asked if part[q.site] == number and q.counts]
        heard += _heard(unseen, Model(_stored(grown, 1, how.boosting.depth, 1.0, 0.0)))
        trees += grown
    slope, shift = _curve(heard)
    return _stored(trees, how.ensembles, how.boosting.depth, slope, shift)


def _parts(sites: Sequence[str], count: int) -> dict[str, int]:
    shuffled = sorted(sites, key=lambda site: hashlib.sha256(site.encode()).hexdigest())
    return {site: number % count for number, site in enumerate(shuffled)}


def _grown(asked: Sequence[Question], how: Boosting) -> list[Tree]:
    short = [question.shorter(ROWS_RECORDED) for question in asked]
    rows = np.vstack([question.rows for question in short])
    right = np.concatenate([question.right for question in short])
    number = np.repeat(np.arange(len(short)), [len(question.right) for question in short])
    return fit(rows, right, number, np.array([question.weight for question in short]), how)


def _heard(asked: Sequence[Question], model: Model) -> list[tuple[float, bool]]:
    """How likely the model thought its answer, and whether it was right."""
    made = []
    for question in asked:
        likely = model.choice(question.rows)
        best = int(likely.argmax())
        made.append((float(likely[question.same[best]].sum()), bool(question.right[best])))
    return made


def _curve(heard: Sequence[tuple[float, bool]]) -> tuple[float, float]:
    """A logistic curve over the logit, by Newton's steps."""
    likely = np.clip(np.array([pair[0] for pair in heard]), 1e-9, 1 - 1e-9)
    right = np.array([pair[1] for pair in heard], dtype=np.float64)
    logit = np.clip(np.log(likely / (1 - likely)), -LOGIT_MAX, LOGIT_MAX)
    inputs = np.stack((logit, np.ones(len(logit))), axis=1)
    found = np.array([1.0, 0.0])
    for _ in range(30):
        chance = 1 / (1 + np.exp(-inputs @ found))
        firm = (inputs * (chance * (1 - chance))[:, None]).T @ inputs + 1e-6 * np.eye(2)
        found = found + np.linalg.solve(firm, inputs.T @ (right - chance))
    return float(found[0]), float(found[1])


def _stored(trees: Sequence[Tree], ensembles: int, depth: int, slope: float, shift: float) -> Stored:
    complete = [_complete(tree, depth) for tree in trees]
    return Stored(
        features=NAMES,
        depth=depth,
        ensembles=ensembles,
        feature=tuple(int(index) for tree in complete for index in tree[0]),
        cut=tuple(_rounded(value) for tree in complete for value in tree[1]),
        value=tuple(_rounded(value) for tree in complete for value in tree[2]),
        slope=_rounded(slope),
        shift=_rounded(shift),
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
