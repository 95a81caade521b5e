"""`run:` checks: a command that must exit with 0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from recoup.checks.command import end_words, keep
from recoup.checks.kind import Absent, CheckKind, NotAsked, Shapes, Surroundings
from recoup.checks.spots import Fill, Spot
from recoup.model.plan import RunCheck
from recoup.model.process import EndedBy
from recoup.runtimes.shell import shell_argv

_NO_ANSWER: Final = 126
"""From here on a shell's exit code says that the command could not be run, or was killed."""


class RunKind(CheckKind[RunCheck]):
    scripts = ("run",)
    spots: Mapping[str, Spot] = {"run": Spot.WORD}

    def make_shapes(self) -> Shapes:
        from pydantic import Field

        from recoup.checks.check_shape import CheckShape
        from recoup.shapes.forms import Command, command_value

        class RunShape(CheckShape):
            run: Command = Field(
                description="A command that must exit with 0: a shell script, or a list of words.",
                examples=["pytest -q", ["pytest", "-q"]],
            )

            def value(self) -> RunCheck:
                return RunCheck(command_value(self.run))

        return Shapes({"run": RunShape})

    def words(self, check: RunCheck) -> str:
        return f"run: {check.command if isinstance(check.command, str) else ' '.join(check.command)}"

    def filled(self, check: RunCheck, fill: Fill) -> RunCheck:
        if isinstance(check.command, str):
            return RunCheck(fill(check.command, Spot.SCRIPT))
        return RunCheck(tuple([fill(word, Spot.WORD) for word in check.command]))

    def script(self, check: RunCheck) -> tuple[str, str] | None:
        return (check.command, "run") if isinstance(check.command, str) else None

    async def examine(self, check: RunCheck, around: Surroundings) -> str:
        ended, printed = await keep(around, shell_argv(check.command))
        has_exited = ended.ended_by is EndedBy.EXIT
        if has_exited and ended.exit_code == 0:
            return "exit 0"
        words = end_words(ended, printed, around.scene.check_timeout_s)
        if has_exited and ended.exit_code is not None and ended.exit_code < _NO_ANSWER:
            raise Absent(words)
        raise NotAsked(words)


CHECK = RunKind()
