"""Records how real tools fail, for tests/golden/failures: every failure three times, in another folder, at another
port, for another user and on another day. Nothing is edited by hand.

    python tools/record_failures.py [TOOL…]

Network is needed once, to fill the toolbox (pytest, TypeScript, Playwright). A tool that is not there is left out and
said so. What a file may not hold (a path of the workplace, a host of a registry) makes the recording fail.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from signal import SIGKILL

from recoup.kernel.signature import signature
from recoup.model.failure import FailureKind

GOLDEN = Path(__file__).parents[1] / "tests" / "golden" / "failures"
COMMAND_TIMEOUT_S = 120
RECORDED_BYTES_MAX = 16_384
SLOW_ANSWER_S = 30.0


@dataclass(frozen=True)
class Case:
    """One way in which a tool fails: a shell command in a folder with these files."""

    tool: str
    failure: str
    command: str
    files: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.tool}/{self.failure}"


@dataclass(frozen=True)
class Variant:
    name: str
    folder: str
    user: str
    clock: str | None


VARIANTS = (
    Variant("a", "p", "ann", None),
    Variant("b", "srv/build-7/jobs/4711/a_rather_long_folder_name/checkout", "builder", None),
    Variant("c", "data/J.Q/repo.git/x", "j.q", "2027-03-09 04:05:06"),
)


@dataclass(frozen=True)
class Toolbox:
    """What was installed once, and the servers to fail against; every variant gets its own copy of the first."""

    folder: Path
    server_port: int
    closing_port: int
    postgres_port: int | None


# Recording


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tools", nargs="*", metavar="TOOL")
    wanted = parser.parse_args().tools
    with toolbox() as box:
        cases, reasons = runnable(box, [case for case in CASES if not wanted or case.tool in wanted])
        for reason in reasons:
            sys.stderr.write(f"left out: {reason}\n")
        for case in cases:
            sys.stderr.write(f"{case.name}\n")
            _write(case, recorded(case, box))
        _write_json("versions", {tool: version_of(tool, box) for tool in {case.tool for case in cases}})
        _write_json("signatures", {case.name: _signature_of(case) for case in cases})
    return 0


def recorded(case: Case, box: Toolbox) -> dict[str, bytes]:
    return {variant.name: _fail(case, variant, box) for variant in VARIANTS}


def runnable(box: Toolbox, cases: list[Case]) -> tuple[list[Case], list[str]]:
    missing = {
        tool: reason for tool in sorted({case.tool for case in cases}) if (reason := _absent(tool, box))
    }
    return [case for case in cases if case.tool not in missing], [f"{t}: {r}" for t, r in missing.items()]


def version_of(tool: str, box: Toolbox) -> str:
    """The first line that the tool says of itself."""
    command = VERSIONS.get(tool, f"{tool} --version").format(box=box.folder)
    said = subprocess.run(
        ["bash", "-c", f"{command} 2>&1"],
        capture_output=True,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
        check=False,
    )
    return said.stdout.split("\n")[0].partition(" from /")[0]


def _absent(tool: str, box: Toolbox) -> str | None:
    if tool == "psql" and box.postgres_port is None:
        return "no PostgreSQL server to fail against"
    program = PROGRAMS[tool].format(box=box.folder)
    return (
        None if shutil.which(program) or Path(program).exists() else f"{Path(program).name} is not installed"
    )


def _fail(case: Case, variant: Variant, box: Toolbox) -> bytes:
    with tempfile.TemporaryDirectory(prefix="rf-") as top, _silent_port() as port:
        home, folder = Path(top) / "home" / variant.user, Path(top) / variant.folder
        home.mkdir(parents=True)
        _lay_out(folder, case, box)
        code, output = _run(_clocked(case, variant), folder, _environment(home, variant, box, port))
    assert code != 0, f"{case.name} did not fail: {output[-400:]!r}"
    return _bounded(output)


def _run(command: str, folder: Path, environment: dict[str, str]) -> tuple[int, bytes]:
    with subprocess.Popen(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=COMMAND_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, SIGKILL)
            raise
    return process.returncode, output


def _clocked(case: Case, variant: Variant) -> str:
    faketime = shutil.which("faketime") if variant.clock and case.tool not in HANGS_ON_A_FAKED_CLOCK else None
    if faketime is None:
        return case.command
    quoted = case.command.replace("'", "'\\''")
    return f"exec {faketime} -f '@{variant.clock}' bash -c '{quoted}'"


def _lay_out(folder: Path, case: Case, box: Toolbox) -> None:
    folder.mkdir(parents=True)
    for part in PARTS.get(case.tool, ()):
        shutil.copytree(box.folder / part, folder / part, symlinks=True, copy_function=os.link)
    for name, text in case.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _environment(home: Path, variant: Variant, box: Toolbox, silent_port: int) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "USER": variant.user,
        "LOGNAME": variant.user,
        "LANG": "C.UTF-8",
        "TERM": "xterm",
        "PORT": str(silent_port),
        "SERVER_PORT": str(box.server_port),
        "CLOSING_PORT": str(box.closing_port),
        "PGPORT": str(box.postgres_port or 0),
        "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", str(Path.home() / ".rustup")),
        "CARGO_NET_OFFLINE": "true",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "GIT_CONFIG_NOSYSTEM": "1",
        "NPM_CONFIG_UPDATE_NOTIFIER": "false",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_CONFIG_FILE": os.devnull,
    }


@contextlib.contextmanager
def _silent_port() -> Iterator[int]:
    """Nobody listens there, and nobody else can begin to while it is held."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])


def _bounded(output: bytes) -> bytes:
    """The end, from the start of a line."""
    if len(output) <= RECORDED_BYTES_MAX:
        return output
    return output[-RECORDED_BYTES_MAX:].partition(b"\n")[2]


def _write(case: Case, outputs: dict[str, bytes]) -> None:
    (GOLDEN / case.tool).mkdir(parents=True, exist_ok=True)
    for variant, output in outputs.items():
        found = [word for word in UNWANTED if word in output]
        assert not found, f"{case.name}: may not be recorded: {found}"
        (GOLDEN / case.tool / f"{case.failure}.{variant}.txt").write_bytes(output)


def _signature_of(case: Case) -> str:
    output = (GOLDEN / case.tool / f"{case.failure}.{VARIANTS[0].name}.txt").read_bytes()
    return signature(FailureKind.EXIT_NONZERO, output.decode("utf-8", "replace"))


def _write_json(name: str, found: dict[str, str]) -> None:
    path = GOLDEN / f"{name}.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(dict(sorted({**known, **found}.items())), indent=1) + "\n")


# The toolbox


@contextlib.contextmanager
def toolbox() -> Iterator[Toolbox]:
    with tempfile.TemporaryDirectory(prefix="rf-box-") as top, contextlib.ExitStack() as stack:
        Path(top).chmod(0o755)
        _install_python(Path(top))
        _install_node(Path(top))
        yield Toolbox(
            folder=Path(top),
            server_port=stack.enter_context(_http_server()),
            closing_port=stack.enter_context(_closing_server()),
            postgres_port=stack.enter_context(_postgres(Path(top) / "pg")),
        )


def _install_python(top: Path) -> None:
    # The system's own Python, because the path of any other would be recorded in the frames of its library.
    python = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable
    _attempt([python, "-m", "venv", str(top / "venv")], top)
    _attempt([str(top / "venv/bin/python"), "-m", "pip", "install", "-q", "pytest"], top)


def _install_node(top: Path) -> None:
    (top / "package.json").write_text('{"private": true}')
    _attempt(["npm", "install", "--silent", "typescript", "playwright-core"], top)


def _attempt(command: list[str], folder: Path) -> None:
    with contextlib.suppress(FileNotFoundError, subprocess.SubprocessError):
        subprocess.run(command, cwd=folder, capture_output=True, timeout=COMMAND_TIMEOUT_S, check=True)


@contextlib.contextmanager
def _http_server() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Unhelpful)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


class _Unhelpful(BaseHTTPRequestHandler):
    """Late for /slow, broken for /broken, a container engine without containers, and else without anything."""

    def do_GET(self) -> None:
        if "slow" in self.path:
            threading.Event().wait(SLOW_ANSWER_S)
        if "_ping" in self.path:
            self._answer(200, b"OK")
        elif "page" in self.path:
            self._answer(200, b"<title>Shop</title><button>Buy</button><button>Buy</button>", "text/html")
        elif "broken" in self.path:
            self._answer(500, b'{"error": "out of order"}')
        elif "/containers/" in self.path or "/images/" in self.path:
            what = "container" if "/containers/" in self.path else "image"
            self._answer(404, json.dumps({"message": f"No such {what}: shop"}).encode())
        else:
            self._answer(404, b'{"error": "not found"}')

    do_HEAD = do_POST = do_PUT = do_DELETE = do_GET

    def _answer(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Api-Version", "1.43")
        self.end_headers()
        if self.command != "HEAD":
            with contextlib.suppress(ConnectionError):
                self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextlib.contextmanager
def _closing_server() -> Iterator[int]:
    """Takes a connection, hears the client out and closes it."""
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=_close_all, args=(listener,), daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()


def _close_all(listener: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            _hear_out(listener.accept()[0])


def _hear_out(connection: socket.socket) -> None:
    """To close with something unread would be a reset, or not, just as the two of them are scheduled."""
    connection.settimeout(COMMAND_TIMEOUT_S)
    with connection, contextlib.suppress(OSError):
        while (said := connection.recv(65_536)) and b"\n" not in said:
            pass


@contextlib.contextmanager
def _postgres(folder: Path) -> Iterator[int | None]:
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not programs or not shutil.which("psql"):
        yield None
        return
    binaries, port = programs[-1].parent, free_port()
    folder.mkdir()
    shutil.chown(folder, "postgres") if os.getuid() == 0 else None
    _as_postgres([f"{binaries}/initdb", "-D", f"{folder}/data", "-U", "postgres", "-A", "trust", "--no-sync"])
    options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
    start = [f"{binaries}/pg_ctl", "-D", f"{folder}/data", "-o", options, "-l", f"{folder}/log", "-w"]
    _as_postgres([*start, "start"])
    try:
        yield port
    finally:
        _as_postgres([f"{binaries}/pg_ctl", "-D", f"{folder}/data", "-m", "immediate", "-w", "stop"])


def _as_postgres(command: list[str]) -> None:
    prefix = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
    subprocess.run(
        prefix + command,
        cwd="/",
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=COMMAND_TIMEOUT_S,
        check=True,
    )


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


# The tools

# Where this machine keeps things, and what registries call themselves: neither belongs into a recorded case.
UNWANTED = (
    *(
        os.fsencode(path)
        for path in (Path(__file__).resolve().parents[1], Path.home())
        if len(path.parts) > 1
    ),
    *(b"registry.", b"pypi.", b"hosted.", b"crates.", b"docker."),
)
HANGS_ON_A_FAKED_CLOCK = frozenset({"cargo", "docker", "java", "playwright"})
PARTS = {
    "pytest": ("venv",),
    "unittest": ("venv",),
    "pip": ("venv",),
    "tsc": ("node_modules",),
    "playwright": ("node_modules",),
}
PROGRAMS = {
    **{
        tool: tool
        for tool in ("npm", "cargo", "gcc", "git", "curl", "ssh", "docker", "psql", "node", "make", "bash")
    },
    "pytest": "{box}/venv/bin/pytest",
    "unittest": "{box}/venv/bin/python",
    "pip": "{box}/venv/bin/pip",
    "tsc": "{box}/node_modules/typescript",
    "playwright": "chromium",
    "java": "javac",
}
VERSIONS = {
    "ssh": "ssh -V",
    "pytest": "{box}/venv/bin/python -m pytest --version",
    "unittest": "{box}/venv/bin/python --version",
    "pip": "{box}/venv/bin/pip --version",
    "tsc": "node {box}/node_modules/typescript/bin/tsc --version",
    "playwright": "grep version {box}/node_modules/playwright-core/package.json",
}

_PYTEST = "venv/bin/python -m pytest -p no:cacheprovider"
_SHOP = """\
import json


class Basket:
    def __init__(self):
        self.items = []

    def add(self, name, price):
        self.items.append((name, price))

    def total(self):
        return sum(price for _, price in self.items)


def load(text):
    return json.loads(text)
"""
_TEST_TOTAL = """\
from shop import Basket, load


def test_an_empty_basket_costs_nothing():
    assert Basket().total() == 0


def test_two_items_cost_their_sum():
    basket = Basket()
    basket.add("pen", 3)
    basket.add("ink", 4)
    assert basket.total() == 8
"""
_TEST_LOAD = """\
from shop import load


def test_a_basket_is_read():
    assert load("{'pen': 3}") == {"pen": 3}
"""
_TEST_FIXTURE = """\
import pytest


@pytest.fixture
def till(tmp_path):
    raise ConnectionRefusedError(f"no till at {tmp_path}")


def test_the_till_opens(till):
    assert till
"""
_UNITTEST = """\
import unittest

from shop import Basket, load


class BasketTest(unittest.TestCase):
    def test_sum(self):
        basket = Basket()
        basket.add("pen", 3)
        {line}


if __name__ == "__main__":
    unittest.main()
"""
_PYTHON_FILES = {"shop.py": _SHOP, "test_total.py": _TEST_TOTAL, "test_load.py": _TEST_LOAD}

_PACKAGE = '{"name": "shop", "version": "1.0.0", "scripts": {"build": "node build.js", "lint": "lintx ."}}'
_NPM_AT = "npm --registry http://127.0.0.1:$%s/ --fetch-retries 0 "
_TSCONFIG = '{"compilerOptions": {"strict": true, "noEmit": true, "types": []}, "files": ["src/main.ts"]}'
_TSC = "node node_modules/typescript/bin/tsc -p . "
_CARGO_TOML = '[package]\nname = "shop"\nversion = "0.1.0"\nedition = "2021"\n'
_JAVA = """\
import java.util.*;
public class Main {
  public static void main(String[] a) {
    %s
  }
}
"""
_TWO_BRANCHES = (
    "git checkout -qb other && echo b >a.txt && git commit -qam b && "
    "git checkout -q main && echo c >a.txt && "
)
_TWO_HISTORIES = (
    "git clone -q --bare . up.git && git remote add up up.git && git commit -q --allow-empty -m two && "
    "git push -q up main && git reset -q --hard HEAD~1 && git commit -q --allow-empty -m three && "
)
_TWICE = """\
create temp table orders (id int primary key);
insert into orders values (7);
insert into orders values (7);
"""
_GIT = (
    "git init -q -b main . && git config user.email ann@shop.invalid && git config user.name Ann && "
    "git add . && git commit -qm first && "
)
_PSQL = "psql -h 127.0.0.1 -U postgres -v ON_ERROR_STOP=1 -d postgres "
_PLAYWRIGHT = """\
const { chromium } = require('playwright-core');

async function main() {
  const browser = await chromium.launch({ executablePath: '%s' });
  try {
    const page = await browser.newPage();
    await page.goto(`http://127.0.0.1:${process.env.%s}/page`);
    %s
  } finally {
    await browser.close();
  }
}

main();
"""


def _playwright(
    failure: str, line: str, port: str = "SERVER_PORT", browser: str = "/usr/bin/chromium"
) -> Case:
    return Case("playwright", failure, "node main.js", {"main.js": _PLAYWRIGHT % (browser, port, line)})


def _c(failure: str, body: str, options: str = "") -> Case:
    return Case("gcc", failure, f"gcc {options} -o shop src/main.c", {"src/main.c": body})


def _rust(failure: str, body: str, command: str = "cargo build") -> Case:
    return Case("cargo", failure, command, {"Cargo.toml": _CARGO_TOML, "src/main.rs": body})


def _typescript(failure: str, body: str, options: str = "") -> Case:
    return Case("tsc", failure, _TSC + options, {"tsconfig.json": _TSCONFIG, "src/main.ts": body})


def _java(failure: str, line: str) -> Case:
    body = _JAVA % line
    return Case("java", failure, "javac -d out src/Main.java && java -cp out Main", {"src/Main.java": body})


CASES = (
    Case("pytest", "assertion", f"{_PYTEST} test_total.py", _PYTHON_FILES),
    Case("pytest", "assertion-coloured", f"{_PYTEST} --color=yes -q test_total.py", _PYTHON_FILES),
    Case("pytest", "bad-json", f"{_PYTEST} test_load.py", _PYTHON_FILES),
    Case("pytest", "fixture", f"{_PYTEST} test_fixture.py", {"test_fixture.py": _TEST_FIXTURE}),
    Case(
        "pytest",
        "no-module",
        f"{_PYTEST} test_x.py",
        {"test_x.py": "import shopp\n\n\ndef test_x():\n    pass\n"},
    ),
    Case("pytest", "no-file", f"{_PYTEST} test_gone.py"),
    Case("pytest", "short", f"{_PYTEST} -q --tb=short", _PYTHON_FILES),
    *(
        Case(
            "unittest",
            failure,
            "venv/bin/python -m unittest -v",
            {"shop.py": _SHOP, "test_shop.py": _UNITTEST.format(line=line)},
        )
        for failure, line in (
            ("assertion", "self.assertEqual(basket.total(), 4)"),
            ("bad-json", "load('[1, 2')"),
            ("missing-key", "{'pen': 1}['ink']"),
            ("type", "basket.add('ink', None) or basket.total()"),
        )
    ),
    Case("unittest", "no-module", "venv/bin/python -m unittest -v test_gone"),
    Case("npm", "no-package", "npm run build"),
    Case("npm", "no-script", "npm run deploy", {"package.json": _PACKAGE}),
    Case(
        "npm",
        "script-fails",
        "npm run build",
        {"package.json": _PACKAGE, "build.js": "throw new Error('no theme');\n"},
    ),
    Case("npm", "command-not-found", "npm run lint", {"package.json": _PACKAGE}),
    Case("npm", "registry-404", _NPM_AT % "SERVER_PORT" + "install left-pen", {"package.json": _PACKAGE}),
    Case(
        "npm", "registry-404-other", _NPM_AT % "SERVER_PORT" + "install right-pen", {"package.json": _PACKAGE}
    ),
    Case("npm", "registry-down", _NPM_AT % "PORT" + "install left-pen", {"package.json": _PACKAGE}),
    Case("npm", "registry-down-other", _NPM_AT % "PORT" + "install right-pen", {"package.json": _PACKAGE}),
    Case("npm", "no-lock", "npm ci", {"package.json": _PACKAGE}),
    Case("npm", "bad-json", "npm install", {"package.json": '{"name": "shop",\n  "version" 3}'}),
    _typescript("type", "const total: number = 'four';\nexport { total };\n"),
    _typescript("type-pretty", "const total: number = 'four';\nexport { total };\n", "--pretty"),
    _typescript("name", "export const total = price + 1;\n"),
    _typescript("other-name", "export const total = weight + 1;\n"),
    _typescript("module", "import { x } from './basket';\nexport const y = x;\n"),
    _typescript("syntax", "export const total = (1 + ;\n"),
    _rust("type", 'fn main() {\n    let total: u32 = "four";\n    println!("{total}");\n}\n'),
    _rust("name", 'fn main() {\n    println!("{}", total);\n}\n'),
    _rust(
        "borrow",
        'fn main() {\n    let a = String::from("pen");\n    let b = a;\n    println!("{a}{b}");\n}\n',
    ),
    _rust("panic", 'fn main() {\n    let v: Vec<u32> = vec![];\n    println!("{}", v[7]);\n}\n', "cargo run"),
    _rust("test", "fn main() {}\n\n#[test]\nfn sums() {\n    assert_eq!(3 + 4, 8);\n}\n", "cargo test"),
    _rust("coloured", "fn main() {\n    missing();\n}\n", "cargo build --color always"),
    Case("cargo", "no-manifest", "cargo build"),
    Case(
        "cargo",
        "no-crate",
        "cargo build",
        {
            "Cargo.toml": _CARGO_TOML + '[dependencies]\npen = { path = "../gone" }\n',
            "src/main.rs": "fn main() {}\n",
        },
    ),
    _c("undeclared", "int main(void) {\n  return total;\n}\n"),
    _c("undeclared-coloured", "int main(void) {\n  return price;\n}\n", "-fdiagnostics-color=always"),
    _c("no-header", '#include "shop.h"\nint main(void) { return 0; }\n'),
    _c("link", "int total(void);\nint main(void) { return total(); }\n"),
    _c("syntax", "int main(void) {\n  return 1 +;\n}\n"),
    _c("warning", "int main(void) {\n  int unused = 1;\n  return 0;\n}\n", "-Wall -Werror"),
    Case("git", "no-repository", "git status"),
    Case("git", "no-pathspec", _GIT + "git add nothing.txt", {"a.txt": "a\n"}),
    Case("git", "no-revision", _GIT + "git checkout feature/x", {"a.txt": "a\n"}),
    Case(
        "git",
        "conflict",
        _GIT + _TWO_BRANCHES + "git commit -qam c && git merge other",
        {"a.txt": "a\n"},
    ),
    Case(
        "git",
        "rejected",
        _GIT + _TWO_HISTORIES + "git push up main",
        {"a.txt": "a\n"},
    ),
    Case("git", "clone-missing", 'git clone "$PWD/gone.git" there'),
    Case("git", "remote-down", "git clone http://127.0.0.1:$PORT/shop.git there"),
    Case(
        "git",
        "bad-patch",
        _GIT + "git apply fix.patch",
        {"a.txt": "a\n", "fix.patch": "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-z\n+y\n"},
    ),
    Case(
        "git",
        "dirty",
        _GIT + _TWO_BRANCHES + "git checkout other",
        {"a.txt": "a\n"},
    ),
    Case("pip", "no-distribution", "venv/bin/pip install --no-index left-pen"),
    Case("pip", "no-other-distribution", "venv/bin/pip install --no-index right-pen"),
    Case(
        "pip",
        "index-down",
        "venv/bin/pip install --retries 1 --index-url http://127.0.0.1:$PORT/simple left-pen",
    ),
    Case("pip", "no-file", "venv/bin/pip install -r needs.txt"),
    Case("pip", "bad-requirement", "venv/bin/pip install -r needs.txt", {"needs.txt": "left pen ==\n"}),
    Case(
        "pip",
        "build-fails",
        "venv/bin/pip install --no-build-isolation --no-index ./shop",
        {"shop/setup.py": "raise RuntimeError('no compiler')\n"},
    ),
    Case("curl", "refused", "curl -sS http://127.0.0.1:$PORT/orders"),
    Case("curl", "no-host", "curl -sS http://shop.invalid/orders"),
    Case("curl", "not-found", "curl -sSf http://127.0.0.1:$SERVER_PORT/orders"),
    Case("curl", "broken", "curl -sSf http://127.0.0.1:$SERVER_PORT/broken"),
    Case("curl", "timeout", "curl -sS -m 2 http://127.0.0.1:$SERVER_PORT/slow"),
    Case("curl", "not-tls", "curl -sS https://127.0.0.1:$SERVER_PORT/orders"),
    Case("curl", "refused-with-meter", "curl http://127.0.0.1:$PORT/orders -o orders.json"),
    Case("ssh", "refused", "ssh -p $PORT -o BatchMode=yes $USER@127.0.0.1 true"),
    Case("ssh", "no-host", "ssh -o BatchMode=yes shop.invalid true"),
    Case("ssh", "closed", "ssh -p $CLOSING_PORT -o BatchMode=yes 127.0.0.1 true"),
    Case("ssh", "bad-option", "ssh -o Colour=yes 127.0.0.1 true"),
    Case("ssh", "bad-config", 'ssh -F "$PWD/config" 127.0.0.1 true', {"config": "Host *\n  Prot 22\n"}),
    Case("docker", "no-engine", 'docker -H "unix://$PWD/d.sock" ps'),
    Case("docker", "engine-down", "docker -H tcp://127.0.0.1:$PORT ps"),
    Case("docker", "unknown-flag", "docker run --colour red shop"),
    Case("docker", "unknown-command", "docker ship it"),
    Case("docker", "no-context", "docker --context shop ps"),
    Case("docker", "no-container", "docker -H tcp://127.0.0.1:$SERVER_PORT inspect --type container shop"),
    Case("docker", "no-dockerfile", "DOCKER_BUILDKIT=0 docker -H tcp://127.0.0.1:$SERVER_PORT build ."),
    _playwright("no-button", "await page.getByRole('button', { name: 'Sell' }).click({ timeout: 3000 });"),
    _playwright("no-link", "await page.getByRole('link', { name: 'Terms' }).click({ timeout: 3000 });"),
    _playwright("two-buttons", "await page.getByRole('button', { name: 'Buy' }).click({ timeout: 20000 });"),
    _playwright("server-down", "", port="PORT"),
    _playwright("no-browser", "", browser="/opt/gone/chromium"),
    _playwright("page-throws", "await page.evaluate(() => { throw new TypeError('no basket'); });"),
    Case("psql", "refused", "PGPORT=$PORT " + _PSQL + "-c 'select 1'"),
    Case("psql", "no-socket", 'PGPORT=$PORT psql -h "$PWD" -U postgres -c "select 1"'),
    Case("psql", "no-database", "psql -h 127.0.0.1 -U postgres -d shop -c 'select 1'"),
    Case("psql", "no-role", "psql -h 127.0.0.1 -U clerk -d postgres -c 'select 1'"),
    Case("psql", "syntax", _PSQL + "-c 'selec 1'"),
    Case("psql", "no-table", _PSQL + "-f orders.sql", {"orders.sql": "select 1;\nselect * from orders;\n"}),
    Case(
        "psql",
        "no-column",
        _PSQL + "-f orders.sql",
        {"orders.sql": "create temp table orders (id int);\nselect price from orders;\n"},
    ),
    Case(
        "psql",
        "duplicate",
        _PSQL + "-f orders.sql",
        {"orders.sql": _TWICE},
    ),
    Case(
        "node",
        "throws",
        "node main.js",
        {
            "main.js": "const { total } = require('./shop');\ntotal(null);\n",
            "shop.js": "exports.total = (basket) => basket.items.length;\n",
        },
    ),
    Case(
        "node",
        "throws-elsewhere",
        "node main.js",
        {
            "main.js": "const { total } = require('./shop');\ntotal(null);\n",
            "shop.js": "// Totals\n\n\nexports.total = (basket) => basket.items.length;\n",
        },
    ),
    Case("node", "no-module", "node main.js", {"main.js": "require('./shop');\n"}),
    Case("node", "bad-json", "node main.js", {"main.js": "JSON.parse('{');\n"}),
    Case(
        "node",
        "refused",
        "node main.mjs",
        {"main.mjs": "await fetch(`http://127.0.0.1:${process.env.PORT}/orders`);\n"},
    ),
    Case("make", "no-rule", "make shop", {"Makefile": "all:\n\ttrue\n"}),
    Case("make", "command-fails", "make all", {"Makefile": "all:\n\texit 3\n"}),
    Case(
        "make",
        "in-a-folder",
        "make all",
        {"Makefile": "all:\n\t$(MAKE) -C lib\n", "lib/Makefile": "all:\n\tfalse\n"},
    ),
    Case("bash", "no-command", "bash ./run.sh", {"run.sh": "set -e\necho start\nshipit now\n"}),
    Case("bash", "no-file", "bash ./run.sh", {"run.sh": "set -e\ncat orders.json\n"}),
    Case("bash", "unbound", "bash ./run.sh", {"run.sh": "set -eu\necho $ORDERS\n"}),
    Case("bash", "no-permission", "./run.sh", {"run.sh": "echo\n"}),
    _java("no-symbol", "System.out.println(total);"),
    _java("type", 'int total = "four";'),
    _java("null", "String s = a.length > 9 ? a[0] : null; System.out.println(s.length());"),
    _java(
        "null-elsewhere",
        'System.out.println("start");\n    String s = a.length > 9 ? a[0] : null; System.out.println(s.length());',
    ),
    _java("index", "System.out.println(new ArrayList<>(List.of(1)).get(7));"),
)

if __name__ == "__main__":
    sys.exit(main())
