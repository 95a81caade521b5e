"""Evidence that every machine finds: in the folder of this one, and in the depot. It is redacted, so it is not
encrypted; it is known by its digest, so nobody can exchange it."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path

from recoup.depot.parcels import Parcels
from recoup.depot.sealing import Altered, Open
from recoup.errors import NotFound
from recoup.evidence.folder import FolderEvidence
from recoup.files.folders import make_folder
from recoup.model.redacted import Redacted
from recoup.ports import Depot

ROOT = "evidence"
_REMEMBERED_MAX = 10_000
_REMEMBERED_S = 600.0
"""Then it is sent again: it may have been pruned when nobody cited it any more."""


class ShippedEvidence:
    """Stored here first, then there; read here, and there only if it is not."""

    def __init__(self, inner: FolderEvidence, depot: Depot, aside: Path) -> None:
        """`aside`: a folder for what is on its way."""
        self._inner = inner
        self._parcels = Parcels(depot, Open(), ROOT)
        self._aside = aside
        self._sent: OrderedDict[str, float] = OrderedDict()

    async def put(self, content: Redacted, limit_bytes: int) -> str:
        handle = await self._inner.put(content, limit_bytes)
        if not self._is_sent(handle):
            await self._parcels.send(_name(handle), b"", await self._inner.get(handle))
            self._remember(handle)
        return handle

    async def get(self, handle: str) -> bytes:
        try:
            return await self._inner.get(handle)
        except NotFound as gone:
            data = await self._fetched(handle, gone)
        self._inner.keep(handle, data)
        return data

    async def _fetched(self, handle: str, gone: NotFound) -> bytes:
        if not self._inner.is_handle(handle):
            raise gone
        make_folder(self._aside)
        path = self._aside / f".evidence-{secrets.token_hex(8)}"
        try:
            await self._parcels.receive(_name(handle), path)
            data = await asyncio.to_thread(path.read_bytes)
        except NotFound:
            raise gone from None
        except Altered as error:
            raise NotFound(f"evidence {handle} is gone: {error.message}", hint=gone.hint) from None
        finally:
            path.unlink(missing_ok=True)
        if f"sha256:{hashlib.sha256(data).hexdigest()}" != handle:
            raise NotFound(
                f"evidence {handle} was altered in the depot", hint="Do not trust it; run the step again."
            )
        return data

    def _is_sent(self, handle: str) -> bool:
        sent_s = self._sent.get(handle)
        return sent_s is not None and time.monotonic() - sent_s < _REMEMBERED_S

    def _remember(self, handle: str) -> None:
        self._sent[handle] = time.monotonic()
        self._sent.move_to_end(handle)
        if len(self._sent) > _REMEMBERED_MAX:
            self._sent.popitem(last=False)


async def remove_evidence(depot: Depot, handles: Iterable[str]) -> None:
    """What no run cites any more."""
    parcels = Parcels(depot, Open(), ROOT)
    for handle in handles:
        await parcels.remove_whole(_name(handle))


def _name(handle: str) -> str:
    digest = handle.removeprefix("sha256:")
    return f"{digest[:2]}/{digest}"
