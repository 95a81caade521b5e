"""The audit beside a real ledger: exported, torn, cut, rotated, altered."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import random
import shutil
import sqlite3
import stat
import tempfile
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recoup.audit import chain, log
from recoup.audit.exporting import PAGE_EVENTS_MAX, Exported, export, export_whole
from recoup.audit.folder import AuditFolder, NotedHead
from recoup.audit.line import GENESIS, Entry, chained, entry_in, read_line
from recoup.audit.reading import lines
from recoup.audit.verifying import Verified, verify
from recoup.errors import StateError
from recoup.ledger.sqlite import SqliteLedger
from recoup.model.storage import Append, Draft, StreamAppend
from recoup.redaction.redactor import SecretRedactor
from recoup.testing.ledger_suite import START, facts, into, note, result, submitted

SMALL_BYTES = 1_500


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[SqliteLedger]:
    opened = SqliteLedger(tmp_path / "ledger.db")
    yield opened
    await opened.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "audit"


async def fill(ledger: SqliteLedger, count: int, word: str = "noted") -> None:
    """So many events, in three streams."""
    for number in range(count):
        what = result("passed") if number % 3 == 2 else note(f"{word} {number}")
        stream = ("run:a", "run:b", "workflow:w")[number % 3]
        await ledger.append(facts(into(stream, what)))


def files(root: Path) -> list[Path]:
    return sorted(root.glob("audit-*.jsonl"))


def documents(root: Path) -> list[Any]:
    return [json.loads(line) for path in files(root) for line in path.read_text().splitlines()]


def gaps(root: Path) -> list[Any]:
    return [line["payload"] for line in documents(root) if line["type"] == "audit.gap"]


async def assert_holds_the_ledger(root: Path, ledger: SqliteLedger) -> Verified:
    """Each event once, in the order of arrival; and the chain is whole."""
    exported = [
        (line["arrival"], line["stream"], line["seq"], line["at"], line["type"], line["payload"])
        for line in documents(root)
        if line["type"] != "audit.gap"
    ]
    came = await ledger.arrivals(limit=1_000_000)
    wanted = [(e.number, e.stream, e.seq, e.at.iso(), e.type, json.loads(e.payload.data)) for e in came]
    assert exported == wanted
    report = await verify(root, ledger)
    assert report.first_break is None
    assert report.ledger is not None
    assert (report.ledger.events, report.ledger.waiting) == (len(came), 0)
    assert all(gap.filled for gap in report.gaps)
    return report


# Exporting


async def test_every_event_of_every_stream_is_exported_once(ledger: SqliteLedger, root: Path) -> None:
    assert await export(ledger, root, START) == Exported(0, 0, root / "audit-000001.jsonl")
    await ledger.append(facts(into("run:a", submitted())))
    await fill(ledger, 7)
    assert (await export(ledger, root, START)).events == 8
    assert (await export(ledger, root, START)).events == 0
    await fill(ledger, 3)
    assert (await export(ledger, root, START)).n == 11
    assert {line["stream"] for line in documents(root)} == {"run:a", "run:b", "workflow:w"}
    assert not (await assert_holds_the_ledger(root, ledger)).gaps


async def test_more_events_than_fit_in_one_page_are_exported(ledger: SqliteLedger, root: Path) -> None:
    await ledger.append(facts(into("run:a", *(note(str(number)) for number in range(1_203)))))
    assert (await export(ledger, root, START)).events == 1_203
    await assert_holds_the_ledger(root, ledger)


async def test_an_event_that_is_named_like_a_gap_is_an_event(ledger: SqliteLedger, root: Path) -> None:
    drafts = (Draft("audit.gap", SecretRedactor().seal({"reason": "none"})),)
    await ledger.append(Append(at=START, streams=(StreamAppend("probe:p", drafts),)))
    await fill(ledger, 2)
    await export(ledger, root, START)
    (root / "head.json").unlink()
    await export(ledger, root, START)
    report = await verify(root, ledger)
    assert report.intact
    assert (report.events, report.gaps_count) == (3, 0)


async def test_an_export_is_bounded_and_the_next_one_goes_on(ledger: SqliteLedger, root: Path) -> None:
    await ledger.append(facts(into("run:a", *(note() for _ in range(1_100)))))
    first = await export(ledger, root, START, events_max=600)
    assert first.events == 1_000
    assert (await export(ledger, root, START)).events == 100
    await assert_holds_the_ledger(root, ledger)


async def test_the_whole_is_exported_part_after_part(ledger: SqliteLedger, root: Path) -> None:
    await ledger.append(facts(into("run:a", *(note() for _ in range(3 * PAGE_EVENTS_MAX + 1)))))
    done = await export_whole(ledger, root, START, part_events_max=PAGE_EVENTS_MAX)
    assert done.events == 3 * PAGE_EVENTS_MAX + 1
    await assert_holds_the_ledger(root, ledger)


async def test_files_are_for_their_owner_alone(ledger: SqliteLedger, root: Path) -> None:
    root.mkdir(mode=0o755)
    await fill(ledger, 12)
    await export(ledger, root, START, file_bytes_max=SMALL_BYTES)
    files(root)[-1].write_bytes(files(root)[-1].read_bytes()[:-5])
    await export(ledger, root, START)
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in root.iterdir()} == {0o600}
    assert list(root.glob("*.bytes"))


async def test_a_full_file_is_followed_by_the_next_which_continues_the_chain(
    ledger: SqliteLedger, root: Path
) -> None:
    await fill(ledger, 10)
    await export(ledger, root, START, file_bytes_max=SMALL_BYTES)
    await fill(ledger, 10)
    await export(ledger, root, START, file_bytes_max=SMALL_BYTES)
    assert len(files(root)) > 4
    assert [path.name for path in files(root)][:2] == ["audit-000001.jsonl", "audit-000002.jsonl"]
    assert all(0 < path.stat().st_size <= SMALL_BYTES for path in files(root))
    lines = documents(root)
    assert [line["n"] for line in lines] == list(range(1, 21))
    assert [line["prev"] for line in lines] == ["0" * 64, *(line["hash"] for line in lines[:-1])]
    await assert_holds_the_ledger(root, ledger)


async def test_a_line_longer_than_a_file_has_one_of_its_own(ledger: SqliteLedger, root: Path) -> None:
    for text in ("a", "b" * 5_000, "c"):
        await ledger.append(facts(into("run:a", note(text))))
    await export(ledger, root, START, file_bytes_max=SMALL_BYTES)
    assert len(files(root)) == 3
    await assert_holds_the_ledger(root, ledger)


async def test_an_audit_of_another_ledger_is_refused(
    ledger: SqliteLedger, root: Path, tmp_path: Path
) -> None:
    await fill(ledger, 5)
    await export(ledger, root, START)
    before = files(root)[0].read_bytes()
    other = SqliteLedger(tmp_path / "other" / "ledger.db")
    for count in (0, 3, 9):
        await fill(other, count, "otherwise")
        with pytest.raises(StateError, match="another ledger"):
            await export(other, root, START)
        report = await verify(root, other)
        assert report.first_break is not None
        assert report.first_break.line == 1
    assert files(root)[0].read_bytes() == before
    await other.close()


async def test_an_older_state_of_the_ledger_is_refused(
    ledger: SqliteLedger, root: Path, tmp_path: Path
) -> None:
    await fill(ledger, 4)
    await ledger.close()
    shutil.copytree(tmp_path, tmp_path / "backup")
    later = SqliteLedger(tmp_path / "ledger.db")
    await fill(later, 2)
    await export(later, root, START)
    await later.close()
    restored = SqliteLedger(tmp_path / "backup" / "ledger.db")
    with pytest.raises(StateError, match="later state"):
        await export(restored, root, START)
    await restored.close()


async def test_what_was_pruned_stays_in_the_audit(ledger: SqliteLedger, root: Path, tmp_path: Path) -> None:
    await fill(ledger, 6)
    await ledger.append(facts(into("run:gone", note(), note())))
    await fill(ledger, 1)
    await export(ledger, root, START)
    pruned = Draft("ledger.pruned", SecretRedactor().seal({"runId": "gone"}))

    def prune() -> None:
        with sqlite3.connect(tmp_path / "ledger.db") as direct:
            direct.execute(
                "DELETE FROM events WHERE place >> 32 = (SELECT id FROM streams WHERE name = 'run:gone')"
            )
        direct.close()

    prune()
    report = await verify(root, ledger)
    assert report.first_break is not None, "nothing in the ledger says that they were pruned"
    assert report.first_break.line == 7
    await ledger.append(Append(at=START, streams=(StreamAppend("ledger", (pruned,)),)))
    assert (await export(ledger, root, START)).events == 1
    report = await verify(root, ledger)
    assert report.first_break is None
    assert report.ledger is not None
    assert (report.events, report.ledger.events, report.ledger.pruned) == (10, 8, 2)


# Torn


@pytest.mark.parametrize("stride", [9, pytest.param(1, marks=pytest.mark.soak)])
async def test_a_tail_torn_at_any_byte_is_set_aside_marked_and_filled_again(
    ledger: SqliteLedger, tmp_path: Path, stride: int
) -> None:
    await fill(ledger, 6)
    whole = tmp_path / "whole"
    await export(ledger, whole, START)
    data = files(whole)[0].read_bytes()
    lines = data.splitlines(keepends=True)
    kept = len(data) - len(lines[-1]) - len(lines[-2])
    ends = {kept, kept + 1, kept + len(lines[-2]) - 1, kept + len(lines[-2]), len(data) - 1}
    for size in sorted(ends | set(range(kept, len(data), stride))):
        root = tmp_path / "torn"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(whole, root)
        (root / "audit-000001.jsonl").write_bytes(data[:size])
        await export(ledger, root, START)
        assert (root / "audit-000001.jsonl").read_bytes().startswith(data[:kept]), "what came before is kept"
        (gap,) = gaps(root)
        good = data.rfind(b"\n", 0, size) + 1
        assert (gap["offset"], gap["bytes"]) == (good, size - good)
        assert gap["reason"] == ("torn" if size > good else "cut")
        assert gap["linesLost"] == (2 if good == kept else 1)
        if size > good:
            assert (root / gap["keptAs"]).read_bytes() == data[good:size]
        await assert_holds_the_ledger(root, ledger)


@pytest.mark.parametrize("with_note", [True, False])
async def test_a_tail_torn_by_a_killed_exporter_is_mended_at_any_byte(
    ledger: SqliteLedger, tmp_path: Path, with_note: bool
) -> None:
    """The note is older than the lines, or was never written: whole lines count, whoever wrote them."""
    await fill(ledger, 3)
    before = tmp_path / "before"
    await export(ledger, before, START)
    note_bytes = (before / "head.json").read_bytes()
    await fill(ledger, 3)
    await export(ledger, before, START)
    data = files(before)[0].read_bytes()
    first = msgspec.json.decode(note_bytes, type=NotedHead).bytes
    for size in range(first, len(data), 7):
        root = tmp_path / "torn"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(before, root)
        (root / "head.json").write_bytes(note_bytes) if with_note else (root / "head.json").unlink()
        files(root)[0].write_bytes(data[:size])
        good = data.rfind(b"\n", 0, size) + 1
        report = await verify(root, ledger)
        assert report.intact is (size == good)
        await export(ledger, root, START)
        assert [gap["bytes"] for gap in gaps(root)] == ([size - good] if size > good else [])
        await assert_holds_the_ledger(root, ledger)


@pytest.mark.parametrize("rest", [b"\x00" * 5_000, b"\n\n\n", b"{}\n", b"\xff\xfe", b"x" * 200_000 + b"\n"])
async def test_anything_behind_the_last_line_is_set_aside(
    ledger: SqliteLedger, root: Path, rest: bytes
) -> None:
    await fill(ledger, 4)
    await export(ledger, root, START)
    with files(root)[0].open("ab") as file:
        file.write(rest)
    await fill(ledger, 2)
    await export(ledger, root, START)
    (gap,) = gaps(root)
    assert gap["bytes"] == len(rest)
    assert (root / gap["keptAs"]).read_bytes() == rest
    await assert_holds_the_ledger(root, ledger)


@contextlib.contextmanager
def little_memory() -> Iterator[None]:
    """Far less than what the files of these tests hold."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("end", [b"", b"\n"])
async def test_a_line_that_never_ends_is_named_and_set_aside_within_little_memory(
    ledger: SqliteLedger, root: Path, monkeypatch: pytest.MonkeyPatch, end: bytes
) -> None:
    monkeypatch.setattr(chain, "LINE_BYTES_MAX", 100_000)
    await fill(ledger, 4)
    await export(ledger, root, START)
    (path,) = files(root)
    good = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(good + (48 << 20))
        file.seek(0, 2)
        file.write(end)
    torn = path.stat().st_size - good
    with little_memory():
        found = (await verify(root, ledger)).first_break
        assert found is not None and (found.file, found.line) == (path.name, 5)
        assert "longer than" in found.what and "recoup audit export" in found.what
        with pytest.raises(StateError, match=f"{path.name} cannot be read: the line is longer than") as error:
            list(lines(root))
        assert "recoup audit verify" in error.value.what_to_do
        assert chain.last_link(path) is None
        await export(ledger, root, START)
    (gap,) = gaps(root)
    assert (gap["bytes"], (root / gap["keptAs"]).stat().st_size) == (torn, torn)
    await assert_holds_the_ledger(root, ledger)


async def test_an_event_that_no_line_can_hold_is_refused_before_anything_is_written(
    ledger: SqliteLedger, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(ledger, 1)
    await export(ledger, root, START)
    monkeypatch.setattr(log, "LINE_BYTES_MAX", 5_000)
    await ledger.append(facts(into("run:long", note("b" * 5_000))))
    with pytest.raises(StateError, match="event 1 of run:long makes a line of") as error:
        await export(ledger, root, START)
    assert "recoup prune" in error.value.what_to_do
    assert (await verify(root)).intact


async def test_a_page_that_was_lost_among_unsynced_lines_is_found(ledger: SqliteLedger, root: Path) -> None:
    """After a power cut: zeros where lines were, and good lines behind them."""
    await fill(ledger, 4)
    await export(ledger, root, START)
    note_bytes = (root / "head.json").read_bytes()
    size = files(root)[0].stat().st_size
    await fill(ledger, 6)
    await export(ledger, root, START)
    data = bytearray(files(root)[0].read_bytes())
    data[size + 500 : size + 900] = bytes(400)
    files(root)[0].write_bytes(data)
    (root / "head.json").write_bytes(note_bytes)
    await export(ledger, root, START)
    (gap,) = gaps(root)
    assert gap["reason"] == "damaged"
    await assert_holds_the_ledger(root, ledger)


async def test_a_last_file_that_is_gone_or_empty_or_begins_torn_is_written_again(
    ledger: SqliteLedger, tmp_path: Path
) -> None:
    await fill(ledger, 14)
    whole = tmp_path / "whole"
    await export(ledger, whole, START, file_bytes_max=SMALL_BYTES)
    last = files(whole)[-1]
    for number, content in enumerate((None, b"", last.read_bytes()[:40])):
        root = tmp_path / str(number)
        shutil.copytree(whole, root)
        (root / last.name).unlink()
        if content is not None:
            (root / last.name).write_bytes(content)
        assert not (await verify(root, ledger)).intact
        await export(ledger, root, START, file_bytes_max=SMALL_BYTES)
        (gap,) = gaps(root)
        assert gap["reason"] == ("lost", "cut", "torn")[number]
        await assert_holds_the_ledger(root, ledger)


async def test_when_all_files_are_gone_the_gap_comes_first(ledger: SqliteLedger, root: Path) -> None:
    await fill(ledger, 5)
    await export(ledger, root, START)
    files(root)[0].unlink()
    await export(ledger, root, START)
    assert documents(root)[0]["payload"]["linesLost"] == 5
    await assert_holds_the_ledger(root, ledger)


async def test_an_end_that_hangs_on_nothing_is_refused_with_what_to_do(
    ledger: SqliteLedger, root: Path
) -> None:
    await fill(ledger, 14)
    await export(ledger, root, START, file_bytes_max=SMALL_BYTES)
    *_, before, last = files(root)
    before.unlink()
    last.write_bytes(b"")
    (root / "head.json").unlink()
    with pytest.raises(StateError, match="the lines before it are gone"):
        await export(ledger, root, START)


async def test_the_note_can_be_made_again(ledger: SqliteLedger, root: Path) -> None:
    await fill(ledger, 5)
    await export(ledger, root, START)
    noted = (root / "head.json").read_bytes()
    for content in (None, b"", b"{}", noted[: len(noted) // 2], b"\x00" * 100):
        (root / "head.json").unlink()
        if content is not None:
            (root / "head.json").write_bytes(content)
        await export(ledger, root, START)
        assert (root / "head.json").read_bytes() == noted
    assert not gaps(root)


async def test_what_killed_writers_left_unfinished_is_cleared_away(ledger: SqliteLedger, root: Path) -> None:
    root.mkdir()
    (root / ".head.json.0123.tmp").write_text("{")
    await export(ledger, root, START)
    assert {path.name for path in root.iterdir()} == {"audit-000001.jsonl", "head.json"}


async def test_lines_with_fields_of_a_later_version_are_gone_on_from(
    ledger: SqliteLedger, root: Path
) -> None:
    await fill(ledger, 2)
    await export(ledger, root, START)
    first, second = files(root)[0].read_bytes().splitlines()
    body = second[: second.rindex(b',"hash":')] + b',"colour":"blue"}'
    later = b'%b,"hash":"%b"}' % (body[:-1], hashlib.sha256(body).hexdigest().encode())
    files(root)[0].write_bytes(b"%b\n%b\n" % (first, later))
    (root / "head.json").unlink()
    await fill(ledger, 2)
    await export(ledger, root, START)
    assert later in files(root)[0].read_bytes()
    assert not gaps(root)
    await assert_holds_the_ledger(root, ledger)


# Any history


class Story:
    """One history of appends, exports and misfortunes."""

    def __init__(self, home: Path, chance: random.Random) -> None:
        self.ledger = SqliteLedger(home / "ledger.db")
        self.root = home / "audit"
        self.chance = chance

    async def append(self) -> None:
        for _ in range(self.chance.randint(1, 3)):
            stream = self.chance.choice(("run:a", "run:b", "workflow:w", "policy"))
            text = self.chance.choice(("x", "naïve \U0001f600\n", "y" * 700))
            await self.ledger.append(facts(into(stream, *[note(text)] * self.chance.randint(1, 3))))

    async def export(self) -> None:
        size = self.chance.choice((1, 900, 4_000, 1 << 20))
        await export(self.ledger, self.root, START, file_bytes_max=size)

    async def killed_while_exporting(self) -> None:
        """The lines behind the note are there up to some byte."""
        note_before = self._note()
        sizes = {path.name: path.stat().st_size for path in files(self.root)}
        await self.append()
        await self.export()
        last = files(self.root)[-1]
        data = last.read_bytes()
        begin = sizes.get(last.name, 0)
        last.write_bytes(data[: self.chance.randint(begin, len(data))])
        (self.root / "head.json").unlink(missing_ok=True)
        if note_before is not None:
            (self.root / "head.json").write_bytes(note_before)

    async def cut(self) -> None:
        for path in files(self.root)[-1:]:
            data = path.read_bytes()
            path.write_bytes(data[: self.chance.randint(0, len(data))])

    async def soil(self) -> None:
        for path in files(self.root)[-1:]:
            with path.open("ab") as file:
                file.write(self.chance.randbytes(self.chance.randint(1, 600)))

    async def lose_the_note(self) -> None:
        (self.root / "head.json").unlink(missing_ok=True)

    async def lose_the_last_file(self) -> None:
        for path in files(self.root)[-1:]:
            path.unlink()

    def _note(self) -> bytes | None:
        path = self.root / "head.json"
        return path.read_bytes() if path.exists() else None


ACTS: Sequence[Callable[[Story], Any]] = (
    Story.append,
    Story.export,
    Story.killed_while_exporting,
    Story.cut,
    Story.soil,
    Story.lose_the_note,
    Story.lose_the_last_file,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(acts=st.lists(st.sampled_from(ACTS), max_size=14), chance=st.randoms(use_true_random=False))
def test_after_any_misfortunes_the_audit_is_the_ledger(
    acts: list[Callable[[Story], Any]], chance: random.Random
) -> None:
    asyncio.run(_play(acts, chance))


async def _play(acts: list[Callable[[Story], Any]], chance: random.Random) -> None:
    with tempfile.TemporaryDirectory() as folder:
        story = Story(Path(folder), chance)
        try:  # Hypothesis may end an example anywhere
            for act in acts:
                await act(story)
            await story.export()
            if documents(story.root):
                await assert_holds_the_ledger(story.root, story.ledger)
        finally:
            await story.ledger.close()


# Verifying


@pytest.fixture
async def small(ledger: SqliteLedger, tmp_path: Path) -> Path:
    """Six lines in three files."""
    await fill(ledger, 6)
    root = tmp_path / "small"
    await export(ledger, root, START, file_bytes_max=800)
    assert len(files(root)) == 3
    assert (await verify(root)).intact
    return root


def rewrite(root: Path, lines: Sequence[bytes], cuts: Sequence[int]) -> None:
    """The lines into the files, so many into each but the last."""
    begin = 0
    for path, count in zip(files(root), [*cuts[:-1], len(lines)], strict=True):
        path.write_bytes(b"".join(lines[begin : begin + count]))
        begin += count


async def test_a_byte_altered_anywhere_is_found(small: Path) -> None:
    for path in files(small):
        data = path.read_bytes()
        for place in range(len(data)):
            path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
            report = await verify(small)
            assert report.first_break is not None, f"{path.name}, byte {place}"
            assert report.first_break.file == path.name
            assert report.first_break.line == data[:place].count(b"\n") + 1
        path.write_bytes(data)


async def test_a_line_removed_swapped_or_inserted_anywhere_is_found(small: Path) -> None:
    cuts = [len(path.read_bytes().splitlines()) for path in files(small)]
    lines = [line for path in files(small) for line in path.read_bytes().splitlines(keepends=True)]
    count = len(lines)
    removed = [lines[:at] + lines[at + 1 :] for at in range(count)]
    swapped = [
        [lines[{one: two, two: one}.get(at, at)] for at in range(count)]
        for one in range(count)
        for two in range(one)
    ]
    inserted = [[*lines[:at], lines[which], *lines[at:]] for at in range(count + 1) for which in range(count)]
    forged = [[*lines[:at], forge(lines, at), *lines[at:]] for at in range(count + 1)]
    cleared = [lines[:at] for at in range(count)]
    for case in [*removed, *swapped, *inserted, *forged[:-1], *cleared]:
        rewrite(small, case, cuts)
        assert not (await verify(small)).intact, case
    rewrite(small, lines, cuts)
    assert (await verify(small)).intact


def forge(lines: Sequence[bytes], at: int) -> bytes:
    """A line with a good hash that hangs on the one before it."""
    head = read_line(lines[at - 1][:-1]).head if at else GENESIS
    entry = Entry("run:a", "a", 99, START.iso(), "task.run.succeeded", msgspec.Raw(b"{}"), head.arrival + 1)
    return chained(entry, head)[0]


async def test_a_file_removed_anywhere_is_found(small: Path) -> None:
    for path in files(small):
        data = path.read_bytes()
        path.unlink()
        report = await verify(small)
        assert report.first_break is not None
        assert report.first_break.file == path.name
        path.write_bytes(data)


@pytest.mark.parametrize("with_note", [True, False])
async def test_a_chain_made_anew_with_another_story_is_found_by_the_ledger(
    ledger: SqliteLedger, root: Path, with_note: bool
) -> None:
    await fill(ledger, 5)
    await export(ledger, root, START)
    entries = [entry_in(read_line(line)) for line in files(root)[0].read_bytes().splitlines()]
    altered = msgspec.structs.replace(entries[3], payload=msgspec.Raw(b'{"reason":"all is well","epoch":1}'))
    invented = msgspec.structs.replace(entries[-1], stream="run:z", run_id="z", arrival=6)
    stories = {
        4: [*entries[:3], altered, *entries[4:]],
        3: entries[:2] + entries[3:],
        6: [*entries, invented],
    }
    for line, story in stories.items():
        head, data = GENESIS, b""
        for entry in story:
            written, head = chained(entry, head)
            data += written
        files(root)[0].write_bytes(data)
        (root / "head.json").unlink(missing_ok=True)
        if with_note:
            AuditFolder(root).note_head(NotedHead("audit-000001.jsonl", len(data), head))
        assert (await verify(root)).intact, "the chain alone cannot tell"
        report = await verify(root, ledger)
        assert report.first_break is not None
        assert report.first_break.line == line


async def test_a_chain_made_anew_does_not_fit_the_note(ledger: SqliteLedger, root: Path) -> None:
    await fill(ledger, 5)
    await export(ledger, root, START)
    entries = [entry_in(read_line(line)) for line in files(root)[0].read_bytes().splitlines()]
    head, data = GENESIS, b""
    for entry in entries:
        line, head = chained(msgspec.structs.replace(entry, at=START.plus_s(60).iso()), head)
        data += line
    files(root)[0].write_bytes(data)
    report = await verify(root)
    assert report.first_break is not None
    assert "made anew" in report.first_break.what


async def test_what_waits_is_no_break(ledger: SqliteLedger, root: Path) -> None:
    assert (await verify(root)).lines == 0
    await fill(ledger, 5)
    await export(ledger, root, START)
    await fill(ledger, 3)
    report = await verify(root, ledger)
    assert report.intact
    assert report.ledger is not None
    assert report.ledger.waiting == 3


async def test_a_gap_that_could_not_be_filled_is_said_to_be_open(ledger: SqliteLedger, root: Path) -> None:
    await fill(ledger, 4)
    await export(ledger, root, START)
    files(root)[0].write_bytes(files(root)[0].read_bytes()[:-3])
    await export(ledger, root, START, events_max=0)
    assert [gap.filled for gap in (await verify(root)).gaps] == [False]
    assert [gap.filled for gap in (await verify(root, ledger)).gaps] == [False]
    await export(ledger, root, START)
    assert [gap.filled for gap in (await verify(root)).gaps] == [True]
