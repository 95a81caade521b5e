"""`browser`: get the browser that `browser:` steps need."""

from __future__ import annotations

import os

import click

from recoup.cli.output import json_option
from recoup.terminal.writer import note, print_json


@click.group()
def browser() -> None:
    """Get the browser that `browser:` steps need.

    \b
    Examples:
      recoup browser install
      RECOUP_BROWSER=chrome recoup browser install --json
    """


@browser.command()
@click.option("--window", is_flag=True, help="One that can show a window, as `recoup record` needs.")
@json_option
def install(window: bool, as_json: bool) -> None:
    """Find Chromium or Chrome, and install Chromium if there is none.

    Taken is what RECOUP_BROWSER names (a path, or headless-shell, chromium, chrome, chrome-beta, msedge), or Chromium's
    headless shell, Chromium or Chrome of this system, or one that Playwright has downloaded. If there is none: as root
    Debian's package, otherwise Playwright's.

    \b
    Examples:
      recoup browser install
      recoup browser install --window --json
    """
    from recoup.errors import SettingsError
    from recoup.runtimes.browser.finding import (
        browser_version,
        has_library,
        install_browser,
        install_driver_libraries,
    )

    def say(words: str) -> None:
        note(words)

    found = install_browser(os.environ, say, window=window)
    install_driver_libraries(os.environ, say)
    version = browser_version(found)
    if version is None:
        raise SettingsError(
            f"{found.executable} does not start",
            hint="Try it by hand: the libraries that it needs may be missing.",
        )
    library = has_library()
    if as_json:
        print_json(
            {"executable": found.executable, "version": version, "origin": found.origin, "library": library}
        )
    else:
        say(f"{version}: {found.executable}, {found.origin}")
    if not library:
        note("Playwright is missing: pip install 'recoup[browser]'")
