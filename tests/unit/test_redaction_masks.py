"""The mask must not say what it stands for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from recoup.redaction.masks import MASK, mask_for
from recoup.redaction.redactor import SecretRedactor


def test_secrets_have_the_usual_mask() -> None:
    assert mask_for([b"open-sesame", b"a+b/c==", b'quo"ted'] * 3) == MASK == b"[redacted]"


def test_a_mask_does_not_go_on_as_the_secret_does() -> None:
    redactor = SecretRedactor()
    redactor.register("SECRET", "abcdefg[hijkl")
    assert redactor.redact("abcdefgabcdefg[hijkl").data == b"abcdefg<redacted>"


def test_a_secret_that_the_mask_would_show_has_another_mask() -> None:
    for value in ("redacted", "acte", "redacted-too", "[redacted]"):
        redactor = SecretRedactor()
        redactor.register("SECRET", value)
        assert redactor.redact(f"it is {value}.").data == b"it is ***."


@given(st.lists(st.binary(min_size=4, max_size=9).filter(lambda form: 0xE2 not in form and 0x88 not in form)))
def test_no_form_holds_an_edge_of_the_mask_or_is_shown_by_it(forms: list[bytes]) -> None:
    mask = mask_for(forms)
    assert not any(mask[:1] in form or mask[-1:] in form or form in mask for form in forms)
