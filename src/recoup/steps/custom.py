"""Kinds of step that other packages bring, and what stands in for one whose package is not here."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from recoup.kernel.template import substitute_value, texts_in
from recoup.model.failure import FailureKind
from recoup.model.outcome import Order, Outcome
from recoup.model.plan import CustomAction, PythonAction
from recoup.ports import Hooks, Runtime
from recoup.steps.kind import Data, Site, StepKind, Values, Way


class CustomStep(StepKind[CustomAction]):
    """A kind whose action is its key with JSON arguments, which every process can read back without the package.
    References are filled in everywhere in the arguments."""

    secret_arguments: tuple[str, ...] = ()
    """Those in which a secret may stand: nobody but the step itself reads them."""

    def __init__(self) -> None:
        self.filled = self.any_json = ((self.key,),)
        self.filled_words = (self.key,)

    def open_to_others(self, data: Data) -> Mapping[Way, str]:
        written = data.get(self.key)
        if not isinstance(written, dict):
            return {(self.key,): self._instead()}
        return {(self.key, name): self._instead() for name in written if name not in self.secret_arguments}

    def _instead(self) -> str:
        names = " or ".join(f"`{name}`" for name in self.secret_arguments)
        return f"write it under {names}" if names else "pass it through `env`"

    def written_at(self, path: tuple[str | int, ...]) -> tuple[str | int, ...]:
        return (self.key, *path[1:])

    def texts(self, action: CustomAction) -> tuple[str, ...]:
        return tuple(texts_in(action.arguments))

    def fill(self, action: CustomAction, values: Values) -> tuple[CustomAction, dict[str, str]]:
        for name, value in action.arguments.items():
            if name not in self.secret_arguments:
                values.refuse_secrets(*texts_in(value))
        return msgspec.structs.replace(action, arguments=substitute_value(action.arguments, values.scope)), {}

    def instructions(self, action: CustomAction) -> str:
        return f"{self.key} {msgspec.json.encode(action.arguments).decode()}"


class FunctionStep(CustomStep):
    """A kind that calls a function of its package, in a process of its own like a `python` step: its limits, outputs,
    exceptions and the proof of its end are the same. The arguments reach it where no other user can read them."""

    target: str
    """The function, as `module:function`. It is given the arguments by name; what it returns are the outputs."""

    def runtime(self, site: Site) -> Runtime:
        from recoup.runtimes.python_step import PythonRuntime

        return _FunctionRuntime(self.target, PythonRuntime(site.keeper, site.open_log))


class _FunctionRuntime:
    inline = False

    def __init__(self, target: str, functions: Runtime) -> None:
        self._target = target
        self._functions = functions

    async def perform(self, order: Order, hooks: Hooks) -> Outcome:
        assert isinstance(order.action, CustomAction), "steps of other packages are performed here only"
        action = PythonAction(self._target, order.action.arguments)
        return await self._functions.perform(msgspec.structs.replace(order, action=action), hooks)


class AbsentStep(CustomStep):
    """In the place of a kind that cannot be loaded: its runs can be read, and its steps fail with what to install."""

    loads_at_once = True

    def __init__(self, key: str, why: str) -> None:
        self.key = key
        self.needs = frozenset({key})
        self._why = why
        super().__init__()

    def fill(self, action: CustomAction, values: Values) -> tuple[CustomAction, dict[str, str]]:
        """Where it would have taken a secret is not known."""
        return msgspec.structs.replace(action, arguments=substitute_value(action.arguments, values.scope)), {}

    def runtime(self, site: Site) -> Runtime:
        del site
        return _AbsentRuntime(self._why)


class _AbsentRuntime:
    inline = False

    def __init__(self, why: str) -> None:
        self._why = why

    async def perform(self, order: Order, hooks: Hooks) -> Outcome:
        del hooks
        assert isinstance(order.action, CustomAction), "only other packages are absent"
        package = order.action.package
        detail = f"{self._why}: pip install {package}" if package else self._why
        return Outcome(kind=FailureKind.SPAWN_FAILED, detail=detail)
