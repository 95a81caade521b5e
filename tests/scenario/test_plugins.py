"""A package that brings a kind of step, a check and a notifier: `examples/plugin_http`, built, installed and used like any
other."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.scenario.conftest import Cli, Result

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "plugin_http"
GUIDE = ROOT / "docs" / "howto" / "write-a-plugin.md"
PIN = "tk-5f1e07c2a9b84d63"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the example is installed."""
    folder = tmp_path_factory.mktemp("plugin")
    shutil.copytree(EXAMPLE, folder / "source")
    offline = ("--no-index", "--no-build-isolation", "--no-deps", "--disable-pip-version-check")
    argv = [
        sys.executable,
        "-m",
        "pip",
        "install",
        *offline,
        "--target",
        str(folder / "site"),
        str(folder / "source"),
    ]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder / "site"


@dataclass
class Service:
    """An HTTP server that counts, and answers when it is let."""

    address: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    """Path and token of each."""
    bodies: list[bytes] = field(default_factory=list)
    """What was posted."""
    asked: threading.Event = field(default_factory=threading.Event)
    answers: threading.Event = field(default_factory=threading.Event)

    def paths(self) -> list[str]:
        return [path for path, _ in self.calls]


@pytest.fixture
def service() -> Iterator[Service]:
    told = Service()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            told.calls.append((self.path, self.headers.get("X-Token", "")))
            told.bodies.append(self.rfile.read(int(self.headers.get("Content-Length", 0))))
            told.asked.set()
            if self.path.startswith("/slow"):
                told.answers.wait(60)
            body = b'{"count": 3}'
            self.send_response(503 if self.path.startswith("/broken") else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    told.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield told
    told.answers.set()
    server.shutdown()
    thread.join()
    server.server_close()


@dataclass
class Machine:
    """Commands in new interpreters, with packages or without them."""

    cli: Cli
    site: Path | None

    def __call__(self, *args: str) -> Result:
        done = subprocess.run(
            self.cli.argv(*args),
            env=self.env(),
            cwd=self.cli.folder,
            capture_output=True,
            text=True,
            timeout=120,
        )
        return Result(done.returncode, done.stdout, done.stderr)

    def start(self, *args: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.cli.argv(*args),
            env=self.env(),
            cwd=self.cli.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def env(self) -> dict[str, str]:
        return self.cli.environ({} if self.site is None else {"PYTHONPATH": str(self.site)})

    def status(self) -> str:
        return str(self("show", "last", "--json").json["status"])


@pytest.fixture
def machine(cli: Cli, site: Path) -> Machine:
    return Machine(cli, site)


@pytest.fixture
def other(cli: Cli) -> Machine:
    """The same home and ledger, without the package."""
    return Machine(cli, None)


Write = Callable[..., str]


@pytest.fixture
def plan(cli: Cli, service: Service) -> Write:
    def write(steps: str, head: str = "") -> str:
        (cli.folder / "source").mkdir(exist_ok=True)
        (cli.folder / "source" / "kept").write_text("x")
        text = f"version: 1\nname: calls\n{head}steps:\n{steps}".replace("SERVICE", service.address)
        (cli.folder / "plan.yaml").write_text(text)
        return str(cli.folder / "plan.yaml")

    return write


GET = "  - {id: get, http: {url: SERVICE/list}}\n"


def test_a_step_of_a_plugin_is_a_step_like_any_other(machine: Machine, plan: Write, service: Service) -> None:
    path = plan(GET + '  - {id: use, run: "test ${{ steps.get.outputs.status }} = 200"}\n')
    checked = machine("check", path)
    assert (checked.code, "nothing wrong" in checked.out) == (0, True)
    assert machine("run", path).code == 0
    assert machine.status() == "succeeded"
    assert service.paths() == ["/list"]
    events = machine("events", "last", "--json").lines
    assert "http" in {event["payload"].get("kind") for event in events}


def test_a_status_that_may_pass_is_tried_again(machine: Machine, plan: Write, service: Service) -> None:
    path = plan("  - {id: get, http: {url: SERVICE/broken}, max_attempts: 2}\n")
    assert machine("run", path).code == 75
    assert service.paths() == ["/broken", "/broken"]
    assert "status 503" in machine("show", "last").out


def test_a_secret_reaches_the_service_and_no_record(
    machine: Machine, plan: Write, service: Service, cli: Cli
) -> None:
    head = "inputs: {pin: {secret: true, required: true}}\n"
    path = plan('  - {id: get, http: {url: SERVICE/list, headers: {X-Token: "${{ inputs.pin }}"}}}\n', head)
    assert machine("run", path, "--input", f"pin={PIN}").code == 0
    assert service.calls == [("/list", PIN)]
    kept = [file for file in cli.home.rglob("*") if file.is_file() and "private" not in file.parts]
    assert kept
    assert not [file for file in kept if PIN.encode() in file.read_bytes()]


def test_check_says_all_that_is_wrong_with_it(machine: Machine, plan: Write) -> None:
    path = plan(
        "  - id: a\n    http:\n      url: ftp://x\n      metod: GET\n"
        '  - id: b\n    http: {url: "https://x/${{ inputs.pin }}"}\n'
        "  - id: c\n    http: {url: 'https://x', method: POST}\n    rebuild: rerun\n",
        "inputs: {pin: {secret: true}}\n",
    )
    said = machine("check", path)
    assert said.code == 3
    for words in (
        "plan.yaml:7: steps[0].http.url: must be a whole address",
        "did you mean `method`?",
        "plan.yaml:10: steps[1].http.url: `inputs.pin` is a secret and must not stand here",
        "write it under `headers` or `json`",
        "a step with `repeat: never` cannot be run again",
    ):
        assert words in said.err + said.out


def test_the_schema_has_the_kinds_that_are_installed(machine: Machine, other: Machine) -> None:
    assert "HttpStepShape" in machine("schema", "plan").out
    assert "HttpStepShape" not in other("schema", "plan").out


def test_a_gate_and_a_handler_around_it(machine: Machine, plan: Write, service: Service) -> None:
    path = plan(
        "  - {id: ask, approve: Call it?}\n"
        "  - id: get\n    run: exit 3\n    max_attempts: 1\n    rescue: [{http: {url: SERVICE/rescue}}]\n"
    )
    assert machine("run", path).code == 5
    assert machine("control", "last", "approve", "--reason", "fine").code == 0
    assert machine("resume", "last").code == 0
    assert service.paths() == ["/rescue"]


def test_a_run_is_paused_behind_it_and_goes_on(machine: Machine, plan: Write, service: Service) -> None:
    path = plan("  - {id: slow, http: {url: SERVICE/slow}}\n" + GET)
    driver = machine.start("run", path)
    assert service.asked.wait(60)
    paused = machine.start("control", "last", "pause", "--reason", "lunch")
    while "pause" not in machine("events", "last").out:
        assert driver.poll() is None, "the driver waits for the slow answer"
    service.answers.set()
    paused.wait(60)
    driver.wait(60)
    assert service.paths() == ["/slow"]
    assert machine("resume", "last").code == 0
    assert service.paths() == ["/slow", "/list"]


@pytest.mark.parametrize(("method", "code", "calls"), [("GET", 0, 2), ("POST", 5, 1)])
def test_a_killed_driver_repeats_only_what_may_be_repeated(
    machine: Machine, plan: Write, service: Service, method: str, code: int, calls: int
) -> None:
    path = plan(f"  - {{id: call, http: {{url: SERVICE/slow, method: {method}}}}}\n")
    driver = machine.start("run", path)
    assert service.asked.wait(60)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    service.answers.set()
    assert machine("resume", "last").code == code
    assert len(service.calls) == calls


def test_what_is_proven_is_not_called_again(machine: Machine, plan: Write, service: Service) -> None:
    head = "workspace: {folder: source}\n"
    steps = GET + "  - {id: then, run: test -e DONE, max_attempts: 1}\n"
    assert machine("run", plan(steps, head)).code == 1
    mended = plan(steps.replace("test -e DONE", "'true'"), head)
    assert machine("run", mended, "--reuse", "last").code == 0
    assert service.paths() == ["/list"]


def test_a_worker_without_the_package_leaves_the_run(
    machine: Machine, other: Machine, plan: Write, service: Service
) -> None:
    assert machine("submit", plan(GET)).code == 0
    left = other("worker", "--until-idle")
    assert "it needs http, which this worker does not have" in left.out + left.err
    assert service.calls == []
    assert machine("worker", "--until-idle").code == 0
    assert machine.status() == "succeeded"


def test_without_the_package_a_run_is_shown_and_says_what_to_install(
    machine: Machine, other: Machine, plan: Write, service: Service
) -> None:
    path = plan(GET)
    assert machine("submit", path).code == 0
    assert other.status() == "queued"
    assert other("worker", "--until-idle", "--capabilities", "http").code in (0, 1)
    assert "pip install recoup-http" in other("show", "last").out
    assert other("events", "last").code == 0
    checked = other("check", path)
    assert checked.code == 3
    assert "if a plugin brings `http`, install it first" in checked.out + checked.err
    assert service.calls == []


def installed(site: Path, name: str, entry_points: str, code: str) -> None:
    """As pip leaves a package behind."""
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)
    (site / f"{name}.py").write_text(code)


def test_a_broken_package_is_named_and_stops_no_other_run(cli: Cli, tmp_path: Path, plan: Write) -> None:
    installed(tmp_path / "site", "torn", "[recoup.steps]\nsql = torn:STEP\n", "import not_there\n")
    machine = Machine(cli, tmp_path / "site")
    findings = machine("doctor", "--json").json["findings"]
    (told,) = [finding for finding in findings if finding["name"] == "plugin"]
    assert told["ok"] is False
    assert "torn" in told["detail"]
    assert "not_there" in told["detail"]
    assert machine("run", plan("  - {id: a, run: 'true'}\n")).code == 0
    checked = machine("check", plan("  - {id: a, sql: select}\n"))
    assert checked.code == 3
    assert (
        "the plugin torn, which brings `sql`, cannot be loaded: ModuleNotFoundError"
        in checked.out + checked.err
    )


def test_two_packages_with_one_key_are_told_apart_by_nobody(cli: Cli, tmp_path: Path, plan: Write) -> None:
    for name in ("one", "two"):
        installed(tmp_path / "site", name, f"[recoup.steps]\nsql = {name}:STEP\n", "")
    checked = Machine(cli, tmp_path / "site")("check", plan("  - {id: a, sql: select}\n"))
    assert "one and two both bring `sql`: uninstall one of them" in checked.out + checked.err


SPLIT = """\
from pydantic import Field
from recoup.steps.custom import CustomStep
from recoup.steps.custom_keys import CustomKeys

class Sql(CustomStep):
    key = "sql"
    keys = "split:Keys"

class Keys(CustomKeys):
    phrase = "asks a database"
    sql: str = Field(description="x", examples=["x"])
    env: str = Field("", description="x", examples=["x"])
    def arguments(self): return {"sql": self.sql}

STEP = Sql()
"""


def test_a_package_whose_keys_are_taken_is_named_and_harms_no_other_plan(
    cli: Cli, tmp_path: Path, plan: Write
) -> None:
    installed(tmp_path / "site", "split", "[recoup.steps]\nsql = split:STEP\n", SPLIT)
    machine = Machine(cli, tmp_path / "site")
    checked = machine("check", plan("  - {id: a, sql: select}\n"))
    assert "split:Keys has `env`, a key of every step" in checked.out + checked.err
    checked = machine("check", plan("  - {id: a, runn: 'true'}\n"))
    assert checked.code == 3
    assert "did you mean `run`?" in checked.out + checked.err


DIALECT = """\
from recoup.runtimes.agent.dialect import Dialect

QUILL = Dialect("quill", lambda call: ("sh", "-c", "echo wrote > quill.txt"), lambda e: False,
                lambda e, s: None, "pip install quill")
"""


def test_a_package_can_bring_the_command_line_of_an_agent(cli: Cli, tmp_path: Path, plan: Write) -> None:
    installed(tmp_path / "site", "quills", "[recoup.agents]\nquill = quills:QUILL\n", DIALECT)
    machine = Machine(cli, tmp_path / "site")
    steps = "  - {id: a, agent: {cli: quill, prompt: write}, expect: [{file: quill.txt}], max_attempts: 1}\n"
    machine("run", plan(steps))
    assert (cli.folder / "quill.txt").read_text() == "wrote\n"
    assert "`agent:` steps with quill, by quills" in machine("doctor").out


ANSWERS = "  - {id: deploy, run: 'true', max_attempts: 1, expect: [{answers: {url: SERVICE/health, contains: CONTAINS}}]}\n"


def test_a_check_of_a_plugin_is_a_check_like_any_other(
    machine: Machine, plan: Write, service: Service
) -> None:
    path = plan(ANSWERS.replace("CONTAINS", "count"))
    checked = machine("check", path)
    assert (checked.code, "1 check" in checked.out) == (0, True)
    assert machine("run", path).code == 0
    # Before the attempt, so that a later look means something, and after it.
    assert service.paths() == ["/health", "/health"]
    assert machine.status() == "succeeded"
    assert machine("run", plan(ANSWERS.replace("CONTAINS", "absent"))).code == 1
    shown = machine("show", "last").out
    assert f"answers: {service.address}/health: the answer does not contain" in shown
    assert "AnswersKeys" in machine("schema", "plan").out


def test_a_secret_in_a_check_of_a_plugin_is_in_no_record(
    machine: Machine, plan: Write, service: Service, cli: Cli
) -> None:
    head = "inputs: {pin: {secret: true, required: true}}\n"
    steps = "  - {id: a, run: 'true', max_attempts: 1, expect: [{answers: {url: 'SERVICE/?${{ inputs.pin }}'}}]}\n"
    assert machine("run", plan(steps, head), "--input", f"pin={PIN}").code == 0
    assert {*service.paths()} == {f"/?{PIN}"}
    kept = [file for file in cli.home.rglob("*") if file.is_file() and "private" not in file.parts]
    assert not [file for file in kept if PIN.encode() in file.read_bytes()]


def test_a_check_that_hangs_says_nothing_and_is_ended(
    machine: Machine, plan: Write, service: Service, cli: Cli
) -> None:
    (cli.folder / "policy.yaml").write_text("version: 1\ncheck_s: 1\nprecheck_s: 1\n")
    path = plan(ANSWERS.replace("health", "slow").replace("CONTAINS", "count"))
    cli.env["RECOUP_POLICY"] = str(cli.folder / "policy.yaml")
    assert machine("run", path).code == 1
    assert "took over 1 s" in machine("show", "last").out


def test_a_worker_without_the_check_leaves_the_run(
    machine: Machine, other: Machine, plan: Write, service: Service
) -> None:
    path = plan(ANSWERS.replace("CONTAINS", "count"))
    assert machine("submit", path).code == 0
    left = other("worker", "--until-idle")
    assert "it needs check.answers, which this worker does not have" in left.out + left.err
    assert other.status() == "queued"
    checked = other("check", path)
    assert checked.code == 3
    assert "if a plugin brings `answers`, install it first" in checked.out + checked.err
    assert other("worker", "--until-idle", "--capabilities", "check.answers").code in (0, 1)
    assert "pip install recoup-http" in other("show", "last").out
    assert service.calls == []


PROBE = """\
version: 1
hand_over: {chat: {url: SERVICE/hooks, prefix: "devbox: "}}
budget: {max_retries: 0}
resources:
  - {id: api, process: {command: [sh, -c, exit 1]}}
"""


def test_a_notifier_of_a_plugin_is_told_of_an_escalation(
    machine: Machine, other: Machine, service: Service, cli: Cli
) -> None:
    file = cli.folder / "dev.yaml"
    file.write_text(PROBE.replace("SERVICE", service.address))
    assert machine("probe", "check", str(file)).code == 0
    checked = other("probe", "check", str(file))
    assert checked.code == 3
    assert "if a plugin brings `chat`, install it first" in checked.out + checked.err
    probe = machine.start("probe", "run", str(file))
    try:
        assert service.asked.wait(60)
    finally:
        probe.terminate()
        probe.wait(60)
    assert service.paths() == ["/hooks"]
    (said,) = service.bodies
    assert b"devbox: api: " in said


def test_a_broken_check_and_a_broken_notifier_are_named_and_stop_no_other_run(
    cli: Cli, tmp_path: Path, plan: Write
) -> None:
    points = "[recoup.checks]\neven = torn:CHECK\n[recoup.notifiers]\nmail = torn:NOTIFIER\n"
    installed(tmp_path / "site", "torn", points, "import not_there\n")
    machine = Machine(cli, tmp_path / "site")
    findings = machine("doctor", "--json").json["findings"]
    told = [finding for finding in findings if finding["name"] == "plugin"]
    assert [finding["ok"] for finding in told] == [False, False]
    assert all("torn" in finding["detail"] and "not_there" in finding["detail"] for finding in told)
    assert machine("run", plan("  - {id: a, run: 'true', expect: [{exit: 0}]}\n")).code == 0
    checked = machine("check", plan("  - {id: a, run: 'true', expect: [{even: x}]}\n"))
    assert checked.code == 3
    assert "the plugin torn, which brings `even`, cannot be loaded" in checked.out + checked.err


def test_the_doctor_lists_what_a_package_brings(machine: Machine) -> None:
    said = machine("doctor").out
    for words in ("`http:` steps", "`answers:` checks", "the notifier `chat`"):
        assert f"{words}, by recoup-http" in said


def test_the_guide_shows_the_example() -> None:
    guide = GUIDE.read_text()
    points = re.findall(r'^\w+ = "recoup_http.*"$', (EXAMPLE / "pyproject.toml").read_text(), re.MULTILINE)
    assert len(points) == 3
    assert [point for point in points if point not in guide] == []
    for name, lines in (
        ("answers", ('key = "answers"', 'keys = "recoup_http.keys:AnswersKeys"', "world = True")),
        ("chat", ('key = "chat"', 'keys = "recoup_http.keys:ChatShape"', "asyncio.to_thread")),
    ):
        written = (EXAMPLE / "src" / "recoup_http" / f"{name}.py").read_text()
        for line in lines:
            assert line in guide
            assert line in written
    said = (EXAMPLE / "src" / "recoup_http" / "__init__.py").read_text()
    for line in ('key = "http"', 'keys = "recoup_http.keys:HttpKeys"', 'target = "recoup_http.call:call"'):
        assert line in guide
        assert line in said
