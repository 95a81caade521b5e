"""How the weights are made: the same questions give the same numbers, and the numbers answer the questions."""

from __future__ import annotations

import numpy as np
from tools.resolver_training.booster import Boosting
from tools.resolver_training.questions import Amounts, Question, questions
from tools.resolver_training.training import Training, train

from recoup.targets.weights import Model, stored_bytes

LITTLE = Training(2, Boosting(trees=30, depth=3, rate=0.2))


def asked() -> list[Question]:
    made = questions([], {}, Amounts(generated_pages=12))
    # Calibration is fitted on recorded questions only; here the made-up ones stand in for them.
    return [Question(q.site, q.rows, q.right, q.same, 1.0, True) for q in made]


def test_training_is_reproducible_and_learns() -> None:
    numbers = train(asked(), LITTLE)
    assert stored_bytes(numbers) == stored_bytes(train(asked(), LITTLE))
    model = Model(numbers)
    present = [q for q in asked() if q.right.any()]
    gone = [q for q in asked() if not q.right.any()]
    right = [bool(q.right[int(model.choice(q.rows).argmax())]) for q in present]
    assert np.mean(right) > 0.9
    assert np.mean([model.choice(q.rows).sum() for q in gone]) < 0.35
