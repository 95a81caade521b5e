"""The only form in which text may reach storage."""

from __future__ import annotations

from typing import Any, Final, NoReturn

_SEAL: Final = object()
MASK: Final = b"[redacted]"
MASKS: Final = (
    *(MASK, b"<redacted>", b"(redacted)", b"{redacted}", b"|redacted|", b"***"),
    "███".encode(),
)
"""In the order in which they are tried; the last is taken whatever the secrets are."""


class Redacted:
    """Bytes from which every registered secret is gone.

    Only the redaction room makes one (`sealed`); every sink that keeps or sends text takes this type and no other.
    """

    __slots__ = ("data",)
    data: bytes

    def __init__(self, data: bytes, seal: object) -> None:
        if seal is not _SEAL:
            raise TypeError(
                "Redacted is made by a Redactor only: pass text through Redactor.redact() or seal()"
            )
        object.__setattr__(self, "data", data)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError("Redacted is frozen")

    @property
    def text(self) -> str:
        """The bytes as text; what is not UTF-8 is shown as U+FFFD."""
        return self.data.decode("utf-8", "replace")

    def __len__(self) -> int:
        return len(self.data)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Redacted) and other.data == self.data

    def __hash__(self) -> int:
        return hash(self.data)

    def __repr__(self) -> str:
        return f"Redacted({self.data!r})"


def sealed(data: bytes) -> Redacted:
    """For the redaction room alone (kept by the layer test)."""
    return Redacted(data, _SEAL)


def restored(data: bytes) -> Redacted:
    """For the ledger alone, when it gives back what was sealed before it was stored."""
    return Redacted(data, _SEAL)


DocumentPath = tuple[str | int, ...]
"""Keys and indexes from the root of a document to one of its values."""


def holds_mask(text: str) -> bool:
    """Something was hidden in it, perhaps."""
    raw = text.encode()
    return any(mask in raw for mask in MASKS)
