"""Every verb, in a real browser on pages of our own."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from tests.integration.browser_house import LIMITS, BrowserHouse, button, house, needs_browser, shared, site

from recoup.model.failure import FailureKind
from recoup.model.plan import Dialog, PageTextCheck, TargetCheck, TextMatch, TitleCheck, ValueCheck
from recoup.model.policy import Policy
from recoup.model.target import Target
from recoup.testing.pages import Answer, Site

pytestmark = [needs_browser, pytest.mark.asyncio(loop_scope="module")]
__all__ = ["house", "shared", "site"]


async def test_a_click_reaches_the_row_that_was_named(house: BrowserHouse, site: Site) -> None:
    await house.done("goto", value=site.url + "/invoices")
    outcome = await house.done("click", button("Approve", near="INV-1002"))
    assert await house.words("#state") == "Approved 1002"
    assert len(site.posts("/approved")) == 1
    assert outcome.seen is not None and outcome.seen.observed is not None and outcome.seen.page is not None
    assert outcome.seen.observed.id == "approve-1002"
    assert outcome.seen.observed.container == "INV-1002 35.00 EUR"
    assert house.hooks.keepers


async def test_a_row_is_told_by_what_it_holds(house: BrowserHouse, site: Site) -> None:
    await house.done("goto", value=site.url + "/invoices")
    await house.done("click", button("Approve", inside="INV-1003"))
    assert await house.words("#state") == "Approved 1003"


async def test_a_form_is_filled_and_sent(house: BrowserHouse, site: Site) -> None:
    await house.done("goto", value=site.url + "/form")
    await house.done("fill", Target(label="Your name"), value="Ada")
    await house.done("press", Target(label="Your name"), value="End")
    await house.done("fill", Target(label="Note"), value="two\nlines")
    await house.done("select", Target(label="Colour"), values=("Blue",))
    await house.done("check", Target(role="checkbox", name="I agree"))
    await house.done("check", Target(role="radio", name="Large"))
    (house.folder / "paper.txt").write_text("paper")
    await house.done("upload", Target(label="Papers"), values=("paper.txt",))
    assert "End" in await house.words("#keys")
    await house.done("click", Target(test_id="send"))
    assert (await house.words("h1")) == "Thank you"
    form = json.loads(await house.words("pre"))
    assert (
        form["who"] == ["Ada"]
        and form["colour"] == ["b"]
        and form["agree"] == ["on"]
        and form["size"] == ["l"]
    )


async def test_what_is_no_list_is_not_chosen_from_and_nothing_was_done(
    house: BrowserHouse, site: Site
) -> None:
    await house.done("goto", value=site.url + "/form")
    outcome = await house.do("select", button("Send"), values=("one",))
    assert outcome.kind is FailureKind.INVALID_INPUT and outcome.outcome_known is True


async def test_a_box_is_unchecked(house: BrowserHouse, site: Site) -> None:
    url = site.show("/box", "<title>b</title><label><input type=checkbox checked> Loud</label>")
    await house.done("goto", value=url)
    await house.done("uncheck", Target(role="checkbox", name="Loud"))
    held, _ = await house.examine(_checked("Loud", False))
    assert held is True


async def test_a_target_that_is_still_loading_is_waited_for(house: BrowserHouse, site: Site) -> None:
    await house.done("goto", value=site.url + "/slow")
    await house.done("click", button("Pay now"))
    assert await house.words("#said") == "paid"


async def test_a_page_that_draws_itself_anew_is_acted_on_as_it_is_then(
    house: BrowserHouse, site: Site
) -> None:
    await house.done("goto", value=site.url + "/app")
    await house.done("click", Target(role="link", name="Items"))
    for _ in range(3):
        await house.done("click", button("Add"))
    assert await house.words("output") == "3 items"


ROWS_THAT_CHANGE = """<!doctype html><html lang=en><title>Rows</title><table>
<tr><td>INV-10</td><td><input aria-label=Note disabled><button disabled>Pay</button></td></tr>
<tr><td>INV-11</td><td><input aria-label=Note disabled><button disabled>Pay</button></td></tr></table><p id=said></p>
<script>
  const row = (node) => node.closest('tr').cells[0];
  for (const node of document.querySelectorAll('button')) node.onclick = () => { said.textContent = row(node).textContent };
  for (const node of document.querySelectorAll('input')) node.oninput = () => { said.textContent = row(node).textContent };
  setTimeout(() => {
    const [first, second] = document.querySelectorAll('td:first-child');
    [first.textContent, second.textContent] = [second.textContent, first.textContent];
    for (const node of document.querySelectorAll('input, button')) node.disabled = false;
  }, 1200);
</script>"""


@pytest.mark.parametrize("verb", ["click", "fill"])
@pytest.mark.parametrize("key", ["inside", "near"])
async def test_a_row_whose_nodes_become_another_row_is_looked_for_again(
    house: BrowserHouse, site: Site, verb: str, key: str
) -> None:
    """As lists are drawn that reuse the nodes of their rows: what is ready to be acted on belongs to another row."""
    site.pages["/rows"] = lambda _site, _asked: Answer(ROWS_THAT_CHANGE)
    await house.done("goto", value=site.url + "/rows")
    target = button("Pay") if verb == "click" else Target(label="Note")
    target = msgspec.structs.replace(target, **{key: "INV-10"})
    await house.done(verb, target, value="mine" if verb == "fill" else None)
    assert await house.words("#said") == "INV-10"


async def test_a_page_that_never_rests_is_taken_as_it_is(house: BrowserHouse, site: Site) -> None:
    await house.done("goto", value=site.url + "/polling")
    await house.done("click", button("Press"))
    held, _ = await house.examine(_visible(button("Pressed")))
    assert held is True


async def test_frames_and_shadow_roots_are_part_of_the_page(house: BrowserHouse, site: Site) -> None:
    await house.done("goto", value=site.url + "/frames")
    inner = await house.done("click", button("Inner"))
    assert inner.seen is not None and inner.seen.observed is not None and inner.seen.observed.frame == (0,)
    await house.done("click", button("In the shadow"))
    await house.done("fill", Target(label="Deep"), value="down there")
    await house.done("click", button("Other", frame="#other"))
    for words in ("inner clicked", "shadow clicked", "other clicked"):
        held, detail = await house.examine(_text(words))
        assert held is True, detail


async def test_what_is_read_becomes_an_output(house: BrowserHouse, site: Site) -> None:
    await house.done("goto", value=site.url + "/invoices")
    table = await house.done("read", Target(role="table"), into="rows", table=True)
    assert table.outputs["rows"][1] == {"Number": "INV-1002", "Amount": "35.00 EUR", "Action": "Approve"}
    identity = await house.done("read", button("Approve", nth=-1), into="id", attribute="id")
    assert identity.outputs == {"id": "approve-1003"}


async def test_what_is_read_of_a_table_or_a_row_holds_what_its_fields_hold(
    house: BrowserHouse, site: Site
) -> None:
    cells = (
        "<td>INV-10 <b>late</b></td><td>EUR <input value=100></td>"
        "<td><select><option>Draft<option selected>Final</select></td><td><textarea>two\nlines</textarea></td>"
        "<td>paid <input type=checkbox checked></td><td><input type=password value=pass-phrase></td>"
        "<td><input value=unseen hidden><span hidden>unseen</span><button>Pay</button><input type=submit></td>"
    )
    heads = "".join(f"<th>{one}" for one in ("Number", "Total", "State", "Note", "Paid", "Code", "Do"))
    page = f"<table><tr>{heads}<tr id=row>{cells}</table>"
    await house.done("goto", value=site.show("/fields", page))
    table = await house.done("read", Target(role="table"), into="rows", table=True)
    row = {"Number": "INV-10 late", "Total": "EUR 100", "State": "Final", "Note": "two lines"}
    assert table.outputs["rows"] == [{**row, "Paid": "paid checked", "Code": "", "Do": "Pay"}]
    words = await house.done("read", Target(css="#row"), into="row")
    assert words.outputs == {"row": "INV-10 late EUR 100 Final two lines paid checked Pay"}


async def test_a_password_is_never_read(house: BrowserHouse, site: Site) -> None:
    await house.done("goto", value=site.url + "/form")
    outcome = await house.do("read", Target(label="Password"), into="password")
    assert outcome.kind is FailureKind.INVALID_INPUT and not outcome.outputs


async def test_dialogs_are_answered_as_the_plan_says(house: BrowserHouse, site: Site) -> None:
    await house.done("goto", value=site.url + "/dialogs")
    await house.done("click", button("Delete"), dialog=Dialog(accept=True))
    assert await house.words("#said") == "deleted"
    await house.done("click", button("Delete"), dialog=Dialog(accept=False))
    assert await house.words("#said") == "kept"
    await house.done("click", button("Code"), dialog=Dialog(text="4711"))
    assert await house.words("#said") == "4711"


async def test_a_dialog_nobody_expects_is_dismissed_and_named(house: BrowserHouse, site: Site) -> None:
    await house.done("goto", value=site.url + "/dialogs")
    outcome = await house.do("click", button("Delete"))
    assert outcome.kind is FailureKind.DIALOG_BLOCKED and "Really delete?" in outcome.detail
    assert outcome.outcome_known is False
    assert await house.words("#said") == "kept"


async def test_a_download_lies_where_the_plan_wants_it(house: BrowserHouse, site: Site) -> None:
    await house.done("goto", value=site.url + "/downloads")
    await house.done("download", Target(role="link", name="Report"), into="papers/report.csv")
    assert (house.folder / "papers/report.csv").read_text() == "number,amount\n1001,20\n"


@pytest.mark.parametrize("hard", [True, False], ids=["hard", "symbolic"])
async def test_a_download_replaces_a_link_and_is_not_written_through_it(
    house: BrowserHouse, site: Site, hard: bool
) -> None:
    name = f"linked-{hard}.csv"
    precious, link = house.folder.parent / name, house.folder / name
    precious.write_text("kept")
    link.hardlink_to(precious) if hard else link.symlink_to(precious)
    await house.done("goto", value=site.url + "/downloads")
    await house.done("download", Target(role="link", name="Report"), into=name)
    assert precious.read_text() == "kept"
    assert not link.is_symlink()
    assert link.read_text() == "number,amount\n1001,20\n"
    assert not list(house.folder.glob(".*.download"))


async def test_a_download_that_stalls_is_given_up(house: BrowserHouse, site: Site) -> None:
    await house.done("goto", value=site.url + "/downloads")
    outcome = await house.do("download", Target(role="link", name="Stalled"), into="stalled.bin")
    assert outcome.kind is FailureKind.DOWNLOAD_STALLED and outcome.outcome_known is False
    assert not (house.folder / "stalled.bin").exists()


async def test_a_download_that_takes_its_time_is_no_silence(house: BrowserHouse, site: Site) -> None:
    named = {"content-disposition": "attachment; filename=long.bin"}
    site.show("/long.bin", "x" * 900_000, headers=named, kind="application/octet-stream", pieces=9)
    await house.done("goto", value=site.show("/long", "<a href=/long.bin download>Long</a>"))
    policy = Policy(step_timeout_seconds=60, step_idle_timeout_seconds=1.5)
    await house.done("download", Target(role="link", name="Long"), into="long.bin", policy=policy)
    assert (house.folder / "long.bin").stat().st_size == 900_000


async def test_the_limit_of_a_download_is_for_each_of_them(tmp_path: Path, site: Site) -> None:
    house = BrowserHouse(tmp_path, msgspec.structs.replace(LIMITS, download_bytes_max=30))
    try:
        await house.done("goto", value=site.url + "/downloads")
        for name in ("one.csv", "two.csv"):
            await house.done("download", Target(role="link", name="Report"), into=name)
    finally:
        await house.runtime.close()


@pytest.mark.parametrize("name", ["../outside.csv", "/etc/outside.csv", ""])
async def test_a_download_stays_in_the_steps_folder(house: BrowserHouse, site: Site, name: str) -> None:
    await house.done("goto", value=site.url + "/downloads")
    outcome = await house.do("download", Target(role="link", name="Report"), into=name)
    assert outcome.kind is FailureKind.INVALID_INPUT and outcome.outcome_known is True


async def test_tabs_are_opened_and_chosen(house: BrowserHouse, site: Site) -> None:
    await house.done("goto", value=site.url + "/")
    await house.done("click", Target(role="link", name="Invoices"))
    await house.done("tab", value="last")
    assert await house.words("h1") == "Invoices"
    await house.done("tab", value="1")
    assert await house.words("h1") == "Home"
    await house.done("tab", value="/invoices")
    assert await house.words("h1") == "Invoices"
    await house.done("tab", value="new")
    await house.done("goto", value=site.url + "/form")
    assert (await house.do("tab", value="9")).kind is FailureKind.TARGET_NOT_FOUND


async def test_waiting_ends_when_it_is_so(house: BrowserHouse, site: Site) -> None:
    await house.done("goto", value=site.url + "/slow")
    await house.done("wait", Target(text="Please wait"), hidden=True)
    await house.done("wait", button("Pay now"))
    never = await house.do("wait", button("Never"), seconds=0.3)
    assert never.kind is FailureKind.TARGET_NOT_FOUND and "0.3 s" in never.detail


async def test_what_hovers_is_shown(house: BrowserHouse, site: Site) -> None:
    html = "<style>p{visibility:hidden} div:hover p{visibility:visible}</style><div><b>Menu</b><p>Entry</p></div>"
    await house.done("goto", value=site.show("/hover", html))
    await house.done("hover", Target(text="Menu"))
    held, _ = await house.examine(_visible(Target(text="Entry")))
    assert held is True


async def test_two_that_fit_are_not_guessed_between(house: BrowserHouse, site: Site) -> None:
    await house.done("goto", value=site.url + "/invoices")
    outcome = await house.do("click", button("Approve"))
    assert outcome.kind is FailureKind.TARGET_AMBIGUOUS
    assert "target is ambiguous: 3 elements match. Narrow it with `inside`, `near` or `nth`" in outcome.detail
    assert outcome.outcome_known is True and not site.posts("/approved")
    assert outcome.seen is not None
    assert [artifact.name for artifact in outcome.seen.artifacts] == ["failure.jpg", "elements.json"]


async def test_what_is_covered_is_not_clicked_through(house: BrowserHouse, site: Site) -> None:
    html = "<button onclick=\"document.title='through'\">Go</button><div style='position:fixed;inset:0;background:#0008'></div>"
    await house.done("goto", value=site.show("/covered", html))
    outcome = await house.do("click", button("Go"))
    assert outcome.kind is FailureKind.TARGET_BLOCKED and "intercepts" in outcome.detail
    assert outcome.outcome_known is True
    held, _ = await house.examine(_title("through"), 0.2)
    assert held is False


async def test_a_double_click_with_the_right_button_is_one(house: BrowserHouse, site: Site) -> None:
    html = "<button ondblclick=\"s.textContent='double'\" oncontextmenu=\"s.textContent='menu';return false\">B</button><p id=s></p>"
    await house.done("goto", value=site.show("/double", html))
    await house.done("click", button("B"), double=True)
    assert await house.words("#s") == "double"
    await house.done("click", button("B"), button="right")
    assert await house.words("#s") == "menu"


async def test_a_screenshot_is_a_picture(house: BrowserHouse, site: Site) -> None:
    await house.done("goto", value=site.url + "/form")
    outcome = await house.done("screenshot", value="form")
    assert outcome.seen is not None
    picture = outcome.seen.artifacts[0]
    assert picture.name == "form.jpg" and picture.data[:3] == b"\xff\xd8\xff"


def _text(words: str) -> PageTextCheck:
    return PageTextCheck(TextMatch(text=words))


def _title(words: str) -> TitleCheck:
    return TitleCheck(TextMatch(text=words))


def _visible(target: Target) -> TargetCheck:
    return TargetCheck(target)


def _checked(name: str, checked: bool) -> ValueCheck:
    return ValueCheck(Target(role="checkbox", name=name), checked=checked)


async def test_an_upload_follows_no_link_out_of_the_folder(
    house: BrowserHouse, site: Site, tmp_path: Path
) -> None:
    (tmp_path / "beside.txt").write_text("beside")
    (house.folder / "link.txt").symlink_to(tmp_path / "beside.txt")
    (house.folder / "own.txt").write_text("own")
    (house.folder / "near.txt").symlink_to("own.txt")
    await house.done("goto", value=site.url + "/form")
    refused = await house.do("upload", Target(label="Papers"), values=("link.txt",))
    assert refused.kind is FailureKind.INVALID_INPUT
    assert "the link link.txt leaves the folder of the step" in refused.detail
    await house.done("upload", Target(label="Papers"), values=("near.txt",))
    await house.done("upload", Target(label="Papers"), values=(str(tmp_path / "beside.txt"),))
