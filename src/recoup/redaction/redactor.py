"""The `Redactor` of the ports: registered secrets, streams, documents.

Redact before cutting: what was shortened first may begin inside a secret, which nothing can recognise then.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from recoup.model.redacted import DocumentPath, Redacted, sealed
from recoup.redaction.documents import DocumentRedactor, differences, readable
from recoup.redaction.layers import Layer, LayeredMatcher, Layers, encoded_matcher, text_matcher
from recoup.redaction.masking import MaskingStage
from recoup.redaction.octets import utf8
from recoup.redaction.typed import Clean, named_pairs, redact_struct, says_anything

if TYPE_CHECKING:
    from recoup.redaction.patterns.compiled import PatternSet
    from recoup.redaction.patterns.documents import PatternDocuments

FORMS_MAX: Final = 200_000
TORN_FORMS_MAX: Final = 50_000
"""Hex that the lines of a dump tear apart is looked for while there are no more forms than this: it has many."""
_PICTURES: Final = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")


class SecretUnhidable(ValueError):
    """A value that cannot be hidden, and why. Never repeats it."""


class SecretTooShort(SecretUnhidable):
    """To hide it would mask ordinary text."""


class SecretRedactor:
    """Hides what was registered, here or `above`, in every written form, and what the patterns find if there are any.
    For one thread only, that of the event loop.

    One for each run, above the one of the process: what a run registered ends with it."""

    def __init__(self, patterns: PatternSet | None = None, above: SecretRedactor | None = None) -> None:
        self._patterns: PatternSet | None = (
            above._patterns if patterns is None and above is not None else patterns
        )
        self._by_pattern = _pattern_documents(self._patterns) if self._patterns else None
        self._above = above
        self._values: dict[str, set[str]] = {}
        self._names_by_form: dict[bytes, tuple[str, ...]] = {}
        self._layers = Layers()
        self._built: tuple[Layer, ...] = ()
        self._matcher: LayeredMatcher | None = None
        self._documents: DocumentRedactor | None = None
        self._encode = msgspec.json.Encoder().encode

    def register(self, name: str, value: str) -> None:
        """A second value for a name is hidden beside the first. Open streams honour it from then on.
        Raises SecretTooShort, SecretUnhidable."""
        # Its tables take a while to make.
        from recoup.redaction.forms import VALUE_CHARACTERS_MIN, refusal, torn_hex_forms, written_forms

        if self._knows(name, value):
            return
        if why := refusal(value):
            too_short = len(value.strip()) < VALUE_CHARACTERS_MIN
            raise (SecretTooShort if too_short else SecretUnhidable)(f"the secret {name} {why}")
        forms = written_forms(value)
        if len(self._names_by_form) <= TORN_FORMS_MAX:
            forms |= torn_hex_forms(value)
        new = [form for form in forms if form not in self._names_by_form]
        if len(self._names_by_form) + len(new) > FORMS_MAX:
            raise SecretUnhidable(f"the secret {name} is one too many: register fewer or shorter secrets")
        self._values.setdefault(name, set()).add(value)
        for form in forms:
            names = self._names_by_form.get(form, ())
            self._names_by_form[form] = names if name in names else (*names, name)
        if new:
            self._layers.add(new)

    def register_unless_short(self, name: str, value: str) -> None:
        """For a value that nobody can be asked to make longer. Raises SecretUnhidable for every other reason."""
        with contextlib.suppress(SecretTooShort):
            self.register(name, value)

    def _knows(self, name: str, value: str) -> bool:
        known = value in self._values.get(name, ())
        return known or (self._above is not None and self._above._knows(name, value))

    def redact(self, text: str | bytes) -> Redacted:
        stream = self.stream()
        data = text if isinstance(text, bytes) else utf8(text)
        return sealed(stream.feed(data).data + stream.flush().data)

    def picture(self, image: bytes) -> Redacted:
        if not image.startswith(_PICTURES):
            raise ValueError("neither a PNG nor a JPEG")
        return sealed(image)

    def archive(self, data: bytes, limit_bytes: int) -> Redacted:
        from recoup.redaction.archives import redacted_archive  # few runs have any

        return sealed(redacted_archive(data, lambda text: self.redact(text).data, _PICTURES, limit_bytes))

    def seal(self, document: Any) -> Redacted:
        """A struct by its types (typed.py); of plain data every string and key. A number that holds a secret's
        digits is the caller's concern."""
        try:
            encoded = self._encode(document)
        except UnicodeEncodeError:
            encoded = self._encode(readable(msgspec.to_builtins(document, str_keys=True)))
        if isinstance(document, msgspec.Struct) and not says_anything(document):
            return sealed(encoded)
        looked_at = [encoded]
        if isinstance(document, msgspec.Struct):
            looked_at += map(self._encode, named_pairs(document))
        stages = [stage.clean for stage in self._document_stages() if not all(map(stage.is_clean, looked_at))]
        if not stages:
            return sealed(encoded)
        if isinstance(document, msgspec.Struct):
            return sealed(self._encode(redact_struct(document, _one_after_another(stages))))
        return sealed(self._encode(_one_after_another(stages)(msgspec.json.decode(encoded))))

    def masked_in(self, document: Any) -> tuple[DocumentPath, ...]:
        """Every part is examined on its own, without a first look at the whole: what else an event holds decides
        whether `seal` looks closer, so the answer must not depend on it."""
        clean = _one_after_another([stage.clean for stage in self._document_stages()])
        written = msgspec.to_builtins(document, str_keys=True)
        if isinstance(document, msgspec.Struct):
            return tuple(differences(written, redact_struct(document, clean)))
        return tuple(differences(written, clean(written)))

    def looks_like(self, text: str) -> str:
        """What `masked_in` takes a text for, in words."""
        if names := self.found_in(utf8(text)):
            return f"the value of {', '.join(names)}"
        if self._patterns is not None:
            from recoup.redaction.patterns.naming import looks_like

            return f"a value that looks like {looks_like(self._patterns, utf8(text)) or 'a secret'}"
        return "a value that looks like a secret"

    def stream(self) -> ChainedStream:
        stages: list[Stage] = [MaskingStage(self._built_matcher)]
        if self._patterns is not None:
            stages.append(_pattern_stage(self._patterns))
        return ChainedStream(stages)

    def found_in(self, data: bytes) -> tuple[str, ...]:
        """In a flood perhaps a few that do not occur."""
        matcher = self._built_matcher()
        forms = matcher.occurring(data) if matcher else frozenset()
        return tuple(sorted({name for form in forms for name in self._names_of(form)}))

    @property
    def layered_forms(self) -> int:
        """Number of forms that automata of this redactor were made of: what its registrations have cost."""
        return self._layers.layered_forms

    def _names_of(self, form: bytes) -> tuple[str, ...]:
        above = () if self._above is None else self._above._names_of(form)
        return (*self._names_by_form.get(form, ()), *above)

    def _document_stages(self) -> Iterator[DocumentRedactor | PatternDocuments]:
        if (documents := self._built_documents()) is not None:
            yield documents
        if self._by_pattern is not None:
            yield self._by_pattern

    def _built_matcher(self) -> LayeredMatcher | None:
        if self._matcher is not None:
            self._layers.unite(self._matcher.searched_bytes)
        if (layers := self._all_layers()) != self._built:
            self._built, self._documents = layers, None
            self._matcher = text_matcher(layers)
        return self._matcher

    def _all_layers(self) -> tuple[Layer, ...]:
        above = () if self._above is None else self._above._all_layers()
        return (*above, *self._layers.all())

    def _built_documents(self) -> DocumentRedactor | None:
        matcher = self._built_matcher()
        if self._documents is None and matcher is not None:
            self._documents = DocumentRedactor(matcher, encoded_matcher(self._built))
        return self._documents


class Stage(Protocol):
    """Hides one kind of secret in a stream: passes on what is safe, holds back what may not be."""

    def feed(self, chunk: bytes) -> bytes: ...

    def flush(self) -> bytes: ...


class ChainedStream:
    """The `RedactionStream` of the ports: each stage sees what the one before it passed on."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = stages

    @property
    def hidden(self) -> int:
        """How many masks were passed on."""
        return sum(getattr(stage, "hidden", 0) for stage in self._stages)

    def feed(self, chunk: bytes) -> Redacted:
        for stage in self._stages:
            chunk = stage.feed(chunk)
        return sealed(chunk)

    def flush(self) -> Redacted:
        rest = b""
        for stage in self._stages:
            rest = stage.feed(rest) + stage.flush()
        return sealed(rest)


# The engines behind the patterns are imported by those who use them: they take longer to load than all the rest.


def _pattern_stage(patterns: PatternSet) -> Stage:
    from recoup.redaction.patterns.stage import PatternStage

    return PatternStage(patterns)


def _pattern_documents(patterns: PatternSet) -> PatternDocuments:
    from recoup.redaction.patterns.documents import PatternDocuments

    return PatternDocuments(patterns)


def _one_after_another(stages: Sequence[Clean]) -> Clean:
    def clean(node: Any) -> Any:
        for stage in stages:
            node = stage(node)
        return node

    return clean
