"""Parcels come back as they were sent, or not at all."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoup.depot.names import checked_name
from recoup.depot.parcels import Parcels
from recoup.depot.patience import PatientDepot
from recoup.depot.sealing import Altered, KeySeal, Open, Seal
from recoup.errors import DepotError, NotFound, SettingsError, UsageError

SEAL = KeySeal("a long " + "random text")
OTHER = KeySeal("another " + "random text")


class Shelf:
    """A depot in memory, which can be told to misbehave."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.refusals = 0
        self.hangs = False
        self.room_for = 1_000

    async def put(self, name: str, data: bytes) -> None:
        self.hangs = self.hangs or len(self.kept) >= self.room_for
        await self._may_refuse()
        self.kept[checked_name(name)] = data

    async def get(self, name: str) -> bytes:
        await self._may_refuse()
        if name not in self.kept:
            raise NotFound(f"{name} is not in the depot")
        return self.kept[name]

    async def names(self, prefix: str) -> list[str]:
        return sorted(name for name in self.kept if name.startswith(prefix))

    async def remove(self, name: str) -> None:
        self.kept.pop(name, None)

    async def close(self) -> None: ...

    async def _may_refuse(self) -> None:
        if self.hangs:
            await asyncio.Event().wait()
        if self.refusals:
            self.refusals -= 1
            raise DepotError("no space left")


def parcels(depot: Shelf, seal: Seal = SEAL, piece_bytes: int = 64) -> Parcels:
    return Parcels(depot, seal, "runs/one", piece_bytes)


async def received(from_: Parcels, name: str) -> tuple[bytes, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "body")
        head, _ = await from_.receive(name, path)
        return head, path.read_bytes()


@settings(max_examples=60, deadline=None)
@given(
    head=st.binary(max_size=200),
    body=st.binary(max_size=1_000),
    piece_bytes=st.integers(1, 300),
    sealed=st.booleans(),
    as_file=st.booleans(),
)
def test_what_was_sent_comes_back(
    head: bytes, body: bytes, piece_bytes: int, sealed: bool, as_file: bool
) -> None:
    async def there_and_back() -> tuple[bytes, bytes]:
        ours = parcels(Shelf(), SEAL if sealed else Open(), piece_bytes)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "sent")
            path.write_bytes(body)
            assert await ours.send("trees/a", head, path if as_file else body) == len(body)
        return await received(ours, "trees/a")

    assert asyncio.run(there_and_back()) == (head, body)


@settings(max_examples=80, deadline=None)
@given(body=st.binary(min_size=1, max_size=300), data=st.data())
def test_whatever_is_altered_in_the_depot_is_noticed(body: bytes, data: st.DataObject) -> None:
    async def alter() -> None:
        shelf = Shelf()
        ours = parcels(shelf)
        await ours.send("trees/a", b"head", body)
        name = data.draw(st.sampled_from(sorted(shelf.kept)))
        kept, before = bytearray(shelf.kept[name]), shelf.kept[name]
        match data.draw(st.sampled_from(["flip", "cut", "lengthen", "lose", "swap"])):
            case "flip":
                kept[data.draw(st.integers(0, len(kept) - 1))] ^= data.draw(st.integers(1, 255))
            case "cut":
                del kept[data.draw(st.integers(0, len(kept) - 1)) :]
            case "lengthen":
                kept += data.draw(st.binary(min_size=1, max_size=40))
            case "lose":
                del shelf.kept[name]
            case "swap":
                await ours.send("trees/b", b"head", body)
                kept = bytearray(shelf.kept["runs/one/trees/b"])
        if name in shelf.kept:
            shelf.kept[name] = bytes(kept)
        try:
            assert await received(ours, "trees/a") == (b"head", body)
            # Only what tells which key it was can be altered without harm.
            assert kept[:4] + kept[12:] == before[:4] + before[12:]
        except (Altered, NotFound):
            pass

    asyncio.run(alter())


async def test_a_parcel_cannot_be_put_in_the_place_of_another() -> None:
    shelf = Shelf()
    ours = parcels(shelf)
    await ours.send("trees/a", b"a", b"1")
    await ours.send("trees/b", b"b", b"2")
    shelf.kept["runs/one/trees/a"] = shelf.kept["runs/one/trees/b"]
    with pytest.raises(Altered, match="altered"):
        await received(ours, "trees/a")
    elsewhere = Parcels(shelf, SEAL, "runs/two")
    shelf.kept["runs/two/trees/b"] = shelf.kept["runs/one/trees/b"]
    with pytest.raises(Altered, match="altered"):
        await received(elsewhere, "trees/b")


async def test_another_key_is_told_from_damage() -> None:
    shelf = Shelf()
    await parcels(shelf).send("trees/a", b"", b"body" * 50)
    with pytest.raises(SettingsError, match="another key") as refused:
        await received(parcels(shelf, OTHER), "trees/a")
    assert "RECOUP_KEY" in refused.value.hint


async def test_nothing_of_what_is_sealed_can_be_read() -> None:
    shelf, secret = Shelf(), b"correct-horse" + b"-battery"
    await parcels(shelf).send("trees/a", secret, secret * 20)
    assert len(shelf.kept) > 3
    assert not [name for name, data in shelf.kept.items() if secret in data]
    again = Shelf()
    await parcels(again).send("trees/a", secret, secret * 20)
    assert not set(shelf.kept.values()) & set(again.kept.values())


async def test_two_senders_of_one_name_do_not_mix_their_pieces() -> None:
    shelf = Shelf()
    bodies = [bytes([number]) * 1_000 for number in (1, 2, 3)]
    await asyncio.gather(*(parcels(shelf).send("trees/a", b"", body) for body in bodies))
    assert (await received(parcels(shelf), "trees/a"))[1] in bodies


async def test_a_parcel_whose_sender_was_stopped_is_not_there() -> None:
    shelf = Shelf()
    shelf.room_for = 3
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(parcels(shelf).send("trees/a", b"", b"x" * 1_000), 0.3)
    shelf.hangs = False
    with pytest.raises(NotFound):
        await received(parcels(shelf), "trees/a")
    assert await parcels(shelf).remove_all() == 3
    assert not shelf.kept


async def test_a_depot_that_fails_now_and_then_is_asked_again() -> None:
    shelf = Shelf()
    shelf.refusals = 2
    await PatientDepot(shelf).put("a", b"1")
    assert shelf.kept == {"a": b"1"}


async def test_a_depot_that_never_answers_is_not_waited_for() -> None:
    shelf = Shelf()
    shelf.hangs = True
    with pytest.raises(DepotError, match=r"did not answer within 0\.05 s") as refused:
        await PatientDepot(shelf, timeout_s=0.05).put("a", b"1")
    assert "resume" in refused.value.hint


async def test_a_depot_that_stays_full_says_so() -> None:
    shelf = Shelf()
    shelf.refusals = 1_000
    with pytest.raises(DepotError, match=r"no space left|did not answer"):
        await PatientDepot(shelf, timeout_s=0.3).put("a", b"1")


async def test_what_has_no_proper_name_is_refused_at_once() -> None:
    with pytest.raises(UsageError):
        await PatientDepot(Shelf()).put("../a", b"1")
