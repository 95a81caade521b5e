"""Workspaces are made from the user's repository or folder, which stays as it was."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.repositories import commit_all, git, new_repository

from recoup.aside import enter
from recoup.errors import MachineTrouble, WorkspaceError
from recoup.model.workspace import Baseline, FolderSource, GitSource, Snapshot, Source
from recoup.ports import Workspaces
from recoup.workspace.disk import explained
from recoup.workspace.git import Git, GitFailed
from recoup.workspace.workspaces import GitWorkspaces


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    path = new_repository(tmp_path / "users", {"README": "first\n"})
    git(path, "branch", "side")
    git(path, "tag", "--annotate", "--message", "v1", "v1")
    (path / "README").write_text("second\n")
    commit_all(path, "second")
    return path


@pytest.fixture
def workspaces(tmp_path: Path) -> GitWorkspaces:
    return GitWorkspaces(tmp_path / "run")


def as_port(workspaces: GitWorkspaces) -> Workspaces:
    """For the type checker: the class has the shape of the port."""
    return workspaces


def fingerprint(root: Path) -> str:
    """Of every byte, mode and time below, `.git` included."""
    hasher = hashlib.sha256()
    for folder, folders, files in os.walk(root):
        folders.sort()
        for path in [Path(folder), *(Path(folder, name) for name in sorted(files))]:
            status = path.lstat()
            hasher.update(f"{path}\0{status.st_mode}\0{status.st_mtime_ns}\0{status.st_ctime_ns}\0".encode())
            if stat.S_ISREG(status.st_mode):
                hasher.update(path.read_bytes())
    return hasher.hexdigest()


@pytest.mark.parametrize("ref", [None, "main", "side", "v1", "HEAD~1"])
async def test_the_users_repository_stays_as_it_was(
    ref: str | None, repository: Path, workspaces: GitWorkspaces
) -> None:
    (repository / "README").write_text("not committed\n")
    (repository / "untracked").write_text("x")
    git(repository, "status")
    before = fingerprint(repository)
    baseline = await workspaces.create(GitSource(str(repository), ref))
    (workspaces.path(1) / "README").write_text("changed")
    git(workspaces.path(1), "commit", "--quiet", "--all", "--message", "by the step")
    git(workspaces.path(1), "gc", "--quiet")
    await workspaces.snapshot(1)
    await workspaces.restore(Snapshot(tree=baseline.tree, manifest=baseline.manifest))
    assert fingerprint(repository) == before


@pytest.mark.parametrize(
    ("ref", "branch", "text"),
    [
        (None, "main", "second\n"),
        ("main", "main", "second\n"),
        ("refs/heads/side", "side", "first\n"),
        ("v1", None, "first\n"),
        ("HEAD~1", None, "first\n"),
    ],
)
async def test_the_commit_that_the_ref_names_is_checked_out(
    ref: str | None, branch: str | None, text: str, repository: Path, workspaces: GitWorkspaces
) -> None:
    baseline = await workspaces.create(GitSource(str(repository), ref))
    folder = workspaces.path(1)
    assert (folder / "README").read_text() == text
    assert baseline.branch == branch
    assert baseline.commit == git(repository, "rev-parse", f"{ref or 'HEAD'}^{{commit}}")
    assert git(folder, "rev-parse", "HEAD") == baseline.commit
    assert git(folder, "rev-parse", "HEAD^{tree}") == baseline.tree
    assert git(folder, "branch", "--show-current") == (branch or "")
    assert git(folder, "for-each-ref") == git(repository, "for-each-ref")
    assert git(folder, "status", "--porcelain") == ""
    assert git(folder, "remote") == ""
    git(folder, "fsck", "--full", "--strict")


async def test_a_commit_that_no_branch_reaches_can_be_pinned(
    repository: Path, workspaces: GitWorkspaces
) -> None:
    git(repository, "checkout", "--quiet", "--detach")
    (repository / "README").write_text("lost\n")
    lost = commit_all(repository, "lost")
    git(repository, "checkout", "--quiet", "main")
    await workspaces.create(GitSource(str(repository), lost))
    assert (workspaces.path(1) / "README").read_text() == "lost\n"


async def test_the_first_checkout_converts_as_the_commit_says(
    repository: Path, workspaces: GitWorkspaces
) -> None:
    (repository / ".gitattributes").write_text("*.bat text eol=crlf\n*.big filter=lfs diff=lfs\n*.id ident\n")
    (repository / "run.bat").write_bytes(b"one\r\ntwo\r\n")
    (repository / "x.big").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n")
    (repository / "x.id").write_text("$Id$")
    commit_all(repository, "attributes")
    baseline = await workspaces.create(GitSource(str(repository)))
    assert (workspaces.path(1) / "run.bat").read_bytes() == b"one\r\ntwo\r\n"
    assert (workspaces.path(1) / "x.id").read_text().startswith("$Id: ")
    assert [each.path for each in baseline.missing] == ["x.big"]
    number = await workspaces.restore(Snapshot(tree=baseline.tree, manifest=baseline.manifest))
    assert (workspaces.path(number) / "run.bat").read_bytes() == b"one\r\ntwo\r\n"
    assert git(workspaces.path(number), "status", "--porcelain") == ""


async def test_a_shallow_clone_is_enough(tmp_path: Path, repository: Path, workspaces: GitWorkspaces) -> None:
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "--quiet", "--depth=1", repository.as_uri(), str(shallow))
    before = fingerprint(shallow)
    await workspaces.create(GitSource(str(shallow)))
    assert git(workspaces.path(1), "log", "--oneline").count("\n") == 0
    assert fingerprint(shallow) == before


async def test_bare_linked_and_borrowing_repositories_are_enough(tmp_path: Path, repository: Path) -> None:
    git(tmp_path, "clone", "--quiet", "--bare", str(repository), "bare.git")
    git(repository, "worktree", "add", "--quiet", "-b", "linked", str(tmp_path / "linked"))
    git(tmp_path, "clone", "--quiet", "--shared", str(repository), "borrowing")
    git(tmp_path, "init", "--quiet", "--object-format=sha256", "--initial-branch=main", "sha256")
    (tmp_path / "sha256" / "README").write_text("second\n")
    commit_all(tmp_path / "sha256", "first")
    for name in ("bare.git", "linked", "borrowing", "sha256"):
        workspaces = GitWorkspaces(tmp_path / f"run-{name}")
        baseline = await workspaces.create(GitSource(str(tmp_path / name)))
        number = await workspaces.restore(Snapshot(tree=baseline.tree, manifest=baseline.manifest))
        assert (workspaces.path(number) / "README").read_text() == "second\n"
        git(workspaces.path(number), "fsck", "--full")
    store = tmp_path / "run-borrowing" / "private" / "store.git"
    assert not (store / "objects" / "info" / "alternates").exists()


async def test_the_source_may_vanish_once_the_run_has_begun(
    repository: Path, workspaces: GitWorkspaces
) -> None:
    baseline = await workspaces.create(GitSource(str(repository), "side"))
    shutil.rmtree(repository)
    number = await workspaces.restore(Snapshot(tree=baseline.tree, manifest=baseline.manifest))
    assert (workspaces.path(number) / "README").read_text() == "first\n"
    git(workspaces.path(number), "fsck", "--full")


async def _assert_refused_as_foreign(workspaces: GitWorkspaces, repository: Path) -> None:
    source = GitSource(str(repository))
    with pytest.raises(WorkspaceError, match=f"{repository} belongs to another user") as caught:
        await workspaces.check(source)
    assert f"safe.directory {repository}" in caught.value.hint
    with pytest.raises(WorkspaceError, match="another user"):
        await workspaces.uncommitted(source)


async def test_a_repository_of_another_user_is_refused_unless_the_users_git_allows_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, repository: Path, workspaces: GitWorkspaces
) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_DIR", str(repository / ".git"))  # would get past git's own question
    await _assert_refused_as_foreign(workspaces, repository)
    git(tmp_path, "config", "--file", "gitconfig", "safe.directory", str(repository))
    assert await workspaces.uncommitted(GitSource(str(repository))) == 0
    await workspaces.create(GitSource(str(repository)))
    assert (workspaces.path(1) / "README").read_text() == "second\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
async def test_a_repository_whose_folder_was_given_away_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, repository: Path, workspaces: GitWorkspaces
) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    os.chown(repository / ".git", 65534, 65534)
    await _assert_refused_as_foreign(workspaces, repository)


async def test_a_partial_clone_is_refused_and_left_alone(tmp_path: Path, repository: Path) -> None:
    git(repository, "config", "uploadpack.allowFilter", "true")
    partial = tmp_path / "partial"
    git(
        tmp_path, "clone", "--quiet", "--no-checkout", "--filter=blob:none", repository.as_uri(), str(partial)
    )
    before = fingerprint(partial)
    with pytest.raises(WorkspaceError, match="partial clone") as caught:
        await GitWorkspaces(tmp_path / "run").create(GitSource(str(partial)))
    assert "full clone" in caught.value.hint
    assert fingerprint(partial) == before


def _bad_sources(tmp_path: Path, repository: Path) -> Iterator[tuple[Source, str]]:
    (tmp_path / "plain").mkdir()
    (tmp_path / "file").write_text("x")
    git(tmp_path, "init", "--quiet", "unborn")
    (repository / "inner").mkdir()
    yield GitSource(str(tmp_path / "nowhere")), "there is no folder"
    yield GitSource(str(tmp_path / "file")), "there is no folder"
    yield GitSource(str(tmp_path / "plain")), "is not a git repository"
    yield GitSource(str(tmp_path / "unborn")), "has no commits yet"
    yield GitSource(str(tmp_path / "unborn"), "main"), "has no commits yet"
    yield GitSource(str(repository / "inner")), "a folder inside of a repository"
    yield GitSource(str(repository), "nosuch"), r"there is no commit 'nosuch'.*\n.*main, side"
    yield GitSource(str(repository), "HEAD:README"), "there is no commit"
    yield GitSource(str(repository), "--upload-pack=touch /tmp/x"), "not the name of a branch"
    yield GitSource(str(repository), ""), "not the name of a branch"
    yield GitSource(str(repository), "a\nb"), "not the name of a branch"
    yield FolderSource(str(tmp_path / "nowhere")), "there is no folder"
    yield FolderSource(str(tmp_path)), "contains the folder of this run"
    yield FolderSource(str(tmp_path / "run" / "workspaces")), "there is no folder"


async def test_a_source_that_cannot_be_used_is_refused_before_anything_is_written(
    tmp_path: Path, repository: Path, workspaces: GitWorkspaces
) -> None:
    for source, words in _bad_sources(tmp_path, repository):
        with pytest.raises(WorkspaceError, match=words) as caught:
            await workspaces.create(source)
        assert caught.value.hint
        with pytest.raises(WorkspaceError, match=words):
            await workspaces.check(source)
        assert not (tmp_path / "run").exists(), source


async def test_a_good_source_can_be_checked_without_a_trace(
    tmp_path: Path, repository: Path, workspaces: GitWorkspaces
) -> None:
    await workspaces.check(GitSource(str(repository), "side"))
    await workspaces.check(FolderSource(str(repository)))
    assert not (tmp_path / "run").exists()


async def test_a_repository_that_is_damaged_is_refused_and_nothing_stays(
    tmp_path: Path, repository: Path, workspaces: GitWorkspaces
) -> None:
    blob = git(repository, "rev-parse", "HEAD:README")
    (repository / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(WorkspaceError, match="cannot be cloned") as caught:
        await workspaces.create(GitSource(str(repository)))
    assert "git fsck" in caught.value.hint
    assert list((tmp_path / "run").iterdir()) == []


async def test_without_git_the_message_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, repository: Path, workspaces: GitWorkspaces
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(WorkspaceError, match="git was not found"):
        await workspaces.create(GitSource(str(repository)))


async def test_a_run_folder_that_cannot_be_made_is_an_error_that_says_where(
    tmp_path: Path, repository: Path
) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(WorkspaceError, match=r"cannot make the workspace: .*file"):
        await GitWorkspaces(tmp_path / "file" / "run").create(GitSource(str(repository)))


@pytest.mark.parametrize(
    "number", [errno.EACCES, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE]
)
def test_what_the_disk_refuses_is_explained(number: int) -> None:
    with pytest.raises(WorkspaceError, match="cannot store") as caught, explained("cannot store"):
        raise OSError(number, os.strerror(number), "/some/where")
    assert "/some/where" in caught.value.message
    assert caught.value.hint
    assert isinstance(caught.value, MachineTrouble) is (number != errno.EACCES), (
        "only a right must be given first"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
async def test_a_full_disk_is_explained_and_the_store_stays_usable(tmp_path: Path, repository: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", small], capture_output=True
    ).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        await _fill_up(small, repository)
    finally:
        subprocess.run(["umount", "--lazy", small], check=True)


async def _fill_up(small: Path, repository: Path) -> None:
    workspaces = GitWorkspaces(small / "run")
    baseline = await workspaces.create(GitSource(str(repository)))
    (workspaces.path(1) / "half").write_bytes(os.urandom(1_200_000))
    with pytest.raises(WorkspaceError, match="the disk is full") as caught:
        await workspaces.snapshot(1)
    assert "Free some space" in caught.value.hint
    (workspaces.path(1) / "half").unlink()
    assert (await workspaces.snapshot(1)).manifest == baseline.manifest
    (repository / "large").write_bytes(os.urandom(3_000_000))
    commit_all(repository, "large")
    with pytest.raises(WorkspaceError, match="the disk is full"):
        await GitWorkspaces(small / "other").create(GitSource(str(repository)))
    assert list((small / "other").iterdir()) == []


def _folder(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    (folder / "deep" / "empty").mkdir(parents=True)
    (folder / "deep" / "file").write_bytes(b"one\r\n\x00\xff")
    (folder / "deep" / "file").chmod(0o640)
    os.utime(folder / "deep" / "file", ns=(1_000, 2_000))
    (folder / "link").symlink_to("/etc/hostname")
    (folder / "closed").mkdir()
    (folder / "closed" / "x").write_text("x")
    (folder / "closed").chmod(0o500)
    return folder


async def test_a_folder_is_copied_with_links_modes_and_times(
    tmp_path: Path, workspaces: GitWorkspaces
) -> None:
    folder = _folder(tmp_path)
    os.mkfifo(folder / "pipe")
    before = fingerprint(folder)
    baseline = await workspaces.create(FolderSource(str(folder)))
    copy = workspaces.path(1)
    assert fingerprint(folder) == before
    assert (baseline.commit, baseline.branch) == (None, None)
    assert [(each.path, each.why) for each in baseline.missing] == [("pipe", "a named pipe")]
    assert (copy / "link").readlink() == Path("/etc/hostname")
    assert (copy / "deep" / "file").read_bytes() == b"one\r\n\x00\xff"
    for name in ("deep", "deep/empty", "deep/file", "closed", "closed/x"):
        assert (copy / name).stat().st_mode == (folder / name).stat().st_mode
        assert (copy / name).stat().st_mtime_ns == (folder / name).stat().st_mtime_ns
    assert not (copy / ".git").exists()


async def test_a_copied_folder_is_checkpointed_like_a_clone(
    tmp_path: Path, workspaces: GitWorkspaces
) -> None:
    await workspaces.create(FolderSource(str(_folder(tmp_path))))
    folder = workspaces.path(1)
    (folder / ".gitignore").write_text("*.tmp\n")
    (folder / "x.tmp").write_text("x")
    (folder / "new").write_text("x")
    taken = await workspaces.snapshot(1)
    assert [each.path for each in taken.missing] == ["x.tmp"]
    copy = workspaces.path(await workspaces.restore(taken))
    assert (copy / "new").exists()
    assert not (copy / "x.tmp").exists()
    assert (copy / "deep" / "empty").is_dir()


async def test_a_copied_worktree_does_not_share_the_users_repository(
    tmp_path: Path, repository: Path
) -> None:
    git(repository, "worktree", "add", "--quiet", "-b", "linked", str(tmp_path / "linked"))
    workspaces = GitWorkspaces(tmp_path / "run")
    baseline = await workspaces.create(FolderSource(str(tmp_path / "linked")))
    assert not (workspaces.path(1) / ".git").exists()
    assert [each.path for each in baseline.missing] == [".git"]


async def test_a_copied_repository_keeps_its_history(tmp_path: Path, repository: Path) -> None:
    workspaces = GitWorkspaces(tmp_path / "run")
    baseline = await workspaces.create(FolderSource(str(repository)))
    number = await workspaces.restore(Snapshot(tree=baseline.tree, manifest=baseline.manifest))
    assert git(workspaces.path(number), "log", "--oneline") == git(repository, "log", "--oneline")


@pytest.mark.parametrize("limits", [{"source_bytes_max": 3}, {"entries_max": 3}])
async def test_a_folder_over_the_limit_is_refused_and_nothing_stays(
    limits: dict[str, Any], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    workspaces = GitWorkspaces(run, **limits, aside=enter(run, 1))
    with pytest.raises(WorkspaceError, match="too large to be copied"):
        await workspaces.create(FolderSource(str(_folder(tmp_path))))
    assert list(run.rglob("*")) == [run / ".epoch-1"]


async def test_creating_again_begins_from_nothing(tmp_path: Path, repository: Path) -> None:
    run = tmp_path / "run"
    for leftover in ("workspaces/0001/.git", "private/store.git"):
        (run / leftover).mkdir(parents=True)
    (run / "workspaces" / "0001" / "half").write_text("x")
    (run / "private" / "other").write_text("not ours")
    workspaces = GitWorkspaces(run, aside=enter(run, 1))
    await workspaces.create(GitSource(str(repository)))
    assert sorted(path.name for path in workspaces.path(1).iterdir()) == [".git", "README"]
    assert sorted(path.name for path in run.iterdir()) == [".epoch-1", "private", "workspace", "workspaces"]
    assert [path.name for path in (run / "workspaces").iterdir()] == ["0001"]
    assert (run / "private" / "other").exists()
    (workspaces.path(1) / "README").write_text("changed")
    await workspaces.snapshot(1)
    baseline = await workspaces.create(GitSource(str(repository), "side"))
    assert await workspaces.matches(1, Snapshot(tree=baseline.tree, manifest=baseline.manifest))


_HOOKS = ("post-checkout", "pre-commit", "reference-transaction", "post-index-change", "fsmonitor-watchman")


def arm(folder: Path, marker: Path) -> None:
    """Everything in a repository's folder that could make git run something."""
    script = marker.with_suffix(".sh")
    script.write_text(f"#!/bin/sh\ntouch {marker}\nexec cat\n")
    script.chmod(0o755)
    hooks = folder / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for hook in _HOOKS:
        shutil.copy(script, hooks / hook)
    (folder / ".git" / "included").write_text(
        f"[core]\n\tsshCommand = {script}\n[diff]\n\texternal = {script}\n"
    )
    for key in (
        *("core.fsmonitor", "core.pager", "core.editor", "core.askPass", "core.alternateRefsCommand"),
        *(
            "core.gitProxy",
            "uploadpack.packObjectsHook",
            "diff.external",
            "diff.x.textconv",
            "diff.x.command",
        ),
        *("filter.x.clean", "filter.x.smudge", "filter.x.process", "credential.helper", "alias.ls-files"),
        *("alias.rev-parse", "pager.rev-parse", "pager.diff-tree", "gc.recentObjectsHook"),
    ):
        git(folder, "config", key, str(script))
    git(folder, "config", "core.hooksPath", str(hooks))
    git(folder, "config", "include.path", "included")
    git(folder, "config", "remote.origin.uploadpack", str(script))
    (folder / ".gitattributes").write_text("* filter=x diff=x\n")


async def test_nothing_that_the_users_repository_configures_is_run(
    tmp_path: Path, repository: Path, workspaces: GitWorkspaces
) -> None:
    (repository / ".gitattributes").write_text("* filter=x diff=x\n")
    commit_all(repository, "attributes")
    arm(repository, tmp_path / "ran")
    await workspaces.create(GitSource(str(repository), "main"))
    assert not (tmp_path / "ran").exists()


async def test_counting_uncommitted_files_runs_nothing_that_the_repository_configures(
    tmp_path: Path, repository: Path, workspaces: GitWorkspaces
) -> None:
    git(tmp_path, "clone", "--quiet", str(repository), str(repository / "nested"))
    for folder in (repository, repository / "nested"):
        arm(folder, tmp_path / "ran")
    (repository / "README").write_text("change\n")  # of the same length, so that contents are compared
    assert await workspaces.uncommitted(GitSource(str(repository))) == 3
    assert not (tmp_path / "ran").exists()


async def test_uncommitted_files_are_counted_as_the_repository_is_set_up(
    tmp_path: Path, repository: Path, workspaces: GitWorkspaces
) -> None:
    (repository / "script").write_text("x")
    commit_all(repository, "script")
    git(repository, "config", "core.fileMode", "false")
    (repository / "script").chmod(0o755)
    (repository / ".git" / "info").mkdir(exist_ok=True)
    (repository / ".git" / "info" / "exclude").write_text("*.log\n")
    git(repository, "update-index", "--split-index")
    git(repository, "worktree", "add", "--quiet", "-b", "linked", str(tmp_path / "linked"))
    for folder in (repository, tmp_path / "linked"):
        assert await workspaces.uncommitted(GitSource(str(folder))) == 0
        (folder / "README").write_text("changed\n")
        (folder / "x.log").touch()
        (folder / "new").touch()
        assert await workspaces.uncommitted(GitSource(str(folder))) == 2
    git(tmp_path, "clone", "--quiet", "--bare", str(repository), "bare.git")
    assert await workspaces.uncommitted(GitSource(str(tmp_path / "bare.git"))) == 0


def test_no_missing_object_is_fetched_by_a_command_of_the_repository(
    tmp_path: Path, repository: Path
) -> None:
    arm(repository, tmp_path / "ran")
    for key, value in (
        ("remote.origin.url", str(repository)),
        ("remote.origin.promisor", "true"),
        ("extensions.partialClone", "origin"),
        ("core.repositoryFormatVersion", "1"),
    ):
        git(repository, "config", key, value)
    (repository / ".git" / "refs" / "heads" / "missing").write_text("1" * 40 + "\n")
    as_an_older_git = {"GIT_NO_LAZY_FETCH": "0"}
    with pytest.raises(GitFailed):
        Git(10).run("-C", repository, "rev-parse", "--verify", "missing^{commit}", env=as_an_older_git)
    assert not (tmp_path / "ran").exists()


async def test_nothing_that_a_step_configures_is_run(
    tmp_path: Path, repository: Path, workspaces: GitWorkspaces
) -> None:
    baseline = await workspaces.create(GitSource(str(repository)))
    git(workspaces.path(1), "clone", "--quiet", ".", "nested")
    for folder in (workspaces.path(1), workspaces.path(1) / "nested"):
        arm(folder, tmp_path / "ran")
        (folder / ".gitignore").write_text("*.log\n")
        (folder / "x.log").write_text("x")
        (folder / "README").write_text("changed\n")
    taken = await workspaces.snapshot(1)
    await workspaces.change(baseline.tree, taken.tree)
    assert b"changed" in await workspaces.patch(baseline.tree, taken.tree, 1 << 20)
    await workspaces.changed_contents(baseline.tree, taken.tree, 1 << 20)
    assert await workspaces.matches(await workspaces.restore(taken), taken)
    await workspaces.swap(2, keep=0)
    assert not (tmp_path / "ran").exists()


async def test_the_environment_of_the_user_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, repository: Path
) -> None:
    (tmp_path / "home" / ".config" / "git").mkdir(parents=True)
    (tmp_path / "home" / ".config" / "git" / "ignore").write_text("README\n")
    (tmp_path / "home" / ".config" / "git" / "attributes").write_text("* text eol=crlf\n")
    (tmp_path / "home" / ".gitconfig").write_text(
        "[core]\n\tautocrlf = true\n[clone]\n\tdefaultRemoteName = x\n"
    )
    baselines: list[Baseline] = []
    for name, value in (
        ("HOME", str(tmp_path / "home")),
        ("GIT_DIR", "/nowhere"),
        ("GIT_INDEX_FILE", "/nowhere"),
    ):
        workspaces = GitWorkspaces(tmp_path / f"run{len(baselines)}")
        baselines.append(await workspaces.create(GitSource(str(repository))))
        monkeypatch.setenv(name, value)
    workspaces = GitWorkspaces(tmp_path / "last")
    baselines.append(await workspaces.create(GitSource(str(repository))))
    assert len({baseline.tree for baseline in baselines}) == 1


_DRIVER = """
import asyncio, os, sys, time
from pathlib import Path
from recoup.model.workspace import GitSource
from recoup.ports import Workspaces
from recoup.workspace.workspaces import GitWorkspaces

async def main(run, repository):
    workspaces = GitWorkspaces(Path(run))
    if not (Path(run) / "workspace").exists():
        print("creating", flush=True)
        await workspaces.create(GitSource(repository))
    print("created", flush=True)
    number = workspaces.current()
    for turn in range(1000):
        for name in range(20):
            (workspaces.path(number) / f"file{name}").write_bytes(os.urandom(5000))
        taken = await workspaces.snapshot(number)
        print(taken.tree, taken.manifest, flush=True)
        number = await workspaces.restore(taken)
        await workspaces.swap(number, 1)

asyncio.run(main(*sys.argv[1:]))
"""


async def _kill_at_random_and_go_on(tmp_path: Path, repository: Path, times: int) -> None:
    """The checkpoints that were reported before the kill are all there after it."""
    run = tmp_path / "run"
    chance, longest_s = random.Random(times), 0.5
    reported: list[Snapshot] = []
    kills = 0
    while kills < times or not reported:
        lines = await _driven_for(run, repository, chance.uniform(0.0, longest_s))
        kills += 1
        longest_s *= 1 if reported or kills < times else 2  # a slow machine needs longer for the first one
        reported += [_snapshot(line) for line in lines if " sha256:" in line]
        workspaces = GitWorkspaces(run)
        for snapshot in reported[-2:]:
            assert await workspaces.matches(await workspaces.restore(snapshot), snapshot)
    git(tmp_path, f"--git-dir={run / 'private' / 'store.git'}", "fsck", "--full")


def _snapshot(line: str) -> Snapshot:
    tree, manifest = line.split()
    return Snapshot(tree=tree, manifest=manifest)


async def _driven_for(run: Path, repository: Path, seconds: float) -> list[str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _DRIVER, str(run), str(repository)), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    first = await process.stdout.readline()
    await asyncio.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    rest = await process.stdout.read()
    await process.wait()
    whole = (first + rest).decode()
    return whole[: whole.rfind("\n") + 1].splitlines()


async def test_a_driver_killed_at_any_instant_loses_no_checkpoint(tmp_path: Path, repository: Path) -> None:
    await _kill_at_random_and_go_on(tmp_path, repository, times=6)


@pytest.mark.soak
async def test_a_driver_killed_at_many_instants_loses_no_checkpoint(tmp_path: Path, repository: Path) -> None:
    await _kill_at_random_and_go_on(tmp_path, repository, times=60)
