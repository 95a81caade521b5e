"""The product's resolver behind the evaluator's interface: recorded rows become elements, and nothing else is added."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    # The evaluator is a program of its own: it knows this file, not the project around it.
    sys.path.insert(0, str(ROOT))

from benchmarks.locators.elements import element_of  # noqa: E402
from recoup.model.target import Floors, Target  # noqa: E402
from recoup.targets.page import Page  # noqa: E402
from recoup.targets.profiles import profile  # noqa: E402
from recoup.targets.resolve import resolve as resolved  # noqa: E402
from recoup.targets.weights import Model  # noqa: E402

FLOORS: Final = {"running": Floors(0.72, 0.0), "degraded": Floors(0.82, 0.08)}
_trained: Model | None = None


def load_page(candidates: list[dict[str, Any]]) -> Page:
    return Page([element_of(row) for row in candidates])


def resolve(target: dict[str, Any], page: Page, *, mode: str = "running", attempt: int = 1) -> dict[str, Any]:
    """As the product does it: in degraded mode nothing is relaxed, otherwise a level per attempt."""
    level = 0 if mode == "degraded" else attempt - 1
    made = resolved(Target(recorded=element_of(target)), page, profile(level), FLOORS[mode], model=_trained)
    return {
        "index": made.chosen.index if made.chosen else None,
        "best_index": made.best.index if made.best else None,
        "confidence": made.best.confidence if made.best else 0.0,
        "margin": made.margin,
    }


def train(pairs: list[dict[str, Any]], pages: dict[str, list[dict[str, Any]]]) -> None:
    from tools.resolver_training.drift import Pair
    from tools.resolver_training.questions import Amounts, questions
    from tools.resolver_training.training import Training
    from tools.resolver_training.training import train as numbers_from

    global _trained
    elements = {site: [element_of(row) for row in rows] for site, rows in pages.items()}
    recorded = [Pair(pair["site"], element_of(pair["target"]), pair["truth"]) for pair in pairs]
    _trained = Model(numbers_from(questions(recorded, elements, Amounts()), Training()))
