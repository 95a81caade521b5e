"""Digests in lock files are no secrets, however they happen to be written."""

from __future__ import annotations

import base64
import os
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoup.redaction.patterns.catalogue import default_cache, pattern_set
from recoup.redaction.redactor import SecretRedactor

SIZES = {"sha1": 20, "sha256": 32, "sha384": 48, "sha512": 64}
FORMS = {
    "package-lock": '      "integrity": "{}",\n',
    "package-lock, several": '      "integrity": "{} {}",\n',
    "yarn.lock": "  integrity {}\n",
    "pnpm": "    resolution: {{integrity: {}}}\n",
    "page": '<script src="/x.js" integrity="{}" crossorigin></script>\n',
    "a sentence": "the digest is {} and nothing else\n",
    "csp": "script-src 'self' '{}'\n",
}


@pytest.fixture(scope="module")
def redactor() -> SecretRedactor:
    return SecretRedactor(pattern_set(default_cache(os.environ)))


def digest(kind: str, seed: int) -> str:
    return f"{kind}-" + base64.b64encode(random.Random(seed).randbytes(SIZES[kind])).decode()


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(FORMS)), st.sampled_from(sorted(SIZES)), st.integers(0, 1 << 32))
def test_a_line_of_a_lock_file_comes_out_as_it_went_in(
    redactor: SecretRedactor, form: str, kind: str, seed: int
) -> None:
    line = FORMS[form].format(digest(kind, seed), digest(kind, seed + 1))
    assert redactor.redact(line).text == line


@pytest.mark.parametrize("form", [form for form in FORMS if form != "package-lock, several"])
def test_two_thousand_lines_come_out_as_they_went_in(redactor: SecretRedactor, form: str) -> None:
    lines = [FORMS[form].format(digest("sha512", n), digest("sha512", -n - 1)) for n in range(2_000)]
    shown = redactor.redact("".join(lines)).text.splitlines(keepends=True)
    assert [one for one, line in zip(shown, lines, strict=True) if one != line] == []
    for line in lines[:200]:
        assert redactor.seal({"line": line, "more": [line]}).data.count(b"redacted") == 0


def test_a_token_beside_a_digest_is_still_masked(redactor: SecretRedactor) -> None:
    token = "ghp" + "_" + "a1B2c3D4e5" * 3 + "f6G7h8"
    shown = redactor.redact(f'  "integrity": "{digest("sha512", 1)}", "auth": "{token}"').text
    assert token not in shown and digest("sha512", 1) in shown
