"""One session of pytest: which test is under way, what its actions find, what is told and kept in the end."""

from __future__ import annotations

import hashlib
import inspect
import os
import sys
import warnings
from collections import Counter
from collections.abc import Coroutine, Generator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final

import msgspec
import pytest
from playwright.async_api import Error

from recoup.model.redacted import Redacted
from recoup.pytest_plugin import HealWarning
from recoup.pytest_plugin.actions import Action, Wrapped
from recoup.pytest_plugin.colours import answered
from recoup.pytest_plugin.healer import Found, Healer
from recoup.pytest_plugin.plugin import FOLDER
from recoup.pytest_plugin.records import ACTIONS_MAX, HealFolder, Learned, LearnedTest, Place, Record
from recoup.pytest_plugin.report import HEALS_MAX, Heal, Written, in_order, summary, write_report
from recoup.redaction.patterns.catalogue import default_cache, pattern_set
from recoup.redaction.redactor import SecretRedactor

SHOWN_MAX: Final = 50
"""Lines in the terminal's summary; the report has all."""
_OUTPUT: Final = "recoup_heals"


class _Sent(msgspec.Struct, frozen=True):
    """From a worker to the controller."""

    learned: tuple[Learned, ...]
    heals: tuple[Heal, ...]
    warnings: tuple[str, ...]


@dataclass
class Doing:
    """One attempt at one test."""

    item: pytest.Item
    file: str
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    seen: dict[Place, Record] = field(default_factory=dict)
    heals: list[Heal] = field(default_factory=list)
    passed: bool = True
    called: bool = False

    def call(self, action: Action, root: Path) -> Call:
        alike = (action.name, action.words)
        self.counts[alike] += 1
        return Call(self, Place(*alike, self.counts[alike]), *where(Path(self.item.path), root))


@dataclass(frozen=True)
class Call:
    """One action of a test, with its place and its line. Counted when the test asks for it, before anybody waits:
    several may be under way at once."""

    doing: Doing
    place: Place
    file: str
    line: int


class HealingSession:
    """Registered only where healing was asked for."""

    def __init__(self, config: pytest.Config) -> None:
        self.config: Final = config
        self.mode: Final[str] = config.getoption("--heal")
        self.root: Final = config.rootpath
        self.folder: Final = HealFolder(_folder(config), self._warn)
        self.healer: Final = Healer(
            applies=self.mode == "apply", after_ms=1000 * config.getoption("--heal-after")
        )
        self._redactor: SecretRedactor | None = None
        self._doing: Doing | None = None
        self._learned: list[Redacted] = []
        self._heals: list[Heal] = []
        self._warnings: list[str] = []
        self._wrapped: Final = Wrapped(self.act)

    # Actions

    def act(self, action: Action) -> Coroutine[Any, Any, Any]:
        """Every wrapped action comes here. Outside of tests nothing is changed."""
        __tracebackhide__ = True
        doing = self._doing
        if doing is None:
            return answered(action.perform())
        return self._acted(action, doing.call(action, self.root))

    async def _acted(self, action: Action, call: Call) -> Any:
        __tracebackhide__ = True
        found = Found(call.place, self.folder.find(call.doing.file, call.doing.item.name, call.place))
        failed: Error | None = None
        try:
            return await self.healer.act(action, found)
        except Error as error:
            failed = error
            raise
        finally:
            self._note(call, action, found, failed)

    def _note(self, call: Call, action: Action, found: Found, failed: Error | None) -> None:
        if action.typed is not None and found.is_secret:
            try:
                self.redactor.register_unless_short("typed", action.typed)
            except ValueError:  # what cannot be hidden must not be recorded
                return
        if found.learned is not None and len(call.doing.seen) < ACTIONS_MAX:
            call.doing.seen[found.place] = found.learned
        if found.told is None:
            return
        test = call.doing.item.name
        said = self._clean(msgspec.structs.replace(found.told, file=call.file, line=call.line, test=test))
        call.doing.heals.append(said)
        if failed is not None:
            failed.add_note(said.words)

    # The life of a test

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, None, None]:
        __tracebackhide__ = True
        self._finish()
        self._doing = Doing(item, _relative(item.path, self.root))
        yield

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, None, None]:
        __tracebackhide__ = True
        yield
        if self._doing is not None:
            self._doing.called = True
            self._tell(self._doing, verified=True)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if self._doing is not None and report.outcome != "passed":
            self._doing.passed = False
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        done = yield
        self._finish()
        return done

    def _finish(self) -> None:
        doing, self._doing = self._doing, None
        if doing is None:
            return
        with suppress(HealWarning):  # the test has failed already
            self._tell(doing, verified=False)
        if doing.passed and doing.called and doing.seen:
            test = LearnedTest(
                _source_of(doing.item), tuple(doing.seen[place] for place in sorted(doing.seen))
            )
            self._learned.append(self.redactor.seal(Learned(doing.file, doing.item.name, test)))

    def _tell(self, doing: Doing, *, verified: bool) -> None:
        """With the file and the line of the action, as if the test itself had warned."""
        heals, doing.heals = doing.heals, []
        said = [_judged(heal, verified) for heal in heals]
        self._heals.extend(said[: HEALS_MAX - len(self._heals)])
        for heal in said:
            warnings.warn_explicit(heal.words, HealWarning, str(self.root / heal.file), heal.line)

    # The end of the session

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A worker has ended: what it tells is taken as if it had been seen here."""
        said = getattr(node, "workeroutput", {}).get(_OUTPUT)
        if said is None:
            return
        sent = msgspec.json.decode(said, type=_Sent)
        self._learned.extend(map(self.redactor.seal, sent.learned))
        self._heals.extend(sent.heals[: HEALS_MAX - len(self._heals)])
        self._warnings.extend(said for said in sent.warnings if said not in self._warnings)

    def pytest_sessionfinish(self) -> None:
        output = getattr(self.config, "workeroutput", None)
        if output is not None:
            output[_OUTPUT] = self._sent()
            return
        self.folder.keep(self._learned)
        said = self.config.getoption("--heal-report")
        if said:
            path = self.config.invocation_params.dir / said
            heals = tuple(in_order(self._heals))
            sealed = self.redactor.seal(Written(self.mode, summary(heals), heals))
            try:
                write_report(path, sealed)
            except OSError as error:
                self._warn(f"the report could not be written to {path}: {error}")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._heals and not self._warnings:
            return
        terminalreporter.section("recoup")
        for words in self._warnings:
            terminalreporter.write_line(f"warning: {words}", yellow=True)
        for heal in in_order(self._heals)[:SHOWN_MAX]:
            terminalreporter.write_line(f"{heal.file}:{heal.line}: {heal.words}")
        if len(self._heals) > SHOWN_MAX:
            terminalreporter.write_line(f"… and {len(self._heals) - SHOWN_MAX} more: see --heal-report")
        terminalreporter.write_line(summary(self._heals))

    def pytest_unconfigure(self) -> None:
        self._wrapped.unwrap()

    # Words

    @property
    def redactor(self) -> SecretRedactor:
        """Made when it is needed: its patterns take a while to load."""
        if self._redactor is None:
            self._redactor = SecretRedactor(pattern_set(default_cache(os.environ)))
        return self._redactor

    def _clean(self, heal: Heal) -> Heal:
        return msgspec.json.decode(self.redactor.seal(heal).data, type=Heal)

    def _warn(self, words: str) -> None:
        if words not in self._warnings:
            self._warnings.append(words)

    def _sent(self) -> str:
        learned = tuple(msgspec.json.decode(said.data, type=Learned) for said in self._learned)
        return msgspec.json.encode(_Sent(learned, tuple(self._heals), tuple(self._warnings))).decode()


def where(test: Path, root: Path) -> tuple[str, int]:
    """The line of the test file that is being executed; where there is none, of whoever called the action."""
    frames = list(_callers())
    of_test = (frame for frame in frames if frame.f_code.co_filename == str(test))
    chosen = next(of_test, None) or next((frame for frame in frames if _is_theirs(frame)), None)
    if chosen is None:
        return _relative(test, root), 1
    return _relative(Path(chosen.f_code.co_filename), root), chosen.f_lineno


def _callers() -> Generator[FrameType, None, None]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_theirs(frame: FrameType) -> bool:
    path = frame.f_code.co_filename
    return "site-packages" not in path and not path.startswith(str(Path(__file__).parent))


def _relative(path: Path, root: Path) -> str:
    return Path(os.path.relpath(path, root)).as_posix()


def _folder(config: pytest.Config) -> Path:
    said = config.getoption("--heal-folder")
    return config.invocation_params.dir / said if said else config.rootpath / FOLDER


def _source_of(item: pytest.Item) -> str:
    try:
        text = inspect.getsource(getattr(item, "obj", None))  # type: ignore[arg-type]
    except (OSError, TypeError):
        return ""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]


def _judged(heal: Heal, passed: bool) -> Heal:
    """Only a test that passed proves a heal, and only what is proven is learned."""
    proven = passed and heal.outcome == "healed"
    return msgspec.structs.replace(heal, verified=proven, learned=proven and heal.learned)
