"""By the real commands: what a step sees is what was written, and no command shows it."""

from __future__ import annotations

from pathlib import Path

from tests.scenario.conftest import Cli, kill, wait_for

URL = "postgres://" + "user:" + "pass" + "@localhost:5432/foobar"
ASSIGNED = "Tr0ub4dor" + "3xyz"
LISTED = "def f(private_" + "key: ed25519.Ed25519PrivateKey, a: int) -> None: ..."
INTEGRITY = (
    "sha512-"
    + "EqrwAbCdEfGhIjKlMnOpQrStUvWxYz01"
    + "23456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRST=="
)

PLAN = f"""
version: 1
name: lengths
inputs: {{url: {{required: true}}}}
steps:
  - id: a
    run: |
      want="{URL}"; echo "plan ${{#want}}" >> seen
      DB_PASSWORD={ASSIGNED}; echo "assigned ${{#DB_PASSWORD}}" >> seen
      want="{INTEGRITY}"; echo "integrity ${{#want}}" >> seen
      given=${{{{ inputs.url }}}}; echo "input ${{#given}}" >> seen
      echo "conn={URL}" >> "$RECOUP_OUTPUT"
      echo "{URL}"
  - id: gate
    approve: {{message: "Go on with ${{{{ inputs.url }}}}?"}}
  - id: b
    run: [bash, -c, 'echo "listed ${{#1}} output ${{#2}}" >> seen; test ! -e hold || {{ touch held; exec sleep 600; }}',
          x, "{LISTED}", "${{{{ steps.a.outputs.conn }}}}"]
"""
FIRST = [
    f"plan {len(URL)}",
    f"assigned {len(ASSIGNED)}",
    f"integrity {len(INTEGRITY)}",
    f"input {len(URL)}",
]
LAST = f"listed {len(LISTED)} output {len(URL)}"


def seen(cli: Cli) -> list[str]:
    return (cli.folder / "seen").read_text().splitlines()


def shown(cli: Cli, run: str) -> str:
    """All that the commands say about it."""
    words = [
        ("show", run),
        ("events", run),
        ("events", run, "--json"),
        ("logs", run),
        ("ledger", run, "--json"),
    ]
    report = str(cli.folder / "report.html")
    results = [cli(*args) for args in (*words, ("runs", "--json"), ("report", run, "--output", report))]
    pages = [Path(report).read_text()] if Path(report).exists() else []
    return "".join([*(result.out + result.err for result in results), *pages])


def must_be_hidden(cli: Cli, run: str) -> None:
    text = shown(cli, run)
    assert "[redacted]" in text
    for original in (URL, ASSIGNED, LISTED):
        assert original not in text
        for path in cli.home.rglob("*"):
            if path.is_file() and "private" not in path.relative_to(cli.home).parts:
                assert original.encode() not in path.read_bytes(), path


def test_a_run_with_a_gate_that_is_killed_and_resumed_gets_what_was_written(cli: Cli) -> None:
    plan = cli.plan(PLAN)
    waiting = cli("run", plan, "--json", "--input", f"url={URL}")
    run = str(waiting.document["runId"])
    assert waiting.document["waitingFor"] == "approval"
    assert seen(cli) == FIRST
    (cli.folder / "hold").touch()
    assert cli("control", run, "approve", "--reason", "fine").code == 0
    driver = cli.start("resume", run)
    wait_for(cli.folder / "held")
    kill(driver)
    (cli.folder / "hold").unlink()
    resumed = cli("resume", run, "--json")
    assert resumed.document["status"] == "succeeded", resumed.err
    assert seen(cli) == [*FIRST, LAST, LAST]
    must_be_hidden(cli, run)


def test_a_submitted_run_and_one_that_reuses_it_get_what_was_written(cli: Cli) -> None:
    plan = cli.plan(PLAN.replace("  - id: gate\n", "  - id: gate\n    when: '0'\n"))
    run = str(cli("submit", plan, "--json", "--input", f"url={URL}").json["runId"])
    worked = cli("worker", "--until-idle")
    assert worked.code == 0, worked.err
    assert seen(cli) == [*FIRST, LAST]
    must_be_hidden(cli, run)
    again = cli("run", plan, "--json", "--input", f"url={URL}", "--reuse", run)
    assert again.document["status"] == "succeeded", again.err
    assert seen(cli) == [*FIRST, LAST, *FIRST, LAST]


def test_a_value_that_a_field_must_hold_is_masked_like_any_other(cli: Cli) -> None:
    signs = "pa.ss-w" + "+ord/(1)@x"
    plan = cli.plan(f"""
        version: 1
        name: held
        secrets: [SIGNS]
        steps:
          - id: a
            browser: {{goto: "http://127.0.0.1:1/"}}
            max_attempts: 1
            expect:
              - value: {{label: Connection, is: "{URL}"}}
              - value: {{label: Word, is: "{signs}"}}
    """)
    cli.env["SIGNS"] = signs
    assert cli("submit", plan).code == 0
    password = URL.split("@")[0].rpartition(":")[2]
    ledger = b"".join(path.read_bytes() for path in cli.home.glob("ledger.db*"))
    events = cli("events", "last", "--json").out
    escaped = "".join(f"\\{sign}" if sign in ".+()" else sign for sign in signs)
    for shown in (password, signs, escaped, escaped.replace("\\", "\\\\")):
        assert shown not in events
        assert shown.encode() not in ledger
    checked = cli("check", plan).out
    assert "steps[0].expect[0].value.is (line 10)" in checked
    assert "steps[0].expect[1].value.is (line 11): the value of SIGNS" in checked


def test_check_names_the_values_that_records_will_mask(cli: Cli) -> None:
    plan = cli.plan(f"""
        version: 1
        name: notes
        steps:
          - id: a
            run: |
              psql {URL}
          - id: b
            run: [echo, plain, "{LISTED}"]
            env:
              DB_PASSWORD: {ASSIGNED}
    """)
    checked = cli("check", plan)
    assert checked.code == 0
    note = "steps[0].run (line 6): a value that looks like a URL with a password will be masked in records"
    assert f"note: {note}; the step still gets the original" in checked.out
    document = cli("check", plan, "--json").json
    where = [(one["where"], one["line"]) for one in document["masked"]]
    assert where == [("steps[0].run", 6), ("steps[1].run[2]", 9), ("steps[1].env.DB_PASSWORD", 11)]
    assert all(original not in checked.out for original in (URL, ASSIGNED, LISTED))
    clean = cli.plan("{version: 1, name: x, steps: [{id: a, run: 'true'}]}", "clean.yaml")
    assert cli("check", clean, "--json").json["masked"] == []


def test_check_shows_steps_as_records_do_and_says_so(cli: Cli) -> None:
    address = "https://" + "bob:" + "hunter2xyz" + "@127.0.0.1:1/"
    token = "ghp" + "_" + "a1B2c3D4e5" * 3 + "f6G7h8"
    plan = cli.plan(f"""
        version: 1
        name: shown
        steps:
          - id: a
            browser: {{goto: "{address}"}}
          - id: b
            browser: {{fill: {{label: "Key {token}", value: "{token}"}}}}
            expect:
              - visible: {{name: "{token}"}}
              - title: "{token}"
    """)
    checked = cli("check", plan)
    assert token not in checked.out and address not in checked.out
    assert "a: goto https://" in checked.out and "b: fill label 'Key [redacted]'" in checked.out
    assert (
        "note: the steps above are shown as records will show them; what is executed is the original"
        in checked.out
    )
    where = [one["where"] for one in cli("check", plan, "--json").json["masked"]]
    assert where == [
        "steps[0].browser.goto",
        "steps[1].browser.fill.label",
        "steps[1].browser.fill.value",
        "steps[1].expect[0].visible.name",
        "steps[1].expect[1].title",
    ]
