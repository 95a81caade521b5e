"""A home belongs to one user, and nobody else can write there."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest
from tests.scenario.conftest import Cli

from recoup.errors import SettingsError
from recoup.settings import require_own_home

_PLAN = """
    version: 1
    name: one
    workspace: {git: ./repo}
    steps:
      - {id: say, run: "echo hello > made; echo hello"}
      - {id: fail, run: "exit 3"}
    """
_COMMANDS = (
    ("runs",),
    ("run", "plan.yaml"),
    ("submit", "plan.yaml"),
    ("worker", "--until-idle"),
    ("ledger", "last"),
    ("audit", "verify"),
    ("audit", "show"),
    ("tokens", "list"),
    ("webhooks", "list"),
    ("serve", "--port", "0"),
    ("doctor",),
)


@pytest.mark.parametrize("words", _COMMANDS, ids=lambda words: " ".join(words[:2]))
def test_no_command_opens_a_home_that_others_can_write(words: tuple[str, ...], cli: Cli) -> None:
    cli.plan(_PLAN.replace("./repo", "."))
    cli.home.mkdir()
    cli.home.chmod(0o777)
    refused = cli(*words)
    said = refused.out + refused.err
    assert refused.code == (1 if words[0] == "doctor" else 2), said
    assert f"the home {cli.home} cannot be trusted: it can be written by other users (mode 0777)" in said
    assert f"chmod go-w {cli.home}" in said
    assert list(cli.home.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("foreign", ["home", "."])
def test_a_home_of_another_user_or_in_their_folder_is_refused(foreign: str, cli: Cli) -> None:
    cli.home.mkdir(mode=0o700)
    os.chown(cli.home.parent / foreign, 65534, 65534)
    for home in (cli.home, cli.home / "new"):
        refused = cli("--home", str(home), "runs")
        assert refused.code == 2
        assert f"the home {home} cannot be trusted" in refused.err and "belongs to nobody" in refused.err
        assert "Run Recoup as the user who owns it" in refused.err
    assert list(cli.home.iterdir()) == []


def test_a_home_below_a_folder_for_everybody_is_made_and_links_of_others_are_not_followed(
    tmp_path: Path,
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    require_own_home(shared / "made" / "home")
    shared.chmod(0o777)
    with pytest.raises(SettingsError, match=rf"{shared} can be written by other users \(mode 0777\)"):
        require_own_home(shared / "made" / "home")
    (tmp_path / "first").symlink_to(tmp_path / "second")
    (tmp_path / "second").symlink_to("shared/third")
    with pytest.raises(SettingsError, match="shared can be written"):
        require_own_home(tmp_path / "first")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_link_that_another_user_left_in_a_folder_for_everybody_is_refused(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    link = tmp_path / "shared" / "home"
    link.symlink_to(tmp_path / "own")
    require_own_home(link)
    os.lchown(link, 65534, 65534)
    for home in (link, link / "below"):
        with pytest.raises(SettingsError, match="belongs to nobody"):
            require_own_home(home)


def test_nothing_of_the_home_is_open_to_others_whatever_the_umask(cli: Cli, repo: Path) -> None:
    cli.plan(_PLAN)
    home = cli.folder / "new" / "home"
    script = 'umask 000; for words in "run plan.yaml" report "audit export" "tokens list" "submit plan.yaml"'
    script += '; do recoup --home "$1" $words; done'
    recoup = Path(cli.argv()[0]).parent
    env = cli.environ() | {"PATH": f"{recoup}:{os.environ['PATH']}"}
    subprocess.run(["bash", "-c", script, "bash", home], cwd=cli.folder, env=env, capture_output=True)
    assert stat.S_IMODE(home.parent.stat().st_mode) == 0o755
    left = [path for path in [home, *home.rglob("*")] if "workspaces" not in path.parts[len(home.parts) :]]
    assert len(left) > 40
    assert [path for path in left if not path.is_symlink() and path.stat().st_mode & 0o077] == []
