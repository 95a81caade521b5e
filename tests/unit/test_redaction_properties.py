"""The stream against a reference that buffers everything and compares every form with every place."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from recoup.redaction.forms import refusal, torn_hex_forms, written_forms
from recoup.redaction.masking import MaskingStage
from recoup.redaction.masks import mask_for
from recoup.redaction.matcher import TRUNCATED_BYTES_MIN, FormMatcher
from recoup.redaction.octets import utf8
from recoup.redaction.redactor import SecretRedactor

# Few letters, so that secrets repeat themselves, overlap and begin in each other; and all that gets escaped.
SECRETS = st.one_of(
    st.text("ab", min_size=4, max_size=24),
    st.text("abc-", min_size=4, max_size=40),
    st.text("ab/+\"'\\ \n\t&<%$é日", min_size=4, max_size=40),
    st.text("ab[]<>(|*", min_size=4, max_size=20),
    st.text("ab\n", min_size=60, max_size=1_100),
).filter(lambda value: refusal(value) is None)
NO_LIMIT = 1 << 62
CUTS = st.lists(st.integers(0, 400), max_size=12)


def all_forms(secret: str) -> frozenset[bytes]:
    return written_forms(secret) | torn_hex_forms(secret)


def reference(text: bytes, forms: frozenset[bytes]) -> bytes:
    covered = bytearray(len(text))
    for form in forms:
        at = text.find(form)
        while at >= 0:
            covered[at : at + len(form)] = b"\x01" * len(form)
            at = text.find(form, at + 1)
    for at in range(len(text)):
        if any(_gives_away(text[at:], form) for form in forms):
            covered[at:] = b"\x01" * (len(text) - at)
            break
    return _with_masks(text, covered, mask_for(forms))


def _gives_away(tail: bytes, form: bytes) -> bool:
    return TRUNCATED_BYTES_MIN <= len(tail) < len(form) <= 2 * len(tail) and form[: len(tail)] == tail


def _with_masks(text: bytes, covered: bytearray, mask: bytes) -> bytes:
    out = bytearray()
    for at, octet in enumerate(text):
        if not covered[at]:
            out.append(octet)
        elif at == 0 or not covered[at - 1]:
            out += mask
    return bytes(out)


@st.composite
def texts(draw: st.DrawFn, secrets: list[str]) -> bytes:
    """Text made of forms, of beginnings and ends of forms, and of what is in between."""
    parts = []
    for _ in range(draw(st.integers(0, 6))):
        forms = sorted(all_forms(draw(st.sampled_from(secrets))))
        form = draw(st.sampled_from(forms))
        cut = draw(st.integers(0, len(form)))
        noise = draw(st.text("ab/-\n\"'é", max_size=6)).encode()
        parts.append(draw(st.sampled_from([form, form[:cut], form[cut:], noise])))
    return b"".join(parts)


@settings(max_examples=300, deadline=None)
@given(data=st.data(), secrets=st.lists(SECRETS, min_size=1, max_size=3))
def test_any_cutting_of_any_text_gives_what_the_reference_gives(
    data: st.DataObject, secrets: list[str]
) -> None:
    text = data.draw(texts(secrets))
    forms = frozenset[bytes]().union(*map(all_forms, secrets))
    pieces = _cut(text, data.draw(CUTS | st.just(list(range(len(text))))))
    expected = reference(text, forms)
    assert _through(FormMatcher(forms, comparisons_max=NO_LIMIT), pieces) == expected
    in_order = iter(expected.split(mask_for(forms)))
    for shown in _through(FormMatcher(forms), pieces).split(mask_for(forms)):
        assert any(shown in piece for piece in in_order) or not shown, "a flood may hide more, never less"


@settings(max_examples=100, deadline=None)
@given(data=st.data(), secrets=st.lists(SECRETS, min_size=1, max_size=3), limit=st.integers(0, 20))
def test_whatever_is_taken_for_a_flood_is_covered(
    data: st.DataObject, secrets: list[str], limit: int
) -> None:
    text = data.draw(texts(secrets)) + b"~" + data.draw(texts(secrets))
    forms = frozenset[bytes]().union(*map(all_forms, secrets))
    exact, limited = FormMatcher(forms, comparisons_max=NO_LIMIT), FormMatcher(forms, comparisons_max=limit)
    for start, end in exact.find(text).spans:
        assert any(first <= start and end <= last for first, last in limited.find(text).spans)
    assert limited.find(text).pending <= exact.find(text).pending
    assert limited.occurring(text) >= exact.occurring(text)
    assert limited.occurs(text) >= exact.occurs(text)


@settings(max_examples=100, deadline=None)
@given(data=st.data(), secrets=st.lists(SECRETS, min_size=1, max_size=3))
def test_no_output_waits_longer_than_a_secret_may_still_come(data: st.DataObject, secrets: list[str]) -> None:
    forms = frozenset[bytes]().union(*map(all_forms, secrets))
    text = data.draw(texts(secrets)) + b"~"
    assert not any(b"~" in form for form in forms)
    stream = _redactor(secrets).stream()
    for piece in _cut(text, data.draw(CUTS)):
        stream.feed(piece)
    assert stream.flush().data == b"", "the last byte is in no form: nothing may be held back for it"


@settings(deadline=None)
@given(
    text=st.binary(max_size=300) | st.text("open-sam 9", max_size=300).map(str.encode),
    cuts=CUTS,
    secret=st.sampled_from(["open-sesame-99", "seam-open-mean\nopen-sea"]),
)
def test_text_without_a_secret_comes_out_as_it_went_in(text: bytes, cuts: list[int], secret: str) -> None:
    stream = _redactor([secret]).stream()
    out = b"".join([*(stream.feed(piece).data for piece in _cut(text, cuts)), stream.flush().data])
    assert (
        out == text
        or b"open-" in text
        or b"seam-" in text
        or out == text.removesuffix(b"open") + b"[redacted]"
    )


@settings(max_examples=120, deadline=None)
@given(data=st.data(), secrets=st.lists(SECRETS, min_size=1, max_size=3))
def test_a_sealed_document_is_valid_has_its_shape_and_holds_no_form(
    data: st.DataObject, secrets: list[str]
) -> None:
    redactor = _redactor(secrets)
    strings = texts(secrets).map(lambda text: text.decode("utf-8", "replace"))
    document = data.draw(
        st.recursive(
            st.none() | st.booleans() | st.integers(-99, 99) | strings,
            lambda inner: st.lists(inner, max_size=4) | st.dictionaries(strings, inner, max_size=4),
            max_leaves=8,
        )
    )
    out = redactor.seal(document).data
    assert redactor.found_in(out) == ()
    for string in _strings(json.loads(out)):
        assert redactor.found_in(utf8(string)) == ()
    assert _shape(json.loads(out)) == _shape(document)


@settings(max_examples=100, deadline=None)
@given(
    document=st.recursive(
        st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
        max_leaves=6,
    )
)
def test_a_document_without_a_secret_is_sealed_unchanged(document: Any) -> None:
    assert json.loads(_redactor(["open-sesame-99"]).seal(document).data) == document


def _through(matcher: FormMatcher, pieces: list[bytes]) -> bytes:
    stage = MaskingStage(lambda: matcher)
    return b"".join([*map(stage.feed, pieces), stage.flush()])


def _redactor(secrets: list[str]) -> SecretRedactor:
    redactor = SecretRedactor()
    for number, secret in enumerate(secrets):
        redactor.register(f"SECRET_{number}", secret)
    return redactor


def _cut(text: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    return [text[start:end] for start, end in pairwise(edges)]


def _strings(node: Any) -> list[str]:
    if isinstance(node, str):
        return [node]
    if isinstance(node, dict):
        return [*node, *(string for value in node.values() for string in _strings(value))]
    return [string for item in node for string in _strings(item)] if isinstance(node, list) else []


def _shape(node: Any) -> Any:
    if isinstance(node, dict):
        return sorted(map(repr, map(_shape, node.values())))
    if isinstance(node, list):
        return [_shape(item) for item in node]
    return "string" if isinstance(node, str) else node
