"""The log of a step: redacted, bounded, and true to the bytes."""

from __future__ import annotations

import secrets
from pathlib import Path

from recoup.redaction.redactor import SecretRedactor
from recoup.runtimes.step_log import StepLog


def test_bytes_survive_as_they_are(tmp_path: Path) -> None:
    raw = b"\x1b[31mred\x1b[0m \xff\xfe\x00 nul and \xc3\xa4\n"
    with StepLog(tmp_path / "log", SecretRedactor(), 1 << 20, "--- attempt 1") as log:
        log.feed("stdout", raw)
    assert (tmp_path / "log").read_bytes() == b"--- attempt 1\n" + raw


def test_a_flood_keeps_its_beginning_and_its_end_with_the_gap_marked(tmp_path: Path) -> None:
    limit = 1 << 20
    with StepLog(tmp_path / "log", SecretRedactor(), limit, "---") as log:
        log.feed("stdout", b"first line\n")
        for number in range(4000):
            log.feed("stdout", b"%06d " % number + b"x" * 1000 + b"\n")
        log.feed("stdout", b"last line\n")
    text = (tmp_path / "log").read_bytes()
    assert len(text) < limit + (128 << 10)
    assert b"first line" in text
    assert text.endswith(b"last line\n")
    assert b"left out: over log_bytes_max]" in text


def test_two_streams_never_share_a_line(tmp_path: Path) -> None:
    """Otherwise half of a secret on stdout and half on stderr would meet in the file."""
    redactor, secret = SecretRedactor(), "tok" + secrets.token_hex(12)
    redactor.register("TOKEN", secret)
    with StepLog(tmp_path / "log", redactor, 1 << 20, "---") as log:
        log.feed("stdout", secret[:9].encode())
        log.feed("stderr", secret[9:].encode())
    assert secret.encode() not in (tmp_path / "log").read_bytes()


def test_a_secret_that_the_gap_cuts_in_two_does_not_leak(tmp_path: Path) -> None:
    redactor, secret = SecretRedactor(), "tok" + secrets.token_hex(16)
    redactor.register("TOKEN", secret)
    with StepLog(tmp_path / "log", redactor, 1 << 20, "---") as log:
        for _ in range(100_000):
            log.feed("stdout", secret.encode())
    text = (tmp_path / "log").read_bytes()
    assert not [part for part in (secret[:12], secret[-12:], secret[8:20]) if part.encode() in text]


def test_a_secret_across_the_last_quarter_does_not_leak_when_nothing_is_left_out(tmp_path: Path) -> None:
    redactor, secret = SecretRedactor(), "tok" + secrets.token_hex(16)
    redactor.register("TOKEN", secret)
    with StepLog(tmp_path / "log", redactor, 4096, "---") as log:
        log.feed("stdout", b"x" * 3072 + b"\n" + secret[:20].encode())
        log.feed("stdout", secret[20:].encode() + b"\nlast line\n")
    text = (tmp_path / "log").read_bytes()
    assert secret[20:].encode() not in text
    assert text.endswith(b"\nlast line\n")
    assert b"left out" not in text


def test_attempts_share_one_file(tmp_path: Path) -> None:
    for attempt in (1, 2):
        with StepLog(tmp_path / "log", SecretRedactor(), 1 << 20, f"--- attempt {attempt}") as log:
            log.feed("stderr", b"no newline at the end")
    assert (tmp_path / "log").read_text() == (
        "--- attempt 1\nno newline at the end\n--- attempt 2\nno newline at the end\n"
    )
