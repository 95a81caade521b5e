"""Where we run: flag over environment over recoup.toml over defaults."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from recoup.errors import SettingsError
from recoup.settings import read_settings


def test_without_anything_said_state_lives_in_the_xdg_state_folder(tmp_path: Path) -> None:
    settings = read_settings({"HOME": str(tmp_path)}, tmp_path)
    assert settings.home == tmp_path / ".local/state/recoup"
    assert settings.database == settings.home / "ledger.db"
    assert (settings.policy, settings.key, settings.lease_s, settings.heartbeat_s) == (None, None, 10, 3)
    assert read_settings({"XDG_STATE_HOME": str(tmp_path / "s")}, tmp_path).home == tmp_path / "s/recoup"


def test_a_flag_beats_the_environment_which_beats_the_file(tmp_path: Path) -> None:
    (tmp_path / "recoup.toml").write_text('recoup_home = "/from/file"\nrecoup_lease_s = 20\n')
    assert str(read_settings({}, tmp_path).home) == "/from/file"
    settings = read_settings({"RECOUP_HOME": "/from/environment"}, tmp_path)
    assert (str(settings.home), settings.lease_s) == ("/from/environment", 20)
    assert (
        str(read_settings({"RECOUP_HOME": "/from/environment"}, tmp_path, "/from/flag").home) == "/from/flag"
    )


@pytest.mark.parametrize(
    ("environ", "word"),
    [
        ({"RECOUP_LEASE_S": "soon"}, "RECOUP_LEASE_S"),
        ({"RECOUP_LEASE_S": "-1"}, "RECOUP_LEASE_S"),
        ({"RECOUP_LEASE_S": "4", "RECOUP_HEARTBEAT_S": "3"}, "do not go together"),
        ({"RECOUP_DATABASE": "mysql://localhost/x"}, "RECOUP_DATABASE"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(tmp_path: Path, environ: dict[str, str], word: str) -> None:
    with pytest.raises(SettingsError, match=word) as refused:
        read_settings({"HOME": str(tmp_path), **environ}, tmp_path)
    assert refused.value.hint


@pytest.mark.parametrize("text", ["recoup_hme = 1\n", "not toml at all ["])
def test_a_bad_settings_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "recoup.toml").write_text(text)
    with pytest.raises(SettingsError, match=r"recoup\.toml"):
        read_settings({"HOME": str(tmp_path)}, tmp_path)


def test_a_token_comes_from_the_environment_or_from_a_file_of_its_owner_alone(tmp_path: Path) -> None:
    token = "made-" + "for-this-test"
    settings = read_settings({"RECOUP_TOKEN": token}, tmp_path)
    assert settings.token == token and token not in repr(settings)
    file = tmp_path / "recoup.toml"
    file.write_text(f'recoup_token = "{token}"\n')
    file.chmod(0o600)
    assert read_settings({}, tmp_path).token == token
    for mode in (0o640, 0o604, 0o644):
        file.chmod(mode)
        with pytest.raises(SettingsError, match="chmod 600") as refused:
            read_settings({}, tmp_path)
        assert token not in str(refused.value)


@pytest.mark.parametrize("name", ["recoup_key", "recoup_database", "recoup_evidence"])
def test_a_file_that_others_can_read_holds_no_secret(name: str, tmp_path: Path) -> None:
    word = "made-" + "for-this-test"
    scheme = {"recoup_key": "", "recoup_database": "postgresql://me:", "recoup_evidence": "s3://me:"}[name]
    file = tmp_path / "recoup.toml"
    file.write_text(f'{name} = "{scheme}{word}{"@host/place" if scheme else ""}"\n')
    file.chmod(0o644)
    with pytest.raises(SettingsError, match=f"{name.upper()}.*") as refused:
        read_settings({"HOME": str(tmp_path)}, tmp_path)
    assert word not in str(refused.value)
    assert "chmod 600" in str(refused.value)


def test_a_name_that_only_the_environment_may_give_is_not_ignored_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "recoup.toml").write_text('recoup_browser = "chrome"\n')
    with pytest.raises(SettingsError, match="RECOUP_BROWSER counts in the environment alone"):
        read_settings({"HOME": str(tmp_path)}, tmp_path)


def test_settings_as_text_show_neither_the_key_nor_what_opens_the_depot(tmp_path: Path) -> None:
    key, word = "k" * 20, "w" * 20
    said = {"RECOUP_KEY": key, "RECOUP_EVIDENCE": f"sftp://somebody:{word}@host/place"}
    settings = read_settings(said, tmp_path)
    assert settings.key == key and word in (settings.evidence or "")
    assert key not in repr(settings) and word not in repr(settings)


@pytest.mark.parametrize("shared", ["recoup.toml", "."])
def test_a_settings_file_that_others_can_change_is_refused(shared: str, tmp_path: Path) -> None:
    (tmp_path / "recoup.toml").write_text("recoup_lease_s = 20\n")
    path = tmp_path / shared
    for mode in (0o777, 0o1777, 0o757):
        path.chmod(mode)
        with pytest.raises(SettingsError, match=f"can be written by other users.*{mode:04o}") as refused:
            read_settings({"HOME": "/nowhere"}, tmp_path)
        assert f"chmod go-w {path}" in refused.value.hint
    path.chmod(0o755)
    settings = read_settings({"HOME": "/nowhere"}, tmp_path)
    assert (settings.lease_s, settings.file) == (20, tmp_path / "recoup.toml")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("foreign", ["project/recoup.toml", "project", "."])
def test_a_settings_file_of_another_user_is_refused(foreign: str, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "recoup.toml").write_text('recoup_home = "/tmp/theirs"\n')
    os.chown(tmp_path / foreign, 65534, 65534)
    with pytest.raises(SettingsError, match="belongs to nobody") as refused:
        read_settings({"HOME": "/nowhere"}, folder)
    assert str(folder / "recoup.toml") in refused.value.message


def test_a_settings_file_through_a_link_in_a_folder_of_others_is_refused(tmp_path: Path) -> None:
    (tmp_path / "shared" / "inner").mkdir(parents=True)
    (tmp_path / "own.toml").write_text("recoup_lease_s = 20\n")
    (tmp_path / "shared" / "inner" / "recoup.toml").symlink_to(tmp_path / "own.toml")
    (tmp_path / "shared").chmod(0o777)
    with pytest.raises(SettingsError, match="shared can be written by other users"):
        read_settings({"HOME": "/nowhere"}, tmp_path / "shared" / "inner")


@pytest.mark.parametrize(
    ("name", "address", "secret"),
    [
        ("recoup_gateway", "https://elsewhere.example", "RECOUP_TOKEN"),
        ("recoup_database", "postgresql://elsewhere.example/x", "PGPASSWORD"),
    ],
)
def test_a_secret_of_the_environment_is_not_sent_where_a_folder_says(
    name: str, address: str, secret: str, tmp_path: Path
) -> None:
    (tmp_path / "recoup.toml").write_text(f'{name} = "{address}"\n')
    environ = {"HOME": str(tmp_path / "user"), secret: "made-" + "for-this-test"}
    with pytest.raises(SettingsError, match=f"recoup.toml says where {secret}") as refused:
        read_settings(environ, tmp_path)
    assert "made-" not in str(refused.value) and f"export {name.upper()}" in refused.value.hint
    del environ[secret]
    read_settings(environ, tmp_path)


def test_an_address_of_the_environment_or_of_the_users_configuration_takes_a_token(tmp_path: Path) -> None:
    config = tmp_path / ".config" / "recoup"
    config.mkdir(parents=True)
    (config / "recoup.toml").write_text('recoup_gateway = "https://own.example"\n')
    environ = {"HOME": str(tmp_path), "RECOUP_TOKEN": "made-" + "for-this-test"}
    (tmp_path / "empty").mkdir()
    assert read_settings(environ, tmp_path / "empty").gateway == "https://own.example"
    (tmp_path / "recoup.toml").write_text('recoup_gateway = "https://elsewhere.example"\n')
    environ["RECOUP_GATEWAY"] = "https://own.example"
    assert read_settings(environ, tmp_path).gateway == "https://own.example"


def test_a_home_that_came_with_a_folder_is_refused_until_it_is_its_owners_alone(tmp_path: Path) -> None:
    (tmp_path / "recoup.toml").write_text(f'recoup_home = "{tmp_path / ".recoup"}"\n')
    assert read_settings({"HOME": "/nowhere"}, tmp_path).home == tmp_path / ".recoup"
    (tmp_path / ".recoup").mkdir()
    (tmp_path / ".recoup").chmod(0o755)
    with pytest.raises(SettingsError, match="came with the folder") as refused:
        read_settings({"HOME": "/nowhere"}, tmp_path)
    assert "chmod 700" in refused.value.hint
    (tmp_path / ".recoup").chmod(0o700)
    assert read_settings({"HOME": "/nowhere"}, tmp_path).home == tmp_path / ".recoup"
