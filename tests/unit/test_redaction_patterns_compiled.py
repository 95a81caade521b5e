"""Where the rules come from, what becomes of them, and how they are kept."""

from __future__ import annotations

import stat
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import re2

from recoup.redaction.patterns import compiling, package
from recoup.redaction.patterns.cache import Compiled, read_compiled, write_compiled
from recoup.redaction.patterns.catalogue import pattern_set
from recoup.redaction.patterns.compiled import screening_database, screens_of, spanning_pattern
from recoup.redaction.patterns.compiling import compile_all, own_rules
from recoup.redaction.patterns.rewriting import crosses_lines, fitted, screen_of
from recoup.redaction.patterns.rule import Gate, Rule


@cache
def compiled() -> Compiled:
    return compile_all("key", "kingfisher_bin-1")


def test_every_rule_of_ours_compiles_in_both_engines() -> None:
    rules = own_rules()
    assert len({rule.name for rule in rules}) == len(rules)
    for rule in rules:
        spanning_pattern(rule.pattern)
    screening_database(screens_of(rules))


def test_no_rule_of_the_package_is_lost_to_an_engine() -> None:
    assert compiled().rules_read >= 400
    assert {why for why in compiled().left_out.values() if "compile" in why} == set()
    assert len(compiled().rules) == len(own_rules()) + compiled().rules_read - len(compiled().left_out)


def test_what_is_left_out_has_a_reason() -> None:
    assert 0 < len(compiled().left_out) < 60
    assert all(compiled().left_out.values())


def test_without_the_package_our_own_rules_still_work(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(package, "installed_at", lambda: None)
    found = pattern_set(tmp_path)
    assert found.report.package is None
    assert "pip install" in str(found.report.trouble)
    assert found.report.screened == len(own_rules())
    assert found.occurs(b"password=abc12345xyz\n")
    assert not list(tmp_path.iterdir()), "trouble is not cached: the package may be there next time"


def test_a_package_that_prints_nonsense_is_trouble_and_no_more(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    binary = tmp_path / "bin" / "kingfisher"
    binary.parent.mkdir()
    binary.write_text("#!/bin/sh\necho nonsense\n")
    binary.chmod(0o755)
    monkeypatch.setattr(package, "installed_at", lambda: tmp_path)
    with pytest.raises(package.PackageUnusable, match="no list of rules"):
        package.package_rules()


# The cache


def kept(folder: Path) -> tuple[Compiled, Path]:
    small = Compiled("k", [Rule("a", "b{3}", Gate.NONE, "b{3}")], b"\0database", "p 1", None, 1, {"x": "why"})
    write_compiled(folder, small)
    return small, next(folder.iterdir())


def test_what_was_kept_is_read_back_and_only_the_owner_can(tmp_path: Path) -> None:
    small, path = kept(tmp_path / "cache")
    assert read_compiled(tmp_path / "cache", "k") == small
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_cache_for_other_versions_is_not_used(tmp_path: Path) -> None:
    kept(tmp_path)
    assert read_compiled(tmp_path, "other") is None


def test_a_damaged_cache_is_noticed_whatever_byte_it_is(tmp_path: Path) -> None:
    _, path = kept(tmp_path)
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert read_compiled(tmp_path, "k") is None
        path.write_bytes(whole[:at])
        assert read_compiled(tmp_path, "k") is None


def test_a_set_comes_from_the_cache_and_a_damaged_one_is_made_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made: list[str] = []

    def small(key: str, _package: str | None) -> Compiled:
        made.append(key)
        rules = [Rule("a", "b{3}", Gate.NONE, "b{3}")]
        return Compiled(key, rules, screening_database(screens_of(rules)), "p 1", None, 1, {})

    monkeypatch.setattr(compiling, "compile_all", small)
    for _ in range(3):
        assert pattern_set(tmp_path).occurs(b"abbbc")
    assert len(made) == 1
    next(tmp_path.iterdir()).write_bytes(b"nonsense")
    assert pattern_set(tmp_path).occurs(b"abbbc")
    assert len(made) == 2


def test_only_the_newest_caches_are_kept(tmp_path: Path) -> None:
    for key in "abcdefgh":
        write_compiled(tmp_path, Compiled(key, [], b"", None, None, 0, {}))
    assert len(list(tmp_path.iterdir())) == 4
    assert read_compiled(tmp_path, "h") is not None


def test_a_folder_that_cannot_be_written_is_no_reason_to_fail(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    write_compiled(tmp_path / "file", Compiled("k", [], b"", None, None, 0, {}))
    assert read_compiled(tmp_path / "file", "k") is None


# Rewriting


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"a{2,5000}b", "aaab"),
        (r"x[{}]{3}\{9,9999\}", "x{}}{9,9999}"),
        ("(?xi)\n  key # a comment\n  [ ]  = \\ v", "KEY = v"),
        (r"[]a]{1,2000}", "]a"),
        (r"[[:alpha:]]{1,2000}\d", "abc1"),
    ],
)
def test_a_pattern_that_an_engine_refuses_is_rewritten_and_still_finds_its_text(
    pattern: str, text: str
) -> None:
    assert re2.compile(fitted(pattern)).search(text) is not None


def test_a_pattern_that_fits_stays_as_it_is() -> None:
    pattern = r"(?i)\b(key_[a-z]{20,100})(?:['\"]|\s|$)"
    assert fitted(pattern) == pattern


@pytest.mark.parametrize(
    ("pattern", "screen"),
    [
        (r"key_[a-z]{20,64}", r"key_[a-z]{20}"),
        (r"key_([a-z]+)", r"key_([a-z])"),
        (r"key_([a-z]{20,}={0,2})", r"key_([a-z]{20})"),
        (r"key_([a-z]{300})=", r"key_([a-z]{48,})="),
        (r"key[\w.-]{0,20}=(a{3})b", r"key[\w.-]*=(a{3})b"),
        (r"key[^\n]{0,20}=", r"key[^\n]{0,20}="),
    ],
)
def test_a_screen_counts_nothing_that_need_not_be_counted(pattern: str, screen: str) -> None:
    assert screen_of(pattern) == screen


def test_patterns_that_cross_lines_are_known() -> None:
    assert crosses_lines(r"a\s+b")
    assert crosses_lines(r"a[^x]b")
    assert not crosses_lines(r"a[^x\n]{3}[ \t]b")


def test_a_start_that_finds_the_cache_loads_no_rules(tmp_path: Path) -> None:
    pattern_set(tmp_path)
    asked = (
        "import sys; from pathlib import Path; from recoup.redaction.patterns.catalogue import pattern_set;"
        "found = pattern_set(Path(sys.argv[1]));"
        "print(found.report.screened, *(name for name in sys.modules if name.endswith(('shapes', 'providers'))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", asked, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(len(compiled().rules))]
