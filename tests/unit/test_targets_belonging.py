"""Words beside an element choose it only where they are not the name of another row, card or list item."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.row_pages import FIELDS, NAMELESS, ORDERS, OTHERS, OWN, PAY
from tests.unit.target_html import read
from tests.unit.target_pages import changed, look_for

from recoup.model.target import Element, Resolution, Target


def pay(page: list[Element], **said: str) -> Resolution:
    return look_for(Target(role="button", name="Pay", **said), page)  # type: ignore[arg-type]


@pytest.mark.parametrize("key", ["inside", "near"])
@pytest.mark.parametrize("kind", OTHERS)
def test_a_button_in_the_row_of_another_is_not_taken(kind: str, key: str) -> None:
    made = pay(read(OTHERS[kind]), **{key: "INV-10"})
    assert made.chosen is None, made.reason


@pytest.mark.parametrize("key", ["inside", "near"])
@pytest.mark.parametrize("kind", NAMELESS)
def test_nor_where_the_rows_have_names_without_digits(kind: str, key: str) -> None:
    assert pay(read(NAMELESS[kind]), **{key: "Ann"}).chosen is None


@pytest.mark.parametrize("key", ["inside", "near"])
def test_a_name_of_two_words_is_told_from_another_by_its_digits(key: str) -> None:
    assert pay(read(ORDERS), **{key: "Order 17"}).chosen is None
    assert pay(read(ORDERS), **{key: "Order 18"}).chosen is not None


@pytest.mark.parametrize("kind", OWN)
def test_words_that_name_what_a_button_is_in_choose_it(kind: str) -> None:
    words, page = OWN[kind]
    made = pay(read(page), inside=words)
    assert made.chosen is not None, made.reason


@pytest.mark.parametrize("kind", FIELDS)
def test_a_field_is_in_its_form_whatever_the_layout(kind: str) -> None:
    words, page = FIELDS[kind]
    made = look_for(Target(label="Name", inside=words), read(page))
    assert made.chosen is not None, made.reason


def test_the_reason_says_whose_the_element_is_and_what_to_write() -> None:
    made = pay(read(OTHERS["article"]), inside="INV-10")
    assert made.reason == (
        "1 element matches without `inside`, but it is in 'INV-11 Pay', not in 'INV-10': "
        "name that row or card with `inside`, or use `css`"
    )


@pytest.mark.parametrize("key", ["inside", "near"])
def test_names_that_differ_in_case_only_are_ambiguous(key: str) -> None:
    rows = "".join(f"<tr><td>{name}</td><td>{PAY}</td></tr>" for name in ("INV-10", "inv-10"))
    made = pay(read(f"<table>{rows}</table>"), **{key: "INV-10"})
    assert made.chosen is None and "2 elements match" in made.reason


@pytest.mark.parametrize("kind", OTHERS)
def test_a_recorded_button_is_not_healed_into_the_row_of_another(kind: str) -> None:
    """The record is the very button that is there, but for its words: it was moved."""
    page = read(OTHERS[kind])
    button = next(one for one in page if one.tag == "button")
    known = changed(button, text="Pay now", name="Pay now")
    for level in (0, 1, 2):
        for said in ({"inside": "INV-10"}, {"near": "INV-10"}):
            target = Target(role="button", name="Pay now", recorded=known, **said)  # type: ignore[arg-type]
            assert look_for(target, page, level).chosen is None


REGIONS = (
    "<section><h2>{name}</h2>{rows}</section>",
    "<section><h2>{name} is paid</h2>{rows}</section>",
    "<fieldset><legend>{name}</legend>{rows}</fieldset>",
    "<div role='dialog'><h2>{name}</h2>{rows}</div>",
    "<form><p>{name}</p>{rows}</form>",
    "<article><h3>{name}</h3>{rows}</article>",
    "<ul><li>{name}{rows}</li></ul>",
    "<table><tr><td>{name}</td><td>{rows}</td></tr></table>",
    "<div><b>{name}</b>{rows}</div>",
    "<div class='card'>{name}{rows}</div>",
)
ROWS = (
    ("<table>{}</table>", "<tr><td>{name}</td><td>{button}</td></tr>"),
    ("<ul>{}</ul>", "<li>{name} {button}</li>"),
    ("{}", "<article><h3>{name}</h3>{button}</article>"),
    ("<div>{}</div>", "<div role='row'><span>{name}</span>{button}</div>"),
    ("<div>{}</div>", "<div><b>{name}</b> 20 EUR {button}</div>"),
    ("<div>{}</div>", "<div><p>{name}</p><div>{button}</div></div>"),
    ("{}", "<section><h3>{name}</h3><div>{button}</div></section>"),
)


@st.composite
def invoices(draw: st.DrawFn) -> str:
    """Invoices with their buttons in rows, within regions named after others; INV-10 is somewhere, without a button."""
    names = iter([f"INV-{number}" for number in (*range(11, 20), *range(100, 109))])
    without = st.booleans()

    def rows() -> str:
        around, row = draw(st.sampled_from(ROWS))
        shown = [(next(names), PAY if draw(without) else "Paid") for _ in range(draw(st.integers(1, 3)))]
        if draw(without):
            shown.insert(draw(st.integers(0, len(shown))), ("INV-10", "Paid"))
        return around.format("".join(row.format(name=name, button=button) for name, button in shown))

    parts = []
    for _ in range(draw(st.integers(1, 3))):
        part = rows()
        for _ in range(draw(st.integers(0, 2))):
            name = "INV-10" if draw(without) else "Invoices"
            part = draw(st.sampled_from(REGIONS)).format(name=name, rows=part)
        parts.append(part)
    return "".join(parts)


@given(invoices(), st.sampled_from(["inside", "near"]), st.booleans(), st.integers(0, 2))
def test_where_the_named_row_has_no_button_nothing_is_taken(
    html: str, key: str, is_recorded: bool, level: int
) -> None:
    page = read(html)
    known = next((one for one in page if one.tag == "button"), None) if is_recorded else None
    target = Target(role="button", name="Pay", recorded=known, **{key: "INV-10"})  # type: ignore[arg-type]
    made = look_for(target, page, level)
    assert made.chosen is None, made.chosen.element.xpath
