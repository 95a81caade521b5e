"""`exit:` checks: the exit codes that mean success."""

from __future__ import annotations

from recoup.checks.kind import Absent, CheckKind, Shapes, Surroundings
from recoup.checks.spots import Fill
from recoup.model.plan import ExitCheck


class ExitKind(CheckKind[ExitCheck]):
    needs_process = True

    def make_shapes(self) -> Shapes:
        from typing import Annotated

        from pydantic import Field, Tag

        from recoup.checks.check_shape import CheckShape
        from recoup.shapes.forms import list_or_text
        from recoup.shapes.shape import TAG, branch

        ExitCode = Annotated[int, Field(ge=0, le=255)]

        class ExitShape(CheckShape):
            exit: Annotated[
                Annotated[ExitCode, Tag(TAG + "text")]
                | Annotated[list[ExitCode], Field(min_length=1, max_length=256), Tag(TAG + "list")],
                branch(list_or_text),
            ] = Field(
                description="The exit code, or the exit codes, that mean success. Default: 0.",
                examples=[0, [0, 3]],
            )

            def value(self) -> ExitCheck:
                return ExitCheck((self.exit,) if isinstance(self.exit, int) else tuple(self.exit))

        return Shapes({"exit": ExitShape})

    def words(self, check: ExitCheck) -> str:
        return f"exit: {', '.join(map(str, check.codes))}"

    def filled(self, check: ExitCheck, fill: Fill) -> ExitCheck:
        del fill
        return check

    def exit_codes(self, check: ExitCheck) -> tuple[int, ...]:
        return check.codes

    async def examine(self, check: ExitCheck, around: Surroundings) -> str:
        code = around.scene.outcome.exit_code if around.scene.outcome else None
        if code not in check.codes:
            raise Absent(f"exit code was {code}")
        return f"exit code {code}"


CHECK = ExitKind()
