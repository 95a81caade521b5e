"""An output that the step itself writes into the file RECOUP_OUTPUT, or returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from recoup.checks.sources.kind import OutputSource
from recoup.model.outcome import Scene
from recoup.model.plan import DeclaredOutput

if TYPE_CHECKING:
    from recoup.checks.sources.source_shape import SourceShape


class DeclaredSource(OutputSource[DeclaredOutput]):
    key = ""
    is_declared = True

    def make_shape(self) -> type[SourceShape]:
        from recoup.checks.sources.source_shape import SECRET, SourceShape

        class DeclaredOutputShape(SourceShape):
            """A name that the step itself writes into the file RECOUP_OUTPUT."""

            secret: bool = SECRET

            def value(self) -> DeclaredOutput:
                return DeclaredOutput(self.secret)

        return DeclaredOutputShape

    def find(self, output: DeclaredOutput, scene: Scene) -> Any:
        del output, scene
        raise AssertionError("the step itself gives this value")


SOURCE = DeclaredSource()
