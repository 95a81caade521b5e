"""What a `${name}` of openchrome stands for here: an input, an output of an earlier step, or nothing to be had."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import msgspec
from pydantic import TypeAdapter, ValidationError

from recoup.documents.step_shape import OUTPUTS_MAX
from recoup.kernel.references import OPENING
from recoup.kernel.template import TemplateError, substitute, texts_in
from recoup.shapes.forms import JsonPath
from recoup.shapes.tree import clipped

NAME_CHARS_MAX = 100
_REFERENCE = re.compile(r"\$\{([^}]+)\}")
_JSON_PATH: TypeAdapter[str] = TypeAdapter(JsonPath)
_SECRET_WORDS = frozenset(
    ("token", "secret", "password", "passwd", "key", "credential", "credentials", "auth", "apikey", "pin")
)


class NotTurned(Exception):
    """Why something cannot be said in a plan of Recoup."""


class Given(msgspec.Struct, frozen=True):
    """A value that a run is given, or that a step gives as a whole."""

    reference: str
    secret: bool = False


Added = tuple[dict[str, Any], str]
"""An output that was added to those of a step because somebody wants it."""


class Result:
    """What a step gives, its first output. Its parts are in a JSON file, at `inside`; None: it has none."""

    def __init__(
        self, step_id: str, outputs: dict[str, Any], file: str | None, inside: str, added: list[Added]
    ) -> None:
        name = next(iter(outputs))
        self.reference = f"steps.{step_id}.outputs.{name}"
        self._added = added
        self._outputs = outputs
        self._step_id = step_id
        self._name = name
        self._file = file
        self._inside = inside

    def at(self, part: str) -> str:
        """The reference to a part of it, which becomes an output by that. Raises NotTurned."""
        path = joined(self._inside, part)
        if self._file is None or not is_json_path(path):
            raise NotTurned(f"`{clipped(part)}` is no way to a value in what step `{self._step_id}` gives")
        output = {"json": self._file, "path": path}
        for name, known in self._outputs.items():
            if known == output:
                return f"steps.{self._step_id}.outputs.{name}"
        if len(self._outputs) >= OUTPUTS_MAX:
            raise NotTurned(f"step `{self._step_id}` would have more than {OUTPUTS_MAX} outputs")
        name = as_field(f"{self._name}_{part}", self._outputs)
        self._outputs[name] = output
        self._added.append((self._outputs, name))
        return f"steps.{self._step_id}.outputs.{name}"


class Lost(msgspec.Struct, frozen=True):
    """A value that no step of the plan gives."""

    reason: str


Value = Given | Result | Lost


class Names:
    """What is known before a step, by its name in openchrome."""

    def __init__(self, known: Mapping[str, Value]) -> None:
        self._known = dict(known)

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def learn(self, name: str, value: Value) -> None:
        """A name that is stored again means the newer value from then on."""
        self._known[name] = value

    def reference(self, name: str) -> str | None:
        """None: nobody knows it, and openchrome leaves it as it stands. Raises NotTurned."""
        value, path = self._find(name)
        match value:
            case None:
                return None
            case Lost(reason):
                raise NotTurned(f"uses `{clipped(name)}`, but {reason}")
            case Given(reference) if not path:
                return reference
            case Result() if not path:
                return value.reference
            case Result():
                return value.at(path)
            case Given():
                raise NotTurned(f"uses a part of the parameter `{clipped(name)}`: an input is one text here")

    def shown(self, name: str) -> str | None:
        """For texts that people read: no secret, and only what costs nothing more."""
        value = self._known.get(name)
        if isinstance(value, Result):
            return value.reference
        return value.reference if isinstance(value, Given) and not value.secret else None

    def secrets(self) -> frozenset[str]:
        return frozenset(v.reference for v in self._known.values() if isinstance(v, Given) and v.secret)

    def _find(self, name: str) -> tuple[Value | None, str]:
        if name in self._known:
            return self._known[name], ""
        base = base_of(name)
        return self._known.get(base), name[len(base) :].removeprefix(".")


def base_of(name: str) -> str:
    """`login` of `login.form.ref`"""
    return re.split(r"[.\[]", name, maxsplit=1)[0]


def joined(inside: str, part: str) -> str:
    """A way into JSON that goes on."""
    return f"{inside}.{part}" if inside and part and not part.startswith("[") else inside + part


def is_json_path(path: str) -> bool:
    try:
        _JSON_PATH.validate_python(path)
    except ValidationError:
        return False
    return True


def filled(text: str, look: Callable[[str], str | None]) -> str:
    """The text with a reference of Recoup for every name that `look` knows; everything else stays as it stands.

    Raises NotTurned where that cannot be said, because backslashes before a reference mean something here.
    """
    meant: dict[str, str] = {}
    parts, at = [], 0
    for found in _found_in(text):
        reference = look(found[1])
        if reference is not None:
            meant[reference] = found[0]
            parts += [_literal(text[at : found.start()]), f"${{{{ {reference} }}}}"]
            at = found.end()
    said = "".join([*parts, _literal(text[at:])])
    if _read_back(said, meant) != text:
        raise NotTurned("a backslash stands before a `${`, which would be read in another way here")
    return said


def _literal(text: str) -> str:
    return text.replace(OPENING, "\\" + OPENING)


def _read_back(said: str, meant: Mapping[str, str]) -> str | None:
    try:
        return substitute(said, meant)
    except TemplateError:
        return None


def names_in(value: Any) -> Iterator[str]:
    """Every name that plain data refers to."""
    for text in texts_in(value):
        yield from (found[1] for found in _found_in(text))


def _found_in(text: str) -> Iterator[re.Match[str]]:
    """Without what can never be closed, which would be searched again and again."""
    return _REFERENCE.finditer(text, 0, text.rfind("}") + 1)


def plain(text: str, chars_max: int) -> str:
    """For where references are not filled in: on one line, and without anything that looks like one."""
    return clipped(" ".join(text.split()).replace(OPENING, "$ {{"), chars_max)


def as_field(text: str, taken: Collection[str]) -> str:
    """The name as an input or an output may be called, other than those."""
    name = re.sub(r"[^A-Za-z0-9-]+", "_", text)
    return unique(name if re.match(r"[A-Za-z_]", name) else f"_{name}", taken)


def as_id(text: str, taken: Collection[str] = ()) -> str:
    """The text as a step or a workflow may be called, other than those."""
    return unique(re.sub(r"[^A-Za-z0-9._-]+", "-", text).lstrip("._-") or "openchrome", taken)


def unique(name: str, taken: Collection[str]) -> str:
    name = name[:NAME_CHARS_MAX]
    number, chosen = 1, name
    while chosen in taken:
        number += 1
        chosen = f"{name[: NAME_CHARS_MAX - len(str(number)) - 1]}-{number}"
    return chosen


def names_a_secret(name: str) -> bool:
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return not _SECRET_WORDS.isdisjoint(word.lower() for word in words)
