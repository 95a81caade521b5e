"""The matcher on recorded changes of real web sites, each with weights that never saw the site (takes minutes)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from benchmarks.evaluators import SHARED, absent, evaluated
from benchmarks.locators.masks import masked
from benchmarks.progress import doing
from benchmarks.report import Figure, LeftOut, Row, scaled

FOLDS: Final = scaled("7", "2")
FOLDS_TIMEOUT_S: Final = 3_600


def run() -> Iterator[Row]:
    data = SHARED / "data" / "locators" / "similo"
    program, adapter = "evaluate_locators.py", "locators/adapter.py"
    if not data.is_dir():
        yield absent("data/locators")
        return
    doing(f"training on all sites but some, and asking about those: {FOLDS} times")
    found = evaluated(program, adapter, "--data", data, "--folds", FOLDS, timeout_s=FOLDS_TIMEOUT_S)
    if isinstance(found, LeftOut):
        yield found
    else:
        yield from _quality(found)
        yield from _time(found)
    doing("the same with less recorded")
    yield from masked(data, int(FOLDS))


def _quality(found: dict[str, Any]) -> Iterator[Figure]:
    yield Figure("right", found["top1_right"], "", bar=0.965)
    for gone, bar in (("none_gone", 0.96), ("one_gone_in_ten", 0.87), ("half_gone", 0.80)):
        words = gone.replace("_", " ")
        yield Figure(f"answered at 99 % precision, {words}", found[f"coverage_at_99_{gone}"], "", bar=bar)
    floor = found["floor_0.82"]
    yield Figure("answered at 0.82", floor["answered"], "", bar=0.79)
    yield Figure("wrong at 0.82", floor["wrong"], "", bar=0, at_most=True)
    yield Figure(
        "healed although removed, at 0.82", floor["false_heals_when_gone"], "", bar=0.008, at_most=True
    )
    yield Figure("calibration error", found["calibration_error"], "", bar=0.03, at_most=True)


def _time(found: dict[str, Any]) -> Iterator[Figure]:
    yield Figure("a resolution, the page known", found["resolve_ms_p50"], "ms", bar=2, at_most=True)
    cold = found["cold_ms_per_1000_elements_p50"]
    yield Figure("page and resolution, per 1,000 elements", cold, "ms", bar=20, at_most=True)
