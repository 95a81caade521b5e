"""Signatures: one for the same failure seen again, two for two failures."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoup.kernel.signature import (
    ERROR_LINES_MAX,
    OUTPUT_TAIL_LINES,
    SIGNATURE_VERSION,
    last_error_line,
    output_hash,
    salient,
    signature,
)

KIND = "exit_nonzero"


def test_a_signature_names_its_version_and_is_pinned() -> None:
    # Compared with those in older ledgers: another value here means another SIGNATURE_VERSION.
    assert SIGNATURE_VERSION == 2
    assert signature(KIND, "connect to 10.0.0.7:5432 failed after 350 ms") == "v2:08197acc58f18d04"
    assert signature(KIND, "") == "v2:03a03f8af536f380"


def test_the_kind_is_part_of_it() -> None:
    assert signature("exit_nonzero", "boom") != signature("idle_timeout", "boom")


@given(st.text(max_size=200), st.text(max_size=200))
def test_it_depends_on_the_text_alone(text: str, meanwhile: str) -> None:
    before = signature(KIND, text)
    signature(KIND, meanwhile)
    assert signature(KIND, text) == before


# The salient part

TRACEBACK = """\
Traceback (most recent call last):
  File "/home/{user}/p/main.py", line {line}, in <module>
    main()
  File "/home/{user}/p/main.py", line {line}, in main
    load({name!r})
{error}
"""


def noise(seed: int) -> str:
    return "".join(f"item {seed * 1000 + i} copied, {'abcdef'[i % 6] * (seed + 1)}\n" for i in range(60))


def test_of_a_long_log_the_error_at_its_end_counts_not_its_beginning() -> None:
    one = noise(1) + TRACEBACK.format(user="ann", line=7, name="x", error="KeyError: 'total'")
    other = noise(2) + TRACEBACK.format(user="bob", line=7, name="x", error="KeyError: 'total'") + "\n\n"
    assert signature(KIND, one) == signature(KIND, other)
    different = noise(1) + TRACEBACK.format(user="ann", line=7, name="x", error="KeyError: 'sum'")
    assert signature(KIND, one) != signature(KIND, different)


def test_an_error_without_a_message_is_told_by_the_frame_above_it() -> None:
    one = TRACEBACK.format(user="ann", line=7, name="x", error="AssertionError")
    other = TRACEBACK.format(user="ann", line=7, name="y", error="AssertionError")
    assert signature(KIND, one) != signature(KIND, other)


def test_an_error_at_another_line_of_the_project_is_another_failure() -> None:
    one = TRACEBACK.format(user="ann", line=7, name="x", error="KeyError: 'total'")
    other = TRACEBACK.format(user="ann", line=9, name="x", error="KeyError: 'total'")
    assert signature(KIND, one) != signature(KIND, other)


LIBRARY_TRACEBACK = """\
Traceback (most recent call last):
  File "{project}/orders.py", line {line}, in fetch
    return session.get(url)
  File "{packages}/requests/sessions.py", line {inside}, in get
    return self.request("GET", url, **kwargs)
  File "{packages}/requests/sessions.py", line {inside}, in request
    resp = self.send(prep, **send_kwargs)
  File "{packages}/requests/adapters.py", line {inside}, in send
    raise ConnectionError(e, request=request)
requests.exceptions.ConnectionError: refused
"""


def in_library(project: str, packages: str, line: int, inside: int) -> str:
    text = LIBRARY_TRACEBACK.format(project=project, packages=packages, line=line, inside=inside)
    return signature(KIND, text)


def test_lines_of_frames_outside_the_project_do_not_count_and_those_inside_do() -> None:
    one = in_library("/home/ann/shop", "/home/ann/venv/lib/python3.11/site-packages", 12, 602)
    assert one == in_library("/srv/ci/4711/shop", "/usr/lib/python3/dist-packages", 12, 589)
    assert one != in_library("/home/ann/shop", "/home/ann/venv/lib/python3.11/site-packages", 40, 602)


STACK = """\
TypeError: Cannot read properties of null (reading 'items')
    at parse ({root}/node_modules/basket/index.js:{inside}:5)
    at Module._compile (node:internal/modules/cjs/loader:{inside}:14)
    at total ({root}/src/{file}:{line}:9)
    at Object.<anonymous> ({root}/src/main.js:2:1)
"""


def test_the_nearest_frame_of_the_project_counts_where_the_stack_comes_after_the_error() -> None:
    def told(root: str = "/home/ann/p", file: str = "shop.js", line: int = 3, inside: int = 7) -> str:
        return signature(KIND, STACK.format(root=root, file=file, line=line, inside=inside))

    assert told() == told(root="/var/tmp/x/checkout", inside=1512)
    assert len({told(), told(file="till.js"), told(line=4)}) == 3


def test_the_first_lines_of_a_long_error_block_count_too() -> None:
    block = "installing\nready\nnpm error request for {} failed\n" + "npm error at somewhere\n" * 20
    assert signature(KIND, block.format("left")) != signature(KIND, block.format("right"))


def test_a_block_that_was_cut_counts_by_its_end() -> None:
    lines = [f"error: {'x' * (i % 7)} is wrong" for i in range(80)]
    assert signature(KIND, "\n".join(lines)) == signature(KIND, "\n".join(lines[13:]))


@pytest.mark.parametrize("text", ["", "\n", "\n\n", "\r", " \n\t\n", "\x1b[0m\n", "\x00\n\ud800"])
def test_a_text_without_words_has_a_signature_too(text: str) -> None:
    assert signature(KIND, text).startswith("v2:")
    assert output_hash(text).startswith("sha256:")


def test_a_general_last_line_does_not_hide_the_error_before_it() -> None:
    compile_log = (
        "error[{}]: {}\n --> src/main.rs:2:5\n\n" + "warning: x\n" * 8 + "error: could not compile `p`\n"
    )
    one = compile_log.format("E0308", "mismatched types")
    other = compile_log.format("E0425", "cannot find value `y`")
    assert signature(KIND, one) != signature(KIND, other)


def test_no_more_than_a_few_error_lines_count() -> None:
    lines = [f"error: {'x' * (i + 1)}" for i in range(100)]
    kept = salient("\n".join(lines)).split("\n")
    assert kept == lines[-ERROR_LINES_MAX:]


def test_lines_that_deny_an_error_do_not_count() -> None:
    assert last_error_line("error: boom\n3 passed, 0 errors\nno failures\nbye") == "error: boom"


def test_only_the_last_state_of_an_overwritten_line_counts() -> None:
    assert salient("10%\r50%\rerror: boom\r\nbye") == "error: boom\nbye"
    assert output_hash("step a\r 10%\r 20%\nend") == output_hash("step a\r 70%\nend")


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("", ""),
        ("one\ntwo\n\n", "two"),
        ("error: first\nnote: x\nerror: second\nbye", "error: second"),
        (
            "== FAILURES ==\nE   assert 1 == 2\nFAILED t.py::test_a - assert 1 == 2\n== 1 failed in 0.1s ==",
            "FAILED t.py::test_a - assert 1 == 2",
        ),
        ("\x1b[31mfatal: no such ref\x1b[0m", "fatal: no such ref"),
        ("2 failed, 1 passed", "2 failed, 1 passed"),
    ],
)
def test_the_line_to_quote_is_the_last_that_speaks_of_an_error(log: str, line: str) -> None:
    assert last_error_line(log) == line


# Output


def test_where_a_tool_wrapped_its_lines_does_not_count() -> None:
    assert output_hash("stack: [ '/a/x.js' ]\nend") == output_hash("stack: [\n  '/a/x.js'\n]\nend")


def test_the_output_hash_uses_the_same_masks() -> None:
    assert output_hash("pid 17 took 3 s\nfailed") == output_hash("pid 4411 took 250 ms\nfailed")
    assert output_hash("fetched a") != output_hash("fetched b")
    assert output_hash("").startswith("sha256:")


def test_no_more_than_the_end_of_a_text_is_looked_at() -> None:
    flood = "error: y\n" * 200_000
    began = time.process_time()
    assert signature(KIND, flood + "error: boom") == signature(KIND, flood[: len(flood) // 2] + "error: boom")
    assert output_hash(flood + "boom") == output_hash(flood[: len(flood) // 2] + "boom")
    # Looking at all 1.8 MB of it would take seconds.
    assert time.process_time() - began < 2


def test_only_the_end_of_the_output_counts_and_the_cut_does_not_shift_with_numbers() -> None:
    def log(start: int) -> str:
        return "".join(f"{start + i} line of words {'x' * (i % 50)}\n" for i in range(2_000))

    assert output_hash("something else\n" + log(1)) == output_hash(log(10**9)) == output_hash(log(1))
    assert OUTPUT_TAIL_LINES < 2_000
