"""A key and a token that are long and varied enough, made here so that no file holds one."""

from __future__ import annotations

from typing import Final

KEY: Final = "-".join(["a", "long", "key", "for", "tests", "and", "nothing", "else"])
TOKEN: Final = "-".join(["a", "long", "token", "for", "tests", "and", "nothing", "else"])
