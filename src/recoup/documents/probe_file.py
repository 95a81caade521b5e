"""Probe files: YAML or JSON becomes a ProbeConfig, or InvalidProbe with everything that is wrong with it.

What no probe may do is refused by the name of its rule, wherever it stands; what else is unknown, as unknown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from pydantic import ValidationError

from recoup.documents.hand_over_shape import HandOverShape, hand_over_shapes
from recoup.documents.probe_shape import KIND_KEYS, SHAPES, ProbeShape
from recoup.documents.text_file import decoded, read_text
from recoup.documents.yaml_tree import parse_tree
from recoup.errors import InvalidProbe, Refusal
from recoup.kernel.probe_rules import FORBIDDEN_KEYS, is_name, refusal_words, rule_against
from recoup.model.probe import Budget, ProbeConfig, Rule
from recoup.shapes.shape import Shape
from recoup.shapes.tree import Place, Tree, Unreadable, clipped
from recoup.shapes.wording import (
    Detail,
    Finding,
    Vocabulary,
    findings,
    if_a_plugin_brings,
    listed,
    problems_of,
    said_beside,
    suggestion,
)

PROBE_BYTES_MAX = 4 << 20


def _own_words(detail: Detail, shape: type[Shape]) -> str | None:
    """Under `hand_over` an unknown key may be that of a notifier whose package is not installed here."""
    key = str(detail["loc"][-1])
    if detail["type"] != "extra_forbidden" or not issubclass(shape, HandOverShape) or not key.isidentifier():
        return None
    meant = suggestion(key, shape.keys())
    return f"unknown key: {meant or f'the keys here are {listed(sorted(shape.keys()))}{if_a_plugin_brings(key)}'}"


def _vocabulary() -> Vocabulary:
    return Vocabulary(ProbeShape, {**SHAPES, **hand_over_shapes()}, _own_words)


def read_probe_file(path: str | Path) -> ProbeConfig:
    """The probe in a file. Raises InvalidProbe; nothing else."""
    file = Path(path)
    try:
        text = read_text(file, PROBE_BYTES_MAX)
    except Unreadable as unreadable:
        raise InvalidProbe(str(path), [unreadable.problem]) from None
    return parse_probe(text, str(path), file.absolute().parent, default_id(file))


def parse_probe(
    text: str | bytes, source: str = "probe", folder: str | Path = ".", probe_id: str = "probe"
) -> ProbeConfig:
    """`source` is what messages call it, `probe_id` its name if it gives itself none. Raises InvalidProbe."""
    try:
        tree = parse_tree(decoded(text, PROBE_BYTES_MAX))
    except Unreadable as unreadable:
        raise InvalidProbe(source, [unreadable.problem]) from None
    return _config(tree, source, Path(os.path.normpath(Path(folder).absolute())), probe_id)


def default_id(file: Path) -> str:
    """From the file's name, as far as it can be one."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", file.stem).lstrip("._-")[:100] or "probe"


def _config(tree: Tree, source: str, folder: Path, probe_id: str) -> ProbeConfig:
    if not isinstance(tree.data, dict):
        words = "a probe file is a mapping with `version: 1` and `resources`"
        raise InvalidProbe(source, [tree.problem((), words)])
    refused = list(_refused(tree.data))
    forbidden = [Finding(place, refusal.reason) for place, refusal in refused]
    shape, found, more = _shape(tree)
    places = {finding.place for finding in forbidden}
    found = [finding for finding in found if finding.place not in places]
    found += said_beside(found, [*forbidden, *_broken_needs(tree.data)])
    if shape is None or found or tree.problems:
        problems, denied = problems_of(tree, found, more), [refusal for _, refusal in refused]
        raise InvalidProbe(source, problems, probe_id=_own_id(tree.data) or probe_id, refused=denied)
    return _value(shape, folder, probe_id)


def _own_id(data: Mapping[str, Any]) -> str | None:
    """The name that a file gives itself, whatever else is wrong with it; None: none that can be used."""
    written = data.get("id")
    return written if isinstance(written, str) and is_name(written) else None


def _shape(tree: Tree) -> tuple[ProbeShape | None, list[Finding], int]:
    try:
        return ProbeShape.model_validate(tree.data), [], 0
    except ValidationError as error:
        return None, *findings(error, _vocabulary())


def _value(shape: ProbeShape, folder: Path, probe_id: str) -> ProbeConfig:
    budget = shape.budget.value() if shape.budget else Budget()
    config = ProbeConfig(
        id=shape.id or probe_id,
        resources=tuple(resource.value(budget) for resource in shape.resources),
        folder=str(folder),
        gateway=shape.gateway,
        secrets=tuple(dict.fromkeys(shape.secrets)),
    )
    if shape.hand_over is None:
        return config
    return msgspec.structs.replace(config, hand_over=shape.hand_over.value())


# What no probe may do


def _refused(data: Mapping[str, Any]) -> Iterator[tuple[Place, Refusal]]:
    yield from _refused_keys(data, ())
    for number, resource in enumerate(_resources(data)):
        place: Place = ("resources", number)
        yield from _refused_keys(resource, place)
        for key in KIND_KEYS:
            if isinstance(resource.get(key), dict):
                yield from _refused_keys(resource[key], (*place, key))
        yield from _refused_actions(resource, place)


def _refused_keys(mapping: Mapping[str, Any], place: Place) -> Iterator[tuple[Place, Refusal]]:
    for key in mapping:
        rule = FORBIDDEN_KEYS.get(key)
        if rule is not None:
            yield (*place, key), _refusal(key, rule)


def _refused_actions(resource: Mapping[str, Any], place: Place) -> Iterator[tuple[Place, Refusal]]:
    on_fault = resource.get("on_fault")
    for fault_class, asked in on_fault.items() if isinstance(on_fault, dict) else ():
        rule = rule_against(asked) if isinstance(asked, str) else None
        if rule is not None:
            yield (*place, "on_fault", fault_class), _refusal(asked, rule)


def _refusal(asked: str, rule: Rule) -> Refusal:
    asked = clipped(asked)
    return Refusal(asked, rule, refusal_words(asked, rule))


# What rests on what


def _broken_needs(data: Mapping[str, Any]) -> list[Finding]:
    resources = [(n, one) for n, one in enumerate(_resources(data)) if isinstance(one.get("id"), str)]
    first = {one["id"]: n for n, one in reversed(resources)}
    found = [
        Finding(("resources", n, "id"), f"another resource is called {clipped(one['id'])!r}: rename one")
        for n, one in resources
        if first[one["id"]] != n
    ]
    needs = {one["id"]: _needs(one) for _, one in resources}
    for n, one in resources:
        for need in _needs(one):
            if need not in needs:
                hint = suggestion(need, needs) or "name one of this file"
                found.append(
                    Finding(("resources", n, "needs"), f"there is no resource {clipped(need)!r}: {hint}")
                )
    circle = _circle(needs)
    if circle:
        words = f"nothing of this can start first: {' needs '.join([*circle, circle[0]])}"
        found.append(Finding(("resources", first[circle[0]], "needs"), words))
    return found


def _circle(needs: Mapping[str, Sequence[str]]) -> list[str]:
    """One of those that need themselves, through others, with what is between; without recursion: files are long."""
    free: set[str] = set()
    open_needs = {name: {need for need in known if need in needs} for name, known in needs.items()}
    while ready := [name for name, known in open_needs.items() if name not in free and known <= free]:
        free.update(ready)
    left = [name for name in open_needs if name not in free]
    if not left:
        return []
    path = [left[0]]
    while True:
        following = next(need for need in open_needs[path[-1]] if need not in free)
        if following in path:
            return path[path.index(following) :]
        path.append(following)


def _needs(resource: Mapping[str, Any]) -> list[str]:
    written = resource.get("needs")
    return [need for need in written if isinstance(need, str)] if isinstance(written, list) else []


def _resources(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every mapping among them; what else stands there is somebody else's to complain about."""
    written = data.get("resources")
    return [one if isinstance(one, dict) else {} for one in written] if isinstance(written, list) else []
