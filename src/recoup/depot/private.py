"""What a run keeps for itself: its plan as it is to be run, and its secret values. Sent whole each time it changes.

Parcels are named by the epoch of the lease under which they were sent, and counted: what a driver sends that has lost
its run comes before what its successor sends, and is never taken for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import secrets
from pathlib import Path

import msgspec

from recoup.aside import fresh, ours, remove_file
from recoup.depot.parcels import Parcels
from recoup.depot.sealing import Altered
from recoup.durable import write_whole
from recoup.errors import NotFound, StateError
from recoup.evidence.run_folder import RunFolder
from recoup.files.folders import make_folder

_TRIES_MAX = 3
_FILES_MAX = 10_000


class Belongings(msgspec.Struct, frozen=True):
    """The private files of a run, as they are: each secret value is encrypted already."""

    plan: bytes | None
    secrets: dict[str, bytes]


class PrivateParcels:
    """Of one run."""

    def __init__(self, parcels: Parcels, files: RunFolder) -> None:
        self._parcels = parcels
        self._files = files
        self._sent = 0

    async def send(self, epoch: int) -> None:
        """Durable when this returns. What was sent before it is removed: nobody needs it any more."""
        self._sent += 1
        body = msgspec.msgpack.encode(await asyncio.to_thread(_read, self._files))
        name = f"private/{epoch:012d}-{self._sent:06d}"
        await self._parcels.send(name, b"", body)
        for older in await self._parcels.names("private/"):
            if older < name:
                await self._parcels.remove(older)

    async def fetch(self, *, replace: bool) -> bool:
        """`replace`: what is here is out of date. Otherwise only what is missing is added. False: nothing was sent."""
        body = await self._newest()
        if body is None:
            return False
        try:
            belongings = msgspec.msgpack.decode(body, type=Belongings)
        except msgspec.MsgspecError:
            raise _damaged() from None
        await asyncio.to_thread(_write, self._files, belongings, replace)
        return True

    async def _newest(self) -> bytes | None:
        for _ in range(_TRIES_MAX):
            # A driver that sends a newer one removes the one that we have just heard of.
            with contextlib.suppress(NotFound):
                names = await self._parcels.names("private/")
                return await self._received(names[-1]) if names else None
        return None

    async def _received(self, name: str) -> bytes:
        """Through the driver's own folder: what a killed one leaves of it is removed by whoever comes next."""
        self._files.make()
        make_folder(self._files.private)
        path = fresh(self._files.aside or self._files.private, "carried")
        with ours(self._files.aside):
            try:
                await self._parcels.receive(name, path)
                return await asyncio.to_thread(path.read_bytes)
            except Altered:
                raise _damaged() from None
            finally:
                path.unlink(missing_ok=True)


def _damaged() -> StateError:
    return StateError(
        "what the run keeps for itself (its plan, its secret values) was altered in the depot",
        hint="Drive it on the machine that began it, or run the plan again.",
    )


def _read(files: RunFolder) -> Belongings:
    plan = files.plan_path.read_bytes() if files.plan_path.exists() else None
    return Belongings(plan, {path.name: path.read_bytes() for path in _kept(files)})


def _kept(files: RunFolder) -> list[Path]:
    folder = files.private / "secrets"
    return [path for path in folder.iterdir() if not path.name.startswith(".")] if folder.is_dir() else []


def _write(files: RunFolder, belongings: Belongings, replace: bool) -> None:
    if len(belongings.secrets) > _FILES_MAX or any(not name.isalnum() for name in belongings.secrets):
        raise _damaged()
    folder = files.private / "secrets"
    put = functools.partial(write_whole, aside=files.aside) if replace else _add
    for name, data in belongings.secrets.items():
        put(folder / name, data)
    if replace:
        for path in _kept(files):
            if path.name not in belongings.secrets:
                remove_file(path, files.aside)
    if belongings.plan is not None:
        put(files.plan_path, belongings.plan)


def _add(path: Path, data: bytes) -> None:
    """Never in the place of one that is there: a driver on this machine may have written it a moment ago."""
    if path.exists():
        return
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    write_whole(aside, data)
    try:
        os.link(aside, path)
    except FileExistsError:
        pass
    finally:
        aside.unlink(missing_ok=True)
