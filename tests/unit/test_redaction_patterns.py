"""Secrets that nobody registered. Every fake is put together here from parts; none is written down whole."""

from __future__ import annotations

import os
import random
import string
from collections.abc import Iterable
from functools import cache

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoup.model.ident import Ident
from recoup.redaction.masks import MASK
from recoup.redaction.patterns.catalogue import default_cache, pattern_set
from recoup.redaction.patterns.compiled import PatternSet
from recoup.redaction.patterns.stage import WINDOW_BYTES, PatternStage
from recoup.redaction.redactor import SecretRedactor

LETTERS = string.ascii_letters + string.digits
CHANCE = random.Random(17)


@cache
def patterns() -> PatternSet:
    """From the cache: to compile them takes seconds, and each test process would."""
    return pattern_set(default_cache(os.environ))


def word(size: int, alphabet: str = LETTERS) -> str:
    return "".join(CHANCE.choices(alphabet, k=size - 3)) + "a7Q"


def redacted(chunks: Iterable[bytes]) -> bytes:
    stage = PatternStage(patterns())
    return b"".join([*map(stage.feed, chunks), stage.flush()])


def masked(text: str) -> str:
    return redacted([text.encode()]).decode()


def key_lines(kind: str = "RSA ", lines: int = 12) -> str:
    body = "\n".join(word(64) for _ in range(lines))
    return f"-----BEGIN {kind}PRIVATE KEY-----\n{body}\nab3=\n-----END {kind}PRIVATE KEY-----\n"


HEX = "0123456789abcdef"
HIDDEN = {
    "aws session": ("got {} back", "IQoJb3Jp" + "Z2lu" + word(300)),
    "wandb": ("got {} back", "wandb" + "_v1_" + word(77)),
    "depot": ("got {} back", "depot" + "_project_" + word(64)),
    "honeycomb": ("got {} back", "hcaik" + "_01" + word(56, string.ascii_lowercase + string.digits)),
    "chromatic": ("got {} back", "chpt" + "_" + "".join(CHANCE.choices(HEX, k=15))),
    "tencent": ("got {} back", "AK" + "ID" + word(32)),
    "backblaze": ("got {} back", "K0" + "05" + word(27)),
    "infisical": (
        "got {} back",
        ".".join(["st", *("".join(CHANCE.choices(HEX, k=size)) for size in (24, 32, 32))]),
    ),
    "environment": ("DB_PASSWORD={}", word(14)),
    "quoted": ('password = "{}"', word(12) + "!"),
    "single quoted": ("secret: '{}'", word(20)),
    "json": ('{{"user": 1, "apiKey": "{}", "n": 2}}', word(24)),
    "escaped json": ('"{{\\"token\\":\\"{}\\"}}"', word(24)),
    "yaml": ("  client_secret: {}", word(30)),
    "toml": ("auth_token = '{}'", word(30)),
    "xml": ("<password>{}</password>", word(12)),
    "flag": ("tool --api-token {} --verbose", word(24)),
    "url": ("postgres://app:{}@db.internal:5432/app", word(12)),
    "query": ("GET /v1?access_token={}&page=2", word(24)),
    "bearer": ("Authorization: Bearer {}", word(40)),
    "basic": ("authorization: Basic {}", word(24)),
    "header": ("X-Api-Key: {}", word(32)),
    "curl": ("curl -u admin:{} https://host/", word(12)),
    "curl over lines": ("curl -X POST \\\n  -u admin:{} \\\n  https://host/", word(12)),
    "plain word in the environment": ("APP_AUTH_PASSWORD={}", "white" + "duke"),
    "sql": ("CREATE USER app IDENTIFIED BY '{}';", word(12)),
    "crypt": ("root:{}:19000:0:99999:7:::", "$6$" + word(12) + "$" + word(86)),
    "connection string": ("Server=db;User Id=app;Password={};Encrypt=yes", word(14)),
    "github": ("remote: {} accepted", "gh" + "p_" + word(36)),
    "slack": ("bot {}", "xo" + "xb-" + "1234567890-" + word(24)),
    "aws": ("id {} used", "AK" + "IA" + word(16, string.ascii_uppercase).upper()),
    "stripe": ("using {}", "sk_" + "live_" + word(24)),
    "unknown prefix": ("got {} back", "zq" + "x_" + word(32)),
    "jwt": ("sent {}", "ey" + "J" + word(20) + ".ey" + "J" + word(40) + "." + word(43)),
    "webhook": ("https://hooks.example/hooks/{}", word(26)),
    "private key word": ("eth private key {}", "0x" + word(64, "0123456789abcdef")[:-3] + "123"),
}


@pytest.mark.parametrize("shape", HIDDEN)
def test_a_secret_that_nobody_registered_is_masked_and_the_text_around_it_kept(shape: str) -> None:
    text, secret = HIDDEN[shape]
    before, _, after = text.format("\0").partition("\0")
    out = masked(f"first line\n{text.format(secret)}\nlast line\n")
    assert secret not in out
    assert out.startswith("first line\n")
    assert out.endswith("last line\n")
    assert MASK.decode() in out
    assert out.splitlines()[1].startswith(before[: max(0, len(before) - 1)].split(":")[0][:4])
    assert after[-4:] in out


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (r'{"log":"the line before\n', r'\nafter"}'),
        (r'{"log":"the line before\r\n\t', r'\r\n\tafter"}'),
        (r'"{\"log\":\"the line before\\n', r'\\nafter\"}"'),
        (r'{"log":"in red: \u001b[31m', r'\u001b[0m"}'),
        ("in red: \x1b[1;31m", "\x1b[0m"),
    ],
)
@pytest.mark.parametrize("shape", HIDDEN)
def test_neither_an_escaped_line_break_nor_a_colour_hides_a_secret_that_follows(
    shape: str, before: str, after: str
) -> None:
    text, secret = HIDDEN[shape]
    line = before + text.format(secret) + after
    out = masked(f"{line}\n")
    assert secret not in out and secret[1:] not in out
    assert out.startswith(before[:16]) and out.endswith(f"{after[-2:]}\n"), out
    document = SecretRedactor(patterns()).seal({"said": line}).text
    assert secret not in document and secret[1:] not in document


@pytest.mark.parametrize("text", ["\x1b[32mpassword\x1b[0m: %s", "password: \x1b[31m%s\x1b[0m"])
def test_a_colour_does_not_part_a_password_from_its_name(text: str) -> None:
    out = masked(text % "Tr0ub4dor3xyz")
    assert "Tr0ub4" not in out and out == text % "[redacted]"


CLEAN = (
    "password=${DB_PASSWORD}",
    'token = os.environ["TOKEN"]',
    "password: <your password>",
    "api_key = get_api_key()",
    "secret=None",
    "password=********",
    "Failed password for root from 10.0.0.5 port 22 ssh2",
    "token_type: bearer",
    "password_length = 12",
    "error: Unexpected token 'else' at line 12",
    "key: value",
    "auth=failed user=root",
    "commit 3f2a9c0d1e4b5a69788776655443322110ffeedd",
    "/usr/lib/python3.11/site-packages/key_manager/token_store.py:120",
    "session 0x14ede63a5a70002 closed",
    "public_key_fingerprint=ab:cd:ef:01:23:45:67:89",
    r'{"log":"Enter your password:\nUsername: bob\nsession 0x14ede63a5a70002 closed"}',
    "\x1b[1mtoken_type\x1b[0m: bearer",
)


@pytest.mark.parametrize("text", CLEAN)
def test_what_only_talks_of_secrets_stays(text: str) -> None:
    assert masked(text + "\n") == text + "\n"


OWN = (
    '{"argsDigest":"sha256:%s","diffHash":"%s"}',
    "RECOUP_IDEMPOTENCY_KEY=20261115-101500-abc123:fetch:%s",
    '{"signature":"v1:%s","tree":"%.40s"}',
    '{"policyDigest":"sha256:%s","runId":"20261115-101500-a1b2c3"}',
    "evidence sha256:%s kept, tree %.40s",
)


@pytest.mark.parametrize("text", OWN)
def test_what_the_program_itself_writes_is_never_masked(text: str) -> None:
    digest = word(64, "0123456789abcdef")[:-3] + "0f1"
    line = text % ((digest,) * text.count("%")) + "\n"
    assert masked(line) == line


def test_a_private_key_is_masked_whole_wherever_the_text_is_cut() -> None:
    text = ("start\n" + key_lines() + "end\n").encode()
    whole = redacted([text])
    assert (
        whole == b"start\n-----BEGIN RSA PRIVATE KEY-----\n[redacted]\n-----END RSA PRIVATE KEY-----\nend\n"
    )
    for at in range(1, len(text)):
        assert redacted([text[:at], text[at:]]) == whole


def test_a_private_key_on_one_line_is_masked() -> None:
    key = key_lines().replace("\n", "\\n")
    out = masked(f'{{"key": "{key}", "n": 1}}\n')
    assert not any(line in out for line in key.split("\\n")[1:-2])
    assert out.endswith('"n": 1}\n')


def test_lines_of_others_between_those_of_a_key_are_kept() -> None:
    lines = key_lines().splitlines()
    lines.insert(5, "2026-11-15 INFO another program speaks")
    out = masked("\n".join(lines) + "\n")
    assert "another program speaks" in out
    assert not any(line in out for line in lines[1:5] + lines[6:-2])


def test_a_key_that_never_ends_does_not_swallow_the_log() -> None:
    out = masked("-----BEGIN EC PRIVATE KEY-----\n" + "worker 17: all is well, going on\n" * 10)
    assert out.count("all is well") == 10


def test_a_token_of_any_length_is_masked_to_its_end() -> None:
    token = "ey" + "J" + word(30) + ".ey" + "J" + "".join(CHANCE.choices(LETTERS, k=60_000)) + "." + word(43)
    text = f"a token: {token} and more".encode()
    assert redacted([text]) == redacted(text[i : i + 1_000] for i in range(0, len(text), 1_000))
    assert redacted([text]) == b"a token: [redacted] and more"


def test_a_line_without_end_is_passed_on_while_it_comes() -> None:
    stage, sent = PatternStage(patterns()), 0
    for fed in range(1, 200):
        sent += len(stage.feed(b"compiled 214 files, " * 500))
        assert fed * 10_000 - sent <= WINDOW_BYTES
    assert sent + len(stage.flush()) == 199 * 10_000


def test_a_line_is_passed_on_as_soon_as_it_is_complete() -> None:
    assert PatternStage(patterns()).feed(b"one\ntwo\nthr") == b"one\ntwo\n"


def test_a_user_name_beside_a_password_is_half_of_the_credential() -> None:
    out = masked(f"username = alice\npassword = {word(12)}\nusername = alice\nport = 17\nhost = db\n")
    assert out == "username = [redacted]\npassword = [redacted]\nusername = alice\nport = 17\nhost = db\n"


def test_redacting_twice_changes_nothing() -> None:
    text = "\n".join(shape.format(secret) for shape, secret in HIDDEN.values()) + "\n" + key_lines()
    once = masked(text)
    assert masked(once) == once


ordinary = st.sampled_from(
    ("step build: 214 files in 3.2 s\n", "ok\n", "\n", "no newline here ", "x" * 5_000, "user = bob\n")
)
secret_line = st.sampled_from(
    [shape.format(secret) + "\n" for shape, secret in HIDDEN.values()] + [key_lines()]
)
flood = st.sampled_from(
    ("password=abc12345\n" * 400, 'token="a1b2c3d4e5f6" ' * 900, "-----BEGIN X PRIVATE KEY-----\n" * 300)
)


@settings(max_examples=120, deadline=None)
@given(st.lists(st.one_of(ordinary, ordinary, secret_line, flood), max_size=9), st.data())
def test_what_comes_out_does_not_depend_on_the_cuts(pieces: list[str], data: st.DataObject) -> None:
    text = "".join(pieces).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    chunks = [text[i:j] for i, j in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert redacted(chunks) == redacted([text])


@settings(max_examples=20, deadline=None)
@given(st.lists(st.one_of(ordinary, secret_line), max_size=4))
def test_what_comes_out_does_not_depend_on_single_bytes(pieces: list[str]) -> None:
    text = "".join(pieces).encode()
    assert redacted(text[i : i + 1] for i in range(len(text))) == redacted([text])


def test_a_burst_of_secrets_is_masked_one_by_one_and_a_flood_as_a_whole() -> None:
    secrets = [word(16) for _ in range(100)]
    out = masked("".join(f"TOKEN_{n}={secret}\n" for n, secret in enumerate(secrets)))
    assert [line.partition("=")[2] for line in out.splitlines()] == [MASK.decode()] * 100
    many = [word(16) for _ in range(5_000)]
    flooded = masked("".join(f"token={secret}\n" for secret in many))
    assert not any(secret in flooded for secret in many)


def test_a_line_with_too_many_hits_after_a_short_one_is_masked_and_no_reason_to_fail() -> None:
    secret = word(16)
    out = masked(f"ok\n{f'password={secret!r} ' * 500}\nok\n")
    assert secret not in out
    assert out.startswith("ok\n[redacted]")
    assert out.endswith("ok\n")


def test_too_many_hits_after_the_name_of_a_user_hide_nothing_from_the_rules() -> None:
    secrets = [word(9) for _ in range(60)]
    line = "".join(f'password="{secret}" ' for secret in secrets)
    text = f"user = bob\n{line}\n".encode()
    out = redacted([text])
    assert not any(secret.encode() in out for secret in secrets)
    assert redacted(text[at : at + 1] for at in range(len(text))) == out


@pytest.mark.parametrize("before", [1, 1_023, 1_024, 1_025, 5_000])
def test_what_stands_far_before_a_flood_changes_nothing_in_it(before: int) -> None:
    text = b"x" * before + b"\n" + b"password=abc12345\n" * 400
    for at in (before, before + 1, before + 2, before + 1_000):
        assert redacted([text[:at], text[at:]]) == redacted([text])


# Documents


class Note(msgspec.Struct):
    digest: Ident
    text: str
    more: dict[str, str] = {}


def test_the_free_text_of_a_document_is_redacted_and_its_shape_kept() -> None:
    secret, digest = word(20), "sha256:" + word(64, "0123456789abcdef")
    redactor = SecretRedactor(patterns())
    sealed = redactor.seal(Note(digest, f"failed: password={secret}", {"plain": "text"}))
    assert msgspec.json.decode(sealed.data) == {
        "digest": digest,
        "text": "failed: password=[redacted]",
        "more": {"plain": "text"},
    }


def test_a_value_is_redacted_for_what_its_key_says() -> None:
    sealed = SecretRedactor(patterns()).seal({"n": 3, "list": [{"password": word(12), "port": "5432"}]})
    assert msgspec.json.decode(sealed.data) == {"n": 3, "list": [{"password": "[redacted]", "port": "5432"}]}


def test_a_value_in_a_struct_is_redacted_for_what_its_key_says() -> None:
    sealed = SecretRedactor(patterns()).seal(Note("sha256:1", "text", {"password": word(12), "port": "5432"}))
    assert msgspec.json.decode(sealed.data)["more"] == {"password": "[redacted]", "port": "5432"}


def test_a_key_that_is_a_secret_is_redacted_and_no_value_is_lost() -> None:
    keys = ["gh" + "p_" + word(36) for _ in range(2)]
    sealed = SecretRedactor(patterns()).seal(dict.fromkeys(keys, 1))
    assert msgspec.json.decode(sealed.data) == {"[redacted]": 1, "[redacted] 1": 1}
    third = SecretRedactor(patterns()).seal({"[redacted] 2": 1, keys[0]: 2, keys[1]: 3})
    assert sorted(msgspec.json.decode(third.data).values()) == [1, 2, 3]


def test_a_clean_document_is_sealed_as_it_is() -> None:
    document = {"event": "task.step.attempt.started", "step": 3, "key": "value"}
    assert SecretRedactor(patterns()).seal(document).data == msgspec.json.encode(document)


def test_sealing_twice_changes_nothing() -> None:
    redactor = SecretRedactor(patterns())
    once = redactor.seal({"password": word(12), "text": f"token={word(24)}"}).data
    assert redactor.seal(msgspec.json.decode(once)).data == once


def test_registered_secrets_and_patterns_work_together() -> None:
    registered, other = "tea-" + word(9), word(24)
    redactor = SecretRedactor(patterns())
    redactor.register("TEA", registered)
    out = redactor.redact(f"drink {registered}, api_key={other}\n").text
    assert out == "drink [redacted], api_key=[redacted]\n"
