"""`recoup redact`: text in, the same text without secrets out."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

ARGV = [sys.executable, "-m", "recoup.cli.main", "redact"]
SECRET = "-".join(["open", "sesame", "99"])


def environ(**more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **more}


def redact(
    text: bytes, *args: str, cwd: Path | None = None, **more: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*ARGV, *args], input=text, capture_output=True, timeout=60, env=environ(**more), cwd=cwd
    )


def test_secrets_are_gone_from_stdout_and_counted_on_stderr() -> None:
    done = redact(f"a {SECRET} b\nc {SECRET}{SECRET} {SECRET}\n".encode(), MY_TOKEN=SECRET)
    assert done.stdout == b"a [redacted] b\nc [redacted] [redacted]\n"
    assert done.stderr == b"3 secrets hidden\n"
    assert done.returncode == 0


def test_one_secret_is_counted_as_one() -> None:
    assert redact(SECRET.encode(), MY_TOKEN=SECRET).stderr == b"1 secret hidden\n"
    assert redact(b"nothing here", MY_TOKEN=SECRET).stderr == b"0 secrets hidden\n"


def test_secrets_that_nobody_registered_are_counted_too() -> None:
    unknown = "gh" + "p_" + "aB3dE5gH7j" * 3 + "kL9mN1"
    done = redact(f"a {SECRET} b\nsent {unknown}\npassword={SECRET}\n".encode(), MY_TOKEN=SECRET)
    assert done.stdout == b"a [redacted] b\nsent [redacted]\npassword=[redacted]\n"
    assert done.stderr == b"3 secrets hidden\n"


def test_a_named_variable_is_hidden_whatever_it_is_called() -> None:
    assert redact(SECRET.encode(), CUSTOMER=SECRET).stdout == SECRET.encode()
    done = redact(
        SECRET.encode(), "--register", "CUSTOMER", "--register", "OTHER", CUSTOMER=SECRET, OTHER="1234"
    )
    assert done.stdout == b"[redacted]"


def test_bytes_that_are_no_text_pass_unchanged() -> None:
    noise = bytes(range(256)) * 1_000
    assert redact(noise, MY_TOKEN=SECRET).stdout == noise


def test_a_file_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "build.log").write_text(f"<{SECRET}>")
    assert redact(b"", "build.log", cwd=tmp_path, MY_TOKEN=SECRET).stdout == b"<[redacted]>"
    assert redact(b"from stdin", "-", cwd=tmp_path).stdout == b"from stdin"


def test_json_is_one_document_with_the_text_and_the_count() -> None:
    done = redact(f'é\n"{SECRET}" '.encode() + b"\xff\xc3", "--json", MY_TOKEN=SECRET)
    assert json.loads(done.stdout) == {"text": 'é\n"[redacted]" \ufffd\ufffd', "hidden": 1}
    assert done.stdout.count(b"\n") == 1
    assert done.stderr == b""


@pytest.mark.parametrize(
    ("args", "more", "words"),
    [
        (["--register", "CUSTOMER"], {}, "CUSTOMER is not set here"),
        (["--register", "CUSTOMER"], {"CUSTOMER": "abc"}, "has 3 characters"),
        (["no-such-file"], {}, "no-such-file cannot be read: No such file"),
        (["."], {}, ". cannot be read: Is a directory"),
    ],
)
def test_what_cannot_be_done_is_said_with_exit_code_2(
    args: list[str], more: dict[str, str], words: str, tmp_path: Path
) -> None:
    done = redact(b"text", *args, cwd=tmp_path, **more)
    assert done.returncode == 2
    assert words in done.stderr.decode()
    assert b"Traceback" not in done.stderr
    assert done.stdout == b""
    assert "error" in json.loads(redact(b"text", "--json", *args, cwd=tmp_path, **more).stdout)


def test_text_comes_out_as_soon_as_it_is_safe() -> None:
    with subprocess.Popen(
        ARGV,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environ(MY_TOKEN=SECRET),
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(b"a line\n")
        process.stdin.flush()
        assert os.read(process.stdout.fileno(), 100) == b"a line\n"
        process.stdin.write(SECRET.encode() + b"\n")
        process.stdin.close()
        assert process.stdout.read() == b"[redacted]\n"


def test_a_reader_that_goes_away_is_no_error() -> None:
    with subprocess.Popen(
        ARGV, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ()
    ) as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        process.stdout.close()
        process.stdin.write(b"text\n" * 10)
        process.stdin.close()
        assert b"Traceback" not in process.stderr.read()
        assert process.wait(30) == 0


def test_a_full_disk_is_said() -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            ARGV, input=b"text", stdout=full, stderr=subprocess.PIPE, timeout=60, env=environ()
        )
    assert done.returncode == 75
    assert b"No space left" in done.stderr
    assert b"Traceback" not in done.stderr


def test_memory_does_not_grow_with_the_text(tmp_path: Path) -> None:
    large = tmp_path / "large"
    with large.open("wb") as file:
        for _ in range(100):
            file.write(b"a line of some length\n" * 50_000)
    small = tmp_path / "small"
    small.write_bytes(b"a line of some length\n")
    needed_kb = []
    for path in (small, large):
        done = subprocess.run(
            [*ARGV, "--json", str(path)], stdout=subprocess.DEVNULL, timeout=100, env=environ(MY_TOKEN=SECRET)
        )
        assert done.returncode == 0
        # The most that any child has needed so far: also the first one, which may compile the patterns.
        needed_kb.append(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
    assert needed_kb[1] < needed_kb[0] + 50_000
