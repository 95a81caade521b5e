"""Runs that ended long ago are forgotten, with everything that belongs to them: in the ledger, on disk, in the depot.

The ledger first: what it does not know any more is nobody's, and can be removed now or the next time. What is about to
be forgotten is noted in a file, so that a crash in between leaves nothing that is not found again.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from recoup.damage import read_leniently
from recoup.durable import sync_directory
from recoup.evidence.folder import FolderEvidence
from recoup.model.events import LedgerPruned
from recoup.model.ids import run_stream
from recoup.model.storage import Draft, EndedRun
from recoup.ports import Clock, Ledger, Redactor
from recoup.workspace.disk import GONE, remove_tree

if TYPE_CHECKING:
    from recoup.app import App

BATCH_RUNS_MAX = 200
BATCH_EVENTS_ENOUGH = 10_000
"""In one transaction: others wait for it, for some hundredths of a second."""
HANDLES_ENOUGH = 200_000
"""Kept in memory before it is asked which of them somebody still cites."""
PROBLEMS_MAX = 20
_PAGE_EVENTS_MAX = 5_000
_NOTES = "pruning.jsonl"
_HANDLE = re.compile(rb"sha256:[0-9a-f]{64}")


Told = Callable[[str], None]
"""Hears how far the work has come."""


class Parcels(Protocol):
    """What other machines find of runs."""

    async def remove_run(self, run_id: str) -> int: ...

    async def remove_evidence(self, handles: list[str]) -> None: ...


class Pruned(msgspec.Struct, rename="camel"):
    """What is gone, as far as the work has come."""

    runs: int = 0
    events: int = 0
    folders: int = 0
    folders_left: int = 0
    """Of which something could not be removed."""
    parcels: int = 0
    evidence: int = 0
    bytes: int = 0
    """On this machine's disk, besides the ledger."""
    problems: list[str] = []

    def problem(self, words: str) -> None:
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(words)


class _Note(msgspec.Struct):
    runs: list[str]
    evidence: list[str] = []


async def due(app: App, age_s: float, limit: int) -> list[EndedRun]:
    """What `prune` would forget now. Nothing is changed."""
    return await retention(app).due(_before_us(app, age_s), limit)


async def prune(app: App, age_s: float, limit: int, progress: Told) -> tuple[Pruned, int | None]:
    """Forgets what ended so long ago; with the number of events that the audit was brought up to date by first. None:
    this home keeps no audit."""
    exported = await app.audit.export_before_pruning()
    return await retention(app).prune(_before_us(app, age_s), limit, progress), exported


def retention(app: App) -> Retention:
    """Where another ledger keeps its runs in this home, folders may be of those."""
    other = app.settings.home / "ledger.db"
    return Retention(
        ledger=app.ledger,
        home=app.settings.home,
        redactor=app.redactor,
        clock=app.world.clock,
        parcels=app.shipping,
        alone=app.settings.database == other or not other.exists(),
    )


def _before_us(app: App, age_s: float) -> int:
    return app.world.clock.now().wall_us - round(age_s * 1e6)


class Retention:
    """For one home, and what it shares with others."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        home: Path,
        redactor: Redactor,
        clock: Clock,
        parcels: Parcels | None = None,
        alone: bool = True,
    ) -> None:
        """`alone`: every folder of a run in this home is of a run in this ledger."""
        self._ledger = ledger
        self._runs = home / "runs"
        self._evidence = FolderEvidence(home / "evidence")
        self._notes = home / _NOTES
        self._redactor = redactor
        self._clock = clock
        self._parcels = parcels
        self._alone = alone
        self._left: set[Path] = set()

    async def due(self, before_us: int, limit: int) -> list[EndedRun]:
        """What would be forgotten. Nothing is changed."""
        found = [run async for batch in self._batches(before_us, limit) for run in batch]
        return list({run.run_id: run for run in found}.values())

    def orphans(self, before_us: int) -> list[str]:
        """Folders so old whose runs may be unknown to the ledger, because another machine has pruned them."""
        if not self._alone or not self._runs.is_dir():
            return []
        return sorted(
            path.name
            for path in self._runs.iterdir()
            if not path.is_symlink() and path.is_dir() and _changed_us(path) < before_us
        )

    async def prune(self, before_us: int, limit: int, told: Told = lambda _words: None) -> Pruned:
        """Raises LedgerError, DepotError: then it goes on from there the next time."""
        pruned = Pruned()
        cited = await self._finish(pruned, told)
        async for batch in self._batches(before_us, limit):
            cited |= await self._forget(batch, before_us, pruned, told)
            if len(cited) > HANDLES_ENOUGH:
                await self._remove_evidence(cited, before_us, pruned, told)
                cited = set()
        await self._remove_orphans(before_us, pruned, told)
        await self._remove_evidence(cited, before_us, pruned, told)
        return pruned

    # Runs

    async def _batches(self, before_us: int, limit: int) -> AsyncIterator[list[EndedRun]]:
        """Whole families each, of which the first may be large."""
        after = ""
        while limit > 0 and (page := await self._ledger.ended(before_us, after, min(limit, BATCH_RUNS_MAX))):
            batch: dict[str, EndedRun] = {}
            done: set[str] = set()
            for run in page:
                if run.run_id not in done:
                    relatives = await self._relatives(run, {one.run_id: one for one in page})
                    batch |= relatives
                    done |= relatives.keys()
                if sum(one.events for one in batch.values()) >= BATCH_EVENTS_ENOUGH:
                    yield list(batch.values())
                    batch = {}
            if batch:
                yield list(batch.values())
            after = page[-1].run_id
            limit -= len(page)

    async def _relatives(self, run: EndedRun, known: dict[str, EndedRun]) -> dict[str, EndedRun]:
        """With the run itself."""
        found = {run.run_id: run}
        for run_id in await self._ledger.family(run.run_id):
            if run_id in known:
                found[run_id] = known[run_id]
            elif events := await self._ledger.head(run_stream(run_id)):
                found[run_id] = EndedRun(run_id, events)
        return found

    async def _forget(self, batch: list[EndedRun], before_us: int, pruned: Pruned, told: Told) -> set[str]:
        runs = [run.run_id for run in batch]
        # Where nothing is sent away, whatever lies in the folder of evidence is found there.
        cited = await self._cited_by(runs) if self._parcels is not None else set()
        self._write_note(_Note(runs, sorted(cited)))
        note = LedgerPruned(before_us=before_us)
        sealed = Draft(note.TYPE, self._redactor.seal(note))
        gone = set(await self._ledger.forget(runs, before_us, self._clock.now(), sealed))
        pruned.runs += len(gone)
        pruned.events += sum(run.events for run in batch if run.run_id in gone)
        for run_id in gone:
            await self._remove_belongings(run_id, pruned)
        told(f"{pruned.runs} runs forgotten, up to {runs[-1]}")
        return cited

    async def _remove_belongings(self, run_id: str, pruned: Pruned) -> None:
        whose = f"the record of run {run_id} is pruned, but its files"
        await self._remove_folder(self._runs / run_id, whose, pruned)
        if self._parcels is not None:
            pruned.parcels += await self._parcels.remove_run(run_id)

    async def _remove_folder(self, path: Path, whose: str, pruned: Pruned) -> None:
        try:
            if path.is_dir():
                pruned.bytes += await asyncio.to_thread(_removed, path)
                pruned.folders += 1
        except FileNotFoundError:
            return  # somebody else prunes here, too
        except OSError as error:
            left = _top_of(error, path)
            self._left.add(left)
            pruned.folders_left += 1
            pruned.problem(
                f"{whose} at {left} could not be removed: {error.strerror or error} ({error.filename}). "
                "Make them removable (immutable files: chattr -R -i; a mount: umount), then delete that folder."
            )

    async def _remove_orphans(self, before_us: int, pruned: Pruned, told: Told) -> None:
        for name in self.orphans(before_us):
            if self._runs / name in self._left:
                continue
            if name.startswith(GONE) or not (name.startswith(".") or await self._is_known(name)):
                await self._remove_folder(self._runs / name, "files of a pruned run", pruned)
                told(f"{pruned.folders} folders removed")

    async def _is_known(self, run_id: str) -> bool:
        return await self._ledger.head(run_stream(run_id)) > 0

    # Evidence

    async def _cited_by(self, runs: list[str]) -> set[str]:
        found: set[str] = set()
        for run_id in runs:
            after = 0
            while page := await read_leniently(self._ledger, run_stream(run_id), after, _PAGE_EVENTS_MAX):
                for event in page:
                    found |= _handles(event.raw)
                after = page[-1].seq
        return found

    async def _remove_evidence(self, cited: set[str], before_us: int, pruned: Pruned, told: Told) -> None:
        """Of what forgotten runs cited, and of what is old here: what no event cites any more."""
        age_s = max(0.0, time.time() - self._clock.ahead_s - before_us / 1e6)
        here = await asyncio.to_thread(self._evidence.older_than, age_s)
        for handle in sorted(await self._uncited(here | cited, told)):
            size_bytes = self._evidence.remove(handle, age_s)
            if self._evidence.has(handle):
                continue  # young
            pruned.evidence += size_bytes is not None
            pruned.bytes += size_bytes or 0
            if self._parcels is not None:
                await self._parcels.remove_evidence([handle])
            told(f"{pruned.evidence} pieces of evidence removed")
        self._evidence.sweep(age_s)
        self._notes.unlink(missing_ok=True)

    async def _uncited(self, handles: set[str], told: Told) -> set[str]:
        left, after, read = set(handles), 0, 0
        while left and (page := await self._ledger.arrivals(after, _PAGE_EVENTS_MAX)):
            for arrival in page:
                left -= _handles(arrival.payload.data)
            after, read = page[-1].number, read + len(page)
            told(f"looking for what is still cited: {read} events read")
            await asyncio.sleep(0)
        return left

    # What was begun and not ended

    async def _finish(self, pruned: Pruned, told: Told) -> set[str]:
        cited: set[str] = set()
        for note in self._read_notes():
            for run_id in note.runs:
                if not await self._is_known(run_id):
                    await self._remove_belongings(run_id, pruned)
            cited |= set(note.evidence)
            told("going on with what was interrupted")
        return cited

    def _write_note(self, note: _Note) -> None:
        new = not self._notes.exists()
        with self._notes.open("ab") as file:
            file.write(msgspec.json.encode(note) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        if new:
            sync_directory(self._notes.parent)

    def _read_notes(self) -> Iterator[_Note]:
        if not self._notes.exists():
            return
        for line in self._notes.read_bytes().splitlines():
            with suppress(msgspec.MsgspecError):  # torn: nothing was done after it
                yield msgspec.json.decode(line, type=_Note)


def _handles(text: bytes) -> set[str]:
    """Digests of other things are among them, which does no harm."""
    return {found.decode() for found in _HANDLE.findall(text)} if b"sha256:" in text else set()


def _top_of(error: OSError, path: Path) -> Path:
    """Where what is left of a folder lies: it may have been moved beside its old place before it was emptied."""
    named = Path(os.fsdecode(error.filename)) if isinstance(error.filename, str | bytes) else path
    return path.parent / named.relative_to(path.parent).parts[0] if path.parent in named.parents else path


def _changed_us(path: Path) -> float:
    with suppress(OSError):
        return max(found.stat().st_mtime for found in (path, path / "private") if found.exists()) * 1e6
    return float("inf")


def _removed(path: Path) -> int:
    size_bytes = _size_below(path)
    remove_tree(path)
    return size_bytes


def _size_below(path: Path) -> int:
    """Of what can be reached by a path. os.walk recurses, and a step may have left folders deeper than it can."""
    size_bytes, pending = 0, [str(path)]
    while pending:
        with suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                else:
                    size_bytes += entry.stat(follow_symlinks=False).st_size
    return size_bytes
