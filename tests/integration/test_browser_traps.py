"""What is gone is not clicked: generated pages with a tempting wrong element, seen by a real browser."""

from __future__ import annotations

from collections import Counter
from random import Random

import msgspec
import pytest
from tests.integration.browser_house import needs_browser
from tests.integration.test_browser_collector import Eye, eye
from tests.integration.trap_pages import MAKERS, TRUE_ID, Trap, last_row_of_another, traps

from recoup.kernel.healing import floors
from recoup.model.mode import Mode
from recoup.model.outcome import Looking
from recoup.model.policy import Policy
from recoup.model.target import Element, Resolution, Target
from recoup.runtimes.browser.collector import Collection
from recoup.targets.resolver import PageResolver

pytestmark = needs_browser
__all__ = ["eye"]
TRAPS = 200
SEED = 20_240
LEVELS = (0, 1, 2)
FLOORS = floors(Mode.RUNNING, Policy())


def marked(eye: Eye, page: str) -> tuple[Collection, int]:
    seen = eye.see(page)
    (place,) = eye.runner.run(seen.matches(f"[{TRUE_ID}]"))
    return seen, place


def recorded(eye: Eye, page: str) -> Element:
    """The element that is meant, without the mark that tells the test."""
    seen, place = marked(eye, page)
    element = seen.elements[place]
    others = {name: value for name, value in element.attributes.items() if name != TRUE_ID}
    return msgspec.structs.replace(element, attributes=others)


def targets(trap: Trap, known: Element) -> list[Target]:
    """By its description alone; and as somebody wrote it, with what was learnt of it."""
    written = Target(role=trap.role, name=trap.name or None, inside=trap.inside, recorded=known)
    return [Target(recorded=known), *([written] if trap.name else [])]


def resolved(target: Target, seen: Collection, level: int) -> Resolution:
    return PageResolver().resolve(target, seen.elements, Looking(level=level, floors=FLOORS), None)


def test_of_two_hundred_traps_none_is_clicked(eye: Eye) -> None:
    clicked = []
    kinds: Counter[str] = Counter()
    for trap in traps(TRAPS, SEED):
        known = recorded(eye, trap.before)
        assert (known.role, known.name) == (trap.role, trap.name), "the page is what the trap says"
        seen = eye.see(trap.after)
        kinds[trap.kind] += 1
        for target in targets(trap, known):
            for level in LEVELS:
                made = resolved(target, seen, level)
                assert made.chosen or made.reason, "who abstains says why"
                if made.chosen:
                    taken = made.chosen.element
                    clicked.append((trap.kind, level, known.name, taken.name, made.strategy, trap.after))
    assert clicked == []
    assert (sum(kinds.values()), len(kinds)) == (TRAPS, len(MAKERS)), "each kind has its share"


def test_what_is_still_there_is_found_among_what_tempts(eye: Eye) -> None:
    """Whoever never answers clicks nothing wrong either: on the page as it was, everything with a name is found."""
    missed = []
    for trap in traps(2 * len(MAKERS), SEED + 1):
        if not trap.name:
            continue
        known = recorded(eye, trap.before)
        seen, place = marked(eye, trap.before)
        for target in targets(trap, known):
            made = resolved(target, seen, 0)
            if made.chosen is None or made.chosen.index != place:
                missed.append((trap.kind, target.name, made.reason))
    assert missed == []


def test_a_target_that_does_not_say_whose_it_is_is_taken_to_the_letter(eye: Eye) -> None:
    """The only button with these words, in the row of somebody else: say `inside` where that matters."""
    trap = last_row_of_another(Random(SEED))
    known, seen = recorded(eye, trap.before), eye.see(trap.after)
    careless = Target(role=trap.role, name=trap.name, recorded=known)
    careful = msgspec.structs.replace(careless, inside=trap.inside)
    assert resolved(careless, seen, 0).strategy == "exact"
    assert resolved(careful, seen, 0).chosen is None


HEALS = {
    "words added": (
        "<button id=approve class=btn data-true>Approve</button>",
        "<button class=b-77>Approve invoice</button>",
    ),
    "ids and classes renamed, elsewhere": (
        "<div><button id=save class='btn x1'  data-true>Save report</button></div>",
        "<section><p>New</p><div><span><button id=k9 class=css-9>Save report</button></span></div></section>",
    ),
    "words added in every row": (
        "<table><tr><td>INV-1</td><td>20.00</td><td><button data-true>Pay</button></td></tr>"
        "<tr><td>INV-2</td><td>30.00</td><td><button>Pay</button></td></tr></table>",
        "<table><tr><td>INV-1</td><td>20.00</td><td><button>Pay now</button></td></tr>"
        "<tr><td>INV-2</td><td>30.00</td><td><button>Pay now</button></td></tr></table>",
    ),
    "another way to say it": (
        "<a href=/session class=nav data-true>Sign in</a>",
        "<a href=/session class=top>Log in</a>",
    ),
}


@pytest.mark.parametrize("change", HEALS)
def test_what_only_changed_is_healed(eye: Eye, change: str) -> None:
    before, after = HEALS[change]
    around = "<nav><a href=/home>Home</a> <a href=/help>Help</a></nav><h1>Work</h1>{}<p>Words</p>"
    known, seen = recorded(eye, around.format(before)), eye.see(around.format(after))
    made = resolved(Target(recorded=known), seen, 1)
    assert made.chosen is not None, made.reason
    assert made.chosen.element.container.startswith("INV-1") or not made.chosen.element.container
