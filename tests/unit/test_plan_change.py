"""One target of a plan file is said otherwise: whatever surrounds it stays to the byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoup.documents.plan_change import PlanText, patch_of, read_plan_text, with_target
from recoup.documents.plan_yaml import flow_text, quoted_text
from recoup.errors import NotFound, UsageError
from recoup.model.plan import BrowserAction
from recoup.model.policy import Policy
from recoup.model.target import Box, Element, Target
from recoup.steps.browser.written import target_data

POLICY = Policy()
CONFIRM = Target(role="button", name="Confirm order")
ELEMENT = Element(
    tag="button", role="button", name="Confirm: order, now", classes=("a", "true", "1"), box=Box(1, 2.5, 3, 4)
)


def read(text: str | bytes, name: str = "plan.yaml") -> PlanText:
    from recoup.documents.plan_file import parse_plan

    raw = text.encode() if isinstance(text, str) else text
    return PlanText(Path(name), raw, parse_plan(raw, name))


def changed(text: str, target: Target, step: str = "it") -> str:
    after = with_target(read(text), step, target, POLICY)
    assert after.target(step) == target
    return after.raw.decode()


GO = "  - browser: {goto: 'https://shop.example'}\n"
HEAD = f"version: 1\nname: shop\nsteps:\n{GO}"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{click: {role: button, name: Approve}}", '{click: {role: button, name: Confirm order}}'),
        ("{click: {role: button, name: 'Approve'}}", "{click: {role: button, name: 'Confirm order'}}"),
        ("{click: {name: Approve, double: true}}", "{click: {name: Confirm order, role: button, double: true}}"),
        ("{click: {css: '#a', double: true}}", "{click: {role: button, name: Confirm order, double: true}}"),
        ("{click: {double: true, text: x, css: '#a'}}", "{click: {double: true, role: button, name: Confirm order}}"),
        ("{click: Approve, dialog: accept}", "{click: {role: button, name: Confirm order}, dialog: accept}"),
        ("{click: { near: X, role: button }}", "{click: { name: Confirm order, role: button }}"),
    ],
)  # fmt: skip
def test_between_braces_only_what_changed_is_written_anew(before: str, after: str) -> None:
    text = f"{HEAD}  - id: it   # why\n    browser: {before}  # how\n"
    assert changed(text, CONFIRM) == text.replace(before, after)


def test_on_lines_of_their_own_comments_and_order_stay() -> None:
    text = (
        f"{HEAD}\n  # first\n  - id: it\n    browser:\n      click:  # here\n"
        "        # what it is\n        role: button   # a button\n        css: .old   # gone\n\n"
        '        name: "Approve"   # its name\n        double: true\n    expect: [{text: done}]\n'
    )
    after = text.replace("        css: .old   # gone\n", "").replace('"Approve"', '"Confirm order"')
    assert changed(text, CONFIRM) == after
    text = text.replace('        name: "Approve"   # its name\n', "")
    after = text.replace("css: .old   # gone", "name: Confirm order   # gone")
    assert changed(text, CONFIRM) == after


def test_an_element_in_full_is_written_as_a_block_under_lines_and_in_braces_within_them() -> None:
    target = Target(role="button", name="Confirm order", recorded=ELEMENT)
    text = f"{HEAD}  - id: it\n    browser:\n      click:\n        role: button\n        name: Approve\n"
    block = changed(text, target)
    assert "        recorded:\n          tag: button\n" in block
    again = changed(block, msgspec.structs.replace(target, recorded=Element(tag="a", name="Else")))
    assert again.startswith(block[: block.index("recorded:")])
    assert changed(again, CONFIRM) == text.replace("Approve", "Confirm order")
    flow = changed(f"{HEAD}  - {{id: it, browser: {{click: Approve}}}}\n", target)
    assert len(flow.splitlines()) == len(HEAD.splitlines()) + 1


def test_json_stays_json() -> None:
    data = {
        "version": 1, "name": "shop", "objective": "\U0001f600",
        "steps": [{"browser": {"goto": "https://shop.example"}}, {"id": "it", "browser": {"click": {"role": "button", "name": "Approve"}}}],
    }  # fmt: skip
    for text in (
        json.dumps(data),
        json.dumps(data, indent=2),
        json.dumps(data, ensure_ascii=False, indent="\t"),
    ):
        if "\t" in text:
            continue  # no indentation that YAML knows
        after = changed(text, msgspec.structs.replace(CONFIRM, recorded=ELEMENT))
        said = json.loads(after)["steps"][1]["browser"]["click"]
        assert (said["name"], said["recorded"]["tag"]) == ("Confirm order", "button")
        assert changed(text, CONFIRM) == text.replace("Approve", "Confirm order")


def test_the_first_bytes_and_the_ends_of_lines_stay() -> None:
    text = f"{HEAD}  - id: it\n    browser:\n      click:\n        name: Approve\n    title: x\n".replace(
        "\n", "\r\n"
    )
    before = read(b"\xef\xbb\xbf" + text.encode())
    after = with_target(before, "it", CONFIRM, POLICY).raw
    assert after.startswith(b"\xef\xbb\xbfversion: 1\r\n")
    assert b"role: button\r\n" in after and after.count(b"\n") == after.count(b"\r\n")
    whole = with_target(before, "it", msgspec.structs.replace(CONFIRM, recorded=ELEMENT), POLICY).raw
    assert whole.count(b"\n") == whole.count(b"\r\n")


def test_what_several_steps_share_is_not_changed_for_one() -> None:
    text = (
        f"{HEAD}  - {{id: it, browser: {{click: &one {{name: Approve}}}}}}\n"
        "  - {id: other, browser: {click: *one}}\n"
    )
    with pytest.raises(UsageError, match="cannot be changed alone") as refused:
        changed(text, CONFIRM)
    assert "name: Confirm order" in refused.value.hint
    after = changed(text, CONFIRM, "other")
    assert after == text.replace("*one", "{role: button, name: Confirm order}")


def test_a_plan_that_is_gone_or_lacks_the_step_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="cannot be read"):
        read_plan_text(tmp_path / "none.yaml", POLICY)
    with pytest.raises(NotFound, match="no browser step 'else'"):
        with_target(read(f"{HEAD}  - {{id: it, run: 'true'}}\n"), "else", CONFIRM, POLICY)


def test_a_patch_says_where_no_line_ends() -> None:
    before = read(f"{HEAD}  - {{id: it, browser: {{click: Approve}}}}")
    after = with_target(before, "it", Target(text="Confirm"), POLICY)
    patch = patch_of(before, after, Path())
    assert patch.count("\\ No newline at end of file\n") == 2
    assert patch.startswith("--- a/plan.yaml\n+++ b/plan.yaml\n@@ ")
    assert patch_of(before, before, Path()) == ""


# Whatever surrounds it

WORDS = st.text(
    st.characters(codec="utf-8", exclude_categories=("C", "Z")) | st.just(" "), min_size=1
).filter(lambda words: words.strip() and "${{" not in words and "\x85" not in words)
SHORT_TARGETS = st.builds(
    Target,
    role=st.none() | st.sampled_from(["button", "link"]),
    name=WORDS.map(str.strip),
    text=st.none() | WORDS.map(str.strip),
    test_id=st.none() | WORDS.map(str.strip),
    near=st.none() | WORDS.map(str.strip),
    nth=st.none() | st.integers(-5, 5).filter(bool),
)
TARGETS = st.builds(
    lambda target, full: msgspec.structs.replace(target, recorded=full),
    SHORT_TARGETS,
    st.none()
    | st.builds(Element, tag=st.just("a"), name=WORDS, classes=st.lists(WORDS, max_size=2).map(tuple)),
)
REMARKS = st.sampled_from(["", "  # a remark: {x", "   ", " # 'quoted"])
GAPS = st.lists(st.sampled_from(["", "# ---", "      # deep", "  "]), max_size=2).map(
    lambda lines: "".join(f"{line}\n" for line in lines)
)


QUOTES = st.sampled_from(["", "'", '"'])


@st.composite
def entries(draw: st.DrawFn) -> list[str]:
    """A target and what stands beside it, in any order and in whatever quotes."""
    target = target_data(draw(TARGETS))
    beside: dict[str, Any] = draw(st.sampled_from([{}, {"double": True}, {"button": "right"}]))
    written = []
    for key, value in draw(st.permutations(list((target | beside).items()))):
        quote = draw(QUOTES)
        said = quoted_text(value, quote) if isinstance(value, str) and quote else flow_text(value)
        name = draw(QUOTES)
        written.append(f"{name}{key}{name}: {said}")
    return written


@st.composite
def plans(draw: st.DrawFn) -> tuple[str, str, str]:
    """A plan in three pieces: before the value under `click`, the value, and what follows it."""
    said = draw(entries())
    indent = " " * draw(st.integers(7, 12))
    head = f"{draw(GAPS)}version: 1{draw(REMARKS)}\nname: 'shop'\n{draw(GAPS)}steps:\n{GO}"
    tail = f'{draw(REMARKS)}\n{draw(GAPS)}  - {{id: other,  browser: {{click: "x"}}}}{draw(REMARKS)}'
    tail += draw(st.sampled_from(["", "\n", "\n\n# end"]))
    if draw(st.booleans()):
        opening = f"{head}  - id: it\n    browser: {{ click:  "
        joint = draw(st.sampled_from([", ", " ,  ", f",\n{indent}", f",  # so {{\n\n{indent}"]))
        ending = draw(st.sampled_from(["", " ", f"\n{indent}", ","]))
        return opening, "{" + joint.join(said) + ending + "}", " }" + tail
    opening = f"{head}  - id: it\n    browser:\n      click:{draw(REMARKS)}\n"
    lines = [f"{indent}{one}{draw(REMARKS)}\n{draw(GAPS)}" for one in said]
    last = lines.pop().split("\n")[0]
    return opening, "".join([*lines, last]), tail


@settings(deadline=None)
@given(plans(), TARGETS)
def test_every_byte_outside_the_target_stays(pieces: tuple[str, str, str], target: Target) -> None:
    opening, value, tail = pieces
    before = read(opening + value + tail)
    after = with_target(before, "it", target, POLICY)
    text = after.raw.decode()
    rest = tail.lstrip(" ") if "#" not in tail.split("\n")[0] else tail[tail.index("\n") :]
    assert text.startswith(opening.rstrip("\n ")), "before it"
    assert text.endswith(rest), "behind it"
    assert read(text).plan == after.plan
    for old, new in zip(before.plan.steps, after.plan.steps, strict=True):
        assert isinstance(old.action, BrowserAction) and isinstance(new.action, BrowserAction)
        assert msgspec.structs.replace(old.action, target=None) == msgspec.structs.replace(
            new.action, target=None
        )
        assert new.action.target == (target if new.id == "it" else old.action.target)


@settings(deadline=None)
@given(plans(), TARGETS)
def test_to_say_the_same_again_changes_nothing(pieces: tuple[str, str, str], target: Target) -> None:
    once = with_target(read("".join(pieces)), "it", target, POLICY)
    assert target.recorded is not None or with_target(once, "it", target, POLICY).raw == once.raw


@pytest.mark.parametrize(
    "value",
    [
        " >-\n        Approve\n        all\n",
        "\n        name: >-\n          Approve\n\n          all\n        double: true\n",
        "\n        name: Approve\n          all\n",
        "\n        ? role\n        : button\n        ? name\n        : Approve\n",
        " &here\n        name: Approve\n",
        "\n        near: |-\n          Approve\n        css: a\n        role: button\n",
        " {role: button,\n        name: Approve\n          all }\n",
        '\n        recorded:\n          tag: a\n          name: x   # was\n\n        # then\n        role: "button"\n',
    ],
)
@pytest.mark.parametrize("full", [None, ELEMENT])
def test_whatever_way_it_is_written_it_is_changed_alone(value: str, full: Element | None) -> None:
    opening, tail = f"{HEAD}  - id: it\n    browser:\n      click:", "    # behind\n    expect: [{text: x}]\n"
    after = changed(opening + value + tail, msgspec.structs.replace(CONFIRM, recorded=full))
    assert after.startswith(opening) and after.endswith(tail)
    assert after.count("# then") == value.count("# then")
