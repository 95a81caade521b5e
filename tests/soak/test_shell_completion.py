"""Completion in real shells: fish says itself what it would offer, zsh is typed into through a terminal."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.soak
PLAN = "{version: 1, name: tiny, steps: [{id: fetch, run: 'true'}, {id: build, run: 'true'}]}"
ANSWER_S = 30.0
KEY = b"\x14"
SETTING_UP = (
    "PS1='> '; autoload -Uz compinit; compinit -u -D; "
    'source script.zsh; told() { zle expand-or-complete; zle -R; print -r -- "$BUFFER" >> told; BUFFER=; }; '
    "zle -N told; bindkey '^T' told; print -r -- ready >> told\n"
)
"""One key does what Tab does, shows what there is to show, and only then tells: zsh shows nothing while more is typed."""
ONE_ANSWER = {
    "recoup res": "resume",
    "recoup memory roll": "rollback",
    "recoup run --dry": "--dry-run",
    "recoup control last hard": "hard_reset_step",
    "recoup help stu": "stuck-run",
    "recoup logs last bu": "build",
    "recoup control last settle --step fe": "fetch",
    "recoup run pl": "plan.yaml",
    "recoup run a,": "a,b.yaml",
}


def needs(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        shutil.which(shell) is None, reason=f"there is no {shell}: tools/setup-soak.sh installs it"
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With `recoup` as a program, its scripts where the help puts them, two plans and a run."""
    folder = tmp_path_factory.mktemp("shells")
    program = folder / "programs" / "recoup"
    program.parent.mkdir()
    program.write_text(
        f"#!{sys.executable}\nimport sys\nfrom recoup.cli.main import main\nsys.argv[0] = 'recoup'\nmain()\n"
    )
    program.chmod(0o755)
    for name in ("plan.yaml", "a,b.yaml"):
        (folder / name).write_text(PLAN)
    scripts = folder / ".config" / "fish" / "completions"
    scripts.mkdir(parents=True)
    (scripts / "recoup.fish").write_text(said(folder, "recoup", "completion", "fish"))
    (folder / "script.zsh").write_text(said(folder, "recoup", "completion", "zsh"))
    said(folder, "recoup", "run", "plan.yaml")
    return folder


def environ(folder: Path) -> dict[str, str]:
    path = f"{folder / 'programs'}:{os.environ['PATH']}"
    return {"HOME": str(folder), "RECOUP_HOME": str(folder / "home"), "PATH": path, "TERM": "dumb"}


def said(folder: Path, *argv: str) -> str:
    done = subprocess.run(
        argv,
        capture_output=True,
        text=True,
        cwd=folder,
        env=environ(folder),
        timeout=60,
        executable=shutil.which(argv[0], path=environ(folder)["PATH"]),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_id(folder: Path) -> str:
    (run,) = (folder / "home" / "runs").iterdir()
    return run.name


# fish


def offered(folder: Path, line: str) -> dict[str, str]:
    """What fish would offer, and what it says about each."""
    answer = said(folder, "fish", "-c", f"complete -C '{line}'")
    return {key: words for key, _, words in (one.partition("\t") for one in answer.splitlines())}


@needs("fish")
@pytest.mark.parametrize(("line", "wanted"), ONE_ANSWER.items())
def test_fish_completes_what_only_one_thing_can_follow(folder: Path, line: str, wanted: str) -> None:
    assert list(offered(folder, line)) == [wanted]


@needs("fish")
def test_fish_offers_all_that_can_follow_with_whole_sentences(folder: Path) -> None:
    assert set(offered(folder, "recoup show ")) == {"last", run_id(folder)}
    assert set(offered(folder, "recoup logs last ")) == {"fetch", "build"}
    told = said(
        folder, "env", "_RECOUP_COMPLETE=fish_complete", "COMP_WORDS=recoup ", "COMP_CWORD=", "recoup"
    )
    sentences = dict(one.removeprefix("plain,").split("\t") for one in told.splitlines())
    assert any("," in words for words in sentences.values())
    found = offered(folder, "recoup ")
    assert {key: found[key] for key in sentences} == sentences


# zsh


class Zsh:
    """One that somebody types into; on a key it completes the line, writes it down, and empties it."""

    def __init__(self, folder: Path, terminal: int) -> None:
        self._told = folder / "told"
        self._terminal = terminal
        self._told.write_text("")
        os.write(terminal, SETTING_UP.encode())
        self._next_line(0)

    def completed(self, line: str) -> tuple[str, str]:
        """What becomes of the line on Tab, and what was shown meanwhile."""
        before = len(self._lines())
        os.write(self._terminal, line.encode() + KEY)
        shown = self._next_line(before)
        return self._lines()[-1], shown

    def _next_line(self, before: int) -> str:
        shown, deadline_s = "", time.monotonic() + ANSWER_S
        while not (answered := len(self._lines()) > before) or self._has_more():
            assert answered or time.monotonic() < deadline_s, f"zsh did not answer; it showed {shown!r}"
            if self._has_more():
                shown += os.read(self._terminal, 65_536).decode("utf-8", "replace")
        return shown

    def _has_more(self) -> bool:
        return bool(select.select([self._terminal], [], [], 0.05)[0])

    def _lines(self) -> list[str]:
        return self._told.read_text().splitlines()


@pytest.fixture(scope="module")
def zsh(folder: Path) -> Iterator[Zsh]:
    ours, theirs = pty.openpty()
    try:
        with subprocess.Popen(
            ["zsh", "-f", "-i"],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            env=environ(folder),
            start_new_session=True,
        ) as process:
            yield Zsh(folder, ours)
            process.kill()
    finally:
        os.close(ours)
        os.close(theirs)


@needs("zsh")
@pytest.mark.parametrize(("line", "wanted"), ONE_ANSWER.items())
def test_zsh_completes_what_only_one_thing_can_follow(zsh: Zsh, line: str, wanted: str) -> None:
    begun = line[: line.rindex(" ") + 1]
    assert zsh.completed(line)[0].rstrip() == f"{begun}{wanted}"


@needs("zsh")
def test_zsh_shows_all_that_can_follow(zsh: Zsh, folder: Path) -> None:
    line, shown = zsh.completed("recoup show ")
    assert line == "recoup show " and "last" in shown and run_id(folder) in shown
