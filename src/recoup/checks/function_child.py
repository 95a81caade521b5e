"""What runs in the process of a check by a function: find it, call it, print what it says.

Standard input is the call: `{"target": "module:function", "arguments": {NAME: VALUE…}}`. What the function prints goes
to standard error. The answer is one line on standard output, behind a mark: `{"held": true | false | null, "words": …}`
"""

from __future__ import annotations

import json
import os
import sys
from pkgutil import resolve_name

MARK = "recoup-check-answer:"
WORDS_CHARS_MAX = 1_000


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    call = json.load(sys.stdin)
    held, words = _examined(call["target"], call["arguments"])
    answers.write(f"{MARK}{json.dumps({'held': held, 'words': words[:WORDS_CHARS_MAX]})}\n")
    answers.close()


def _examined(target: str, arguments: dict[str, object]) -> tuple[bool | None, str]:
    try:
        said = resolve_name(target)(**arguments)
    except AssertionError as error:
        return False, str(error) or "it does not hold"
    except Exception as error:  # noqa: BLE001 whatever it is, nothing is known about the check
        return None, f"{type(error).__name__}: {error}"
    return True, "it holds" if said is None else str(said)


if __name__ == "__main__":
    main()
