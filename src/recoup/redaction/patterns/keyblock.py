"""The body of a private key between its first and its last line, however long, wherever the text is cut."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from recoup.redaction.patterns.compiled import spanning_pattern

KEY_BYTES_MAX: Final = 65_536
OTHER_LINES_MAX: Final = 3
_VAULT: Final = b"$ANSIBLE_VAULT;"


class KeyBlock:
    """An open key: how much of it may still come.

    Lines that look like a key's are masked. Up to three others may stand between them (two programs can share one
    output), and after 64 KB the block is given up: no key is as long, so its last line was lost. A vault of Ansible
    has no last line: it ends with the first one that is not of its digits.
    """

    def __init__(self, first_line: bytes) -> None:
        vault = _VAULT in first_line
        self._body = _vault_body if vault else _body
        self.bytes_left = KEY_BYTES_MAX
        self.others_left = 1 if vault else OTHER_LINES_MAX
        self.closed = False

    def body_end(self, data: bytes, start: int, end: int) -> int:
        """Where the lines of the key stop that begin at `start`."""
        limit = (
            end if end - start <= self.bytes_left else data.rfind(b"\n", start, start + self.bytes_left) + 1
        )
        if limit <= start:
            return start
        found = self._body().match(data, start, limit)
        stop: int = found.end() if found else start
        self.bytes_left -= stop - start
        self.closed = self.closed or self.bytes_left <= 0
        return stop

    def meets(self, line: bytes) -> int:
        """A line that is no body: how many of its bytes still belong to the key."""
        if found := _last_line().search(line):
            self.closed = True
            return int(found.start())
        self.others_left -= 1
        self.bytes_left -= len(line)
        self.closed = self.others_left <= 0 or self.bytes_left <= 0
        return 0


@cache
def _body() -> Any:
    # Everything is optional, but nothing is matched in vain: an empty match ends where it began.
    encoded = r"[^\n]{0,160}?[A-Za-z0-9+/=]{40,}[^\n]*"
    short = r"[ \t>+|\"'#*-]{0,12}[A-Za-z0-9+/=]{1,76}[\"'\\nr,+; \t]{0,8}"
    header = (
        r"[ \t]{0,12}(?:Proc-Type|DEK-Info|Version|Comment|Charset|Hash|Encryption|Subject|X-[A-Za"
        r"-z-]{1,24}): [^\n]{0,160}"
    )
    return spanning_pattern(rf"(?:(?:{encoded}|{short}|{header}|[ \t]*)\r?\n)*(?:(?:{encoded}|{short})\z)?")


@cache
def _vault_body() -> Any:
    return spanning_pattern(r"(?:[ \t]*[0-9a-f]{1,80}\r?\n)*(?:[ \t]*[0-9a-f]{1,80}\z)?")


@cache
def _last_line() -> Any:
    return spanning_pattern(r"-----END |---- END |Private-MAC:|</(?:rsa-?key|RSAKeyValue)>")
