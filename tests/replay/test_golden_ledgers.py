"""Ledgers of earlier formats still fold, to the same documents. Never edit a golden file: add one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from recoup.kernel.classify import classify
from recoup.kernel.documents import run_document
from recoup.kernel.fold import fold
from recoup.kernel.prefix import ledger_document
from recoup.model.events import PAYLOADS, AttemptFailed, Event, decode_payload
from recoup.model.failure import FailureClass
from recoup.model.instant import Instant
from recoup.model.policy import Policy

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.json"))


def events_of(golden: dict[str, Any]) -> list[Event]:
    return [
        Event(
            f"run:{golden['runId']}",
            seq,
            Instant(*line["at"]),
            line["type"],
            decode_payload(line["type"], msgspec.json.encode(line["payload"])),
            msgspec.json.encode(line["payload"]),
        )
        for seq, line in enumerate(golden["events"], 1)
    ]


@pytest.fixture(params=GOLDEN, ids=lambda path: path.stem)
def golden(request: pytest.FixtureRequest) -> dict[str, Any]:
    return dict(json.loads(request.param.read_text()))


def test_there_are_golden_ledgers() -> None:
    assert {path.stem for path in GOLDEN} >= {"v1-demo", "v1-settled", "v1-cancelled"}


def test_an_old_ledger_folds_to_the_same_documents(golden: dict[str, Any]) -> None:
    state = fold(golden["runId"], events_of(golden))
    assert msgspec.to_builtins(ledger_document(state)) == golden["ledger"]
    document = msgspec.to_builtins(run_document(state))
    assert {key: document.get(key) for key in golden["run"]} == golden["run"]


def test_a_fact_of_a_newer_version_is_passed_by(golden: dict[str, Any]) -> None:
    newer = {"at": golden["events"][-1]["at"], "type": "task.run.admired", "payload": {"by": "everybody"}}
    state = fold(golden["runId"], events_of({**golden, "events": [*golden["events"], newer]}))
    assert msgspec.to_builtins(ledger_document(state)) == golden["ledger"]


def test_recorded_failures_can_be_classified_again(golden: dict[str, Any]) -> None:
    """`attempt.failed` records every input of the classifier; no-progress is decided from the marks."""
    failed = [
        e.payload
        for e in events_of(golden)
        if isinstance(e.payload, AttemptFailed) and e.payload.failure_class
    ]
    for payload in failed:
        wanted = {payload.failure_class, FailureClass.UNKNOWN, FailureClass.TRANSIENT_RUNTIME}
        again = classify(payload.facts, Policy())
        assert again is payload.failure_class or (
            payload.failure_class is FailureClass.STUCK_NO_PROGRESS and again in wanted
        )


def test_every_payload_round_trips() -> None:
    for name, payload in PAYLOADS.items():
        assert name == payload.TYPE
        assert set(payload.__struct_fields__)
