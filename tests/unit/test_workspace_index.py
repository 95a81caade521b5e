"""An index is altered only if it is understood to the last byte."""

from __future__ import annotations

import hashlib
import os
import struct
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from recoup.workspace.index import Entry, with_status, without_status

STATUS = Path(__file__).stat()
NAMES = st.lists(st.binary(min_size=1, max_size=30).filter(lambda name: 0 not in name), max_size=6)
EXTENSIONS = st.lists(
    st.tuples(st.sampled_from([b"TREE", b"UNTR", b"REUC", b"sdir"]), st.binary(max_size=9)), max_size=3
)


def index(names: list[bytes], extensions: list[tuple[bytes, bytes]] = [], stat: bytes = b"\7") -> bytes:  # noqa: B006
    records = b"".join(_record(name, stat) for name in names)
    tail = b"".join(struct.pack(">4sI", name, len(data)) + data for name, data in extensions)
    content = struct.pack(">4sII", b"DIRC", 2, len(names)) + records + tail
    return content + hashlib.sha1(content).digest()


def _record(name: bytes, stat: bytes) -> bytes:
    mode = struct.pack(">I", 0o100644)
    record = stat * 24 + mode + stat * 12 + b"i" * 20 + struct.pack(">H", min(len(name), 0xFFF)) + name
    return record + bytes(8 - len(record) % 8)


@given(NAMES, EXTENSIONS)
def test_the_status_of_files_is_all_that_goes(
    names: list[bytes], extensions: list[tuple[bytes, bytes]]
) -> None:
    kept = [(name, data) for name, data in extensions if name != b"UNTR"]
    assert without_status(index(names, extensions)) == index(names, kept, stat=b"\0")


@given(NAMES, EXTENSIONS)
def test_given_a_status_and_rid_of_it_an_index_is_as_before(
    names: list[bytes], extensions: list[tuple[bytes, bytes]]
) -> None:
    bare = without_status(index(names, extensions))
    assert bare is not None
    seen: list[bytes] = []

    def status_of(entry: Entry) -> os.stat_result:
        seen.append(entry.path)
        return STATUS

    filled = with_status(bare, status_of)
    assert seen == names
    assert without_status(filled) == bare
    assert (filled == bare) == (not names)


@given(st.binary() | st.binary().map(lambda data: b"DIRC" + data))
def test_anything_else_is_left_alone(data: bytes) -> None:
    assert without_status(data) is None
    assert with_status(data, lambda _: STATUS) == data


@given(NAMES, st.data())
def test_an_index_with_any_wrong_byte_is_left_alone(names: list[bytes], data: st.DataObject) -> None:
    raw = bytearray(index(names))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 + data.draw(st.integers(0, 254))
    assert without_status(bytes(raw)) is None


@given(st.binary(max_size=200), st.integers(0, 2**32 - 1), st.sampled_from([2, 3, 4, 5]))
def test_nonsense_with_a_right_checksum_is_left_alone_or_kept_in_order(
    data: bytes, count: int, version: int
) -> None:
    content = struct.pack(">4sII", b"DIRC", version, count) + data
    bare = without_status(content + hashlib.sha1(content).digest())
    assert bare is None or without_status(bare) == bare


def test_an_index_in_several_files_is_left_alone() -> None:
    assert without_status(index([b"a"], [(b"link", b"x" * 20)])) is None
