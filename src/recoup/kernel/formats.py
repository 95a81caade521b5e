"""The same value, written as a field wants it: dates, numbers, telephone numbers.

The value never changes. What could mean two things is not read, and a form that the field does not ask for is not
written: then everything stays as it was typed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import ceil

import msgspec

DATE, NUMBER, PHONE = "date", "number", "phone"
VALUE_MAX = 60
"""Longer values are none of these."""
SHAPE_MAX = 40
PHONE_DIGITS = range(5, 16)

_FREE_TEXT = ("", "text", "search")
_DATE_FORMS = ("y-m-d", "d.m.y", "m/d/y", "d/m/y", "d-m-y")
_READ_ONLY_FORMS = ("m-d-y",)
"""Written nowhere by us, but by some: `03-04-2026` may be one of them."""
_DATE_IN_WORDS = re.compile(r"(?<![\w./-])([^\W\d_]{1,4})([./-])([^\W\d_]{1,4})\2([^\W\d_]{1,4})(?![\w/-])")
_DATE_IN_DIGITS = re.compile(r"(?<![\w./-])\d{1,4}[./-]\d{1,2}[./-]\d{1,4}(?![\w/-])")
_DAY_LETTERS = frozenset("dtjg")
_MONTH_LETTER = "m"
_DATES_OF = {
    "en-us": "m/d/y",
    **dict.fromkeys(("en-gb", "en-au", "en-nz", "en-ie", "fr", "es", "it", "pt", "el"), "d/m/y"),
    **dict.fromkeys(("de", "pl", "cs", "sk", "ru", "uk", "fi", "nb", "no", "da", "tr"), "d.m.y"),
    "nl": "d-m-y",
    **dict.fromkeys(("sv", "lt", "fr-ca"), "y-m-d"),
}
"""How dates are written, by language; of plain English nobody knows."""

_NUMBER_FORMS = ("1234.5", "1234,5", "1,234.5", "1.234,5", "1 234,5", "1'234.5")
_DECIMALS_OF = {
    **dict.fromkeys(("en", "de-ch", "es-mx"), "1234.5"),
    **dict.fromkeys(
        (
            "de",
            "fr",
            "es",
            "it",
            "pt",
            "nl",
            "pl",
            "cs",
            "sk",
            "ru",
            "uk",
            "fi",
            "nb",
            "no",
            "da",
            "sv",
            "tr",
        ),
        "1234,5",
    ),
}
_NUMBER_IN_HINT = re.compile(r"(?<![\w.,'-])\d[\d.,' ]*\d(?![\w%])")
_PHONE = re.compile(r"\+?[\d ()./-]+")
_PHONE_FORMS = ("digits", "spaces", "dashes")
_SLOT = re.compile(r"[\dxX#_]")

Date = tuple[int, int, int]
Number = tuple[bool, str, str]
"""Whether it is below zero, its digits before the mark, and those behind it that count."""


class Hints(msgspec.Struct, frozen=True):
    """What a field says about the form of its value."""

    type: str = ""
    placeholder: str = ""
    pattern: str = ""
    lang: str = ""
    mode: str = ""
    """Its `inputmode`."""
    autocomplete: str = ""


class Writing(msgspec.Struct, frozen=True):
    """A value in one form."""

    kind: str
    form: str
    text: str


def writings(value: str, hints: Hints) -> tuple[Writing, ...]:
    """The ways to write the value that the field may mean; none where the value, or the field, could mean several."""
    value = value.strip()
    kind = kind_for(value, hints)
    if len(value) > VALUE_MAX or not kind:
        return ()
    ways: dict[str, Writing] = {}
    for form in _forms(kind, hints):
        text = _WRITERS[kind](value, form)
        if text is not None:
            ways.setdefault(text, Writing(kind, form, text))
    return tuple(ways.values())


def chosen(value: str, ways: Sequence[Writing], hints: Hints, fitting: Sequence[bool]) -> Writing | None:
    """The only one that fits the field; None: the value as it is fits, or several do and nothing tells which."""
    left = [way for way, fits in zip(ways, fitting, strict=True) if fits]
    if hints.pattern and any(way.text == value for way in left):
        return None
    left = [way for way in left if way.text != value]
    if left and left[0].kind != PHONE and len(ways) > 1 and (len(left) > 1 or not hints.pattern):
        told = _in_language(value, left[0].kind, hints.lang)
        left = [way for way in left if way.text == told]
    return left[0] if left else None


def kind_for(value: str, hints: Hints) -> str:
    """What the field holds; "" where it may be anything else."""
    if hints.type in (DATE, NUMBER):
        return hints.type
    if hints.type == "tel" or hints.mode == "tel" or hints.autocomplete.startswith("tel"):
        return PHONE
    if hints.type not in _FREE_TEXT:
        return ""
    if _date_form_in(hints.placeholder):
        return DATE
    if hints.mode in ("decimal", "numeric") or _number_form_in(hints.placeholder):
        return NUMBER
    return _kind_by_value(value)


def same_value(one: str, other: str) -> bool:
    """Both can be read in one way only, and say the same: a page that writes `16.11.2026` for `2026-11-16` took it."""
    if one == other:
        return True
    readers: tuple[Callable[[str], object], ...] = (read_date, read_number, read_phone)
    return any(read(one) is not None and read(one) == read(other) for read in readers)


def is_written(way: Writing, text: str) -> bool:
    """A text, read in the form of the writing, has its value."""
    if way.kind == DATE:
        return _date_in(text, way.form) == _date_in(way.text, way.form)
    if way.kind == NUMBER:
        return _number_in(text, way.form) == _number_in(way.text, way.form)
    return read_phone(text) == read_phone(way.text)


def shape(text: str) -> str:
    """What a value looks like, without what it is: `2026-11-16` is `9999-99-99`."""
    marks = ["9" if one.isdigit() else "a" if one.isalpha() else one for one in text[:SHAPE_MAX]]
    return "".join(marks)


def _kind_by_value(value: str) -> str:
    if read_date(value) is not None:
        return DATE
    has_mark = any(mark in value for mark in ".,")
    return NUMBER if has_mark and read_number(value) is not None else ""


def _forms(kind: str, hints: Hints) -> tuple[str, ...]:
    """The one that its type or its hint asks for; all of them where only its pattern or language can tell."""
    if kind == DATE:
        told = "y-m-d" if hints.type == DATE else _date_form_in(hints.placeholder)
        return (told,) if told else _DATE_FORMS
    if kind == NUMBER:
        told = _NUMBER_FORMS[0] if hints.type == NUMBER else _number_form_in(hints.placeholder)
        return (told,) if told else _NUMBER_FORMS
    slots = hints.placeholder if len(_SLOT.findall(hints.placeholder)) in PHONE_DIGITS else ""
    return (slots, *_PHONE_FORMS) if slots else _PHONE_FORMS


def _in_language(value: str, kind: str, lang: str) -> str | None:
    known = _DATES_OF if kind == DATE else _DECIMALS_OF
    tag = lang.lower().replace("_", "-")
    form = known.get(tag) or known.get(tag.split("-")[0])
    return _WRITERS[kind](value, form) if form else None


# Dates


def read_date(text: str) -> Date | None:
    """None: it is none, or may be two."""
    found = {_date_in(text, form) for form in (*_DATE_FORMS, *_READ_ONLY_FORMS)} - {None}
    return found.pop() if len(found) == 1 else None


def _date_in(text: str, form: str) -> Date | None:
    parts = text.strip().split(form[1])
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() for part in parts):
        return None
    by_name = dict(zip(form[::2], parts, strict=True))
    if len(by_name["y"]) != 4 or len(by_name["m"]) > 2 or len(by_name["d"]) > 2:
        return None
    year, month, day = (int(by_name[name]) for name in "ymd")
    return (year, month, day) if year and 1 <= month <= 12 and 1 <= day <= _days(year, month) else None


def _days(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def _write_date(value: str, form: str) -> str | None:
    date = read_date(value)
    if date is None:
        return None
    parts = {"y": f"{date[0]:04}", "m": f"{date[1]:02}", "d": f"{date[2]:02}"}
    return form[1].join(parts[name] for name in form[::2])


def _date_form_in(hint: str) -> str:
    """Of `TT.MM.JJJJ`, `mm/dd/yyyy` or an example that can be read in one way; "" where there is none, or several."""
    found = {_form_in_words(*match) for match in _DATE_IN_WORDS.findall(hint)}
    found |= {_form_in_digits(example) for example in _DATE_IN_DIGITS.findall(hint)}
    found.discard("")
    return found.pop() if len(found) == 1 else ""


def _form_in_words(first: str, mark: str, second: str, third: str) -> str:
    form = mark.join(_part_named(part.lower()) for part in (first, second, third))
    return form if form in _DATE_FORMS else ""


def _part_named(letters: str) -> str:
    """Four of one letter are the year in every language: in some, `jj` is the day."""
    if len(set(letters)) > 1:
        return "?"
    if len(letters) == 4:
        return "y"
    return "m" if letters[0] == _MONTH_LETTER else "d" if letters[0] in _DAY_LETTERS else "?"


def _form_in_digits(example: str) -> str:
    found = [form for form in (*_DATE_FORMS, *_READ_ONLY_FORMS) if _date_in(example, form) is not None]
    return found[0] if len(found) == 1 and found[0] in _DATE_FORMS else ""


# Numbers


def read_number(text: str) -> Number | None:
    """None: it is none, or may be two: `1,234` is one in London and another in Berlin."""
    found = {_number_in(text, form) for form in _NUMBER_FORMS} - {None}
    return found.pop() if len(found) == 1 else None


def _number_in(text: str, form: str) -> Number | None:
    group, mark = _marks(form)
    plain = text.strip().replace("\u00a0", " ").replace("\u202f", " ")
    below_zero, plain = plain.startswith("-"), plain.removeprefix("-")
    whole, _, fraction = plain.partition(mark)
    if (mark in plain and not fraction) or not _are_digits(whole, group):
        return None
    if fraction and not _is_digits(fraction):
        return None
    return (
        below_zero,
        whole.replace(group, "").lstrip("0") if group else whole.lstrip("0"),
        fraction.rstrip("0"),
    )


def _marks(form: str) -> tuple[str, str]:
    """Between the thousands, if anything, and before the fraction."""
    return form[1] if not form[1].isdigit() else "", form[-2]


def _are_digits(whole: str, group: str) -> bool:
    """In one, or in threes but for the first ones; `0,123` has no thousands."""
    if not group or group not in whole:
        return _is_digits(whole)
    first, *others = whole.split(group)
    threes = all(_is_digits(part) and len(part) == 3 for part in others)
    return threes and _is_digits(first) and len(first) <= 3 and first[0] != "0"


def _is_digits(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _write_number(value: str, form: str) -> str | None:
    """With as many digits behind the mark as were typed: `1,50` is `1.50`."""
    number = read_number(value)
    if number is None:
        return None
    below_zero, whole, _ = number
    read_in = next(one for one in _NUMBER_FORMS if _number_in(value, one) == number)
    fraction = value.strip().partition(_marks(read_in)[1])[2]
    group, mark = _marks(form)
    digits = _grouped(whole or "0", group)
    return ("-" if below_zero else "") + digits + (mark + fraction if fraction else "")


def _grouped(digits: str, group: str) -> str:
    if not group:
        return digits
    count = ceil(len(digits) / 3)
    padded = digits.rjust(3 * count)
    return group.join(padded[3 * at : 3 * at + 3] for at in range(count)).lstrip()


def _number_form_in(hint: str) -> str:
    """Of an example with a mark, such as `0,00` or `1.234,56`, that can be read in one way."""
    examples = _NUMBER_IN_HINT.findall(hint)
    if len(examples) != 1 or examples[0].isdigit() or read_number(examples[0]) is None:
        return ""
    return next(form for form in _NUMBER_FORMS if _number_in(examples[0], form) is not None)


# Telephone numbers


def read_phone(text: str) -> str | None:
    """Its digits, and the + before a country. `+49 (0)30` is none: its 0 is dialled by some and not by others."""
    text = text.strip()
    if not _PHONE.fullmatch(text) or "(0)" in text:
        return None
    digits = "".join(one for one in text if one.isdigit())
    plus = "+" if text.startswith("+") else ""
    return plus + digits if len(digits) in PHONE_DIGITS else None


def _write_phone(value: str, form: str) -> str | None:
    number = read_phone(value)
    if number is None or form == "digits":
        return number
    if form in _PHONE_FORMS:
        mark = " " if form == "spaces" else "-"
        return value[:1].replace("(", "") + mark.join(re.split(r"[ ()./-]+", value[1:].strip("() "))).strip(
            mark
        )
    return _in_slots(number, form)


def _in_slots(number: str, slots: str) -> str | None:
    """The digits in the places of an example; only where it has as many, and a country if the number has one."""
    digits = list(number.removeprefix("+"))
    if len(_SLOT.findall(slots)) != len(digits) or ("+" in slots) != number.startswith("+"):
        return None
    text = _SLOT.sub(lambda _slot: digits.pop(0), slots).strip()
    return text if read_phone(text) == number else None


_WRITERS: dict[str, Callable[[str, str], str | None]] = {
    DATE: _write_date,
    NUMBER: _write_number,
    PHONE: _write_phone,
}
