"""Runs that ended long ago, and all that lies about of them."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from recoup.depot.folder import FolderDepot
from recoup.depot.shipping import Shipping
from recoup.errors import DepotError, LedgerError, NotFound
from recoup.evidence.folder import FolderEvidence
from recoup.evidence.run_folder import RunFolder
from recoup.ledger.queries import queries
from recoup.ledger.sqlite import SqliteLedger
from recoup.model.ids import run_stream
from recoup.model.instant import Instant
from recoup.model.storage import EndedRun
from recoup.operations.retention import BATCH_EVENTS_ENOUGH, Pruned, Retention
from recoup.redaction.redactor import SecretRedactor
from recoup.testing.clock import FakeClock
from recoup.testing.ledger_suite import START, facts, into, linked, note, submitted
from recoup.testing.prune_suite import DONE, LATER, over

REDACTOR = SecretRedactor()
BEFORE_US = LATER.wall_us


class Home:
    """A ledger, folders and a depot."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ledger = SqliteLedger(root / "ledger.db")
        self.depot = FolderDepot(root / "depot")
        self.shipping = Shipping(self.depot, "k" * 40)
        self.evidence = FolderEvidence(root / "evidence")

    def retention(self, *, shared: bool = False, alone: bool = True) -> Retention:
        return Retention(
            ledger=self.ledger,
            home=self.root,
            redactor=REDACTOR,
            clock=FakeClock(),
            parcels=self.shipping if shared else None,
            alone=alone,
        )

    async def prune(self, *, shared: bool = False, limit: int = 1000) -> Pruned:
        return await self.retention(shared=shared).prune(BEFORE_US, limit)

    async def ran(self, *run_ids: str, evidence: str | None = None, at: Instant = START) -> list[str]:
        """With a folder, a parcel and perhaps evidence each."""
        handles = []
        for run_id in run_ids:
            await over(self.ledger, run_id, at=at)
            handles.append(await self.cites(run_id, evidence or f"evidence of {run_id}", at))
            self.folder(run_id)
            await self.depot.put(f"runs/{run_id}/plan", b"sealed")
            await self.depot.put(f"runs/{run_id}/pieces/1", b"sealed")
        return handles

    async def cites(self, run_id: str, words: str, at: Instant = START) -> str:
        handle = await self.shipping.evidence(self.evidence, self.root).put(REDACTOR.redact(words), 1000)
        self.age(self.evidence_path(handle))
        await self.ledger.append(facts(into(run_stream(run_id), note(f"see {handle}")), at=at))
        return handle

    def folder(self, run_id: str) -> Path:
        files = RunFolder(self.root / "runs" / run_id)
        files.make()
        files.write_plan(b"x" * 1000)
        for path in (files.root, files.private):
            self.age(path)
        return files.root

    def age(self, path: Path) -> None:
        os.utime(path, (START.wall_us / 1e6, START.wall_us / 1e6))

    def evidence_path(self, handle: str) -> Path:
        name = handle.removeprefix("sha256:")
        return self.root / "evidence" / name[:2] / name

    async def is_known(self, run_id: str) -> bool:
        return await self.ledger.head(run_stream(run_id)) > 0

    def folders(self) -> list[str]:
        return sorted(path.name for path in (self.root / "runs").iterdir())


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    one = Home(tmp_path)
    yield one
    await one.ledger.close()
    await one.shipping.close()


async def test_a_run_goes_with_its_folder_and_its_evidence(home: Home) -> None:
    gone, _ = await home.ran("gone", "gone2")
    (kept,) = await home.ran("young", at=LATER)
    pruned = await home.prune()
    assert (pruned.runs, pruned.folders, pruned.evidence, pruned.problems) == (2, 2, 2, [])
    assert pruned.events == 12
    assert pruned.bytes > 2000
    assert home.folders() == ["young"]
    assert await home.evidence.get(kept)
    with pytest.raises(NotFound):
        await home.evidence.get(gone)
    assert await home.prune() == Pruned()


async def test_what_another_run_still_cites_stays(home: Home) -> None:
    (gone,) = await home.ran("gone", evidence="the same")
    (kept,) = await home.ran("kept", evidence="the same", at=LATER)
    assert gone == kept
    assert (await home.prune(shared=True)).evidence == 0
    assert await home.evidence.get(kept) == b"the same"
    assert len(await home.depot.names("evidence")) == 1


async def test_what_was_sent_away_goes_too(home: Home) -> None:
    await home.ran("gone")
    await home.ran("kept", at=LATER)
    pruned = await home.prune(shared=True)
    assert pruned.parcels == 2
    assert {name.split("/")[1] for name in await home.depot.names("runs")} == {"kept"}
    assert len(await home.depot.names("evidence")) == 1


async def test_evidence_that_another_machine_stored_goes_from_the_depot(home: Home) -> None:
    (handle,) = await home.ran("gone")
    home.evidence_path(handle).unlink()
    await home.prune(shared=True)
    assert await home.depot.names("evidence") == []


async def test_young_evidence_stays_its_event_may_be_on_its_way(home: Home) -> None:
    (handle,) = await home.ran("gone")
    home.evidence_path(handle).touch()
    assert (await home.prune(shared=True)).evidence == 0
    assert len(await home.depot.names("evidence")) == 1


async def test_folders_that_nobody_knows_go_when_they_are_old(home: Home) -> None:
    await home.ran("young", at=LATER)
    home.folder("orphan")
    home.folder(".gone-1234")
    home.folder(".preview-1")
    (home.root / "runs" / "fresh").mkdir()
    (home.root / "runs" / "a-file").touch()
    assert (await home.prune()).folders == 2
    assert home.folders() == [".preview-1", "a-file", "fresh", "young"]


async def test_folders_stay_where_another_ledger_may_know_them(home: Home) -> None:
    home.folder("orphan")
    assert (await home.retention(alone=False).prune(BEFORE_US, 10)).folders == 0
    assert home.folders() == ["orphan"]


async def test_a_family_goes_together_whatever_the_limit(home: Home) -> None:
    await linked(home.ledger, ("a", None), ("z", "a"))
    for run_id in ("a", "z"):
        await home.ledger.append(facts(into(run_stream(run_id), DONE)))
        home.folder(run_id)
        await home.depot.put(f"runs/{run_id}/plan", b"sealed")
    await home.ran("m", "n")
    pruned = await home.prune(shared=True, limit=1)
    assert (pruned.runs, pruned.folders, pruned.events) == (2, 2, 4)
    assert home.folders() == ["m", "n"]
    assert {name.split("/")[1] for name in await home.depot.names("runs")} == {"m", "n"}


async def test_what_would_go_is_said_and_nothing_is_changed(home: Home) -> None:
    await linked(home.ledger, ("a", None), ("z", "a"))
    for run_id in ("a", "z"):
        await home.ledger.append(facts(into(run_stream(run_id), DONE)))
    await home.ran("m")
    due = await home.retention().due(BEFORE_US, 10)
    assert sorted(run.run_id for run in due) == ["a", "m", "z"]
    assert EndedRun("a", 2) in due
    assert home.folders() == ["m"]
    assert await home.is_known("a")
    assert not (home.root / "pruning.jsonl").exists()


async def test_large_runs_go_one_after_the_other(home: Home) -> None:
    class Counting(SqliteLedger):
        batches: list[int]

        async def ended(self, before_us: int, after: str = "", limit: int = 200) -> list[EndedRun]:
            found = await super().ended(before_us, after, limit)
            return [EndedRun(run.run_id, BATCH_EVENTS_ENOUGH // 2) for run in found]

        async def forget(self, *args: object, **named: object) -> list[str]:
            self.batches.append(len(args[0]))  # type: ignore[arg-type]
            return await super().forget(*args, **named)  # type: ignore[arg-type]

    await over(home.ledger, *(f"r{number}" for number in range(5)))
    await home.ledger.close()
    home.ledger = counting = Counting(home.root / "ledger.db")
    counting.batches = []
    assert (await home.prune()).runs == 5
    assert counting.batches == [2, 2, 1]


class Broken(Exception):
    """The process is gone."""


@pytest.mark.parametrize("at", ["before", "after", "folder", "parcels", "evidence"])
async def test_a_crash_leaves_nothing_that_the_next_one_does_not_find(
    home: Home, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await home.ran("a", "b")
    forget, remove_run = home.ledger.forget, home.shipping.remove_run

    async def crashing_forget(*args: object) -> list[str]:
        if at == "before":
            raise Broken
        gone = await forget(*args)  # type: ignore[arg-type]
        if at == "after":
            raise Broken
        return gone

    async def crashing_removal(run_id: str) -> int:
        if at == "folder" or (at == "parcels" and run_id == "b"):
            raise Broken
        return await remove_run(run_id)

    async def crashing_evidence(_handles: object) -> None:
        raise Broken

    with monkeypatch.context() as patch:
        patch.setattr(home.ledger, "forget", crashing_forget)
        patch.setattr(home.shipping, "remove_run", crashing_removal)
        patch.setattr(home.shipping, "remove_evidence", crashing_evidence)
        with pytest.raises(Broken):
            await home.prune(shared=True)
    assert (home.root / "pruning.jsonl").exists()
    await home.prune(shared=True)
    assert home.folders() == []
    assert await home.depot.names("runs") == []
    assert await home.depot.names("evidence") == []
    assert home.evidence.older_than(0) == set()
    assert not (home.root / "pruning.jsonl").exists()


async def test_a_note_of_what_was_not_forgotten_harms_nothing(home: Home) -> None:
    """The run was gone on with after a crash."""
    await home.ran("a", at=LATER)
    (home.root / "pruning.jsonl").write_bytes(b'{"runs":["a"],"evidence":[]}\n{"runs":["a"')
    await home.prune(shared=True)
    assert home.folders() == ["a"]
    assert len(await home.depot.names("runs")) == 2


async def test_a_depot_that_cannot_be_reached_is_made_good_for_the_next_time(home: Home) -> None:
    await home.ran("a")

    async def refuse(_run_id: str) -> int:
        raise DepotError("away")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(home.shipping, "remove_run", refuse)
        with pytest.raises(DepotError):
            await home.prune(shared=True)
    assert not await home.is_known("a")
    assert (await home.prune(shared=True)).parcels == 2


async def test_nothing_is_removed_when_the_ledger_refuses(home: Home) -> None:
    await home.ran("a")

    async def refuse(*_args: object) -> list[str]:
        raise LedgerError("busy")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(home.ledger, "forget", refuse)
        with pytest.raises(LedgerError):
            await home.prune(shared=True)
    assert home.folders() == ["a"]
    assert len(await home.depot.names("runs")) == 2


async def test_a_key_in_the_audit_may_be_taken_again(home: Home) -> None:
    from recoup.audit.exporting import export
    from recoup.audit.verifying import verify
    from recoup.testing.prune_suite import under_key

    root = home.root / "audit"
    await under_key(home.ledger, "a")
    await export(home.ledger, root, START)
    await home.prune()
    await under_key(home.ledger, "b")
    await export(home.ledger, root, START)
    report = await verify(root, home.ledger)
    assert report.first_break is None
    assert report.ledger is not None
    assert (report.ledger.pruned, report.ledger.waiting) == (4, 0)


async def test_the_audit_goes_on_when_everything_was_pruned(home: Home) -> None:
    from recoup.audit.exporting import export
    from recoup.audit.verifying import verify

    root = home.root / "audit"
    await home.ran("a")
    await export(home.ledger, root, START)
    await home.prune()
    assert (await export(home.ledger, root, START)).events == 1
    assert (await verify(root, home.ledger)).first_break is None


async def test_a_ledger_that_was_pruned_can_be_rebuilt(home: Home) -> None:
    await home.ran("a", "b")
    await home.ledger.append(facts(into("run:c", submitted())))
    before = (await home.ledger.runs()).rows
    await home.prune()
    rows = (await home.ledger.runs()).rows
    assert rows == tuple(row for row in before if row.run_id == "c")
    await home.ledger.rebuild()
    assert (await home.ledger.runs()).rows == rows


async def test_what_may_be_forgotten_is_found_page_by_page_without_sorting_all_runs(home: Home) -> None:
    with sqlite3.connect(home.root / "ledger.db") as direct:
        rows = direct.execute(f"EXPLAIN QUERY PLAN {queries()['ended']}", ("", 1, 1)).fetchall()
    direct.close()
    steps = [row[3] for row in rows]
    assert steps[0] == "SEARCH runs USING PRIMARY KEY (run_id>?)"
    assert not [step for step in steps if "TEMP B-TREE" in step or step.startswith("SCAN")]
