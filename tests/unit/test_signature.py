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
    masked,
    output_hash,
    salient,
    signature,
)

KIND = "exit_nonzero"


def test_a_signature_names_its_version_and_is_pinned() -> None:
    # Compared with those in older ledgers: another value here means another SIGNATURE_VERSION.
    assert SIGNATURE_VERSION == 1
    assert signature(KIND, "connect to 10.0.0.7:5432 failed after 350 ms") == "v1:08197acc58f18d04"
    assert signature(KIND, "") == "v1:03a03f8af536f380"


SAME = {
    "pid": ("worker[4711] died", "worker[98] died"),
    "duration": ("gave up after 950ms", "gave up after 1.1s"),
    "compound duration": ("gave up after 1m 30s", "gave up after 12.5 seconds"),
    "size": ("read 93.0 B of 5.2 KB: failed", "read 1.2 MB of 17 GB: failed"),
    "date in words": ("failed at Sat Jun 25 09:20:24 2005", "failed at Mon Jul  4 12:00:00 2011"),
    "iso date": ("2026-11-02T10:11:12.123Z error: boom", "2027-01-31T23:59:59.001Z error: boom"),
    "clock": ("[22:32:34.846] error: boom", "[11:27:14.923] error: boom"),
    "port": ("bind 127.0.0.1:43211: address in use", "bind 127.0.0.1:60001: address in use"),
    "ip address": ("no route to host 10.1.2.3", "no route to host 192.168.100.200"),
    "ipv6 address": (
        "no route to fe80::c6b3:1ff:fecd:467f",
        "no route to 2607:f140:6000:8:c6b3:1ff:fecd:467f",
    ),
    "mac address": ("lost 5c:50:15:4c:18:13", "lost a0:11:22:33:44:ed"),
    "uuid": (
        "instance b9000564-fe1a-409b-b8cc-1e88b294cd1d gone",
        "instance 96abccce-8d1f-4e07-b6d1-4b2ab87e23b4 gone",
    ),
    "hash": ("bad object a489c868f0c37da93b76227c91bb03908ac0e742", "bad object 0b85eee"),
    "memory address": ("at <Foo object 0x7f9950712080>", "at <Foo object 0x55d01>"),
    "folder": ("cannot read /home/ann/src/a/conf.yaml", "cannot read /srv/build-7/conf.yaml"),
    "windows folder": (r"cannot read C:\Users\ann\conf.yaml", r"cannot read D:\build\7\conf.yaml"),
    "file url": ("at file:///home/ann/a/main.mjs:3:7", "at file:///srv/b/main.mjs:4:9"),
    "temporary name": ("no space in /tmp/tmpk3j_x81q", "no space in /var/tmp/tmp00abcdef"),
    "mktemp name": ("rm: tmp.Xk29ab01Qz", "rm: tmp.aaBBccDDee"),
    "colour": ("\x1b[1;31merror\x1b[0m: boom", "error: boom"),
    "progress": ("[=====>    ] 45% error: boom", "[==>       ] 9% error: boom"),
    "width of a rule": ("======= error: boom =======", "=========== error: boom ==========="),
    "blanks": ("error:   boom\t now", "error: boom now"),
    "sign": ("offset = -15 failed", "offset = 3 failed"),
    "line number": ('File "x.py", line 12, in f', 'File "x.py", line 431, in f'),
    "thread name": ("Exception in thread Thread-12", "Exception in thread Thread-3"),
}


@pytest.mark.parametrize("kind", SAME)
def test_what_is_volatile_does_not_change_it(kind: str) -> None:
    one, other = SAME[kind]
    assert masked(one) == masked(other)
    assert signature(KIND, one) == signature(KIND, other)


DIFFERENT = {
    "message": ("error: no such table", "error: no such column"),
    "exit code": ("make: *** [all] Error 1", "make: *** [all] Error 2"),
    "exit status": ("exited with status 1", "exited with status 137"),
    "http status": ('GET /x HTTP/1.1" 404 12', 'GET /x HTTP/1.1" 503 12'),
    "status code": ("failed: status: 404", "failed: status: 500"),
    "errno": ("OSError: [Errno 2] x", "OSError: [Errno 13] x"),
    "compiler code": ("a.ts(1,2): error TS2304: x", "a.ts(1,2): error TS2322: x"),
    "database code": ("ORA-00942", "ORA-01017"),
    "windows code": ("HRESULT = 0x800f080d", "HRESULT = 0x80070005"),
    "file name": ("cannot read /a/b/conf.yaml", "cannot read /a/b/main.yaml"),
    "relative path": ("cannot read a/conf.yaml", "cannot read b/conf.yaml"),
    "host name": ("could not resolve one.example.org", "could not resolve two.example.org"),
    "module": ("No module named 'numpy'", "No module named 'pandas'"),
    "test name": ("FAILED test_x.py::test_add", "FAILED test_x.py::test_sub"),
    "url path": ("GET https://example.org/users failed", "GET https://example.org/orders failed"),
    "words of hexadecimal letters": ("the facade failed", "the decade failed"),
}


@pytest.mark.parametrize("kind", DIFFERENT)
def test_what_names_the_failure_does_change_it(kind: str) -> None:
    one, other = DIFFERENT[kind]
    assert signature(KIND, one) != signature(KIND, other)


def test_the_kind_is_part_of_it() -> None:
    assert signature("exit_nonzero", "boom") != signature("idle_timeout", "boom")


WRITTEN = (
    r"/ a b1 tmp tmpabcd1234 5 12 123 - : :: . , = ( ) [ ] C:\ \ Jan Sat Feb error code exit HTTP/ 1.1 E TS "
    r"ORA- 0x 0x80070005 f fe80 ms s KB % <n> <d> < > file:// # ==== [=>-] _ ~ deadbeef abc1234 x é ⠋ "
    "\x1b[31m \x1b 12345678-1234-1234-1234-123456789abc"
)
PIECES = st.sampled_from([*WRITTEN.split(" "), " ", "\n", "\r", "\t", "\u2028", '"'])


@given(st.lists(PIECES, max_size=12).map("".join) | st.text(max_size=60))
def test_masking_twice_changes_nothing_more(text: str) -> None:
    assert masked(masked(text)) == masked(text)


@given(
    st.integers(0, 2**40),
    st.integers(0, 2**40),
    st.sampled_from(["pid=%d", "(%d)", "[%d] x", "t+%d ms", "%d"]),
)
def test_no_number_changes_it(one: int, other: int, form: str) -> None:
    text = f"worker {form}: queue lost"
    assert signature(KIND, text % one) == signature(KIND, text % other)


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
    other = noise(2) + TRACEBACK.format(user="bob", line=9, name="x", error="KeyError: 'total'") + "\n\n"
    assert signature(KIND, one) == signature(KIND, other)
    different = noise(1) + TRACEBACK.format(user="ann", line=7, name="x", error="KeyError: 'sum'")
    assert signature(KIND, one) != signature(KIND, different)


def test_an_error_without_a_message_is_told_by_the_frame_above_it() -> None:
    one = TRACEBACK.format(user="ann", line=7, name="x", error="AssertionError")
    other = TRACEBACK.format(user="ann", line=7, name="y", error="AssertionError")
    assert signature(KIND, one) != signature(KIND, other)


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


def test_the_output_hash_uses_the_same_masks() -> None:
    assert output_hash("pid 17 took 3 s\nfailed") == output_hash("pid 4411 took 250 ms\nfailed")
    assert output_hash("fetched a") != output_hash("fetched b")
    assert output_hash("").startswith("sha256:")


def test_only_the_end_of_the_output_counts_and_the_cut_does_not_shift_with_numbers() -> None:
    def log(start: int) -> str:
        return "".join(f"{start + i} line of words {'x' * (i % 50)}\n" for i in range(2_000))

    assert output_hash("something else\n" + log(1)) == output_hash(log(10**9)) == output_hash(log(1))
    assert OUTPUT_TAIL_LINES < 2_000


# Time

ADVERSARIAL = [
    "1" * 200_000,
    "1." * 100_000,
    "1.1:" * 50_000,
    "5s " * 70_000,
    "f" * 200_000,
    "abcdef1" * 30_000 + "g",
    "/" * 200_000,
    "/a" * 100_000,
    "/a/" * 70_000 + '"',
    " /" + "a" * 200_000,
    "C:\\" * 70_000,
    "C:\\" + "a " * 100_000,
    "::" * 100_000,
    "a:" * 100_000,
    "1:" * 100_000,
    "[" * 200_000,
    "[" + "=" * 200_000,
    "[= " * 70_000,
    "Jan " * 50_000,
    "tmp" * 70_000,
    "\x1b[" * 100_000,
    "\x1b[" + "0" * 200_000,
    "\x1b]" + "0;" * 100_000,
    "0x" * 100_000,
    "error " * 40_000,
    "error code " * 20_000,
    "-" * 200_000,
    " " * 200_000,
    "\n" * 200_000,
    "\r" * 200_000,
    "12345678-" * 25_000,
]


@pytest.mark.parametrize("text", ADVERSARIAL, ids=lambda text: ascii(text[:8]))
def test_no_text_makes_the_masks_slow(text: str) -> None:
    began = time.perf_counter()
    masked(text)
    signature(KIND, text[:100_000])
    # A quadratic pattern would need minutes for 200 KB.
    assert time.perf_counter() - began < 5
