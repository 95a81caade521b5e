"""What a step may say into the pipe RECOUP_RESET."""

from __future__ import annotations

import pytest

from recoup.model.failure import FailureKind
from recoup.runtimes.reset_request import Request, request_in


def test_a_request_is_a_kind_and_a_reason() -> None:
    assert request_in(b'{"kind": "soft", "reason": "torn"}') == Request("soft", "torn")
    assert Request("soft", "").failure is FailureKind.RESET_REQUESTED
    assert Request("hard", "").failure is FailureKind.HARD_RESET_REQUESTED


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"hard",
        b"[]",
        b'{"kind": "hard"}',
        b'{"kind": "cancel", "reason": "torn"}',
        b'{"kind": "hard", "reason": 1}',
        b"\xff\xfe",
        b'{"kind": "hard", "reason": "' + b"x" * 10_000 + b'"}',
    ],
)
def test_from_anything_else_nothing_follows(line: bytes) -> None:
    assert request_in(line) is None
