"""Whatever is stored comes back, and differences are told exactly."""

# ruff: noqa: PTH101, PTH102, PTH103, PTH112, PTH114, PTH115, PTH118, PTH120, PTH123, PTH211
# File names are bytes here, which pathlib does not take.

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from recoup.errors import CheckpointBroken
from recoup.model.workspace import Baseline, FolderSource
from recoup.workspace.index import without_status
from recoup.workspace.workspaces import GitWorkspaces


@pytest.fixture
def workspaces(tmp_path: Path) -> GitWorkspaces:
    return GitWorkspaces(tmp_path / "run")


async def begun(tmp_path: Path, workspaces: GitWorkspaces) -> Baseline:
    (tmp_path / "source").mkdir()
    for number in range(5):
        (tmp_path / "source" / f"file{number}").write_text(f"{number}\n" * 100)
    return await workspaces.create(FolderSource(str(tmp_path / "source")))


async def test_a_change_is_named_and_hashed(tmp_path: Path, workspaces: GitWorkspaces) -> None:
    baseline = await begun(tmp_path, workspaces)
    folder = workspaces.path(1)
    (folder / "file0").unlink()
    (folder / "file1").write_text("changed")
    (folder / "file2").chmod(0o755)
    with open(os.fsencode(folder) + b"/odd \xff\n", "wb"):
        pass
    taken = await workspaces.snapshot(1)
    change = await workspaces.change(baseline.tree, taken.tree)
    assert change.files == ("file0", "file1", "file2", r"odd \xff\n")
    assert change.files_count == 4
    assert change.hash is not None
    assert change.hash.startswith("sha256:")
    assert (await workspaces.change(taken.tree, taken.tree)).hash is None


async def test_the_list_of_changed_files_is_bounded(tmp_path: Path, workspaces: GitWorkspaces) -> None:
    baseline = await begun(tmp_path, workspaces)
    for number in range(300):
        (workspaces.path(1) / f"new{number}").write_text(f"{number}")
    taken = await workspaces.snapshot(1)
    change = await workspaces.change(baseline.tree, taken.tree)
    assert (len(change.files), change.files_count) == (200, 300)


async def test_the_patch_is_for_people(tmp_path: Path, workspaces: GitWorkspaces) -> None:
    baseline = await begun(tmp_path, workspaces)
    folder = workspaces.path(1)
    (folder / "file0").rename(folder / "renamed")
    (folder / "file1").write_text("changed\n")
    (folder / "binary").write_bytes(bytes(range(256)) * 10)
    (folder / "untracked é").write_text("new\n")
    taken = await workspaces.snapshot(1)
    patch = await workspaces.patch(baseline.tree, taken.tree, 1 << 20)
    text = patch.decode()
    assert "rename from file0\nrename to renamed" in text
    assert "+changed\n" in text
    assert "Binary files /dev/null and b/binary differ" in text
    assert "b/untracked é" in text
    assert "\x1b" not in text
    assert await workspaces.patch(taken.tree, taken.tree, 100) == b""


@pytest.mark.parametrize("limit", [1, 60, 500, 5_000])
async def test_a_long_patch_is_cut_and_says_so(limit: int, tmp_path: Path, workspaces: GitWorkspaces) -> None:
    baseline = await begun(tmp_path, workspaces)
    (workspaces.path(1) / "file1").write_text("changed\n" * 5_000)
    taken = await workspaces.snapshot(1)
    patch = await workspaces.patch(baseline.tree, taken.tree, limit)
    assert patch.endswith(b"[cut here: the patch is longer than %d bytes]\n" % limit)
    assert len(patch) <= max(limit, 60)


async def test_a_tree_that_is_not_there_cannot_be_compared(tmp_path: Path, workspaces: GitWorkspaces) -> None:
    baseline = await begun(tmp_path, workspaces)
    for other in ("0" * 39 + "1", "--output=/tmp/x", "HEAD"):
        with pytest.raises(CheckpointBroken):
            await workspaces.change(baseline.tree, other)
        with pytest.raises(CheckpointBroken):
            await workspaces.patch(other, baseline.tree, 100)
        with pytest.raises(CheckpointBroken):
            await workspaces.changed_contents(baseline.tree, other, 100)


async def test_the_contents_of_what_changed_can_be_searched(
    tmp_path: Path, workspaces: GitWorkspaces
) -> None:
    baseline = await begun(tmp_path, workspaces)
    folder = workspaces.path(1)
    (folder / "file0").unlink()
    (folder / "file1").write_text("changed")
    (folder / "link").symlink_to("target")
    (folder / "same").write_text("changed")
    (folder / "large").write_bytes(b"x" * 10_000)
    taken = await workspaces.snapshot(1)
    everything = await workspaces.changed_contents(baseline.tree, taken.tree, 1 << 20)
    assert dict(everything) == {
        "file1": b"changed",
        "same": b"changed",
        "link": b"target",
        "large": b"x" * 10_000,
    }
    some = await workspaces.changed_contents(baseline.tree, taken.tree, 1_000)
    assert sum(len(content) for _, content in some) == 1_000
    assert dict(some) == {**dict(everything), "large": b"x" * 980}
    assert await workspaces.changed_contents(baseline.tree, taken.tree, 0) == []


# A small folder of anything: each path is made of a few names, so that they often meet.

_NAMES = st.sampled_from(
    [b"a", b"b", b"a b", b"n\nl", b"\xff\xfe", b"\xc3\xa9", b"-x", b".hidden", b"a.", b"A", b"a0", b"\\"]
)
_FILES = st.tuples(
    st.just("file"), st.sampled_from([0o644, 0o755, 0o600, 0o444, 0o751]), st.binary(max_size=40)
)
_LINKS = st.tuples(
    st.just("link"), st.just(0), st.binary(min_size=1, max_size=20).filter(lambda b: b"\0" not in b)
)
_FOLDERS = st.tuples(st.just("folder"), st.sampled_from([0o755, 0o700, 0o777]), st.just(b""))
_TREES = st.dictionaries(
    st.lists(_NAMES, min_size=1, max_size=3).map(b"/".join), _FILES | _LINKS | _FOLDERS, max_size=8
)
Item = tuple[str, int, bytes]


def make(root: bytes, items: dict[bytes, Item]) -> None:
    """What does not fit what is there already is left out."""
    for path, (kind, mode, content) in items.items():
        full = os.path.join(root, path)
        if _is_behind_a_link(root, path):
            continue
        try:
            os.makedirs(os.path.dirname(full), exist_ok=True)
            _make_one(full, kind, mode, content)
        except (FileExistsError, NotADirectoryError):
            continue


def _is_behind_a_link(root: bytes, path: bytes) -> bool:
    parts = path.split(b"/")
    return any(os.path.islink(os.path.join(root, *parts[:depth])) for depth in range(1, len(parts)))


def _make_one(full: bytes, kind: str, mode: int, content: bytes) -> None:
    if kind == "link":
        os.symlink(content, full)
        return
    if kind == "folder":
        os.mkdir(full)
    else:
        with open(full, "xb") as file:
            file.write(content)
    os.chmod(full, mode)


def seen(root: bytes) -> dict[bytes, Item]:
    found: dict[bytes, Item] = {}
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = os.path.join(folder, name)
            found[os.path.relpath(path, root)] = _item(path)
    return found


def _item(path: bytes) -> Item:
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        return "link", 0, os.readlink(path)
    mode = stat.S_IMODE(status.st_mode)
    if stat.S_ISDIR(status.st_mode):
        return "folder", mode, b""
    with open(path, "rb") as file:
        content = file.read()
    return "file", mode, without_status(content) or content


def emptied(root: Path) -> bytes:
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    return os.fsencode(root)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> GitWorkspaces:
    folder = tmp_path_factory.mktemp("shared")
    (folder / "source").mkdir()
    workspaces = GitWorkspaces(folder / "run")
    asyncio.run(workspaces.create(FolderSource(str(folder / "source"))))
    return workspaces


PROPERTY = settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow])


@PROPERTY
@given(items=_TREES)
def test_whatever_is_stored_comes_back(shared: GitWorkspaces, items: dict[bytes, Item]) -> None:
    async def round_trip() -> None:
        root = emptied(shared.path(1))
        make(root, items)
        wanted = seen(root)
        taken = await shared.snapshot(1)
        assert taken.missing == ()
        number = await shared.restore(taken)
        assert seen(os.fsencode(shared.path(number))) == wanted
        shutil.rmtree(shared.path(number))

    asyncio.run(round_trip())


# Folders with rules of their own about what is ignored, some of them repositories.

_PLAIN = st.sampled_from([b"a", b"b", b"c", b"a.log"])
_RULES = st.sampled_from(
    [
        b"a",
        b"/a",
        b"a/",
        b"!a",
        b"*",
        b"!b",
        b"**/a",
        b"a/*",
        b"!a/b",
        b"*/",
        b"!*/",
        b"*.log",
        b"b/**",
        b"!.gitignore",
    ]
)
_IGNORED = st.dictionaries(
    st.lists(_PLAIN, min_size=1, max_size=4).map(b"/".join)
    | st.lists(_PLAIN, max_size=3).map(lambda parts: b"/".join([*parts, b".gitignore"])),
    st.lists(_RULES, max_size=3).map(b"\n".join),
    max_size=8,
)
_REPOSITORIES = st.dictionaries(
    st.lists(_PLAIN, max_size=2).map(b"/".join), st.lists(_PLAIN, max_size=2).map(b"/".join), max_size=2
)


@PROPERTY
@example(files={b".gitignore": b"b/**", b"b/.gitignore": b"!*/", b"b/a/a": b""}, repositories={})
@given(files=_IGNORED, repositories=_REPOSITORIES)
def test_whatever_is_ignored_a_checkpoint_holds_the_rest(
    shared: GitWorkspaces, files: dict[bytes, bytes], repositories: dict[bytes, bytes]
) -> None:
    async def round_trip() -> None:
        root = emptied(shared.path(1))
        make(root, {path: ("file", 0o644, content) for path, content in files.items()})
        for path, tracked in repositories.items():
            _make_repository(os.path.join(root, path), tracked)
        taken = await shared.snapshot(1)
        ignored = [os.fsencode(each.path).rstrip(b"/") for each in taken.missing]
        number = await shared.restore(taken)
        wanted = {path: item for path, item in seen(root).items() if not _is_below(path, ignored)}
        assert seen(os.fsencode(shared.path(number))) == wanted
        assert await shared.matches(number, taken)
        shutil.rmtree(shared.path(number))

    asyncio.run(round_trip())


def _make_repository(path: bytes, tracked: bytes) -> None:
    """Tracks one path in spite of all rules."""
    if os.path.isdir(path):
        for args in (
            ["init", "--quiet", "--template="],
            ["add", "--force", "--", os.fsdecode(tracked) or "."],
        ):
            subprocess.run(["git", *args], cwd=path, capture_output=True)


def _is_below(path: bytes, folders: list[bytes]) -> bool:
    return any(path == folder or path.startswith(folder + b"/") for folder in folders)


@PROPERTY
@given(first=_TREES, second=_TREES)
def test_a_change_has_a_hash_if_and_only_if_there_is_one(
    shared: GitWorkspaces, first: dict[bytes, Item], second: dict[bytes, Item]
) -> None:
    async def compared() -> None:
        taken, contents = [], []
        for items in (first, second, first, {}):
            root = emptied(shared.path(1))
            make(root, items)
            taken.append(await shared.snapshot(1))
            contents.append(_as_git_sees(seen(root)))
        before, after, again, nothing = (each.tree for each in taken)
        assert before == again
        assert (before == after) == (contents[0] == contents[1])
        change = await shared.change(before, after)
        assert (change.hash is None) == (before == after)
        one, other = await shared.change(nothing, before), await shared.change(nothing, after)
        assert (one.hash == other.hash) == (before == after)

    asyncio.run(compared())


def _as_git_sees(items: dict[bytes, Item]) -> dict[bytes, tuple[str, bool, bytes]]:
    return {
        path: (kind, bool(mode & 0o100), content)
        for path, (kind, mode, content) in items.items()
        if kind != "folder"
    }
