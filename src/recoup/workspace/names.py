"""File names are bytes. Here they become text, and come back."""

from __future__ import annotations


def text_of(name: bytes) -> str:
    """Reversible for every name; what is not UTF-8 becomes lone surrogates, which JSON can escape."""
    return name.decode("utf-8", "surrogateescape")


def bytes_of(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def shown(name: bytes) -> str:
    """For people: one line, valid UTF-8, not reversible."""
    text = name.decode("utf-8", "backslashreplace")
    return text if text.isprintable() else "".join(c if c.isprintable() else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def joined(folder: bytes, name: bytes) -> bytes:
    """Either may be empty."""
    return folder + b"/" + name if folder and name else folder or name
