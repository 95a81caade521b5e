"""Values that must be kept but never shown: encrypted, owner-only."""

from __future__ import annotations

import hashlib
import hmac
import os
from pathlib import Path

from recoup.aside import remove_file
from recoup.durable import write_whole
from recoup.errors import NotFound, SettingsError, StateError

_NONCE_BYTES = 24
_TAG_BYTES = 16
_KEY_BYTES = 32
_BOUND = "recoup.vault.2\0"
_WITHOUT = "Only a run that was opened to be driven has one: recoup resume RUN"


class Vault:
    """Secret inputs and outputs of one run, each in a file of its own, under the home's key."""

    def __init__(self, folder: Path, key: bytes, aside: Path | None = None, owner: str = "") -> None:
        """`aside`: the folder of the run's driver. `owner`: the run; no value of another one is taken for its own."""
        self._folder = folder
        self._key = key
        self._aside = aside
        self._owner = owner

    def put(self, name: str, value: str) -> None:
        # Imported late: it costs more than everything else here, and most runs have no secret values.
        from nacl.bindings import crypto_aead_xchacha20poly1305_ietf_encrypt as encrypt

        nonce = os.urandom(_NONCE_BYTES)
        sealed = nonce + encrypt(value.encode(), self._about(name), nonce, self._key)
        write_whole(self._path(name), sealed, aside=self._aside)

    async def settle(self) -> None:
        """Every file is durable already, and there is no other driver's machine."""

    def get(self, name: str) -> str:
        try:
            data = self._path(name).read_bytes()
        except FileNotFoundError:
            raise NotFound(
                f"no secret value is kept under {name!r}", hint="Run the step that makes it."
            ) from None
        except OSError as error:
            raise StateError.of(error) from None
        if len(data) < _NONCE_BYTES + _TAG_BYTES:
            raise StateError(
                f"the secret value {name!r} is damaged ({self._path(name)})", hint="Restore it from a backup."
            )
        # Those of earlier versions are bound to their name alone.
        value = self._opened(data, self._about(name))
        if value is None:
            value = self._opened(data, name.encode())
        if value is None:
            raise SettingsError(
                f"the secret value {name!r} was written with another key or for another run, or was altered",
                hint="Set RECOUP_KEY to the key that the run began with.",
            )
        return value.decode()

    def _opened(self, data: bytes, about: bytes) -> bytes | None:
        from nacl.bindings import crypto_aead_xchacha20poly1305_ietf_decrypt as decrypt
        from nacl.exceptions import CryptoError

        try:
            return bytes(decrypt(data[_NONCE_BYTES:], about, data[:_NONCE_BYTES], self._key))
        except CryptoError:
            return None

    def _about(self, name: str) -> bytes:
        """What is authenticated with a value. A name holds no NUL."""
        return f"{_BOUND}{self._owner}\0{name}".encode() if self._owner else name.encode()

    def forget(self, name: str) -> None:
        remove_file(self._path(name), self._aside)

    def find(self, name: str) -> str | None:
        return self.get(name) if self._path(name).exists() else None

    def mac(self, value: str) -> str:
        return "secret:" + hmac.new(self._key, value.encode(), "sha256").hexdigest()

    def _path(self, name: str) -> Path:
        return self._folder / hashlib.sha256(name.encode()).hexdigest()[:32]


class NoSecrets:
    """For whoever needs none, and must not ask for the key."""

    def put(self, name: str, value: str) -> None:
        del value
        raise NotFound(f"{name!r} cannot be kept: there is no vault", hint=_WITHOUT)

    async def settle(self) -> None: ...

    def get(self, name: str) -> str:
        raise NotFound(f"no secret value is kept under {name!r}", hint=_WITHOUT)

    def find(self, name: str) -> str | None:
        del name
        return None

    def mac(self, value: str) -> str:
        del value
        raise NotFound("there is no vault", hint=_WITHOUT)


def vault_key(home: Path, configured: str | None) -> bytes:
    """RECOUP_KEY if it is set; otherwise a key that this home keeps for itself."""
    if configured:
        return hashlib.scrypt(
            configured.encode(), salt=b"recoup.vault.1", n=2**14, r=8, p=1, dklen=_KEY_BYTES
        )
    path = home / "key"
    if not path.exists():
        _make_key(path)
    key = path.read_bytes()
    if len(key) != _KEY_BYTES:
        raise SettingsError(f"{path} is damaged", hint="Restore it from a backup, or set RECOUP_KEY.")
    return key


def _make_key(path: Path) -> None:
    """Two processes may do this at once: whoever links first wins, both then read the same key."""
    candidate = path.with_name(f".key.{os.getpid()}.tmp")
    write_whole(candidate, os.urandom(_KEY_BYTES))
    try:
        os.link(candidate, path)
    except FileExistsError:
        pass
    finally:
        candidate.unlink(missing_ok=True)
