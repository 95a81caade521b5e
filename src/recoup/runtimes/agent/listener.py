"""Reads along while an agent works: folds its events into a story, tells people what it does, and says what is
progress.

Of an agent that speaks in events, only events with something in them are progress; what it says on stderr is not,
nor is plain text once it has begun to speak in events. An event of an unknown kind counts the first time it is said:
a repetition with other numbers does not, for that is how keep-alives look. Of any other command all text counts.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from typing import Final

import msgspec

from recoup.model.outcome import Progress
from recoup.model.redacted import Redacted
from recoup.ports import Hooks, OutputSink
from recoup.runtimes.agent.clis import opened_by
from recoup.runtimes.agent.dialect import Dialect
from recoup.runtimes.agent.lines import Lines
from recoup.runtimes.agent.story import Event, Story
from recoup.runtimes.step_log import StepLog

NOTE_CHARS_MAX: Final = 160
_SHOWN_CHARS_MAX: Final = 4096
_ASIDE_BYTES: Final = 64 << 10
_STRANGERS_MAX: Final = 64
_STRANGER_BYTES: Final = 4096
_VOLATILE: Final = re.compile(rb"[0-9a-fA-F-]+")


class Listener:
    """One agent, from its first byte to its last."""

    def __init__(self, dialect: Dialect | None, hooks: Hooks) -> None:
        self.story = Story()
        self.dialect = dialect
        self.overlong = False
        """A line was too long to be understood, so what is not known may have been said."""
        self._plain = dialect is None
        self._hooks = hooks
        self._lines = Lines()
        self._asides = Lines(_ASIDE_BYTES)
        self._strangers: set[bytes] = set()
        self._redact: Callable[[str], Redacted] | None = None
        self._session_id: str | None = None
        """The one that the engine was told last."""

    def open(self, log: StepLog) -> OutputSink:
        self._redact = log.redacted
        return self.heed

    def heed(self, stream: str, chunk: bytes) -> bool:
        """Whether this was progress."""
        if stream != "stdout":
            self._heed_aside(chunk)
            return self._plain
        heard = [self._line(line) for line in self._lines.feed(chunk)]
        return any(heard) or self._is_text(self._lines.begun)

    def close(self) -> None:
        """The last line may lack its end."""
        line = self._lines.flush()
        if line:
            self._line(line)

    def redacted(self, text: str) -> str:
        return self._redact(text).text if self._redact else ""

    @property
    def nameable_session(self) -> str | None:
        """The agent's session. Ids are recorded as they are, so one that holds a secret counts as unknown."""
        session_id = self.story.session_id
        return session_id if session_id is not None and self.redacted(session_id) == session_id else None

    def _heed_aside(self, chunk: bytes) -> None:
        """Never progress: only why there is none."""
        if self.dialect is None or self.dialect.aside is None:
            return
        for line in self._asides.feed(chunk):
            note = self.dialect.aside(line.decode("utf-8", "replace"), self.story) if line else ""
            if note:
                self._show(note)

    def _is_text(self, begun: bytes) -> bool:
        return bool(begun) and not begun.startswith(b"{") and self._text_counts

    @property
    def _text_counts(self) -> bool:
        return self._plain or not self.story.events

    def _line(self, line: bytes | None) -> bool:
        if line is None:
            self.overlong = True
            return True
        event = event_in(line)
        if event is None:
            return bool(line.strip()) and self._text_counts
        self.dialect = self.dialect or opened_by(event)
        return self._event(event, line, self.dialect) if self.dialect else True

    def _event(self, event: Event, line: bytes, dialect: Dialect) -> bool:
        heard = dialect.hear(event, self.story)
        self._tell_session()
        if heard is None:
            return self._is_news(line)
        self.story.events += 1
        if heard.note:
            self._show(heard.note)
        return heard.progress

    def _tell_session(self) -> None:
        session_id = self.nameable_session
        if session_id is not None and session_id != self._session_id:
            self._session_id = session_id
            self._hooks.session_known(session_id)

    def _is_news(self, line: bytes) -> bool:
        shape = _VOLATILE.sub(b"", line[:_STRANGER_BYTES])
        if shape in self._strangers or len(self._strangers) >= _STRANGERS_MAX:
            return False
        self._strangers.add(shape)
        return True

    def _show(self, note: str) -> None:
        """Redacted, cut, and redacted again for its type: a cut through a secret would let its beginning pass."""
        if self._redact is None:
            return
        short = textwrap.shorten(self.redacted(note[:_SHOWN_CHARS_MAX]), NOTE_CHARS_MAX, placeholder=" …")
        self._hooks.progressed(Progress(self._redact(short)))


def event_in(line: bytes) -> Event | None:
    """A line that is one JSON object; None for every other."""
    if not line.lstrip().startswith(b"{"):
        return None
    try:
        event = msgspec.json.decode(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None
