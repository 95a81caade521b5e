"""Tokens and answers as the gateway keeps them, who is slowed down, and cursors."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from tests.keys import TOKEN

from recoup.errors import NotFound, UsageError
from recoup.gateway.access import Principal, Role
from recoup.gateway.answering import read_cursor
from recoup.gateway.book import (
    ANSWERS_KEPT_S,
    SESSION_S,
    SESSIONS_OF_TOKEN_MAX,
    UNDER_WAY_S,
    Book,
    KeyOfAnother,
    answer_key,
)
from recoup.gateway.finishing import Answer
from recoup.gateway.house import House
from recoup.gateway.problems import Refused
from recoup.gateway.routing import known
from recoup.gateway.serving import Setup, must_be_safe
from recoup.operations.cursor import cursor_of
from recoup.operations.logs import whole
from recoup.serving.brake import ADDRESSES_MAX, WRONG_TOKENS_MAX, WRONG_TOKENS_WINDOW_S, Brake

DONE = Answer(201, "application/json", b"{}")


@pytest.fixture
def now() -> list[float]:
    return [1_000_000.0]


@pytest.fixture
def book(tmp_path: Path, now: list[float]) -> Iterator[Book]:
    made = Book(tmp_path / "gateway.db", lambda: now[0])
    yield made
    made.close()


def test_a_token_is_known_until_it_is_revoked(book: Book) -> None:
    assert book.is_new()
    token = book.make(Role.PROBE, "rack 7", "2026-11-16T00:00:00Z")
    who = book.who(token)
    assert who is not None
    assert (who.role, who.name) == (Role.PROBE, "rack 7")
    assert book.who(token[:-1]) is None
    assert not book.is_new()
    book.revoke(who.token_id, "2026-11-17T00:00:00Z")
    assert book.who(token) is None
    assert [row.revoked_at for row in book.tokens()] == ["2026-11-17T00:00:00Z"]
    with pytest.raises(NotFound):
        book.revoke("tok-none", "2026-11-17T00:00:00Z")


async def test_a_book_of_before_learns_where_things_were_made(tmp_path: Path) -> None:
    path = tmp_path / "gateway.db"
    with contextlib.closing(Book(path, lambda: 0.0)) as book:
        token = book.make(Role.VIEWER, "v", "now")
    with contextlib.closing(sqlite3.connect(path)) as old:
        old.execute("ALTER TABLE answers DROP COLUMN location")
    made = Answer(201, "application/json", b"{}", "/api/runs/r")
    for _ in range(2):
        with contextlib.closing(Book(path, lambda: 0.0)) as book:
            assert book.who(token) is not None
            if book.begin("k", "asked") is None:
                await book.finish("k", made)
            assert book.begin("k", "asked") == made


def test_a_given_token_must_be_long_and_is_an_operators(book: Book) -> None:
    with pytest.raises(UsageError, match="32"):
        book.accept("x" * 31)
    book.accept(TOKEN)
    who = book.who(TOKEN)
    assert who is not None and who.role is Role.OPERATOR
    assert book.is_new()


def test_a_session_ends_by_itself_or_with_its_token(book: Book, now: list[float]) -> None:
    who = book.who(book.make(Role.VIEWER, "v", "2026-11-16T00:00:00Z"))
    assert who is not None
    secret, csrf = book.open_session(who)
    session = book.session(secret)
    assert session is not None and (session.principal, session.csrf) == (who, csrf)
    now[0] += SESSION_S + 1
    assert book.session(secret) is None
    secret, _ = book.open_session(who)
    book.revoke(who.token_id, "2026-11-16T00:00:00Z")
    assert book.session(secret) is None


def test_a_session_of_a_given_token_ends_when_another_is_given(book: Book) -> None:
    book.accept(TOKEN)
    secret, _ = book.open_session(book.who(TOKEN) or pytest.fail("unknown"))
    assert book.session(secret) is not None
    book.accept(f"{TOKEN}-too")
    assert book.session(secret) is None
    book.accept(TOKEN)
    assert book.session(secret) is not None


def test_sessions_of_a_token_are_bounded_and_the_oldest_go_first(book: Book, now: list[float]) -> None:
    book.accept(TOKEN)
    who = book.who(TOKEN)
    assert who is not None
    other = book.who(book.make(Role.VIEWER, "v", "2026-11-16T00:00:00Z"))
    assert other is not None
    others, _ = book.open_session(other)
    made = []
    for _ in range(SESSIONS_OF_TOKEN_MAX + 1):
        now[0] += 0.001
        made.append(book.open_session(who)[0])
    assert book.session(made[0]) is None
    assert book.session(made[1]) is not None and book.session(made[-1]) is not None
    assert book.session(others) is not None, "nobody signs out whoever has another token"


def test_where_wrong_tokens_come_from_right_ones_are_known_all_the_same(book: Book) -> None:
    book.accept(TOKEN)
    made = book.make(Role.VIEWER, "v", "2026-11-16T00:00:00Z")
    house = House(cast(Any, SimpleNamespace(ledger=None)), book)
    here = Request({"type": "http", "headers": [], "client": ("::1", 1)})
    for number in range(WRONG_TOKENS_MAX):
        with pytest.raises(Refused, match="not known"):
            known(house, here, f"wrong {number}")
    assert known(house, here, made).name == "v"
    assert known(house, here, TOKEN).name == "RECOUP_TOKEN"
    with pytest.raises(Refused, match="different wrong tokens"):
        known(house, here, TOKEN[::-1])


async def test_a_key_is_answered_once_and_then_told(book: Book, now: list[float]) -> None:
    assert book.begin("k", "r") is None
    with pytest.raises(UsageError, match="being answered"):
        book.begin("k", "r")
    await book.finish("k", DONE)
    assert book.begin("k", "r") == DONE
    with pytest.raises(KeyOfAnother):
        book.begin("k", "another")
    now[0] += ANSWERS_KEPT_S + 1
    assert book.begin("k", "another") is None


def test_what_was_not_answered_may_be_asked_again(book: Book, now: list[float]) -> None:
    assert book.begin("k", "r") is None
    book.drop("k")
    assert book.begin("k", "r") is None
    now[0] += UNDER_WAY_S + 1
    assert book.begin("k", "r") is None, "whoever began is dead"


async def test_answers_outlive_the_process(tmp_path: Path) -> None:
    first = Book(tmp_path / "b", lambda: 1.0)
    first.begin("k", "r")
    await first.finish("k", DONE)
    first.close()
    second = Book(tmp_path / "b", lambda: 2.0)
    assert second.begin("k", "r") == DONE
    second.close()


async def test_answers_that_are_ready_together_are_all_kept(book: Book) -> None:
    answers = {f"k{number}": Answer(200, "text/plain", b"%d" % number) for number in range(20)}
    for key in answers:
        assert book.begin(key, "r") is None
    await asyncio.gather(*(book.finish(key, answer) for key, answer in answers.items()))
    assert {key: book.begin(key, "r") for key in answers} == answers


@given(st.text(), st.text(), st.text(), st.text())
def test_two_tokens_never_share_a_key(one: str, key: str, other: str, another: str) -> None:
    first, second = (Principal(name, "", Role.OPERATOR) for name in (one, other))
    if "\n" in one + other:
        return
    assert (answer_key(first, key) == answer_key(second, another)) == ((one, key) == (other, another))


def test_who_tries_tokens_must_wait_and_nobody_else(now: list[float]) -> None:
    brake = Brake(lambda: now[0])
    for number in range(WRONG_TOKENS_MAX):
        brake.wrong("a", "0")  # the same one again is no try
        assert brake.wait_s("a") == 0
        assert brake.wrong("a", str(number)) == 0
    assert brake.wrong("a", "another") == WRONG_TOKENS_WINDOW_S
    assert brake.wait_s("b") == 0
    now[0] += WRONG_TOKENS_WINDOW_S
    assert brake.wrong("a", "another") == 0


def test_the_brake_remembers_a_bounded_number_of_addresses(now: list[float]) -> None:
    brake = Brake(lambda: now[0])
    for number in range(ADDRESSES_MAX + 10):
        brake.wrong(str(number), "x")
    assert len(brake._wrong) == ADDRESSES_MAX


@given(st.integers(0, 2**63 - 1), st.text(st.characters(codec="utf-8"), max_size=50))
def test_a_cursor_is_read_as_it_was_made(at: int, run_id: str) -> None:
    assert read_cursor(cursor_of(at, run_id), tuple[int, str]) == (at, run_id)


@pytest.mark.parametrize("text", ["x", "é", "=", "W10", "WzEsMV0", "WyJhIiwxXQ", "a" * 401])
def test_a_cursor_of_somebody_else_is_refused_in_words(text: str) -> None:
    with pytest.raises(Refused, match="not given by this gateway"):
        read_cursor(text, tuple[int, str])


@given(st.text(st.characters(codec="utf-8"), max_size=40), st.integers(4, 12))
def test_a_text_cut_anywhere_comes_in_whole_characters(text: str, size: int) -> None:
    raw, place, pieces = text.encode(), 0, []
    while place < len(raw):
        piece = whole(raw[place : place + size])
        assert piece, "a piece of four bytes holds a whole character"
        pieces.append(piece.decode())
        place += len(piece)
    assert "".join(pieces) == text


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", ""])
def test_what_others_can_reach_is_encrypted_or_somebody_says_so(host: str) -> None:
    with pytest.raises(UsageError, match="other machines"):
        must_be_safe(Setup(host=host))
    must_be_safe(Setup(host=host, insecure=True))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_the_machine_itself_needs_no_tls(host: str) -> None:
    must_be_safe(Setup(host=host))


def test_tls_needs_both_files_and_they_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="both"):
        must_be_safe(Setup(tls_cert=tmp_path / "cert"))
    with pytest.raises(UsageError, match="no file"):
        must_be_safe(Setup(tls_cert=tmp_path / "cert", tls_key=tmp_path / "key"))
