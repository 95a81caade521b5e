"""Git tree objects, made of names, modes and ids."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from recoup.workspace.blobs import object_id

FILE = b"100644"
EXECUTABLE = b"100755"
LINK = b"120000"
FOLDER = b"40000"


class Leaf(NamedTuple):
    """A file or a link, by its path below the root of the tree."""

    path: bytes
    mode: bytes
    id: str


class Trees(NamedTuple):
    """The id of the root, every tree object by its id, and the folders that the tree implies."""

    root: str
    objects: dict[str, bytes]
    folders: frozenset[bytes]


def plant(leaves: Iterable[Leaf], object_format: str) -> Trees:
    """The same leaves give the same trees, whatever their order."""
    folders = _folders(leaves)
    objects: dict[str, bytes] = {}
    root = ""
    for folder in sorted(folders, key=_deepest_first):
        content = _encoded(folders[folder])
        root = object_id("tree", content, object_format)
        objects[root] = content
        if folder:
            parent, _, name = folder.rpartition(b"/")
            folders[parent].append((name + b"/", FOLDER, name, root))
    return Trees(root, objects, frozenset(folders))


_Entry = tuple[bytes, bytes, bytes, str]


def _folders(leaves: Iterable[Leaf]) -> dict[bytes, list[_Entry]]:
    folders: dict[bytes, list[_Entry]] = {b"": []}
    for path, mode, id_ in leaves:
        folder, _, name = path.rpartition(b"/")
        if folder not in folders:
            _add_with_parents(folders, folder)
        folders[folder].append((name, mode, name, id_))
    return folders


def _add_with_parents(folders: dict[bytes, list[_Entry]], folder: bytes) -> None:
    while folder not in folders:
        folders[folder] = []
        folder = folder.rpartition(b"/")[0]


def _deepest_first(folder: bytes) -> int:
    # The root has no slash, like its children, and must come after them.
    return -folder.count(b"/") if folder else 1


def _encoded(entries: list[_Entry]) -> bytes:
    """Git sorts a folder as if its name ended in a slash."""
    return b"".join(b"%s %s\0%s" % (mode, name, bytes.fromhex(id_)) for _, mode, name, id_ in sorted(entries))
