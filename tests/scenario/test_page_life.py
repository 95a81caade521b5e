"""Pages across gates, kills and resumes, by the real command line and a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.integration.browser_house import needs_browser
from tests.scenario.conftest import Cli, kill, wait_for

from recoup.testing.pages import Answer, Asked, Site

pytestmark = needs_browser
HEAD = "<!doctype html><html lang=en><title>Office</title>"


def sign_in(_site: Site, _asked: Asked) -> Answer:
    return Answer(
        f"{HEAD}<button onclick=\"document.cookie = 'user=ann; path=/'; said.textContent = 'signed in'\">"
        "Sign in</button><p id=said>nobody</p>"
    )


def office(_site: Site, asked: Asked) -> Answer:
    if "user=ann" not in asked.cookie:
        return Answer("<title>Refused</title>who are you?", status=403)
    return Answer(f"{HEAD}<h1>Hello ann</h1>")


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as site:
        site.pages["/sign-in"] = sign_in
        site.pages["/office"] = office
        yield site


def signed_in_then(site: Site, between: str) -> str:
    return f"""
        version: 1
        name: office
        steps:
          - {{id: open, browser: {{goto: "{site.url}/sign-in"}}}}
          - {{id: sign-in, browser: {{click: Sign in}}, expect: [{{text: signed in}}]}}
          {between}
          - {{id: office, browser: {{goto: "{site.url}/office"}}, expect: [{{text: Hello ann}}]}}
    """


def test_whoever_signed_in_before_a_gate_is_signed_in_after_it(cli: Cli, site: Site) -> None:
    plan = cli.plan(signed_in_then(site, "- {id: ask, approve: 'Go on?'}"))
    assert cli("run", plan).code == 5
    assert cli("control", "last", "approve", "--reason", "yes").code == 0
    resumed = cli("resume", "last")
    assert resumed.code == 0, resumed.out + resumed.err


def test_whoever_signed_in_before_a_kill_is_signed_in_after_it(cli: Cli, site: Site) -> None:
    waiting = "- {id: wait, run: 'touch waiting; until test -e go; do sleep 0.02; done'}"
    driver = cli.start("run", cli.plan(signed_in_then(site, waiting)))
    wait_for(cli.folder / "waiting")
    kill(driver)
    (cli.folder / "go").touch()
    resumed = cli("resume", "last")
    assert resumed.code == 0, resumed.out + resumed.err
