"""Which environment variables are secrets without being asked."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recoup.redaction.environment import secret_names
from recoup.redaction.redactor import SecretRedactor

VALUE = "eight-ch"


@pytest.mark.parametrize(
    "name",
    ["API_TOKEN", "token", "Db_Password", "X_PASSWD_2", "A_SECRET_B", "AWS_CREDENTIALS", "CREDENTIAL"],
)
def test_a_whole_word_of_the_name_makes_a_secret(name: str) -> None:
    assert secret_names({name: VALUE}) == {name: VALUE}


@pytest.mark.parametrize("name", ["NPM_AUTH", "STRIPE_APIKEY", "AUTH_SOCK", "RECOUP_KEY", "DB_passwd"])
def test_every_word_of_the_list_counts(name: str) -> None:
    assert secret_names({name: VALUE}) == {name: VALUE}


@pytest.mark.parametrize(
    "name",
    ["PATH", "TOKENS", "KEYBOARD", "AUTHOR", "MONKEY_BAR", "XAUTHORITY", "SSH_AUTH_SOCK", "PUBLICKEY"],
)
def test_only_a_whole_word_of_the_name_counts(name: str) -> None:
    assert secret_names({name: VALUE}) == {}


@pytest.mark.parametrize(
    "value", ["", "seven-c", "       \n\n", " seven-c ", "********", "undefined", "Disabled"]
)
def test_short_and_empty_values_are_not_secrets(value: str) -> None:
    assert secret_names({"API_TOKEN": value}) == {}


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(["A_KEY", "B_TOKEN", "HOME"]), st.text(max_size=20)))
def test_whatever_is_found_can_be_registered(environ: dict[str, str]) -> None:
    redactor = SecretRedactor()
    for name, value in secret_names(environ).items():
        redactor.register(name, value)


def test_an_environment_that_was_redacted_before_registers_nothing() -> None:
    assert secret_names({"API_TOKEN": "[redacted]", "B_TOKEN": "redacted"}) == {}
