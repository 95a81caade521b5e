"""Playwright's actions, wrapped for one session. Assertions and questions never are."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial, wraps
from typing import Any, Final

from playwright.sync_api import ElementHandle, Frame, Locator, Page

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


Act = Callable[[Action], Any]


class Wrapped:
    """The public classes with their actions led through `act`, until they are unwrapped."""

    def __init__(self, act: Act) -> None:
        self._originals: list[tuple[type, str, Any]] = []
        for name in ON_LOCATOR:
            self._wrap(Locator, name, _of_locator(act, name))
        for owner in (Page, Frame):
            for name in ON_NODE:
                self._wrap(owner, name, _of_selector(act, name))

    def unwrap(self) -> None:
        while self._originals:
            setattr(*self._originals.pop())

    def _wrap(self, owner: type, name: str, made: Callable[[Any], Any]) -> None:
        original = getattr(owner, name, None)
        if original is not None:
            self._originals.append((owner, name, original))
            setattr(owner, name, made(original))


def perform_on(node: ElementHandle, action: Action, timeout_ms: float) -> Any:
    """The same action with the same arguments on another element."""
    options = {**action.options, "timeout": timeout_ms}
    if action.name == "press_sequentially":
        return node.type(*action.args, **options)
    if action.name == "clear":
        return node.fill("", **options)
    return getattr(node, action.name)(*action.args, **options)


def perform_drag(source: Locator, action: Action, timeout_ms: float) -> Any:
    """Of a drag only the source heals; where it is dragged to is the test's word."""
    unwrapped = inspect.unwrap(Locator.drag_to)
    return unwrapped(source, *action.args, **{**action.options, "timeout": timeout_ms})


def _of_locator(act: Act, name: str) -> Callable[[Any], Any]:
    def made(original: Any) -> Any:
        @wraps(original)
        def acted(self: Locator, *args: Any, **options: Any) -> Any:
            __tracebackhide__ = True
            return act(
                Action(name, self, words_of(self), args, options, partial(original, self, *args, **options))
            )

        return acted

    return made


def _of_selector(act: Act, name: str) -> Callable[[Any], Any]:
    """`page.click("#save")`: the selector is the first argument, and `strict` is about nothing else."""

    def made(original: Any) -> Any:
        @wraps(original)
        def acted(self: Page | Frame, selector: str, *args: Any, **options: Any) -> Any:
            __tracebackhide__ = True
            rest = {key: value for key, value in options.items() if key != "strict"}
            return act(
                Action(
                    name,
                    self.locator(selector),
                    selector,
                    args,
                    rest,
                    partial(original, self, selector, *args, **options),
                )
            )

        return acted

    return made


def words_of(locator: Locator) -> str:
    """What it looks for. Playwright writes the address of the page before it, and that may change with every run."""
    said = str(locator)
    _, found, selector = said.partition(_SELECTOR)
    return selector.removesuffix("'>") if found else said
