"""The units, the container file and the page about fleets say what the program understands."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections import defaultdict
from pathlib import Path

import click
import pytest

from recoup.cli.main import recoup
from recoup.fleet.worker import STOP_S
from recoup.settings import NAMES

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
SERVICES = sorted(DEPLOY.glob("*.service"))
UNITS = [*SERVICES, *sorted(DEPLOY.glob("*.timer"))]
WORKERS = [path for path in SERVICES if path.name.startswith("recoup-worker")]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

HARDENING = frozenset(
    [
        "NoNewPrivileges",
        "CapabilityBoundingSet",
        "AmbientCapabilities",
        "ProtectSystem",
        "ProtectHome",
        "PrivateTmp",
        "PrivateDevices",
        "ProtectClock",
        "ProtectControlGroups",
        "ProtectHostname",
        "ProtectKernelLogs",
        "ProtectKernelModules",
        "ProtectKernelTunables",
        "RestrictAddressFamilies",
        "RestrictNamespaces",
        "RestrictRealtime",
        "RestrictSUIDSGID",
        "LockPersonality",
        "SystemCallArchitectures",
        "SystemCallFilter",
        "SystemCallErrorNumber",
        "UMask",
        "StateDirectory",
        "StateDirectoryMode",
        "CacheDirectory",
        "CacheDirectoryMode",
    ]
)
KNOWN = {
    "Unit": frozenset({"Description", "Wants", "After", "StartLimitIntervalSec"}),
    "Service": HARDENING
    | frozenset(
        [
            "Type",
            "NotifyAccess",
            "WatchdogSec",
            "User",
            "Group",
            "Environment",
            "EnvironmentFile",
            "WorkingDirectory",
            "ExecStart",
            "KillMode",
            "KillSignal",
            "TimeoutStopSec",
            "TimeoutStartSec",
            "Restart",
            "RestartSec",
            "RestartPreventExitStatus",
            "OOMPolicy",
            "LimitNOFILE",
            "Nice",
        ]
    ),
    "Timer": frozenset({"OnCalendar", "RandomizedDelaySec", "Persistent"}),
    "Install": frozenset({"WantedBy"}),
}
SECRET = re.compile(r"KEY|TOKEN|PASSW|SECRET|DATABASE|EVIDENCE|CREDENTIAL", re.IGNORECASE)

Unit = dict[str, dict[str, list[str]]]


def read_unit(text: str) -> Unit:
    """Sections, keys, and all values of a key in order."""
    unit: Unit = {}
    section = ""
    for line in text.splitlines():
        if not line.strip() or line.startswith(("#", ";")):
            continue
        if head := re.fullmatch(r"\[(\w+)\]", line):
            section = head[1]
            assert section not in unit, f"[{section}] twice"
            unit[section] = defaultdict(list)
            continue
        key, equals, value = line.partition("=")
        assert equals and section, line
        unit[section][key].append(value)
    return unit


def unit_of(path: Path) -> Unit:
    return read_unit(path.read_text())


def words_of(unit: Unit) -> list[str]:
    """Of the command, as systemd hands them over for an instance `nightly`."""
    service = unit["Service"]
    given = dict(pair.split("=", 1) for line in service["Environment"] for pair in shlex.split(line))
    (line,) = service["ExecStart"]
    words: list[str] = []
    for word in shlex.split(line.replace("%i", "nightly")):
        words += given[word[1:]].split() if word.startswith("$") else [word]
    return words


def parsed(words: list[str]) -> click.Context:
    """By the command line itself; nothing is carried out. Raises click.UsageError."""
    command: click.Command = recoup
    context = click.Context(recoup, info_name="recoup")
    rest = list(words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        found = command.get_command(context, name)
        if found is None and command.invoke_without_command:
            rest.insert(0, name)
            break
        assert found is not None, f"no such command: {' '.join(words)}"
        command, context = found, click.Context(found, parent=context, info_name=name)
    return command.make_context(command.name, rest, parent=context.parent)


def test_there_are_units_for_workers_for_the_gateway_for_probes_and_for_the_audit() -> None:
    assert [path.name for path in UNITS] == [
        *("recoup-audit-export.service", "recoup-probe@.service", "recoup-serve.service"),
        *("recoup-worker.service", "recoup-worker@.service"),
        "recoup-audit-export.timer",
    ]


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_has_known_keys_only(path: Path) -> None:
    unit = unit_of(path)
    unknown = {(section, key) for section, keys in unit.items() for key in keys if key not in KNOWN[section]}
    assert not unknown
    assert unit["Unit"]["Description"]


@pytest.mark.parametrize("path", SERVICES, ids=lambda path: path.name)
def test_the_command_of_a_unit_is_one_that_the_program_takes(path: Path) -> None:
    program, *words = words_of(unit_of(path))
    assert program == "/opt/recoup/bin/recoup"
    known = {"recoup-audit-export": "export", "recoup-probe@": "run", "recoup-serve": "serve"}
    assert parsed(words).command.name == known.get(path.stem, "worker")


def test_a_probe_says_that_it_lives_and_is_named_after_its_file() -> None:
    unit = unit_of(DEPLOY / "recoup-probe@.service")
    _, *words = words_of(unit)
    assert parsed(words).params["file"] == Path("/etc/recoup/nightly.yaml")
    service = unit["Service"]
    assert service["Type"] == ["notify"], "it says so when it is ready"
    assert float(service["WatchdogSec"][0]) > 3 * 3, "it says so with each heartbeat"
    assert service["KillMode"] == ["mixed"], "only the probe is told: it stops its resources itself, in order"
    assert service["Restart"] == ["always"]


def test_an_instance_takes_from_the_queue_that_it_is_named_after() -> None:
    _, *words = words_of(unit_of(DEPLOY / "recoup-worker@.service"))
    assert parsed(words).params["queues"] == ("nightly",)


def test_words_that_the_program_does_not_know_are_found() -> None:
    for line in ("worker --no-such-option", "worker --grace soon", "audit export --every 5m"):
        with pytest.raises(click.UsageError):
            parsed(line.split())


@pytest.mark.parametrize("path", WORKERS, ids=lambda path: path.name)
def test_a_worker_is_given_the_time_that_draining_takes(path: Path) -> None:
    unit = unit_of(path)
    _, *words = words_of(unit)
    (stop_s,) = unit["Service"]["TimeoutStopSec"]
    assert int(stop_s) > parsed(words).params["grace_s"] + STOP_S
    assert unit["Service"]["KillMode"] == ["mixed"], "only the worker is told: it stops its steps itself"
    assert unit["Service"]["OOMPolicy"] == ["continue"], "one step must not end the runs of the others"
    assert unit["Service"]["Restart"] == ["always"]


@pytest.mark.parametrize("path", SERVICES, ids=lambda path: path.name)
def test_a_service_has_few_rights_and_no_secrets(path: Path) -> None:
    service = unit_of(path)["Service"]
    assert not HARDENING - service.keys()
    assert service["User"] == ["recoup"]
    assert service["NoNewPrivileges"] == ["yes"]
    assert service["CapabilityBoundingSet"] == [""]
    assert not service.keys() & {"ProtectProc", "ProcSubset"}, "who is alive is read from /proc"
    assert service["EnvironmentFile"][0] == "/etc/recoup/recoup.env", "without it nothing is begun"
    assert not [line for line in service["Environment"] if SECRET.search(line)]


def test_the_two_workers_differ_by_their_queue_alone() -> None:
    one, each = (unit_of(path) for path in WORKERS)
    differing = {
        key
        for section in one
        for key in one[section].keys() | each[section].keys()
        if one[section].get(key) != each[section].get(key)
    }
    assert differing == {"Description", "EnvironmentFile", "ExecStart"}


def test_the_timer_starts_the_service_of_its_name_again_and_again() -> None:
    timer = unit_of(DEPLOY / "recoup-audit-export.timer")
    assert re.fullmatch(r"\*:0/\d+", timer["Timer"]["OnCalendar"][0])
    assert timer["Install"]["WantedBy"] == ["timers.target"]
    assert unit_of(DEPLOY / "recoup-audit-export.service")["Service"]["Type"] == ["oneshot"]


def test_the_example_of_the_environment_names_settings_and_holds_no_value_of_a_secret() -> None:
    text = (DEPLOY / "recoup.env.example").read_text()
    given = dict(re.findall(r"^#?([A-Z_]+)=(.*)$", text, re.MULTILINE))
    assert {"RECOUP_DATABASE", "RECOUP_KEY"} <= given.keys() <= {*NAMES, "WORKER_OPTIONS", "SERVE_OPTIONS"}
    assert not [name for name, value in given.items() if SECRET.search(name) and value]
    assert parsed(["worker", *given["WORKER_OPTIONS"].split()]).params["grace_s"] == 60


# The container file

INSTRUCTIONS = frozenset(
    ["FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "STOPSIGNAL", "ENTRYPOINT", "CMD"]
)


def instructions() -> list[tuple[str, str]]:
    lines = (DEPLOY / "Containerfile").read_text().splitlines()
    text = "\n".join(line for line in lines if not line.lstrip().startswith("#")).replace("\\\n", " ")
    return [
        (name, rest.strip()) for name, _, rest in (line.partition(" ") for line in text.splitlines() if line)
    ]


def last_stage() -> list[tuple[str, str]]:
    said = instructions()
    start = max(place for place, (name, _) in enumerate(said) if name == "FROM")
    return said[start:]


def said_once(name: str) -> str:
    (rest,) = [rest for instruction, rest in last_stage() if instruction == name]
    return rest


def test_every_instruction_is_known_and_the_first_names_an_image() -> None:
    assert {name for name, _ in instructions()} <= INSTRUCTIONS
    assert instructions()[0][0] == "FROM"


def test_images_are_named_with_a_tag_and_without_a_registry() -> None:
    for name, rest in instructions():
        if name == "FROM":
            assert re.fullmatch(r"[a-z]+:[0-9][a-z0-9.-]+( AS [a-z]+)?", rest), rest


def test_it_is_not_run_by_root() -> None:
    number = said_once("USER")
    assert int(number) > 0
    assert any(f"--uid {number} " in rest for name, rest in last_stage() if name == "RUN")
    order = [name for name, _ in last_stage()]
    assert order.index("USER") > order.index("RUN")


def test_it_holds_no_secret() -> None:
    assert not [rest for name, rest in instructions() if name == "ENV" and SECRET.search(rest)]
    assert not {name for name, _ in instructions()} & {"ARG", "ADD"}


def test_everything_that_is_copied_exists_and_is_let_through() -> None:
    stages = {rest.partition(" AS ")[2] for name, rest in instructions() if name == "FROM"} - {""}
    let_through = (DEPLOY / "Containerfile.dockerignore").read_text().splitlines()
    for name, rest in instructions():
        if name != "COPY":
            continue
        *sources, _target = rest.split()
        if sources[0].startswith("--from="):
            assert sources[0].removeprefix("--from=") in stages
            continue
        for source in sources:
            assert (ROOT / source).exists(), source
            assert f"!{source}" in let_through


def test_what_is_started_is_a_command_that_the_program_takes() -> None:
    *before, program = json.loads(said_once("ENTRYPOINT"))
    assert before == ["tini", "--"]
    assert program in PROJECT["scripts"]
    assert any(" tini " in f"{rest} " for name, rest in last_stage() if name == "RUN")
    assert parsed(json.loads(said_once("CMD"))).command.name == "worker"


def test_the_extras_that_are_installed_exist() -> None:
    (extras,) = re.findall(r'"\.\[([a-z0-9,]+)\]"', "\n".join(rest for _, rest in instructions()))
    assert set(extras.split(",")) <= PROJECT["optional-dependencies"].keys()
    copied = {word for name, rest in instructions() if name == "COPY" for word in rest.split()}
    assert {"pyproject.toml", "src", PROJECT["readme"], *PROJECT["license-files"]} <= copied


# The page

PAGE = (ROOT / "docs" / "howto" / "fleet.md").read_text()
TYPED = [
    line[2:].partition("#")[0].strip().removesuffix("&").strip()
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
    if line.startswith("$ recoup ")
]


@pytest.mark.parametrize("line", sorted(set(TYPED)))
def test_what_the_page_types_is_a_command(line: str) -> None:
    assert not parsed(shlex.split(line)[1:]).args


@pytest.mark.parametrize("words", sorted(set(re.findall(r"`(recoup (?:submit|worker|queue) [^`]+)`", PAGE))))
def test_what_the_page_names_in_passing_is_a_command(words: str) -> None:
    assert not parsed(shlex.split(words)[1:]).args


def test_the_page_counts_the_connections_of_a_worker() -> None:
    from recoup.dispatch.postgres import CONNECTIONS_MAX as QUEUE
    from recoup.ledger.postgres.reader import CONNECTIONS_MAX as READING

    assert f"| {READING} + 1 + 1 |" in PAGE
    assert f"| {QUEUE} + 1 |" in PAGE
    assert f"at most {READING + 2 + QUEUE + 1 + 1}," in PAGE
