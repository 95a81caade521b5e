"""openchrome's success criteria become checks of steps, or are named."""

from __future__ import annotations

from typing import Any

from recoup.documents.openchrome_names import Names, NotTurned
from recoup.documents.openchrome_remarks import Remarks
from recoup.documents.openchrome_shape import Compiled
from recoup.shapes.tree import clipped

ITEMS_MAX = 1_000_000
_PLACE = "successCriteria"


class Kept:
    """A list that a step gives, and how to look into it."""

    def __init__(self, data: dict[str, Any], file: str, inside: str) -> None:
        self.data = data
        self._file = file
        self._inside = inside

    def check(self, least: int) -> dict[str, Any]:
        """There is a last one of so many."""
        return {"json": self._file, "path": f"{self._inside}[{least - 1}]"}


def counted_name(compiled: Compiled) -> str | None:
    """The one name that `minDataItems` is about; None: it is about none, or that cannot be told."""
    if compiled.criteria.min_items is None or _collections(compiled):
        return None
    names = {step.parsing.name for step in compiled.all_steps() if step.parsing.stores_json}
    return next(iter(names)) if len(names) == 1 else None


def say_criteria(
    compiled: Compiled, names: Names, steps: list[dict[str, Any]], kept: Kept | None, remarks: Remarks
) -> None:
    """`kept`: what the last step that stores the counted name gives."""
    criteria = compiled.criteria
    if criteria.min_items is not None:
        try:
            words = _count(compiled, criteria.min_items, steps, kept)
        except NotTurned as reason:
            remarks.refuse(f"{_PLACE}.minDataItems", str(reason))
        else:
            remarks.note(f"{_PLACE}.minDataItems", words)
    for n, field in enumerate(criteria.fields):
        _require(f"{_PLACE}.requiredFields[{n}]", field, names, remarks)
    if criteria.custom:
        words = "is JavaScript, which nothing here runs: say under `expect` what must hold"
        remarks.refuse(f"{_PLACE}.customCheck", words)


def _count(compiled: Compiled, least: float, steps: list[dict[str, Any]], kept: Kept | None) -> str:
    """Puts the check where it belongs, and says where."""
    if least <= 0:
        return "always holds: nothing to check"
    if given := _collections(compiled):
        if len(given[0]) >= least:
            return "always holds: openchrome counts the default of a parameter"
        raise NotTurned("never holds: openchrome counts the default of a parameter, which is too short")
    if kept is None:
        raise NotTurned("it cannot be told what it counts: no step, or more than one, gives JSON here")
    if not float(least).is_integer() or least > ITEMS_MAX:
        raise NotTurned(f"{least:g} is no number of items up to {ITEMS_MAX:,}")
    step = _where_to_check(steps, kept)
    step["expect"].append(kept.check(int(least)))
    return f"stands under `expect` of `{step['id']}`, for a list: keys of an object are not counted"


def _collections(compiled: Compiled) -> list[Any]:
    """openchrome counts the first of these, as parameters come before results."""
    return [default for default in compiled.defaults.values() if isinstance(default, dict | list)]


def _where_to_check(steps: list[dict[str, Any]], kept: Kept) -> dict[str, Any]:
    """In the end; a gate cannot."""
    if "approve" not in steps[-1]:
        return steps[-1]
    if kept.data["on_empty"]:
        raise NotTurned("the last step is a gate, and the one that gives the items may find none at first")
    return kept.data


def _require(where: str, field: str, names: Names, remarks: Remarks) -> None:
    try:
        if field not in names:
            raise NotTurned(f"no parameter and no step gives `{clipped(field)}`")
        names.reference(field)
    except NotTurned as reason:
        remarks.refuse(where, str(reason))
    else:
        remarks.note(where, f"`{clipped(field)}` is there in any case: a step without its outputs fails")
