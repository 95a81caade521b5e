"""Masks: what is volatile goes, what names the failure stays. By kind of token."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoup.kernel.masks import masked
from recoup.kernel.signature import TEXT_CHARS_MAX, output_hash, signature

KIND = "exit_nonzero"

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
    "file url": ("at file:///home/ann/a/main.mjs:3:7", "at file:///srv/b/main.mjs:3:7"),
    "socket url": ("no engine at unix:///home/ann/a/d.sock", "no engine at unix:///srv/b/d.sock"),
    "project folder": (
        "no `Cargo.toml` in `/home/ann/shop` or any parent directory",
        "no `Cargo.toml` in `/tmp/tmpab12cd34/checkout` or any parent directory",
    ),
    "project folder in brackets": (
        "bad package `x v0.1.0 (/home/ann/shop)`",
        "bad package `x v0.1.0 (/srv/b/checkout)`",
    ),
    "project folder after its name": ("rootdir: /home/ann/my.shop", "rootdir: /srv/b/4711/checkout"),
    "home of a user": ("no space at /home/ann", "no space at /home/builder"),
    "home": ("cannot read ~/src/conf.yaml", "cannot read /home/ann/src/conf.yaml"),
    "folder in an option": ("cc -I/home/ann/p/x.h failed", "cc -I/srv/b/x.h failed"),
    "folder with a blank": (
        'File "/Users/ann/My Work/x.py", line 3, in f',
        'File "/srv/x.py", line 3, in f',
    ),
    "redacted folder": ("cannot read /home/[redacted]/p/conf.yaml", "cannot read /srv/p/conf.yaml"),
    "temporary name": ("no space in /tmp/tmpk3j_x81q", "no space in /var/tmp/tmp00abcdef"),
    "mktemp name": ("rm: tmp.Xk29ab01Qz", "rm: tmp.aaBBccDDee"),
    "colour": ("\x1b[1;31merror\x1b[0m: boom", "error: boom"),
    "progress": ("[=====>    ] 45% error: boom", "[==>       ] 9% error: boom"),
    "width of a rule": ("======= error: boom =======", "=========== error: boom ==========="),
    "blanks": ("error:   boom\t now", "error: boom now"),
    "sign": ("offset = -15 failed", "offset = 3 failed"),
    "line in a library": (
        'File "/home/ann/v/lib/python3.11/site-packages/x/a.py", line 12, in f',
        'File "/usr/lib/python3/dist-packages/x/a.py", line 431, in f',
    ),
    "line in a relative library": ("at f (node_modules/x/a.js:12:3)", "at f (../node_modules/x/a.js:9:14)"),
    "line of the system": ("/usr/include/stdio.h:27:1: note", "/usr/include/stdio.h:104:12: note"),
    "line of the runtime": (
        "at java.base/java.util.ArrayList.get(ArrayList.java:427)",
        "at java.base/java.util.ArrayList.get(ArrayList.java:458)",
    ),
    "line of rust's library": (
        "at /rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/library/core/src/panicking.rs:80:14",
        "at /rustc/17067e9ac6d7e4a38605980761e1fa2540724bfb/library/core/src/panicking.rs:64:14",
    ),
    "line of data": ("orders.csv:12: bad row", "orders.csv:4711: bad row"),
    "duration in parts": ("gave up after 1h2m3s", "gave up after 45s"),
    "duration with and": ("gave up after 5 minutes and 3 seconds", "gave up after 9 milliseconds"),
    "less than": ("closed, lifetime <1 sec", "closed, lifetime 00:01"),
    "speed": ("stalled at 3.2 MB/s", "stalled at 17 kB/s"),
    "zone": ("at 2026-11-02 10:11:12 +0100: boom", "at 2026-11-02T10:11:12Z: boom"),
    "zone in words": ("Mon Nov  2 10:11:12 CET 2026: boom", "Sat Jul  4 10:11:12 CEST 2026: boom"),
    "date of a web log": (
        "[02/Nov/2026:10:11:12 +0000] boom",
        "[28/Feb/2027:23:00:01 -0700] boom",
    ),
    "mail date": (
        "Date: Mon, 02 Nov 2026 10:11:12 GMT: boom",
        "Date: Sun, 28 Feb 2027 23:00:01 GMT: boom",
    ),
    "mac address with dashes": ("lost 5c-50-15-4c-18-13", "lost a0-11-22-33-44-ed"),
    "name of a peer": ("connection from 10.0.0.7 (gw.example.org) lost", "connection from 10.1.2.3 () lost"),
    "host called after its address": (
        "no answer from ip-10-0-3-17.eu-1.compute.internal",
        "no answer from 172.16.0.9",
    ),
    "computer": ("lost DESKTOP-7AB12CD", "lost DESKTOP-QX99Z0K"),
    "user at an address": ("ann@10.0.0.7: Permission denied", "builder@10.9.9.9: Permission denied"),
    "mail address": ("cannot deliver to ann@example.org", "cannot deliver to b.c+d@example.org"),
    "pod": ("evicted web-7d4b9c6f5-x2x9z", "evicted web-5f6c8d9b7b-q8wzt"),
    "object": ("java.lang.Object@6d06d6 leaked", "java.lang.Object@1b6d3586 leaked"),
    "request id": ("request req_011CSHoEeqs5C35K2UUqR7Fy", "request req_01KXk2vN3hT7pQ9zW4rB8sLm"),
    "message in a mail queue": ("jA9KxIEr010207: deferred", "kB3MyQWe000042: deferred"),
    "job": ("attempt_1445144423722_0020_m_000004_0 died", "attempt_1445062781478_0011_m_000009_1 died"),
    "block": ("blk_-1608999687919862906 lost", "blk_38865049064139660 lost"),
    "object file": ("/tmp/ccT5Hg65.o: undefined", "/tmp/ccdqxpyf.o: undefined"),
    "name of mkstemp": ("/tmp/main-1a2b3c.o: undefined", "/tmp/main-9z8y7x.o: undefined"),
    "bar of blocks": (
        "error: 45%|████▌     | 45/100 [00:01<00:02, 30.1it/s]",
        "error: 9%|▉         | 9/100 [00:09<01:31, 1.1it/s]",
    ),
    "kind of quotes": ("unknown type name \u2018foo\u2019", "unknown type name 'foo'"),
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
    "request": ("GET /v2/users/list failed", "GET /v2/orders/list failed"),
    "http": ("server said HTTP 404", "server said HTTP 503"),
    "status in one word": ("{statusCode: 404}", "{statusCode: 502}"),
    "line in the project": ("src/main.c:12:5: error: x", "src/main.c:40:5: error: x"),
    "line in a frame": ('File "/home/ann/p/x.py", line 12, in f', 'File "/home/ann/p/x.py", line 40, in f'),
    "line of a script": ("./run.sh: line 3: gone", "./run.sh: line 4: gone"),
    "line in brackets": ("a.ts(1,2): error TS1005: x", "a.ts(9,2): error TS1005: x"),
    "folder of the system": ("cannot read /etc/one/main.conf", "cannot read /etc/two/main.conf"),
    "package of a monorepo": ("error in /home/ann/p/web: x", "error in /home/ann/p/api: x"),
    "folder that is missing": ("cannot access '/srv/app/logs'", "cannot access '/srv/app/data'"),
    "module by its path": (
        "Cannot find module '/home/ann/p/serve'",
        "Cannot find module '/home/ann/p/build'",
    ),
    "program": ("/home/ann/bin/lint: not found", "/home/ann/bin/test: not found"),
    "file without an extension": ("cannot read /home/ann/p/Makefile", "cannot read /home/ann/p/Dockerfile"),
    "folder of a container": ("exec /app/worker: not found", "exec /app/server: not found"),
    "temporary file with a name": ("cannot read /tmp/orders2.json", "cannot read /tmp/users2.json"),
    "file in a library": (
        "/v/lib/python3.11/site-packages/a/__init__.py: bad",
        "/v/lib/python3.11/site-packages/b/__init__.py: bad",
    ),
    "host behind a user": ("git@one.example.org: denied", "git@two.example.org: denied"),
    "unit of systemd": ("getty@tty1.service failed", "redis@tty1.service failed"),
    "package": ("no match for pen@1.2.3.tgz", "no match for ink@1.2.3.tgz"),
    "picture": ("missing icon@2x.png", "missing logo@2x.png"),
    "host before its address": (
        'at "one.example.org" (10.0.0.1): refused',
        'at "two.example.org" (10.0.0.2): refused',
    ),
    "method after a clock": ("10:11:12 POST x", "10:11:12 PUT x"),
    "long name": ("AbstractSingletonProxyFactoryBean", "AbstractSingletonProxyFactoryTree"),
    "word in a hexadecimal language": ("no such effaced", "no such defaced"),
    "kind of redaction": ("token [redacted] refused", "token refused"),
    "words of hexadecimal letters": ("the facade failed", "the decade failed"),
}


@pytest.mark.parametrize("kind", DIFFERENT)
def test_what_names_the_failure_does_change_it(kind: str) -> None:
    one, other = DIFFERENT[kind]
    assert signature(KIND, one) != signature(KIND, other)


WRITTEN = (
    r"/ a b1 tmp tmpabcd1234 5 12 123 - : :: . , = ( ) [ ] C:\ \ Jan Sat Feb error code exit HTTP/ 1.1 E TS "
    r"ORA- 0x 0x80070005 f fe80 ms s KB % <n> <d> < > file:// # ==== [=>-] _ ~ deadbeef abc1234 x é ⠋ "
    "\x1b[31m \x1b ~/ ../ /tmp/ /home/ /usr/ /a/node_modules/ site-packages/ .py .py: ', line File :/// @ a@b.cc "
    "(a.bc) 1.2.3.4 1-2-3-4 .gz 2026-11-02 T10:11:12 +0100 Z UTC CET 1m30s 9it/s ████ [redacted] ccab12cd.o "
    "DESKTOP-AB12CD3 -7d4b9c6f5-x2x9z jA9KxIEr010207 01HF3Z8K9M2N4P6Q8R0S GET java.util.A(A.java: 12345678-1234-1234-1234-123456789abc"
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


WORDS = st.from_regex(re.compile("[g-z]{2,12}", re.ASCII), fullmatch=True)
VOLATILE = st.sampled_from(
    [
        "17",
        "0x7f99",
        "10.0.0.7",
        "/home/ann/p/",
        "3.5s",
        "2026-11-02",
        "tmpk3j_x81q",
        "a489c868f0c3",
        "[redacted]",
    ]
)


@given(st.lists(WORDS, min_size=1, max_size=6), st.data())
def test_another_word_is_another_text(words: list[str], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(words) - 1))
    other = [*words[:index], data.draw(WORDS), *words[index + 1 :]]
    text = f"error {data.draw(VOLATILE)} {{}} {data.draw(VOLATILE)} end"
    same = words == other
    assert (masked(text.format(" ".join(words))) == masked(text.format(" ".join(other)))) is same


@given(st.lists(PIECES, max_size=6).map("".join), st.lists(PIECES, max_size=6).map("".join))
def test_what_was_redacted_stays_so(before: str, after: str) -> None:
    assert "[redacted]" in masked(f"{before} [redacted] {after}")


@given(st.integers(1, 10**5), st.integers(1, 10**5), WORDS)
def test_the_folder_of_the_project_does_not_change_it(one: int, other: int, word: str) -> None:
    text = f"{{}}/src/{word}.py:7: error: no {word}"
    assert masked(text.format(f"/home/u{one}/p{'x' * (one % 50)}")) == masked(
        text.format(f"/tmp/b/{other}/q")
    )


# Shapes of lines that other systems write: one row for each event, made up here.

EVENTS = (
    (
        "PacketResponder 1 for block blk_38865049064139660 terminating",
        "PacketResponder 0 for block blk_-6952295868487656571 terminating",
    ),
    (
        "Receiving block blk_-1608999687 src: /10.250.19.102:54106 dest: /10.250.19.102:50010",
        "Receiving block blk_5792489080791696128 src: /10.251.30.6:33145 dest: /10.251.30.6:50010",
    ),
    (
        "10.251.30.85:50010:Got exception while serving blk_-29181188182496 to /10.251.90.64:",
        "10.250.10.6:50010:Got exception while serving blk_12 to /10.251.9.4:",
    ),
    (
        "Address change detected. Old: node-a-41/10.190.173.170:9000 New: node-a-41:9000",
        "Address change detected. Old: node-a-39/10.190.173.17:8030 New: node-a-39:8030",
    ),
    (
        "exception for block BP-1347369012-10.190.173.170-1444972147527:blk_1073743512_2705",
        "exception for block BP-7-10.1.1.1-14449:blk_1_2",
    ),
    ("generating core.2275", "generating core.862"),
    ("CE sym 2, at 0x0b85eee0, mask 0x05", "CE sym 33, at 0x1f8a, mask 0x80"),
    (
        "login: chdir(/home/u1/src/hello1) failed: No such file or directory",
        "login: chdir(/home/usr12/jobs/hello2) failed: No such file or directory",
    ),
    ("iar 00106bd8 dear 0245a6a0", "iar 00106570 dear 02acaabc"),
    ("fp cr field.............0", "fp cr field...........1"),
    ("DHCPDISCOVER from 00:11:43:e3:ba:c3 via eth1", "DHCPDISCOVER from 00:11:43:cd:b0:71 via eth0"),
    (
        "Failed password for invalid user guest from 173.234.31.186 port 38926 ssh2",
        "Failed password for invalid user guest from 52.80.34.196 port 89 ssh2",
    ),
    (
        "Received disconnect from 52.80.34.196: 11: Bye Bye [preauth]",
        "Received disconnect from 112.95.230.3: 11: Bye Bye [preauth]",
    ),
    (
        "gw.example.org:5070 close, 0 bytes sent, 0 bytes received, lifetime <1 sec",
        "gw.example.org:5070 close, 301 bytes sent, 1 byte received, lifetime 01:02:03",
    ),
    (
        "gw.example.org:5070 close, 1301 bytes (1.27 KB) sent, 434 bytes received, lifetime 00:02",
        "gw.example.org:5070 close, 13301 bytes (12.9 KB) sent, 4 bytes received, lifetime <1 sec",
    ),
    ("child workerEnv in error state 6", "child workerEnv in error state 10"),
    ("Found child 6725 in scoreboard slot 10", "Found child 32347 in scoreboard slot 6"),
    (
        "[client 222.166.160.184] Directory index forbidden by rule: /var/www/html/",
        "[client 64.6.0.1] Directory index forbidden by rule: /var/www/html/",
    ),
)


def test_other_systems_lines_get_one_mask_for_each_event() -> None:
    assert len({masked(line) for lines in EVENTS for line in lines}) == len(EVENTS)
    for lines in EVENTS:
        assert len({masked(line) for line in lines}) == 1, lines


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
    "a/" * 100_000 + "node_modules/",
    "node_modules/" * 15_000,
    "site-packages/ " * 13_000,
    "~/" * 100_000,
    "File '/" * 30_000,
    "File '" + "/a" * 100_000,
    "java.util.java." * 13_000 + "A.java:",
    "a@" * 100_000,
    "a." * 100_000 + "@a." + "b." * 50_000,
    "@1a2b3" * 30_000,
    "1.2.3.4 (" * 22_000,
    "1-1-1-1-" * 25_000,
    "1-1-1-1" + ".a" * 100_000,
    "2026-11-02 " * 18_000,
    "1m1s" * 50_000,
    "1 s and " * 25_000,
    "-bcdf24-" * 25_000,
    "WIN-" * 50_000,
    "aB1" * 70_000,
    "a.py:1" * 30_000,
    "█ " * 100_000,
    "/[redacted]" * 18_000,
    "' `\"" * 50_000,
    "  at " * 40_000,
    "  at " + "a " * 100_000,
    "\n  at a.b:1" * 18_000,
    "(" * 100_000 + ")" * 100_000,
]


@pytest.mark.parametrize("text", ADVERSARIAL, ids=lambda text: ascii(text[:8]))
def test_no_text_makes_the_masks_slow(text: str) -> None:
    began = time.process_time()
    masked(text)
    # A quadratic pattern would need minutes for 200 KB.
    assert time.process_time() - began < 5


@pytest.mark.parametrize("text", ADVERSARIAL, ids=lambda text: ascii(text[:8]))
def test_a_signature_of_a_megabyte_takes_no_longer_than_one_of_its_end(text: str) -> None:
    flood = text * (1_000_000 // len(text) + 1)
    began = time.process_time()
    signature(KIND, flood)
    output_hash(flood)
    # About 10 ms each.
    assert time.process_time() - began < 1
    assert len(flood) > 50 * TEXT_CHARS_MAX
