"""Encrypts what leaves the machine. Whoever holds the depot can lose an object, but neither read nor alter it, nor put
one in the place of another."""

from __future__ import annotations

import hashlib
import hmac
import os
from functools import cached_property
from typing import Protocol

from recoup.errors import RecoupError, SettingsError

_MAGIC = b"RCP2"
_KEY_ID_BYTES = 8
_SALT_BYTES = 16
_KEY_BYTES = 32
_NONCE = bytes(24)
"""Each object has a key of its own, so that no nonce is ever used twice."""
_HEADER_BYTES = len(_MAGIC) + _KEY_ID_BYTES + _SALT_BYTES
OVERHEAD_BYTES = _HEADER_BYTES + 16


class Altered(RecoupError):
    """An object in the depot is not what was put there under this name."""


class Seal(Protocol):
    """What is done to an object on its way into the depot, and out of it."""

    def close(self, name: str, data: bytes) -> bytes: ...

    def open(self, name: str, sealed: bytes) -> bytes:
        """Raises Altered, and SettingsError when it was sealed with another key."""
        ...


class Open:
    """Nothing: for what is redacted already, and is known by its digest."""

    def close(self, name: str, data: bytes) -> bytes:
        del name
        return data

    def open(self, name: str, sealed: bytes) -> bytes:
        del name
        return sealed


class KeySeal:
    """XChaCha20-Poly1305 with a key derived from RECOUP_KEY; the name is part of what is authenticated."""

    def __init__(self, configured: str) -> None:
        self._configured = configured

    def close(self, name: str, data: bytes) -> bytes:
        # Imported late: it costs more than everything else here.
        from nacl.bindings import crypto_aead_xchacha20poly1305_ietf_encrypt as encrypt

        salt = os.urandom(_SALT_BYTES)
        body = encrypt(data, name.encode(), _NONCE, self._key_of(salt))
        return b"".join((_MAGIC, self._key_id, salt, body))

    def open(self, name: str, sealed: bytes) -> bytes:
        from nacl.bindings import crypto_aead_xchacha20poly1305_ietf_decrypt as decrypt
        from nacl.exceptions import CryptoError

        if len(sealed) < OVERHEAD_BYTES or not sealed.startswith(_MAGIC):
            raise Altered(f"{name} in the depot is damaged")
        key_id, salt = (
            sealed[len(_MAGIC) :][:_KEY_ID_BYTES],
            sealed[_HEADER_BYTES - _SALT_BYTES : _HEADER_BYTES],
        )
        try:
            return decrypt(sealed[_HEADER_BYTES:], name.encode(), _NONCE, self._key_of(salt))
        except CryptoError:
            if key_id == self._key_id:
                raise Altered(f"{name} in the depot was altered") from None
            raise SettingsError(
                f"{name} in the depot was sealed with another key than this machine's",
                hint="Set RECOUP_KEY to the key that the run began with; all machines need the same.",
            ) from None

    def _key_of(self, salt: bytes) -> bytes:
        return _derived(self._key, b"object" + salt)

    @cached_property
    def _key(self) -> bytes:
        return hashlib.scrypt(
            self._configured.encode(), salt=b"recoup.depot.1", n=2**14, r=8, p=1, dklen=_KEY_BYTES
        )

    @cached_property
    def _key_id(self) -> bytes:
        return _derived(self._key, b"id")[:_KEY_ID_BYTES]


def _derived(key: bytes, purpose: bytes) -> bytes:
    return hmac.new(key, purpose, "sha256").digest()
