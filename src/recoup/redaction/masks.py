"""What stands where a secret stood."""

from __future__ import annotations

from collections.abc import Collection

from recoup.model.redacted import MASK, MASKS, holds_mask

__all__ = ["MASK", "MASKS", "first_mask", "fitting_masks", "holds_mask", "mask_for"]


def mask_for(forms: Collection[bytes]) -> bytes:
    """The usual mask, unless it could be read as a part of a secret.

    No form holds its first or its last byte, so the mask cannot make the text beside it a form, nor a longer
    piece of one.
    """
    return first_mask(fitting_masks(forms))


def fitting_masks(forms: Collection[bytes]) -> frozenset[bytes]:
    """The masks that cannot be read as a part of any of these forms."""
    together = b"\n".join(forms)
    return frozenset(mask for mask in MASKS if not _is_part(mask, forms, together))


def first_mask(fitting: Collection[bytes]) -> bytes:
    return next((mask for mask in MASKS if mask in fitting), MASKS[-1])


def _is_part(mask: bytes, forms: Collection[bytes], together: bytes) -> bool:
    parts = (mask[:1], mask[-1:], mask[1:-1])
    return any(part in together for part in parts) or any(form in mask for form in forms)
