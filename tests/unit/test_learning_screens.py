"""Known screens: which one this is, when that is not sure, and when the screen itself has moved."""

from __future__ import annotations

import random

import pytest

from recoup.errors import LearningError, VersionDamaged
from recoup.learning import screens as screens_module
from recoup.learning.screens import KnownScreens, screen_of
from recoup.learning.stamped import stamped
from recoup.model.memory import Screen
from recoup.model.target import Box, Element

PAGE = Box(0, 0, 1280, 2_000)
MENU = ("Home", "Invoices", "Customers", "Settings", "Log out")
INVOICES = ("New invoice", "Approve selected", "Export as CSV", "Filter by due date", "Next page", "Archive")
CUSTOMERS = ("Add customer", "Merge duplicates", "Import contacts", "Send newsletter", "Show map", "Segments")


def screen(
    title: str,
    names: tuple[str, ...],
    *,
    viewport: tuple[float, float] = (1280, 720),
    scale: float = 1.0,
    shift: float = 0,
) -> Screen:
    elements = [
        Element(tag="a", role="link", text=name, box=Box((at * 150 + shift) % 1280, 40 * at, 90, 20))
        for at, name in enumerate(MENU + names)
    ]
    return screen_of(title, elements, PAGE, viewport, scale)


@pytest.fixture
def known() -> KnownScreens:
    made = KnownScreens()
    made.learn("invoices", screen("Invoices", INVOICES))
    made.learn("customers", screen("Customers", CUSTOMERS))
    return made


def test_no_screen_is_known_before_one_is_learned() -> None:
    assert KnownScreens().which(screen("Invoices", INVOICES)) is None


def test_a_known_screen_is_known_again(known: KnownScreens) -> None:
    found = known.which(screen("Invoices", INVOICES))
    assert found is not None
    assert found.screen_id == "invoices" and found.confidence == pytest.approx(1, abs=1e-4)
    assert found.margin > 0.3 and not found.low_confidence and not found.runtime_drift


def test_a_small_change_makes_no_other_screen_of_it(known: KnownScreens) -> None:
    changed = (
        "New invoice",
        "Approve all selected",
        "Export as CSV",
        "Filter by due date",
        "Next",
        "Archive",
    )
    found = known.which(screen("Invoices", changed))
    assert found is not None
    assert found.screen_id == "invoices" and 0.72 <= found.confidence < 1 and not found.low_confidence


def test_under_the_floor_it_is_said_that_it_is_not_sure(known: KnownScreens) -> None:
    found = known.which(screen("Payroll", ("Run payroll", "Payslips", "Tax year", "Bank details", "Bonuses")))
    assert found is not None and found.low_confidence and found.confidence < 0.72
    sure = known.which(screen("Invoices", INVOICES[:-1]), floor=0.999)
    assert sure is not None and sure.low_confidence, "a stricter floor is a stricter floor"


def test_a_window_of_another_size_is_drift(known: KnownScreens) -> None:
    found = known.which(screen("Invoices", INVOICES, viewport=(800, 600)))
    assert found is not None and found.runtime_drift
    assert found.drift == ("the window is 800x600 and was 1280x720",)
    barely = known.which(screen("Invoices", INVOICES, viewport=(1265, 720)))
    assert barely is not None and not barely.runtime_drift, "a scroll bar is no drift"


def test_another_scale_is_drift(known: KnownScreens) -> None:
    found = known.which(screen("Invoices", INVOICES, scale=1.25))
    assert found is not None and found.drift == ("the scale is 1.25 and was 1",)


def test_another_layout_is_drift(known: KnownScreens) -> None:
    found = known.which(screen("Invoices", INVOICES, shift=640))
    assert found is not None and found.screen_id == "invoices"
    assert len(found.drift) == 1 and found.drift[0].startswith("the layout is only ")


def test_the_layout_of_an_unknown_screen_is_not_compared(known: KnownScreens) -> None:
    found = known.which(
        screen("Payroll", ("Run payroll", "Payslips", "Tax year"), shift=640, viewport=(800, 600))
    )
    assert found is not None and found.low_confidence
    assert found.drift == ("the window is 800x600 and was 1280x720",)


def test_the_last_look_counts(known: KnownScreens) -> None:
    known.learn("invoices", screen("Invoices", INVOICES, viewport=(800, 600)))
    found = known.which(screen("Invoices", INVOICES, viewport=(800, 600)))
    assert found is not None and not found.runtime_drift and len(known) == 2


def test_the_one_seen_longest_ago_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screens_module, "SCREENS_MAX", 3)
    known = KnownScreens()
    for name in ("a", "b", "c", "a", "d"):
        known.learn(name, screen(name, (name,)))
    assert [name in known for name in "abcd"] == [True, False, True, True] and len(known) == 3


def test_what_is_known_comes_back_as_it_was(known: KnownScreens) -> None:
    back = KnownScreens.from_bytes(known.to_bytes())
    assert back.to_bytes() == known.to_bytes()
    asked = screen("Customers", CUSTOMERS, scale=2)
    assert back.which(asked) == known.which(asked)


def test_nothing_of_a_screen_can_be_read(known: KnownScreens) -> None:
    data = known.to_bytes().lower()
    assert not [
        name for name in (*MENU, *INVOICES, *CUSTOMERS) if name.lower().encode() in data and len(name) > 9
    ]


def test_every_altered_byte_is_found(known: KnownScreens) -> None:
    data, chance = known.to_bytes(), random.Random(2)
    for _ in range(300):
        at = chance.randrange(len(data))
        for bad in (data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :], data[:at]):
            with pytest.raises(VersionDamaged):
                KnownScreens.from_bytes(bad)


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b'{"format":2,"screens":[]}',
        b'{"format":1,"screens":[{"screen_id":"a","screen":{"marks":[1],"layout":[],"viewport":[1,1],"scale":1}}]}',
    ],
)
def test_what_is_no_collection_of_screens_is_refused(body: bytes) -> None:
    with pytest.raises(VersionDamaged):
        KnownScreens.from_bytes(stamped(body))


@pytest.mark.parametrize("name", ["", "x" * 201])
def test_a_name_has_a_limit(name: str) -> None:
    with pytest.raises(LearningError, match="1 to 200"):
        KnownScreens().learn(name, screen("a", ()))
