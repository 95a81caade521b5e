"""Which sources of outputs there are: each by the place of its object, loaded when it is first asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pkgutil import resolve_name
from typing import Any, Final

from recoup.checks.sources.kind import AnySource
from recoup.model.plan import Output

BUILT_IN: Final = {
    "json": "recoup.checks.sources.json:SOURCE",
    "regex": "recoup.checks.sources.regex:SOURCE",
    "declared": "recoup.checks.sources.declared:SOURCE",
}
"""By the tag of the stored output, in the order in which people are told them."""


@cache
def source_tagged(tag: str) -> AnySource:
    source: AnySource = resolve_name(BUILT_IN[tag])
    return source


def source_of(output: Output) -> AnySource:
    return source_tagged(str(type(output).__struct_config__.tag))


def all_sources() -> Iterator[AnySource]:
    return map(source_tagged, BUILT_IN)


def sources_in(data: Mapping[str, Any]) -> list[AnySource]:
    """Those that an output names, as it is written; the usual one where it names none."""
    named = [source for source in all_sources() if source.key and source.key in data]
    return named or [source for source in all_sources() if not source.key]
