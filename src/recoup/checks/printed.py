"""`stdout:` and `stderr:` checks: what the attempt printed."""

from __future__ import annotations

import msgspec

from recoup.checks.kind import CheckKind, Shapes, Surroundings
from recoup.checks.spots import Fill
from recoup.checks.text_match import SPOTS, filled_match, find, match_words
from recoup.model.plan import OutputCheck, StreamName


class PrintedKind(CheckKind[OutputCheck]):
    needs_process = True
    spots = SPOTS

    def make_shapes(self) -> Shapes:
        from pydantic import Field

        from recoup.checks.check_shape import CheckShape
        from recoup.shapes.forms import Match, match_value

        class StdoutShape(CheckShape):
            stdout: Match = Field(
                description="Text that the step must print, or {regex: …}.",
                examples=["fetched", {"regex": "[0-9]+ rows"}],
            )

            def value(self) -> OutputCheck:
                return OutputCheck(StreamName.STDOUT, match_value(self.stdout))

        class StderrShape(CheckShape):
            stderr: Match = Field(
                description="Text that the step must print to stderr, or {regex: …}.", examples=["0 warnings"]
            )

            def value(self) -> OutputCheck:
                return OutputCheck(StreamName.STDERR, match_value(self.stderr))

        return Shapes({"stdout": StdoutShape, "stderr": StderrShape})

    def words(self, check: OutputCheck) -> str:
        return f"{check.stream}: {match_words(check.match)}"

    def filled(self, check: OutputCheck, fill: Fill) -> OutputCheck:
        return msgspec.structs.replace(check, match=filled_match(check.match, fill))

    async def examine(self, check: OutputCheck, around: Surroundings) -> str:
        outcome = around.scene.outcome
        assert outcome is not None, "printed text belongs to an attempt"
        captured = outcome.stdout if check.stream is StreamName.STDOUT else outcome.stderr
        return find(check.match, captured.text(), check.stream.value)


CHECK = PrintedKind()
