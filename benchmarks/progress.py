"""What is being done, while nothing has been measured yet: one line that is written over, or now and then a new one."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

APART_S = 15.0
"""Between two lines, where nothing can be written over."""
WIDTH = 100

_last_s = 0.0


def doing(what: str) -> None:
    global _last_s
    if sys.stdout.isatty():
        print(f"\r  … {what[:WIDTH]:<{WIDTH}}", end="", flush=True)
    elif time.monotonic() - _last_s > APART_S:
        _last_s = time.monotonic()
        print(f"  … {what}", flush=True)


def done() -> None:
    """Make room for a line that stays."""
    if sys.stdout.isatty():
        print(f"\r{'':<{WIDTH + 4}}\r", end="")


def rounds(count: int, what: str) -> Iterator[int]:
    """So many, each told."""
    for number in range(count):
        doing(f"{what}: round {number + 1} of {count}")
        yield number
