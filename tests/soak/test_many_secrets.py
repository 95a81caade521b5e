"""100,000 secrets of many runs in one process: each is hidden, and none is remembered."""

from __future__ import annotations

import gc
import secrets
import sys

import pytest

from recoup.fleet.redactors import RunRedactors
from recoup.redaction.redactor import SecretRedactor


@pytest.mark.soak
def test_a_hundred_thousand_secrets_of_many_runs_leave_nothing_behind() -> None:
    redactors, alive, paid = RunRedactors(SecretRedactor()), list[int](), set[int]()
    for run in range(2_000):
        of_run = redactors.of(f"run-{run}")
        values = [secrets.token_hex(8) for _ in range(50)]
        for number, value in enumerate(values):
            of_run.register(f"output-{number}", value)
        assert not any(value in of_run.redact("\n".join(values)).text for value in values)
        paid.add(of_run.layered_forms // 1_000)
        del of_run
        if run % 500 == 499:
            gc.collect()
            alive.append(sys.getallocatedblocks())
    assert len(redactors) == 0
    assert len(paid) <= 2
    assert alive[-1] <= alive[0] * 1.02
