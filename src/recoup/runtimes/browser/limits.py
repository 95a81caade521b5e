"""A limit on everything that a browser does."""

from __future__ import annotations

import msgspec


class BrowserLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How long is waited, and how much is taken, beside the policy's limits of a step."""

    launch_s: float = 30
    open_s: float = 10
    close_s: float = 5
    answer_s: float = 10
    """How long a page may take to answer a trivial question. One that does not is given up, with its browser."""
    restore_s: float = 30
    """How long it may take to come back to a page."""
    pending_s: float = 3
    """A request that takes longer is one of those that are kept open, and keeps nobody waiting."""
    settle_s: float = 10
    """A page that never comes to rest is taken as it is."""
    after_s: float = 3
    """The same after an action, for the next step to begin on a page at rest."""
    ready_s: float = 5
    """How long a found target may take to be visible, enabled, still and uncovered."""
    act_s: float = 5
    """How long the action itself may take, once everything is ready."""
    download_idle_s: float = 30
    picture_s: float = 5
    look_s: float = 0.1
    """Between two looks."""
    finds_max: int = 5
    """How often a target is looked for again because the page changed before it could be acted on."""
    pages_max: int = 20
    responses_max: int = 2_000
    dialogs_max: int = 20
    download_bytes_max: int = 1 << 30
    picture_bytes_max: int = 2 << 20
    seen_bytes_max: int = 1 << 20
    trace_bytes_max: int = 16 << 20
    storage_bytes_max: int = 8 << 20
    text_chars_max: int = 2_000_000
    """Of a page, when words are looked for."""
