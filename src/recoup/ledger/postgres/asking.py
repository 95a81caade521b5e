"""What the jobs of one transaction must know before they can be decided, and the database's answer."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from recoup.errors import LedgerError
from recoup.kernel.projection import ATTEMPTED
from recoup.ledger.claims import claims_in, parents_in
from recoup.ledger.folds import STATE_LAG_EVENTS
from recoup.ledger.postgres.text import escaped
from recoup.model.ids import run_stream, workflow_stream
from recoup.model.storage import Append

UNKNOWN = -1
EVENTS_MAX = 500_000
"""In one append: the numbers of a transaction leave room for a million."""
_RUN = run_stream("")
_KINDS = sorted(ATTEMPTED)


class Questions:
    """Gathered from all jobs. Every stream among them is locked."""

    def __init__(self) -> None:
        self.streams: set[str] = set()
        self.leases: set[str] = set()
        self.inboxes: set[str] = set()
        self.sent: set[str] = set()
        self.families: set[str] = set()
        self.steps: set[str] = set()
        self.crowds: set[tuple[str, str]] = set()

    def of_run(self, run_id: str) -> None:
        """Its lease and its inbox are under the lock of its stream."""
        self.of_stream(run_stream(run_id))
        self.leases.add(run_id)

    def of_stream(self, stream: str) -> None:
        self.streams.add(_plain(stream))

    def of_control(self, control_id: str) -> None:
        self.sent.add(_plain(control_id))

    def of_append(self, append: Append) -> None:
        parts = (*append.streams, *append.tail)
        if sum(len(part.drafts) for part in parts) > EVENTS_MAX:
            raise LedgerError(f"more than {EVENTS_MAX} events in one append", hint="Append them in several.")
        for part in parts:
            self.of_stream(part.stream)
        if append.lease:
            self.of_run(append.lease.run_id)
            self.inboxes.add(append.lease.run_id)
        if append.judging:
            self.of_stream(workflow_stream(append.judging.workflow))
        self._of_families(append)

    def document(self, known: Mapping[str, int]) -> str:
        """With up to where each stream is known already."""
        asked = {
            "streams": [{"n": name, "k": known.get(name, UNKNOWN)} for name in sorted(self.streams)],
            "leases": list(self.leases),
            "inboxes": list(self.inboxes),
            "sent": list(self.sent),
            "families": list(self.families),
            "steps": list(self.steps),
            "crowds": [{"o": of, "n": name} for of, name in self.crowds],
            "kinds": _KINDS,
            "lag": STATE_LAG_EVENTS,
        }
        return msgspec.json.encode(asked).decode()

    def _of_families(self, append: Append) -> None:
        for part in (*append.streams, *append.tail):
            for claim in claims_in(part):
                self.families.add(part.stream.removeprefix(_RUN))
                self.steps.add(_plain(claim.step_id))
            for parent in parents_in(part):
                self.of_stream(run_stream(parent))
                self.families.add(parent)


class Gathered(msgspec.Struct, frozen=True):
    """What the database knew under the locks."""

    xid: int
    ends: list[tuple[str, int]] | None = None
    states: list[tuple[str, int, str]] | None = None
    facts: list[tuple[str, int, int, str, str, str]] | None = None
    leases: list[tuple[str, int, str | None, bool]] | None = None
    crowds: list[tuple[str, str, str]] | None = None
    waiting: list[tuple[str, str]] | None = None
    sent: list[str] | None = None
    families: list[tuple[str, str]] | None = None
    claims: list[tuple[str, str, str, str, str]] | None = None


decode_gathered = msgspec.json.Decoder(Gathered).decode


def _plain(name: str) -> str:
    """Names are compared as they are, hence hold nothing that must be escaped."""
    if escaped(name) != name:
        raise LedgerError(
            f"{name!r} cannot be a name in the ledger", hint="Leave the control characters out."
        )
    return name
