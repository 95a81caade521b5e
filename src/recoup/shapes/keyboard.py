"""The names of keys: one, or several that are held together, such as `Control+Shift+T`."""

from __future__ import annotations

import string

from recoup.shapes.tree import clipped
from recoup.shapes.wording import suggestion

HELD = frozenset(("Shift", "Control", "Alt", "Meta", "ControlOrMeta"))
"""Keys that are held while another one is pressed."""

NAMES = frozenset(
    (
        *HELD,
        *(f"{name}{side}" for name in ("Shift", "Control", "Alt", "Meta") for side in ("Left", "Right")),
        *(
            "AltGraph",
            "Backquote",
            "Backslash",
            "Backspace",
            "BracketLeft",
            "BracketRight",
            "CapsLock",
            "Comma",
        ),
        *("ContextMenu", "Delete", "End", "Enter", "Equal", "Escape", "Home", "Insert", "Minus", "NumLock"),
        *(
            "PageDown",
            "PageUp",
            "Pause",
            "Period",
            "PrintScreen",
            "Quote",
            "ScrollLock",
            "Semicolon",
            "Slash",
        ),
        *("Space", "Tab"),
        *("AudioVolumeDown", "AudioVolumeMute", "AudioVolumeUp", "Clear"),
        *("MediaPlayPause", "MediaTrackNext", "MediaTrackPrevious"),
        *(f"Arrow{way}" for way in ("Down", "Left", "Right", "Up")),
        *(f"Digit{digit}" for digit in string.digits),
        *(f"F{number}" for number in range(1, 13)),
        *(f"Key{letter}" for letter in string.ascii_uppercase),
        *(f"Numpad{digit}" for digit in string.digits),
        *(f"Numpad{sign}" for sign in ("Add", "Decimal", "Divide", "Enter", "Multiply", "Subtract")),
    )
)

MEANT = {
    "cmd": "Meta",
    "command": "Meta",
    "ctrl": "Control",
    "del": "Delete",
    "down": "ArrowDown",
    "esc": "Escape",
    "left": "ArrowLeft",
    "option": "Alt",
    "return": "Enter",
    "right": "ArrowRight",
    "spacebar": "Space",
    "up": "ArrowUp",
    "win": "Meta",
}
"""What people call some of them, in small letters."""


def wrong_key(written: str) -> str | None:
    """What is wrong with it, in words; None: nothing."""
    *held, last = _parts(written)
    for name in held:
        if name not in HELD:
            return f"`{clipped(name)}` is no key to be held: {_meant(name, HELD) or _listed(HELD)}"
    if len(last) == 1 or last in NAMES:
        return None
    words = (
        _meant(last, NAMES)
        or "write one character, or a name such as Enter, Tab or ArrowDown; type text with `fill`"
    )
    return f"`{clipped(last)}` is no key: {words}"


def _parts(written: str) -> list[str]:
    """The sign `+` is a key, too: alone, and at the end."""
    if written.endswith("+"):
        before = written[:-1].removesuffix("+")
        return [*(before.split("+") if before else []), "+"]
    return written.split("+")


def _meant(name: str, known: frozenset[str]) -> str:
    plain = {key.lower(): key for key in known}
    meant = MEANT.get(name.lower()) or plain.get(name.lower())
    return f"did you mean `{meant}`?" if meant in known else suggestion(name, sorted(known))


def _listed(names: frozenset[str]) -> str:
    return "these are " + ", ".join(f"`{name}`" for name in sorted(names))
