"""The policy that all who share a ledger follow: a changed file becomes a generation, and everybody reads the newest.

A file speaks only when it was changed: two processes with different files do not take turns, and one that is started
again with the file it had before says nothing new.
"""

from __future__ import annotations

import msgspec

from recoup.errors import Conflict, EventUnreadable, LedgerError, UsageError
from recoup.kernel.elapsed import elapsed_s
from recoup.kernel.policies import policy_digest
from recoup.model.events import Event, PolicyGeneration, PolicyRefused
from recoup.model.ids import POLICY_STREAM
from recoup.model.instant import Instant
from recoup.model.policy import Policy, WrittenPolicy
from recoup.model.storage import Append, Draft, PolicyBody, StreamAppend
from recoup.ports import Clock, Ledger, PolicySource, Redactor

EVENTS_MAX = 1_000
"""Read at a time."""
SOURCES_MAX = 1_000
CONFLICTS_MAX = 5
_MASKED = "redaction would change it"


class Generations:
    """One process's view of the stream of policies."""

    def __init__(
        self, ledger: Ledger, redactor: Redactor, clock: Clock, source: PolicySource | None = None
    ) -> None:
        self._ledger = ledger
        self._redactor = redactor
        self._clock = clock
        self._source = source
        self._seq = 0
        self._newest: PolicyGeneration | None = None
        self._read: PolicyGeneration | None = None
        """The last whose body was read, and followed if we understood it."""
        self._said: dict[str, str] = {}
        """What each file said last: the digest of a policy, or of bytes that were refused."""
        self._untold: WrittenPolicy | None = None
        """What our file says and the ledger does not know yet."""
        self._policy: Policy | None = None
        self._unreadable: EventUnreadable | None = None
        """An event that may have been a newer generation: which policy is in force is unknown until one follows."""
        self._looked_at: Instant | None = None

    async def current(self) -> Policy | None:
        """The newest generation, after a look at our own file. None: there is none yet."""
        if self._source is not None:
            changed = self._source.look()
            self._untold = self._untold if changed is None else self._recordable(changed)
        if self._untold is not None:
            await self._take(self._untold)
        await self._catch_up()
        self._must_be_known()
        return self._policy

    async def current_within(self, seconds: float) -> Policy | None:
        """The same, as of a look that any run of this process has made not longer ago than this."""
        now = self._clock.now()
        if self._looked_at is None or elapsed_s(self._looked_at, now, seconds) >= seconds:
            await self.current()
            self._looked_at = now
        return self._policy

    async def seen(self) -> tuple[Policy, str | None]:
        """What `begin` would give and whose it is, for somebody who only looks: nothing is told."""
        await self._catch_up()
        written = self._source.read() if self._source is not None else None
        if self._source is not None and written is not None and written.policy is not None:
            source = self._redactor.redact(self._source.name).text
            if self._news(source, written) is not None:
                return written.policy, source
        if self._newest is None or self._policy is None:
            return Policy(), None
        return self._policy, self._newest.source

    async def begin(self) -> Policy:
        """The policy to begin with: our file is read at once, whether it was changed a moment ago or not."""
        if self._source is not None:
            written = self._recordable(self._source.read())
            await self._take(written)
            if written.problems.startswith(_MASKED):
                raise UsageError(f"the policy cannot be used: {written.problems}", hint="Reword it.")
        await self._catch_up()
        self._must_be_known()
        if self._newest is not None and self._policy is None:
            raise LedgerError(
                f"the policy {self._newest.policy_digest} that everybody follows is damaged or of a newer version",
                hint="Upgrade Recoup, or set another policy: change the file that RECOUP_POLICY names.",
            )
        return self._policy or Policy()

    async def _take(self, written: WrittenPolicy) -> None:
        assert self._source is not None
        source = self._redactor.redact(self._source.name).text
        for _ in range(CONFLICTS_MAX):
            await self._catch_up()
            append = self._news(source, written)
            try:
                if append is not None:
                    await self._ledger.append(append)
            except Conflict:
                continue  # somebody else spoke: what the file says may be known by now
            if self._untold is written:
                self._untold = None
            return

    def _recordable(self, written: WrittenPolicy) -> WrittenPolicy:
        """Drivers follow the recorded policy, and records are redacted: one that redaction changes is refused."""
        masked = [] if written.policy is None else self._redactor.masked_in(written.policy)
        if not masked:
            return written
        where = ".".join(map(str, masked[0]))
        return WrittenPolicy(written.digest, None, f"{_MASKED}: {where} looks like a secret")

    def _news(self, source: str, written: WrittenPolicy) -> Append | None:
        if written.policy is None:
            digest = written.digest
            payload: PolicyGeneration | PolicyRefused = PolicyRefused(
                source=source, file_digest=digest, reason=written.problems
            )
            bodies: tuple[PolicyBody, ...] = ()
        else:
            digest = policy_digest(written.policy)
            payload = PolicyGeneration(policy_digest=digest, source=source)
            bodies = (PolicyBody(digest, self._redactor.seal(written.policy)),)
        if self._said.get(source) == digest:
            return None
        stored = self._redactor.seal(payload)
        told = StreamAppend(POLICY_STREAM, (Draft(payload.TYPE, stored),), self._seq)
        return Append(at=self._clock.now(), streams=(told,), policies=bodies)

    async def _catch_up(self) -> None:
        """All runs of a process do this at once: whatever comes while one waits for the ledger, none goes back."""
        while True:
            events = await self._next_events()
            for event in events:
                self._hear(event)
            if len(events) < EVENTS_MAX:
                break
        newest = self._newest
        if newest is None or newest is self._read:
            return
        policy = await self._body(newest.policy_digest)
        if newest is self._newest:
            self._policy, self._read = policy or self._policy, newest

    async def _next_events(self) -> list[Event]:
        """Without one that cannot be read: it is remembered, and what only looks goes on behind it."""
        while True:
            try:
                return await self._ledger.read(POLICY_STREAM, after=self._seq, limit=EVENTS_MAX)
            except EventUnreadable as error:
                await self._hear_before(error.seq)
                self._seq, self._unreadable = max(self._seq, error.seq), error

    async def _hear_before(self, seq: int) -> None:
        """One at a time: some may be missing, so that a number of events does not tell where they end."""
        while self._seq < seq - 1:
            try:
                events = await self._ledger.read(POLICY_STREAM, self._seq, 1)
            except EventUnreadable:
                return
            for event in events:
                self._hear(event)

    def _must_be_known(self) -> None:
        if self._unreadable is not None:
            raise self._unreadable

    def _hear(self, event: Event) -> None:
        if event.seq <= self._seq:
            return  # another run was told of it first
        self._seq = event.seq
        match event.payload:
            case PolicyGeneration(policy_digest=digest, source=source) as newest:
                self._newest, self._unreadable = newest, None
            case PolicyRefused(file_digest=digest, source=source):
                pass
            case _:
                return
        self._said.pop(source, None)
        self._said[source] = digest
        if len(self._said) > SOURCES_MAX:
            del self._said[next(iter(self._said))]

    async def _body(self, digest: str) -> Policy | None:
        """None: it is of a newer version, or damaged, and says what we do not understand. The last good one stays."""
        body = await self._ledger.policy_body(digest)
        if body is None:
            raise LedgerError(f"the policy {digest} is not in the ledger", hint="The database is damaged.")
        try:
            return msgspec.json.decode(body, type=Policy)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None
