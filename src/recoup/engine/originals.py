"""Originals of inputs and outputs that redaction changes: records hold the redacted text, steps get these.

One entry of the private store holds the originals of all inputs, and one those of each step's outputs: the size of an
entry is bounded by the limit for inputs or outputs, the number of entries by the number of steps.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from recoup.errors import NotFound
from recoup.model.run import RunState
from recoup.ports import Redactor, Secrets

INPUTS = "inputs"


def outputs_of(step_id: str) -> str:
    """The entry for the outputs of a step."""
    return f"steps.{step_id}.outputs"


class Originals(msgspec.Struct, frozen=True):
    """The originals of one run, by entry and name."""

    secrets: Secrets

    def keep(self, entry: str, values: Mapping[str, Any]) -> None:
        """Must be durable (`Secrets.settle`) before an event names the values as private."""
        self.secrets.put(key_of(entry), encoded(values))

    def get(self, entry: str, name: str) -> Any:
        """Raises NotFound when the entry is not on this machine."""
        return self.all(entry)[name]

    def all(self, entry: str) -> dict[str, Any]:
        """Raises NotFound when the entry is not on this machine."""
        try:
            values: dict[str, Any] = json.loads(self.secrets.get(key_of(entry)))
        except NotFound:
            raise NotFound(
                f"the original values of {entry} are not in the private store of the run; its records only show "
                "them masked",
                hint="Restore the folder `private` of the run from a backup. Otherwise cancel the run and start a "
                "new one.",
            ) from None
        return values


def private_names(redactor: Redactor, values: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the values that a record may show differently."""
    paths = redactor.masked_in(values)
    return tuple(values) if () in paths else tuple(dict.fromkeys(str(path[0]) for path in paths))


def private_references(state: RunState) -> frozenset[str]:
    """The references of a run whose values are private, as templates name them."""
    outputs = {
        f"{outputs_of(record.step_id)}.{name}"
        for record in state.steps
        for name in record.results.private_outputs or ()
    }
    return frozenset({f"{INPUTS}.{name}" for name in state.submission.private_inputs} | outputs)


def must_be_here(secrets: Secrets, state: RunState) -> None:
    """Raises NotFound unless every original that a record names can be read on this machine."""
    originals = Originals(secrets)
    if state.submission.private_inputs:
        originals.all(INPUTS)
    for record in state.steps:
        if record.results.private_outputs:
            originals.all(outputs_of(record.step_id))


def encoded(values: Mapping[str, Any]) -> str:
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))


def key_of(entry: str) -> str:
    return f"originals.{entry}"
