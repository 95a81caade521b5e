"""A file that names a local address: the address is found anew, and the file says so."""

from __future__ import annotations

import ipaddress
import re
import socket
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from recoup.kernel.probe_health import Sign
from recoup.model.probe import Action, Check, EndpointKind
from recoup.probe.atomic_file import read_beginning, write_whole
from recoup.probe.checks.tcp import code_of
from recoup.probe.commands import run_command
from recoup.probe.kinds.binding import address_file
from recoup.probe.ports import Done, Site

MISSING: Final = "endpoint_missing"
STALE: Final = "endpoint_stale"
UNRESOLVED: Final = "endpoint_unresolved"
FILE_BYTES_MAX: Final = 1 << 20
ADDRESS_MAX: Final = 2_048
_ADDRESS: Final = re.compile(r"""[^\s"'`$\\#\x00-\x1f\x7f]+""")


class Unresolved(Exception):
    """The address cannot be found, or is none; `str` says why."""


class EndpointHolder:
    """Writes one file, or one line of it."""

    def __init__(self, site: Site, kind: EndpointKind) -> None:
        self._site = site
        self._kind = kind
        self._file = site.path(kind.file)

    @property
    def own_check(self) -> Check | None:
        return Check(every_s=self._kind.every_s, timeout_s=self._kind.timeout_s + 5, failures=1)

    @property
    def settle_s(self) -> float:
        return 0

    async def look(self) -> Sign:
        """Does it name the address as it is now?"""
        try:
            wanted = await self._resolve()
            named = self._named()
        except Unresolved as error:
            return Sign(good=False, reason=str(error), error_code="unresolved", fault_class=UNRESOLVED)
        except OSError as error:
            return Sign(good=False, reason=self._about(error), error_code=code_of(error), fault_class=MISSING)
        if named == wanted:
            return Sign(good=True)
        if named is None:
            reason = f"{self._file} does not name {self._kind.variable or 'an address'}"
            return Sign(good=False, reason=reason, error_code="not_named", fault_class=MISSING)
        reason = f"{self._file} names another address than it is now"  # either may hold a secret
        return Sign(good=False, reason=reason, error_code="differs", fault_class=STALE)

    async def start(self) -> Done:
        try:
            self._name(await self._resolve())
        except Unresolved as error:
            return Done(ok=False, reason=str(error), error_code="unresolved", fault_class=UNRESOLVED)
        except OSError as error:
            code = code_of(error)
            return Done(ok=False, reason=self._about(error), error_code=code, fault_class=MISSING)
        return Done()

    async def stop(self) -> Done:
        """The file stays: others read it."""
        return Done()

    async def act(self, action: Action) -> Done:
        assert action is Action.REFRESH_LOCAL_ENDPOINT, f"an endpoint is refreshed; it cannot {action}"
        return await self.start()

    async def downgrade(self, mode: str) -> Done:
        raise AssertionError(f"an endpoint knows no lesser way: {mode}")

    def _about(self, error: OSError) -> str:
        return f"{error.filename or self._file}: {error.strerror or error}"

    # Where it is

    async def _resolve(self) -> str:
        kind = self._kind
        if kind.command:
            return local_address(await self._printed())
        if kind.address:
            return local_address(kind.address)
        host, _, port = self._bound().rpartition(":")
        if not port.isdigit() or not 1 <= int(port) <= 65_535:
            raise Unresolved(f"{self._source()} names no port")
        return local_address(kind.format.replace("{host}", host or "127.0.0.1").replace("{port}", port))

    async def _printed(self) -> str:
        ran = await run_command(self._site, self._kind.command, self._kind.timeout_s)
        if not ran.ok:
            raise Unresolved(ran.reason)
        return ran.stdout.decode("utf-8", "replace").strip()

    def _bound(self) -> str:
        """host:port, or only the port, as somebody has written it down."""
        source = self._source()
        try:
            return read_beginning(source, ADDRESS_MAX).decode("utf-8", "replace").strip()
        except OSError as error:
            raise Unresolved(f"{source}: {error.strerror}") from None

    def _source(self) -> Path:
        if self._kind.binding:
            return address_file(self._site.files.parent / self._kind.binding)
        return self._site.path(self._kind.port_file)

    # The file

    def _named(self) -> str | None:
        text = self._text()
        return value_in(text, self._kind.variable) if self._kind.variable else text.strip() or None

    def _name(self, address: str) -> None:
        """Not written when it says so already: others may watch the file."""
        try:
            text = self._text()
        except FileNotFoundError:
            text = None
        variable = self._kind.variable
        wanted = with_value(text or "", variable, address) if variable else f"{address}\n"
        if wanted != text:
            write_whole(self._file, wanted.encode("utf-8", "surrogateescape"))

    def _text(self) -> str:
        data = read_beginning(self._file, FILE_BYTES_MAX + 1)
        if len(data) > FILE_BYTES_MAX:
            raise Unresolved(f"{self._file} is longer than {FILE_BYTES_MAX} bytes: is it the right one?")
        return data.decode("utf-8", "surrogateescape")


def local_address(written: str) -> str:
    """The same, if it is an address of this machine. Raises Unresolved: a probe does not send anybody elsewhere."""
    if not _ADDRESS.fullmatch(written) or len(written) > ADDRESS_MAX:
        raise Unresolved(
            "what was found is not an address: it must be one word, such as http://127.0.0.1:8000"
        )
    if written.startswith(("/", "./", "unix:")):
        return written
    try:
        parts = urlsplit(written if "://" in written else f"//{written}")
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if host is None:
        raise Unresolved(
            "what was found is not an address: it must be one word, such as http://127.0.0.1:8000"
        )
    if not is_local(host):
        raise Unresolved(f"{host} is not an address of this machine: a probe changes local endpoints only")
    return written


def is_local(host: str) -> bool:
    """No resolver is asked."""
    if host == "localhost" or host.endswith(".localhost") or host == socket.gethostname().lower():
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified or _is_ours(address)


def _is_ours(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Only one's own addresses can be bound."""
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as trial:
            trial.bind((str(address), 0))
    except OSError:
        return False
    return True


def value_in(text: str, variable: str) -> str | None:
    """Of the last line that sets it: that is the one that counts."""
    found = [match[2] for match in map(_assignment(variable).fullmatch, text.split("\n")) if match]
    return found[-1].strip().strip("\"'") if found else None


def with_value(text: str, variable: str, value: str) -> str:
    """The same lines with this value, or with one more; `export` and the like stay."""
    pattern = _assignment(variable)
    lines, found = text.removesuffix("\n").split("\n") if text else [], False
    for number, line in enumerate(lines):
        match = pattern.fullmatch(line)
        if match:
            lines[number], found = f"{match[1]}{value}", True
    return "\n".join([*lines, *([] if found else [f"{variable}={value}"])]) + "\n"


def _assignment(variable: str) -> re.Pattern[str]:
    return re.compile(rf"(\s*(?:export\s+)?{re.escape(variable)}=)(.*)")
