"""The tools of openchrome's plans that this version can do otherwise: one table, one function each.

Most tools that drive a browser name elements by a sentence or by a number that was given a moment before: neither says
which element is meant on another day, so they are left to a person. Those in `PAGE_TOOLS` say it exactly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from recoup.documents.openchrome_names import NotTurned, names_in
from recoup.documents.openchrome_shape import CompiledStep
from recoup.shapes.forms import WORD_BYTES_MAX
from recoup.shapes.tree import clipped

PAUSE_MAX_MS = 60_000
"""openchrome refuses to wait longer."""

_EVERYWHERE = frozenset(("tabId",))
"""Arguments that name a tab of the browser and mean nothing to other tools."""


class Work(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool becomes: a script with its environment, something done in a browser, or a question to a person."""

    run: str = ""
    browser: Mapping[str, Any] = {}
    env: Mapping[str, str] = {}
    ask: str = ""
    gives: bool = True
    """It prints what the tool would have given."""
    left_out: tuple[str, ...] = ()
    """Arguments without which it does the same here."""


class Call:
    """One use of a tool: its arguments, and how to say the texts among them."""

    def __init__(
        self,
        step: CompiledStep,
        value: Callable[[str], str],
        script: Callable[[str], str],
        shown: Callable[[str], str],
    ) -> None:
        self._left = {name: arg for name, arg in step.args.items() if name not in _EVERYWHERE}
        self.tool = step.tool
        self.value = value
        self.script = script
        self.shown = shown

    def take(self, name: str) -> Any:
        return self._left.pop(name, None)

    def text(self, name: str) -> str:
        """Raises NotTurned when there is none."""
        value = self.take(name)
        if not isinstance(value, str) or not value.strip():
            raise NotTurned(f"`{self.tool}` has no `{name}` in its arguments, or one that is no text")
        return value

    def no_more(self) -> None:
        """What nobody took would be lost. Raises NotTurned."""
        if self._left:
            names = ", ".join(f"`{clipped(name)}`" for name in list(self._left)[:10])
            raise NotTurned(f"`{clipped(self.tool)}` has arguments that cannot be said here: {names}")


def work_of(call: Call) -> Work:
    """Raises NotTurned with the reason."""
    turn = TOOLS.get(call.tool)
    if turn is None:
        raise NotTurned(_why_not(call.tool))
    work = turn(call)
    call.no_more()
    return work


def _why_not(tool: str) -> str:
    if tool in BROWSER_TOOLS:
        return f"`{tool}` drives a browser in a way that cannot be said exactly here"
    return f"`{clipped(tool)}` is no tool that is known here"


def _shell(call: Call) -> Work:
    return Work(run=call.script(call.text("command")))


_CURL = """curl --fail --silent --show-error --location --globoff --proto =http,https -- "$URL\""""


def _fetch(call: Call) -> Work:
    method = call.take("method")
    if method is not None and str(method).upper() != "GET":
        raise NotTurned(f"`{call.tool}` with method {clipped(str(method))}: only GET is turned")
    return Work(run=_CURL, env={"URL": carried(call.value(call.text("url")))})


def _python(call: Call) -> Work:
    code = call.text("code")
    said = call.value(code)
    if said.count("${{") != code.count("${{"):
        raise NotTurned(
            f"the code of `{call.tool}` is put together from values ({_names(code)}), which would make code of data"
        )
    return Work(run='python3 -c "$CODE"', env={"CODE": carried(said)})


def _names(code: str) -> str:
    return ", ".join(f"`{clipped(name)}`" for name in dict.fromkeys(names_in(code)))


def _wait_for(call: Call) -> Work:
    kind = call.take("type")
    if kind in _SELECTORS:
        return _wait_for_element(call, hidden=kind == "selector_hidden")
    if kind != "timeout":
        raise NotTurned(f"`wait_for` {clipped(str(kind))} watches a page in a way that cannot be said here")
    call.take("timeout")
    return _pause(call.take("value"), 1)


_SELECTORS = ("selector", "selector_hidden")


def _wait_for_element(call: Call, *, hidden: bool) -> Work:
    """openchrome is content when the element exists; here it must be seen."""
    left_out = tuple(name for name in ("timeout", "visible", "pollIntervalMs") if call.take(name) is not None)
    target = {"css": call.value(call.text("value")), **({"hidden": True} if hidden else {})}
    return Work(browser={"wait": target}, gives=False, left_out=left_out)


def _computer(call: Call) -> Work:
    match call.take("action"):
        case "wait":
            return _pause(call.take("duration"), 1_000)
        case "key":
            return Work(browser={"press": call.value(call.text("text"))}, gives=False)
    raise NotTurned(_why_not("computer"))


def _navigate(call: Call) -> Work:
    address = call.text("url")
    if address in ("back", "forward"):
        raise NotTurned(f"`navigate` {address} depends on where the browser has been: name the page")
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:(?![0-9])|\$\{", address) is None:
        address = f"https://{address}"
    left_out = tuple(name for name in _ABOUT_THE_VISIT if call.take(name) is not None)
    return Work(browser={"goto": call.value(address)}, gives=False, left_out=left_out)


_ABOUT_THE_VISIT = (
    "workerId",
    "timeout",
    "waitUntil",
    "stealth",
    "stealthSettleMs",
    "headed",
    "profileDirectory",
)


def _pause(amount: Any, unit_ms: int) -> Work:
    text = str(1_000 if amount is None and unit_ms == 1 else amount)
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text) is None or float(text) * unit_ms > PAUSE_MAX_MS:
        raise NotTurned(f"waits for {clipped(text)}, which is no length of time up to a minute")
    return Work(run=f"sleep {float(text) * unit_ms / 1000:g}", gives=False)


def _handoff(call: Call) -> Work:
    hint = call.take("resume_hint")
    words = [call.text("reason"), *([str(hint)] if hint else [])]
    about = tuple(name for name in _ABOUT_THE_TAB if call.take(name) is not None)
    return Work(ask=call.shown("\n".join(words)), gives=False, left_out=about)


_ABOUT_THE_TAB = ("run_id", "session_id", "tab_id", "before", "ttl_ms")


def carried(text: str) -> str:
    """Raises NotTurned when no process can be given this."""
    if len(text.encode()) > WORD_BYTES_MAX:
        raise NotTurned(f"holds a text of more than {WORD_BYTES_MAX:,} bytes, which no process can be given")
    return text


TOOLS: Mapping[str, Callable[[Call], Work]] = {
    **dict.fromkeys(("shell", "bash", "run_command", "execute_command"), _shell),
    **dict.fromkeys(("fetch", "http_get", "http_fetch", "http_request"), _fetch),
    **dict.fromkeys(("python", "python_eval"), _python),
    "wait_for": _wait_for,
    "computer": _computer,
    "navigate": _navigate,
    "oc_handoff_start": _handoff,
}
PAGE_TOOLS = frozenset(("navigate", "wait_for", "computer"))
"""Those of them that may do something in a browser."""

BROWSER_TOOLS = frozenset(
    (
        "act",
        "batch_execute",
        "batch_paginate",
        "click",
        "click_element",
        "computer",
        "console_capture",
        "cookies",
        "crawl",
        "crawl_sitemap",
        "drag_drop",
        "emulate_device",
        "extract_data",
        "file_upload",
        "fill",
        "fill_form",
        "find",
        "form_input",
        "geolocation",
        "http_auth",
        "inspect",
        "interact",
        "javascript_tool",
        "lightweight_scroll",
        "network",
        "network_capture_full",
        "network_capture_lite",
        "oc_assert",
        "oc_checkpoint",
        "oc_diff",
        "oc_evidence_bundle",
        "oc_observe",
        "oc_query",
        "oc_session_resume",
        "oc_session_snapshot",
        "oc_vitals",
        "page_content",
        "page_pdf",
        "page_reload",
        "page_screenshot",
        "performance_metrics",
        "press",
        "query_dom",
        "read_page",
        "request_intercept",
        "screenshot",
        "selector_query",
        "storage",
        "tabs_close",
        "tabs_context",
        "tabs_create",
        "type",
        "user_agent",
        "validate_page",
        "vision_find",
        "xpath_query",
    )
)
