"""What is built, installed into empty environments: the base alone, each extra by itself, and what is said without it."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import tarfile
import threading
import tomllib
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import Distribution, distributions
from pathlib import Path

import pytest
from tests.keys import KEY

from recoup.runtimes.browser.finding import find_browser
from recoup.testing.postgres import PostgresServer

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
BASE_BYTES_MAX = 40_000_000
COMMAND_S = 120
INSTALL_S = 900
NOT_OURS = {"pip", "setuptools", "wheel"}
PLAN = "{version: 1, name: tiny, secrets: [TOKEN], workspace: {git: .}, steps: [{id: a, run: 'echo made > made', expect: [{file: made}]}]}"
OBJECT_STORE = """
import threading
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
threading.Event().wait()
"""
pytestmark = [pytest.mark.soak, pytest.mark.timeout(INSTALL_S)]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the archive of the sources."""
    return _build(ROOT, tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def wheel(built: Path) -> Path:
    (path,) = built.glob("*.whl")
    return path


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Path:
    """An environment with nothing but the package and what it asks for."""
    folder = tmp_path_factory.mktemp("base") / "env"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=INSTALL_S)
    _install(folder, str(wheel))
    return folder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RECOUP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("RECOUP_DATABASE", "RECOUP_EVIDENCE", "PYTHONPATH", "VIRTUAL_ENV"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _build(source: Path, into: Path, *targets: str) -> Path:
    words = [sys.executable, "-m", "hatchling", "build", "-d", str(into)]
    subprocess.run([*words, *targets], cwd=source, check=True, capture_output=True, timeout=INSTALL_S)
    return into


def _install(environment: Path, *packages: str) -> None:
    words = [str(environment / "bin/python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    done = subprocess.run([*words, *packages], capture_output=True, text=True, timeout=INSTALL_S)
    assert done.returncode == 0, done.stderr


def recoup(environment: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [environment / "bin/python", "-m", "recoup", *words],
        env=os.environ | more,
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
    )


def done(environment: Path, *words: str, **more: str) -> str:
    """What it printed; it must have succeeded."""
    answer = recoup(environment, *words, **more)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout + answer.stderr


def asked(environment: Path, code: str) -> str:
    """Python's own answer in this environment."""
    words = [str(environment / "bin/python"), "-c", code]
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=COMMAND_S).stdout.strip()


# What is built


def test_the_wheel_made_of_the_archive_is_the_one_made_of_the_tree(
    built: Path, wheel: Path, tmp_path: Path
) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as unpacked:
        unpacked.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    (other,) = _build(source, tmp_path / "dist", "-t", "wheel").glob("*.whl")
    assert _contents(other) == _contents(wheel)


def _contents(path: Path) -> dict[str, int]:
    with zipfile.ZipFile(path) as wheel:
        return {one.filename: one.CRC for one in wheel.infolist() if not one.filename.endswith("/RECORD")}


# The base


def test_the_base_runs_a_plan(base: Path, home: Path) -> None:
    script = [str(base / "bin/recoup"), "--version"]
    told = subprocess.run(script, check=True, capture_output=True, text=True, timeout=COMMAND_S).stdout
    assert told.startswith("recoup ")
    assert "pip install 'recoup[patterns]'" in done(base, "doctor")
    for words in (["init", "-q"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a", "--allow-empty"]):  # fmt: skip
        subprocess.run(["git", *words], check=True, timeout=COMMAND_S)
    Path("plan.yaml").write_text(PLAN)
    assert "succeeded" in done(base, "run", "plan.yaml", TOKEN="-".join(["kept", "in", "a", "vault"]))
    assert "succeeded" in done(base, "runs")


def test_the_base_is_small(base: Path) -> None:
    sizes = {one.name: _bytes_of(one) for one in _installed(base) if one.name not in NOT_OURS}
    largest = sorted(sizes.items(), key=lambda pair: -pair[1])[:5]
    assert sum(sizes.values()) < BASE_BYTES_MAX, f"{sum(sizes.values()):,} bytes; the largest: {largest}"


def _installed(environment: Path) -> Iterator[Distribution]:
    (folder,) = environment.glob("lib/python*/site-packages")
    yield from distributions(path=[str(folder)])


def _bytes_of(one: Distribution) -> int:
    """What came in its wheel: not what Python compiled of it."""
    paths = [Path(str(file.locate())) for file in one.files or () if file.suffix != ".pyc"]
    return sum(path.stat().st_size for path in paths if path.exists())


BROWSER_PLAN = "{version: 1, name: b, steps: [{id: a, browser: {goto: 'http://127.0.0.1:1/'}}]}"
MISSING: dict[str, tuple[int, list[str], dict[str, str]]] = {
    "browser": (1, ["run", "browser.yaml"], {}),
    "browser ": (2, ["record", "http://127.0.0.1:1/"], {}),
    "serve": (2, ["serve", "--port", "0"], {}),
    "mcp": (2, ["mcp"], {}),
    "metrics": (2, ["worker", "--metrics-port", "0", "--until-idle"], {}),
    "postgres": (2, ["runs"], {"RECOUP_DATABASE": "postgresql://u@127.0.0.1:1/x"}),
    "s3": (2, ["runs"], {"RECOUP_EVIDENCE": "s3://bucket/x", "RECOUP_KEY": KEY}),
    "otel": (2, ["run", "plan.yaml"], {"RECOUP_OTEL": "1"}),
    "sentences": (0, ["doctor"], {"RECOUP_SENTENCES": "."}),
    "patterns": (0, ["doctor"], {}),
}


@pytest.mark.parametrize("extra", MISSING)
def test_whoever_lacks_an_extra_is_told_what_to_type(base: Path, home: Path, extra: str) -> None:
    Path("browser.yaml").write_text(BROWSER_PLAN)
    Path("plan.yaml").write_text(PLAN.replace("workspace: {git: .}, ", ""))
    code, words, more = MISSING[extra]
    answer = recoup(base, *words, **more)
    said = answer.stdout + answer.stderr
    assert f"pip install 'recoup[{extra.strip()}]'" in said
    assert "Traceback" not in said
    assert answer.returncode == code, said


def test_every_extra_is_either_missed_aloud_or_not_missed_at_all() -> None:
    quiet = {"learn"}
    assert EXTRAS.keys() - quiet == {name.strip() for name in MISSING}


# Each extra by itself

Use = Callable[[Path, pytest.FixtureRequest], None]


def _learns(environment: Path, _request: pytest.FixtureRequest) -> None:
    assert asked(environment, "from recoup.learning.index import new_index; print(type(new_index()).__name__)") == "FaissIndex"  # fmt: skip


def _finds_more_secrets(environment: Path, _request: pytest.FixtureRequest) -> None:
    told = json.loads(done(environment, "doctor", "--json"))["findings"]
    assert {one["name"]: one["ok"] for one in told}["patterns"]


def _traces(environment: Path, _request: pytest.FixtureRequest) -> None:
    Path("plan.yaml").write_text("{version: 1, name: tiny, steps: [{id: a, run: 'true'}]}")
    with _site() as (url, seen):
        done(environment, "run", "plan.yaml", RECOUP_OTEL="1", OTEL_EXPORTER_OTLP_ENDPOINT=url)
    assert "/v1/traces" in seen


def _compares_sentences(environment: Path, _request: pytest.FixtureRequest) -> None:
    from model2vec import StaticModel
    from numpy import eye, float32
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel

    tokenizer = Tokenizer(WordLevel({"[UNK]": 0, "buy": 1}, unk_token="[UNK]"))
    StaticModel(eye(2, 8, dtype=float32), tokenizer, config={"normalize": False}).save_pretrained("model")
    assert "compared by the model" in done(environment, "doctor", RECOUP_SENTENCES="model")


def _serves(environment: Path, _request: pytest.FixtureRequest) -> None:
    with _started(environment, "serve", "--port", "0", "--json") as line:
        assert _is_answered(json.loads(line)["url"] + "/healthz")


def _speaks_mcp(environment: Path, _request: pytest.FixtureRequest) -> None:
    asked_for = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}  # fmt: skip
    message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": asked_for})
    with _started(environment, "mcp", "--outside", says=message) as answer:
        assert json.loads(answer)["result"]["serverInfo"]


def _shows_metrics(environment: Path, _request: pytest.FixtureRequest) -> None:
    with _started(environment, "worker", "--metrics-port", "0", from_stderr=True) as line:
        assert _is_answered(line.split()[-1])


def _shares_a_database(environment: Path, request: pytest.FixtureRequest) -> None:
    postgres: PostgresServer = request.getfixturevalue("postgres")
    Path("plan.yaml").write_text("{version: 1, name: tiny, steps: [{id: a, run: 'true'}]}")
    shared = {"RECOUP_DATABASE": postgres.fresh_database(), "RECOUP_KEY": KEY}
    done(environment, "submit", "plan.yaml", **shared)
    done(environment, "worker", "--until-idle", **shared)
    assert "succeeded" in done(environment, "runs", **shared)


def _keeps_evidence_in_an_object_store(environment: Path, _request: pytest.FixtureRequest) -> None:
    Path("plan.yaml").write_text("{version: 1, name: tiny, steps: [{id: a, run: 'false'}]}")
    given = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "a", "AWS_DEFAULT_REGION": "us-east-1"}
    with _object_store() as url:
        urllib.request.urlopen(
            urllib.request.Request(f"{url}/bucket", method="PUT"), timeout=COMMAND_S
        ).close()
        store = {"RECOUP_EVIDENCE": "s3://bucket/x", "RECOUP_KEY": KEY, "AWS_ENDPOINT_URL": url}
        ended = recoup(environment, "run", "plan.yaml", **given, **store)
        with urllib.request.urlopen(f"{url}/bucket", timeout=COMMAND_S) as answer:
            kept = answer.read().decode()
    assert ended.returncode == 75, ended.stderr
    assert "<Key>x/evidence/" in kept, "the case about the failure"


def _browses(environment: Path, _request: pytest.FixtureRequest) -> None:
    assert find_browser(os.environ) is not None, "recoup browser install"
    with _site() as (url, seen):
        Path("plan.yaml").write_text(BROWSER_PLAN.replace("http://127.0.0.1:1/", url + "/page"))
        done(environment, "run", "plan.yaml")
    assert "/page" in seen


USES: dict[str, Use] = {
    "browser": _browses,
    "learn": _learns,
    "mcp": _speaks_mcp,
    "metrics": _shows_metrics,
    "otel": _traces,
    "patterns": _finds_more_secrets,
    "postgres": _shares_a_database,
    "s3": _keeps_evidence_in_an_object_store,
    "sentences": _compares_sentences,
    "serve": _serves,
}


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_does_its_work_without_the_others(
    base: Path, wheel: Path, home: Path, request: pytest.FixtureRequest, extra: str
) -> None:
    environment = home / "env"
    # Linked, not copied: pip replaces files, and writes into none.
    subprocess.run(["cp", "-al", base, environment], check=True, timeout=COMMAND_S)
    _install(environment, f"{wheel}[{extra}]")
    USES[extra](environment, request)


def _is_answered(url: str) -> bool:
    with urllib.request.urlopen(url, timeout=COMMAND_S) as answer:
        return bool(answer.status == 200)


@contextmanager
def _started(environment: Path, *words: str, says: str = "", from_stderr: bool = False) -> Iterator[str]:
    """Its first line, while it runs."""
    with subprocess.Popen(
        [environment / "bin/python", "-m", "recoup", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if from_stderr else None,
        text=True,
    ) as child:
        try:
            assert child.stdin is not None and child.stdout is not None
            if says:
                child.stdin.write(says + "\n")
                child.stdin.flush()
            stream = child.stderr if from_stderr else child.stdout
            assert stream is not None
            yield stream.readline()
        finally:
            child.terminate()
            child.communicate(timeout=COMMAND_S)


@contextmanager
def _object_store() -> Iterator[str]:
    argv = [sys.executable, "-W", "ignore", "-c", OBJECT_STORE]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
        server.kill()


@contextmanager
def _site() -> Iterator[tuple[str, list[str]]]:
    """A site on this machine that is content with everything, and the paths that were asked for."""
    seen: list[str] = []

    class Content(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            seen.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>a page</title>")

        do_POST = do_GET

        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Content) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", seen
        server.shutdown()
