"""One request to a gateway: over TLS that is verified, to servers that misbehave, and nowhere else."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from recoup.errors import UsageError
from recoup.model.probe_wire import EVENTS_PATH
from recoup.probe.gateway.client import GatewayClient, Unreachable
from recoup.testing.gateway import GatewayStandIn

BATCH = b'{"probe_id": "house", "lease_epoch": 1, "events": []}'


def certified(folder: Path, address: str) -> tuple[ssl.SSLContext, Path]:
    """A server with a certificate of its own for this address, and that certificate for those who trust it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gateway")])
    now = datetime.datetime.now(datetime.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    pem, secret = folder / "gateway.pem", folder / "gateway.key"
    pem.write_bytes(built.public_bytes(serialization.Encoding.PEM))
    no_password = serialization.NoEncryption()
    secret.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, no_password)
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pem, secret)
    return server, pem


async def test_a_gateway_whose_certificate_is_trusted_is_spoken_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, pem = certified(tmp_path, "127.0.0.1")
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    async with GatewayStandIn(server) as gateway:
        answer = await GatewayClient(gateway.url, gateway.token).post(EVENTS_PATH, BATCH)
    assert (answer.status, answer.body) == (200, b'{"acknowledged_seq":0}')


@pytest.mark.parametrize(("address", "trusted"), [("127.0.0.1", False), ("127.0.0.9", True)])
async def test_a_gateway_that_cannot_prove_who_it_is_is_sent_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str, trusted: bool
) -> None:
    server, pem = certified(tmp_path, address)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    async with GatewayStandIn(server) as gateway:
        with pytest.raises(Unreachable, match=r"(?i)certificate"):
            await GatewayClient(gateway.url, gateway.token).post(EVENTS_PATH, BATCH)
        assert not gateway.requests


@asynccontextmanager
async def answering(words: bytes, *, then_hang: bool = False) -> AsyncIterator[str]:
    """A server that says this to everybody."""

    opened: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.append(writer)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(words)
        if then_hang:
            await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for writer in opened:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (b"", "closed before an answer"),
        (b"SSH-2.0-OpenSSH_9.9\r\n", "does not answer in HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", "does not answer in HTTP"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 5_000, "does not answer in HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n" + b"x" * 1_100_000, "more than"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "does not answer in HTTP"),
    ],
)
async def test_what_is_no_answer_is_none(words: bytes, why: str) -> None:
    async with answering(words) as url:
        with pytest.raises(Unreachable, match=why):
            await GatewayClient(url, "t").get(EVENTS_PATH, {"probe_id": "house"})


async def test_an_answer_in_chunks_and_one_without_a_length_are_read() -> None:
    hint = b"HTTP/1.1 103 Early Hints\r\n\r\n"
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    for words in (hint + chunked, b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabcde"):
        async with answering(words) as url:
            assert (await GatewayClient(url, "t").get(EVENTS_PATH, {})).body == b"abcde"


@pytest.mark.parametrize(("written", "seconds"), [(b"7", 7.0), (b"-1", None), (b"Fri, 01 Jan", None)])
async def test_how_long_it_wants_to_be_left_alone(written: bytes, seconds: float | None) -> None:
    words = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nRetry-After: " + written + b"\r\n\r\n"
    async with answering(words) as url:
        answer = await GatewayClient(url, "t").post(EVENTS_PATH, BATCH)
    assert (answer.status, answer.retry_after_s, answer.problem.code) == (503, seconds, "")


async def test_a_request_that_waits_is_given_up_at_once() -> None:
    async with answering(b"", then_hang=True) as url:
        asking = asyncio.create_task(GatewayClient(url, "t").get(EVENTS_PATH, {}, wait_s=600))
        await asyncio.sleep(0.05)
        asking.cancel()
        done, _ = await asyncio.wait({asking}, timeout=60)
        assert done and asking.cancelled()


async def test_nobody_there_is_said_in_words() -> None:
    async with answering(b"") as url:
        pass
    with pytest.raises(Unreachable, match="cannot be reached"):
        await GatewayClient(url, "t").post(EVENTS_PATH, BATCH)


@pytest.mark.parametrize("token", ["", "two words", "ü", "a\r\nX-More: b"])
def test_a_token_that_cannot_be_sent_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(UsageError, match="RECOUP_TOKEN") as refused:
        GatewayClient("https://gateway.example", token)
    assert not token or token not in str(refused.value)


def test_an_address_that_others_can_listen_to_is_refused() -> None:
    with pytest.raises(UsageError, match="neither https nor on this machine"):
        GatewayClient("http://gateway.example", "t")
