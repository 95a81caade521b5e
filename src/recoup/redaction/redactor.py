"""The `Redactor` of the ports: registered secrets, streams, documents.

Redact before cutting: what was shortened first may begin inside a secret, which nothing can recognise then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import msgspec

from recoup.model.redacted import Redacted, sealed
from recoup.redaction.documents import DocumentRedactor, readable
from recoup.redaction.forms import refusal, utf8, written_forms
from recoup.redaction.masking import MaskingStage
from recoup.redaction.matcher import FormMatcher
from recoup.redaction.typed import redact_struct

FORMS_MAX: Final = 50_000


class SecretRedactor:
    """Hides what was registered, in every written form. For one thread only, that of the event loop."""

    def __init__(self) -> None:
        self._names_by_form: dict[bytes, tuple[str, ...]] = {}
        self._matcher: FormMatcher | None = None
        self._documents: DocumentRedactor | None = None
        self._encode = msgspec.json.Encoder().encode

    def register(self, name: str, value: str) -> None:
        """A second value for a name is hidden beside the first. Open streams honour it from then on."""
        if why := refusal(value):
            raise ValueError(f"the secret {name} {why}")
        forms = written_forms(value)
        if len(forms | self._names_by_form.keys()) > FORMS_MAX:
            raise ValueError(f"the secret {name} is one too many: register fewer or shorter secrets")
        for form in forms:
            names = self._names_by_form.get(form, ())
            self._names_by_form[form] = names if name in names else (*names, name)
        self._matcher = self._documents = None

    def redact(self, text: str | bytes) -> Redacted:
        stream = self.stream()
        data = text if isinstance(text, bytes) else utf8(text)
        return sealed(stream.feed(data).data + stream.flush().data)

    def seal(self, document: Any) -> Redacted:
        """A struct by its types (typed.py); of plain data every string and key. A number that holds a secret's
        digits is the caller's concern."""
        try:
            encoded = self._encode(document)
        except UnicodeEncodeError:
            encoded = self._encode(readable(msgspec.to_builtins(document, str_keys=True)))
        documents = self._documents or self._built_documents()
        if documents is None or documents.is_clean(encoded):
            return sealed(encoded)
        if isinstance(document, msgspec.Struct):
            return sealed(self._encode(redact_struct(document, documents.clean)))
        return sealed(documents.redacted(encoded))

    def stream(self) -> ChainedStream:
        return ChainedStream([MaskingStage(self._built_matcher)])

    def found_in(self, data: bytes) -> tuple[str, ...]:
        matcher = self._built_matcher()
        forms = matcher.occurring(data) if matcher else frozenset()
        return tuple(sorted({name for form in forms for name in self._names_by_form[form]}))

    def _built_matcher(self) -> FormMatcher | None:
        if self._matcher is None and self._names_by_form:
            self._matcher = FormMatcher(self._names_by_form)
        return self._matcher

    def _built_documents(self) -> DocumentRedactor | None:
        if self._documents is None and (matcher := self._built_matcher()):
            forms = self._names_by_form.keys()
            in_json = forms | {_in_json(form) for form in forms}
            self._documents = DocumentRedactor(matcher, matcher if in_json == forms else FormMatcher(in_json))
        return self._documents


class Stage(Protocol):
    """Hides one kind of secret in a stream: passes on what is safe, holds back what may not be."""

    def feed(self, chunk: bytes) -> bytes: ...

    def flush(self) -> bytes: ...


class ChainedStream:
    """The `RedactionStream` of the ports: each stage sees what the one before it passed on."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = stages

    def feed(self, chunk: bytes) -> Redacted:
        for stage in self._stages:
            chunk = stage.feed(chunk)
        return sealed(chunk)

    def flush(self) -> Redacted:
        rest = b""
        for stage in self._stages:
            rest = stage.feed(rest) + stage.flush()
        return sealed(rest)


def _in_json(form: bytes) -> bytes:
    """How a string that holds this form is written in JSON. One that is no text can be in no string."""
    try:
        return msgspec.json.encode(form.decode())[1:-1]
    except UnicodeDecodeError:
        return form
