"""Which modules open files themselves. All others read by `recoup.files.named`, which spares the databases in use."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "recoup"
READERS = {"read_text", "read_bytes", "copyfile", "copy", "copy2", "copytree"}
"""As attributes: of paths, and of `shutil`."""

OPENS = {
    "opens what is shipped with the package": (
        *("cli/topics/__init__.py", "dispatch/queries.py", "gateway/console/assets.py"),
        *("ledger/postgres/queries.py", "ledger/queries.py", "redaction/patterns/catalogue.py"),
        *("reports/html.py", "runtimes/browser/scripts.py", "targets/weights.py"),
    ),
    "opens files of the system: /proc, /dev/null": (
        *("clock.py", "cli/main.py", "files/ownership.py", "ledger/holders.py"),
        *("probe/kinds/mount.py", "terminal/writer.py"),
        *("probe/port_owner.py", "processes/identity.py", "processes/memory.py"),
        *("processes/process_table.py", "processes/sweep.py", "runtimes/browser/driver.py"),
    ),
    "runs in a process of its own, which has no database open": (
        *("inside.py", "mcp/inside.py", "processes/guard_main.py", "processes/keeper_main.py"),
        *("processes/shared_main.py", "runtimes/python_child.py"),
    ),
    "is a command that opens no database": ("cli/demo.py", "cli/redact.py", "pytest_plugin/records.py"),
    "creates a new file, or opens a pipe or a lock that it made": (
        *("cli/heal_accepting.py", "cli/importing.py", "durable.py", "operations/heal_acceptance.py"),
        *("probe/atomic_file.py", "probe/kinds/dialog.py"),
        *(
            "probe/output.py",
            "processes/guard.py",
            "processes/keeper_process.py",
        ),
        *("runtimes/named_pipe.py", "workspace/copying.py", "workspace/pack.py", "workspace/restore.py"),
        *("machine.py", "workspace/store.py"),
    ),
    "opens files of the home that no step is given": (
        *("audit/chain.py", "audit/folder.py", "audit/log.py", "audit/mending.py", "audit/reading.py"),
        *("depot/parcels.py", "depot/private.py", "depot/shipping.py", "depot/workspaces.py"),
        *("evidence/vault.py", "learning/folder.py", "ledger/postgres/witness.py", "fleet/linked.py"),
        *("probe/gateway/cursor.py",),
        *(
            "redaction/patterns/cache.py",
            "operations/retention.py",
            "workspace/carrying.py",
            "workspace/cloning.py",
        ),
        *("workspace/disk.py", "workspace/manifest.py", "workspace/workspaces.py"),
    ),
    "asks first whether the file is a database in use": ("aside.py", "notifiers/file.py"),
    "makes a database that does not exist yet": (
        *("dispatch/local_file.py", "gateway/database.py", "ledger/connection.py"),
    ),
    "writes to the log of its own ledger, on which SQLite keeps no locks": ("ledger/wal.py",),
    "is the one way, or opens what it can close without dropping a lock": (
        *("files/beneath.py", "files/held.py", "files/named.py"),
    ),
    "reads a table of the system": ("files/mounts.py",),
}
"""Why these may."""

ALLOWED = {name for names in OPENS.values() for name in names}
CONNECTS = {
    *("dispatch/local_file.py", "files/held.py", "gateway/database.py", "ledger/connection.py"),
    *("ledger/examination.py", "mcp/serving.py"),
}
"""Modules that open SQLite databases."""


def calls(path: Path) -> Iterator[ast.Call]:
    return (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))


def opens(call: ast.Call) -> bool:
    match call.func:
        case ast.Name(id="open"):
            return True
        case ast.Attribute(value=ast.Name(id="os"), attr="open"):
            return True
        case ast.Attribute(attr="open"):  # of a path: with a mode, or with nothing
            modes = [one for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
            return bool(modes) and len(call.args) == 1
        case ast.Attribute(attr=attr):
            return attr in READERS and not is_copy_of_value(call)
    return False


def is_copy_of_value(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "copy" and not call.args


FILES = {
    str(path.relative_to(SOURCE)): path
    for path in sorted(SOURCE.rglob("*.py"))
    if path.relative_to(SOURCE).parts[0] != "testing"
}


def test_only_these_modules_open_files_themselves() -> None:
    opening = {name for name, path in FILES.items() if any(map(opens, calls(path)))}
    assert opening - ALLOWED == set(), (
        "read the file with recoup.files.named, or say here why that is not needed"
    )
    assert ALLOWED - opening == set(), "these open nothing: remove them from the list"


def test_only_these_modules_open_databases_and_each_holds_what_it_opens() -> None:
    connecting = {name for name, path in FILES.items() if "sqlite3.connect(" in path.read_text()}
    assert connecting == CONNECTS
    unheld = {name for name in connecting if "HeldDatabase" not in FILES[name].read_text()}
    # The connections of the first are held by their users; the second runs in `doctor`, which has nothing else open.
    assert unheld == {"ledger/connection.py", "ledger/examination.py"}


@pytest.mark.parametrize(
    "line",
    ["open(x)", "open(x, 'rb')", "os.open(x, 0)", "x.open('rb')", "x.read_text()", "shutil.copy2(x, y)"],
)
def test_every_way_to_open_a_file_is_seen(line: str) -> None:
    (call,) = [node for node in ast.walk(ast.parse(line)) if isinstance(node, ast.Call)]
    assert opens(call)


MAKES_PARENTS = {
    "makes what is told, or what lies outside of the home": (
        *("cli/demo.py", "pytest_plugin/records.py", "pytest_plugin/report.py"),
        *("redaction/patterns/cache.py",),
    ),
}
"""Why these may. All others call `recoup.files.folders.make_folder`, which never makes a home again."""


def makes_parents(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    return name == "makedirs" or (name == "mkdir" and any(word.arg == "parents" for word in call.keywords))


def test_only_these_modules_make_all_folders_on_the_way() -> None:
    making = {name for name, path in FILES.items() if any(map(makes_parents, calls(path)))}
    assert making == {name for names in MAKES_PARENTS.values() for name in names}
