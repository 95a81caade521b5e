"""`python:` steps: a function in a process of its own. What it returns are the outputs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from recoup.kernel.template import substitute_value, texts_in
from recoup.model.plan import PythonAction
from recoup.ports import Runtime
from recoup.steps.kind import Site, StepKind, Values


class PythonStep(StepKind[PythonAction]):
    """A function by its module and name, called with the arguments under `with`. They may hold secrets: the function
    is given them where nobody else can read."""

    key = "python"
    keys = "recoup.steps.python.keys:PythonKeys"
    filled = (("with",),)
    any_json = (("with",),)
    filled_words = ("with",)

    def written_at(self, path: tuple[str | int, ...]) -> tuple[str | int, ...]:
        return ("with", *path[1:]) if path[:1] == ("arguments",) else (self.key, *path)

    def texts(self, action: PythonAction) -> tuple[str, ...]:
        return tuple(texts_in(action.arguments))

    def fill(self, action: PythonAction, values: Values) -> tuple[PythonAction, dict[str, str]]:
        return PythonAction(action.target, substitute_value(action.arguments, values.scope)), {}

    def instructions(self, action: PythonAction) -> str:
        return action.target

    def runtime(self, site: Site) -> Runtime:
        from recoup.runtimes.python_step import PythonRuntime

        return PythonRuntime(site.keeper, site.open_log)

    def missing(self, action: PythonAction, folder: Path) -> Iterator[str]:
        from recoup.steps.python.foresight import missing_function

        yield from filter(None, [missing_function(action.target, folder)])


STEP = PythonStep()
