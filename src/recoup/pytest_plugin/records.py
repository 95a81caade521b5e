"""What is learned of the elements that tests act on: a folder of small files that can be committed.

One file for each test file, sorted and without times, so that a run that learns nothing new changes nothing. Text gets
here only through a redactor.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from recoup.model.redacted import Redacted
from recoup.model.target import Element, identity_of

FORMAT: Final = 1
FILE_BYTES_MAX: Final = 16 << 20
ACTIONS_MAX: Final = 500
"""Of one test; beyond it nothing more of that test is learned."""
LOCK_WAIT_S: Final = 30.0
"""For another session to have written what it learned: a frozen one must not keep this one from ending."""
_POLL_S: Final = 0.05

Warn = Callable[[str], None]


class Place(msgspec.Struct, frozen=True, order=True):
    """One action of a test. Lines are no part of it: they move with every edit."""

    action: str
    locator: str
    nth: int = 1
    """Which one of those that are alike in the test."""


class Before(msgspec.Struct, frozen=True, kw_only=True):
    """What the locator itself last found, and how sure was what took its place."""

    confidence: float
    element: Element


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The element that an action was last performed on in a test that passed."""

    place: Place
    element: Element
    frame: tuple[int, ...] = ()
    """Which frame of the page, by numbers from the main one down."""
    healed: Before | None = None


class LearnedTest(msgspec.Struct, frozen=True):
    """What is known of one test."""

    source: str
    """A digest of the test's own text: when it changes, actions that are no longer made are forgotten."""
    actions: tuple[Record, ...]


class Learned(msgspec.Struct, frozen=True):
    """What one passed test has to say."""

    file: str
    name: str
    test: LearnedTest


class _File(msgspec.Struct, frozen=True):
    format: int
    tests: dict[str, LearnedTest]


class Damaged(Exception):
    """A file of the folder that cannot be used; says why."""


class HealFolder:
    """The learned state. Read when the first action of a test file asks for it, written when the session ends."""

    def __init__(self, root: Path, warn: Warn) -> None:
        self.root: Final = root
        self._warn = warn
        self._read: dict[str, dict[tuple[str, Place], Record]] = {}

    def find(self, file: str, test: str, place: Place) -> Record | None:
        if file not in self._read:
            self._read[file] = self._all_of(file)
        return self._read[file].get((test, place))

    def keep(self, learned: Iterable[Redacted]) -> None:
        """All of it or, where the folder cannot be written, a warning: the tests themselves are not concerned."""
        by_file: dict[str, list[Learned]] = {}
        for said in learned:
            one = msgspec.json.decode(said.data, type=Learned)
            by_file.setdefault(one.file, []).append(one)
        try:
            self._keep_files(by_file)
        except OSError as error:
            self._warn(
                f"what was learned could not be kept in {self.root}: {error}; check the folder's rights and room, "
                "and who else uses it"
            )

    def path_of(self, file: str) -> Path:
        steps = [step for step in Path(file).parts if step not in ("/", "..", ".")]
        return self.root.joinpath(*steps[:-1], f"{steps[-1]}.json")

    def _all_of(self, file: str) -> dict[tuple[str, Place], Record]:
        try:
            tests = _tests_in(self.path_of(file))
        except Damaged as error:
            self._warn(f"{error}; nothing in {file} heals until the file is mended or deleted")
            return {}
        return {(name, record.place): record for name, test in tests.items() for record in test.actions}

    def _keep_files(self, by_file: Mapping[str, Iterable[Learned]]) -> None:
        if not by_file:
            return
        self.root.mkdir(parents=True, exist_ok=True)
        with _locked(self.root):
            for file, learned in sorted(by_file.items()):
                self._keep_file(file, learned)

    def _keep_file(self, file: str, learned: Iterable[Learned]) -> None:
        path = self.path_of(file)
        try:
            tests = _tests_in(path)
        except Damaged as error:
            self._warn(f"{error}; what was learned in {file} is not kept: mend or delete the file")
            return
        for one in learned:
            tests[one.name] = merged(tests.get(one.name), one.test)
        text = _text(tests)
        if not path.exists() or path.read_text("utf-8") != text:
            _write_whole(path, text)


def merged(old: LearnedTest | None, new: LearnedTest) -> LearnedTest:
    """What was seen now, over what is known. A description that still names the element stays to the letter, so that
    a page that moves things about does not rewrite the folder at every run."""
    known = {record.place: record for record in old.actions} if old else {}
    seen = {record.place: record for record in new.actions}
    if old and old.source != new.source:
        known = {place: record for place, record in known.items() if place in seen}
    for place, record in seen.items():
        if place not in known or not says_the_same(known[place], record):
            known[place] = record
    return LearnedTest(new.source, tuple(known[place] for place in sorted(known)[:ACTIONS_MAX]))


def says_the_same(old: Record, new: Record) -> bool:
    """In all that names the element. Where a heal was learned before, its history stays."""
    return (
        identity_of(old.element) == identity_of(new.element)
        and old.frame == new.frame
        and (old.healed is None) == (new.healed is None)
    )


def _tests_in(path: Path) -> dict[str, LearnedTest]:
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise Damaged(f"{path} cannot be read: {error}") from None
    if len(data) > FILE_BYTES_MAX:
        raise Damaged(f"{path} has more than {FILE_BYTES_MAX} bytes")
    try:
        read = msgspec.json.decode(data, type=_File)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Damaged(f"{path} is damaged: {error}") from None
    if read.format != FORMAT:
        raise Damaged(f"{path} has format {read.format}, and this version of recoup reads {FORMAT}")
    return read.tests


def _text(tests: Mapping[str, LearnedTest]) -> str:
    plain = msgspec.to_builtins(_File(FORMAT, dict(tests)))
    return json.dumps(plain, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _write_whole(path: Path, text: str) -> None:
    """There whole or not at all. With the usual rights: it is a file of the project, like the tests."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.write_text(text, "utf-8")
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One session after the other: each adds to what the one before it has written. Raises OSError."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _lock(handle)
        yield
    finally:
        os.close(handle)


def _lock(handle: int) -> None:
    deadline_s = time.monotonic() + LOCK_WAIT_S
    while not _is_locked(handle):
        if time.monotonic() >= deadline_s:
            raise TimeoutError(f"another session has held it for {LOCK_WAIT_S:g} s")
        time.sleep(_POLL_S)


def _is_locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
