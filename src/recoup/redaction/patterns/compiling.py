"""Compiles all rules there are: those of this room, and of the package if it is installed. It takes seconds."""

from __future__ import annotations

import hyperscan
import re2

from recoup.redaction.patterns.cache import Compiled
from recoup.redaction.patterns.commands import command_rules
from recoup.redaction.patterns.compiled import screening_database, screens_of, spanning_pattern, with_screen
from recoup.redaction.patterns.package import PACKAGE, PackageUnusable, installed_at, package_rules
from recoup.redaction.patterns.providers import provider_rules
from recoup.redaction.patterns.rule import Rule
from recoup.redaction.patterns.shapes import shape_rules


def own_rules() -> list[Rule]:
    return [*shape_rules(), *command_rules(), *provider_rules()]


def compile_all(key: str, package: str | None) -> Compiled:
    """`package` is the installed one with its version. One that cannot be read leaves our own rules."""
    foreign, left_out, trouble = _foreign_rules()
    read = len(foreign) + len(left_out)
    left_out |= {rule.name: why for rule in foreign if (why := _unspanned(rule))}
    rules = [with_screen(rule) for rule in own_rules() + foreign if rule.name not in left_out]
    try:
        database = screening_database(screens_of(rules))
    except hyperscan.error:
        left_out |= {rule.name: "Hyperscan cannot compile it" for rule in rules if not _is_screened(rule)}
        rules = [rule for rule in rules if rule.name not in left_out]
        database = screening_database(screens_of(rules))
    version = (package or PACKAGE) if read else None
    return Compiled(key, rules, database, version, trouble, read, left_out)


def _foreign_rules() -> tuple[list[Rule], dict[str, str], str | None]:
    """With the reasons for leaving some out, and what is wrong with a package that is there and cannot be read."""
    if installed_at() is None:
        return [], {}, None
    try:
        return *package_rules(), None
    except PackageUnusable as error:
        return [], {}, str(error)


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
