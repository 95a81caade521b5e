"""Deeds become plans: names that fit one element, texts that stay as they were typed, no secret."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.target_pages import element, shop

from recoup.documents.plan_file import plan_from_data
from recoup.documents.recorded_plan import recorded_plan
from recoup.kernel.template import substitute
from recoup.model.plan import BrowserAction, BrowserVerb
from recoup.model.recorded import Deed
from recoup.model.target import Element, Target
from recoup.shapes.aria_roles import ROLES
from recoup.targets.exact import find
from recoup.targets.naming import named
from recoup.targets.page import Page

HIDDEN = "-".join(("not", "to", "be", "seen"))
ELEMENT = st.builds(
    lambda tag, text, at, n: element(tag, text, at=at, path=f"/html[1]/body[1]/{tag}[{n}]"),
    st.sampled_from(("a", "button", "input", "li", "div")),
    st.sampled_from(("", "Save", "Delete", "INV-1")),
    st.tuples(st.integers(0, 900), st.integers(0, 900)),
    st.integers(1, 99),
)


def fill(value: str | None, secret: int | None = None, label: str = "PIN") -> Deed:
    field = Target(label=label, recorded=Element(tag="input", label=label))
    return Deed(action=BrowserAction(verb=BrowserVerb.FILL, target=field, value=value), secret=secret)


def clicked(led_to: str) -> Deed:
    action = BrowserAction(verb=BrowserVerb.CLICK, target=Target(role="button", name="Go"))
    return Deed(action=action, led_to=led_to)


def expected(led_to: str) -> object:
    [step] = recorded_plan("p", [clicked(led_to)], str)["steps"]
    return step.get("expect")


@given(st.lists(ELEMENT, min_size=1, max_size=12), st.data())
def test_a_short_name_fits_the_element_and_no_other(page: list[Element], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(page) - 1))
    target = named(page, index, ROLES)
    assert target.recorded == page[index]
    assert target.css is not None or find(target, Page(page)).indices == (index,)


def test_every_element_of_a_shop_gets_a_name_of_its_own() -> None:
    page = shop()
    targets = [named(page, index, ROLES) for index in range(len(page))]
    assert [find(one, Page(page)).indices for one in targets if one.css is None] == [
        (index,) for index, one in enumerate(targets) if one.css is None
    ]


@settings(deadline=None)
@given(st.text(alphabet="ab \n${} }{'\"#:", max_size=40))
def test_what_was_typed_is_typed_again_to_the_letter(text: str) -> None:
    opened = Deed(action=BrowserAction(verb=BrowserVerb.GOTO, value="https://a.example/"))
    plan = plan_from_data(recorded_plan("p", [opened, fill(text)], str))
    action = plan.steps[1].action
    assert isinstance(action, BrowserAction) and action.value is not None
    assert substitute(action.value, {}) == text


def test_a_secret_is_an_input_and_the_same_one_is_the_same_input() -> None:
    def clean(text: str) -> str:
        return text.replace(HIDDEN, "***")

    deeds = [
        fill(None, 0),
        fill(None, 0, "PIN again"),
        fill(None, 1, "Code"),
        fill(HIDDEN, label="Note " + HIDDEN),
    ]
    plan = recorded_plan("p", deeds, clean)
    assert list(plan["inputs"]) == ["pin", "code", "note"]
    assert [step["browser"]["fill"]["value"] for step in plan["steps"]] == [
        *("${{ inputs.pin }}", "${{ inputs.pin }}", "${{ inputs.code }}", "${{ inputs.note }}")
    ]
    assert HIDDEN not in repr(plan)


def test_an_address_is_expected_as_far_as_it_is_sure() -> None:
    assert expected("https://a.example/orders/1001/view") == [{"url": "**/orders/*/view"}]
    assert expected("https://a.example/search?q=1") == [{"url": "**/search?**"}]
    assert expected("https://a.example/app#/items") == [{"url": "**/app#/items"}]
    assert expected("https://a.example/") is None


def test_an_address_or_option_that_looks_like_a_secret_becomes_an_input() -> None:
    """Masked in the plan it would be a different address."""
    goto = Deed(action=BrowserAction(verb=BrowserVerb.GOTO, value=f"https://x.example/?t={HIDDEN}"))
    field = Target(label="Account")
    select = Deed(action=BrowserAction(verb=BrowserVerb.SELECT, target=field, values=(HIDDEN, "plain")))
    plan = recorded_plan("p", [goto, goto, select], lambda text: text.replace(HIDDEN, "[redacted]"))
    assert plan["inputs"] == {"address": {"required": True}, "account": {"required": True}}
    steps = plan_from_data(plan).steps
    actions = [step.action for step in steps if isinstance(step.action, BrowserAction)]
    assert actions[0].value == actions[1].value == "${{ inputs.address }}"
    assert actions[2].values == ("${{ inputs.account }}", "plain")
