"""A plan that prints, fails with, writes and names files after a secret: nothing of it is kept."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import secrets
import shlex
import socket
import stat
import urllib.parse
from pathlib import Path

from tests.repositories import commit_all
from tests.scenario.conftest import Cli


def forms(secret: str) -> dict[str, bytes]:
    raw = secret.encode()
    return {
        "plain": raw,
        "base64": base64.b64encode(raw).rstrip(b"="),
        "base64 shifted": base64.b64encode(b"x" + raw)[2:-4],
        "url": urllib.parse.quote(secret, safe="").encode(),
        "json": json.dumps(secret)[1:-1].encode(),
        "shell": shlex.quote(secret).encode(),
    }


def undumped(data: bytes) -> str:
    """The hex digits of a text, without what stands between those of a dump."""
    return re.sub(r"\\+[xn]|[ :\n]", "", data.decode("latin-1")).lower()


def kept_files(home: Path) -> list[Path]:
    """The whole state folder, but for workspaces and private stores."""
    return [
        path
        for path in home.rglob("*")
        if path.is_file() and not {"workspaces", "private"} & set(path.relative_to(home).parts)
    ]


def test_a_secret_is_in_no_file_that_recoup_keeps(cli: Cli, repo: Path) -> None:
    token = "tok/" + secrets.token_hex(8) + "+'\" ä" + secrets.token_hex(8)
    found_in_env = "auto-" + secrets.token_hex(12)
    pin = "pin-" + secrets.token_hex(8)
    made = "made-" + secrets.token_hex(8)
    cli.env |= {"DEPLOY_SETTING": token, "SERVICE_API_TOKEN": found_in_env, "MADE": made}
    plan = cli.plan("""
        version: 1
        name: careless
        objective: Be careless
        workspace: {git: ./repo}
        secrets: [DEPLOY_SETTING]
        inputs: {pin: {secret: true}}
        steps:
          - id: prints
            run: |
              echo "token $DEPLOY_SETTING and $SERVICE_API_TOKEN"; echo "pin ${{ inputs.pin }}"
              printf %s "$DEPLOY_SETTING" | base64 -w0; echo
              printf 'x%s' "$DEPLOY_SETTING" | base64 -w0 >&2
              for c in $(printf %s "$SERVICE_API_TOKEN" | sed 's/./& /g'); do printf %s "$c"; sleep 0.01; done
              python3 -c 'import json,os,urllib.parse,shlex; t=os.environ["DEPLOY_SETTING"]; print(json.dumps(t), urllib.parse.quote(t, safe=""), shlex.quote(t))'
              for before in "" token=; do printf %s "$before$DEPLOY_SETTING" | od -An -tx1; done
              printf %s "$SERVICE_API_TOKEN" | od -An -v -tx1 | tr -d ' \\n' | tr a-f A-F
              python3 -c 'import os; t=os.environ["DEPLOY_SETTING"].encode(); print(t.hex(), t.hex(":"), "".join(f"\\\\x{b:02x}" for b in t))' >&2
          - id: writes
            run: |
              echo "key=$SERVICE_API_TOKEN" > config.env; touch "named-$SERVICE_API_TOKEN"
              echo "made=$MADE" >> "$RECOUP_OUTPUT"
            outputs: {made: {secret: true}}
          - id: uses
            run: "echo 'again ${{ steps.writes.outputs.made }}'"
            expect: [{stdout: again}]
          - id: fails
            run: "echo \\"error: bad token $DEPLOY_SETTING\\" >&2; echo ${{ inputs.pin }}; exit 3"
            max_attempts: 2
    """)
    result = cli("run", plan, "--json", "--input", f"pin={pin}")
    assert result.code in (1, 75)
    assert [s["verdict"] for s in cli.ledger()["steps"]] == ["unverified", "unverified", "passed", "failed"]
    said = [result.out.encode(), result.err.encode()]
    for args in (
        ("show", "last"),
        ("events", "last"),
        ("events", "last", "--json"),
        ("ledger", "last", "--json"),
        ("logs", "last"),
    ):
        said.append(cli(*args).out.encode())
    kept = {str(path): path.read_bytes() + path.name.encode() for path in kept_files(cli.home)}
    assert len(kept) > 10
    for dump in (*map(undumped, kept.values()), *map(undumped, said)):
        assert token.encode().hex() not in dump
        assert found_in_env.encode().hex() not in dump
    for secret in (token, found_in_env, pin, made):
        for form, needle in forms(secret).items():
            assert not [name for name, data in kept.items() if needle in data], f"{form} is kept"
            assert not any(needle in text for text in said), f"{form} is shown"
    found = [p for p in result.payloads("secret.found") if p["stepId"] == "writes"]
    assert {name for p in found for name in p["names"]} >= {"SERVICE_API_TOKEN"}
    assert "[redacted]" in cli("logs", "last", "prints").out


def test_no_runtime_lets_a_secret_out_in_any_form(cli: Cli, repo: Path) -> None:
    """Shell, Python and agent steps that print, raise, tell progress, write, hand over and name files after secrets:
    one that was registered, one that only looks like a secret. Handlers, gates and operators' words count too."""
    known = "kn0wn/" + secrets.token_hex(8) + "+'\" ä" + secrets.token_hex(8)
    unknown = "ghp" + "_" + secrets.token_hex(18)
    metrics = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    metrics.bind(("127.0.0.1", 0))
    cli.env |= {
        "DEPLOY_SETTING": known,
        "SOMETHING": unknown,
        "RECOUP_STATSD": f"127.0.0.1:{metrics.getsockname()[1]}",
        "RECOUP_STATSD_FLAVOUR": "datadog",
    }
    (repo / "careless.py").write_text(CARELESS)
    (repo / "agent.sh").write_text(AGENT)
    commit_all(repo, "careless")
    plan = cli.plan("""
        version: 1
        name: careless-everywhere
        workspace: {git: ./repo}
        secrets: [DEPLOY_SETTING]
        defaults: {max_attempts: 2}
        steps:
          - id: shell
            run: |
              printf '%s\\n' "$DEPLOY_SETTING" "$SOMETHING"; echo "see $SOMETHING" > "$RECOUP_PROGRESS"
              printf %s "$DEPLOY_SETTING" > "named-$SOMETHING"
              [ "$RECOUP_ATTEMPT" -gt 1 ] || { echo "error: connection reset by peer for $DEPLOY_SETTING $SOMETHING" >&2; exit 1; }
          - id: python
            python: careless:works
            always: [{run: 'echo "always $DEPLOY_SETTING $SOMETHING"; exit 1'}]
          - id: raises
            python: careless:fails
            rescue: [{run: 'echo "rescue $DEPLOY_SETTING $SOMETHING" >&2; exit 1'}, {run: 'true'}]
          - id: agent
            agent: {cli: bash agent.sh, prompt: Be careless}
            rescue: [{run: 'true'}]
          - {id: gate, approve: Go on?}
          - {id: last, run: 'echo "$DEPLOY_SETTING $SOMETHING" > last.txt'}
    """)
    first = cli("run", plan, "--json")
    assert first.code == 5, first.err
    said_by_operator = f"checked {known} and {unknown}"
    approved = cli("control", "last", "approve", "--reason", said_by_operator, "--json")
    assert approved.code == 0, approved.err
    second = cli("resume", "last", "--json")
    assert second.code == 0, second.err
    forced = cli("mode", "careless-everywhere", "degraded", "--reason", said_by_operator, "--json")
    assert forced.code == 0, forced.err
    said = [text.encode() for done in (first, approved, second, forced) for text in (done.out, done.err)]
    said += [cli("audit", "export").err.encode(), cli("audit", "show", "--json").out.encode()]
    said += packets(metrics)
    for args in (
        ("show",),
        ("report",),
        ("report", "--markdown", "--output", "-"),
        ("report", "--output", "-"),
        ("events",),
        ("events", "--json"),
        ("ledger", "--json"),
        ("logs",),
        ("show", "--json"),
    ):
        said.append(cli(args[0], "last", *args[1:]).out.encode())
    kept = {str(path): path.read_bytes() + path.name.encode() for path in kept_files(cli.home)}
    assert len(kept) > 15
    for form, needle in forms(known).items():
        assert not [name for name, data in kept.items() if needle in data], f"{form} is kept"
        assert not any(needle in text for text in said), f"{form} is shown"
    assert not [name for name, data in kept.items() if unknown.encode() in data]
    assert not any(unknown.encode() in text for text in said)
    assert [step["verdict"] for step in cli.ledger()["steps"]] == [
        *("unverified", "unverified", "recovered", "recovered", "passed", "unverified"),
    ]


def packets(metrics: socket.socket) -> list[bytes]:
    """What was measured, as it was sent."""
    metrics.setblocking(False)
    found: list[bytes] = []
    with metrics, contextlib.suppress(BlockingIOError):
        while True:
            found.append(metrics.recv(65_536))
    assert any(b"task.step.duration_seconds" in packet for packet in found)
    return found


CARELESS = """
import os

import recoup

KNOWN, UNKNOWN = os.environ["DEPLOY_SETTING"], os.environ["SOMETHING"]


def works():
    recoup.progress(f"with {KNOWN} and {UNKNOWN}", 1, 2)
    print(KNOWN, UNKNOWN, repr(KNOWN), KNOWN.encode())
    open(f"python-{UNKNOWN}", "w").write(KNOWN)
    return {"said": "nothing"}


def fails():
    raise recoup.Deterministic(f"cannot use {KNOWN} with {UNKNOWN}")
"""

AGENT = """
echo "{\\"type\\":\\"system\\",\\"subtype\\":\\"init\\",\\"session_id\\":\\"00000000-0000-4000-8000-000000000000\\"}"
echo "working with $DEPLOY_SETTING and $SOMETHING"
echo "error: the service said no to $SOMETHING" >&2
exit 1
"""


def test_private_folders_and_the_database_are_the_owners_alone(cli: Cli, repo: Path) -> None:
    plan = cli.plan(
        "{version: 1, name: modes, workspace: {git: ./repo}, steps: [{id: a, run: 'echo a > a'}]}"
    )
    assert cli("run", plan).code == 0
    run = cli.run_dir(cli("show", "last", "--json").json["runId"])
    for path in (cli.home, run, run / "private", run / "workspaces"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700, path
    for path in (cli.home / "ledger.db", *(p for p in (run / "artifacts").rglob("*") if p.is_file())):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_an_output_that_holds_a_secret_must_be_declared(cli: Cli) -> None:
    cli.env["API_TOKEN"] = "tok-" + secrets.token_hex(12)
    plan = cli.plan("""
        version: 1
        name: leak
        steps: [{id: a, run: 'echo "t=$API_TOKEN" >> $RECOUP_OUTPUT'}]
    """)
    result = cli("run", plan, "--json")
    assert (result.code, result.document["failureKind"]) == (1, "secret_undeclared")
    assert "secret: true" in result.document["reason"]


def test_an_input_that_holds_a_secret_must_be_declared(cli: Cli) -> None:
    cli.env["API_TOKEN"] = "tok-" + secrets.token_hex(12)
    plan = cli.plan("{version: 1, name: leak, inputs: {t: {}}, steps: [{id: a, run: 'true'}]}")
    result = cli("run", plan, "--input", f"t={cli.env['API_TOKEN']}")
    assert result.code == 3
    assert cli.env["API_TOKEN"] not in result.err
    assert cli("runs", "--json").json == []


def test_a_plan_that_holds_a_secret_can_be_resumed_although_the_ledger_does_not_hold_it(cli: Cli) -> None:
    cli.env["API_TOKEN"] = "tok-" + secrets.token_hex(12)
    plan = cli.plan(f"""
        version: 1
        name: hardcoded
        steps:
          - id: a
            run: |
              test "$API_TOKEN" = "{cli.env["API_TOKEN"]}"
              [ "$RECOUP_ATTEMPT" -gt 3 ] || {{ words=(none first second third); echo "connection reset by peer: ${{words[RECOUP_ATTEMPT]}}" >&2; exit 1; }}
    """)
    assert cli("run", plan).code == 75
    assert cli("resume", "last").code == 0
    assert not [p for p in kept_files(cli.home) if cli.env["API_TOKEN"].encode() in p.read_bytes()]


def test_recoups_own_secrets_do_not_reach_steps(cli: Cli) -> None:
    cli.env |= {"RECOUP_KEY": secrets.token_hex(16), "RECOUP_TOKEN": secrets.token_hex(16)}
    plan = cli.plan("{version: 1, name: env, steps: [{id: a, run: 'env > env.txt'}]}")
    assert cli("run", plan).code == 0
    seen = (cli.folder / "env.txt").read_text()
    assert "RECOUP_KEY" not in seen
    assert "RECOUP_TOKEN" not in seen
    for name in (
        "RECOUP_RUN_ID",
        "RECOUP_STEP_ID=a",
        "RECOUP_ATTEMPT=1",
        "RECOUP_IDEMPOTENCY_KEY",
        "RECOUP_OUTPUT",
    ):
        assert name in seen
    assert os.environ.get("RECOUP_KEY") is None
