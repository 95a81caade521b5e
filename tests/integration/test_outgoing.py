"""Requests to others, on real sockets."""

from __future__ import annotations

import contextlib
import socket
from urllib.parse import urlsplit

import pytest

from recoup.outgoing import exchange as outgoing
from recoup.outgoing.exchange import Asked, Unreachable, exchange, tls_for


async def test_whoever_takes_no_connection_is_told_apart_from_whoever_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Over TLS somebody who says nothing has not been connected to; without it they have."""
    monkeypatch.setattr(outgoing, "CONNECT_S", 0.2)
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as silent:
        port = silent.getsockname()[1]
        for scheme, within_s, words in (
            ("https", 600.0, "cannot be reached: no connection within 0.2 s"),
            ("http", 0.4, "has not answered within 0.4 s"),
        ):
            url = urlsplit(f"{scheme}://127.0.0.1:{port}/")
            asked = Asked("GET", "/", (), within_s=within_s)
            with pytest.raises(Unreachable, match=words):
                await exchange(url, asked, "it", tls_for(url))
