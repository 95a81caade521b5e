"""A plan as people like to read it: comments first, keys in their order, texts of several lines as blocks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import yaml

FLOW_CHARS_MAX = 80
_PRINTABLE = "\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010fffd"
"""Without the rarer ends of lines, which YAML reads as the common one."""
_UNPRINTABLE = re.compile(f"[^{_PRINTABLE}]")
_BLOCK = re.compile(f"[\n{_PRINTABLE}]*")
_BARE = re.compile(r"[A-Za-z_./][A-Za-z0-9_./-]*(?: [A-Za-z0-9_./(`-][A-Za-z0-9_./,;:()`-]*)*")
_DURATION = re.compile(r"(?:[0-9]+(?:ms|[hms]))+")
_WORDS_WITH_A_MEANING = frozenset(("null", "true", "false", "yes", "no", "on", "off", "y", "n", "."))


def plan_text(plan: dict[str, Any], comments: Iterable[str]) -> str:
    heading = "".join(f"# {_UNPRINTABLE.sub('?', line)}".rstrip() + "\n" for line in comments)
    body: str = yaml.dump(
        plan, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000_000, default_flow_style=False
    )
    return heading + body


def flow_text(data: Any) -> str:
    """On one line, as it can stand within braces, too."""
    text: str = yaml.dump(
        data,
        Dumper=_FlowDumper,
        sort_keys=False,
        allow_unicode=True,
        width=1_000_000,
        default_flow_style=True,
    )
    return text.removesuffix("\n").removesuffix("\n...")


def quoted_text(text: str, quote: str) -> str:
    """In these quotes, or in double ones where it does not fit into them."""
    style = '"' if _BLOCK.fullmatch(text) is None or "\n" in text else quote
    written: str = yaml.dump(text, Dumper=_Dumper, default_style=style, allow_unicode=True, width=1_000_000)
    return written.removesuffix("\n")


class _Dumper(yaml.SafeDumper):
    """Without anchors, and with lists indented under their keys."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 (its name)
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=_style(text))


def _style(text: str) -> str | None:
    if _BLOCK.fullmatch(text) is None:
        return '"'
    if "\n" in text:
        return "|"
    if _DURATION.fullmatch(text) or (_BARE.fullmatch(text) and _says_itself(text)):
        return None
    return "'" if "\\" in text and "'" not in text else '"'


def _says_itself(text: str) -> bool:
    return text.lower() not in _WORDS_WITH_A_MEANING and ": " not in text and not text.endswith(":")


def _mapping(dumper: yaml.SafeDumper, mapping: dict[str, Any]) -> yaml.MappingNode:
    return dumper.represent_mapping(
        "tag:yaml.org,2002:map", mapping.items(), flow_style=_fits_a_line(mapping)
    )


def _fits_a_line(mapping: dict[str, Any]) -> bool:
    scalars = all(isinstance(value, str | int | float | bool) for value in mapping.values())
    return (
        scalars and "run" not in mapping and "\n" not in str(mapping) and len(str(mapping)) <= FLOW_CHARS_MAX
    )


_Dumper.add_representer(str, _text)
_Dumper.add_representer(dict, _mapping)


class _FlowDumper(_Dumper):
    """Everything between braces and brackets."""


def _in_braces(dumper: yaml.SafeDumper, mapping: dict[str, Any]) -> yaml.MappingNode:
    return dumper.represent_mapping("tag:yaml.org,2002:map", mapping.items(), flow_style=True)


_FlowDumper.add_representer(dict, _in_braces)
