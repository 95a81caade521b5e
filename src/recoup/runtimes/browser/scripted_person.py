"""A person who does what a file says: the same browser, the same events, nobody at the keyboard."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

import msgspec
from playwright.async_api import BrowserContext, Dialog, Error, Locator, Page

from recoup.errors import UsageError
from recoup.runtimes.browser.recording import BY_ITSELF_S

MOVES_MAX: Final = 1_000
MOVE_S: Final = 10
PAUSE_S: Final = 0.1
"""Between two moves, for what the last one brought about to begin."""


class Move(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing to do, on what `css` selects; `goto`, `tab` and `press` need nothing to do it on."""

    do: str
    css: str = "body"
    frame: str | None = None
    """CSS of the frame that it is in."""
    value: str = ""
    """fill, type: the text. press: the key. select: what is typed to choose. goto: the address. tab: its number, or
    `new`."""
    files: tuple[str, ...] = ()
    dialog: str | None = None
    """accept or dismiss: what is done with a dialog that opens."""
    answer: str = ""


def read_moves(text: str | bytes) -> list[Move]:
    """Raises UsageError."""
    try:
        moves = msgspec.json.decode(text, type=list[Move])
    except msgspec.DecodeError as error:
        raise UsageError(f"the script is no list of moves: {error}", hint=_HINT) from None
    if len(moves) > MOVES_MAX:
        raise UsageError(f"the script has {len(moves)} moves, more than {MOVES_MAX}", hint="Split it.")
    for number, move in enumerate(moves, 1):
        if move.do not in _MOVES:
            raise UsageError(f"move {number} of the script: there is no {move.do!r}", hint=_HINT)
    return moves


async def play(context: BrowserContext, page: Page, moves: list[Move]) -> None:
    """Raises UsageError at the first move that cannot be made."""
    answers: dict[str, Move] = {}
    context.on("dialog", lambda dialog: asyncio.ensure_future(_answer(dialog, answers.get("now"))))
    for number, move in enumerate(moves, 1):
        answers["now"] = move
        try:
            async with asyncio.timeout(MOVE_S):
                page = await _make(context, page, move)
        except (Error, TimeoutError) as error:
            words = str(error).splitlines()[0] if str(error) else f"it took more than {MOVE_S} s"
            raise UsageError(
                f"move {number} of the script ({move.do} {move.css}): {words}",
                hint="See that the page has what the move names.",
            ) from None


async def _make(context: BrowserContext, page: Page, move: Move) -> Page:
    if move.do == "tab":
        page = await _tab(context, move.value)
        await page.bring_to_front()
    elif move.do == "goto":
        await asyncio.sleep(1.2 * BY_ITSELF_S)
        await page.goto(move.value)
    else:
        place = page.frame_locator(move.frame) if move.frame else page
        await _MOVES[move.do](place.locator(move.css), move)
    await asyncio.sleep(PAUSE_S)
    with suppress(Error):
        await page.wait_for_load_state("load")
    return page


async def _tab(context: BrowserContext, number: str) -> Page:
    """By its number from 1, when it is there; `new`: another one."""
    if number == "new":
        return await context.new_page()
    place = int(number) - 1 if number.isdigit() else 0
    if len(context.pages) <= place:
        await context.wait_for_event("page", lambda _page: len(context.pages) > place)
    return context.pages[place]


async def _answer(dialog: Dialog, move: Move | None) -> None:
    with suppress(Error):
        if move is not None and move.dialog == "accept":
            await dialog.accept(move.answer)
        else:
            await dialog.dismiss()


async def _select(place: Locator, move: Move) -> None:
    """By its first letters, as with a keyboard: choosing by way of the library is no event of a person."""
    await place.focus()
    await place.press_sequentially(move.value)


_MOVES: Final[dict[str, Callable[[Locator, Move], Awaitable[Any]]]] = {
    "click": lambda place, _move: place.click(),
    "double": lambda place, _move: place.dblclick(),
    "right": lambda place, _move: place.click(button="right"),
    "fill": lambda place, move: place.fill(move.value),
    "type": lambda place, move: place.press_sequentially(move.value),
    "press": lambda place, move: place.press(move.value),
    "select": _select,
    "upload": lambda place, move: place.set_input_files(list(move.files)),
    "wait": lambda _place, move: asyncio.sleep(float(move.value)),
    "goto": lambda place, _move: place.focus(),
    "tab": lambda place, _move: place.focus(),
}
_HINT: Final = (
    'Write such as [{"do": "fill", "css": "#who", "value": "Ada"}, {"do": "click", "css": "button"}]; '
    f"`do` is one of {', '.join(_MOVES)}."
)
