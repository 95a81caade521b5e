"""Boosted trees that choose one of many, or none: the likelihood of the right choice is what they raise.

A question is a list of candidates, of which some are right; when none is, "none of them" (a score of zero) is the right
choice. So the scores are learned against each other and against absence at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Bins = NDArray[np.uint8]
Slopes = tuple[Floats, Floats]
Split = tuple[float, int, int]
"""What it gains, which feature, after which bin."""
BINS: Final = 32


@dataclass(frozen=True)
class Tree:
    """A complete binary tree in arrays: node k has the children 2k+1 and 2k+2; `x <= cut` goes left."""

    feature: Ints
    cut: Floats
    value: Floats


@dataclass(frozen=True)
class Boosting:
    trees: int = 120
    depth: int = 4
    rate: float = 0.08
    ridge: float = 4.0
    firm_min: float = 0.5
    share_of_features: float = 0.5
    share_of_questions: float = 0.7
    seed: int = 7


def fit(rows: Floats, right: NDArray[np.bool_], question: Ints, weight: Floats, how: Boosting) -> list[Tree]:
    """`question` numbers the rows' questions from 0, in order; `weight` is one number per question."""
    chance = np.random.default_rng(how.seed)
    edges = [_edges(column) for column in rows.T]
    bins = np.stack(
        [np.searchsorted(cut, column, side="left") for cut, column in zip(edges, rows.T, strict=True)]
    ).astype(np.uint8)
    starts = np.searchsorted(question, np.arange(question[-1] + 1))
    has_right = np.maximum.reduceat(right, starts)
    score = np.zeros(len(rows))
    trees = []
    for _ in range(how.trees):
        slopes = _slopes(score, right, has_right, question, starts, weight)
        asked = chance.random(len(starts)) < how.share_of_questions
        taken = np.flatnonzero(asked[question])
        columns = chance.permutation(rows.shape[1])[: max(1, int(how.share_of_features * rows.shape[1]))]
        tree, leaf_of = _grow(bins, edges, slopes, taken, columns, how)
        score += tree.value[leaf_of]
        trees.append(tree)
    return trees


def choice(score: Floats, question: Ints, starts: Ints) -> Floats:
    """How likely each row is the answer to its question; what is missing to 1 is the likelihood of none."""
    top = np.maximum(0.0, np.maximum.reduceat(score, starts))
    power = np.exp(score - top[question])
    likely: Floats = power / (np.add.reduceat(power, starts) + np.exp(-top))[question]
    return likely


def _slopes(
    score: Floats, right: Bools, has_right: Bools, question: Ints, starts: Ints, weight: Floats
) -> tuple[Floats, Floats]:
    chosen = choice(score, question, starts)
    among_right = np.where(right, chosen, 0.0)
    whole = np.add.reduceat(among_right, starts)
    wanted = np.where(has_right[question] & right, among_right / np.maximum(whole[question], 1e-12), 0.0)
    by_row = weight[question]
    return by_row * (wanted - chosen), by_row * np.maximum(chosen * (1 - chosen), 1e-6)


def _edges(column: Floats) -> Floats:
    values = np.unique(column)
    if len(values) > BINS:
        # Half of the cuts by how often values occur, half by which occur at all: rare values matter as much here.
        often = np.quantile(column, np.linspace(0, 1, BINS // 2))
        values = np.unique(np.concatenate((often, np.quantile(values, np.linspace(0, 1, BINS // 2)))))
    return (values[1:] + values[:-1]) / 2


def _grow(
    bins: Bins, edges: Sequence[Floats], slopes: Slopes, taken: Ints, columns: Ints, how: Boosting
) -> tuple[Tree, Ints]:
    nodes = 2 ** (how.depth + 1) - 1
    feature, cut, value = np.full(nodes, -1), np.zeros(nodes), np.zeros(nodes)
    at = np.zeros(bins.shape[1], dtype=np.int64)
    for depth in range(how.depth):
        first, count = 2**depth - 1, 2**depth
        best = _best_splits(bins, slopes, taken, at[taken] - first, count, columns, how)
        for k, (gain, column, place) in enumerate(best):
            if gain > 1e-9:
                feature[first + k], cut[first + k] = column, edges[column][place]
        here = feature[at]
        split = here >= 0
        goes_right = np.zeros(len(at), dtype=bool)
        for column in np.unique(here[split]):
            mine = np.flatnonzero(here == column)
            goes_right[mine] = edges[column][0] is not None and _beyond(
                bins[column][mine], edges[column], cut[at[mine]]
            )
        at = np.where(split, 2 * at + 1 + goes_right, at)
        # A node that is not split stays where it is, as a leaf: later depths skip it.
    down = np.bincount(at[taken], slopes[0][taken], nodes)
    firm = np.bincount(at[taken], slopes[1][taken], nodes)
    value = how.rate * down / (firm + how.ridge)
    return Tree(feature, cut, value), at


def _beyond(bins: Bins, edges: Floats, cut: Floats) -> Bools:
    beyond: Bools = bins > np.searchsorted(edges, cut)
    return beyond


def _best_splits(
    bins: Bins, slopes: Slopes, taken: Ints, node: Ints, count: int, columns: Ints, how: Boosting
) -> list[Split]:
    alive = node >= 0
    taken, node = taken[alive], node[alive]
    g, h = slopes[0][taken], slopes[1][taken]
    node = node.astype(np.int32)
    best: list[Split] = [(0.0, -1, -1)] * count
    width = int(bins.max()) + 1
    for column in columns:
        key = node * width + bins[column, taken]
        down = np.bincount(key, g, count * width).reshape(count, width).cumsum(axis=1)
        firm = np.bincount(key, h, count * width).reshape(count, width).cumsum(axis=1)
        all_down, all_firm = down[:, -1:], firm[:, -1:]
        gain = (
            down**2 / (firm + how.ridge)
            + (all_down - down) ** 2 / (all_firm - firm + how.ridge)
            - all_down**2 / (all_firm + how.ridge)
        )
        gain[(firm < how.firm_min) | (all_firm - firm < how.firm_min)] = 0.0
        place = gain.argmax(axis=1)
        for k in range(count):
            if gain[k, place[k]] > best[k][0]:
                best[k] = (float(gain[k, place[k]]), int(column), int(place[k]))
    return best
