"""What others wrote cannot act on the terminal of whoever looks at it, whichever command shows it."""

from __future__ import annotations

import json
import os
import re
import sys
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from tests.scenario.conftest import Cli
from tests.terminals import PATIENCE_S, Terminal, sent_to_terminal

HOSTILE = (
    "\x1b]52;c;cm0gLXJm\x07\x1b]0;owned\x1b\\\x1b[2J\x1b[8mhidden\x1b[0m\x9b2J\x9d0;owned\x9c\rover\x08\x7f"
    "\u202egnp\u2066\U000e0041\u200b\ufeff\u2028forged"
)
OURS = re.compile(rb"\x1b\[(?:0|1|2|31|32|33|36)m")
PLAN = """
version: 1
name: hostile
steps:
  - {id: print, run: 'cat hostile.txt; cat hostile.txt >&2'}
  - {id: ask, approve: {message: 'Go?'}}
"""
COMMANDS = [
    ["runs"],
    ["show", "last"],
    ["events", "last"],
    ["ledger", "last"],
    ["logs", "FIRST"],
    ["logs", "FIRST", "print"],
    ["events", "FIRST"],
    ["show", "FIRST"],
    ["escalations", "list"],
    ["mode"],
    ["mode", "hostile"],
    ["queue"],
    ["webhooks", "list"],
    ["audit", "show"],
    ["control", "last", "pause", "--reason", HOSTILE],
    ["runs", "--text", HOSTILE],
    ["show", HOSTILE],
    [HOSTILE],
]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory, commands: Any) -> Cli:
    """A home in which every text that others can store is hostile."""
    folder = tmp_path_factory.mktemp("hostile")
    cli = Cli(folder / "home", folder, commands)
    (folder / "hostile.txt").write_text(HOSTILE)
    cli("run", cli.plan(PLAN))
    assert cli("control", "last", "reject", "--reason", HOSTILE).code == 0
    cli(
        "run", cli.plan("{version: 1, name: hostile, steps: [{id: pay, run: 'cat hostile.txt >&2; exit 9'}]}")
    )
    assert cli("mode", "hostile", "paused", "--reason", HOSTILE).code == 0
    hook = cli(
        "webhooks",
        "add",
        "http://127.0.0.1:9/x",
        "--events",
        "Escalated",
        "--name",
        HOSTILE,
        "--reason",
        HOSTILE,
    )
    assert hook.code == 0, hook.err
    assert cli("submit", cli.plan(PLAN)).code == 0
    assert cli("audit", "export").code == 0
    return cli


@pytest.mark.parametrize(
    "words", COMMANDS, ids=lambda words: " ".join(words).encode("unicode_escape").decode()[:30]
)
def test_nothing_stored_acts_on_the_terminal_it_is_shown_on(hostile: Cli, words: list[str]) -> None:
    sent = on_terminal(hostile, *(first_run(hostile) if word == "FIRST" else word for word in words))
    assert sent
    assert_harmless(sent)


def test_json_is_exact_and_shows_what_is_invisible(hostile: Cli) -> None:
    sent = on_terminal(hostile, "mode", "hostile", "--json")
    assert_harmless(sent)
    assert b"\\u001b]52" in sent and b"\\u202e" in sent and b"\\udb40\\udc41" in sent
    assert json.loads(sent)["reason"] == HOSTILE


def test_a_log_is_exact_in_a_pipe(hostile: Cli) -> None:
    done = hostile("logs", first_run(hostile), "print")
    assert done.out.count("\x1b]52;c;cm0gLXJm\x07") == 2


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (b"\x89PNG\r\n\x1a\n", b"image/png, 8 bytes: not printed on a terminal"),
        (b"PK\x03\x04", b"> evidence.zip"),
        (b"\xff\xfe", b"application/octet-stream, 2 bytes"),
        (b'{"a": "\x1b[2J"}', b'{"a": "\\x1b[2J"}'),
    ],
)
def test_evidence_on_a_terminal_is_its_text_or_how_to_save_it(
    content: bytes, shown: bytes, tmp_path: Path
) -> None:
    code = f"from recoup.cli.look import _hand_over_evidence as show; show('run-1', 'sha256:12', {content!r})"
    with Terminal(columns=120) as terminal:
        process = terminal.start([sys.executable, "-c", code], os.environ, tmp_path)
        terminal.watch(process)
        assert process.wait(PATIENCE_S) == 0
    assert shown in terminal.sent
    assert_harmless(terminal.sent)


def test_a_mistake_of_ours_is_told_as_words(tmp_path: Path) -> None:
    code = (
        "import logging; from recoup.terminal.writer import clean_reports; clean_reports(); "
        "logging.getLogger('x').error('\\x1b]0;logged\\x07'); raise RuntimeError('\\x1b[2Jraised')"
    )
    with Terminal(columns=120) as terminal:
        process = terminal.start([sys.executable, "-c", code], os.environ, tmp_path)
        terminal.watch(process)
        assert process.wait(PATIENCE_S) == 1
    assert b"logged" in terminal.sent and b"RuntimeError: \\x1b[2Jraised" in terminal.sent
    assert_harmless(terminal.sent)


def first_run(cli: Cli) -> str:
    return str(cli("runs", "--json").json[-1]["runId"])


def on_terminal(cli: Cli, *words: str) -> bytes:
    return sent_to_terminal(cli.commands, *words, env=cli.environ(), cwd=cli.folder)


def assert_harmless(sent: bytes) -> None:
    text = OURS.sub(b"", sent.replace(b"\r\n", b"\n")).decode()
    strange = {char for char in text if unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp")} - {"\n", "\t"}
    assert not strange, (strange, text)
