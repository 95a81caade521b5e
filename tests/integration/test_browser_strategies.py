"""What helps where a page is not as it was: other words, the place, patience, and a value in the field's own form."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.integration.browser_house import (
    FLOORS,
    POLICY,
    BrowserHouse,
    button,
    house,
    needs_browser,
    shared,
    site,
)

from recoup.clock import SystemClock
from recoup.kernel.healing import target_digest
from recoup.metrics.measures import STRATEGIES, RunContext, measure
from recoup.model import events as ev
from recoup.model.failure import FailureKind
from recoup.model.ids import run_stream, targets_stream
from recoup.model.outcome import Looking
from recoup.model.plan import (
    BrowserAction,
    BrowserVerb,
    PageTextCheck,
    Repeat,
    Step,
    TextMatch,
    ValueCheck,
)
from recoup.model.run import RunStatus
from recoup.model.storage import Append, Draft, StreamAppend
from recoup.model.target import HealMode, Target
from recoup.testing.house import House, plan_of
from recoup.testing.pages import Answer, Site

pytestmark = [needs_browser, pytest.mark.asyncio(loop_scope="module")]
__all__ = ["house", "shared", "site"]


def says(words: str) -> str:
    return f"onclick=\"said.textContent += ' {words}'\""


def desk(site: Site) -> str:
    """The second version: other words in the same place. A button that nothing announces comes when it is asked for."""
    first = site.version == 1
    enter, save = ("Sign in", "Save all changes") if first else ("Log in", "Save changes")
    book = f"place.innerHTML = `<button {says('booked')}>Book room</button>`"
    late = f"fetch('/ready').then((told) => told.text()).then((told) => {{ if (told) {{ clearInterval(asks); {book} }} }})"
    form = "" if first else "pattern='\\d\\d\\.\\d\\d\\.\\d{4}' placeholder='TT.MM.JJJJ'"
    return (
        "<!doctype html><html lang=de><title>Desk</title><h1>Desk</h1>"
        f"<nav><button {says('entered')}>{enter}</button></nav>"
        f"<main><section><h2>Draft</h2><p>Title</p><button {says('saved')}>{save}</button></section>"
        f"<label>Due <input name=due {form}></label><div id=place></div></main><p id=said>nothing</p>"
        f"<script>const asks = setInterval(() => {late}, 300)</script>"
    )


def click(id: str, name: str, words: str) -> Step:
    action = BrowserAction(verb=BrowserVerb.CLICK, target=button(name))
    return Step(id=id, action=action, expect=(PageTextCheck(TextMatch(text=words)),), repeat=Repeat.SAFE)


def story(url: str, due: str) -> tuple[Step, ...]:
    fill = BrowserAction(verb=BrowserVerb.FILL, target=Target(label="Due"), value="2026-11-16")
    return (
        Step(id="go", action=BrowserAction(verb=BrowserVerb.GOTO, value=url)),
        click("save", "Save all changes", "saved"),
        Step(id="due", action=fill, expect=(ValueCheck(Target(label="Due"), TextMatch(text=due)),)),
    )


async def payloads(home: House, stream: str) -> list[ev.Payload]:
    return [event.payload for event in await home.ledger.read(stream)]


def is_due(home: House) -> Answer:
    """Three seconds after it is first looked for: longer than a page at rest is waited for here."""
    mine = [
        one.at
        for one in list(home.seen)
        if isinstance(one.payload, ev.AttemptLaunched) and one.payload.step_id == "book"
    ]
    is_late = bool(mine) and home.clock.now().boot_us - mine[0].boot_us >= 3_000_000
    return Answer("yes" if is_late else "")


def known_to_be_slow(step: Step) -> ev.TargetTimed:
    """As an earlier run has told it."""
    assert isinstance(step.action, BrowserAction) and step.action.target is not None
    digest = target_digest(step.action.target)
    return ev.TargetTimed(
        step_id=step.id, step_index=4, attempt=1, run_id="run-0", target_digest=digest, took_ms=4000
    )


async def test_each_strategy_helps_is_proven_named_and_counted(
    house: BrowserHouse, site: Site, tmp_path: Path
) -> None:
    policy = msgspec.structs.replace(POLICY, backoff_ms=50)
    home = House(tmp_path, clock=SystemClock(), policy=policy, browser=house.runtime)
    site.pages["/desk"] = lambda site, _asked: Answer(desk(site))
    site.pages["/ready"] = lambda _site, _asked: is_due(home)
    url = site.url + "/desk"
    assert (await home.run(plan_of(*story(url, "2026-11-16")))).status is RunStatus.SUCCEEDED

    site.version = 2
    enter, book = click("enter", "Sign in", "entered"), click("book", "Book room", "booked")
    slow = known_to_be_slow(book)
    part = StreamAppend(targets_stream("workflow"), (Draft(slow.TYPE, home.redactor.seal(slow)),))
    await home.ledger.append(Append(at=home.clock.now(), streams=(part,)))
    before = await payloads(home, targets_stream("workflow"))
    state = await home.run(plan_of(*story(url, "16.11.2026"), book, enter), "run-2")
    assert state.status is RunStatus.SUCCEEDED and state.counts.heals >= 3, (
        "more only if an attempt was repeated"
    )
    events = await home.ledger.read(run_stream("run-2"))
    told = [one.payload for one in events]
    healed = {one.step_id: one for one in told if isinstance(one, ev.TargetHealed)}
    adapted = {one.step_id: one for one in told if isinstance(one, ev.TargetAdapted)}
    ways = {**{k: v.found_by for k, v in healed.items()}, **{k: v.strategy for k, v in adapted.items()}}
    assert ways == {"enter": "semantic", "save": "spatial", "book": "timing", "due": "format"}
    assert all(one.verified for one in healed.values()) and all(one.verified for one in adapted.values())
    assert (adapted["due"].before, adapted["due"].after) == ("9999-99-99", "99.99.9999")
    found = {one.step_id: one.resolution for one in told if isinstance(one, ev.AttemptFinished)}
    names = {name: one.found_by for name, one in found.items() if one is not None}
    assert names == {"book": "exact", "save": "spatial", "due": "exact", "enter": "semantic"}

    counted: Counter[tuple[str, ...]] = Counter()
    for event in events:
        for one in measure(event, RunContext())[0]:
            counted[one.values] += one.measure is STRATEGIES
    assert {key for key, count in counted.items() if count} >= {
        (name, "yes") for name in ("semantic", "spatial", "timing", "format")
    }
    typed = [one.raw for one in events if one.type == "target.adapted"]
    assert typed and not any(b"2026" in raw for raw in typed), "what is typed is in no event"
    kept = [type(one) for one in await payloads(home, targets_stream("workflow"))][len(before) :]
    assert kept.count(ev.TargetTimed) >= 1, "it was slow once more"
    assert 1 <= kept.count(ev.TargetAdapted) < len(typed), (
        "a value in another form counts as a heal of its day; patience does not"
    )


FORM = """<!doctype html><html lang=en><title>Form</title><form onsubmit="return false">
<label>Day <input type=date></label>
<label>Amount <input type=number step=any></label>
<label>Price <input inputmode=decimal pattern="\\d+,\\d\\d"></label>
<label>Phone <input type=tel pattern="[+]?[0-9]+"></label>
<label>US <input pattern="\\d\\d/\\d\\d/\\d{4}"></label>
<label>Any <input></label>
<label>Short <input type=tel maxlength=7></label>
<label>Secret <input type=password pattern="\\d\\d\\.\\d\\d\\.\\d{4}" placeholder="TT.MM.JJJJ"></label>
<label>Picky <input placeholder="TT.MM.JJJJ" aria-invalid=true></label>
<label>Late <input placeholder="TT.MM.JJJJ" onchange="if (this.value[2] !== '.') this.value = ''"></label>
<label>Own <input placeholder="TT.MM.JJJJ" oninput="this.value = this.value.split('-').reverse().join('.')"></label>
</form>
<form novalidate><label>Loose <input pattern="\\d\\d\\.\\d\\d\\.\\d{4}" placeholder="TT.MM.JJJJ"></label></form>"""
PROVEN = Looking(floors=FLOORS, expects=True)


async def filled(house: BrowserHouse, label: str, value: str, **how: Any) -> tuple[str | None, str, str]:
    """What stands there afterwards, how it was rewritten, and what went wrong."""
    made = await house.do("fill", Target(label=label), value=value, **{"looking": PROVEN, **how})
    assert made.seen is not None
    told = made.seen.rewritten
    page = await house.runtime._sessions[house.run_id].current()
    now = await page.get_by_label(label).input_value()
    return now, f"{told.kind} {told.before} {told.after}" if told else "", str(made.kind or "")


FILLS = [
    ("Day", "16.11.2026", "2026-11-16", "date 99.99.9999 9999-99-99"),
    ("Amount", "1.234,50", "1234.50", "number 9.999,99 9999.99"),
    ("Price", "12.50", "12,50", "number 99.99 99,99"),
    ("Phone", "+49 30 12-345", "+493012345", "phone +99 99 99-999 +999999999"),
    ("Short", "030 1234", "0301234", "phone 999 9999 9999999"),
    ("US", "2026-11-16", "2026-11-16", ""),
    ("Any", "2026-11-16", "2026-11-16", ""),
    ("Secret", "2026-11-16", "2026-11-16", ""),
    ("Picky", "2026-11-16", "2026-11-16", ""),
    ("Own", "2026-11-16", "16.11.2026", ""),
    ("Loose", "2026-11-16", "2026-11-16", ""),
]
"""Label, value, what stands there then, and how it was rewritten."""


async def test_a_value_is_typed_as_the_field_asks_for_it_or_as_it_is(house: BrowserHouse, site: Site) -> None:
    await house.done("goto", value=site.show("/form-of-forms", FORM))
    made = [(label, value, *(await filled(house, label, value))) for label, value, _now, _told in FILLS]
    assert made == [(*fill, "") for fill in FILLS]


async def test_a_page_that_judges_later_is_asked_by_the_second_attempt(
    house: BrowserHouse, site: Site
) -> None:
    await house.done("goto", value=site.show("/form-of-forms", FORM))
    assert await filled(house, "Late", "2026-11-16") == ("2026-11-16", "", ""), "nobody has left the field"
    again = await filled(house, "Late", "2026-11-16", attempt=2)
    assert again == ("16.11.2026", "date 9999-99-99 99.99.9999", "")


async def test_it_is_a_heal_and_obeys_what_is_said_of_heals(house: BrowserHouse, site: Site) -> None:
    await house.done("goto", value=site.show("/form-of-forms", FORM))
    left = ("12.50", "", "")
    assert await filled(house, "Price", "12.50", looking=Looking(floors=FLOORS)) == left, (
        "nothing would prove it"
    )
    off = Looking(floors=FLOORS, expects=True, heal=HealMode.OFF)
    assert await filled(house, "Price", "12.50", looking=off) == left
    assert await filled(house, "Day", "16.11.2026", looking=off) == ("", "", "")
    assert await filled(house, "Amount", "1,5", looking=off) == ("", "", "target_blocked")
    assert await filled(house, "Price", "12.50", secret_values=("12.50",)) == left
    report = Looking(floors=FLOORS, expects=True, heal=HealMode.REPORT, limit="ten heals today")
    made = await house.do("fill", Target(label="Price"), value="12.50", looking=report)
    assert (made.kind, made.outcome_known) == (FailureKind.INVALID_INPUT, True)
    assert "takes no number like 99.99; 99,99 would have been typed, but ten heals today" in made.detail
    assert "12.50" not in made.detail
