"""How real tools fail: recorded by tools/record_failures.py, three times each, in another folder, at another port, for
another user and on another day."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import pytest
from tools.record_failures import (
    CASES,
    GOLDEN,
    UNWANTED,
    VARIANTS,
    recorded,
    runnable,
    toolbox,
    version_of,
)

from recoup.kernel.signature import output_hash, signature
from recoup.model.failure import FailureKind

TOOLS = (
    "cargo",
    "curl",
    "docker",
    "gcc",
    "git",
    "npm",
    "pip",
    "playwright",
    "psql",
    "pytest",
    "ssh",
    "tsc",
    "unittest",
)
FAILURES_MIN = 3
EXCERPT_BYTES = 4_096

FILES = sorted(GOLDEN.glob("*/*.txt"))


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.name.split('.')[0]}"


def by_failure() -> dict[str, list[bytes]]:
    texts: dict[str, list[bytes]] = defaultdict(list)
    for path in FILES:
        texts[name_of(path)].append(path.read_bytes())
    return texts


TEXTS = by_failure()
SIGNATURES: dict[str, str] = json.loads((GOLDEN / "signatures.json").read_text())


def signature_of(output: bytes) -> str:
    return signature(FailureKind.EXIT_NONZERO, output.decode("utf-8", "replace"))


def excerpt(output: bytes) -> bytes:
    """As the engine keeps it: the end, cut anywhere."""
    return output[-EXCERPT_BYTES:].strip()


@pytest.mark.parametrize("failure", TEXTS)
def test_the_same_failure_has_one_signature_wherever_and_whenever(failure: str) -> None:
    assert len(TEXTS[failure]) == len(VARIANTS)
    assert len({signature_of(text) for text in TEXTS[failure]}) == 1
    assert len({signature_of(excerpt(text)) for text in TEXTS[failure]}) == 1


@pytest.mark.parametrize("failure", TEXTS)
def test_the_same_failure_has_one_output_hash(failure: str) -> None:
    assert len({output_hash(text.decode("utf-8", "replace")) for text in TEXTS[failure]}) == 1


def test_a_change_of_a_signature_needs_another_version() -> None:
    # Compared with those in older ledgers. After a change of the masks: raise SIGNATURE_VERSION and record again.
    assert {failure: signature_of(texts[0]) for failure, texts in TEXTS.items()} == SIGNATURES


def test_the_recordings_do_differ() -> None:
    varied = [failure for failure, texts in TEXTS.items() if len(set(texts)) == len(texts)]
    # Some tools say the same anywhere: "unknown flag: --colour".
    assert len(varied) > len(TEXTS) / 2


def test_two_failures_have_two_signatures() -> None:
    owners: dict[str, set[str]] = defaultdict(set)
    for failure, texts in TEXTS.items():
        for text in texts:
            owners[signature_of(text)].add(failure)
            owners[signature_of(excerpt(text))].add(failure)
    assert not [names for names in owners.values() if len(names) > 1]


@pytest.mark.parametrize("tool", TOOLS)
def test_every_tool_fails_in_several_ways(tool: str) -> None:
    assert sum(failure.startswith(f"{tool}/") for failure in TEXTS) >= FAILURES_MIN


def test_what_is_recorded_is_what_the_recorder_records() -> None:
    assert set(TEXTS) == {case.name for case in CASES}


def test_no_recording_holds_a_path_of_a_workplace_or_a_host_of_a_registry() -> None:
    texts = {path.name: path.read_bytes() for path in FILES}
    assert not [(name, word) for name, text in texts.items() for word in UNWANTED if word in text]


# Again, by running them


@pytest.mark.soak
@pytest.mark.timeout(1_800)
def test_the_tools_that_are_here_still_fail_with_the_recorded_signatures() -> None:
    known = json.loads((GOLDEN / "versions.json").read_text())
    with toolbox() as box:
        cases, reasons = runnable(box, list(CASES))
        others = {tool for tool in {case.tool for case in cases} if version_of(tool, box) != known[tool]}
        live = {case.name: {signature_of(text) for text in recorded(case, box).values()} for case in cases}
    reasons += [
        f"{tool}: another version than {known[tool]}, compared with itself" for tool in sorted(others)
    ]
    print(*reasons, sep="\n")
    assert not {name: found for name, found in live.items() if len(found) > 1}
    assert len(set.union(*live.values())) == len(live), "two failures with one signature"
    comparable = [case.name for case in cases if case.tool not in others]
    assert not [name for name in comparable if live[name] != {SIGNATURES[name]}]
