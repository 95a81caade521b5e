"""Names survive the way to JSON and back; trees have the ids that git gives them."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoup.workspace.manifest import Manifest, StoredFolder
from recoup.workspace.names import bytes_of, joined, shown, text_of
from recoup.workspace.trees import EXECUTABLE, FILE, LINK, Leaf, plant
from recoup.workspace.walk import gitfile_target

NAME = st.binary(min_size=1, max_size=12).filter(lambda name: not {0, 47} & set(name))
PATH = st.lists(NAME, min_size=1, max_size=3).map(b"/".join)


@given(st.binary())
def test_every_name_comes_back_from_text(name: bytes) -> None:
    assert bytes_of(text_of(name)) == name


@given(st.binary())
def test_a_name_for_people_is_one_printable_line(name: bytes) -> None:
    assert shown(name).isprintable()
    shown(name).encode("utf-8")


@given(st.text())
def test_plain_names_are_shown_as_they_are(text: str) -> None:
    if text.isprintable():
        assert shown(text.encode()) == text


def test_either_part_of_a_path_may_be_empty() -> None:
    assert [joined(b"", b"a"), joined(b"a", b""), joined(b"a", b"b")] == [b"a", b"a", b"a/b"]


@given(st.dictionaries(PATH, st.sampled_from([FILE, EXECUTABLE, LINK])))
def test_the_order_of_the_leaves_does_not_matter(modes: dict[bytes, bytes]) -> None:
    leaves = [Leaf(path, mode, "00" * 20) for path, mode in modes.items()]
    assert plant(leaves, "sha1") == plant(reversed(leaves), "sha1")


def test_an_empty_tree_has_the_id_that_git_gives_it() -> None:
    assert plant([], "sha1").root == "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
    assert plant([], "sha256").root == "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"


def test_a_folder_is_sorted_as_if_its_name_ended_in_a_slash() -> None:
    leaves = [Leaf(path, FILE, "00" * 20) for path in (b"a/x", b"a.b", b"a0")]
    names = [entry.split(b"\0")[0] for entry in _entries(plant(leaves, "sha1").objects)]
    assert names == [b"100644 a.b", b"40000 a", b"100644 a0"]


def _entries(objects: dict[str, bytes]) -> list[bytes]:
    root = list(objects.values())[-1]
    entries = []
    while root:
        end = root.index(b"\0") + 21
        entries.append(root[:end])
        root = root[end:]
    return entries


@given(
    st.dictionaries(st.binary(max_size=8), st.sampled_from(["0600", "0755"])), st.lists(st.binary(max_size=8))
)
def test_a_manifest_comes_back_from_its_bytes(modes: dict[bytes, str], left_out: list[bytes]) -> None:
    stored = StoredFolder("0" * 40, {text_of(path): mode for path, mode in modes.items()}, {})
    manifest = Manifest(1, "sha1", None, stored, {".git": stored}, {}, tuple(map(text_of, left_out)))
    encoded = manifest.encoded()
    assert msgspec.convert(json.loads(encoded), Manifest) == manifest
    assert encoded.isascii()


@pytest.mark.parametrize(
    ("folder", "content", "target"),
    [
        (b"sub", b"gitdir: ../.git/modules/sub\n", b".git/modules/sub"),
        (b"a/b", b"gitdir: ../../.git/x", b".git/x"),
        (b"", b"gitdir: ../outside/.git\n", None),
        (b"sub", b"gitdir: ../..\n", None),
        (b"sub", b"gitdir: /abs/.git/worktrees/x\n", None),
        (b"sub", b"something else", None),
        (b"sub", b"", None),
    ],
)
def test_a_link_to_a_git_folder_must_stay_inside(folder: bytes, content: bytes, target: bytes | None) -> None:
    assert gitfile_target(folder, content) == target
