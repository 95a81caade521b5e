"""Compiled plans of openchrome become plans of Recoup; what cannot be turned is named, nothing is dropped in silence.

Every step becomes exactly one step. One that cannot be turned becomes a gate that asks a person to do it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from recoup.documents.openchrome_names import plain
from recoup.documents.openchrome_remarks import Remark, Remarks, remark_lines
from recoup.documents.openchrome_shape import Compiled, parse_compiled
from recoup.documents.openchrome_steps import plan_data
from recoup.documents.openchrome_work import ScriptProblem
from recoup.documents.plan_file import parse_plan
from recoup.documents.plan_yaml import plan_text
from recoup.documents.text_file import read_text
from recoup.errors import InvalidPlan
from recoup.model.plan import Plan
from recoup.model.policy import Policy
from recoup.shapes.tree import Unreadable, clipped

SOURCE_CHARS_MAX = 200
_DEFAULT_POLICY = Policy()


class Translation(msgspec.Struct, frozen=True, kw_only=True):
    """A plan as data, and what there is to say about how it was made."""

    made_from: str
    plan: dict[str, Any]
    not_turned: tuple[Remark, ...]
    notes: tuple[Remark, ...]

    @property
    def complete(self) -> bool:
        return not self.not_turned

    def text(self) -> str:
        """As a plan file: what was not turned stands at its top."""
        heading = f"Made by `recoup import openchrome` from {self.made_from}."
        remarks = self.remarks()
        return plan_text(self.plan, [heading, "", *remarks] if remarks else [heading])

    def remarks(self) -> list[str]:
        """In lines, for people."""
        return [*remark_lines("Not turned:", self.not_turned), *remark_lines("To know:", self.notes)]

    def checked(self, policy: Policy = _DEFAULT_POLICY, file: Path | None = None) -> Plan:
        """The plan that `text` says, as it will be read from that file. Raises InvalidPlan."""
        folder = Path() if file is None else file.parent
        source = "the plan made from it" if file is None else str(file)
        return parse_plan(self.text(), source, folder, file=file, policy=policy)


def read_openchrome(
    path: str | Path, script_problem: ScriptProblem, policy: Policy = _DEFAULT_POLICY
) -> Translation:
    """Raises InvalidPlan when the file holds no compiled plan."""
    path = Path(path)
    try:
        text = read_text(path, policy.plan_bytes_max)
    except Unreadable as unreadable:
        raise InvalidPlan(str(path), [unreadable.problem]) from None
    return translate(text, str(path), script_problem, policy)


def translate(
    text: str, source: str, script_problem: ScriptProblem = lambda _: None, policy: Policy = _DEFAULT_POLICY
) -> Translation:
    """`source` is what messages call it. Raises InvalidPlan when this is no compiled plan."""
    compiled = parse_compiled(text, source, policy.plan_steps_max)
    remarks = Remarks(compiled.unknown, compiled.remarks)
    plan = plan_data(compiled, remarks, script_problem, policy.step_idle_timeout_seconds)
    return Translation(
        made_from=_made_from(compiled, source),
        plan=plan,
        not_turned=tuple(remarks.not_turned),
        notes=tuple(remarks.notes),
    )


def _made_from(compiled: Compiled, source: str) -> str:
    version = f", version {clipped(compiled.version)}" if compiled.version else ""
    words = f"{Path(source).name}: openchrome's compiled plan `{clipped(compiled.id)}`{version}"
    return plain(words, SOURCE_CHARS_MAX)
