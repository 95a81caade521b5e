"""The filter of the runs page: read from an address, rendered as an address, as a form and as a command."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from recoup.gateway.problems import Refused
from recoup.kernel.listing import FILTERS
from recoup.model.run_filter import NAME_CHARS_MAX, FilterKind, RunFilterField
from recoup.model.storage import RunFilter

AGES: Final = {"1h": "last hour", "24h": "last 24 hours", "7d": "last 7 days", "30d": "last 30 days"}
_AGE: Final = re.compile(r"([0-9]{1,4})([smhd])")
_UNIT_S: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_MOMENT_CHARS_MAX: Final = 40
_FIELDS: Final = {field.name: field for field in FILTERS.values()}
_MANY: Final = tuple(field.name for name, field in FILTERS.items() if getattr(RunFilter(), name) == ())
"""The names that may be said more than once."""
_ORDER: Final = sorted(_FIELDS, key=lambda name: name not in _MANY)


class RunsQuery(msgspec.Struct, frozen=True):
    """All that is said holds; nothing said: every run. Times as they were written: `24h`, or `2026-11-16T08:00`."""

    values: dict[str, tuple[str, ...]] = {}
    """By the name in the address; what is not said is not there."""

    @property
    def is_all(self) -> bool:
        return not self.values

    def many(self, name: str) -> tuple[str, ...]:
        return self.values.get(name, ())

    def one(self, name: str) -> str:
        return next(iter(self.many(name)), "")

    def with_(self, name: str, *said: str) -> RunsQuery:
        """The same with these values under the name; with none of them, without it."""
        values = {**self.values, name: said}
        return RunsQuery({name: values[name] for name in _ORDER if values.get(name)})

    def query(self) -> str:
        """The part of an address behind `?`."""
        return urlencode([(name, one) for name in _ORDER for one in self.many(name)])

    def address(self) -> str:
        query = self.query()
        return f"/runs?{query}" if query else "/runs"

    def without(self, name: str) -> str:
        """The address."""
        return self.with_(name).address()

    def toggled(self, name: str, value: str) -> str:
        """The address with this value, or without it."""
        said = self.many(name)
        rest = tuple(one for one in said if one != value)
        return self.with_(name, *(rest if value in said else (*rest, value))).address()

    def command(self) -> list[str]:
        """As far as the command knows these filters: of times it takes an age alone."""
        words = ["recoup", "runs"]
        for name in _ORDER:
            for one in self.many(name) if _FIELDS[name].help else ():
                if _FIELDS[name].kind is not FilterKind.MOMENT or _AGE.fullmatch(one):
                    words += [f"--{name}", one]
        return words


def runs_query(pairs: Iterable[tuple[str, str]]) -> RunsQuery:
    """From the pairs of an address. Raises Refused for a value of a list of choices that is none of them."""
    said: dict[str, list[str]] = {}
    for name, value in pairs:
        said.setdefault(name, []).append(value)
    query = RunsQuery()
    for name in _ORDER:
        given = said.get(name, [])
        values = _choices(name, given) if name in _MANY else _last(given)
        query = query.with_(name, *values)
    return query


def _choices(name: str, given: Sequence[str]) -> tuple[str, ...]:
    there_are = [choice.value for choice in _FIELDS[name].choices or ()]
    unknown = [one for one in given if one not in there_are]
    if unknown:
        raise Refused(422, f"{unknown[0][:40]!r} is no {name}", f"There are: {', '.join(there_are)}.")
    return tuple(dict.fromkeys(given))


def _last(given: Sequence[str]) -> tuple[str, ...]:
    text = given[-1].strip()[:NAME_CHARS_MAX] if given else ""
    return (text,) if text else ()


def filter_of(query: RunsQuery, now_us: int) -> RunFilter:
    """As the ledger is asked. Raises Refused for a time that is none."""
    values: dict[str, Any] = {}
    for name, field in FILTERS.items():
        if field.name not in query.values:
            continue
        one = query.one(field.name)
        if field.name in _MANY:
            values[name] = query.many(field.name)
        else:
            values[name] = moment_us(one, now_us) if field.kind is FilterKind.MOMENT else one
    return RunFilter(**values)


class FormField(msgspec.Struct, frozen=True, kw_only=True):
    """One field of the form, as the page shows it."""

    name: str
    label: str
    value: str
    placeholder: str
    chars_max: int
    choices: tuple[str, ...]
    """Empty: any text."""
    is_name: bool
    """A name that the browser should not complete from other pages."""
    suggestions: Mapping[str, str]
    """Values, and the words for each."""


def form(query: RunsQuery, suggestions: Mapping[str, Mapping[str, str]]) -> list[FormField]:
    """The text first, then the others in the order of `RunFilter`."""
    fields = sorted(_FIELDS.values(), key=lambda field: field.kind is not FilterKind.WORDS)
    return [_form_field(field, query, suggestions) for field in fields if field.label]


def _form_field(
    field: RunFilterField, query: RunsQuery, suggestions: Mapping[str, Mapping[str, str]]
) -> FormField:
    return FormField(
        name=field.name,
        label=field.label,
        value=query.one(field.name),
        placeholder=field.placeholder,
        chars_max=_MOMENT_CHARS_MAX if field.kind is FilterKind.MOMENT else NAME_CHARS_MAX,
        choices=tuple(choice.value for choice in field.choices or ()),
        is_name=field.kind is FilterKind.EXACT,
        suggestions=suggestions.get(field.name, {}),
    )


def moment_us(said: str, now_us: int) -> int | None:
    """On the wall clock; None: nothing was said. Without a zone it is UTC."""
    if not said:
        return None
    age = _AGE.fullmatch(said)
    if age:
        return now_us - int(age[1]) * _UNIT_S[age[2]] * 1_000_000
    try:
        at = datetime.fromisoformat(said)
    except ValueError:
        raise Refused(
            422, f"{said[:40]!r} is no time", "Write 24h for a day ago, or 2026-11-16T08:00."
        ) from None
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1_000_000)
