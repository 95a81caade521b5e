"""All rules there are, compiled: those of this room and those of the installed package."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import hyperscan
import re2

from recoup.redaction.patterns.cache import Compiled, read_compiled, write_compiled
from recoup.redaction.patterns.commands import command_rules
from recoup.redaction.patterns.compiled import (
    PatternReport,
    PatternSet,
    screening_database,
    screens_of,
    spanning_pattern,
    with_screen,
)
from recoup.redaction.patterns.package import PACKAGE, PackageUnusable, installed_at, package_rules
from recoup.redaction.patterns.providers import provider_rules
from recoup.redaction.patterns.rule import Rule
from recoup.redaction.patterns.shapes import shape_rules

FORMAT: Final = 1
"""To be raised when package rules are read, rewritten or chosen in another way."""


def pattern_set(cache: Path | None) -> PatternSet:
    """From the cache, or compiled anew and put there. A package that cannot be read leaves our own rules."""
    key = _key()
    compiled = read_compiled(cache, key) if cache else None
    if compiled is not None:
        try:
            return _ready(compiled)
        except hyperscan.error:
            # Made on another kind of processor: a home that several machines share.
            pass
    compiled = compile_all(key)
    if cache and compiled.trouble is None:
        write_compiled(cache, compiled)
    return _ready(compiled)


def default_cache(environ: Mapping[str, str]) -> Path:
    root = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or Path.home()) / ".cache"
    return Path(root, "recoup")


def own_rules() -> list[Rule]:
    return [*shape_rules(), *command_rules(), *provider_rules()]


def compile_all(key: str) -> Compiled:
    trouble = None
    try:
        foreign, left_out = package_rules()
    except PackageUnusable as error:
        foreign, left_out, trouble = [], {}, str(error)
    read = len(foreign) + len(left_out)
    left_out |= {rule.name: why for rule in foreign if (why := _unspanned(rule))}
    rules = own_rules() + [rule for rule in foreign if rule.name not in left_out]
    try:
        database = screening_database(screens_of(rules))
    except hyperscan.error:
        left_out |= {rule.name: "Hyperscan cannot compile it" for rule in rules if not _is_screened(rule)}
        rules = [rule for rule in rules if rule.name not in left_out]
        database = screening_database(screens_of(rules))
    version = (
        None if trouble else next((name for name in _versions() if name.startswith("kingfisher")), PACKAGE)
    )
    return Compiled(key, [*map(with_screen, rules)], database, version, trouble, read, left_out)


def _unspanned(rule: Rule) -> str | None:
    try:
        spanning_pattern(rule.pattern)
    except re2.error as error:
        return f"RE2 cannot compile it: {error}"
    return None


def _is_screened(rule: Rule) -> bool:
    try:
        screening_database(screens_of([rule]))
    except hyperscan.error:
        return False
    return True


def _ready(compiled: Compiled) -> PatternSet:
    report = PatternReport(
        package=compiled.package,
        trouble=compiled.trouble,
        rules_read=compiled.rules_read,
        screened=len(compiled.rules),
        spanned=len(compiled.rules),
        left_out=compiled.left_out,
    )
    return PatternSet(compiled.rules, compiled.database, report)


def _key() -> str:
    """Changes with everything that the compiled rules depend on."""
    parts = [
        str(FORMAT),
        *_versions(),
        platform.machine(),
        _processor(),
        *map(repr, own_rules()),
    ]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def _versions() -> list[str]:
    """As pip wrote them beside the packages: asking importlib.metadata takes longer than everything else here."""
    folders = {Path(str(hyperscan.__file__)).parents[1], Path(str(re2.__file__)).parents[1]}
    if (package := installed_at()) is not None:
        folders.add(package.parent)
    names = {path.name for folder in folders for path in folder.glob("*.dist-info")}
    return sorted(name for name in names if name.partition("-")[0].lower() in _DEPENDENCIES)


_DEPENDENCIES: Final = {"hyperscan", "google_re2", PACKAGE.replace("-", "_")}


def _processor() -> str:
    """Hyperscan compiles for the instructions at hand."""
    try:
        text = Path("/proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return platform.processor()
    return next((line for line in text.splitlines() if line.startswith("flags")), "")
