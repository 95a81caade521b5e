"""Any other command: its words as the plan gives them, with the prompt where `{prompt}` stands or as the last one."""

from __future__ import annotations

from typing import Final

from recoup.runtimes.agent.dialect import Call

PLACE: Final = "{prompt}"


def has_place(words: tuple[str, ...]) -> bool:
    return any(PLACE in word for word in words)


def plain_argv(call: Call) -> tuple[str, ...]:
    words = (*call.words, *call.args)
    if not has_place(words):
        return (*words, call.prompt)
    return tuple(word.replace(PLACE, call.prompt) for word in words)
