"""The values of a plan that records show masked, for `recoup check`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import msgspec

from recoup.app import environment_redactor
from recoup.documents.text_file import read_text
from recoup.documents.tree import Place, Tree, Unreadable, place_text
from recoup.documents.yaml_tree import parse_tree
from recoup.model.plan import Plan
from recoup.model.policy import Policy
from recoup.redaction.redactor import SecretRedactor
from recoup.runs.hiding import register_secret

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


def masked_values(plan: Plan, path: Path, policy: Policy) -> list[MaskedValue]:
    """In the order of the plan, the first hundred."""
    redactor = environment_redactor(os.environ)
    for name in plan.secrets:
        if os.environ.get(name):
            register_secret(redactor, name, os.environ[name])
    written = msgspec.to_builtins(plan, str_keys=True)
    paths = redactor.masked_in(plan)[:_SHOWN_MAX]
    tree = _tree(path, policy) if paths else Tree(None)
    return [_masked(redactor, written, place, tree) for place in paths]


def _masked(redactor: SecretRedactor, written: Any, path: Place, tree: Tree) -> MaskedValue:
    place = _as_written(written, path)
    return MaskedValue(place_text(place), tree.line(place), redactor.looks_like(_text(written, path)))


def _text(written: Any, path: Place) -> str:
    """The value together with its name, which may be what tells that it is a secret."""
    value = written
    for part in path:
        value = value[part]
    name = path[-2] if path[-1:] == ("default",) else path[-1]
    return value if isinstance(name, int) else f"{name}={value}\n{value}"


def _as_written(written: Any, path: Place) -> Place:
    """The path in the plan file: there a step's action stands under the name of its kind."""
    place: list[str | int] = []
    node = written
    for part in path:
        place.append(part)
        node = node[part]
        if part == "action":
            place[-1] = str(node["type"])
    return tuple(_written_name(place))


def _written_name(place: list[str | int]) -> list[str | int]:
    for at, part in enumerate(place):
        if part == "python" and place[at + 1 : at + 2] == ["arguments"]:
            return [*place[:at], "with", *place[at + 2 :]]
        if part in ("run", "approve") and place[at + 1 : at + 2] in (["command"], ["message"]):
            return [*place[: at + 1], *place[at + 2 :]]
    return place


def _tree(path: Path, policy: Policy) -> Tree:
    """Without lines where the file cannot be read twice, such as a pipe."""
    try:
        return parse_tree(read_text(path, policy.plan_bytes_max)) if path.is_file() else Tree(None)
    except Unreadable:
        return Tree(None)
