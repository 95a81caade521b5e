"""Workspaces whose checkpoints every machine finds. A checkpoint is in the depot before anybody can cite it."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from recoup.aside import ours
from recoup.depot.parcels import Parcels
from recoup.depot.sealing import Altered
from recoup.durable import write_whole
from recoup.errors import CheckpointBroken, NotFound
from recoup.evidence.run_folder import RunFolder
from recoup.files.folders import make_folder
from recoup.model.workspace import Adopted, Baseline, Change, Snapshot, Source
from recoup.workspace.carrying import Load, Packed
from recoup.workspace.disk import remove_tree
from recoup.workspace.workspaces import GitWorkspaces

T = TypeVar("T")

LINKS_MAX = 24
"""Of checkpoints that build on one another; the next one goes whole again."""
GROWTH_BYTES = 16 << 20
"""So much may be sent again in small parcels before what it comes to is compared with the whole."""
_COPIES_MAX = 4
"""Of one checkpoint, sent by as many drivers, that are looked at."""
_ASIDE = ".carried-"


class Link(msgspec.Struct, frozen=True):
    """One parcel of those that a checkpoint is made of."""

    name: str
    bytes: int
    manifest: str | None = None
    """None: the source."""


class Head(msgspec.Struct, frozen=True):
    """In the head of a parcel: what its body holds, and which parcels come before it."""

    load: Load
    chain: tuple[Link, ...] = ()


class ShippedWorkspaces:
    """The `Workspaces` port around `GitWorkspaces`: what is stored is sent, and what is missing here is fetched."""

    def __init__(
        self,
        inner: GitWorkspaces,
        run_id: str,
        files: RunFolder,
        open_parcels: Callable[[str], Parcels],
        *,
        sends: bool = True,
    ) -> None:
        """`open_parcels` gives those of a run; `sends`: not for a run of which nothing is to be kept."""
        self._inner = inner
        self._open_parcels = open_parcels
        self._parcels = open_parcels(run_id)
        self._private = files.private
        self._claimed = files.aside
        self._own = files.aside or files.private
        """Where is made what then gets its name."""
        self._sends = sends
        self._turn = asyncio.Lock()
        self._held: set[str] | None = None
        """What the depot has of this run. None: not asked yet."""
        self._chain: tuple[Link, ...] = ()
        """What this machine has, too: the next checkpoint may build on it."""

    async def create(self, source: Source) -> Baseline:
        baseline = await self._inner.create(source)
        # Whatever was sent before belongs to a beginning that was lost.
        self._held, self._chain = set(), ()
        await self._send(Snapshot(baseline.tree, baseline.manifest))
        return baseline

    def path(self, number: int) -> Path:
        return self._inner.path(number)

    def current(self) -> int:
        return self._inner.current()

    async def snapshot(self, number: int) -> Snapshot:
        taken = await self._inner.snapshot(number)
        await self._send(taken)
        return taken

    async def change(self, before: str, after: str) -> Change:
        return await self._with_tree(before, lambda: self._inner.change(before, after))

    async def patch(self, before: str, after: str, limit_bytes: int) -> bytes:
        return await self._with_tree(before, lambda: self._inner.patch(before, after, limit_bytes))

    async def changed_contents(
        self, before: str, after: str, limit_bytes: int
    ) -> Sequence[tuple[str, bytes]]:
        return await self._with_tree(before, lambda: self._inner.changed_contents(before, after, limit_bytes))

    async def restore(self, snapshot: Snapshot) -> int:
        try:
            return await self._inner.restore(snapshot)
        except CheckpointBroken as broken:
            return await self._restore_fetched(snapshot, broken)

    async def matches(self, number: int, snapshot: Snapshot) -> bool:
        return await self._inner.matches(number, snapshot)

    async def damage(self, number: int, before: Snapshot) -> str | None:
        return await self._inner.damage(number, before)

    async def adopt(self, run_dir: Path, snapshots: Sequence[Snapshot]) -> Adopted:
        """From the other run's folder as far as that has them, then from its parcels; and sent as our own."""
        adopted = await self._inner.adopt(run_dir, snapshots)
        if adopted.problem is not None:
            rest = await self._adopt_fetched(run_dir.name, snapshots[adopted.count :], adopted.problem)
            adopted = Adopted(adopted.count + rest.count, rest.problem)
        for snapshot in snapshots[: adopted.count]:
            await self._send(snapshot)
        return adopted

    async def swap(self, number: int, keep: int) -> None:
        await self._inner.swap(number, keep)

    # Out

    async def _send(self, snapshot: Snapshot) -> None:
        if not self._sends:
            return
        async with self._turn:
            held, called = await self._known(), _called(snapshot)
            if any(name.startswith(called) for name in held):
                return
            async with self._aside() as aside:
                if not self._chain:
                    await self._send_source(aside / "source")
                self._chain = _shortened(self._chain)
                last = self._chain[-1].manifest
                load = await self._inner.pack_checkpoint(snapshot, last, aside / "checkpoint")
                # Never under a name that was used: another driver may have built on what is there.
                name, head = called + secrets.token_hex(8), msgspec.json.encode(Head(load, self._chain))
                size = await self._parcels.send(name, head, aside / "checkpoint")
            held.add(name)
            await self._note((*self._chain, Link(name, size, snapshot.manifest)))

    async def _send_source(self, path: Path) -> None:
        """Under a name of its own: two who begin the same run may have found different commits."""
        load, name = await self._inner.pack_source(path), f"source/{secrets.token_hex(16)}"
        size = await self._parcels.send(name, msgspec.json.encode(Head(load)), path)
        self._chain = (Link(name, size),)

    async def _known(self) -> set[str]:
        """Asked once for each driver: what this machine has noted counts only as far as the depot still has it."""
        if self._held is None:
            await asyncio.to_thread(self._sweep)
            held = {name for part in ("source/", "trees/") for name in await self._parcels.names(part)}
            noted = await asyncio.to_thread(self._noted)
            self._chain = noted if all(link.name in held for link in noted) else ()
            self._held = held
        return self._held

    def _sweep(self) -> None:
        """What a killed driver left."""
        for path in self._own.glob(f"{_ASIDE}*"):
            with contextlib.suppress(OSError):
                remove_tree(path)

    # In

    async def _restore_fetched(self, snapshot: Snapshot, broken: CheckpointBroken) -> int:
        try:
            if await self._fetch(snapshot, anew=False):
                return await self._inner.restore(snapshot)
        except CheckpointBroken:
            pass  # What is here already may be what is damaged.
        try:
            await self._fetch(snapshot, anew=True)
        except CheckpointBroken as error:
            raise CheckpointBroken(f"{broken.message}; and {error.message}") from None
        return await self._inner.restore(snapshot)

    async def _fetch(self, wanted: Snapshot, *, anew: bool) -> bool:
        """From any of the parcels that hold it. `anew`: with all that it builds on, not only with what this machine
        lacks. False: it has no store to which that could be added."""
        names = await self._parcels.names(_called(wanted))
        problem = CheckpointBroken(f"the checkpoint {wanted.tree} is not in the depot")
        for name in names[:_COPIES_MAX]:
            try:
                return await self._fetch_one(name, wanted, anew)
            except CheckpointBroken as error:
                problem = error
        raise problem

    async def _fetch_one(self, name: str, wanted: Snapshot, anew: bool) -> bool:
        async with self._turn:
            await self._known()
            noted = set() if anew else {link.name for link in self._chain}
            if not anew and not (noted and (self._private / "origin.json").exists()):
                return False
            async with self._aside() as aside:
                chain, packed = await _received(self._parcels, name, aside, noted)
                if not anew and chain[0].name not in noted:
                    return False
                await self._inner.unpack(packed, wanted, anew=anew)
            await self._note(chain)
        return True

    async def _adopt_fetched(self, run_id: str, snapshots: Sequence[Snapshot], problem: str) -> Adopted:
        """Through a folder beside our store, which is then like the folder of the other run."""
        await self._known()
        async with self._aside() as aside:
            there = ShippedWorkspaces(
                GitWorkspaces(aside / run_id),
                run_id,
                RunFolder(aside / run_id),
                self._open_parcels,
                sends=False,
            )
            fetched = 0
            for snapshot in snapshots:
                try:
                    await there._bring(snapshot)
                except CheckpointBroken as error:
                    problem = f"{problem}; and {error.message}"
                    break
                fetched += 1
            adopted = await self._inner.adopt(aside / run_id, snapshots[:fetched])
        short = adopted.problem is None and fetched < len(snapshots)
        return Adopted(adopted.count, problem) if short else adopted

    async def _bring(self, snapshot: Snapshot) -> None:
        if not await self._fetch(snapshot, anew=False):
            await self._fetch(snapshot, anew=True)

    async def _with_tree(self, tree: str, compare: Callable[[], Awaitable[T]]) -> T:
        """What a driver on another machine began from may not be in this store."""
        try:
            return await compare()
        except CheckpointBroken:
            named = await self._parcels.names(f"trees/{tree}-")
            if not named:
                raise
            await self._fetch(_snapshot(named[0]), anew=False)
            return await compare()

    # What this machine has

    @property
    def _note_path(self) -> Path:
        return self._private / "shipped.json"

    def _noted(self) -> tuple[Link, ...]:
        try:
            return msgspec.json.decode(self._note_path.read_bytes(), type=tuple[Link, ...])
        except (OSError, msgspec.MsgspecError):
            return ()

    async def _note(self, chain: tuple[Link, ...]) -> None:
        """After the fact: whoever does not find it sends more than he must."""
        self._chain = chain
        data = msgspec.json.encode(chain)
        await asyncio.to_thread(write_whole, self._note_path, data, durable=False, aside=self._own)

    @contextlib.asynccontextmanager
    async def _aside(self) -> AsyncIterator[Path]:
        path = self._own / f"{_ASIDE}{secrets.token_hex(4)}"
        with ours(self._claimed):
            make_folder(path)
        try:
            yield path
        finally:
            await asyncio.to_thread(remove_tree, path)


async def _received(
    parcels: Parcels, name: str, aside: Path, without: set[str]
) -> tuple[tuple[Link, ...], list[Packed]]:
    """The parcels of one checkpoint in their order, this one last."""
    head, last = await _one(parcels, name, aside / "last")
    if not head.chain or len(head.chain) > LINKS_MAX + 1 or head.chain[0].manifest is not None:
        raise CheckpointBroken(f"the parcel {name} does not say what it builds on")
    packed = []
    for number, link in enumerate(head.chain):
        if link.name not in without:
            packed.append((await _one(parcels, link.name, aside / f"part-{number:04d}"))[1])
    own = Link(name, last.path.stat().st_size, _snapshot(name).manifest)
    return (*head.chain, own), [*packed, last]


async def _one(parcels: Parcels, name: str, into: Path) -> tuple[Head, Packed]:
    try:
        received = await parcels.receive(name, into)
        head = msgspec.json.decode(received.head, type=Head)
    except (NotFound, Altered) as error:
        raise CheckpointBroken(error.message) from None
    except msgspec.MsgspecError as error:
        raise CheckpointBroken(f"the parcel {name} cannot be read: {error}") from None
    return head, Packed(head.load, into)


def _shortened(chain: tuple[Link, ...]) -> tuple[Link, ...]:
    """Only the source, when so many parcels or so many bytes have come after the last whole checkpoint that another
    whole one is worth it."""
    if len(chain) < 3:
        return chain
    grown = sum(link.bytes for link in chain[2:])
    return chain[:1] if len(chain) > LINKS_MAX or grown > GROWTH_BYTES + chain[1].bytes else chain


def _called(snapshot: Snapshot) -> str:
    """How the names of all parcels begin that hold it."""
    return f"trees/{snapshot.tree}-{snapshot.manifest.removeprefix('sha256:')}-"


def _snapshot(name: str) -> Snapshot:
    tree, manifest, _ = name.removeprefix("trees/").split("-")
    return Snapshot(tree, f"sha256:{manifest}")
