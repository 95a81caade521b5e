"""Traps: pages from which an element is gone, and on which another one tempts to be taken for it. Seeded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from random import Random
from typing import Final

TRUE_ID: Final = "data-true"
"""Marks the element that is meant, on the page as it was. Nothing but the test looks at it."""


@dataclass(frozen=True)
class Trap:
    """A page as it was, with the element that is meant; and as it is, without it."""

    kind: str
    before: str
    after: str
    role: str
    name: str
    inside: str | None = None
    """Whose it is, where the words alone would fit another's just as well."""


Maker = Callable[[Random], Trap]
OPPOSITES: Final = (
    ("Approve", "Reject"),
    ("Accept", "Decline"),
    ("Save", "Delete"),
    ("Enable", "Disable"),
    ("Start", "Stop"),
    ("Subscribe", "Unsubscribe"),
    ("Sign in", "Sign up"),
    ("Next", "Previous"),
    ("Expand", "Collapse"),
    ("Buy", "Sell"),
    ("Deposit", "Withdraw"),
    ("Publish", "Unpublish"),
    ("Lock account", "Unlock account"),
    ("Allow access", "Deny access"),
    ("Genehmigen", "Ablehnen"),
    ("Speichern", "Löschen"),
    ("Accepter", "Refuser"),
    ("Guardar", "Eliminar"),
)
DEEDS: Final = (
    "Send invoice",
    "Print label",
    "Invite member",
    "Rename folder",
    "Merge branch",
    "Transfer funds",
    "Close ticket",
    "Schedule call",
    "Book room",
    "Renew licence",
    "Assign owner",
    "Clear cache",
)
SECTIONS: Final = (
    "Shoes",
    "Coats",
    "Lamps",
    "Carpets",
    "Gardening",
    "Kitchen",
    "Toys",
    "Books",
    "Music",
    "Tools",
)
FIELDS: Final = (
    ("Billing email", "Shipping email"),
    ("Current password", "New password"),
    ("First name", "Last name"),
    ("Home phone", "Work phone"),
    ("Net amount", "Tax rate"),
    ("From account", "To account"),
)
NEAR: Final = (
    ("Delete draft", "Delete account"),
    ("Edit profile", "Edit permissions"),
    ("Archive invoice", "Archive customer"),
    ("Export summary", "Export secrets"),
    ("Pay 20 EUR", "Pay 2000 EUR"),
    ("Open ticket 4711", "Open ticket 4712"),
    ("Cancel meeting", "Cancel subscription"),
    ("Reset filter", "Reset database"),
    ("Invoice INV-1001", "Invoice INV-1010"),
    ("Remove photo", "Remove user"),
)
ICONS: Final = ("Bold", "Italic", "Underline", "Quote", "Link", "Table", "Undo", "Picture")


def traps(count: int, seed: int) -> list[Trap]:
    """One kind after another, so that each has its share."""
    random = Random(seed)
    return [MAKERS[number % len(MAKERS)](random) for number in range(count)]


def page(random: Random, title: str, main: str) -> str:
    """With what is around the work on every page, a little different each time."""
    links = random.sample(("Home", "Orders", "Reports", "Team", "Help", "Billing", "News", "Status"), 5)
    nav = "".join(f"<li><a href=/{link.lower()}>{link}</a></li>" for link in links)
    words = " ".join(random.choices(("amount", "of", "the", "month", "total", "open", "paid", "since"), k=9))
    style = f"margin: {random.randint(0, 30)}px"
    return (
        f"<!doctype html><title>{title}</title><nav aria-label=Main><ul>{nav}</ul></nav>"
        f"<main style='{style}'><h1>{title}</h1><p>{words}</p>{main}</main>"
        "<footer><a href=/imprint>Imprint</a> <a href=/terms>Terms of use</a></footer>"
    )


def trap(
    random: Random, kind: str, before: str, after: str, role: str, name: str, inside: str | None = None
) -> Trap:
    title = random.choice(("Invoices", "Settings", "Orders", "Members", "Dashboard"))
    around = random.getrandbits(32)
    was, now = (page(Random(around), title, main) for main in (before, after))
    return Trap(kind, was, now, role, name, inside)


def button(words: str, more: str = "") -> str:
    return f"<button {more}>{escape(words)}</button>"


def opposite(random: Random) -> Trap:
    """The same place, id and class: only the word is the opposite."""
    pair = random.choice(OPPOSITES)
    word, other = pair if random.random() < 0.5 else pair[::-1]
    same = random.choice(("id=action class='btn primary'", "class='btn primary'", "name=action value=1", ""))
    return trap(random, "opposite", button(word, f"{same} {TRUE_ID}"), button(other, same), "button", word)


def sibling_in_a_list(random: Random) -> Trap:
    """A menu without one of its entries."""
    names = random.sample(SECTIONS, random.randint(3, 7))
    gone = random.choice(names)

    def menu(shown: list[str]) -> str:
        rows = "".join(
            f"<li class=entry><a class=menu-link id=menu-{number} href=/shop/{name.lower()} "
            f"{TRUE_ID if name == gone and len(shown) == len(names) else ''}>{name}</a></li>"
            for number, name in enumerate(shown)
        )
        return f"<ul class=menu>{rows}</ul>"

    left = [name for name in names if name != gone]
    return trap(random, "sibling in a list", menu(names), menu(left), "link", gone)


def same_id_other_text(random: Random) -> Trap:
    one, other = random.sample(DEEDS, 2)
    own = f"id=btn-{random.randint(1, 99)}"
    return trap(random, "same id", button(one, f"{own} {TRUE_ID}"), button(other, own), "button", one)


def same_class_other_text(random: Random) -> Trap:
    """A bar of buttons that all look alike; the one that is meant is gone, and others moved up."""
    words = random.sample(DEEDS, 4)
    same = "class='btn btn-primary css-1x9'"
    before = button(words[0], f"{same} {TRUE_ID}") + "".join(button(word, same) for word in words[1:3])
    after = "".join(button(word, same) for word in words[1:])
    return trap(random, "same class", before, after, "button", words[0])


def same_place(random: Random) -> Trap:
    """Exactly where it was, another thing of the same size."""
    one, other = random.sample(DEEDS, 2)
    where = f"style='position: absolute; left: {random.randint(50, 600)}px; top: 300px; width: 160px'"
    return trap(random, "same place", button(one, f"{where} {TRUE_ID}"), button(other, where), "button", one)


def near_name(random: Random) -> Trap:
    """A name that shares its verb, or all but a digit; it was there before, beside the true one, or is new."""
    pair = random.choice(NEAR)
    one, other = pair if random.random() < 0.5 else pair[::-1]
    same = random.choice(("class=btn", "class='btn wide' type=button", ""))
    beside = button(other, same) if random.random() < 0.5 else ""
    return trap(
        random, "near name", button(one, f"{same} {TRUE_ID}") + beside, button(other, same), "button", one
    )


def table(rows: list[tuple[str, str]], cell: Callable[[str], str]) -> str:
    body = "".join(f"<tr><td>{key}</td><td>{amount}</td><td>{cell(key)}</td></tr>" for key, amount in rows)
    return f"<table><tr><th>Number</th><th>Amount</th><th>Action</th></tr>{body}</table>"


def numbered_rows(random: Random) -> list[tuple[str, str]]:
    first = random.randint(1000, 8000)
    return [(f"INV-{first + n}", f"{random.randint(5, 900)}.00 EUR") for n in range(random.randint(3, 6))]


def row_of_another(random: Random) -> Trap:
    """The row is gone; every other row has the same button."""
    rows = numbered_rows(random)
    gone = random.choice(rows)
    word = random.choice(("Approve", "Delete", "Pay", "Edit"))
    before = table(rows, lambda key: button(word, TRUE_ID if key == gone[0] else ""))
    after = table([row for row in rows if row != gone], lambda _key: button(word))
    return trap(random, "row of another", before, after, "button", word, gone[0])


def last_row_of_another(random: Random) -> Trap:
    """One row was there and one row is there: the same button, for something else."""
    (key, _), (other, _) = random.sample(numbered_rows(random), 2)
    word = random.choice(("Approve", "Delete", "Pay", "Edit"))
    who, whom = random.sample(("Acme Ltd", "Miller and Sons", "Northwind", "Blue Harbour", "Zenith Oil"), 2)
    before = table([(f"{key} {who}", "20.00 EUR")], lambda _key: button(word, TRUE_ID))
    after = table([(f"{other} {whom}", "831.00 EUR")], lambda _key: button(word))
    return trap(random, "only row, of another", before, after, "button", word, key)


def link_elsewhere(random: Random) -> Trap:
    """The same words in a list of cards, each with a link of its own; the card is gone."""
    names = random.sample(SECTIONS, random.randint(3, 5))
    gone = random.choice(names)
    word = random.choice(("Details", "Read more", "Open", "Order now"))

    def cards(shown: list[str]) -> str:
        return "".join(
            f"<article><h2>{name}</h2><p>About {name.lower()}</p><a class=more href=/item/{name.lower()} "
            f"{TRUE_ID if name == gone else ''}>{word}</a></article>"
            for name in shown
        )

    left = [name for name in names if name != gone]
    return trap(random, "link elsewhere", cards(names), cards(left), "link", word, gone)


def other_field(random: Random) -> Trap:
    one, other = random.choice(FIELDS)
    same = random.choice(("class=field", "class=field autocomplete=off", "class='field wide' required"))

    def field(label: str, mark: str = "") -> str:
        return f"<form><label>{label} <input {same} {mark}></label></form>"

    return trap(random, "other field", field(one, TRUE_ID), field(other), "textbox", one)


def icon_of_another(random: Random) -> Trap:
    """Pictures on buttons: no text, only a label that people cannot see."""
    names = random.sample(ICONS, 5)
    gone = random.choice(names)

    def bar(shown: list[str]) -> str:
        return "<div role=toolbar>" + "".join(
            f"<button class=icon aria-label={name} {TRUE_ID if name == gone else ''}>"
            "<svg width=16 height=16></svg></button>"
            for name in shown
        )

    left = [name for name in names if name != gone]
    return trap(random, "icon of another", bar(names), bar(left), "button", gone)


def bare_icon(random: Random) -> Trap:
    """Nothing to know it by but its place."""
    count = random.randint(2, 5)
    one = "<button class=icon{}><svg width=16 height=16></svg></button>"
    before = one.format(f" {TRUE_ID}") + one.format("") * count
    return trap(random, "bare icon", before, one.format("") * count, "button", "")


def number_of_another(random: Random) -> Trap:
    """Days of a calendar, pages of a list: the number is all there is."""
    first = random.randint(1, 20)
    numbers = list(range(first, first + random.randint(4, 8)))
    gone = random.choice(numbers)

    def days(shown: list[int]) -> str:
        return "".join(button(str(n), f"class=day {TRUE_ID if n == gone else ''}") for n in shown)

    left = [n for n in numbers if n != gone]
    return trap(random, "number of another", days(numbers), days(left), "button", str(gone))


def other_kind(random: Random) -> Trap:
    """The words are still there, as something that cannot be clicked to any effect."""
    word = random.choice(DEEDS)
    tag = random.choice(("h2", "p", "td", "li", "legend", "strong"))
    after = f"<p>Not possible now:</p><{tag}>{word}</{tag}>"
    return trap(random, "other kind", button(word, f"class=btn {TRUE_ID}"), after, "button", word)


def test_id_reused(random: Random) -> Trap:
    """A mark for tests, left on a button that now does the opposite."""
    one, other = random.choice(OPPOSITES)
    same = "data-testid=main-action class=btn"
    return trap(
        random, "test id reused", button(one, f"{same} {TRUE_ID}"), button(other, same), "button", one
    )


def other_dialog(random: Random) -> Trap:
    """The same word in a dialog that asks something else."""
    asked, other = random.sample(
        (
            "Save changes to the report?",
            "Delete account for ever?",
            "Send 20 EUR to Anna?",
            "Leave this team?",
        ),
        2,
    )
    word = random.choice(("OK", "Yes", "Continue"))

    def dialog(question: str, mark: str = "") -> str:
        return f"<div role=dialog aria-label='{question}'><p>{question}</p>{button(word, mark)}</div>"

    return trap(random, "other dialog", dialog(asked, TRUE_ID), dialog(other), "button", word, asked)


MAKERS: Final[tuple[Maker, ...]] = (
    opposite,
    sibling_in_a_list,
    same_id_other_text,
    same_class_other_text,
    same_place,
    near_name,
    row_of_another,
    last_row_of_another,
    link_elsewhere,
    other_field,
    icon_of_another,
    bare_icon,
    number_of_another,
    other_kind,
    test_id_reused,
    other_dialog,
)
