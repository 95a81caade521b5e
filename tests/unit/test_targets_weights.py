"""The shipped numbers: checked when they are loaded, and read as they were written."""

from __future__ import annotations

from importlib.resources import files

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoup.targets.features import AT, NAMES
from recoup.targets.weights import Model, Stored, Unusable, digest_of, model_from, shipped, stored_bytes

SHIPPED = files("recoup.targets").joinpath("weights.json").read_bytes()


def stored(**more: object) -> Stored:
    small = Stored(
        features=NAMES,
        depth=1,
        ensembles=1,
        feature=(0, 1),
        cut=(0.5, 0.5),
        value=(-1.0, 1.0, -2.0, 2.0),
        slope=1.0,
        shift=0.0,
        doubts=(0.0, 0.0),
    )
    return msgspec.structs.replace(small, **more)


def test_the_shipped_weights_are_usable() -> None:
    assert isinstance(shipped(), Model)
    assert shipped() is shipped()


@settings(deadline=None)
@given(st.integers(0, len(SHIPPED) - 1), st.integers(1, 255))
def test_a_flipped_byte_is_noticed_or_changes_nothing(place: int, flip: int) -> None:
    damaged = bytearray(SHIPPED)
    damaged[place] ^= flip
    made = model_from(bytes(damaged))
    if isinstance(made, Unusable):
        assert "install the package again" in made.why
    else:
        assert msgspec.json.decode(damaged) == msgspec.json.decode(SHIPPED)


@pytest.mark.parametrize(
    "wrong",
    [
        {"features": ("said_equal",)},
        {"depth": 0},
        {"depth": 99},
        {"ensembles": 0},
        {"feature": (0, 10_000)},
        {"feature": (0, -1)},
        {"cut": (0.5,)},
        {"value": (1.0,)},
        {"doubts": (1.0,)},
        {"feature": (), "cut": (), "value": ()},
    ],
)
def test_weights_that_do_not_fit_are_refused_though_their_digest_is_right(wrong: dict[str, object]) -> None:
    made = model_from(stored_bytes(stored(**wrong)))
    assert isinstance(made, Unusable)


def test_a_wrong_digest_is_refused() -> None:
    made = model_from(msgspec.json.encode(stored(digest="0" * 64)))
    assert isinstance(made, Unusable) and "digest" in made.why
    assert digest_of(stored()) == digest_of(stored(digest="other"))


def test_trees_are_read_as_they_were_written() -> None:
    """By the one at a time, slow way: each shipped tree walked from its root."""
    model, raw = shipped(), msgspec.json.decode(SHIPPED, type=Stored)
    assert isinstance(model, Model)
    rows = np.random.default_rng(3).normal(size=(9, len(NAMES))).astype(np.float32).astype(np.float64)
    assert model.scores(rows) == pytest.approx([walked(raw, row.tolist()) for row in rows])


def walked(raw: Stored, row: list[float]) -> float:
    inner = 2**raw.depth - 1
    total = 0.0
    for tree in range(len(raw.feature) // inner):
        node = 0
        while node < inner:
            at = tree * inner + node
            node = 2 * node + 1 + (row[raw.feature[at]] > raw.cut[at])
        total += raw.value[tree * (inner + 1) + node - inner]
    return total / raw.ensembles


@settings(deadline=None)
@given(st.lists(st.floats(-30, 30), min_size=1, max_size=8))
def test_choices_and_the_choice_of_none_are_a_whole(scores: list[float]) -> None:
    rows = np.zeros((len(scores), len(NAMES)))
    likely = Model(stored()).choice(rows)
    assert np.all(likely >= 0) and likely.sum() < 1


@settings(deadline=None)
@given(st.floats(0, 1), st.floats(0, 1))
def test_calibration_keeps_the_order(one: float, other: float) -> None:
    model = shipped()
    assert isinstance(model, Model)
    row = np.zeros(len(NAMES))
    low, high = model.calibrated(min(one, other), row), model.calibrated(max(one, other), row)
    assert 0.0 <= low <= high <= 1.0


@settings(deadline=None)
@given(st.floats(0.05, 0.95), st.integers(1, 5_000))
def test_far_away_and_in_another_part_of_the_page_is_less_likely_the_same(likely: float, nearer: int) -> None:
    model = shipped()
    assert isinstance(model, Model)
    here = np.zeros(len(NAMES))
    here[AT["landmarks"]] = 1.0
    away, elsewhere = here.copy(), here.copy()
    away[AT["nearer"]] = np.log1p(nearer)
    elsewhere[AT["landmarks"]] = -1.0
    sure = model.calibrated(likely, here)
    assert model.calibrated(likely, away) < sure and model.calibrated(likely, elsewhere) < sure
