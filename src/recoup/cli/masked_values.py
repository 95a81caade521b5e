"""The values of a plan that records show masked, for `recoup check`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from typing import Any, Final

import msgspec

from recoup.documents.text_file import read_text
from recoup.documents.yaml_tree import parse_tree
from recoup.errors import InvalidPlan
from recoup.fleet.hiding import refused_names, words_redacted
from recoup.model.plan import Plan
from recoup.model.policy import Policy
from recoup.redaction.registration import environment_redactor, register_secret
from recoup.shapes.shape import as_written
from recoup.shapes.tree import Place, Tree, Unreadable, place_text
from recoup.steps.registry import kind_named

_SHOWN_MAX: Final = 100


class MaskedValue(msgspec.Struct, frozen=True):
    """One value of the plan, and what it looks like."""

    where: str
    line: int | None
    what: str

    @property
    def note(self) -> str:
        line = "" if self.line is None else f" (line {self.line})"
        return f"{self.where}{line}: {self.what} will be masked in records; the step still gets the original"


class MaskedValues:
    """The redactor that records of a plan go through, and what it changes in the plan. Raises InvalidPlan for a name
    that a submission would refuse."""

    def __init__(self, plan: Plan, path: Path, policy: Policy) -> None:
        self._redactor = environment_redactor(os.environ)
        for name in plan.secrets:
            if os.environ.get(name):
                register_secret(self._redactor, name, os.environ[name])
        with words_redacted(self._redactor):
            if problems := refused_names(self._redactor, plan):
                raise InvalidPlan(str(path), problems)
        paths = self._redactor.masked_in(plan)
        self.values = self._values(plan, paths[:_SHOWN_MAX], path, policy)
        self._more = len(paths) - len(self.values)

    @property
    def notes(self) -> list[str]:
        more = f"{self._more} more values will be masked in records; their steps still get the originals"
        return [value.note for value in self.values] + ([more] if self._more else [])

    def shown(self, text: str) -> str:
        """The text as records show it."""
        return self._redactor.redact(text).text

    def _values(self, plan: Plan, paths: Sequence[Place], path: Path, policy: Policy) -> list[MaskedValue]:
        """In the order of the plan."""
        written = msgspec.to_builtins(plan, str_keys=True)
        tree = _tree(path, policy) if paths else Tree(None)
        values, named = [], set[Place]()
        for model_path in paths:
            place = _place_in_file(written, model_path, tree, named)
            named.add(place)
            what = self._redactor.looks_like(_text(written, model_path))
            values.append(MaskedValue(self.shown(place_text(place)), tree.line(place), what))
        return values


def _text(written: Any, path: Place) -> str:
    """The value together with its name, which may be what tells that it is a secret."""
    value = _at(written, path)
    name = path[-2] if path[-1:] == ("default",) else path[-1]
    return value if isinstance(name, int) else f"{name}={value}\n{value}"


def _at(data: Any, place: Place) -> Any:
    for part in place:
        data = data[part]
    return data


def _place_in_file(written: Any, path: Place, tree: Tree, named: Set[Place]) -> Place:
    """Where the value stands in the plan file. A model path and the file agree about steps, handlers and checks; inside
    those, the value is looked for by its text."""
    place = _as_written(written, path)
    around: Place = ()
    for part in place:
        if not _has(tree.data, (*around, part)):
            break
        around = (*around, part)
    if around == place or not around:
        return place
    value = _at(written, path)
    found = (one for one in _leaves(_at(tree.data, around), around) if one not in named)
    return next((one for one in found if as_written(_at(tree.data, one)) == value), place)


def _has(data: Any, place: Place) -> bool:
    try:
        _at(data, place)
    except (KeyError, IndexError, TypeError):
        return False
    return True


def _leaves(value: Any, place: Place) -> Iterator[Place]:
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(item, (*place, key))
    else:
        yield place


def _as_written(written: Any, path: Place) -> Place:
    """The path in the plan file: there a step's action stands as its kind writes it."""
    node = written
    for at, part in enumerate(path):
        node = node[part]
        if part == "action":
            kind = kind_named(str(node.get("kind", node["type"])))
            return (*path[:at], *kind.written_at(tuple(path[at + 1 :])))
    return path


def _tree(path: Path, policy: Policy) -> Tree:
    """Without lines where the file cannot be read twice, such as a pipe."""
    try:
        return parse_tree(read_text(path, policy.plan_bytes_max)) if path.is_file() else Tree(None)
    except Unreadable:
        return Tree(None)
