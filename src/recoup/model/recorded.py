"""What a person did in a browser, for a plan to be made of it."""

from __future__ import annotations

import msgspec

from recoup.model.plan import BrowserAction


class Deed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that was done. What was typed in secret is not in it."""

    action: BrowserAction
    secret: int | None = None
    """Which of the secrets was typed, from 0: the same one may be typed twice."""
    led_to: str | None = None
    """The address that the page had afterwards, where it became another one."""
