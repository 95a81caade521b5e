"""The shop itself, on loopback: it shows one release, and knows what was really done in it.

Every control tells the server what it is when it is used, by a name that is nowhere to be seen on the page. So the
site is the judge of what was taken for what, whatever the one who did it believes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Final

from benchmarks.drift.releases import Look, Release
from recoup.testing.pages import Answer, Asked, Site

WRONG: Final = "wrong-"
NUMBER: Final = "A-1001"
FLOW: Final = ("query", "search", "choose", "delivery", "email", "terms", "place")
"""What the site sees, in this order, when all went right. That the number was read, it does not see."""
_DEEDS: Final = "/did/"
_HEAD: Final = (
    "<!doctype html><html lang=en><title>Lamps</title><style>.control{{padding:2px}}</style>"
    "<script>function did(what, words, next) {{ fetch('/did/' + what, {{method: 'POST'}}).then(() => {{"
    " if (next) location = next; else said.textContent = words }}) }}</script>"
    "<h1>{0}</h1><nav><a href=/help>Help</a> <a href=/stores>Stores</a></nav><main>{1}</main><p id=said></p>"
)


class Shop(Site):
    """`release` is what it shows."""

    def __init__(self, release: Release) -> None:
        super().__init__()
        self.release = release
        for path, title, blocks in _PAGES:
            self.pages[path] = _page(title, blocks)
        for deed in (*FLOW, *(WRONG + what for what in _TEMPTING)):
            self.pages[_DEEDS + deed] = lambda _site, _asked: Answer("")

    @property
    def deeds(self) -> tuple[str, ...]:
        """What was done, each once, in order."""
        done = [asked.path.removeprefix(_DEEDS) for asked in self.asked if asked.path.startswith(_DEEDS)]
        return tuple(dict.fromkeys(done))


Block = tuple[float, str]
"""Where on its page it stands, and what it is."""


def _page(title: str, blocks: Callable[[Release], Sequence[Block]]) -> Callable[[Site, Asked], Answer]:
    def show(site: Site, _asked: Asked) -> Answer:
        assert isinstance(site, Shop), "these pages are the shop's"
        ordered = sorted(blocks(site.release), key=lambda block: block[0])
        return Answer(_HEAD.format(title, "".join(html for _, html in ordered)))

    return show


def _home(release: Release) -> list[Block]:
    return [
        *_part(release, "query", lambda look: _field(look, _did("query", "looking for lamp"))),
        *_part(release, "search", lambda look: _button(look, _did("search", next="/results"))),
        (0.5, _bare_field("Search our stores", _tempts("stores"))),
        (1.5, _bare_button("Search stores", _tempts("search-stores"))),
        (6.0, _bare_button("Reset", _tempts("reset"))),
        (7.0, _bare_field("Newsletter", _tempts("newsletter"))),
    ]


def _results(release: Release) -> list[Block]:
    """The same button in each row; the lamp that is wanted may be sold out, and its row gone."""
    look = release.looks["choose"]
    rows = [
        (at + (look.order if lamp == "LX-200" else 0.1), _row(lamp, price, look))
        for at, (lamp, price) in enumerate((("LX-210", "39.00"), ("LX-200", "25.00"), ("LX-300", "75.00")))
        if not (lamp == "LX-200" and release.gone == "choose")
    ]
    listed = "".join(html for _, html in sorted(rows))
    return [
        (1.0, f"<table><tbody>{listed}</tbody></table>"),
        (2.0, _bare_button("Compare", _tempts("compare"))),
    ]


def _row(lamp: str, price: str, look: Look) -> str:
    wanted = lamp == "LX-200"
    own = look if wanted else Look(look.words, "", f"{look.id}-{lamp[-3:]}", look.classes)
    deed = _did("choose", next="/order") if wanted else _tempts("choose", next="/elsewhere")
    return f"<tr><td>Desk lamp {lamp}</td><td>{price}</td><td>{_button(own, deed)}</td></tr>"


def _order(release: Release) -> list[Block]:
    return [
        *_part(release, "delivery", lambda look: _select(look, _did("delivery", "express it is"))),
        *_part(release, "email", lambda look: _field(look, _did("email", "receipt to ada"))),
        *_part(release, "terms", lambda look: _box(look, _did("terms", "agreed"))),
        *_part(release, "place", lambda look: _button(look, _did("place", next="/done"))),
        (0.5, _bare_field("E-mail of a friend", _tempts("friend"))),
        (3.5, _bare_field("Gift note", _tempts("gift"))),
        (4.5, _bare_box("I accept the newsletter", _tempts("newsletter"))),
        (5.5, _bare_button("Cancel order", _tempts("cancel"))),
        (6.5, _bare_button("Save order for later", _tempts("later"))),
    ]


def _done(release: Release) -> list[Block]:
    return [
        *_part(release, "number", lambda look: _output(look, NUMBER)),
        (3.0, "<p><output aria-label='Customer number'>C-77</output></p>"),
        (8.0, _bare_button("Print", _tempts("print"))),
    ]


def _elsewhere(_release: Release) -> list[Block]:
    return [(1.0, "<p>Another lamp.</p>")]


_PAGES: Final = (
    ("/", "Lamps and more", _home),
    ("/results", "Results for lamp", _results),
    ("/order", "Order LX-200", _order),
    ("/done", "Thank you", _done),
    ("/elsewhere", "Another lamp", _elsewhere),
)
_TEMPTING: Final = (
    "stores", "search-stores", "reset", "newsletter", "choose", "compare", "friend", "gift", "cancel", "later", "print",
    "copy",
)  # fmt: skip


def _part(release: Release, key: str, made: Callable[[Look], str]) -> list[Block]:
    """Itself, unless it is gone, and what is called the same, if there is such a thing."""
    look = release.looks[key]
    blocks = [] if release.gone == key else [(look.order, _wrapped(made(look), look.wraps))]
    if release.copied == key:
        other = Look(look.words, "", "bundle", "bundle")
        inside = (
            _button(other, _tempts("copy")) if key in ("place", "search") else _field(other, _tempts("copy"))
        )
        blocks.append((0.2, f"<ul><li>Bundle LX-900 with five bulbs {inside}</li></ul>"))
    return blocks


def _wrapped(html: str, wraps: int) -> str:
    return "<div class=wrap>" * wraps + f"<div>{html}</div>" + "</div>" * wraps


# Controls


def _did(deed: str, words: str = "", next: str = "") -> str:
    return f"did('{deed}', '{words}', '{next}')"


def _tempts(what: str, next: str = "") -> str:
    return _did(WRONG + what, "something else was done", next)


def _names(look: Look) -> str:
    name = f" name='{look.name}'" if look.name else ""
    return f"id='{look.id}' class='{look.classes}'{name}"


def _button(look: Look, deed: str) -> str:
    return f'<button type=button {_names(look)} onclick="{deed}">{escape(look.words)}</button>'


def _field(look: Look, deed: str) -> str:
    return f'<label for="{look.id}">{escape(look.words)}</label> <input {_names(look)} oninput="{deed}">'


def _select(look: Look, deed: str) -> str:
    options = "<option>Standard</option><option>Express</option>"
    named = f'<label for="{look.id}">{escape(look.words)}</label>'
    return f'{named} <select {_names(look)} onchange="{deed}">{options}</select>'


def _box(look: Look, deed: str) -> str:
    return f'<input type=checkbox {_names(look)} onchange="{deed}"><label for="{look.id}">{escape(look.words)}</label>'


def _output(look: Look, value: str) -> str:
    return f'<p>{escape(look.words)}: <output {_names(look)} aria-label="{escape(look.words)}">{value}</output></p>'


def _bare(words: str) -> Look:
    return Look(words, "", words.replace(" ", "-").lower(), "control")


def _bare_button(words: str, deed: str) -> str:
    return f"<div>{_button(_bare(words), deed)}</div>"


def _bare_field(words: str, deed: str) -> str:
    return f"<div>{_field(_bare(words), deed)}</div>"


def _bare_box(words: str, deed: str) -> str:
    return f"<div>{_box(_bare(words), deed)}</div>"
