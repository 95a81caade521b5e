"""Cost of the target memory: a hit, storing and loading a version, the nearest vectors, known screens."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Final, TypeVar

from tools.resolver_training.generated import two_versions

from benchmarks.report import Figure, median, scaled
from recoup.kernel.canonical import digest
from recoup.kernel.memory import TargetMemory
from recoup.learning.codec import decode_memory, encode_memory
from recoup.learning.index import ExactIndex, FaissIndex, index_from
from recoup.learning.proposals import index_of, proposed
from recoup.learning.screens import KnownScreens, screen_of
from recoup.learning.store import VersionedStore
from recoup.learning.vectors import of_element
from recoup.model.instant import Instant
from recoup.model.memory import Entry, Screen, State
from recoup.model.target import Box, Element

ENTRIES: Final = 10_000
SCREENS: Final = 200
ROUNDS: Final = 5
CALLS: Final = scaled(500, 20)
FLOORS: Final = (0.72, 0.82)
NOW: Final = Instant(1_800_000_000_000_000, 1, "boot")
WORKFLOW: Final = "approve invoices"

T = TypeVar("T")


def run() -> Iterator[Figure]:
    chance = random.Random(11)
    for entries, bar in ((1_000, 0.3), (100_000, 2.0)):
        memory = TargetMemory(made_up(entries, chance))
        yield Figure(f"a hit among {entries:,} entries", hit_ms(memory, chance), "ms", bar=bar, at_most=True)
    state = made_up(ENTRIES, chance)
    yield Figure("the vectors of 10,000 elements", seconds(lambda: index_of(state), 1), "s")
    yield from versions(state, chance)
    yield from nearest(state)
    yield from known_screens(chance)


def hit_ms(memory: TargetMemory, chance: random.Random) -> float:
    keys = [chance.choice(list(memory.state.entries))[0] for _ in range(20)]
    times = []
    for number in range(CALLS):
        began = perf_counter()
        found = memory.usable(keys[number % len(keys)])
        times.append(1e3 * (perf_counter() - began))
        assert found, "every entry may be used"
    return median(times)


def versions(state: State, chance: random.Random) -> Iterator[Figure]:
    index, screens = index_of(state), KnownScreens()
    for number in range(SCREENS):
        screens.learn(str(number), looked_at(page(chance)))
    with tempfile.TemporaryDirectory() as folder:
        store = VersionedStore(Path(folder))

        def snapshot() -> None:
            parts = {
                "memory": encode_memory(state),
                "index": index.to_bytes(),
                "prototypes": screens.to_bytes(),
            }
            store.snapshot_version(WORKFLOW, parts, up_to=1, now=NOW)

        def load() -> None:
            loaded = store.current(WORKFLOW)
            assert loaded is not None
            assert len(decode_memory(loaded.components["memory"]).entries) == ENTRIES
            assert len(index_from(loaded.components["index"])) == ENTRIES
            assert len(KnownScreens.from_bytes(loaded.components["prototypes"])) == SCREENS

        yield Figure("a snapshot of 10,000 entries", seconds(snapshot), "s", bar=0.5, at_most=True)
        yield Figure("loading it, every byte checked", seconds(load), "s")
        yield Figure("rollback", seconds(lambda: store.rollback_to_previous(WORKFLOW), 3), "s")


def nearest(state: State) -> Iterator[Figure]:
    data = index_of(state).to_bytes()
    elements = [entry.element for entry in state.entries.values()][:CALLS]
    yield Figure("the vector of an element", 1e3 * each_ms(of_element, elements), "µs")
    for index in (ExactIndex.from_bytes(data), FaissIndex.from_bytes(data)):
        took = each_ms(partial(proposed, index), elements)
        yield Figure(f"nearest 5 of 10,000, {type(index).__name__}", took, "ms")


def known_screens(chance: random.Random) -> Iterator[Figure]:
    """Generated pages that share half of their words; the later version of each is looked at."""
    known, pairs = KnownScreens(), [two_versions(chance) for _ in range(SCREENS)]
    for number, (before, _) in enumerate(pairs):
        known.learn(str(number), looked_at([element for _, element in before]))
    again = [looked_at([element for _, element in after]) for _, after in pairs]
    unknown = [looked_at(page(chance)) for _ in range(SCREENS)]
    yield Figure("identifying a screen among 200", each_ms(known.which, again), "ms")
    for floor in FLOORS:
        yield Figure(
            f"screens recognised after a change, at {floor}", share(known, again, floor, right=True), ""
        )
        yield Figure(
            f"unknown ones mistaken for known, at {floor}", share(known, unknown, floor, right=False), ""
        )


def share(known: KnownScreens, screens: Sequence[Screen], floor: float, *, right: bool) -> float:
    count = 0
    for number, screen in enumerate(screens):
        found = known.which(screen, floor)
        count += (
            found is not None and not found.low_confidence and (not right or found.screen_id == str(number))
        )
    return count / len(screens)


def looked_at(elements: Sequence[Element]) -> Screen:
    width = max(element.box.x + element.box.width for element in elements)
    height = max(element.box.y + element.box.height for element in elements)
    return screen_of("", elements, Box(0, 0, width, height), (1280, 720))


def page(chance: random.Random) -> list[Element]:
    return [element for _, element in two_versions(chance)[0]]


def made_up(number: int, chance: random.Random) -> State:
    """Elements of generated pages, each learned for a target of its own, used often enough."""
    elements: list[Element] = []
    while len(elements) < min(number, ENTRIES):
        elements += page(chance)
    entries = {}
    for at in range(number):
        key, name = (f"step-{at % 500}", digest(at)), digest(["identity", at])
        entries[key, name] = Entry(*key, name, elements[at % len(elements)], "model", 0.9, successes=3)
    return State(entries)


def seconds(deed: Callable[[], object], rounds: int = ROUNDS) -> float:
    times = []
    for _ in range(rounds):
        began = perf_counter()
        deed()
        times.append(perf_counter() - began)
    return median(times)


def each_ms(deed: Callable[[T], object], asked: Sequence[T]) -> float:
    return 1e3 * median([seconds(partial(deed, one), 1) for one in asked])
