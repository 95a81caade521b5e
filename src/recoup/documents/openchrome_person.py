"""Steps that a person does: the question, in words that say all that openchrome would have done."""

from __future__ import annotations

import json
from typing import Any

from recoup.documents.openchrome_names import Names, NotTurned, filled, plain
from recoup.documents.openchrome_shape import CompiledHandler, CompiledStep
from recoup.kernel.references import OPENING
from recoup.shapes.tree import clipped
from recoup.steps.approve.keys import MESSAGE_CHARS_MAX

ARGUMENTS_CHARS_MAX = 1_500
HANDLER_CHARS_MAX = 750
WORDS_CHARS_MAX = 60


def gate(step: CompiledStep, step_id: str, message: str) -> dict[str, Any]:
    return {"id": step_id, "title": title_of(step), "approve": {"message": message}}


def title_of(step: CompiledStep) -> str:
    return f"openchrome step {step.order} ({plain(step.tool, WORDS_CHARS_MAX)})"


def question(step: CompiledStep, rescue: CompiledHandler | None, on_empty: CompiledHandler | None) -> str:
    lines = [f"openchrome step {step.order} (tool {plain(step.tool, WORDS_CHARS_MAX)}): do it by hand."]
    if step.args:
        lines.append(f"Arguments: {clipped(arguments(step), ARGUMENTS_CHARS_MAX)}")
    if step.timeout_ms is not None:
        lines.append(f"openchrome gives it {step.timeout_ms / 1000:g} s.")
    if step.parsing.name:
        part = f", its `{plain(step.parsing.field, WORDS_CHARS_MAX)}`" if step.parsing.field else ""
        lines.append(f"It gives `{plain(step.parsing.name, WORDS_CHARS_MAX)}`{part}.")
    return "\n".join([*lines, *_told("If it fails", rescue), *_told("If it gives nothing", on_empty)])


def arguments(step: CompiledStep) -> str:
    return json.dumps(step.args, ensure_ascii=False)


def _told(when: str, handler: CompiledHandler | None) -> list[str]:
    if handler is None:
        return []
    steps = [f"{plain(one.tool, WORDS_CHARS_MAX)} {arguments(one)}" for one in handler.steps]
    words = f"{when} ({plain(handler.action, WORDS_CHARS_MAX)}): {'; then '.join(steps) or 'go on'}"
    return [clipped(words, HANDLER_CHARS_MAX)]


def shown(text: str, names: Names) -> str:
    """With references where they can be filled in, otherwise as it stands."""
    try:
        said = filled(text, names.shown)
    except NotTurned:
        said = ""
    if said and len(said) <= MESSAGE_CHARS_MAX:
        return said
    return clipped(text.replace(OPENING, "$ {{"), MESSAGE_CHARS_MAX)
