"""What runs in the process of a `python:` step: find the function, give it its arguments, tell what came of it.

It runs anew for every attempt, so it imports next to nothing until it must. Standard input is the call (marshalled:
arguments may be secret, and neither an argument vector nor an environment is private). The answer is one JSON object,
written into the pipe that the call names:

    {"returned": {NAME: VALUE…}}                               the outputs
    {"refused": WORDS}                                         the function cannot be called so
    {"unsayable": WORDS}                                       what it returned is not JSON
    {"raised": [CLASS, BASE…], "message": WORDS, "retryAfterS": SECONDS | null}

No answer: it ended by itself (`sys.exit`, a signal), and its exit code or signal says how.
"""

from __future__ import annotations

import marshal
import os
import sys
from _json import encode_basestring as _quoted  # the public modules take 8 and 7 ms of every attempt

from recoup import inside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from signal import SIGTERM
    from types import TracebackType
    from typing import Any, NoReturn
else:
    from _signal import SIGTERM

Call = tuple[str, "dict[str, Any]", str, int]
"""Target, arguments, the pipe for the answer, and how many bytes it may have."""

DEPTH_MAX = 100
EXACT_INTEGER_MAX = 2**53 - 1
MESSAGE_CHARS_MAX = 4_000
LINEAGE_MAX = 10
NAME_CHARS_MAX = 100
NAMES_SHOWN_MAX = 20


class Refused(Exception):
    """The function is not there, or does not take these arguments."""


class Unsayable(Exception):
    """A value that cannot be an output."""


def main() -> None:
    call = _take_call()
    own_pid = os.getpid()
    failed: BaseException | None = None
    try:
        answer = _answer(call)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:  # noqa: BLE001 whatever it is, the driver is told and decides
        failed, answer = error, _told(error)
    if os.getpid() == own_pid:  # else the function has forked, and this is the other one
        _tell(call, answer)
    if failed is not None:
        _complain(failed)


def _answer(call: Call) -> str:
    target, arguments, _, limit_bytes = call
    _settle_in(target)
    function = find(target)
    args, named = bound(function, arguments, target)
    return f'{{"returned":{outputs_text(_awaited(function(*args, **named)), limit_bytes)}}}'


def _take_call() -> Call:
    with open(0, "rb", closefd=False) as stdin:
        call: Call = marshal.loads(stdin.read())
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return call


def _settle_in(target: str) -> None:
    """As if the interpreter had been started in the step's folder for this function alone."""
    import faulthandler

    sys.argv = [target]
    sys.path[0] = os.getcwd()  # noqa: PTH109 pathlib takes longer to import than all of this
    # Bytecode would show up in the workspace as a change that the step has made, another one in every attempt.
    sys.dont_write_bytecode = True
    # Through a pipe lines would wait for 8 KB of company: the idle timer and people who watch would see nothing.
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    faulthandler.enable()
    faulthandler.register(SIGTERM, chain=True)  # where it hung, before it ends
    inside.enter(sys.path[0])


# The function


def find(target: str) -> Callable[..., Any]:
    """Raises Refused when it is not there. What goes wrong inside its module is an exception like any other."""
    name, _, path = target.partition(":")
    found = _module(name)
    for part in path.split("."):
        if not hasattr(found, part):
            raise Refused(f"the module {name} has no function {path}")
        found = getattr(found, part)
    if not callable(found):
        raise Refused(f"{target} is a {type(found).__name__}, not a function")
    marked = type(found).__module__ == "recoup.step_function"
    function: Callable[..., Any] = found.__recoup_function__ if marked else found
    return function


def _module(name: str) -> Any:
    import importlib

    inside.being_imported(name)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        where = f"in {sys.path[0]}, PYTHONPATH and the packages of {sys.executable}"
        raise Refused(f"there is no module {error.name} {where}") from None
    finally:
        inside.being_imported("")


def _awaited(value: Any) -> Any:
    if not hasattr(type(value), "__await__"):
        return value
    import asyncio

    return asyncio.run(_wait(value))


async def _wait(value: Awaitable[Any]) -> Any:
    return await value


# Its arguments

_POSITIONAL_ONLY, _BY_NAME, _ANY_NAMES = range(3)
_NOTHING: Any = type("_Nothing", (), {"__repr__": lambda _: "nothing"})()

Parameter = tuple[str, int, "Any", "Any"]
"""Name, how it is given, default, annotation."""


def bound(
    function: Callable[..., Any], arguments: dict[str, Any], target: str
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments as the function takes them, converted to what it is annotated with. Raises Refused, all at once."""
    parameters = _parameters(function)
    problems = argument_problems(function, arguments)
    values: dict[str, Any] = {}
    hints = {name: hint for name, kind, _, hint in parameters if kind != _ANY_NAMES}
    for name, value in arguments.items():
        try:
            values[name] = _converted(value, hints.get(name, _NOTHING), function)
        except ValueError as error:
            problems.append(f"the argument {name!r}: {error}")
    if problems:
        raise Refused(f"{target} cannot be called: {'; '.join(problems)}")
    args = [values.pop(name, default) for name, kind, default, _ in parameters if kind == _POSITIONAL_ONLY]
    return args, values


def argument_problems(function: Callable[..., Any], arguments: dict[str, Any]) -> list[str]:
    """What is missing, and what the function does not know."""
    parameters = _parameters(function)
    taken = [name for name, kind, _, _ in parameters if kind != _ANY_NAMES]
    takes_any = len(taken) < len(parameters)
    takes = f"it takes {', '.join(taken[:NAMES_SHOWN_MAX]) or 'none'}"
    missing = [
        name
        for name, kind, default, _ in parameters
        if kind != _ANY_NAMES and default is _NOTHING and name not in arguments
    ]
    unknown = [] if takes_any else [name for name in arguments if name not in taken]
    return [f"the argument {name!r} is missing" for name in missing] + [
        f"there is no argument {name!r} ({takes})" for name in unknown
    ]


def _parameters(function: Callable[..., Any]) -> list[Parameter]:
    """Of a plain function without the help of `inspect`, which takes longer to import than most steps to begin."""
    if type(function) is type(main) and not hasattr(function, "__wrapped__"):
        return _plain_parameters(function)
    import inspect

    kinds: dict[Any, int] = {
        inspect.Parameter.POSITIONAL_ONLY: _POSITIONAL_ONLY,
        inspect.Parameter.VAR_KEYWORD: _ANY_NAMES,
    }
    try:
        found = inspect.signature(function).parameters.values()
    except ValueError:  # some functions written in C do not tell
        return [("arguments", _ANY_NAMES, _NOTHING, _NOTHING)]
    return [
        (one.name, kinds.get(one.kind, _BY_NAME), _or_nothing(one.default), _or_nothing(one.annotation))
        for one in found
        if one.kind is not inspect.Parameter.VAR_POSITIONAL
    ]


def _or_nothing(value: Any) -> Any:
    return _NOTHING if getattr(value, "__name__", "") == "_empty" else value


def _plain_parameters(function: Any) -> list[Parameter]:
    code, hints = function.__code__, function.__annotations__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    by_place = names[: code.co_argcount]
    given = function.__defaults__ or ()
    defaults = dict(zip(by_place[len(by_place) - len(given) :], given, strict=True))
    defaults.update(function.__kwdefaults__ or {})
    parameters: list[Parameter] = [
        (
            name,
            _POSITIONAL_ONLY if place < code.co_posonlyargcount else _BY_NAME,
            defaults.get(name, _NOTHING),
            hints.get(name, _NOTHING),
        )
        for place, name in enumerate(names)
    ]
    if code.co_flags & 0x08:  # it takes **arguments
        parameters.append(("", _ANY_NAMES, _NOTHING, _NOTHING))
    return parameters


def _converted(value: Any, hint: Any, function: Callable[..., Any]) -> Any:
    """Raises ValueError. A hint that cannot be read, or that says nothing about data, is no obstacle."""
    if hint is _NOTHING or _is_just(type(value), hint, function):
        return value
    import msgspec

    try:
        # Not strict: an input is always text, and `5` from the command line is a number to who wants one.
        return msgspec.convert(value, _resolved(hint, function), strict=False, dec_hook=_made_from)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    except (_Unchecked, TypeError, NameError, AttributeError, SyntaxError):
        return value


class _Unchecked(Exception):
    """The hint says what an object can do, not what data looks like."""


def _is_just(kind: type, hint: Any, function: Any) -> bool:
    """The value has the very type that is asked for: nothing to convert."""
    if hint is kind:
        return True
    return (
        isinstance(hint, str) and hint == kind.__name__ and hint not in getattr(function, "__globals__", {})
    )


def _resolved(hint: Any, function: Any) -> Any:
    """Each by itself: one that names what only a type checker imports must not hide the others."""
    import types
    import typing

    holder = types.SimpleNamespace(__annotations__={"it": hint})
    where = getattr(_unwrapped(function), "__globals__", {})
    return typing.get_type_hints(holder, globalns=where, include_extras=True)["it"]


def _unwrapped(function: Any) -> Any:
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return vars(function).get("__init__", function) if isinstance(function, type) else function


def _made_from(kind: Any, value: Any) -> Any:
    """Types that JSON data can become although msgspec does not know them."""
    from pathlib import PurePath

    if not isinstance(kind, type) or getattr(kind, "_is_protocol", False):
        raise _Unchecked
    if issubclass(kind, PurePath) and isinstance(value, str):
        return kind(value)
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)
    raise ValueError(f"{_class_name(kind)} cannot be made from what a plan can hold")


# What it returned


def outputs_text(value: Any, limit_bytes: int) -> str:
    """The outputs as JSON: a dict by its keys, nothing for None, anything else under `result`. Raises Unsayable."""
    outputs = {} if value is None else value if isinstance(value, dict) else {"result": value}
    for name in outputs:
        if not _is_name(name):
            raise Unsayable(f"the key {name!r} is no name for an output: return {{'result': …}} instead")
    text = _json(outputs, "", 0)
    if (size_bytes := len(text.encode())) > limit_bytes:
        size = f"what it returned takes {size_bytes} bytes, over outputs_bytes_max ({limit_bytes})"
        raise Unsayable(f"{size}: write it into a file and return the file's name")
    return text


def _is_name(key: object) -> bool:
    if not isinstance(key, str) or not 0 < len(key) <= NAME_CHARS_MAX:
        return False
    letters = key.replace("-", "_")
    return letters.isascii() and letters.isidentifier() and key[0] != "-"


def _json(value: Any, path: str, depth: int) -> str:
    if depth > DEPTH_MAX:
        raise Unsayable(f"{path[:NAME_CHARS_MAX]}… is nested deeper than {DEPTH_MAX}")
    if value is None or value is True or value is False:
        return "null" if value is None else "true" if value else "false"
    if isinstance(value, str):
        return _text(value, path)
    if isinstance(value, int | float):
        return _figure(value, path)
    if isinstance(value, dict):
        members = (
            f"{_key(key, path)}:{_json(item, _below(path, key), depth + 1)}" for key, item in value.items()
        )
        return "{" + ",".join(members) + "}"
    if isinstance(value, list | tuple):
        items = (_json(item, f"{path}[{index}]", depth + 1) for index, item in enumerate(value))
        return "[" + ",".join(items) + "]"
    return _json(_plain(value, path), path, depth + 1)


def _key(key: Any, path: str) -> str:
    if not isinstance(key, str):
        raise Unsayable(
            f"{path or 'the dict'} has the key {key!r}, a {_class_name(type(key))}: keys are text"
        )
    return _text(key, path)


def _below(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)


def _text(value: str, path: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Unsayable(f"{path} is text that is not Unicode: decode it with errors='replace'") from None
    quoted: str = _quoted(value)
    return quoted


def _figure(value: float, path: str) -> str:
    if isinstance(value, int):
        if abs(value) > EXACT_INTEGER_MAX:
            raise Unsayable(f"{path} is a number that JSON cannot carry exactly: return it as text")
        return int.__repr__(value)
    if value - value != 0:
        raise Unsayable(f"{path} is {float.__repr__(value)}, which JSON has no word for")
    return float.__repr__(value)


def _plain(value: Any, path: str) -> Any:
    """Data that is not JSON yet but can be told as such: paths, dates, dataclasses, models."""
    kind = type(value)
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if hasattr(kind, "model_dump"):
        return value.model_dump(mode="json")
    if not isinstance(value, bytes | bytearray | memoryview | set | frozenset):
        import msgspec

        try:
            return msgspec.to_builtins(value, str_keys=True)
        except TypeError:
            pass
    raise Unsayable(f"{path} is a {_class_name(kind)}, which cannot be written as JSON")


# What went wrong


def _told(error: BaseException) -> str:
    if isinstance(error, Refused):
        return f'{{"refused":{_quoted(_cut(str(error)))}}}'
    if isinstance(error, Unsayable):
        return f'{{"unsayable":{_quoted(_cut(str(error)))}}}'
    error = _only_one(error)
    names = [
        _class_name(kind) for kind in type(error).__mro__ if kind not in (Exception, BaseException, object)
    ]
    lineage = ",".join(_quoted(name) for name in names[:LINEAGE_MAX] or ["BaseException"])
    wait_s = error.seconds if isinstance(error, inside.Cooldown) else None
    told = (
        f'"message":{_quoted(_cut(_words(error)))},"retryAfterS":{"null" if wait_s is None else repr(wait_s)}'
    )
    return f'{{"raised":[{lineage}],{told}}}'


def _only_one(error: BaseException) -> BaseException:
    """A task group wraps what its one failing task has raised."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _class_name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _words(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 even that is code of the step's
        return "(its message cannot be read)"


def _cut(text: str) -> str:
    """Between words: half a secret could not be recognised as one."""
    if len(text) > MESSAGE_CHARS_MAX:
        text = text[:MESSAGE_CHARS_MAX].rpartition(" ")[0] or f"(one word of {len(text)} characters)"
    return text.encode("utf-8", "replace").decode()


def _complain(error: BaseException) -> NoReturn:
    """Into the log, as the interpreter would, without the lines that are about this file."""
    if isinstance(error, Refused | Unsayable):
        sys.stderr.write(f"{error}\n")
    else:
        error.__traceback__ = _users_part(error)
        sys.excepthook(type(error), error, error.__traceback__)
    sys.exit(1)


def _users_part(error: BaseException) -> TracebackType | None:
    part = error.__traceback__
    while part is not None and _is_ours(part.tb_frame.f_globals.get("__name__", "")):
        part = part.tb_next
    return part if part or isinstance(error, SyntaxError) else error.__traceback__


def _is_ours(module: str) -> bool:
    return module == "__main__" or module.partition(".")[0] in ("recoup", "asyncio", "importlib")


def _tell(call: Call, answer: str) -> None:
    """Opened only now: the function may have closed every file it found, or put another one in its place."""
    pipe = os.open(call[2], os.O_WRONLY | os.O_CLOEXEC)
    left = memoryview(answer.encode())
    while left:
        left = left[os.write(pipe, left) :]
    os.close(pipe)
