"""Where the rules come from, what becomes of them, and how they are kept."""

from __future__ import annotations

import os
import re._constants as kinds  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
import stat
import subprocess
import sys
import warnings
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
import re2

from recoup.redaction.patterns import catalogue, compiling, package
from recoup.redaction.patterns.cache import Compiled, read_compiled, write_compiled
from recoup.redaction.patterns.catalogue import pattern_set
from recoup.redaction.patterns.compiled import screening_database, screens_of, spanning_pattern
from recoup.redaction.patterns.compiling import compile_all, own_rules
from recoup.redaction.patterns.rewriting import (
    NEWLINES_MAX,
    crosses_lines,
    fitted,
    on_few_lines,
    screen_of,
)
from recoup.redaction.patterns.rule import Gate, Rule
from recoup.redaction.patterns.stage import CONTEXT_LINES


@cache
def compiled() -> Compiled:
    """What this very code makes of the rules: what is kept is known by the digest of the files that make it."""
    folder = catalogue.default_cache(os.environ)
    pattern_set(folder)
    return read_compiled(folder, catalogue._key()) or compile_all("key", "kingfisher_bin-1")


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


def test_as_many_rules_of_the_package_are_left_out_as_there_are_reasons_to() -> None:
    reasons = Counter(why.partition(" ")[0] for why in compiled().left_out.values())
    assert reasons == {"finds": 31, "looks": 23, "its": 7}, "the package changed: look at what it lists now"


def test_every_rule_that_is_named_to_be_left_out_is_in_the_package() -> None:
    names = {name.partition(".")[2] for name in compiled().left_out}
    assert names >= package._COVERED | package._ENDLESS


def test_no_screen_reaches_further_back_than_the_lines_that_are_looked_at_together() -> None:
    assert NEWLINES_MAX == CONTEXT_LINES
    far = {
        rule.name: most for rule in compiled().rules if (most := newlines_most(rule.screen)) > NEWLINES_MAX
    }
    assert far == {}


def newlines_most(screen: str) -> int:
    """How many new lines a match can hold, by the tree that Python makes of the expression."""
    for flags, without in (
        ("(?i)", ""),
        ("(?s)", ""),
        ("(?-i:", "(?:"),
        (r"\z", r"\Z"),
        ("[:space:]", r"\s"),
    ):
        screen = screen.replace(flags, without)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return newlines_in(parser.parse(screen))


def newlines_in(parsed: Any) -> int:
    return sum(newlines_in_part(kind, value) for kind, value in parsed)


def newlines_in_part(kind: Any, value: Any) -> int:
    if kind in (kinds.LITERAL, kinds.NOT_LITERAL):
        return int((value == ord("\n")) is (kind is kinds.LITERAL))
    if kind is kinds.IN:
        negated = value[0][0] is kinds.NEGATE
        return int(any(map(holds_newline, value)) is not negated)
    if kind in (kinds.MAX_REPEAT, kinds.MIN_REPEAT):
        return int(value[1]) * newlines_in(value[2])
    if kind is kinds.SUBPATTERN:
        return newlines_in(value[3])
    return max(map(newlines_in, value[1])) if kind is kinds.BRANCH else 0


def holds_newline(part: Any) -> bool:
    kind, value = part
    if kind is kinds.RANGE:
        return bool(value[0] <= ord("\n") <= value[1])
    spaces = (kinds.CATEGORY_SPACE, kinds.CATEGORY_NOT_WORD, kinds.CATEGORY_NOT_DIGIT)
    return value == ord("\n") if kind is kinds.LITERAL else kind is kinds.CATEGORY and value in spaces


def test_without_the_package_our_own_rules_are_in_force_and_are_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with monkeypatch.context() as without:
        without.setattr("importlib.util.find_spec", lambda _name: None)
        found = pattern_set(tmp_path)
        key = catalogue._key()
    assert (found.report.package, found.report.trouble) == (None, None)
    assert found.report.spanned == len(own_rules())
    assert found.occurs(b"password=abc12345xyz\n")
    assert read_compiled(tmp_path, key)
    assert catalogue._key() != key, "once it is installed, they are compiled anew"


def test_a_package_without_its_program_is_trouble_that_is_not_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(package, "installed_at", lambda: tmp_path)
    found = pattern_set(tmp_path / "cache")
    assert found.report.package is None
    assert "pip install --force-reinstall 'recoup[patterns]'" in str(found.report.trouble)
    assert found.report.spanned == len(own_rules())
    assert not (tmp_path / "cache").exists(), "it may be whole the next time"


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


def test_two_processes_may_make_the_cache_at_once(tmp_path: Path) -> None:
    """Of our own rules: with those of the package each would take seconds, and write no other way."""
    program = (
        "import importlib.util, sys; from pathlib import Path; "
        "from recoup.redaction.patterns.catalogue import pattern_set; "
        "importlib.util.find_spec = lambda _name: None; "
    )
    program += "sys.stdin.read(1); found = pattern_set(Path(sys.argv[1])); "
    program += "print(found.report.spanned, found.occurs(b'password=abc12345xyz'), flush=True)"
    command = [sys.executable, "-c", program, str(tmp_path)]
    both = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)]
    for process in both:
        assert process.stdin is not None
        process.stdin.write(b".")
        process.stdin.flush()
    said = [process.communicate(timeout=120)[0] for process in both]
    assert said == [f"{len(own_rules())} True\n".encode()] * 2
    assert [path.suffix for path in tmp_path.iterdir()] == [".bin"], "one file, and nothing half written"
    kept_key = next(tmp_path.iterdir()).name.removeprefix("patterns-").removesuffix(".bin")
    found = read_compiled(tmp_path, kept_key)
    assert found is not None
    assert [rule.name for rule in found.rules] == [rule.name for rule in own_rules()]


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
    write_compiled(tmp_path, msgspec.structs.replace(compiled(), key=catalogue._key()))
    asked = (
        "import sys; from pathlib import Path; from recoup.redaction.patterns.catalogue import pattern_set;"
        "found = pattern_set(Path(sys.argv[1]));"
        "print(found.report.spanned, *(name for name in sys.modules if name.endswith(('shapes', 'providers'))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", asked, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [str(len(compiled().rules))]


@pytest.mark.parametrize(
    ("screen", "on_few"),
    [
        (r"a\s*b", r"a[ \t\r\f\x0b]*\n?[ \t\r\f\x0b]*b"),
        (r"\sa\s*b\s*c", r"\sa[ \t\r\f\x0b]*\n?[ \t\r\f\x0b]*b[ \t\r\f\x0b]*c"),
        (r"a[^x]{3,}", r"a(?:[^\nx]{0,3}\n[^\nx]{0,3}|[^\nx]{3,})"),
        (r"a(?:.|[\n\r]){0,32}?b", r"a[^\n]*\n?[^\n]*b"),
        (r"(?s)a.{0,32}b", r"a[^\n]*\n?[^\n]*b"),
        (r"a[^\n]*[ \t]+b", r"a[^\n]*[ \t]+b"),
    ],
)
def test_a_screen_takes_two_new_lines_at_most(screen: str, on_few: str) -> None:
    assert on_few_lines(screen) == on_few
    assert on_few_lines(on_few) == on_few
