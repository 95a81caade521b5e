"""The rooms, and who may import whom. Invariants are stated as absences."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "recoup"
EDGES = {"api", "cli", "gateway", "mcp", "pytest_plugin"}
ALL = {
    path.stem if path.is_file() else path.name for path in SOURCE.iterdir() if not path.name.startswith("_")
}

MAY_IMPORT = {
    "model": set(),
    "errors": set(),
    "children": set(),
    "files": set(),
    "inside": {"errors"},
    "aside": {"errors", "files"},
    "durable": {"aside", "files"},
    "machine": {"files"},
    "step_function": set(),
    "kernel": {"model"},
    "ports": {"model"},
    "clock": {"model", "ports"},
    "damage": {"model", "kernel", "ports", "errors"},
    "plugins": set(),
    "streams": {"model", "errors"},
    "steps": {
        *("model", "kernel", "ports", "errors", "streams", "files", "shapes", "runtimes", "plugins"),
        "checks",
    },
    "checks": {"model", "kernel", "ports", "errors", "files", "shapes", "runtimes", "plugins"},
    "engine": {"model", "kernel", "ports", "errors", "streams", "steps", "checks"},
    "ledger": {"model", "kernel", "ports", "errors", "durable", "files", "machine"},
    "evidence": {"model", "kernel", "ports", "errors", "aside", "durable", "files"},
    "audit": {"model", "ports", "errors", "durable", "files"},
    "depot": {"model", "kernel", "ports", "errors", "aside", "durable", "evidence", "files", "workspace"},
    "dispatch": {"model", "ports", "errors", "files", "machine"},
    "fleet": {
        *("model", "kernel", "ports", "errors", "streams", "damage", "engine"),
        *("evidence", "redaction", "workspace"),  # what is kept of a run
        *("depot", "metrics"),  # their types
    },
    "outgoing": set(),
    "notifiers": {"model", "ports", "errors", "files", "shapes", "plugins"},
    "probe": {"model", "kernel", "ports", "errors", "streams", "engine", "files", "outgoing", "notifiers"},
    "shapes": {"model", "kernel", "errors"},
    "documents": {"model", "kernel", "errors", "files", "shapes", "steps", "checks", "notifiers"},
    "processes": {"model", "ports", "errors", "children", "files"},
    "workspace": {"model", "ports", "errors", "aside", "durable", "children", "files", "machine"},
    "runtimes": {"model", "kernel", "ports", "errors", "inside", "aside", "files", "machine", "plugins"},
    "redaction": {"model", "errors"},
    "targets": {"model", "kernel", "errors"},
    "learning": {"model", "kernel", "errors", "durable", "files"},
    "metrics": {"model", "kernel", "errors"},
    "terminal": {"kernel"},
    "reports": {"model", "kernel", "ports", "errors", "durable", "evidence", "damage", "files"},
    "strength": set(),
    "settings": {"errors", "files", "strength"},
    "tokens": {"errors", "strength"},
    "standing": {"errors"},
    "serving": set(),
    "simulation": {
        "model",
        "kernel",
        "ports",
        "errors",
        "streams",
        "engine",
        "ledger",
        "redaction",
        "fleet",
        "damage",
    },
    "app": ALL - EDGES - {"operations"},
    "operations": ALL - EDGES - {"ledger", "testing"},
    "__main__": {"cli"},
    "api": ALL - EDGES,
    "testing": ALL - EDGES,
    "cli": ALL - (EDGES - {"cli"}),
    "gateway": ALL - (EDGES - {"gateway"}),
    "mcp": ALL - (EDGES - {"mcp"}),
    "pytest_plugin": {"model", "kernel", "runtimes", "targets", "redaction"},
}
OUTSIDE = {
    "model": {"msgspec"},
    "kernel": {"msgspec"},
    "ports": set(),
    "engine": {"msgspec"},
    "ledger": {"msgspec", "psycopg"},
    "processes": {"msgspec", "keeper_main", "process_table"},  # names of ours on a bare interpreter
    "workspace": {"msgspec"},
    "redaction": {"msgspec", "ahocorasick_rs", "hyperscan", "re2"},
    "steps": {"msgspec", "pydantic"},
    "checks": {"msgspec", "pydantic", "re2"},
    "shapes": {"msgspec", "pydantic", "pydantic_core", "re2"},
    "documents": {"msgspec", "pydantic", "pydantic_core", "yaml", "re2"},
    "runtimes": {"msgspec", "re2", "playwright"},
    "evidence": {"nacl"},
    "reports": {"msgspec"},
    "metrics": {"prometheus_client", "opentelemetry"},
    "audit": {"msgspec"},
    "depot": {"msgspec", "nacl", "psycopg"},
    "dispatch": {"msgspec", "psycopg", "pgqueuer"},
    "fleet": {"msgspec"},
    "outgoing": {"h11"},
    "notifiers": {"msgspec", "pydantic"},
    "probe": {"msgspec", "re2"},
    "simulation": {"msgspec"},
    "targets": {"msgspec", "numpy"},
    "learning": {"msgspec", "numpy", "faiss"},
    "pytest_plugin": {"msgspec", "playwright", "pytest"},
    "gateway": {
        "msgspec",
        "click",
        "pydantic",
        "fastapi",
        "jinja2",
        "markupsafe",
        "starlette",
        "uvicorn",
        "h11",
    },
    "serving": {"msgspec", "starlette", "uvicorn", "h11"},
    "mcp": {"msgspec", "click", "pydantic", "mcp", "mcp_types", "starlette", "uvicorn", "httpx2"},
}
IMPURE = {
    "asyncio",
    "datetime",
    "io",
    "logging",
    "os",
    "pathlib",
    "random",
    "secrets",
    "socket",
    "subprocess",
    "sys",
    "threading",
    "time",
}
FILES = sorted(SOURCE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            assert node.module is not None
            yield from (
                [f"{node.module}.{alias.name}" for alias in node.names]
                if node.module == "recoup"
                else [node.module]
            )


@pytest.mark.parametrize("room", sorted({room_of(path) for path in FILES} - {"__init__"}))
def test_a_room_imports_only_what_its_rule_allows(room: str) -> None:
    assert room in MAY_IMPORT, (
        f"{room} is not a room: add it to the table, the style page and ARCHITECTURE.md"
    )
    imported = [(path, name) for path in files_of(room) for name in imports_of(path)]
    assert [f"{path}: {name}" for path, name in imported if not is_allowed(room, name)] == []


def files_of(room: str) -> list[Path]:
    return [path for path in FILES if room_of(path) == room]


def is_allowed(room: str, name: str) -> bool:
    top, _, inside = name.partition(".")
    if top == "recoup" and inside:
        return inside.split(".")[0] in MAY_IMPORT[room] | {room, "__version__"}
    return room not in OUTSIDE or top in sys.stdlib_module_names or top in OUTSIDE[room]


def test_the_kernel_has_no_clock_no_chance_and_no_world() -> None:
    assert files_of("kernel")
    for path in files_of("kernel"):
        assert not {name.split(".")[0] for name in imports_of(path)} & IMPURE, path
        tree = ast.parse(path.read_text())
        assert not [node for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef | ast.Global)], (
            path
        )


def test_only_the_redaction_room_can_make_redacted_text() -> None:
    makers = {room_of(path) for path in FILES if "sealed(" in path.read_text() and path.name != "redacted.py"}
    assert makers <= {"redaction"}


def test_only_the_ledger_gives_back_redacted_text() -> None:
    givers = {room_of(path) for path in FILES if "import restored" in path.read_text()}
    assert givers <= {"ledger"}


def test_every_room_opens_with_its_rule() -> None:
    for package in SOURCE.rglob("__init__.py"):
        assert ast.get_docstring(ast.parse(package.read_text())), f"{package} has no rule"


def test_no_room_is_named_after_nothing() -> None:
    nameless = {"utils", "helpers", "common", "manager", "base", "misc"}
    assert not [path for path in FILES if path.stem in nameless or path.parent.name in nameless]


PRINTING = (
    *("click.echo", "click.secho", "click.confirm", "click.prompt", "click.progressbar", "click.pause"),
    *("sys.stdout.write", "sys.stderr.write", "sys.stdout.buffer", "sys.stderr.buffer"),
    *("sys.__stdout__", "sys.__stderr__", "traceback.print_", "logging.StreamHandler"),
)


def test_only_the_terminal_room_prints() -> None:
    """What others wrote would act on the terminal of whoever reads it."""
    elsewhere = {"python_child.py"}  # the process of a step: what it prints is its log
    for path in FILES:
        if room_of(path) == "terminal" or path.name in elsewhere:
            continue
        tree = ast.parse(path.read_text())
        printed = {name for node in ast.walk(tree) for name in _printing(node)}
        assert not printed, f"{path} prints by itself: {printed}"


def _printing(node: ast.AST) -> Iterator[str]:
    words = ast.unparse(node) if isinstance(node, ast.Attribute | ast.Name) else ""
    if words == "print" or words.startswith(PRINTING):
        yield words
    if isinstance(node, ast.Import | ast.ImportFrom):
        module = (node.module or "") if isinstance(node, ast.ImportFrom) else node.names[0].name
        names = {alias.name for alias in node.names}
        if module.split(".")[0] == "rich" or (module == "click" and names & {"echo", "secho"}):
            yield module


def test_failures_are_swallowed_at_loop_edges_only() -> None:
    allowed = {
        "api.py",
        "collector.py",
        "commits.py",
        "delivering.py",
        "driver.py",
        "function_child.py",
        "hooks.py",
        "limits.py",
        "keeper.py",
        "object_store.py",
        "pages.py",
        "plugins.py",
        "python_child.py",
        "reporter.py",
        "sentences.py",
        "serving.py",
        "worker.py",
        "writer.py",
    }
    for path in FILES:
        text = path.read_text()
        caught = [
            node
            for node in (ast.walk(ast.parse(text)) if "Exception" in text else ())
            if isinstance(node, ast.ExceptHandler)
            and isinstance(node.type, ast.Name)
            and node.type.id == "Exception"
        ]
        assert not caught or path.name in allowed, f"{path} catches Exception"
