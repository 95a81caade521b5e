"""Probe files: what may stand in them, and how what may not is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from recoup.documents.probe_file import default_id, parse_probe, read_probe_file
from recoup.documents.schemas import probe_schema
from recoup.errors import InvalidProbe
from recoup.model.probe import (
    Action,
    BindingKind,
    Budget,
    ChannelKind,
    CommandCheck,
    EndpointKind,
    ExitCheck,
    HeartbeatCheck,
    HttpCheck,
    MountKind,
    OutputCheck,
    ProcessKind,
    TcpCheck,
)
from recoup.notifiers.command import CommandSettings

WHOLE = """
version: 1
id: devbox
gateway: http://127.0.0.1:8620
hand_over: {file: e.jsonl, command: [./page], timeout: 5s}
secrets: [API_TOKEN, API_TOKEN]
budget: {max_retries: 2, window_s: 300, delays_s: [1, 2s], day_max: 6, healthy_reset_s: 5m}
resources:
  - id: api
    process: {command: [uvicorn, "app:app", 1], cwd: ./api, env: {PORT: 8000}, stop_grace: 2s, never_restart_on: [2], settle: 500ms}
    health:
      - {exit: true}
      - {tcp: "[::1]:8000", every: 2s, timeout: 1s, failures: 2, successes: 3}
      - {http: "http://127.0.0.1:8000/healthz", status: [200, 204]}
      - {command: [test, -e, x]}
      - {heartbeat: {file: beat, max_age: 30s}}
      - {output: {fault: FATAL, ready: listening, within: 1m}}
    budget: {max_retries: 1}
  - {id: tcp, channel: {tcp: "127.0.0.1:5432", connect_timeout: 3s}, needs: [api]}
  - {id: http, channel: {http: "http://127.0.0.1:1/"}}
  - {id: ws, channel: {websocket: "ws://127.0.0.1:1/"}}
  - {id: unix, channel: {unix: /run/x.sock}}
  - id: tunnel
    channel: {ssh_remote: {host: h, port: 2222, user: dev, identity_file: ./id, fallback: terminal_fallback}}
    on_fault: {dialog_target_disconnected: reconnect, ssh_remote_attach_failed: restart}
  - {id: dialog, channel: {dialog: {command: [./agent]}}}
  - {id: scratch, mount: {path: ./scratch, command: [mount, ./scratch]}}
  - {id: port, binding: {port: 8080, forward_to: "127.0.0.1:8000"}}
  - {id: env, endpoint: {file: .env, variable: API_URL, command: [./where]}}
"""


def test_every_key_becomes_a_value() -> None:
    config = parse_probe(WHOLE, folder="/srv")
    assert (config.id, config.gateway, config.folder) == ("devbox", "http://127.0.0.1:8620", "/srv")
    assert config.secrets == ("API_TOKEN",)
    assert config.hand_over == {"file": "e.jsonl", "command": CommandSettings(("./page",), 5)}
    api, tcp, _, _, unix, tunnel, dialog, scratch, port, env = config.resources
    assert api.kind == ProcessKind(
        command=("uvicorn", "app:app", "1"),
        cwd="./api",
        env={"PORT": "8000"},
        stop_grace_s=2,
        never_restart_on=(2,),
        settle_s=0.5,
    )
    assert api.budget.max_retries == 1 and list(api.budget.delays_s) == [30, 90, 210]
    assert tcp.budget == Budget(max_retries=2, window_s=300, delays_s=(1, 2), day_max=6, healthy_reset_s=300)
    assert list(api.checks) == [
        ExitCheck(),
        TcpCheck(host="::1", port=8000, every_s=2, timeout_s=1, failures=2, successes=3),
        HttpCheck(url="http://127.0.0.1:8000/healthz", status=(200, 204)),
        CommandCheck(command=("test", "-e", "x")),
        HeartbeatCheck(path="beat", max_age_s=30),
        OutputCheck(fault="FATAL", ready="listening", within_s=60),
    ]
    assert tcp.kind == ChannelKind(
        transport="tcp", address="127.0.0.1:5432", host="127.0.0.1", port=5432, connect_timeout_s=3
    )
    assert isinstance(unix.kind, ChannelKind) and unix.kind.address == "/run/x.sock"
    assert isinstance(tunnel.kind, ChannelKind) and tunnel.kind.fallback == "terminal_fallback"
    assert tunnel.on_fault["ssh_remote_attach_failed"] is Action.RESTART
    assert isinstance(dialog.kind, ChannelKind) and dialog.kind.command == ("./agent",)
    assert scratch.kind == MountKind(path="./scratch", command=("mount", "./scratch"))
    assert port.kind == BindingKind(port=8080, forward_to="127.0.0.1:8000")
    assert env.kind == EndpointKind(file=".env", variable="API_URL", command=("./where",))


def test_a_file_has_the_name_that_it_is_called(tmp_path: Path) -> None:
    file = tmp_path / "my box.yaml"
    file.write_text("version: 1\nresources: [{id: a, process: {command: [a]}}]\n")
    config = read_probe_file(file)
    assert (config.id, config.folder) == ("my-box", str(tmp_path))
    assert default_id(Path(".devbox.yaml")) == "devbox" and default_id(Path("é")) == "probe"


def problems(text: str) -> list[str]:
    with pytest.raises(InvalidProbe) as caught:
        parse_probe(text)
    return [f"{one.where}: {one.message}" for one in caught.value.problems]


ONE = "version: 1\nresources:\n  - id: a\n    process: {command: [a]}\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "a probe file is a mapping"),
        ("version: 1\nresources: []", "must not be empty"),
        (ONE + "    heath: []", "did you mean `health`"),
        (ONE + "    channel: {tcp: '1.2.3.4:5'}", "must be of one kind"),
        (ONE + "    needs: [b]", "there is no resource 'b'"),
        (ONE + "    needs: [a]", "a needs a"),
        (ONE + "  - {id: a, process: {command: [b]}}", "another resource is called 'a'"),
        (ONE + "    health: [{tcp: x}]", "must be a host and a port"),
        (ONE + "    health: [{http: 'ftp://x'}]", "must be an address such as"),
        (ONE + "    health: [{http: 'http://x:99999/'}]", "must be an address such as"),
        (ONE + "    health: [{every: 5s}]", "must name one check"),
        (ONE + "    health: [{tcp: 'h:1', status: [200]}]", "`status` is about `http`"),
        (ONE + "    health: [{output: {}}]", "says nothing to look for"),
        (ONE + "    health: [{output: {fault: x, within: 5s}}]", "`within` is about `ready`"),
        (ONE + "    on_fault: {x: reconnect}", "reconnect cannot be done here"),
        (
            "version: 1\nresources: [{id: m, mount: {path: x, command: [m]}, health: [{exit: true}]}]",
            "only a process exits",
        ),
        ("version: 1\nresources: [{id: c, channel: {}}]", "must be one of tcp"),
        ("version: 1\nresources: [{id: c, channel: {dialog: {}}}]", "must name `command` or `url`"),
        (
            "version: 1\nresources: [{id: c, channel: {ssh_remote: {host: h, mode: terminal_fallback, "
            "fallback: terminal_fallback}}}]",
            "must be another way",
        ),
        ("version: 1\nresources: [{id: b, binding: {port: 1}}]", "must name `command` or `forward_to`"),
        ("version: 1\nresources: [{id: e, endpoint: {file: f}}]", "must name one source of the address"),
    ],
)
def test_what_is_wrong_is_said_where_it_stands(text: str, words: str) -> None:
    assert any(words in problem for problem in problems(text)), problems(text)


def test_a_circle_of_needs_is_named() -> None:
    text = "version: 1\nresources:\n" + "".join(
        f"  - {{id: {name}, process: {{command: [x]}}, needs: [{need}]}}\n"
        for name, need in ("ab", "bc", "ca")
    )
    assert any("a needs b needs c needs a" in problem for problem in problems(text))


@pytest.mark.parametrize(
    ("written", "rule"),
    [
        ("    on_fault: {process_exited: migrate_host}", "host_placement"),
        ("    on_fault: {process_exited: terminate}", "silent_termination"),
        ("    on_fault: {process_exited: cook}", "allowed_actions"),
        ("    workspace_id: 7", "stable_route"),
        ("    agent_id: 7", "stable_route"),
        ("    replicas: 3", "desired_state"),
        ("    skip_approval: true", "platform_approval"),
        ("placement: elsewhere", "host_placement"),
        ("desired_state: {a: stopped}", "desired_state"),
    ],
)
def test_what_no_probe_may_do_is_refused_by_the_name_of_its_rule(written: str, rule: str) -> None:
    with pytest.raises(InvalidProbe) as caught:
        parse_probe(ONE + written)
    (problem,) = caught.value.problems
    assert rule in problem.message and problem.line is not None
    assert [refusal.rule for refusal in caught.value.refused] == [rule]
    with pytest.raises(InvalidProbe) as named:
        parse_probe(f"id: devbox\n{ONE}{written}")
    assert (caught.value.probe_id, named.value.probe_id) == ("probe", "devbox")


def test_a_file_that_is_not_there_is_a_problem_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(InvalidProbe, match="no such file"):
        read_probe_file(tmp_path / "none.yaml")


def test_the_schema_names_every_key() -> None:
    schema = probe_schema()
    assert schema["title"] == "Recoup probe" and "resources" in schema["properties"]
    assert schema["additionalProperties"] is False
