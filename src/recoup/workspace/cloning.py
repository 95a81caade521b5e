"""Makes the store and the first workspace from a repository of the user's, which is only read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from recoup.errors import WorkspaceError
from recoup.machine import write_trouble
from recoup.model.workspace import GitSource
from recoup.workspace.disk import sync_all_below
from recoup.workspace.git import USERS_UMASK, Git, GitFailed, in_our_place, trouble_below, unless_in_trouble
from recoup.workspace.layout import Layout, Origin
from recoup.workspace.store import PINNED, make_store
from recoup.workspace.uncommitted import count_changes

BRANCHES_SHOWN_MAX = 10
REF_BYTES_MAX = 1_000

_HEADS = "refs/heads/"
# A partial clone must not fetch what it lacks, into the user's repository, because we read it.
_UPLOAD_PACK = "GIT_ALLOW_PROTOCOL=none git-upload-pack"
# The second is what the first releases that refused said.
_ANOTHERS = ("detected dubious ownership", "unsafe repository")
# From <workspace>/.git/objects; true for every workspace, and after the folder of the run was moved.
_BORROWED = b"../../../../private/store.git/objects\n"


class Repository(NamedTuple):
    """The user's repository."""

    path: Path
    object_format: str


def find(git: Git, source: GitSource) -> Repository:
    path = Path(source.path).resolve()
    if not path.is_dir():
        raise WorkspaceError(
            f"there is no folder {path}", hint="Name the repository in the plan: workspace: {git: …}."
        )
    _refuse_what_is_anothers(git, path)
    try:
        answer = git.run("-C", path, "rev-parse", "--show-object-format", "--show-prefix")
    except GitFailed as error:
        raise _no_repository(path, error) from None
    object_format, prefix = answer.decode("utf-8", "replace").split("\n")[:2]
    if prefix:
        raise WorkspaceError(
            f"{path} is a folder inside of a repository, not its top",
            hint=f"Say which you mean: git: {_top(path, prefix)}, or folder: {path}.",
        )
    return Repository(path, object_format)


def pin(git: Git, repository: Repository, ref: str | None) -> Origin:
    """The commit that the ref names now."""
    name = "HEAD" if ref is None else _checked_ref(ref)
    try:
        commit = _rev_parse(git, repository, "--verify", "--quiet", f"{name}^{{commit}}")
    except GitFailed:
        raise _no_commit(git, repository, ref) from None
    return Origin(repository.object_format, commit, _branch(git, repository, name))


@contextmanager
def reading_the_source() -> Iterator[None]:
    """Nothing of ours is touched meanwhile: what git says is about the source."""
    try:
        yield
    except GitFailed as error:
        hint = "Does `git status` work there?"
        raise WorkspaceError(f"the source cannot be read: {error.message}", hint=hint) from None


def count_uncommitted(git: Git, source: GitSource) -> int:
    """Changed and new files of the work tree, if it is the source's HEAD that will be cloned."""
    with reading_the_source():
        repository = find(git, source)
        origin = pin(git, repository, None)
        if pin(git, repository, source.ref).commit != origin.commit:
            return 0
    try:
        return count_changes(git, repository.path, origin)
    except GitFailed:
        return 0  # an index that git cannot read harms no clone


def clone_store(git: Git, repository: Repository, origin: Origin, path: Path) -> None:
    """All branches and tags, and the pinned commit even if none of them reaches it."""
    with in_our_place(path.parent):
        make_store(git, path, origin.object_format)
    try:
        git.run(
            f"--git-dir={path}",
            *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules"),
            *("--no-auto-maintenance", "--update-shallow", "--upload-pack", _UPLOAD_PACK),
            *(
                "--",
                repository.path,
                f"+{_HEADS}*:{_HEADS}*",
                "+refs/tags/*:refs/tags/*",
                f"+{origin.commit}:{PINNED}",
            ),
            env={"GIT_ALLOW_PROTOCOL": "file"},
        )
    except GitFailed as error:
        raise _not_fetched(git, repository, path.parent, error) from None
    with in_our_place(path.parent):
        git.run(f"--git-dir={path}", "pack-refs", "--all", "--prune")
    sync_all_below(path)


def check_out(git: Git, layout: Layout, origin: Origin, path: Path) -> None:
    """Borrows its objects from the store: no remote, no hooks, conversions as the commit says."""
    with in_our_place(path.parent):
        _make_repository(git, layout, origin, path)
    try:
        # Asked while what was written still lies there: removed, it would leave room that nobody had.
        with unless_in_trouble(path.parent):
            _in(git, path, "read-tree", "--reset", "-u", "HEAD")
    except GitFailed as error:
        raise WorkspaceError(
            f"the commit {origin.commit} cannot be checked out: {error.stderr}",
            hint="Does `git checkout` work in a fresh clone of it?",
        ) from None


def _make_repository(git: Git, layout: Layout, origin: Origin, path: Path) -> None:
    kind = f"--object-format={origin.object_format}"
    git.run("init", "--quiet", "--template=", kind, path.name, cwd=path.parent, umask=USERS_UMASK)
    inside = path / ".git"
    (inside / "objects" / "info").mkdir(exist_ok=True)
    (inside / "objects" / "info" / "alternates").write_bytes(_BORROWED)
    shallow = layout.store / "shallow"
    if shallow.is_file():
        (inside / "shallow").write_bytes(shallow.read_bytes())
    _copy_refs(git, layout, origin, inside)
    _point_head(git, origin, inside)


def _copy_refs(git: Git, layout: Layout, origin: Origin, inside: Path) -> None:
    listed = git.run(
        f"--git-dir={layout.store}",
        "for-each-ref",
        "--format=%(refname)%00%(objectname)",
        _HEADS,
        "refs/tags/",
    )
    refs = dict(line.split("\0") for line in os.fsdecode(listed).split("\n") if line)
    if origin.branch is not None and origin.commit is not None:
        # The branch may have moved between the moment it was pinned and the moment it was fetched.
        refs[_HEADS + origin.branch] = origin.commit
    commands = "".join(f"create {name}\0{id_}\0" for name, id_ in sorted(refs.items()))
    _in(git, inside.parent, "update-ref", "-z", "--stdin", stdin=os.fsencode(commands))
    _in(git, inside.parent, "pack-refs", "--all", "--prune")


def _point_head(git: Git, origin: Origin, inside: Path) -> None:
    if origin.branch is not None:
        _in(git, inside.parent, "symbolic-ref", "HEAD", _HEADS + origin.branch)
    else:
        _in(git, inside.parent, "update-ref", "--no-deref", "HEAD", str(origin.commit))


def _in(git: Git, workspace: Path, *args: str, stdin: bytes = b"") -> bytes:
    """In a workspace that no step has seen yet."""
    return git.run(
        f"--git-dir={workspace / '.git'}",
        f"--work-tree={workspace}",
        *args,
        cwd=workspace,
        stdin=stdin,
        umask=USERS_UMASK,
    )


def _rev_parse(git: Git, repository: Repository, *args: str) -> str:
    return os.fsdecode(git.run("-C", repository.path, "rev-parse", *args)).strip()


def _checked_ref(ref: str) -> str:
    if not ref or ref.startswith("-") or len(ref) > REF_BYTES_MAX or not ref.isprintable():
        raise WorkspaceError(
            f"not the name of a branch, tag or commit: {ref[:80]!r}", hint="Name one under `ref:`."
        )
    return ref


def _branch(git: Git, repository: Repository, name: str) -> str | None:
    full = _rev_parse(git, repository, "--symbolic-full-name", name)
    # A name that cannot be written down is not kept; the commit is checked out all the same.
    return full.removeprefix(_HEADS) if full.startswith(_HEADS) and full.isprintable() else None


def _refuse_what_is_anothers(git: Git, path: Path) -> None:
    """Asks git as the user has it, because `safe.directory` is theirs to set. All else that is wrong shows up later."""
    try:
        git.run("-C", path, "rev-parse", "--git-dir", of_the_user=True)
    except GitFailed as error:
        if any(words in error.stderr for words in _ANOTHERS):
            raise WorkspaceError(
                f"the repository {path} belongs to another user, and its configuration could name commands",
                hint=f"Clone it as yourself, or, if you trust it: git config --global --add safe.directory {path}",
            ) from None


def _top(path: Path, prefix: str) -> Path:
    return path.parents[len(prefix.strip("/").split("/")) - 1]


def _no_repository(path: Path, error: GitFailed) -> WorkspaceError:
    if "not a git repository" in error.stderr:
        return WorkspaceError(
            f"{path} is not a git repository",
            hint="Name one, run `git init` there, or say `folder:` to have it copied.",
        )
    return WorkspaceError(
        f"{path} cannot be read as a git repository: {error.stderr}", hint="Does `git status` work there?"
    )


def _no_commit(git: Git, repository: Repository, ref: str | None) -> WorkspaceError:
    args = ("for-each-ref", f"--count={BRANCHES_SHOWN_MAX}", "--format=%(refname:short)", _HEADS)
    branches = os.fsdecode(git.run("-C", repository.path, *args)).split()
    if not branches:
        return WorkspaceError(f"{repository.path} has no commits yet", hint="Commit something there first.")
    known = f"Branches there: {', '.join(branches)}."
    if ref is None:
        return WorkspaceError(f"HEAD of {repository.path} names no commit", hint=f"Name a ref. {known}")
    return WorkspaceError(f"there is no commit {ref!r} in {repository.path}", hint=known)


def _not_fetched(git: Git, repository: Repository, ours: Path, error: GitFailed) -> WorkspaceError:
    """A fetch reads the source and writes our store. Only a source that cannot be read on its own is to blame."""
    if write_trouble(ours) is not None or _can_be_read(git, repository):
        return trouble_below(ours, error.message)
    if _is_partial(git, repository):
        return WorkspaceError(
            f"{repository.path} is a partial clone and lacks objects",
            hint="Use a full clone, or say `folder:` to have its files copied.",
        )
    return WorkspaceError(
        f"{repository.path} cannot be cloned: {error.stderr}", hint="Does `git fsck` find it in order?"
    )


def _can_be_read(git: Git, repository: Repository) -> bool:
    """All that a fetch would send, packed for nobody: nothing is written anywhere."""
    try:
        with git.talking("-C", repository.path, "pack-objects", "--all", "--quiet", "--stdout") as talk:
            assert talk.stdin is not None, "talking() always writes unless it is given a file"
            talk.stdin.close()
            while talk.stdout.read(1 << 20):
                git.go_on()
            talk.finished()
    except (WorkspaceError, BrokenPipeError):
        return False
    return True


def _is_partial(git: Git, repository: Repository) -> bool:
    try:
        git.run(
            "-C",
            repository.path,
            "config",
            "--get-regexp",
            r"^(remote\..*\.promisor|extensions\.partialclone)$",
        )
    except GitFailed:
        return False
    return True
