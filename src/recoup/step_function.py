"""A function marked as a step. Loaded into the process of every step that is marked so: it imports little."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import update_wrapper
from typing import Any, Generic, Literal, ParamSpec, TypedDict, TypeVar, Unpack, overload

P = ParamSpec("P")
R = TypeVar("R")


class StepOptions(TypedDict, total=False):
    """What a step may say beside what it does, as in a plan file."""

    id: str
    title: str
    expect: Sequence[Mapping[str, Any]]
    outputs: Mapping[str, Any]
    env: Mapping[str, str]
    when: str
    repeat: Literal["safe", "never"]
    rebuild: Literal["checkpoint", "rerun"]
    timeout: str | float
    idle_timeout: str | float
    idle: Literal["output", "activity"]
    polls: bool
    max_attempts: int
    retry: Mapping[str, Any]
    no_progress_limit: int
    max_processes: int
    max_memory: str | int
    rescue: Sequence[Any]
    on_empty: Sequence[Any]
    always: Sequence[Any]


class StepFunction(Generic[P, R]):
    """A function that plans can name. Calling it calls the function, here and now."""

    def __init__(
        self,
        function: Callable[P, R],
        options: StepOptions | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        update_wrapper(self, function)
        self.__recoup_function__ = function
        self.options: StepOptions = options or {}
        self.arguments: dict[str, Any] = dict(arguments or {})

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.__recoup_function__(*args, **kwargs)

    def with_(self, **arguments: Any) -> StepFunction[P, R]:
        """The same step with these arguments; texts may hold references (`${{ inputs.customer }}`)."""
        return StepFunction(self.__recoup_function__, self.options, {**self.arguments, **arguments})

    def but(self, **options: Unpack[StepOptions]) -> StepFunction[P, R]:
        """The same step with other options: another `id`, when a plan has it twice."""
        return StepFunction(self.__recoup_function__, {**self.options, **options}, self.arguments)

    def __repr__(self) -> str:
        return f"<step {self.__module__}:{self.__recoup_function__.__qualname__}>"


@overload
def step(function: Callable[P, R], /) -> StepFunction[P, R]: ...
@overload
def step(**options: Unpack[StepOptions]) -> Callable[[Callable[P, R]], StepFunction[P, R]]: ...
def step(function: Callable[..., Any] | None = None, /, **options: Unpack[StepOptions]) -> Any:
    """Mark a function at the top level of a module as a step. Options are the keys of a step in a plan file."""
    if function is not None:
        return StepFunction(function)
    return lambda marked: StepFunction(marked, options)
