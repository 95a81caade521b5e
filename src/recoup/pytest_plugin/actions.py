"""Playwright's actions, wrapped for one session. Assertions and questions never are."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import timedelta
from functools import partial, wraps
from typing import Any, Final

from playwright import async_api, sync_api
from playwright.async_api import ElementHandle, Frame, Locator, Page

from recoup.pytest_plugin.colours import answered, at_once

ON_NODE: Final = (
    *("click", "dblclick", "fill", "press", "type", "check", "uncheck", "set_checked"),
    *("select_option", "hover", "tap", "set_input_files"),
)
"""These an element can be asked for as well as a locator, with the same arguments."""
ON_LOCATOR: Final = (*ON_NODE, "press_sequentially", "clear", "drag_to")
TYPING: Final = frozenset({"fill", "type", "press_sequentially"})
_SELECTOR: Final = "> selector='"


@dataclass(frozen=True)
class Action:
    """One call in a test."""

    name: str
    locator: Locator
    words: str
    """The locator's own, without the page's address."""
    args: tuple[Any, ...]
    options: dict[str, Any]
    perform: Callable[[], Any]
    """As it is written in the test."""

    @property
    def timeout_ms(self) -> float | None:
        """As the test says; None: whatever the page's default is."""
        said = self.options.get("timeout")
        return said.total_seconds() * 1000 if isinstance(said, timedelta) else said

    @property
    def typed(self) -> str | None:
        if self.name not in TYPING:
            return None
        said = self.args[0] if self.args else self.options.get("value", self.options.get("text"))
        return said if isinstance(said, str) else None


Act = Callable[[Action], Coroutine[Any, Any, Any]]
Colour = Callable[[Coroutine[Any, Any, Any]], Any]
"""How a test of one API gets what comes of an action."""


def _awaited(core: Coroutine[Any, Any, Any]) -> Any:
    """The test awaits it."""
    return core


APIS: Final[tuple[tuple[Any, Colour], ...]] = ((sync_api, at_once), (async_api, _awaited))


class Wrapped:
    """The public classes of both APIs with their actions led through `act`, until they are unwrapped."""

    def __init__(self, act: Act) -> None:
        self._originals: list[tuple[type, str, Any]] = []
        for api, colour in APIS:
            for name in ON_LOCATOR:
                self._wrap(api.Locator, name, _of_locator(act, colour, name))
            for owner in (api.Page, api.Frame):
                for name in ON_NODE:
                    self._wrap(owner, name, _of_selector(act, colour, name))

    def unwrap(self) -> None:
        while self._originals:
            setattr(*self._originals.pop())

    def _wrap(self, owner: type, name: str, made: Callable[[Any], Any]) -> None:
        original = getattr(owner, name, None)
        if original is not None:
            self._originals.append((owner, name, original))
            setattr(owner, name, made(original))


async def perform_on(node: ElementHandle, action: Action, timeout_ms: float) -> Any:
    """The same action with the same arguments on another element."""
    options = {**action.options, "timeout": timeout_ms}
    if action.name == "press_sequentially":
        return await answered(node.type(*action.args, **options))
    if action.name == "clear":
        return await answered(node.fill("", **options))
    return await answered(getattr(node, action.name)(*action.args, **options))


async def perform_drag(source: Locator, action: Action, timeout_ms: float) -> Any:
    """Of a drag only the source heals; where it is dragged to is the test's word."""
    unwrapped = inspect.unwrap(type(source).drag_to)
    return await answered(unwrapped(source, *action.args, **{**action.options, "timeout": timeout_ms}))


def _of_locator(act: Act, colour: Colour, name: str) -> Callable[[Any], Any]:
    def made(original: Any) -> Any:
        @wraps(original)
        def acted(self: Locator, *args: Any, **options: Any) -> Any:
            __tracebackhide__ = True
            perform = partial(original, self, *args, **options)
            return colour(act(Action(name, self, words_of(self), args, options, perform)))

        return acted

    return made


def _of_selector(act: Act, colour: Colour, name: str) -> Callable[[Any], Any]:
    """`page.click("#save")`: the selector is the first argument, and `strict` is about nothing else."""

    def made(original: Any) -> Any:
        @wraps(original)
        def acted(self: Page | Frame, selector: str, *args: Any, **options: Any) -> Any:
            __tracebackhide__ = True
            rest = {key: value for key, value in options.items() if key != "strict"}
            perform = partial(original, self, selector, *args, **options)
            return colour(act(Action(name, self.locator(selector), selector, args, rest, perform)))

        return acted

    return made


def words_of(locator: Locator) -> str:
    """What it looks for. Playwright writes the address of the page before it, and that may change with every run."""
    said = str(locator)
    _, found, selector = said.partition(_SELECTOR)
    return selector.removesuffix("'>") if found else said
