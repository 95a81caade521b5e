"""A process that ends itself at its n-th call of a function that changes files: every cut point, one by one."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any


def die_at(number: int, functions: Mapping[str, int | None]) -> None:
    """`functions` of `os` by name; where one writes, which argument holds the bytes: half of them are written then."""
    calls = count(1)

    def doomed(call: Callable[..., Any], halved: int | None) -> Callable[..., Any]:
        def stand_in(*arguments: Any, **named: Any) -> Any:
            if next(calls) == number:
                if halved is not None:
                    half = bytes(arguments[halved])[: len(arguments[halved]) // 2]
                    call(*arguments[:halved], half, *arguments[halved + 1 :])
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **named)

        return stand_in

    for name, halved in functions.items():
        setattr(os, name, doomed(getattr(os, name), halved))
