"""Short pages for the terminal, one file each: the first line is the title, and all of it fits on one screen."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent


@cache
def topics() -> dict[str, str]:
    """Every topic and its title."""
    return {path.stem: _title(path) for path in sorted(_FOLDER.glob("*.md"))}


def page(topic: str) -> str:
    assert topic in topics(), f"{topic} is looked up before it becomes a path"
    return (_FOLDER / f"{topic}.md").read_text()


def _title(path: Path) -> str:
    with path.open() as file:
        return file.readline().removeprefix("# ").strip()
