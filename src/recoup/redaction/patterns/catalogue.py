"""The compiled rules, from the cache where they are kept or made anew.

Almost every start finds them in the cache, so nothing here loads the rules themselves: what they are made from is
known by the digest of the files that they stand in.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import hyperscan
import re2

from recoup.redaction.patterns.cache import Compiled, read_compiled, write_compiled
from recoup.redaction.patterns.compiled import PatternReport, PatternSet
from recoup.redaction.patterns.package import PACKAGE, installed_at


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
    from recoup.redaction.patterns import compiling

    package = next((name for name in _versions() if name.startswith("kingfisher")), None)
    compiled = compiling.compile_all(key, package)
    if cache and compiled.trouble is None:
        write_compiled(cache, compiled)
    return _ready(compiled)


def default_cache(environ: Mapping[str, str]) -> Path:
    root = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or Path.home()) / ".cache"
    return Path(root, "recoup")


def _ready(compiled: Compiled) -> PatternSet:
    report = PatternReport(
        package=compiled.package,
        trouble=compiled.trouble,
        rules_read=compiled.rules_read,
        spanned=len(compiled.rules),
        left_out=compiled.left_out,
    )
    return PatternSet(compiled.rules, compiled.database, report)


def _key() -> str:
    """Changes with everything that the compiled rules depend on."""
    parts = [*_versions(), str(installed_at() is not None), os.uname().machine, _processor()]
    digest = hashlib.sha256("\n".join(parts).encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:32]


def _versions() -> list[str]:
    """As pip wrote them beside the packages: asking importlib.metadata takes longer than everything else here."""
    folders = {Path(str(hyperscan.__file__)).parents[1], Path(str(re2.__file__)).parents[1]}
    if (package := installed_at()) is not None:
        folders.add(package.parent)
    names: set[str] = set()
    for folder in folders:
        with os.scandir(folder) as entries:
            names |= {entry.name for entry in entries if entry.name.endswith(".dist-info")}
    return sorted(name for name in names if name.partition("-")[0].lower() in _DEPENDENCIES)


_DEPENDENCIES: Final = {"hyperscan", "google_re2", PACKAGE.replace("-", "_")}


def _processor() -> str:
    """Hyperscan compiles for the instructions at hand."""
    try:
        with Path("/proc/cpuinfo").open(errors="replace") as file:
            return next((line for line in file if line.startswith("flags")), "")
    except OSError:
        return ""
