"""What the collector says of a page, against what the browser itself and the automation library say of it."""

from __future__ import annotations

import asyncio
import html
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from playwright.async_api import Browser, Error, Page, async_playwright
from tests.integration.browser_house import needs_browser, site

from recoup.model.target import TEXT_MAX, Element
from recoup.runtimes.browser.collector import (
    ELEMENTS_MAX,
    LOOKS_KEPT,
    Collection,
    collect,
    is_same,
)
from recoup.runtimes.browser.finding import needed_browser
from recoup.testing.pages import Site

pytestmark = needs_browser
__all__ = ["site"]
NAMES = """
<button>Plain</button> <button aria-label="By label">x</button> <button><img alt="By picture" src=x></button>
<span id=words>By reference</span><button aria-labelledby="words">y</button> <button title="By title"></button>
<button><span aria-hidden=false>In</span> <b>parts</b></button> <a href=#>A link</a> <a>No link</a>
<input type=submit value="Send it"> <input type=reset> <input type=checkbox id=c><label for=c>A box</label>
<label>Around <input></label> <input placeholder="Only a hint"> <input aria-label="Search here" type=search>
<select aria-label=Choose><option>One</option></select> <textarea aria-label=Notes></textarea>
<div role=button tabindex=0>A div</div> <div role=tab>Tab one</div> <div role=switch aria-checked=false>Dark</div>
<h2>A <em>heading</em></h2> <img alt="A picture" src=x> <input type=range aria-label=Loudness>
<input type=number aria-label=Count> <input type=radio aria-label=This>
<svg role=img aria-label=Logo width=9 height=9></svg> <div role=menuitem>Open</div>
"""


@dataclass
class Eye:
    """A page of a real browser, and a loop to speak to it."""

    runner: asyncio.Runner
    page: Page

    def see(self, content: str) -> Collection:
        self.runner.run(self.page.set_content(content))
        return self.runner.run(collect(self.page.main_frame))


@pytest.fixture(scope="module")
def eye() -> Iterator[Eye]:
    with asyncio.Runner() as runner:

        async def begin() -> tuple[object, Browser, Page]:
            manager = async_playwright()
            playwright = await manager.start()
            program = needed_browser(os.environ).executable
            browser = await playwright.chromium.launch(
                executable_path=program, chromium_sandbox=os.geteuid() != 0
            )
            return playwright, browser, await browser.new_page()

        playwright, browser, page = runner.run(begin())
        yield Eye(runner, page)
        runner.run(browser.close())
        runner.run(playwright.stop())  # type: ignore[attr-defined]


def test_roles_and_names_are_those_that_the_library_computes(eye: Eye) -> None:
    """Asked for by role and exact name, the library must find the very node."""
    seen = eye.see(NAMES)
    named = [(place, one) for place, one in enumerate(seen.elements) if one.role and one.name]
    assert len(named) >= 26

    async def wrong() -> list[tuple[str, str]]:
        missed = []
        for place, one in named:
            found = eye.page.get_by_role(one.role, name=one.name, exact=True)  # type: ignore[arg-type]
            node = await seen.node(place)
            same = [
                await handle.evaluate("(one, other) => one === other", node)
                for handle in await found.element_handles()
            ]
            if not any(same):
                missed.append((one.role, one.name))
        return missed

    assert eye.runner.run(wrong()) == []


WORDS = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Cf", "Zs", "Zl", "Zp", "Mn", "Co")),
    max_size=8,
)
TREES = st.recursive(
    WORDS.map(html.escape),
    lambda inside: st.tuples(
        st.sampled_from(["span", "b", "em", "div", "p"]), st.lists(inside, max_size=3)
    ).map(lambda pair: f"<{pair[0]}>{' '.join(pair[1])}</{pair[0]}>"),
    max_leaves=6,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TREES, TREES)
def test_text_is_what_the_browser_shows(eye: Eye, first: str, second: str) -> None:
    """Property: the words of an element are those of innerText, white space collapsed."""
    seen = eye.see(f"<section>{first} <i>{second}</i></section><p hidden>unseen</p>")
    shown = eye.runner.run(eye.page.evaluate("document.querySelector('section').innerText"))
    said = next(one for one in seen.elements if one.tag == "section").text
    assert said.split() == shown.split()


def test_nothing_that_was_typed_is_collected(eye: Eye) -> None:
    typed = "typed-" + secrets.token_hex(6)
    seen = eye.see(
        "<label>A <input id=a></label><textarea id=b></textarea><div id=c contenteditable>x</div><input type=password id=d>"
        "<select id=e><option>one</option></select><div data-replicated-value=x id=f></div>"
    )
    for field in "abcd":
        eye.runner.run(eye.page.fill(f"#{field}", typed))
    eye.runner.run(eye.page.evaluate("(words) => f.dataset.replicatedValue = words", typed))
    seen = eye.runner.run(collect(eye.page.main_frame))
    assert len(seen.elements) >= 6
    assert typed not in repr(seen.elements)


def test_boxes_are_where_things_are_on_the_whole_page(eye: Eye, site: Site) -> None:
    eye.runner.run(eye.page.goto(site.url + "/frames"))
    eye.runner.run(eye.page.wait_for_load_state("networkidle"))
    eye.runner.run(eye.page.evaluate("document.body.style.height = '3000px', window.scrollTo(0, 50)"))
    seen = eye.runner.run(collect(eye.page.main_frame))
    place = next(at for at, one in enumerate(seen.elements) if one.name == "Inner")
    inner = seen.elements[place]
    box = eye.runner.run(eye.page.frame(name="inner").locator("button").bounding_box())  # type: ignore[union-attr]
    scrolled = eye.runner.run(eye.page.evaluate("window.scrollY"))
    assert inner.frame == (0,) and box is not None
    assert abs(inner.box.x - box["x"]) < 1 and abs(inner.box.y - box["y"] - scrolled) < 1
    node = eye.runner.run(seen.node(place))
    assert node is not None and eye.runner.run(node.inner_text()) == "Inner"
    shadow = next(one for one in seen.elements if one.name == "In the shadow")
    assert "/shadow/" in shadow.xpath


def test_what_is_around_an_element_tells_it_from_its_like(eye: Eye, site: Site) -> None:
    eye.runner.run(eye.page.goto(site.url + "/invoices"))
    seen = eye.runner.run(collect(eye.page.main_frame))
    buttons = [one for one in seen.elements if one.role == "button"]
    assert [one.container for one in buttons] == [
        "INV-1001 20.00 EUR",
        "INV-1002 35.00 EUR",
        "INV-1003 7.00 EUR",
    ]
    assert buttons[1].neighbours[:2] == ("35.00 EUR", "INV-1003")
    assert buttons[0].ancestors[:3] == ("cell", "row", "rowgroup")
    assert buttons[0].id_xpath == '//*[@id="approve-1001"]'


def test_hidden_and_disabled_are_told(eye: Eye) -> None:
    seen = eye.see(
        "<button style='display:none'>a</button><button style='visibility:hidden'>b</button><button disabled>c</button>"
        "<fieldset disabled><button>d</button></fieldset><div aria-disabled=true><button>e</button></div><button>f</button>"
        "<div style='height:0;overflow:hidden'><p>g</p></div>"
    )
    of = {one.text: (one.visible, one.enabled) for one in seen.elements if one.tag == "button"}
    assert of == {
        "a": (False, True),
        "b": (False, True),
        "c": (True, False),
        "d": (True, False),
        "e": (True, False),
        "f": (True, True),
    }


def test_an_element_is_known_again_until_it_changes(eye: Eye) -> None:
    seen = eye.see("<main><button id=x>Go</button></main>")

    def button(collection: Collection) -> Element:
        return next(one for one in collection.elements if one.tag == "button")

    def after(change: str) -> Element:
        eye.runner.run(eye.page.evaluate(change))
        return button(eye.runner.run(collect(eye.page.main_frame)))

    assert is_same(after("x.style.marginLeft = '40px'"), button(seen))
    assert not is_same(after("x.textContent = 'Delete'"), button(seen))


def test_a_page_without_end_is_looked_at_in_part(eye: Eye) -> None:
    seen = eye.see("<p>" + "word " * 5000 + "</p>" + "<b>x</b>" * (ELEMENTS_MAX + 500))
    assert seen.truncated and len(seen.elements) <= ELEMENTS_MAX
    assert max(len(one.text) for one in seen.elements) <= TEXT_MAX


def test_every_look_has_its_own_nodes_and_only_the_last_ones_are_held(eye: Eye) -> None:
    first = eye.see("<main><button id=x>First</button></main>")
    eye.runner.run(eye.page.evaluate("x.outerHTML = '<button id=y>Second</button>'"))
    second = eye.runner.run(collect(eye.page.main_frame))
    texts = [eye.runner.run(words_of(look, "button")) for look in (first, second)]
    assert texts == ["First", "Second"]
    for _ in range(LOOKS_KEPT - 1):
        eye.runner.run(collect(eye.page.main_frame))
    assert eye.runner.run(words_of(second, "button")) == "Second"
    with pytest.raises(Error):
        eye.runner.run(words_of(first, "button"))


def test_a_new_document_is_looked_at_with_new_eyes(eye: Eye, site: Site) -> None:
    for path, tag in (("/frames", "iframe"), ("/invoices", "table"), ("/frames", "iframe")):
        eye.runner.run(eye.page.goto(site.url + path))
        seen = eye.runner.run(collect(eye.page.main_frame))
        assert seen.url.endswith(path)
        assert eye.runner.run(words_of(seen, tag)) is not None


async def words_of(seen: Collection, tag: str) -> str | None:
    node = await seen.node(next(at for at, one in enumerate(seen.elements) if one.tag == tag))
    return await node.text_content() if node else None


def test_nothing_is_left_in_the_page(eye: Eye) -> None:
    eye.runner.run(eye.page.set_content("<p>x</p>"))
    before = eye.runner.run(eye.page.evaluate("[Object.keys(window), document.documentElement.outerHTML]"))
    eye.runner.run(collect(eye.page.main_frame))
    assert (
        eye.runner.run(eye.page.evaluate("[Object.keys(window), document.documentElement.outerHTML]"))
        == before
    )
