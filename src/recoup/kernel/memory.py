"""What a workflow remembers of its targets: what may be learned, what may be used, and how it is taken back.

A fold of the stream of the workflow's targets. A version is a point of that stream, so that all that was learned, or
nothing of it, is taken back, on every machine alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from recoup.kernel.breaker import failed_ratio
from recoup.kernel.canonical import digest
from recoup.kernel.modes import caution
from recoup.model.events import (
    Event,
    MemoryRollback,
    MemorySnapshot,
    Payload,
    ScreenLearned,
    TargetHealed,
    TargetLearned,
    TargetRejected,
    WorkflowModeChanged,
)
from recoup.model.failure import FailureKind
from recoup.model.memory import Entry, Key, Remembered, Screen, State, WhichScreen, number_of, version_name
from recoup.model.mode import Health, Mode
from recoup.model.policy import Policy
from recoup.model.target import Element, identity_of, plain, said_by

ENTRIES_MAX = 100_000
"""Of one workflow; beyond it the oldest are forgotten."""
FORBIDDEN_MAX = 10_000
VERSIONS_MAX = 20
"""Points of the stream that can be gone back to without reading it again."""
SCREENS_MAX = 1_000
SUCCESSES_MIN = 2
LESSONS_MAX = 3
"""Of one target that are looked from, the latest ones."""
FAILURES_SHARE_MAX = 0.30
ACCEPTED = "accepted"
"""The origin of what somebody accepted: as good as all the successes that are needed."""
FROM_MEMORY = "memory"
"""How a target was found: what `target.healed` says then."""
FROM_LESSON = "lesson"
"""By its likeness to what was learned last, the recorded description being too old."""
GENERIC = frozenset({
    "ok", "okay", "yes", "no", "cancel", "save", "submit", "close", "next", "back", "continue", "done",
    "apply", "add", "edit", "delete", "remove", "more", "menu", "open", "go", "search", "help",
    "select", "send", "view", "details", "home", "login", "logout", "sign", "in", "out", "abbrechen",
    "speichern", "weiter", "zurück", "schließen", "ja", "nein", "suchen", "senden", "löschen",
    "annuler", "enregistrer", "suivant", "retour", "fermer", "oui", "non", "chercher", "envoyer",
    "supprimer", "cancelar", "guardar", "siguiente", "atrás", "cerrar", "sí", "buscar", "enviar",
    "eliminar"
})  # fmt: skip
"""Words that half of all pages have: they name an action, not an element."""


def identity(element: Element) -> str:
    """Of what names an element, as a digest: names may hold anything."""
    return digest(list(identity_of(element)))


def tells_enough(element: Element) -> bool:
    """It can be known again by what names it; by words that half of all pages have alone it cannot."""
    if element.id or element.test_id or element.name_attribute or element.href:
        return True
    words = plain(said_by(element)).split()
    return bool(words) and (bool(element.container) or not set(words) <= GENERIC)


def may_learn(healed: TargetHealed, mode: Mode, policy: Policy, *, wanted: bool) -> bool:
    """Only what was proven, surely found, can be known again, and happened while the workflow was well."""
    if not wanted or not caution(mode, policy).learning or not healed.verified or healed.after is None:
        return False
    return healed.confidence >= policy.learn_confidence_min and tells_enough(healed.after)


def learned(healed: TargetHealed) -> TargetLearned:
    assert healed.after is not None, "what was taken is known when it is learned"
    return TargetLearned(
        step_id=healed.step_id,
        step_index=healed.step_index,
        attempt=healed.attempt,
        run_id=healed.run_id,
        target_digest=healed.target_digest,
        identity=healed.identity,
        element=healed.after,
        confidence=healed.confidence,
        origin=healed.found_by,
    )


def snapshot_before(memory: TargetMemory, health: Health, policy: Policy) -> MemorySnapshot:
    """The version to go back to, should what comes now make things worse."""
    recent = health.recent[-policy.regression_window_steps :]
    return MemorySnapshot(
        version=version_name(memory.versions + 1),
        digest=digest_of(memory.state),
        entries=len(memory),
        success_rate_before=round(1 - failed_ratio(recent), 4) if recent else None,
        reason="before something new is learned",
    )


def digest_of(state: State) -> str:
    """Of which elements were learned for which targets, in order: what a snapshot is known by."""
    return digest([[list(key), name] for key, name in state.entries])


def rollback(
    memory: TargetMemory, health: Health, policy: Policy
) -> tuple[MemoryRollback, WorkflowModeChanged]:
    """Back to what was known before, and on with care."""
    lesson = health.lesson
    assert lesson is not None, "what is taken back was learned"
    ratios = [failed_ratio(part[-policy.regression_window_steps :]) for part in (lesson.since, lesson.before)]
    taken = MemoryRollback(
        from_version=memory.version_name,
        to_version=lesson.version,
        reason=health.reason,
        failed_ratio=round(ratios[0], 4),
        failed_ratio_before=round(ratios[1], 4),
    )
    words = f"what was learned after {lesson.version} was taken back: {health.reason}"
    return taken, WorkflowModeChanged(mode=Mode.DEGRADED, previous=health.mode, reason=words[:500])


SAME_SCREEN = 0.9
"""From here on a screen is as it was learned; below, it is learned again, so that slow change is followed."""
SCREEN_NEAR = 0.1
"""From here on the nearest screen is worth a word."""
_MISTAKES = (FailureKind.TARGET_AMBIGUOUS, FailureKind.HEAL_REFUSED)
"""Of the plan, unless the step stands on a page that is not its own."""
_UNFOUND = (FailureKind.TARGET_NOT_FOUND, FailureKind.LOW_CONFIDENCE, *_MISTAKES)


def screen_is_new(own: WhichScreen | None) -> bool:
    """What a step saw is worth remembering: it is not what was remembered of it."""
    return own is None or own.runtime_drift or own.confidence < SAME_SCREEN


def by_its_screen(
    kind: FailureKind | None, detail: str, step_id: str, found: WhichScreen | None
) -> tuple[FailureKind | None, str]:
    """A target that was not found, told by the screen it was looked for on: another window, a screen that nobody knows,
    or that of another step."""
    if kind not in _UNFOUND or found is None:
        return kind, detail
    if found.runtime_drift and not found.low_confidence:
        return FailureKind.RUNTIME_DRIFT, f"{detail}; {', '.join(found.drift)}"
    if found.low_confidence:
        near = found.confidence >= SCREEN_NEAR
        nearest = f" (nearest: that of step {found.screen_id}, {found.confidence:.0%} alike)" if near else ""
        return FailureKind.LOW_CONFIDENCE, f"{detail}; the page is unlike every known page{nearest}"
    if found.screen_id != step_id:
        kind = FailureKind.LOW_CONFIDENCE if kind in _MISTAKES else kind
        return kind, f"{detail}; this looks like the screen of {found.screen_id}"
    return kind, detail


class TargetMemory:
    """`version` is the name of the point that `base` is."""

    def __init__(self, base: State | None = None, events: Iterable[Event] = (), *, version: str = "") -> None:
        self._entries = dict(base.entries) if base else {}
        self._forbidden = dict(base.forbidden) if base else {}
        self._screens = dict(base.screens) if base else {}
        self._versions: dict[str, State] = {version: base} if base and version else {}
        self.versions = number_of(version)
        """How many there have been."""
        self.version_name = version
        """The last one that can be gone back to."""
        self.learned_since = 0
        """Entries since then."""
        self._by_target: dict[Key, dict[str, None]] = {}
        self._index()
        for event in events:
            self.add(event.payload)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def state(self) -> State:
        return State(dict(self._entries), dict(self._forbidden), dict(self._screens))

    @property
    def screens(self) -> Mapping[str, Screen]:
        return self._screens

    def version(self, name: str) -> State | None:
        """None: it was before what was read."""
        return self._versions.get(name)

    def snapshot_due(self, changes: int) -> bool:
        """Before the first lesson, and whenever enough was learned to matter."""
        return not self.version_name or self.learned_since >= changes

    def knows(self, key: Key, identity: str) -> bool:
        return (key, identity) in self._entries

    def usable(self, key: Key) -> tuple[Remembered, ...]:
        """What may be looked for on the page in place of the target, likeliest first."""
        known = [self._entries[key, name] for name in self._by_target.get(key, ())]
        good = [entry for entry in known if _is_usable(entry) and not self.forbids(key, entry.identity)]
        good.sort(key=lambda entry: (-likelihood(entry), entry.identity))
        return tuple(Remembered(entry.element, likelihood(entry), entry.origin) for entry in good)

    def lessons(self, key: Key) -> tuple[Element, ...]:
        """What stood for the target, the latest first. One success will do: each is a description to look from,
        and what is found by it is judged and proven anew."""
        known = [self._entries[key, name] for name in reversed(self._by_target.get(key, {}))]
        good = [one.element for one in known if _is_trusted(one) and not self.forbids(key, one.identity)]
        return tuple(good[:LESSONS_MAX])

    def forbids(self, key: Key, identity: str) -> bool:
        return identity in self._forbidden.get(key, ())

    def forbidden(self, key: Key) -> frozenset[str]:
        return self._forbidden.get(key, frozenset())

    def add(self, payload: Payload) -> None:
        match payload:
            case TargetLearned():
                self._learn(payload)
            case TargetHealed():
                self._count(payload)
            case TargetRejected() if payload.by:
                self._forbid((payload.step_id, payload.target_digest), payload.identity)
            case ScreenLearned():
                self._screens.pop(payload.step_id, None)
                self._screens[payload.step_id] = payload.screen
                if len(self._screens) > SCREENS_MAX:
                    del self._screens[next(iter(self._screens))]
            case MemorySnapshot():
                self.version_name, self.learned_since = payload.version, 0
                self.versions = max(self.versions + 1, number_of(payload.version))
                self._versions[payload.version] = self.state
                if len(self._versions) > VERSIONS_MAX:
                    del self._versions[next(iter(self._versions))]
            case MemoryRollback():
                self.version_name, self.learned_since = payload.to_version, 0
                self._go_back(self._versions.get(payload.to_version, State()))

    def know(self, version: str, state: State) -> None:
        """A version from before what is read: it may be gone back to."""
        self._versions = {version: state, **self._versions}

    def _learn(self, payload: TargetLearned) -> None:
        key = (payload.step_id, payload.target_digest)
        successes = SUCCESSES_MIN if payload.origin == ACCEPTED else 1
        known = self._entries.get((key, payload.identity))
        if known is not None:
            proven = msgspec.structs.replace(known, successes=max(known.successes, successes))
            self._entries[key, payload.identity] = proven
            return
        self._entries[key, payload.identity] = Entry(
            step_id=payload.step_id,
            target_digest=payload.target_digest,
            identity=payload.identity,
            element=payload.element,
            origin=payload.origin,
            confidence=payload.confidence,
            successes=successes,
        )
        self._by_target.setdefault(key, {})[payload.identity] = None
        self.learned_since += 1
        if len(self._entries) > ENTRIES_MAX:
            oldest, name = next(iter(self._entries))
            del self._entries[oldest, name]
            del self._by_target[oldest][name]

    def _count(self, payload: TargetHealed) -> None:
        """Of what leads astray, whatever led there is to blame."""
        key = (payload.step_id, payload.target_digest)
        blamed = payload.identity if payload.found_by == FROM_MEMORY else payload.led_by
        self._used(key, payload.identity, successes=int(payload.verified))
        if not payload.verified:
            self._used(key, blamed, failures=1)

    def _used(self, key: Key, name: str, *, successes: int = 0, failures: int = 0) -> None:
        entry = self._entries.pop((key, name), None)
        if entry is None:
            return
        self._entries[key, name] = msgspec.structs.replace(
            entry, successes=entry.successes + successes, failures=entry.failures + failures
        )
        self._by_target[key][name] = self._by_target[key].pop(name)

    def _forbid(self, key: Key, identity: str) -> None:
        self._forbidden[key] = self._forbidden.get(key, frozenset()) | {identity}
        if len(self._forbidden) > FORBIDDEN_MAX:
            del self._forbidden[next(iter(self._forbidden))]

    def _go_back(self, state: State) -> None:
        """What somebody forbade stays forbidden: it was no lesson."""
        self._entries = dict(state.entries)
        self._screens = dict(state.screens)
        self._index()

    def _index(self) -> None:
        self._by_target = {}
        for key, name in self._entries:
            self._by_target.setdefault(key, {})[name] = None


def _is_usable(entry: Entry) -> bool:
    return entry.successes >= SUCCESSES_MIN and _is_trusted(entry)


def _is_trusted(entry: Entry) -> bool:
    return entry.failures < FAILURES_SHARE_MAX * (entry.successes + entry.failures)


def likelihood(entry: Entry) -> float:
    """That it is right once more, after so many times: never certain, and a failure costs much."""
    return (entry.successes + 0.7) / (entry.successes + 2 * entry.failures + 1)
