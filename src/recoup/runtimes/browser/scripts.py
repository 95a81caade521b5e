"""The functions that run inside a page, each in a file of its own."""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def script(name: str) -> str:
    """As the automation library wants it: one expression, without the comments before it."""
    text = resources.files("recoup.runtimes.browser").joinpath(f"{name}.js").read_text("utf-8")
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("//"))
