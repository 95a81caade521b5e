"""What changed between two stored trees."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from recoup.errors import CheckpointBroken
from recoup.model.workspace import Change
from recoup.workspace.git import GitFailed
from recoup.workspace.names import shown
from recoup.workspace.store import Store, checked_id

FILES_MAX = 200
RENAMES_MAX = 200
CUT = b"\n[cut here: the patch is longer than %d bytes]\n"

_PATCH = (
    *("diff-tree", "-r", "-p", "--find-renames", f"-l{RENAMES_MAX}"),
    *("--no-ext-diff", "--no-textconv", "--no-color", "--full-index"),
)


class Altered(NamedTuple):
    """A path, and the id of what it holds now; None if it is gone."""

    path: bytes
    id: str | None


def change(store: Store, before: str, after: str) -> Change:
    raw = _raw(store, before, after)
    if not raw:
        return Change(hash=None)
    altered = list(_altered(raw))
    return Change(
        hash="sha256:" + hashlib.sha256(raw).hexdigest(),
        files=tuple(shown(each.path) for each in altered[:FILES_MAX]),
        files_count=len(altered),
    )


def patch(store: Store, before: str, after: str, limit_bytes: int) -> bytes:
    """Binary files are named, not encoded: nothing can be redacted inside of an encoding."""
    with _both_stored(), store.talking(*_PATCH, checked_id(before), checked_id(after), "--") as talk:
        text = talk.stdout.read(limit_bytes + 1)
        if len(text) <= limit_bytes:
            talk.finished()
            return text
    return _cut(text, limit_bytes)


def changed_contents(store: Store, before: str, after: str, limit_bytes: int) -> list[tuple[str, bytes]]:
    """The smallest first, so that the limit hides as few files as it can; the last one may be cut."""
    present = {each.path: each.id for each in _altered(_raw(store, before, after)) if each.id is not None}
    sizes = store.sizes(present.values())
    paths = sorted(present, key=lambda path: (sizes[present[path]], path))
    return _within(store, [(path, present[path]) for path in paths], sizes, limit_bytes)


def _raw(store: Store, before: str, after: str) -> bytes:
    with _both_stored():
        args = ("diff-tree", "-r", "--raw", "-z", "--no-renames", "--no-abbrev")
        return store.git(*args, checked_id(before), checked_id(after), "--")


@contextmanager
def _both_stored() -> Iterator[None]:
    try:
        yield
    except GitFailed as error:
        raise CheckpointBroken(f"a tree is missing from the store or damaged: {error.stderr}") from None


def _altered(raw: bytes) -> Iterator[Altered]:
    """`:<mode> <mode> <id> <id> <status>` NUL `<path>` NUL, again and again."""
    fields = iter(raw.split(b"\0"))
    for meta in fields:
        if meta:
            id_ = meta.split(b" ")[3].decode()
            yield Altered(next(fields), id_ if id_.strip("0") else None)


def _within(
    store: Store, wanted: list[tuple[bytes, str]], sizes: dict[str, int], limit_bytes: int
) -> list[tuple[str, bytes]]:
    chosen: list[tuple[bytes, str]] = []
    left = limit_bytes
    for path, id_ in wanted:
        if left <= 0:
            break
        chosen.append((path, id_))
        left -= sizes[id_]
    contents: list[tuple[str, bytes]] = []
    left = limit_bytes
    for (path, _), pieces in zip(chosen, store.contents([id_ for _, id_ in chosen]), strict=False):
        contents.append((shown(path), _first(pieces, left)))
        left -= len(contents[-1][1])
    return contents


def _first(pieces: Iterator[bytes], limit_bytes: int) -> bytes:
    """Only the last file can be longer than what is left, so what is not read is not missed."""
    taken = b""
    for piece in pieces:
        taken += piece
        if len(taken) >= limit_bytes:
            break
    return taken[:limit_bytes]


def _cut(text: bytes, limit_bytes: int) -> bytes:
    """At the end of a line, with a last line that says so, all within the limit."""
    notice = CUT % limit_bytes
    kept = text[: max(limit_bytes - len(notice), 0)]
    return kept[: kept.rfind(b"\n") + 1] + notice.lstrip(b"\n")
