"""What stands where a secret stood."""

from __future__ import annotations

from collections.abc import Collection

from recoup.model.redacted import MASK, MASKS, holds_mask

__all__ = ["MASK", "MASKS", "holds_mask", "mask_for"]


def mask_for(forms: Collection[bytes]) -> bytes:
    """The usual mask, unless it could be read as a part of a secret.

    No form holds its first or its last byte, so the mask cannot make the text beside it a form, nor a longer
    piece of one.
    """
    together = b"\n".join(forms)
    for mask in MASKS:
        parts = (mask[:1], mask[-1:], mask[1:-1])
        if not any(part in together for part in parts) and not any(form in mask for form in forms):
            return mask
    return MASKS[-1]
