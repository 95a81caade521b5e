"""The same value in another form: never another value, never a guess. Of `recoup.kernel.formats`."""

from __future__ import annotations

import calendar
from decimal import Decimal
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recoup.kernel.formats import (
    DATE,
    NUMBER,
    PHONE,
    SHAPE_MAX,
    Hints,
    Writing,
    chosen,
    is_written,
    kind_for,
    read_date,
    read_number,
    read_phone,
    same_value,
    shape,
    writings,
)

DATE_FIELDS = [
    Hints(type="date"),
    Hints(placeholder="TT.MM.JJJJ"),
    Hints(placeholder="mm/dd/yyyy"),
    Hints(placeholder="jj/mm/aaaa"),
    Hints(placeholder="dd-mm-jjjj"),
    Hints(placeholder="e.g. 31.12.2026"),
    Hints(placeholder="YYYY-MM-DD"),
]
NUMBER_FIELDS = [
    Hints(type="number"),
    Hints(placeholder="0,00"),
    Hints(placeholder="1.234,56"),
    Hints(placeholder="1,234.56"),
    Hints(placeholder="1 234,56"),
    Hints(placeholder="9'999.00"),
]
ALIVE = st.dates().map(lambda day: (day.year, day.month, day.day))


def rewritten(value: str, hints: Hints, *, fits: bool = True) -> str | None:
    ways = writings(value, hints)
    found = chosen(value, ways, hints, [fits] * len(ways))
    return found.text if found else None


def as_written(date: tuple[int, int, int], form: str) -> str:
    year, month, day = date
    return form.format(y=f"{year:04}", m=f"{month:02}", d=f"{day:02}")


# Dates


@pytest.mark.parametrize(
    ("value", "hints", "wanted"),
    [
        ("2026-11-16", Hints(placeholder="TT.MM.JJJJ"), "16.11.2026"),
        ("2026-11-16", Hints(placeholder="mm/dd/yyyy"), "11/16/2026"),
        ("2026-11-16", Hints(placeholder="jj/mm/aaaa"), "16/11/2026"),
        ("16.11.2026", Hints(type="date"), "2026-11-16"),
        ("3.4.2026", Hints(type="date"), "2026-04-03"),
        ("11/16/2026", Hints(placeholder="dd.mm.yyyy"), "16.11.2026"),
        ("03/03/2026", Hints(type="date"), "2026-03-03"),
        ("2026-11-16", Hints(lang="de"), "16.11.2026"),
        ("2026-11-16", Hints(lang="en-US"), "11/16/2026"),
        ("2026-11-16", Hints(lang="en_GB"), "16/11/2026"),
        ("2026-11-16", Hints(placeholder="z. B. 31.12.2025"), "16.11.2026"),
    ],
)
def test_a_date_is_written_as_the_field_wants_it(value: str, hints: Hints, wanted: str) -> None:
    assert rewritten(value, hints) == wanted


@pytest.mark.parametrize(
    ("value", "hints"),
    [
        ("03/04/2026", Hints(type="date")),
        ("03-04-2026", Hints(placeholder="dd.mm.yyyy")),
        ("2026-02-30", Hints(placeholder="dd.mm.yyyy")),
        ("29.02.2100", Hints(type="date")),
        ("0000-01-01", Hints(placeholder="dd.mm.yyyy")),
        ("16.11.26", Hints(type="date")),
        ("2026-11-16", Hints(lang="en")),
        ("2026-11-16", Hints()),
        ("2026-11-16", Hints(placeholder="03/04/2026")),
        ("2026-11-16", Hints(placeholder="mm/dd/yyyy or dd.mm.yyyy")),
        ("2026-11-16", Hints(placeholder="xx/yy/zzzz")),
        ("2026-11-16", Hints(placeholder="da/mo/year")),
        ("2026-11-16", Hints(type="date")),
        ("soon", Hints(type="date")),
        ("1" * 80, Hints(type="date")),
        ("2026-11-16", Hints(type="email", lang="de")),
    ],
)
def test_what_may_be_two_dates_or_none_is_left_alone(value: str, hints: Hints) -> None:
    assert rewritten(value, hints) is None


@given(
    ALIVE,
    st.sampled_from(["{y}-{m}-{d}", "{d}.{m}.{y}", "{m}/{d}/{y}", "{d}/{m}/{y}"]),
    st.sampled_from(DATE_FIELDS),
)
def test_a_rewritten_date_is_the_same_day(date: tuple[int, int, int], form: str, hints: Hints) -> None:
    value = as_written(date, form)
    for way in writings(value, hints):
        assert read_date(value) == date, "only what can be read in one way is written"
        assert is_written(way, way.text)
        # Where the text alone may be two days, the form that the field asks for tells which.
        assert read_date(way.text) in (date, None)
        order = {"/": "mdy" if "mm/dd" in hints.placeholder else "dmy", "-": "ymd", ".": "dmy"}
        mark = next(mark for mark in "/-." if mark in way.text)
        names = "dmy" if "dd-mm" in hints.placeholder else order[mark]
        parts = dict(zip(names, map(int, way.text.split(mark)), strict=True))
        assert (parts["y"], parts["m"], parts["d"]) == date


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1900, 2100), st.sampled_from("/-"))
def test_a_date_that_may_be_two_is_read_as_none(one: int, other: int, year: int, mark: str) -> None:
    text = f"{one:02}{mark}{other:02}{mark}{year}"
    assert read_date(text) == ((year, one, one) if one == other else None)


def test_every_day_there_is_can_be_read_and_no_other() -> None:
    for year, month, day in product((1900, 2000, 2023, 2024), range(14), range(33)):
        there = 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year, month)[1]
        assert (read_date(f"{year}-{month:02}-{day:02}") == (year, month, day)) is there


# Numbers


@pytest.mark.parametrize(
    ("value", "hints", "wanted"),
    [
        ("1234,50", Hints(type="number"), "1234.50"),
        ("1.234,5", Hints(type="number"), "1234.5"),
        ("1 234,5", Hints(type="number"), "1234.5"),
        ("1\u202f234,5", Hints(type="number"), "1234.5"),
        ("1,234,567", Hints(type="number"), "1234567"),
        ("-1'234.5", Hints(type="number"), "-1234.5"),
        ("12.50", Hints(placeholder="0,00"), "12,50"),
        ("1234567.5", Hints(placeholder="1.234,56"), "1.234.567,5"),
        ("1234.5", Hints(placeholder="1,234.56"), "1,234.5"),
        ("12.5", Hints(mode="decimal", lang="de-AT"), "12,5"),
        ("12,5", Hints(mode="decimal", lang="en"), "12.5"),
        ("0,5", Hints(type="number"), "0.5"),
        ("12.5", Hints(lang="fr"), "12,5"),
    ],
)
def test_a_number_is_written_as_the_field_wants_it(value: str, hints: Hints, wanted: str) -> None:
    assert rewritten(value, hints) == wanted


@pytest.mark.parametrize(
    ("value", "hints"),
    [
        ("1,234", Hints(type="number")),
        ("1.234", Hints(placeholder="0,00")),
        ("1,2,3", Hints(type="number")),
        ("12,", Hints(type="number")),
        ("1.5e3", Hints(type="number")),
        ("1.2.3.4", Hints(lang="de")),
        ("12.5", Hints(mode="decimal")),
        ("12.5", Hints(placeholder="1,234", mode="decimal")),
        ("12.5", Hints(placeholder="0.00")),
        ("many", Hints(mode="decimal", lang="de")),
        ("12", Hints(lang="de")),
    ],
)
def test_what_may_be_two_numbers_or_none_is_left_alone(value: str, hints: Hints) -> None:
    assert rewritten(value, hints) is None


@given(
    st.decimals(-(10**9), 10**9, places=2),
    st.sampled_from([("", "."), ("", ","), (",", "."), (".", ","), (" ", ","), ("'", ".")]),
    st.sampled_from(NUMBER_FIELDS),
)
def test_a_rewritten_number_has_the_same_value(number: Decimal, marks: tuple[str, str], hints: Hints) -> None:
    group, mark = marks
    value = f"{number:,.2f}".replace(",", "G").replace(".", mark).replace("G", group)
    ways = writings(value, hints)
    assert len(ways) == 1, "two digits behind the mark can be read in one way"
    digits = ways[0].text.replace("'", "").replace(" ", "")
    decimal = max(digits.rfind("."), digits.rfind(","))
    plain = "".join(one for one in digits[:decimal] if one.isdigit()) + "." + digits[decimal + 1 :]
    assert Decimal(plain) == abs(number)
    assert digits.startswith("-") == value.startswith("-")
    assert is_written(ways[0], ways[0].text) and same_value(value, ways[0].text)


# Telephone numbers


@pytest.mark.parametrize(
    ("value", "hints", "wanted"),
    [
        ("+49 30 1234-567", Hints(type="tel"), "+49301234567"),
        ("(030) 1234567", Hints(autocomplete="tel-national"), "0301234567"),
        ("5551234567", Hints(type="tel", placeholder="555-123-4567"), "555-123-4567"),
        ("555.123.4567", Hints(mode="tel", placeholder="(xxx) xxx-xxxx"), "(555) 123-4567"),
        ("+15551234567", Hints(type="tel", placeholder="+1 555 000 0000"), "+1 555 123 4567"),
    ],
)
def test_a_telephone_number_is_written_as_the_field_wants_it(value: str, hints: Hints, wanted: str) -> None:
    assert rewritten(value, hints) == wanted


@pytest.mark.parametrize("value", ["+49 (0)30 1234567", "1234", "1" * 16, "call me", "+49 30 +1 234"])
def test_what_is_no_sure_telephone_number_is_left_alone(value: str) -> None:
    assert rewritten(value, Hints(type="tel", placeholder="555-123-4567")) is None


@given(
    st.booleans(),
    st.lists(st.text("0123456789", min_size=2, max_size=4), min_size=3, max_size=3),
    st.sampled_from([" ", "-", ".", "/", " - "]),
    st.sampled_from(["", "555-123-4567", "+99 999 9999 99", "(99) 99-99-99"]),
)
def test_a_rewritten_telephone_number_keeps_its_digits_and_its_country(
    plus: bool, parts: list[str], mark: str, placeholder: str
) -> None:
    value = ("+" if plus else "") + mark.join(parts)
    ways = writings(value, Hints(type="tel", placeholder=placeholder))
    assert ways
    for way in ways:
        assert read_phone(way.text) == read_phone(value) == ("+" if plus else "") + "".join(parts)
        assert is_written(way, value)


# Which one


def test_the_pattern_tells_which_form_it_is_and_the_language_where_it_does_not() -> None:
    hints = Hints(pattern="..", lang="en-GB")
    ways = writings("2026-11-16", hints)
    dotted = [way.form == "d.m.y" for way in ways]
    slashed = [way.form in ("d/m/y", "m/d/y") for way in ways]
    assert (chosen("2026-11-16", ways, hints, dotted) or ways[0]).text == "16.11.2026"
    assert (chosen("2026-11-16", ways, hints, slashed) or ways[0]).text == "16/11/2026"
    assert chosen("2026-11-16", ways, Hints(pattern=".."), slashed) is None
    assert chosen("2026-11-16", ways, hints, [False] * len(ways)) is None
    assert chosen("2026-11-16", ways, hints, [True] * len(ways)) is None, "it is refused for something else"


def test_of_telephone_numbers_the_first_that_fits_will_do() -> None:
    hints = Hints(type="tel")
    ways = writings("030 12-34", hints)
    assert [way.text for way in ways] == ["0301234", "030 12 34", "030-12-34"]
    assert chosen("030 12-34", ways, hints, [False, True, True]) == Writing(PHONE, "spaces", "030 12 34")


@pytest.mark.parametrize(
    ("value", "hints", "kind"),
    [
        ("x", Hints(type="date"), DATE),
        ("x", Hints(type="number"), NUMBER),
        ("x", Hints(type="tel"), PHONE),
        ("x", Hints(type="password"), ""),
        ("2026-11-16", Hints(type="password"), ""),
        ("2026-11-16", Hints(type="url"), ""),
        ("2026-11-16", Hints(mode="numeric", placeholder="dd.mm.yyyy"), DATE),
        ("2026-11-16", Hints(type="search"), DATE),
        ("words", Hints(), ""),
        ("100", Hints(placeholder="100"), ""),
    ],
)
def test_what_a_field_holds_is_told_by_itself_then_by_the_value(value: str, hints: Hints, kind: str) -> None:
    assert kind_for(value, hints) == kind


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2026-11-16", "16.11.2026", True),
        ("1234.5", "1.234,50", True),
        ("+49 30 12345", "+49-30-12345", True),
        ("as it is", "as it is", True),
        ("1,234", "1234", False),
        ("2026-11-16", "17.11.2026", False),
        ("+4930 12345", "030 12345", False),
        ("ADA", "ada", False),
        ("2026-11-16", "", False),
    ],
)
def test_a_page_that_writes_it_otherwise_by_itself_took_it(one: str, other: str, same: bool) -> None:
    assert same_value(one, other) is same


def test_what_stands_there_must_be_what_was_typed() -> None:
    assert not is_written(Writing(DATE, "d.m.y", "16.11.2026"), "17.11.2026")
    assert not is_written(Writing(NUMBER, "1234,5", "12,5"), "12.5")
    assert is_written(Writing(NUMBER, "1234,5", "12,5"), "12,50")
    assert not is_written(Writing(PHONE, "digits", "0301234"), "030123")
    assert read_number("") is None


@given(st.text())
def test_a_shape_tells_nothing_of_the_value(text: str) -> None:
    told = shape(text)
    assert len(told) == min(len(text), SHAPE_MAX)
    assert not any((one.isdigit() and one != "9") or (one.isalpha() and one != "a") for one in told)


def test_a_shape_tells_the_form() -> None:
    assert (shape("2026-11-16"), shape("+49 30 x")) == ("9999-99-99", "+99 99 a")


@given(
    st.text(max_size=70), st.sampled_from([*DATE_FIELDS, *NUMBER_FIELDS, Hints(type="tel"), Hints(lang="de")])
)
def test_whatever_is_typed_is_read_or_left_alone(text: str, hints: Hints) -> None:
    for way in writings(text, hints):
        assert is_written(way, way.text)
