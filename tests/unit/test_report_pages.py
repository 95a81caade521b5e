"""Pages are safe to open, whatever was printed, and as large as they may be."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from markdown_it import MarkdownIt
from tests.unit.report_material import Story, mode_events

from recoup.model import events as ev
from recoup.model.mode import Mode
from recoup.reports.html import PAGE_BYTES_MAX, html_page
from recoup.reports.markdown import PAGE_CHARS_MAX, code, markdown_page
from recoup.reports.plain import Plain
from recoup.reports.report import Material, Text, report_of
from recoup.reports.view import Heal, Report

HOSTILE = [
    "</pre></code></details><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\"><svg onload=alert(1)>' style='x",
    "]]>--><!-- </title></style></bdi></summary>",
    "&lt;script&gt;&#x3c;script&#62;",
    "``` ```` ` `` ![x](http://a.example/p.png) [y](http://a.example) <http://a.example>",
    "@everyone #123 GH-1 http://a.example www.a.example a@b.example :tada: $x^2$",
    "| a | b |\\| c \\\\| d |",
    "</details>  <details open>  # heading  - item  > quote  1. one  *** ___ ~~~",
    "\x1b[31mred\x1b[0m \x1b]8;;http://a.example\x07x\x1b]8;;\x07 \x00\x07\x08",
    "\u202eevil\u202c \u2066x\u2069 \u200bzero\u200d\ufeff",
    "x" * 20_000,
    "{{7*7}} ${7*7} %s {0}",
    "\\",
    "`",
]


def story_of(words: str, ident: str = "step-a") -> Story:
    """The same run, with these words wherever words of others can stand."""
    story = Story(ident, "b", objective=words, title=words)
    story.fails(0, words=f"one {words}", excerpt=f"printed\n{words}\nmore", reason=words)
    story.tell(
        ev.ControlHandled(
            command_id="c",
            action="pause",
            outcome="accepted",
            reason=words,
            actor=words,
            epoch=1,
            detail=words,
        )
    )
    story.tell(ev.StepSkipped(step_id="b", step_index=1, attempt=None, reason=words))
    story.tell(ev.Escalated(escalation_id="e", reason=words, hint=words, step_id=ident, step_index=0))
    return story


def report_with(words: str, ident: str = "step-a") -> Report:
    story = story_of(words, ident)
    change = ev.WorkflowModeChanged(mode=Mode.DEGRADED, previous=Mode.RUNNING, reason=words, actor=words)
    patch = f"diff --git a/{words} b/{words}\n@@ -1 +1 @@\n-{words}\n+{words}\n"
    material = Material(
        events=story.events,
        workflow_events=mode_events(story, change),
        patches=[Text(words, patch.replace("\r", ""))],
    )
    shown = report_of(material, Plain())
    heal = Heal("+1 s", *(Plain().line(words) for _ in range(4)))
    return Report(**{name: getattr(shown, name) for name in shown.__struct_fields__} | {"heals": (heal,)})


class Structure(HTMLParser):
    """The elements of a page with their attributes, without what they say."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.values: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, tuple(name for name, _ in attrs)))
        self.values += [value or "" for name, value in attrs if name in ("href", "src", "style", "class")]

    def handle_endtag(self, tag: str) -> None:
        self.elements.append((f"/{tag}", ()))


def structure(page: str) -> Structure:
    found = Structure()
    found.feed(page)
    return found


@pytest.mark.parametrize("words", HOSTILE)
def test_a_page_of_hostile_words_is_built_like_a_page_of_harmless_ones(words: str) -> None:
    hostile = structure(html_page(report_with(words), "1"))
    harmless = structure(html_page(report_with("harmless"), "1"))
    assert hostile.elements == harmless.elements
    assert hostile.values == harmless.values


@pytest.mark.parametrize("words", HOSTILE)
def test_hostile_names_break_no_page(words: str) -> None:
    name = words.replace("\n", " ")
    hostile = structure(html_page(report_with("x", name), "1"))
    assert hostile.elements == structure(html_page(report_with("x"), "1")).elements
    assert_harmless(markdown_page(report_with("x", name), "1"))


def test_a_page_asks_for_nothing_and_allows_nothing() -> None:
    page = html_page(report_with("http://a.example/x.png"), "1")
    style = re.search(r"<style>(.*?)</style>", page, re.S)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert style is not None
    assert policy is not None
    hashed = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert policy[1].startswith(f"default-src 'none'; style-src 'sha256-{hashed}'")
    found = structure(page)
    assert not {tag for tag, _ in found.elements} & {
        "script",
        "img",
        "link",
        "iframe",
        "object",
        "form",
        "input",
    }
    assert not [
        name
        for _, names in found.elements
        for name in names
        if name.startswith("on") or name in ("src", "style")
    ]
    assert all(value.startswith("#") for value in found.values if "#" in value or ":" in value)
    assert not re.search(r"url\(|@import|https?:", style[1])


def test_what_cannot_be_seen_is_shown_by_its_number() -> None:
    page = html_page(report_with("\u202eevil\u200b\x1b[31mred"), "1")
    assert "⟨U+202E⟩evil⟨U+200B⟩red" in page
    assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b\x00-\x08\x1b]", page)


def assert_harmless(page: str) -> None:
    """As a Markdown reader sees it: no link, no picture, no markup of others, and their words in code only."""
    reader = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    found = structure(reader.render(page))
    allowed = {"h3", "h4", "p", "code", "strong", "em", "ul", "li", "details", "summary", "b", "pre", "sub"}
    allowed |= {"table", "thead", "tbody", "tr", "th", "td"}
    assert {tag.removeprefix("/") for tag, _ in found.elements} <= allowed
    opened = [tag for tag, _ in found.elements]
    assert opened.count("details") == opened.count("/details")
    outside = re.sub(r"<(code|pre)\b.*?</\1>", "", reader.render(page), flags=re.S)
    assert not re.search(r"@|http|www|:tada:|\$x|#123|alert", outside)
    assert "<!--" not in outside


@pytest.mark.parametrize("words", HOSTILE)
def test_markdown_of_hostile_words_is_words(words: str) -> None:
    page = markdown_page(report_with(words), "1")
    assert_harmless(page)
    rows = [line for line in page.splitlines() if re.match(r"\| [✓✗–·↺▶] \|", line)]
    assert {row.count("|") for row in rows} == {7}


@pytest.mark.parametrize("text", ["", "a", "`", "``a`", "a`", "a\nb", " ` "])
def test_a_code_span_holds_any_text(text: str) -> None:
    rendered = MarkdownIt("commonmark").renderInline(code(text))
    wanted = " ".join(text.split())
    assert rendered == (f"<code>{wanted}</code>" if wanted else "")


def large(steps: int, attempts: int, words: str) -> Material:
    story = Story(*(f"step-{i}-{words[:80]}" for i in range(steps)), title=words)
    for index in range(steps):
        for number in range(attempts):
            text = f"{number} {words}"
            story.fails(index, words=text, excerpt=f"{words}\n" * 100, signature=f"v2:{number}", reason=text)
        story.passes(index)
    patches = [Text(f"step-{i}", "diff --git a/x b/x\n@@ @@\n" + f"+{words}\n" * 3_000) for i in range(20)]
    return Material(events=story.succeeds().events, patches=patches)


@pytest.mark.parametrize(("steps", "attempts"), [(1, 1), (40, 3), (1_000, 3), (3, 400)])
def test_pages_stay_within_their_size_and_say_what_was_left_out(steps: int, attempts: int) -> None:
    shown = report_of(large(steps, attempts, "&\"'<>" * 60), Plain())
    page = html_page(shown, "1")
    assert len(page.encode()) < PAGE_BYTES_MAX
    assert "Left out:" in page
    markdown = markdown_page(shown, "1")
    assert len(markdown) < PAGE_CHARS_MAX
    assert "left out" in markdown
    assert_harmless(markdown)


def test_a_thousand_quiet_steps_are_folded_and_all_there() -> None:
    story = Story(*(f"s{i}" for i in range(1_000)))
    for index in range(1_000):
        if index == 500:
            story.fails(index)
        story.passes(index, 86)
    page = html_page(report_of(Material(events=story.succeeds().events), Plain()), "1")
    assert page.count('<details class="fold">') == 2
    assert "Left out" not in page
    assert ">s999<" in page
    assert len(page) < 1_500_000


def test_a_small_run_has_a_small_page_without_empty_parts() -> None:
    page = html_page(report_of(Material(events=Story("a").passes(0).succeeds().events), Plain()), "1")
    assert "Failures" not in page
    assert "Heals" not in page
    assert "Diffs" not in page
    assert "Left out" not in page
    assert len(page) < 25_000


def test_labels_of_breaks_and_ticks_keep_their_distance() -> None:
    story = Story("a", "b")
    for _ in range(8):
        story.fails(0, 30, delay_s=None).after(20_000)
    page = html_page(report_of(Material(events=story.passes(0, 30).events), Plain()), "1")
    ticks = re.search(r'<svg class="ticks".*?</svg>', page, re.S)
    assert ticks is not None
    labels = re.findall(r'<text x="([\d.]+)%" y="14" class="([^"]*)"', ticks[0])
    places = sorted(float(x) for x, _ in labels)
    assert all(other - one > 5 for one, other in pairwise(places))
    on_a_phone = sorted(float(x) for x, kind in labels if "odd" not in kind)
    assert on_a_phone
    assert all(other - one > 20 for one, other in pairwise(on_a_phone))
