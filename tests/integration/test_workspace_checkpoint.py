"""Checkpoints bring a workspace back to the byte, or say what they could not store."""

# ruff: noqa: PTH102, PTH103, PTH110, PTH115, PTH118, PTH123, PTH211
# File names are bytes here, which pathlib does not take.

from __future__ import annotations

import asyncio
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.repositories import commit_all, git, new_repository

from recoup.errors import CheckpointBroken, WorkspaceError
from recoup.model.workspace import Baseline, FolderSource, GitSource, Snapshot
from recoup.workspace.index import without_status
from recoup.workspace.workspaces import GitWorkspaces

Scene = Callable[[Path], None]
Picture = dict[bytes, tuple[str, int, bytes]]


def picture(root: Path) -> Picture:
    """Everything: names, kinds, modes, contents, targets; `.git` included, but not inodes in an index."""
    found: Picture = {}
    for folder, folders, files in os.walk(os.fsencode(root)):
        for name in [b".", *folders, *files]:
            path = os.path.join(folder, name)
            found[os.path.relpath(path, os.fsencode(root))] = _seen(path)
    return found


def _seen(path: bytes) -> tuple[str, int, bytes]:
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        return "link", 0, os.readlink(path)
    if stat.S_ISDIR(status.st_mode):
        return "folder", stat.S_IMODE(status.st_mode), b""
    if not stat.S_ISREG(status.st_mode):
        return "special", 0, b""
    with open(path, "rb") as file:
        content = file.read()
    if path.endswith(b"/index") and b"/.git/" in path:
        content = without_status(content) or content
    return "file", stat.S_IMODE(status.st_mode), content


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    files = {"README": "hello\n", "src/a.txt": "one\ntwo\n", ".gitignore": "*.log\nbuild/\n"}
    path = new_repository(tmp_path / "users", files)
    (path / "tool.sh").write_text("#!/bin/sh\n")
    (path / "tool.sh").chmod(0o755)
    git(path, "add", "tool.sh")
    git(path, "commit", "--quiet", "--amend", "--message", "first")
    git(path, "branch", "side")
    git(path, "tag", "v1")
    return path


@pytest.fixture
def workspaces(tmp_path: Path) -> GitWorkspaces:
    return GitWorkspaces(tmp_path / "run")


async def restored(workspaces: GitWorkspaces, snapshot: Snapshot) -> Path:
    return workspaces.path(await workspaces.restore(snapshot))


def names_missing(snapshot: Snapshot | Baseline) -> dict[str, str]:
    return {each.path: each.why for each in snapshot.missing}


# What a step may leave behind.


def conversions(folder: Path) -> None:
    (folder / ".gitattributes").write_text(
        "*.crlf text eol=crlf\n*.auto text=auto\n*.old crlf\n*.id ident\n*.u16 working-tree-encoding=UTF-16\n"
        "*.up filter=upper\n*.bin binary\n"
    )
    git(folder, "config", "filter.upper.clean", "tr a-z A-Z")
    git(folder, "config", "filter.upper.smudge", "tr a-z A-Z")
    git(folder, "config", "core.autocrlf", "true")
    for name in ("x.crlf", "x.auto", "x.old", "x.id", "x.u16", "x.up", "x.bin"):
        (folder / name).write_bytes(b"unix\ndos\r\nmac\r$Id$ \xff\x00 end")
    (folder / "lf.crlf").write_bytes(b"only\nunix\n")
    (folder / "dos.auto").write_bytes(b"only\r\ndos\r\n")


def modes(folder: Path) -> None:
    for mode in (0o600, 0o755, 0o640, 0o444, 0o700, 0o711, 0o666, 0o4755):
        (folder / f"mode-{mode:04o}").write_text("x")
        (folder / f"mode-{mode:04o}").chmod(mode)
    (folder / "closed").mkdir()
    (folder / "closed" / "file").write_text("x")
    (folder / "closed").chmod(0o500)
    (folder / "sticky").mkdir()
    (folder / "sticky").chmod(0o1777)
    (folder / "tool.sh").chmod(0o644)
    folder.chmod(0o750)


def links(folder: Path) -> None:
    (folder / "relative").symlink_to("src/a.txt")
    (folder / "absolute").symlink_to("/etc/hostname")
    (folder / "dangling").symlink_to("nowhere/at all")
    (folder / "to-folder").symlink_to("src")
    (folder / "loop").symlink_to("loop")
    os.symlink(b"not utf-8 \xff\xfe\n", os.fsencode(folder / "odd"))
    (folder / "README").unlink()
    (folder / "README").symlink_to("tool.sh")


def empty_folders(folder: Path) -> None:
    (folder / "empty" / "deep" / "deeper").mkdir(parents=True)
    (folder / "private").mkdir(mode=0o700)
    (folder / "logs").mkdir()
    (folder / "logs" / "ignored.log").write_text("x")
    (folder / "src" / "a.txt").unlink()


def binary_and_renamed(folder: Path) -> None:
    (folder / "random").write_bytes(os.urandom(300_000))
    (folder / "zeros").write_bytes(bytes(100_000))
    (folder / "nothing").write_bytes(b"")
    git(folder, "mv", "README", "READ ME")
    (folder / "tool.sh").rename(folder / "src" / "tool.sh")


def names(folder: Path) -> None:
    odd = [
        b"with space",
        b"new\nline",
        b"tab\t",
        b'"quoted"',
        b"'single'",
        b"back\\slash",
        b"-dash",
        b":colon",
    ]
    odd += [
        b"star*",
        b"[a]",
        b"!bang",
        b"#hash",
        b"trailing ",
        b"\xc3\xa9 nfc",
        b"e\xcc\x81 nfd",
        b"\xff\xfe",
        b"\x01",
    ]
    odd += ["日本".encode(), b"x" * 255, b".GIT", b"git~1", b".gitmodules", b"...", b"$HOME", b"a=b", b"HEAD"]
    for name in odd:
        with open(os.path.join(os.fsencode(folder), name), "wb") as file:
            file.write(name)
    for name in (b"folder \n\xff", b".Git"):
        os.makedirs(os.path.join(os.fsencode(folder), name, b"in\rner"))


def commits_and_branches(folder: Path) -> None:
    (folder / "new").write_text("new\n")
    commit_all(folder, "by the step")
    git(folder, "checkout", "--quiet", "-b", "feature/x")
    (folder / "more").write_text("more\n")
    commit_all(folder, "more")
    git(folder, "tag", "--annotate", "--message", "t", "v2")
    (folder / "stashed").write_text("s")
    git(folder, "add", "stashed")
    git(folder, "stash")
    (folder / "staged").write_text("staged\n")
    git(folder, "add", "staged")
    (folder / "staged").write_text("and changed again\n")
    git(folder, "add", "--intent-to-add", "README")


def detached(folder: Path) -> None:
    (folder / "new").write_text("new\n")
    commit_all(folder, "by the step")
    git(folder, "checkout", "--quiet", "--detach", "HEAD~1")


def merge_in_progress(folder: Path) -> None:
    git(folder, "checkout", "--quiet", "side")
    (folder / "README").write_text("ours\n")
    commit_all(folder, "ours")
    git(folder, "checkout", "--quiet", "main")
    (folder / "README").write_text("theirs\n")
    commit_all(folder, "theirs")
    with pytest.raises(subprocess.CalledProcessError):  # a conflict
        git(folder, "merge", "side")
    assert (folder / ".git" / "MERGE_HEAD").exists()


def packed(folder: Path) -> None:
    (folder / "new").write_text("new\n")
    commit_all(folder, "by the step")
    git(folder, "gc", "--quiet", "--prune=now")


def nested_clone(folder: Path) -> None:
    git(folder, "clone", "--quiet", ".", "vendor/inner")
    inner = folder / "vendor" / "inner"
    (inner / ".gitignore").write_text("!*.log\n")
    (inner / "kept.log").write_text("not ignored in there\n")
    commit_all(inner, "inside")
    git(inner, "checkout", "--quiet", "-b", "inner-branch")
    git(folder, "init", "--quiet", "--bare", "remote.git")
    git(folder, "init", "--quiet", "vendor/unborn")
    git(folder, "init", "--quiet", "vendor/inner/innermost")
    (inner / "innermost" / "x").write_text("x")


def submodule(folder: Path) -> None:
    git(
        folder, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(folder / ".git"), "sub"
    )
    git(folder / "sub", "checkout", "--quiet", "-b", "mine")
    (folder / "sub" / "in submodule").write_text("x")
    commit_all(folder, "with a submodule")


def tracked_though_ignored(folder: Path) -> None:
    (folder / "build").mkdir()
    (folder / "build" / "kept").write_text("tracked\n")
    (folder / "kept.log").write_text("tracked\n")
    git(folder, "add", "--force", "build/kept", "kept.log")
    (folder / ".git" / "info").mkdir(exist_ok=True)
    (folder / ".git" / "info" / "exclude").write_text("excluded\n")


def other_kinds(folder: Path) -> None:
    (folder / "README").unlink()
    (folder / "README").mkdir()
    (folder / "README" / "inside").write_text("x")
    shutil.rmtree(folder / "src")
    (folder / "src").write_text("now a file")
    (folder / ".gitignore").write_text("")


def no_repository_any_more(folder: Path) -> None:
    shutil.rmtree(folder / ".git")


def nothing_left(folder: Path) -> None:
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def broken_repository(folder: Path) -> None:
    (folder / ".git" / "index").write_bytes(b"not an index")
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/none such\n")
    (folder / "x.log").write_text("stored: an unreadable index hides nothing\n")


SCENES = [
    *(conversions, modes, links, empty_folders, binary_and_renamed, names, commits_and_branches, detached),
    *(merge_in_progress, packed, nested_clone, submodule, tracked_though_ignored, other_kinds),
    *(no_repository_any_more, nothing_left, broken_repository),
]


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
async def test_a_restored_workspace_is_the_stored_one_to_the_byte(
    scene: Scene, repository: Path, workspaces: GitWorkspaces
) -> None:
    await workspaces.create(GitSource(str(repository)))
    scene(workspaces.path(1))
    taken = await workspaces.snapshot(1)
    ignored = {os.fsencode(each.path) for each in taken.missing if each.why == "ignored by git"}
    wanted = {path: seen for path, seen in picture(workspaces.path(1)).items() if path not in ignored}
    copy = await restored(workspaces, taken)
    assert picture(copy) == wanted
    assert {each.why for each in taken.missing} <= {"ignored by git"}
    assert await workspaces.matches(2, taken)
    again = await workspaces.snapshot(2)
    assert (again.tree, again.manifest) == (taken.tree, taken.manifest)


async def test_git_finds_the_restored_repository_in_order(
    repository: Path, workspaces: GitWorkspaces
) -> None:
    await workspaces.create(GitSource(str(repository)))
    commits_and_branches(workspaces.path(1))
    before = _git_facts(workspaces.path(1))
    copy = await restored(workspaces, await workspaces.snapshot(1))
    assert _git_facts(copy) == before
    git(copy, "fsck", "--full", "--strict")
    git(copy, "stash", "pop")


async def test_git_need_not_read_the_restored_files_to_know_them(
    repository: Path, workspaces: GitWorkspaces
) -> None:
    await workspaces.create(GitSource(str(repository)))
    git(workspaces.path(1), "clone", "--quiet", ".", "nested")
    copy = await restored(workspaces, await workspaces.snapshot(1))
    # These two do not refresh the index: without the status of the new files all would seem changed.
    for folder in (copy, copy / "nested"):
        git(folder, "diff-files", "--quiet")
        git(folder, "diff-index", "--quiet", "HEAD")


async def test_who_only_looks_changes_no_checkpoint(repository: Path, workspaces: GitWorkspaces) -> None:
    baseline = await workspaces.create(GitSource(str(repository)))
    folder = workspaces.path(1)
    index = (folder / ".git" / "index").read_bytes()
    os.utime(folder / "README", (1, 1))
    git(folder, "status")
    assert (folder / ".git" / "index").read_bytes() != index
    assert await workspaces.matches(1, Snapshot(tree=baseline.tree, manifest=baseline.manifest))


@pytest.mark.parametrize("version", ["2", "4"])
@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
async def test_an_index_of_every_kind_comes_back(version: str, object_format: str, tmp_path: Path) -> None:
    source = tmp_path / "source"
    git(tmp_path, "init", "--quiet", f"--object-format={object_format}", "source")
    for name in ("a", "ab", "abc/d", "abc/e", "z" * 200):
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).write_text(name)
    commit_all(source, "first")
    workspaces = GitWorkspaces(tmp_path / "run")
    await workspaces.create(GitSource(str(source)))
    folder = workspaces.path(1)
    (folder / "new").write_text("new")
    git(folder, "add", "--intent-to-add", "new")
    git(folder, "update-index", "--assume-unchanged", "a")
    git(folder, "update-index", "--untracked-cache")
    git(folder, "update-index", "--index-version", version)
    facts = [git(folder, *args) for args in (["ls-files", "--stage", "-v"], ["status", "--porcelain"])]
    copy = await restored(workspaces, await workspaces.snapshot(1))
    assert [git(copy, *args) for args in (["ls-files", "--stage", "-v"], ["status", "--porcelain"])] == facts
    assert (copy / ".git" / "index").read_bytes()[:12] == (folder / ".git" / "index").read_bytes()[:12]


async def test_an_index_in_several_files_comes_back(repository: Path, workspaces: GitWorkspaces) -> None:
    await workspaces.create(GitSource(str(repository)))
    folder = workspaces.path(1)
    git(folder, "update-index", "--split-index")
    (folder / "README").write_text("changed")
    git(folder, "add", "README")
    copy = await restored(workspaces, await workspaces.snapshot(1))
    assert picture(copy) == picture(folder)
    assert git(copy, "status", "--porcelain") == "M  README"


def _git_facts(folder: Path) -> list[str]:
    questions = (
        "status --porcelain=v2 --branch",
        "for-each-ref",
        "log --all --oneline",
        "stash list",
        "reflog",
    )
    return [git(folder, *question.split()) for question in questions]


async def test_a_step_can_read_the_whole_history(repository: Path, workspaces: GitWorkspaces) -> None:
    await workspaces.create(GitSource(str(repository)))
    folder = workspaces.path(1)
    assert len(git(folder, "log", "--oneline", "side").splitlines()) == 1
    assert git(folder, "describe", "--tags") == "v1"
    assert git(folder, "remote") == ""
    assert not (folder / ".git" / "hooks").exists()
    assert git(folder, "status", "--porcelain") == ""


async def test_what_is_in_the_store_is_what_git_finds_there(
    tmp_path: Path, repository: Path, workspaces: GitWorkspaces
) -> None:
    await workspaces.create(GitSource(str(repository)))
    conversions(workspaces.path(1))
    taken = await workspaces.snapshot(1)
    store = tmp_path / "run" / "private" / "store.git"
    git(tmp_path, f"--git-dir={store}", "fsck", "--full", "--strict")
    out = tmp_path / "by hand"
    out.mkdir()
    with_index = {**os.environ, "GIT_INDEX_FILE": str(tmp_path / "index")}
    for command in (f"read-tree {taken.tree}", "checkout-index --all --force"):
        args = ["git", f"--git-dir={store}", f"--work-tree={out}", *command.split()]
        subprocess.run(args, env=with_index, check=True, cwd=out)
    for path in out.iterdir():
        if path.is_file():
            assert path.read_bytes() == (workspaces.path(1) / path.name).read_bytes(), path


async def test_what_cannot_be_stored_is_named(repository: Path, workspaces: GitWorkspaces) -> None:
    await workspaces.create(GitSource(str(repository)))
    folder = workspaces.path(1)
    (folder / "build" / "deep").mkdir(parents=True)
    (folder / "build" / "deep" / "x").write_text("x")
    (folder / "x.log").write_text("x")
    os.mkfifo(folder / "pipe")
    os.mknod(folder / "sock", stat.S_IFSOCK | 0o600)
    (folder / "big.dat").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n")
    (folder / ".git" / "index.lock").write_text("")
    git(folder, "worktree", "add", "--quiet", "-b", "wt", str(folder / "linked"))
    taken = await workspaces.snapshot(1)
    missing = names_missing(taken)
    assert missing == {
        "build/": "ignored by git",
        "x.log": "ignored by git",
        "pipe": "a named pipe",
        "sock": "a socket",
        "big.dat": "a pointer to a large file that was not fetched",
        ".git/index.lock": "a lock whose owner is gone",
        "linked/.git": "a link to a git folder outside of this folder, which would be shared",
    }
    assert taken.missing_count == len(missing)
    copy = await restored(workspaces, taken)
    left = {os.fsencode(path) for path in missing if not path.endswith((".dat", "/"))}
    wanted = picture(folder)
    gone = {path for path in wanted if path in left or path.startswith(b"build")}
    assert picture(copy) == {path: seen for path, seen in wanted.items() if path not in gone}


async def test_a_submodule_that_was_not_fetched_is_named(tmp_path: Path, repository: Path) -> None:
    outer = tmp_path / "outer"
    git(tmp_path, "init", "--quiet", "--initial-branch=main", "outer")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(repository), "lib/sub")
    commit_all(outer, "with a submodule")
    workspaces = GitWorkspaces(tmp_path / "run")
    baseline = await workspaces.create(GitSource(str(outer)))
    assert names_missing(baseline) == {"lib/sub": "a submodule that was not fetched"}
    copy = await restored(workspaces, Snapshot(tree=baseline.tree, manifest=baseline.manifest))
    assert picture(copy) == picture(workspaces.path(1))


async def test_the_largest_files_are_left_out_first(tmp_path: Path, repository: Path) -> None:
    workspaces = GitWorkspaces(tmp_path / "run", 100_000)
    await workspaces.create(GitSource(str(repository)))
    folder = workspaces.path(1)
    for name, size in (("small", 10_000), ("middle", 60_000), ("large", 90_000), ("huge", 5_000_000)):
        (folder / name).write_bytes(name.encode() * (size // len(name)))
    (folder / "only").mkdir()
    (folder / "huge").rename(folder / "only" / "huge")
    taken = await workspaces.snapshot(1)
    assert list(names_missing(taken)) == ["large", "only/huge"]
    assert all("limit" in each.why for each in taken.missing)
    assert 70_000 <= taken.bytes_stored + 1_000 <= 100_000
    copy = await restored(workspaces, taken)
    assert sorted(path.name for path in copy.iterdir()) == [
        *(".git", ".gitignore", "README", "middle", "only", "small", "src", "tool.sh")
    ]
    assert await workspaces.matches(1, taken)
    assert await workspaces.matches(2, taken)
    (folder / "small").write_text("changed")
    assert not await workspaces.matches(1, taken)


async def test_what_is_stored_already_counts_for_nothing(tmp_path: Path, repository: Path) -> None:
    workspaces = GitWorkspaces(tmp_path / "run", 100_000)
    await workspaces.create(GitSource(str(repository)))
    folder = workspaces.path(1)
    for number in range(4):
        (folder / f"file{number}").write_bytes(bytes([number]) * 90_000)
        taken = await workspaces.snapshot(1)
        assert taken.missing == ()
        assert taken.bytes_stored == 90_000
    assert picture(await restored(workspaces, await workspaces.snapshot(1))) == picture(folder)


async def test_the_list_of_what_is_missing_is_bounded(repository: Path, workspaces: GitWorkspaces) -> None:
    await workspaces.create(GitSource(str(repository)))
    for number in range(250):
        (workspaces.path(1) / f"{number}.log").write_text("x")
    taken = await workspaces.snapshot(1)
    assert len(taken.missing) == 100
    assert taken.missing_count == 250


async def test_more_repositories_than_the_limit_are_named(
    repository: Path, workspaces: GitWorkspaces
) -> None:
    await workspaces.create(GitSource(str(repository)))
    nested = workspaces.path(1) / "nested"
    git(workspaces.path(1), "init", "--quiet", "--template=", "nested/r00")
    for number in range(1, 34):
        shutil.copytree(nested / "r00", nested / f"r{number:02d}")
    taken = await workspaces.snapshot(1)
    assert list(names_missing(taken)) == ["nested/r31/", "nested/r32/", "nested/r33/"]
    copy = await restored(workspaces, taken)
    assert (copy / "nested" / "r30" / ".git" / "HEAD").exists()
    assert list((copy / "nested" / "r31").iterdir()) == []


async def test_a_file_that_keeps_its_size_and_times_is_still_seen_to_change(
    repository: Path, workspaces: GitWorkspaces
) -> None:
    await workspaces.create(GitSource(str(repository)))
    file = workspaces.path(1) / "README"
    trees = set()
    for number in range(30):
        file.write_text(f"{number:05d}")
        os.utime(file, ns=(1_000_000_000, 1_000_000_000))
        trees.add((await workspaces.snapshot(1)).tree)
    assert len(trees) == 30


async def test_an_unchanged_workspace_is_not_stored_again(
    tmp_path: Path, repository: Path, workspaces: GitWorkspaces
) -> None:
    for number in range(500):
        (repository / "src" / f"{number}.txt").write_text(f"{number}\n" * 50)
    commit_all(repository, "many")
    baseline = await workspaces.create(GitSource(str(repository)))
    files = sorted((tmp_path / "run" / "private").rglob("*"))
    taken = await workspaces.snapshot(1)
    assert (taken.tree, taken.manifest, taken.bytes_stored) == (baseline.tree, baseline.manifest, 0)
    assert sorted((tmp_path / "run" / "private").rglob("*")) == files


@pytest.mark.parametrize("kind", [GitSource, FolderSource])
async def test_equal_contents_give_equal_checkpoints_on_two_runs(
    kind: type[GitSource | FolderSource], tmp_path: Path, repository: Path
) -> None:
    taken = []
    for name in ("one", "two"):
        workspaces = GitWorkspaces(tmp_path / name)
        await workspaces.create(kind(str(repository)))
        taken.append(await workspaces.snapshot(1))
        await asyncio.sleep(0.01)
    assert taken[0].tree == taken[1].tree
    assert taken[0].manifest == taken[1].manifest


async def test_a_workspace_that_is_gone_is_an_error_that_says_so(
    repository: Path, workspaces: GitWorkspaces
) -> None:
    baseline = await workspaces.create(GitSource(str(repository)))
    shutil.rmtree(workspaces.path(1))
    with pytest.raises(WorkspaceError, match="the workspace cannot be stored"):
        await workspaces.snapshot(1)
    snapshot = Snapshot(tree=baseline.tree, manifest=baseline.manifest)
    assert not await workspaces.matches(1, snapshot)
    assert await workspaces.restore(snapshot) == 1


async def test_folders_deeper_than_a_stack_come_back_and_can_be_removed(
    tmp_path: Path, repository: Path, workspaces: GitWorkspaces
) -> None:
    await workspaces.create(GitSource(str(repository)))
    below = "/d" * 1_100
    for end in range(2, len(below) + 1, 2):
        os.mkdir(str(workspaces.path(1)) + below[:end])
    with open(str(workspaces.path(1)) + below + "/bottom", "w") as file:
        file.write("x")
    taken = await workspaces.snapshot(1)
    assert taken.missing == ()
    copy = await restored(workspaces, taken)
    assert os.path.exists(str(copy) + below + "/bottom")
    await workspaces.swap(2, keep=0)
    assert sorted(path.name for path in (tmp_path / "run" / "workspaces").iterdir()) == ["0002"]
    await workspaces.create(GitSource(str(repository)))


_UNREADABLE = """
import asyncio, sys
from pathlib import Path
from recoup.workspace.workspaces import GitWorkspaces
from recoup.workspace.index import without_status

async def main(run):
    workspaces = GitWorkspaces(Path(run))
    taken = await workspaces.snapshot(1)
    number = await workspaces.restore(taken)
    assert await workspaces.matches(1, taken) and await workspaces.matches(number, taken)
    await workspaces.swap(number, 0)
    print([(each.path, each.why) for each in taken.missing])

asyncio.run(main(sys.argv[1]))
"""


async def test_what_its_owner_may_not_read_is_named(tmp_path: Path, repository: Path) -> None:
    workspaces = GitWorkspaces(tmp_path / "run")
    await workspaces.create(GitSource(str(repository)))
    folder = workspaces.path(1)
    (folder / "secret").write_text("x")
    (folder / "secret").chmod(0)
    for name, mode in (("closed", 0o000), ("nolist", 0o300), ("nostat", 0o400), ("fixed", 0o500)):
        (folder / name).mkdir()
        (folder / name / "inside").write_text("x")
        (folder / name).chmod(mode)
    # Root may read everything, unless it gives that up.
    drop = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
    if drop and shutil.which("setpriv") is None:
        pytest.skip("root cannot give up its rights here")
    command = [*drop, sys.executable, "-c", _UNREADABLE, str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    denied = "unreadable: Permission denied"
    paths = ("closed/", "nolist/", "nostat/", "secret")
    assert done.stdout.strip() == str([(path, denied) for path in paths])


async def test_git_that_takes_too_long_is_no_sign_of_damage(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, repository: Path
) -> None:
    baseline = await GitWorkspaces(tmp_path / "run").create(GitSource(str(repository)))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "bin" / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    hasty = GitWorkspaces(tmp_path / "run", git_timeout_s=0.1)
    snapshot = Snapshot(tree=baseline.tree, manifest=baseline.manifest)
    for work in (hasty.restore(snapshot), hasty.snapshot(1), hasty.change(baseline.tree, baseline.tree)):
        with pytest.raises(WorkspaceError) as caught:
            await work
        assert not isinstance(caught.value, CheckpointBroken)
    assert sorted(path.name for path in (tmp_path / "run" / "workspaces").iterdir()) == ["0001"]


async def test_ignore_rules_that_could_be_read_for_ever_are_refused(
    repository: Path, workspaces: GitWorkspaces
) -> None:
    await workspaces.create(GitSource(str(repository)))
    os.mkfifo(workspaces.path(1) / "src" / ".gitignore")
    with pytest.raises(WorkspaceError, match=r"src/\.gitignore is not a regular file"):
        await workspaces.snapshot(1)


async def test_swapping_keeps_the_newest_of_the_old_ones(
    tmp_path: Path, repository: Path, workspaces: GitWorkspaces
) -> None:
    baseline = await workspaces.create(GitSource(str(repository)))
    snapshot = Snapshot(tree=baseline.tree, manifest=baseline.manifest)
    (workspaces.path(1) / "closed").mkdir(mode=0o500)
    for number in (2, 3, 4):
        assert await workspaces.restore(snapshot) == number
        assert workspaces.current() == number - 1
        await workspaces.swap(number, keep=2)
        assert workspaces.current() == number
        assert (tmp_path / "run" / "workspace").resolve() == workspaces.path(number)
    assert sorted(path.name for path in (tmp_path / "run" / "workspaces").iterdir()) == [
        "0002",
        "0003",
        "0004",
    ]
    with pytest.raises(WorkspaceError, match="no workspace 9"):
        await workspaces.swap(9, keep=2)


async def test_a_run_folder_that_was_moved_still_works(tmp_path: Path, repository: Path) -> None:
    baseline = await GitWorkspaces(tmp_path / "run").create(GitSource(str(repository)))
    (tmp_path / "run").rename(tmp_path / "moved")
    workspaces = GitWorkspaces(tmp_path / "moved")
    assert workspaces.current() == 1
    assert len(git(workspaces.path(1), "log", "--oneline").splitlines()) == 1
    assert await workspaces.matches(1, Snapshot(tree=baseline.tree, manifest=baseline.manifest))


async def test_another_driver_continues_from_what_the_first_one_stored(
    tmp_path: Path, repository: Path
) -> None:
    first = GitWorkspaces(tmp_path / "run")
    await first.create(GitSource(str(repository)))
    commits_and_branches(first.path(1))
    taken = await first.snapshot(1)
    second = GitWorkspaces(tmp_path / "run")
    assert await second.matches(1, taken)
    (second.path(1) / "README").write_text("half done")
    assert not await second.matches(1, taken)
    assert await second.restore(taken) == 2
    assert await second.matches(2, taken)


async def test_everything_of_ours_is_for_the_owner_alone(tmp_path: Path, repository: Path) -> None:
    workspaces = GitWorkspaces(tmp_path / "run")
    await workspaces.create(GitSource(str(repository)))
    (workspaces.path(1) / "new").write_text("x")
    await workspaces.snapshot(1)
    run = tmp_path / "run"
    ours = [run / "workspaces", run / "private", *(run / "private").rglob("*")]
    assert [path for path in ours if path.stat().st_mode & 0o077] == []


async def test_cancelling_ends_the_work_and_the_next_call_succeeds(
    repository: Path, workspaces: GitWorkspaces
) -> None:
    await workspaces.create(GitSource(str(repository)))
    (workspaces.path(1) / "large").write_bytes(os.urandom(8_000_000))
    for after_s in (0.0, 0.005, 0.02, 0.06):
        task = asyncio.create_task(workspaces.snapshot(1))
        await asyncio.sleep(after_s)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    taken = await workspaces.snapshot(1)
    assert picture(await restored(workspaces, taken)) == picture(workspaces.path(1))


@pytest.mark.soak
async def test_a_file_of_200_megabytes_comes_back(repository: Path, workspaces: GitWorkspaces) -> None:
    await workspaces.create(GitSource(str(repository)))
    with (workspaces.path(1) / "huge").open("wb") as file:
        for number in range(200):
            file.write(number.to_bytes(4, "big") * (1 << 18))
    taken = await workspaces.snapshot(1)
    assert taken.bytes_stored == 200 << 20
    assert picture(await restored(workspaces, taken)) == picture(workspaces.path(1))
