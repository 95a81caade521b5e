"""What is executed is what was written: records are redacted, steps get the original, byte for byte."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shlex
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.integration.gateway_house import gateway
from tests.integration.test_depot_moves import Machine

from recoup.app import App, open_app
from recoup.documents.plan_file import parse_plan, plan_from_data
from recoup.engine.originals import Originals
from recoup.engine.world import Watcher
from recoup.errors import InvalidPlan, NotFound, SettingsError, UsageError
from recoup.fleet.linked import Reusing
from recoup.fleet.queued import Queued
from recoup.mcp.ledger_desk import LedgerDesk
from recoup.model.events import AttemptFinished
from recoup.model.plan import Plan
from recoup.model.run import RunState
from recoup.operations.recording import preview, record
from recoup.operations.submission import SubmitRequest, enqueue, retry
from recoup.redaction.registration import environment_redactor
from recoup.settings import read_settings
from recoup.testing.postgres import PostgresServer

URL = "postgres://" + "user:" + "pass" + "@localhost:5432/foobar"
INTEGRITY = (
    "sha512-"
    + "EqrwAbCdEfGhIjKlMnOpQrStUvWxYz01"
    + "23456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRST=="
)
ASSIGNED = "DB_" + "PASSWORD=" + "Tr0ub4dor" + "3xyz"
BEARER = "Authorization: " + "Bearer " + "0123456789abcdef" * 2
PEM = "-----BEGIN " + "RSA PRIVATE KEY-----\nMIIEow\nAbCd\n-----END " + "RSA PRIVATE KEY-----"
TOKEN = "ghp" + "_" + "a1B2c3D4e5" * 3 + "f6G7h8"
SEEDS = (URL, INTEGRITY, ASSIGNED, BEARER, PEM, TOKEN)

FUNCTION = """
from pathlib import Path

def see(text, name):
    Path(name).write_bytes(text.encode())
    return {"value": text, "nested": {"list": [text, 1, None], "password": text}}

def compare(value, nested, text):
    assert value == text, "the output arrived changed"
    assert nested == {"list": [text, 1, None], "password": text}, "the inside of the output arrived changed"
"""
AGENT = '#!/bin/bash\nfor last; do :; done; printf %s "$last" > agent\n'


def environ(home: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {**kept, "RECOUP_HOME": str(home)}


def opened(home: Path) -> Any:
    return open_app(read_settings(environ(home), home.parent), environ(home))


def own_folder(home: Path) -> Path:
    """Of the only run, whose plan came as text."""
    (folder,) = home.glob("runs/*/work")
    return folder


async def carried_out(app: App, plan: Plan, reuse: Reusing | None = None, **inputs: str) -> RunState:
    run_id = await record(app, plan, inputs, None, reuse)
    return await app.driving.drive(run_id, Watcher())


def files_outside_private(home: Path) -> dict[Path, bytes]:
    return {
        path: path.read_bytes()
        for path in home.rglob("*")
        if path.is_file() and "private" not in path.relative_to(home).parts
    }


def readable(text: str) -> bool:
    return "\0" not in text and "${{" not in text and "$${{" not in text


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
written = st.one_of(
    texts, st.builds(lambda before, seed, after: before + seed + after, texts, st.sampled_from(SEEDS), texts)
).filter(readable)


def every_form(text: str) -> list[dict[str, Any]]:
    """The same text in every place of a plan from which a program gets it."""
    return [
        {"id": "script", "run": f"printf %s {shlex.quote(text)} > script"},
        {"id": "listed", "run": ["bash", "-c", 'printf %s "$1" > listed', "x", text]},
        {"id": "env", "run": 'printf %s "$SOME_PASSWORD" > env', "env": {"SOME_PASSWORD": text}},
        {"id": "python", "python": "seen:see", "with": {"text": text, "name": "python"}},
        {"id": "input", "run": 'printf %s "$1" > input', "env": {}, "when": "yes"},
        {"id": "prompt", "agent": {"cli": "./agent.sh", "prompt": f"x{text}x"}},
        {
            "id": "output",
            "run": ["bash", "-c", 'printf %s "$1" > output', "x", "${{ steps.python.outputs.value }}"],
        },
        {
            "id": "nested",
            "python": "seen:compare",
            "with": {
                "value": "${{ steps.python.outputs.value }}",
                "nested": "${{ steps.python.outputs.nested }}",
                "text": "${{ inputs.password }}",
            },
        },
    ]


def plan_with(folder: Path, text: str) -> Plan:
    steps = every_form(text)
    steps[4] = {"id": "input", "run": "printf %s ${{ inputs.password }} > input"}
    (folder / "seen.py").write_text(FUNCTION)
    (folder / "agent.sh").write_text(AGENT)
    (folder / "agent.sh").chmod(0o755)
    data = {"version": 1, "name": "seen", "inputs": {"password": {"required": True}}, "steps": steps}
    return plan_from_data(data, "plan", folder)


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(written)
@example("a " + URL + " b")
@example(INTEGRITY)
@example("x\n" + ASSIGNED + "\nüñí\U0001f600")
@example(PEM)
@example("curl -H '" + BEARER + "'")
@example(TOKEN)
@example("Tr0ub4dor" + "3xyz99")
def test_a_step_sees_every_text_as_it_was_written_and_records_do_not_show_it(text: str) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder, home = Path(place, "work"), Path(place, "home")
        folder.mkdir()
        redactor = environment_redactor({})
        masked = bool(redactor.masked_in(text))
        plan = plan_with(folder, text)

        async def story() -> RunState:
            async with opened(home) as app:
                return await carried_out(app, plan, password=text)

        state = asyncio.run(story())
        assert state.status == "succeeded", state.reason
        for name in ("script", "listed", "env", "python", "input", "output"):
            assert (folder / name).read_bytes() == text.encode(), name
        assert (folder / "agent").read_bytes() == f"x{text}x".encode()
        assert state.submission.plan_redacted or not masked
        if masked:
            forms = {text.encode(), msgspec.json.encode(text)[1:-1], json.dumps(text)[1:-1].encode()}
            leaks = [
                str(path)
                for path, data in files_outside_private(home).items()
                for form in forms
                if form in data
            ]
            assert not leaks


# Submission by every edge


PLAN = f"""
version: 1
name: edges
inputs: {{url: {{required: true}}}}
steps:
  - id: a
    run: |
      want="{URL}"; printf %s "$want" > plan.seen
      printf %s ${{{{ inputs.url }}}} > input.seen
      echo "conn={URL}" >> "$RECOUP_OUTPUT"
  - id: b
    run: printf %s ${{{{ steps.a.outputs.conn }}}} > output.seen
"""


def seen(folder: Path) -> list[str]:
    return [(folder / f"{name}.seen").read_text() for name in ("plan", "input", "output")]


async def worked(app: App) -> None:
    """As a worker would: every run that waits."""
    for row in (await app.ledger.runs(limit=10)).rows:
        if row.status == "queued":
            await app.driving.drive(row.run_id, Watcher())


async def test_a_run_that_an_agent_submits_over_mcp_gets_what_was_written(tmp_path: Path) -> None:
    async with opened(tmp_path / "home") as app:
        await LedgerDesk(app, "me").submit(SubmitRequest(plan=PLAN, inputs={"url": URL}, queue="nobody"))
        await worked(app)
    assert seen(own_folder(tmp_path / "home")) == [URL] * 3


@pytest.mark.parametrize("by_path", [False, True])
def test_a_run_that_is_submitted_over_http_gets_what_was_written(tmp_path: Path, by_path: bool) -> None:
    home, folder = tmp_path / "home", tmp_path / "work"
    folder.mkdir()
    (folder / "plan.yaml").write_text(PLAN)
    words = ("--plans", str(folder)) if by_path else ()
    with gateway(home, *words) as served, served.client("operator") as client:
        body: dict[str, Any] = {"planPath": str(folder / "plan.yaml")} if by_path else {"plan": PLAN}
        answer = client.post("/api/runs", json={**body, "inputs": {"url": URL}, "queue": "nobody"})
        assert answer.status_code == 201, answer.text
        run = f"/api/runs/{answer.json()['runId']}"
        shown = "".join(client.get(path).text for path in (run, f"{run}/events", f"{run}/steps"))
    assert "[redacted]" in shown and URL not in shown

    async def work() -> None:
        async with opened(home) as app:
            await worked(app)

    asyncio.run(work())
    assert seen(folder if by_path else own_folder(home)) == [URL] * 3


def test_a_request_that_records_would_mask_cannot_wait_for_an_approval(tmp_path: Path) -> None:
    """Once approved it would be carried out as it was recorded."""
    (tmp_path / "policy.yaml").write_text("approval_required: [submit]\n")
    plan = tmp_path / "plan.yaml"
    plan.write_text("{version: 1, name: asks, inputs: {url: {}}, steps: [{id: a, run: 'true'}]}")
    env = {"RECOUP_POLICY": str(tmp_path / "policy.yaml")}
    with gateway(tmp_path / "home", env=env) as served, served.client("operator") as client:
        bodies = ({"planPath": str(plan), "inputs": {"url": URL}}, {"plan": PLAN, "inputs": {"url": "x"}})
        for body in bodies:
            refused = client.post("/api/runs", json=body)
            assert refused.status_code == 409, refused.text
            assert "cannot be recorded as it is" in refused.text and URL not in refused.text


async def test_recoup_run_in_python_gets_what_was_written(tmp_path: Path) -> None:
    import recoup

    (tmp_path / "plan.yaml").write_text(PLAN)
    result = await recoup.run(tmp_path / "plan.yaml", {"url": URL}, home=tmp_path / "home")
    assert result.status == "succeeded"
    assert seen(tmp_path) == [URL] * 3


# Going on


ONCE = """
version: 1
name: once
inputs: {url: {required: true}}
steps:
  - id: first
    run: |
      echo x >> first.times; printf %s ${{ inputs.url }} > first.seen
      echo "conn=${{ inputs.url }}" >> "$RECOUP_OUTPUT"; echo done > proof
    expect: [{file: proof}]
  - id: second
    run: |
      echo x >> second.times; printf %s ${{ steps.first.outputs.conn }} > second.seen; echo done > proof2
    expect: [{file: proof2}]
"""
OTHER_URL = URL.replace("pass", "word", 1)


def times(folder: Path, name: str) -> int:
    path = folder / f"{name}.times"
    return len(path.read_text().split()) if path.exists() else 0


async def test_equal_values_are_reused_and_different_ones_with_the_same_mask_are_not(tmp_path: Path) -> None:
    redactor = environment_redactor({})
    assert redactor.redact(URL).text == redactor.redact(OTHER_URL).text, "both look alike in records"
    plan = parse_plan(ONCE, "plan", tmp_path)
    async with opened(tmp_path / "home") as app:
        one = await carried_out(app, plan, url=URL)
        same = await carried_out(app, plan, Reusing(one.run_id), url=URL)
        assert [step.reused_from for step in same.steps] == [one.run_id, one.run_id]
        assert (times(tmp_path, "first"), times(tmp_path, "second")) == (1, 1)
        other = await carried_out(app, plan, Reusing(same.run_id), url=OTHER_URL)
    assert [step.reused_from for step in other.steps] == [None, None]
    assert (tmp_path / "first.seen").read_text() == (tmp_path / "second.seen").read_text() == OTHER_URL


async def test_a_preview_says_the_same_and_leaves_nothing_behind(tmp_path: Path) -> None:
    plan = parse_plan(ONCE, "plan", tmp_path)
    async with opened(tmp_path / "home") as app:
        one = await carried_out(app, plan, url=URL)
        before = files_outside_private(tmp_path / "home").keys()
        for url, reused in ((URL, 2), (OTHER_URL, 0)):
            assert (await preview(app, plan, {"url": url}, None, Reusing(one.run_id))).count == reused
        assert files_outside_private(tmp_path / "home").keys() == before


async def test_reused_originals_belong_to_the_new_run(tmp_path: Path) -> None:
    """The run that was reused may be pruned before the new one goes on."""
    plan = parse_plan(ONCE, "plan", tmp_path)
    async with opened(tmp_path / "home") as app:
        one = await carried_out(app, plan, url=URL)
        again = await carried_out(app, plan, Reusing(one.run_id, "second"), url=URL)
        assert again.steps[0].reused_from == one.run_id
        assert again.steps[0].results.private_outputs == ("conn",)
        vault = app.hiding.vault(app.runs.files(again.run_id))
    assert Originals(vault).get("steps.first.outputs", "conn") == URL
    assert (tmp_path / "second.seen").read_text() == URL


async def test_a_retry_of_an_ended_run_gets_what_was_written(tmp_path: Path) -> None:
    text = PLAN + "  - id: c\n    run: test -e fixed\n    max_attempts: 1\n"
    async with opened(tmp_path / "home") as app:
        ended = await carried_out(app, parse_plan(text, "plan", tmp_path), url=URL)
        assert ended.status == "failed"
        for path in tmp_path.glob("*.seen"):
            path.unlink()
        (tmp_path / "fixed").touch()
        await retry(app, ended.run_id)
        await worked(app)
    assert seen(tmp_path) == [URL] * 3


NEVER = """
version: 1
name: pays
inputs: {url: {required: true}}
steps:
  - {id: pay, run: "echo x >> pay.times; true ${{ inputs.url }}", repeat: never}
  - {id: fails, run: "exit 1", max_attempts: 1}
"""


async def test_a_step_that_must_not_be_repeated_is_known_by_its_private_value(tmp_path: Path) -> None:
    plan = parse_plan(NEVER, "plan", tmp_path)
    async with opened(tmp_path / "home") as app:
        one = await carried_out(app, plan, url=URL)
        again = await carried_out(app, plan, Reusing(one.run_id), url=URL)
        assert "pay was done" in again.reason and "must not be repeated" in again.reason
        other = await carried_out(app, plan, Reusing(one.run_id), url=OTHER_URL)
    assert other.steps[0].verdict == "unverified", "with another value it is another deed"
    assert times(tmp_path, "pay") == 2


async def test_a_step_that_an_older_version_ran_with_masked_text_is_not_repeated(tmp_path: Path) -> None:
    """Its record has the digest of the masked text."""
    plan, masked = parse_plan(NEVER, "plan", tmp_path), environment_redactor({}).redact(URL).text
    async with opened(tmp_path / "home") as app:
        old = await carried_out(app, plan, url=masked)
        assert old.submission.private_inputs == ()
        again = await carried_out(app, plan, Reusing(old.run_id), url=URL)
    assert "must not be repeated" in again.reason
    assert times(tmp_path, "pay") == 1


async def test_outputs_that_an_older_version_stored_masked_are_not_reused(tmp_path: Path) -> None:
    """Nobody knows their originals: the step that makes them is performed again."""
    from recoup.engine import passing

    plan = parse_plan(ONCE, "plan", tmp_path)
    patch = pytest.MonkeyPatch()
    async with opened(tmp_path / "home") as app:
        with patch.context() as older:
            older.setattr(passing, "private_names", lambda *_: None)
            one = await carried_out(app, parse_plan(ONCE, "plan", tmp_path), url=URL)
        assert one.steps[0].results.private_outputs is None
        reuse = await preview(app, plan, {"url": URL}, None, Reusing(one.run_id))
    assert reuse.count == 0
    assert "its original was not kept" in reuse.steps[0].reason


async def test_what_a_gate_asks_shows_the_masked_value(tmp_path: Path) -> None:
    text = """
version: 1
name: gated
inputs: {password: {required: true}}
steps:
  - {id: ask, approve: {message: "Use ${{ inputs.password }}?"}}
  - {id: use, run: "printf %s ${{ inputs.password }} > input.seen"}
"""
    word = "Tr0ub4dor" + "3xyz99"
    async with opened(tmp_path / "home") as app:
        waiting = await carried_out(app, parse_plan(text, "plan", tmp_path), password=word)
        assert waiting.hold.waiting_for == "approval"
        assert "[redacted]?" in waiting.reason and word not in waiting.reason


RETRIED = f"""
version: 1
name: retried
objective: Load {URL}
steps:
  - id: a
    title: Into {URL}
    run: |
      true "{URL}"
      if test -z "$RECOUP_RETRY_CONTEXT"; then echo "connection reset by peer"; exit 1; fi
      cp "$RECOUP_RETRY_CONTEXT" context.json
"""


async def test_a_retry_is_told_the_plans_own_words_and_people_the_masked_ones(tmp_path: Path) -> None:
    async with opened(tmp_path / "home") as app:
        state = await carried_out(app, parse_plan(RETRIED, "plan", tmp_path))
    assert state.status == "succeeded"
    told = json.loads((tmp_path / "context.json").read_text())
    assert told["objective"] == f"Load {URL}" and told["title"] == f"Into {URL}"
    assert URL in told["instructions"]
    shown = next((tmp_path / "home").rglob("artifacts/state/retry_context/*.json")).read_text()
    assert "[redacted]" in shown and URL not in shown


# Other machines


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
async def test_another_machine_gets_the_originals_through_the_depot(
    tmp_path: Path, database: str, request: pytest.FixtureRequest
) -> None:
    (tmp_path / "shared").mkdir()
    shared = {}
    if database == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        shared = {"RECOUP_DATABASE": server.prepared_database(), "RECOUP_EVIDENCE": ""}
    a, b = Machine(tmp_path, "a", **shared), Machine(tmp_path, "b", **shared)
    run_id = await a.submit(parse_plan(PLAN, "plan", tmp_path), url=URL)

    def halt(_app: App, driver: Any, event: Any) -> None:
        if isinstance(event.payload, AttemptFinished):
            driver.interrupt("another machine goes on")

    await a.drive(run_id, halt)
    a.vanish()
    assert (await b.drive(run_id)).status == "succeeded"
    assert seen(tmp_path) == [URL] * 3


async def test_a_machine_without_the_originals_refuses_and_executes_nothing(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    a, b = Machine(tmp_path, "a", key=None), Machine(tmp_path, "b", key=None)
    made = "steps: [{id: a, run: 'echo \"conn=$(cat url)\" >> \"$RECOUP_OUTPUT\"'}, {id: b, run: [touch, '${{ steps.a.outputs.conn }}']}]"
    (tmp_path / "url").write_text(URL)
    plain = parse_plan(f"{{version: 1, name: made, {made}}}", "plan", tmp_path)
    for plan, inputs in ((parse_plan(PLAN, "plan", tmp_path), {"url": URL}), (plain, {})):
        run_id = await a.submit(plan, **inputs)

        def halt(_app: App, driver: Any, event: Any) -> None:
            if isinstance(event.payload, AttemptFinished):
                driver.interrupt("another machine tries")

        if not inputs:
            await a.drive(run_id, halt)
        before = sorted(path.name for path in tmp_path.iterdir())
        with pytest.raises((SettingsError, NotFound), match=r"redacted|RECOUP_KEY|depot"):
            await b.drive(run_id)
        assert sorted(path.name for path in tmp_path.iterdir() if path.name != "b") == [
            n for n in before if n != "b"
        ]
        if not inputs:
            # The machine that has them goes on, though nothing in the plan promised that there would be any.
            await a.drive(run_id, halt)


async def test_masked_text_is_refused_for_the_fleet_without_a_key(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    async with Machine(tmp_path, "a", key=None).open() as app:
        for text, inputs in ((PLAN, {"url": "x"}), (ONCE, {"url": URL})):
            plan = parse_plan(text, "plan", tmp_path)
            with pytest.raises(SettingsError, match="records show redacted"):
                await enqueue(app, plan, inputs, None, Queued(queue="any"))


# Digests, limits, names, policies


async def test_a_private_value_cannot_be_guessed_from_a_recorded_digest(tmp_path: Path) -> None:
    """The same run with another key has other digests; a run without private values has the same."""
    digests: dict[str, set[str | None]] = {"private": set(), "plain": set()}
    for name, home in itertools.product(digests, ("one", "two")):
        async with opened(tmp_path / home) as app:
            value = URL if name == "private" else "ordinary"
            state = await carried_out(app, parse_plan(ONCE, "plan", tmp_path), url=value)
            digests[name].add(state.steps[0].beginning.args_digest)
    assert len(digests["private"]) == 2
    assert len(digests["plain"]) == 1


async def test_private_inputs_are_bounded(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text("plan_bytes_max: 4096\n")
    env = {**environ(tmp_path / "home"), "RECOUP_POLICY": str(tmp_path / "policy.yaml")}
    async with open_app(read_settings(env, tmp_path), env) as app:
        plan = parse_plan(ONCE, "plan", tmp_path)
        with pytest.raises(UsageError, match="plan_bytes_max"):
            await record(app, plan, {"url": f"{URL} " + "x" * 5000}, None)
        assert not list((tmp_path / "home").glob("runs/*"))


async def test_names_that_records_would_mask_are_refused(tmp_path: Path) -> None:
    async with opened(tmp_path / "home") as app:
        data = {"version": 1, "name": "n", "inputs": {TOKEN: {}}, "steps": [{"id": "a", "run": "true"}]}
        with pytest.raises(InvalidPlan, match="would be masked in records"):
            await record(app, plan_from_data(data, "plan", tmp_path), {}, None)
        data = {
            "version": 1,
            "name": "n",
            "steps": [{"id": "a", "run": f'echo {TOKEN}=x >> "$RECOUP_OUTPUT"'}],
        }
        state = await carried_out(app, plan_from_data(data, "plan", tmp_path))
        assert state.status == "failed" and TOKEN not in state.reason


async def test_an_input_that_is_not_text_is_refused_in_words(tmp_path: Path) -> None:
    async with opened(tmp_path / "home") as app:
        with pytest.raises(InvalidPlan, match="not valid UTF-8"):
            await record(app, parse_plan(ONCE, "plan", tmp_path), {"url": "a\udcffb"}, None)


async def test_a_policy_that_records_would_mask_is_refused(tmp_path: Path) -> None:
    """Drivers follow the recorded policy: a masked rule would match nothing."""
    policy = {"text_rules": [{"words": f"cannot reach {URL}", "class": "transient_runtime"}]}
    (tmp_path / "policy.json").write_text(json.dumps(policy))
    env = {**environ(tmp_path / "home"), "RECOUP_POLICY": str(tmp_path / "policy.json")}
    async with open_app(read_settings(env, tmp_path), env) as app:
        with pytest.raises(UsageError, match="text_rules") as refused:
            await record(app, parse_plan(ONCE, "plan", tmp_path), {"url": "x"}, None)
    assert URL not in str(refused.value)


@given(st.dictionaries(st.text(max_size=8), written, max_size=4), st.dictionaries(st.text(max_size=8), texts))
@settings(max_examples=200, deadline=None)
def test_whatever_seal_changes_is_named(values: dict[str, str], around: dict[str, str]) -> None:
    """In any event: what else it holds decides how closely `seal` looks."""
    redactor = environment_redactor({})
    named = {path[:1] for path in redactor.masked_in(values)}
    fact = AttemptFinished(
        step_id="a", step_index=0, attempt=1, verdict="passed", duration_ms=1, outputs=values,
        changed_files=tuple(around.values()), reason=BEARER,
    )  # fmt: skip
    stored = msgspec.json.decode(redactor.seal(fact).data)["outputs"]
    changed = {(name,) for name, value in values.items() if stored.get(name) != value}
    assert changed <= named or () in named
