"""`diff:` checks: what the step must have changed in the workspace."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from recoup.checks.kind import Absent, CheckKind, Shapes, Surroundings
from recoup.checks.spots import Fill, Spot
from recoup.model.plan import DiffCheck

if TYPE_CHECKING:
    from recoup.shapes.plan_written import Written
    from recoup.shapes.wording import Finding

PATHS_MAX = 100


class DiffKind(CheckKind[DiffCheck]):
    needs_changes = True
    spots: Mapping[str, Spot] = {"paths": Spot.PATHS}

    def make_shapes(self) -> Shapes:
        from typing import Literal

        from pydantic import Field, model_validator

        from recoup.checks.check_shape import CheckShape
        from recoup.shapes.shape import Text

        class DiffShape(CheckShape):
            diff: Literal["nonempty", "empty"] = Field(
                description="Whether the step must have changed files of the workspace.",
                examples=["nonempty", "empty"],
            )
            paths: list[Text] = Field(
                [],
                max_length=PATHS_MAX,
                description="Patterns; every changed file must match one of them.",
                examples=[["src/**", "tests/**"]],
            )

            @model_validator(mode="after")
            def _says_one_thing(self) -> DiffShape:
                if self.diff == "empty" and self.paths:
                    raise ValueError("an empty diff has no paths: remove `paths`, or say `diff: nonempty`")
                return self

            def value(self) -> DiffCheck:
                return DiffCheck(self.diff, tuple(self.paths))

        return Shapes({"diff": DiffShape})

    def broken_rules(self, plan: Written) -> Iterator[Finding]:
        from recoup.shapes.wording import Finding

        if plan.data.get("workspace") is not None:
            return
        for place, check in plan.checks():
            if "diff" in check:
                message = "nothing is known about changes without a workspace: add `workspace: {git: .}` to the plan"
                yield Finding((*place, "diff"), message)

    def words(self, check: DiffCheck) -> str:
        return f"diff: {check.want}"

    def filled(self, check: DiffCheck, fill: Fill) -> DiffCheck:
        paths = tuple([fill(path, Spot.PATHS) for path in check.paths])
        return msgspec.structs.replace(check, paths=paths)

    async def examine(self, check: DiffCheck, around: Surroundings) -> str:
        changed = around.scene.changed_files
        if changed is None:
            raise Absent("there is no workspace, so nothing is known about changes")
        count = len(changed)
        if check.want == "empty" and count:
            raise Absent(f"{count} files changed, among them {changed[0]}")
        if check.want == "nonempty" and not count:
            raise Absent("nothing changed")
        strays = [name for name in changed if check.paths and not _matches_any(name, check.paths)]
        if strays:
            raise Absent(f"{strays[0]} changed, which no pattern in `paths` allows")
        return f"{count} files changed"


def _matches_any(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


CHECK = DiffKind()
