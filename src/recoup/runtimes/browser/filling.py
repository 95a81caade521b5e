"""Type a value, and see whether the field takes it: if not, once more in the form that the field itself asks for."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec
from playwright.async_api import ElementHandle, Error

from recoup.kernel.formats import Hints, Writing, chosen, is_written, same_value, shape, writings
from recoup.model.outcome import Rewritten
from recoup.runtimes.browser.trouble import is_changed_page

_NOT_THAT_FORM: Final = ("Malformed value", "Cannot type text into input[type=number]")
"""What the library says of a value that the field cannot hold."""
_NEVER: Final = ("password", "one-time-code", "cc-")
"""In a field's type, or in what it is to be completed with: what is typed there is nobody's business."""
_FIELD: Final = """(node, leaves) => {
    if (node.localName !== 'input' && node.localName !== 'textarea') return null;
    if (leaves) node.blur();
    const validity = node.validity, checks = node.willValidate && !(node.form && node.form.noValidate);
    const bad = validity.badInput || validity.typeMismatch || validity.patternMismatch;
    const short = (text) => (text || '').slice(0, 200);
    return {
        value: node.value.slice(0, 1000),
        invalid: (checks && bad) || node.getAttribute('aria-invalid') === 'true',
        hints: {
            type: node.localName === 'input' ? node.type : '',
            placeholder: short(node.placeholder),
            pattern: short(node.pattern),
            lang: short(node.closest('[lang]') && node.closest('[lang]').lang),
            mode: short(node.inputMode),
            autocomplete: short(node.autocomplete),
        },
    };
}"""
_FITTING: Final = """(node, texts) => texts.map((text) => {
    const probe = node.cloneNode();
    probe.value = text;
    const bad = probe.validity.badInput || probe.validity.typeMismatch || probe.validity.patternMismatch;
    return probe.value === text && !bad && (node.maxLength < 0 || text.length <= node.maxLength);
})"""


class Field(msgspec.Struct, frozen=True):
    """A field as it is after something was typed."""

    value: str
    invalid: bool
    hints: Hints

    def refuses(self, text: str) -> bool:
        return self.invalid or not same_value(text.strip(), self.value.strip())

    @property
    def is_private(self) -> bool:
        about = f"{self.hints.type} {self.hints.autocomplete}"
        return any(word in about for word in _NEVER)


class Refused(msgspec.Struct, frozen=True):
    """The field does not take the value as it is written, and asks for it in another form."""

    error: Error | None
    """What the library said, if it could not even be typed."""
    text: str
    writing: Writing
    leaves: bool

    @property
    def rewritten(self) -> Rewritten:
        return Rewritten(self.writing.kind, shape(self.text), shape(self.writing.text))


async def typed(node: ElementHandle, text: str, ms: float, *, leaves: bool) -> Refused | None:
    """As it is written. None: done, or nobody can tell how else to type it; the library's error is passed on.

    With `leaves` the field is left, so that a page that judges its value only then does.
    """
    error: Error | None = None
    try:
        await node.fill(text, timeout=ms)
    except Error as raised:
        if not any(words in str(raised) for words in _NOT_THAT_FORM):
            raise
        error = raised
    field = await _field(node, leaves, ms)
    writing = await _asked_for(node, text, field, error is not None)
    if writing is None and error is not None:
        raise error
    return None if writing is None else Refused(error, text, writing, leaves)


async def typed_otherwise(node: ElementHandle, refused: Refused, ms: float) -> Rewritten | None:
    """In the form that the field asks for. None: it is not taken either, and what was written stands there again."""
    writing = refused.writing
    await node.fill(writing.text, timeout=ms)
    field = await _field(node, refused.leaves, ms)
    if field is None or (not field.invalid and is_written(writing, field.value)):
        return refused.rewritten
    if refused.error is not None:
        await node.fill("", timeout=ms)
        raise refused.error
    await node.fill(refused.text, timeout=ms)
    return None


async def _asked_for(
    node: ElementHandle, text: str, field: Field | None, was_refused: bool
) -> Writing | None:
    if field is None or field.is_private or not (was_refused or field.refuses(text)):
        return None
    ways = writings(text, field.hints)
    if not ways:
        return None
    fitting = await node.evaluate(_FITTING, [way.text for way in ways])
    return chosen(text, ways, field.hints, fitting)


async def _field(node: ElementHandle, leaves: bool, ms: float) -> Field | None:
    """None: it is no field for text, or it is gone: what is typed may lead elsewhere."""
    try:
        async with asyncio.timeout(ms / 1000):
            told = await node.evaluate(_FIELD, leaves)
    except TimeoutError:
        return None
    except Error as error:
        if is_changed_page(error):
            return None
        raise
    return msgspec.convert(told, Field) if told else None
