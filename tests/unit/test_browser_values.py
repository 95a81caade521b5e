"""What the browser's room decides without a browser: patterns, addresses, errors, names, and which program it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.async_api import Error

from recoup.checks.page.kind import glob
from recoup.errors import SettingsError
from recoup.kernel.classify import classify
from recoup.model.failure import Facts, FailureClass, FailureKind
from recoup.model.outcome import Looking
from recoup.model.policy import Policy
from recoup.model.target import Box, Element, Floors, Target
from recoup.runtimes.browser import finding
from recoup.runtimes.browser.finding import driver_hint, driver_trouble, find_browser, needed_browser
from recoup.runtimes.browser.fingerprints import NAMES_MAX, fingerprint, normalised
from recoup.runtimes.browser.trouble import of_error, of_status, was_performed, why_not_ready
from recoup.targets.resolver import PageResolver

PATH_WORDS = st.text(st.sampled_from("abc.-_%?=&"), max_size=6)


@given(st.lists(PATH_WORDS, min_size=1, max_size=5))
def test_a_pattern_without_stars_is_an_address(parts: list[str]) -> None:
    url = "http://x/" + "/".join(parts)
    assert glob(url).fullmatch(url)
    assert not glob(url).fullmatch(url + "/more")
    assert glob("**").fullmatch(url)
    assert bool(glob("http://x/*").fullmatch(url)) == (len(parts) == 1)


@given(st.lists(st.tuples(PATH_WORDS, PATH_WORDS), max_size=4))
def test_the_order_of_parameters_and_the_fragment_do_not_matter(pairs: list[tuple[str, str]]) -> None:
    query = [f"k{re.sub('[^a-z]', '', key)}={re.sub('[^a-z]', '', value)}" for key, value in pairs]
    one = "HTTP://Example.org/a?" + "&".join(query) + "#here"
    other = "http://example.org/a?" + "&".join(reversed(query))
    assert normalised(one) == normalised(other)
    assert normalised(one + "x").startswith("http://example.org/a") and "#" not in normalised(one)


def test_another_page_has_another_fingerprint() -> None:
    buttons = [Element(tag="button", role="button", name=f"b{number}") for number in range(NAMES_MAX + 50)]
    page = fingerprint("http://x/", "t", buttons[:3])
    assert page == fingerprint("http://x/#a", "t", list(reversed(buttons[:3])) + buttons[:1])
    assert page != fingerprint("http://x/", "t", buttons[:2]) and page != fingerprint(
        "http://x/", "u", buttons[:3]
    )
    assert len(fingerprint("http://x/", "t", buttons).names) == NAMES_MAX
    hidden = Element(tag="button", role="button", name="b9", visible=False)
    assert fingerprint("http://x/", "t", [*buttons[:3], hidden]) == page


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("Page.goto: net::ERR_CONNECTION_REFUSED at http://x/", FailureKind.NAVIGATION_FAILED),
        ("Page.goto: net::ERR_NAME_NOT_RESOLVED at http://x/", FailureKind.NAVIGATION_FAILED),
        ("Page.goto: net::ERR_UNSAFE_PORT at http://x/", FailureKind.INVALID_INPUT),
        ("Page.title: Target crashed", FailureKind.BROWSER_CRASHED),
        ("Page.title: Target page, context or browser has been closed", FailureKind.BROWSER_CRASHED),
        ("Connection closed while reading from the driver", FailureKind.CONNECTION_LOST),
        ("Something else", FailureKind.EXCEPTION),
    ],
)
def test_an_error_of_the_library_has_a_kind(words: str, kind: FailureKind) -> None:
    assert of_error(Error(words), "goto x").kind is kind


@pytest.mark.parametrize(
    ("status", "retry_after", "kind", "cls"),
    [
        (400, None, FailureKind.HTTP_ERROR, FailureClass.DETERMINISTIC_CONTRACT),
        (401, None, FailureKind.HTTP_ERROR, FailureClass.DETERMINISTIC_POLICY),
        (403, None, FailureKind.HTTP_ERROR, FailureClass.DETERMINISTIC_POLICY),
        (404, None, FailureKind.HTTP_ERROR, FailureClass.DETERMINISTIC_CONTRACT),
        (418, None, FailureKind.HTTP_ERROR, FailureClass.UNKNOWN),
        (429, None, FailureKind.RATE_LIMITED, FailureClass.COOLDOWN),
        (429, "3", FailureKind.RATE_LIMITED, FailureClass.COOLDOWN),
        (500, None, FailureKind.HTTP_ERROR, FailureClass.TRANSIENT_RUNTIME),
        (503, None, FailureKind.HTTP_ERROR, FailureClass.TRANSIENT_RUNTIME),
        (503, "Wed, 21 Oct 2065 07:28:00 GMT", FailureKind.RATE_LIMITED, FailureClass.COOLDOWN),
        (503, "soon", FailureKind.HTTP_ERROR, FailureClass.TRANSIENT_RUNTIME),
    ],
)
def test_a_status_says_whether_trying_again_can_help(
    status: int, retry_after: str | None, kind: FailureKind, cls: FailureClass
) -> None:
    trouble = of_status(status, "http://x/", retry_after)
    facts = Facts(
        kind=trouble.kind,
        agent_event=trouble.event,
        retry_after_s=trouble.retry_after_s,
        excerpt=trouble.detail,
    )
    assert trouble.kind is kind and classify(facts, Policy()) is cls
    assert str(status) in trouble.detail


def test_the_librarys_log_says_whether_it_was_done_and_why_not() -> None:
    not_done = Error(
        "ElementHandle.click: Timeout 500ms exceeded.\nCall log:\n  - attempting click action\n    - element is not enabled\n  - waiting 500ms"
    )
    assert not was_performed(not_done) and why_not_ready(not_done) == "element is not enabled"
    done = Error(
        "ElementHandle.click: Timeout 500ms exceeded.\nCall log:\n  - attempting click action\n    - performing click action"
    )
    assert was_performed(done)


# Which element


def element(name: str, **more: object) -> Element:
    return Element(tag="button", role="button", name=name, text=name, **more)  # type: ignore[arg-type]


def resolved(target: Target, *elements: Element) -> int | None:
    found = PageResolver().resolve(target, elements, Looking(floors=Floors(0.72, 0)), None)
    return found.chosen.index if found.chosen else None


def test_a_target_is_taken_as_it_is_written() -> None:
    go, stop = element("Go"), element("Stop")
    assert resolved(Target(role="button", name="Go"), stop, go) == 1
    assert resolved(Target(name="  go "), stop, go) == 1
    assert resolved(Target(name="G"), stop, go) is None
    assert resolved(Target(name="Go"), go, go) is None
    assert resolved(Target(name="Go", nth=2), go, go) == 1
    assert resolved(Target(name="Go", nth=-1), go, stop, go) == 2
    assert resolved(Target(name="Go", nth=3), go, go) is None
    assert resolved(Target(name="Go"), element("Go", visible=False), go) == 1


def test_of_nested_ones_with_the_same_words_the_innermost_is_meant() -> None:
    outer = Element(tag="div", text="Save", xpath="/html[1]/div[1]")
    inner = Element(tag="b", text="Save", xpath="/html[1]/div[1]/b[1]")
    assert resolved(Target(text="Save"), outer, inner) == 1


@given(st.permutations(range(5)), st.integers(0, 4))
def test_the_nearest_is_on_the_same_line(order: list[int], wanted: int) -> None:
    """Property: wherever the rows stand, each button belongs to the words beside it."""
    words = [
        Element(tag="td", text=f"INV-{row}", box=Box(0, 30 * at, 60, 20)) for at, row in enumerate(order)
    ]
    buttons = [element("Approve", box=Box(400, 30 * at, 60, 20)) for at in range(5)]
    chosen = resolved(Target(name="Approve", near=f"INV-{wanted}"), *words, *buttons)
    assert chosen == 5 + order.index(wanted)


# Which program


def program(folder: Path, name: str) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o700)
    return str(path)


def test_the_browser_is_found_in_a_fixed_order(tmp_path: Path) -> None:
    environ = {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)}
    assert find_browser(environ) is None
    with pytest.raises(SettingsError, match="recoup browser install"):
        needed_browser(environ)
    own = program(tmp_path, ".cache/ms-playwright/chromium-1234/chrome-linux/chrome")
    assert needed_browser(environ).executable == own
    chrome = program(tmp_path / "bin", "google-chrome")
    assert needed_browser(environ).executable == chrome
    chromium = program(tmp_path / "bin", "chromium")
    assert needed_browser(environ).executable == chromium
    shell = program(tmp_path / "bin", "chromium-headless-shell")
    assert needed_browser(environ).executable == shell
    assert needed_browser(environ, window=True).executable == chromium
    assert needed_browser({**environ, "RECOUP_BROWSER": "chrome"}).executable == chrome
    assert needed_browser({**environ, "RECOUP_BROWSER": own}).executable == own
    for wrong in ("netscape", str(tmp_path / "nothing"), "msedge"):
        with pytest.raises(SettingsError, match="RECOUP_BROWSER"):
            find_browser({**environ, "RECOUP_BROWSER": wrong})


@pytest.mark.parametrize(
    "path", ["chrome-linux/headless_shell", "chrome-headless-shell-linux64/chrome-headless-shell"]
)
def test_a_shell_that_was_downloaded_is_preferred_unless_a_window_is_wanted(
    tmp_path: Path, path: str
) -> None:
    environ = {"PATH": str(tmp_path / "bin"), "PLAYWRIGHT_BROWSERS_PATH": str(tmp_path)}
    shell = program(tmp_path, f"chromium_headless_shell-1234/{path}")
    assert needed_browser(environ).executable == shell
    with pytest.raises(SettingsError, match="recoup browser install --window"):
        needed_browser(environ, window=True)
    whole = program(tmp_path, "chromium-1234/chrome-linux64/chrome")
    assert needed_browser(environ).executable == shell
    assert needed_browser(environ, window=True).executable == whole


@pytest.mark.parametrize(
    ("window", "packages", "words"),
    [
        (False, ["chromium-headless-shell", "chromium"], ["install", "--only-shell", "chromium"]),
        (True, ["chromium"], ["install", "chromium"]),
    ],
)
def test_what_is_installed_can_show_a_window_only_if_one_is_wanted(
    monkeypatch: pytest.MonkeyPatch, window: bool, packages: list[str], words: list[str]
) -> None:
    """Debian's packages first, as root; then what the automation library downloads. Nothing of it is run here."""
    tried: list[list[str]] = []

    def refused(commands: list[list[str]], _environ: object) -> str:
        tried.append(commands[-1])
        return "no"

    monkeypatch.setattr(finding, "_run_all", refused)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda name, path=None: name if name == "apt-get" else None)
    with pytest.raises(SettingsError, match="no browser could be installed"):
        finding.install_browser({"HOME": "/nowhere"}, lambda _: None, window=window)
    assert [one[-1] for one in tried[:-1]] == packages
    assert tried[-1][-len(words) :] == words


def driver_without_a_library(folder: Path) -> dict[str, str]:
    """An environment whose Playwright driver ends as one does on a system that lacks a library."""
    node = folder / "node"
    node.write_text(
        "#!/bin/sh\necho 'node: error while loading shared libraries: libx.so.1: no such file' >&2\nexit 127\n"
    )
    node.chmod(0o755)
    return {"PLAYWRIGHT_NODEJS_PATH": str(node)}


def test_a_driver_that_lacks_a_library_is_named_with_the_package(tmp_path: Path) -> None:
    trouble = driver_trouble(driver_without_a_library(tmp_path))
    assert trouble == "node: error while loading shared libraries: libx.so.1: no such file"
    assert "libatomic1" in driver_hint(trouble)


def test_a_driver_that_starts_has_no_trouble(tmp_path: Path) -> None:
    assert driver_trouble({}) is None
    assert "is not" in str(driver_trouble({"PLAYWRIGHT_NODEJS_PATH": str(tmp_path / "is not there")}))


def test_installing_installs_the_libraries_of_the_driver(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    environ = driver_without_a_library(tmp_path)

    def install(commands: list[list[str]], _environ: object) -> None:
        if commands[-1][:2] == ["apt-get", "install"] and "libatomic1" in commands[-1]:
            (tmp_path / "node").write_text("#!/bin/sh\nexit 0\n")

    monkeypatch.setattr(finding, "_run_all", install)
    monkeypatch.setattr(finding, "_may_use_apt", lambda: False)
    with pytest.raises(SettingsError, match=r"libx\.so\.1"):
        finding.install_driver_libraries(environ, lambda _: None)
    monkeypatch.setattr(finding, "_may_use_apt", lambda: True)
    finding.install_driver_libraries(environ, lambda _: None)
    assert driver_trouble(environ) is None
