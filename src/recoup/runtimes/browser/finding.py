"""Which browser there is on this machine, and how to get one. Imports nothing of the automation library: `doctor` and
`browser install` must work where that is missing."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from recoup.errors import SettingsError

VARIABLE: Final = "RECOUP_BROWSER"
_CHANNELS: Final = {
    "headless-shell": ("chromium-headless-shell", "chrome-headless-shell"),
    "chromium": ("chromium", "chromium-browser"),
    "chrome": ("google-chrome-stable", "google-chrome"),
    "chrome-beta": ("google-chrome-beta",),
    "chrome-unstable": ("google-chrome-unstable",),
    "msedge": ("microsoft-edge-stable", "microsoft-edge"),
}
_SYSTEM: Final = ("headless-shell", "chromium", "chrome")
"""Channels that are taken without being asked for, in this order. The first can show no window."""
_OWN: Final = ("chromium_headless_shell-*/chrome-*/*headless*shell", "chromium-*/chrome-linux*/chrome")
"""Where the automation library keeps those that it downloads, likewise."""
_BEHIND: Final = {"/usr/bin/chromium-headless-shell": "/usr/lib/chromium/chromium-headless-shell"}
"""Debian's script waits for the program instead of becoming it: whoever killed the script would leave the browser."""
_DRIVER_PACKAGES: Final = ("libatomic1",)
"""Debian's packages with the libraries that Playwright's driver needs and a minimal system lacks."""
_INSTALL_S: Final = 900
_VERSION_S: Final = 20


@dataclass(frozen=True, slots=True)
class FoundBrowser:
    executable: str
    origin: str
    """How it was found, in words."""


def find_browser(environ: Mapping[str, str], *, window: bool = False) -> FoundBrowser | None:
    """The one that is asked for, or the first there is. Raises SettingsError if the former is not there.

    `window`: it must be able to show one."""
    wanted = environ.get(VARIABLE, "").strip()
    if wanted:
        return _wanted(wanted, environ)
    for channel in _SYSTEM[window:]:
        if executable := _channel(channel, environ):
            return FoundBrowser(executable, "installed on this system")
    own = next(filter(None, (_downloaded(pattern, environ) for pattern in _OWN[window:])), None)
    return FoundBrowser(own, "downloaded by Playwright") if own else None


def needed_browser(environ: Mapping[str, str], *, window: bool = False) -> FoundBrowser:
    found = find_browser(environ, window=window)
    if found is None:
        what, how = ("Chromium that can show a window", " --window") if window else ("Chromium", "")
        raise SettingsError(
            f"there is no {what} on this machine", hint=f"Get one: recoup browser install{how}"
        )
    return found


def has_library() -> bool:
    return importlib.util.find_spec("playwright") is not None


def browser_version(found: FoundBrowser) -> str | None:
    """What it says of itself; None: it does not start."""
    try:
        said = subprocess.run(
            [found.executable, "--version"], capture_output=True, timeout=_VERSION_S, check=True, text=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return said.stdout.strip() or None


def driver_trouble(environ: Mapping[str, str]) -> str | None:
    """Why Playwright's driver, a Node program of its own, does not start; None if it does or is not installed."""
    node = _driver(environ)
    if node is None:
        return None
    try:
        subprocess.run([node, "--version"], capture_output=True, timeout=_VERSION_S, check=True)
    except subprocess.CalledProcessError as error:
        return _last_line(error.stderr.decode(errors="replace")) or f"exit code {error.returncode}"
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return None


def driver_hint(trouble: str) -> str:
    if "shared librar" in trouble:
        return f"Install the library that is missing: recoup browser install (Debian: {' '.join(_DRIVER_PACKAGES)})"
    return "Reinstall it: pip install --force-reinstall 'recoup[browser]'"


def install_driver_libraries(environ: Mapping[str, str], say: Callable[[str], None]) -> None:
    """Makes Playwright's driver start, or raises SettingsError with the reason why it does not."""
    trouble = driver_trouble(environ)
    if trouble is not None and _may_use_apt():
        say(f"installing {' '.join(_DRIVER_PACKAGES)}, which Playwright's driver needs")
        _run_all(_apt_commands(*_DRIVER_PACKAGES), environ)
        trouble = driver_trouble(environ)
    if trouble is not None:
        raise SettingsError(f"Playwright's driver does not start: {trouble}", hint=driver_hint(trouble))


def install_browser(
    environ: Mapping[str, str], say: Callable[[str], None], *, window: bool = False
) -> FoundBrowser:
    """Get one if there is none: Debian's package where that may be installed, the automation library's otherwise."""
    found = find_browser(environ, window=window)
    if found is not None:
        return found
    tried: list[str] = []
    for words, commands in _ways(window):
        say(words)
        problem = _run_all(commands, environ)
        found = find_browser(environ, window=window)
        if found is not None:
            return found
        tried.append(f"{' '.join(commands[-1])}: {problem or 'no browser was found afterwards'}")
    raise SettingsError(
        "no browser could be installed" + "".join(f"\n  {line}" for line in tried),
        hint=f"Install Chromium or Chrome by other means, and name it if it is not found: {VARIABLE}=/path/to/it",
    )


def _ways(window: bool) -> list[tuple[str, list[list[str]]]]:
    ways: list[tuple[str, list[list[str]]]] = []
    if _may_use_apt():
        # Older Debians have no package of the shell alone.
        for package in ("chromium-headless-shell", "chromium")[window:]:
            ways.append((f"installing Debian's package {package} (about 40 s)", _apt_commands(package)))
    if has_library():
        # With `--only-shell` it leaves out the other, which is twice as large.
        download = [
            sys.executable,
            "-m",
            "playwright",
            "install",
            *([] if window else ["--only-shell"]),
            "chromium",
        ]
        ways.append(("downloading Playwright's Chromium", [download]))
    return ways


def _may_use_apt() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def _apt_commands(*packages: str) -> list[list[str]]:
    install = ["apt-get", "install", "-qq", "-y", "--no-install-recommends", *packages]
    return [["apt-get", "update", "-qq"], install]


def _driver(environ: Mapping[str, str]) -> str | None:
    """The Node program that Playwright starts."""
    spec = importlib.util.find_spec("playwright")
    if spec is None or not spec.submodule_search_locations:
        return None
    return environ.get("PLAYWRIGHT_NODEJS_PATH") or str(
        Path(spec.submodule_search_locations[0], "driver", "node")
    )


def _run_all(commands: list[list[str]], environ: Mapping[str, str]) -> str | None:
    """What the last words of the one that failed were; None: all ended well."""
    for command in commands:
        try:
            done = subprocess.run(
                command,
                env={**environ, "DEBIAN_FRONTEND": "noninteractive"},
                capture_output=True,
                timeout=_INSTALL_S,
                check=False,
                text=True,
                errors="replace",
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        if done.returncode:
            return _last_line(done.stderr or done.stdout) or f"exit code {done.returncode}"
    return None


def _last_line(output: str) -> str:
    return output.strip().rpartition("\n")[2]


def _wanted(wanted: str, environ: Mapping[str, str]) -> FoundBrowser:
    executable = wanted if "/" in wanted and os.access(wanted, os.X_OK) else _channel(wanted, environ)
    if executable is None:
        raise SettingsError(
            f"{VARIABLE} names {wanted}, which is not here",
            hint=f"Give the path of a browser, or one of {', '.join(_CHANNELS)}; or leave it out.",
        )
    return FoundBrowser(executable, f"named by {VARIABLE}")


def _channel(name: str, environ: Mapping[str, str]) -> str | None:
    path = environ.get("PATH")
    found = next(
        filter(None, (shutil.which(program, path=path) for program in _CHANNELS.get(name, ()))), None
    )
    behind = _BEHIND.get(found or "")
    return behind if behind and os.access(behind, os.X_OK) else found


def _downloaded(pattern: str, environ: Mapping[str, str]) -> str | None:
    folder = environ.get("PLAYWRIGHT_BROWSERS_PATH") or Path(environ.get("HOME", "/"), ".cache/ms-playwright")
    found = sorted(str(path) for path in Path(folder).glob(pattern) if os.access(path, os.X_OK))
    return found[-1] if found else None
