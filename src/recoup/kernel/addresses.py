"""What can be told of an address without asking anybody."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import unquote, urlsplit

from recoup.kernel.references import references

_OF_VALUES = ("http", "https")


def is_local(host: str) -> bool:
    """What is sent there does not leave this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def address_problem(written: str, filled: str) -> str:
    """Why a browser must not go there; "" if it may. `written` is the plan's own text, `filled` the same with values.
    A value may name a page of the web, and a file only below the folder that the plan names itself."""
    own = _own_beginning(written)
    scheme = _scheme(filled)
    if own is None or scheme in _OF_VALUES or filled == "about:blank":
        return ""
    if scheme == "file" and _scheme(own) == "file":
        return path_problem(_path(written), _path(filled))
    return f"a value must not lead to an address of {scheme or 'no scheme'}: only the plan's own text may"


def path_problem(written: str, filled: str) -> str:
    """Why a file must not be used; "" if it may. A value adds to a path, and leads to no other folder."""
    own = _own_beginning(written)
    if own is None:
        return ""
    if filled.startswith("/") and not own.startswith("/"):
        return "a value must not make the path absolute: only the plan's own text may"
    if _steps_up(filled) > _steps_up(written):
        return "a value must not contain `..`: only the plan's own text may lead to another folder"
    return ""


def _own_beginning(written: str) -> str | None:
    """The text before the first value; None: there is none in it."""
    found = references(written)
    return written[: found[0].start] if found else None


def _steps_up(path: str) -> int:
    return path.split("/").count("..")


def _scheme(address: str) -> str:
    try:
        return urlsplit(address).scheme.lower()
    except ValueError:
        return ""


def _path(address: str) -> str:
    """As a browser reads it: it takes `%2e` for a dot and a backslash for a slash."""
    return unquote(address).replace("\\", "/").partition(":")[2]
