"""`run:` steps: a shell script, or a program with its arguments."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from recoup.kernel.template import shell_script, substitute
from recoup.model.plan import RunAction
from recoup.ports import Runtime
from recoup.steps.kind import Data, Site, StepKind, Values, Way

_UNSURE: Final = frozenset({"${{", "$", "`", "*", "~", ";", "|", "&", '"', "'"})
"""Signs with which a word may mean another file than the one it names."""


class RunStep(StepKind[RunAction]):
    """A script through bash, which stops at its first failing line, or an argument vector."""

    key = "run"
    keys = "recoup.steps.run.keys:RunKeys"
    loads_at_once = True
    all_text = True
    names_its_outputs = True
    filled = (("run",),)
    scripts = (("run",),)
    filled_words = ("run",)

    def open_to_others(self, data: Data) -> Mapping[Way, str]:
        """A script gets its secrets through its environment; every user can read the arguments of a process."""
        is_script = isinstance(data.get("run"), str)
        return {} if is_script else {("run",): "pass it through `env`, or write the command as one text"}

    def written_at(self, path: tuple[str | int, ...]) -> tuple[str | int, ...]:
        return (self.key, *path[1:])

    def texts(self, action: RunAction) -> tuple[str, ...]:
        return (action.command,) if isinstance(action.command, str) else action.command

    def fill(self, action: RunAction, values: Values) -> tuple[RunAction, dict[str, str]]:
        if isinstance(action.command, str):
            script = shell_script(action.command, values.scope, values.secret)
            return RunAction(script.text), script.env
        values.refuse_secrets(*action.command)
        return RunAction(tuple(substitute(word, values.scope) for word in action.command)), {}

    def instructions(self, action: RunAction) -> str:
        return action.command if isinstance(action.command, str) else " ".join(action.command)

    def runtime(self, site: Site) -> Runtime:
        from recoup.runtimes.shell import ShellRuntime

        return ShellRuntime(site.keeper, site.open_log)

    def script(self, action: RunAction) -> str | None:
        return action.command if isinstance(action.command, str) else None

    def missing(self, action: RunAction, folder: Path) -> Iterator[str]:
        """The first word, if it is a path in the folder: later ones may be made by what is before them."""
        lines = action.command.splitlines() if isinstance(action.command, str) else [action.command[0]]
        words = lines[0].split() if lines else []
        name = words[0] if words else ""
        if not name.startswith(("./", "../")) or any(sign in name for sign in _UNSURE):
            return
        path = folder / name
        if not path.exists():
            yield f"there is no {name} in {folder}"
        elif not os.access(path, os.X_OK):
            yield f"{name} may not be executed: chmod +x {name}"


STEP = RunStep()
