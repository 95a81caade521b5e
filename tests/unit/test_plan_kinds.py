"""The kinds of step and the handlers of a step, as plan files write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from recoup.documents.plan_file import parse_plan, plan_from_data
from recoup.errors import InvalidPlan
from recoup.kernel.canonical import digest
from recoup.model.plan import (
    AgentAction,
    AgentSession,
    ApproveAction,
    FileCheck,
    Handler,
    JsonCheck,
    Plan,
    PythonAction,
    Repeat,
    RunAction,
    Step,
)

FOLDER = "/plans"
HANDLERS = ("rescue", "on_empty", "always")
NOT_FILLED_IN = "`${{ … }}` is not filled in here: write the text itself, or use it in `run`, `with`, "
NO_DIFF = "nothing is known about changes without a workspace: add `workspace: {git: .}` to the plan"
SENSELESS = "makes no sense where a person is asked: remove it"
Problems = list[tuple[int | None, str, str]]

KINDS = """\
version: 1
name: kinds
inputs: {customer: {required: true}, pin: {secret: true}}
steps:
  - id: fetch
    run: ./fetch.sh
    outputs: {count: {json: out.json, path: count}}
    rescue:
      - run: cp backup.json out.json
        title: Take the old ones
        env: {CUSTOMER: "${{ inputs.customer }}", PIN: "${{ inputs.pin }}"}
        expect: [{file: out.json}, {json: out.json, path: error, equals: null}]
        timeout: 5m
      - python: mirror:fetch
        with: {into: out.json, tries: null}
    on_empty:
      - agent: {cli: codex, prompt: "Ask ${{ inputs.customer }}"}
    always: [{run: [rm, -f, lock, "${{ inputs.customer }}"]}]
  - id: total
    python: invoices.totals:Sums.compute
    with:
      count: ${{ steps.fetch.outputs.count }}
      pin: ${{ inputs.pin }}
      nested: {list: [1, 1.50, true, null, 0755], none: null, empty: {}}
  - {id: plain, python: "m:f"}
  - id: fix
    agent:
      cli: my-agent --model 'large one' {prompt}
      prompt: Fix it for ${{ inputs.customer }}, \\${{ not a reference }}
      args: [--turns, 5, "${{ inputs.customer }}"]
      resume: session
    env: {PIN: "${{ inputs.pin }}"}
    repeat: never
  - {id: ask, agent: {cli: claude, prompt: Make the tests pass}}
  - {id: sign-off, title: The bank, approve: {message: "Release ${{ inputs.customer }}?"}}
  - approve: Release to the bank?
    when: ${{ inputs.customer }} == x
"""


def plan_with(steps: str, head: str = "") -> str:
    return f"version: 1\nname: x\n{head}steps:\n{steps}"


def problems_of(text: str, **more: Any) -> Problems:
    with pytest.raises(InvalidPlan) as invalid:
        parse_plan(text, "plan.yaml", FOLDER, **more)
    return [(p.line, p.where, p.message) for p in invalid.value.problems]


def kinds() -> dict[str, Step]:
    return {step.id: step for step in parse_plan(KINDS, "plan.yaml", FOLDER).steps}


def test_a_python_step_calls_a_function_with_any_json_values() -> None:
    steps = kinds()
    assert steps["plain"] == Step(id="plain", action=PythonAction("m:f"))
    assert steps["total"].action == PythonAction(
        "invoices.totals:Sums.compute",
        {
            "count": "${{ steps.fetch.outputs.count }}",
            "pin": "${{ inputs.pin }}",
            "nested": {"list": [1, 1.5, True, None, 755], "none": None, "empty": {}},
        },
    )


def test_an_agent_step_asks_an_agent() -> None:
    steps = kinds()
    assert steps["ask"] == Step(id="ask", action=AgentAction("claude", "Make the tests pass"))
    assert steps["fix"].action == AgentAction(
        "my-agent --model 'large one' {prompt}",
        "Fix it for ${{ inputs.customer }}, \\${{ not a reference }}",
        ("--turns", "5", "${{ inputs.customer }}"),
        AgentSession.SESSION,
    )
    assert (steps["fix"].repeat, steps["ask"].repeat) == (Repeat.NEVER, Repeat.SAFE)


def test_an_approve_step_asks_a_person() -> None:
    steps = kinds()
    release = ApproveAction("Release ${{ inputs.customer }}?")
    assert steps["sign-off"] == Step(id="sign-off", title="The bank", action=release)
    assert steps["step-7"] == Step(
        id="step-7", action=ApproveAction("Release to the bank?"), when="${{ inputs.customer }} == x"
    )


def test_handlers_stand_beside_a_step() -> None:
    step = kinds()["fetch"]
    assert step.rescue == (
        Handler(
            action=RunAction("cp backup.json out.json"),
            title="Take the old ones",
            env={"CUSTOMER": "${{ inputs.customer }}", "PIN": "${{ inputs.pin }}"},
            expect=(FileCheck("out.json"), JsonCheck("out.json", "error", None)),
            timeout_s=300,
        ),
        Handler(action=PythonAction("mirror:fetch", {"into": "out.json", "tries": None})),
    )
    assert step.on_empty == (Handler(action=AgentAction("codex", "Ask ${{ inputs.customer }}")),)
    assert step.always == (Handler(action=RunAction(("rm", "-f", "lock", "${{ inputs.customer }}"))),)


def test_every_kind_is_made_of_plain_values() -> None:
    plan = parse_plan(KINDS, "plan.yaml", FOLDER)
    encoded = msgspec.json.encode(plan)
    assert msgspec.json.decode(encoded, type=Plan) == plan
    assert digest(msgspec.to_builtins(plan)) == digest(json.loads(encoded))


def test_what_is_not_said_is_not_in_the_digest() -> None:
    steps = [
        {"id": "a", "run": "x", "always": [{"python": "m:f"}]},
        {"id": "b", "agent": {"cli": "claude", "prompt": "x"}},
    ]
    plan = plan_from_data({"version": 1, "name": "x", "steps": steps})
    assert json.loads(msgspec.json.encode(plan.steps)) == [
        {
            "id": "a",
            "action": {"type": "run", "command": "x"},
            "always": [{"action": {"type": "python", "target": "m:f"}}],
        },
        {"id": "b", "action": {"type": "agent", "cli": "claude", "prompt": "x"}},
    ]


def test_all_problems_of_all_kinds_are_told_at_once() -> None:
    text = """\
  - agent: claude
  - agent: {cli: "claude '", prompt: " ", resume: yes, model: x}
    with: {a: 1}
  - python: compute
    with: {a-b: 1, big: {n: [99999999999999999999]}}
    timeout: soon
  - python: a:b
    run: x
    agent: {cli: claude, prompt: x}
    tiemout: 5
  - pyhton: a:b
  - browser: {goto: x}
  - approve: {massage: x}
  - title: nothing
"""
    assert problems_of(plan_with(text)) == [
        (
            4,
            "steps[0].agent",
            'must be a mapping such as {cli: claude, prompt: …}, not the text "claude"',
        ),
        (5, "steps[1].agent.cli", "has a quote or a backslash without an end: close it"),
        (5, "steps[1].agent.prompt", "must not be empty"),
        (5, "steps[1].agent.resume", "must be `session` or `fresh`"),
        (
            5,
            "steps[1].agent.model",
            "unknown key: the keys here are `args`, `cli`, `mcp`, `prompt`, `resume`",
        ),
        (6, "steps[1].with", "is for `python` only: use `env` here"),
        (7, "steps[2].python", "must be `module:function`, such as `invoices.totals:compute`"),
        (
            8,
            "steps[2].with.a-b",
            "must be the name of a parameter: letters, digits and `_`, not beginning with a digit",
        ),
        (8, "steps[2].with.big", "holds a number that JSON cannot carry exactly: write it as text"),
        (
            9,
            "steps[2].timeout",
            "must be a duration such as 500ms, 90s, 15m, 1h30m or 2d, the largest unit first",
        ),
        (
            10,
            "steps[3].python",
            "this step has `run` already: keep one of the two, or make two steps of them",
        ),
        (
            12,
            "steps[3].agent",
            "this step has `run` already: keep one of the two, or make two steps of them",
        ),
        (13, "steps[3].tiemout", "unknown key: did you mean `timeout`?"),
        (
            14,
            "steps[4].run",
            "this step says nothing to do: add `run`, `python`, `agent`, `browser` or `approve`",
        ),
        (14, "steps[4].pyhton", "unknown key: did you mean `python`?"),
        (
            15,
            "steps[5].browser.goto",
            "must be a whole address: begin with https:// or http://",
        ),
        (16, "steps[6].approve.message", 'is missing: add it, for example `message: "Release to the bank?"`'),
        (16, "steps[6].approve.massage", "unknown key: did you mean `message`?"),
        (
            17,
            "steps[7].run",
            "this step says nothing to do: add `run`, `python`, `agent`, `browser` or `approve`",
        ),
    ]


@pytest.mark.parametrize(
    "target",
    [
        "f",
        "m:",
        ":f",
        "m:f:g",
        "m.f",
        "a b:c",
        "m:f()",
        ".m:f",
        "m:f.",
        "1m:f",
        "m:${{ inputs.a }}",
        "m/n.py:f",
    ],
)
def test_a_function_is_named_by_its_module_and_its_name(target: str) -> None:
    step = json.dumps({"python": target})
    assert problems_of(plan_with(f"  - {step}\n", "inputs: {a: b}\n")) == [
        (5, "steps[0].python", "must be `module:function`, such as `invoices.totals:compute`")
    ]


@pytest.mark.parametrize(
    ("agent", "where", "message"),
    [
        ({"prompt": "x"}, ".cli", 'is missing: add it, for example `cli: "claude"`'),
        ({"cli": "x"}, ".prompt", 'is missing: add it, for example `prompt: "Make the tests pass"`'),
        ({"cli": "''", "prompt": "x"}, ".cli", "must begin with the program to run"),
        ({"cli": "x\\", "prompt": "x"}, ".cli", "has a quote or a backslash without an end: close it"),
        (
            {"cli": "x", "prompt": "x", "args": "-v"},
            ".args",
            'must be a list (each item on its own line, beginning with `- `), not the text "-v"',
        ),
        ({"cli": "x", "prompt": None}, ".prompt", "has no value: write one, or remove the key"),
        (None, "", "has no value: write one, or remove the key"),
        (
            {"cli": "x", "prompt": "é" * 50_001},
            ".prompt",
            "is longer than 100,000 bytes: put it into a file and let the prompt name that",
        ),
        (
            {"cli": "x", "prompt": "x", "args": ["x" * 131_072]},
            ".args[0]",
            "is longer than 131,071 bytes, more than a process can be given: use a file",
        ),
    ],
    ids=str,
)
def test_each_problem_of_an_agent_is_told_in_plain_words(agent: Any, where: str, message: str) -> None:
    step = json.dumps({"agent": agent}, ensure_ascii=False)
    assert problems_of(plan_with(f"  - {step}\n")) == [(4, f"steps[0].agent{where}", message)]


@pytest.mark.parametrize(
    ("approve", "where", "message"),
    [
        ("' '", "", "must not be empty"),
        ("{message: ''}", ".message", "must not be empty"),
        ("", "", "has no value: write one, or remove the key"),
        ("[a]", "", "must be text, not a list"),
        ("x" * 4_001, "", "is longer than 4,000 characters: ask more briefly"),
    ],
    ids=["blank", "empty", "nothing", "list", "long"],
)
def test_each_problem_of_an_approval_is_told_in_plain_words(approve: str, where: str, message: str) -> None:
    assert problems_of(plan_with(f"  - approve: {approve}\n")) == [(4, f"steps[0].approve{where}", message)]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("expect", []),
        ("outputs", {}),
        ("env", {}),
        ("timeout", "5m"),
        ("idle_timeout", "5m"),
        ("max_attempts", 3),
        ("no_progress_limit", 3),
        ("max_processes", 200),
        ("max_memory", "2GB"),
        ("idle", "output"),
        ("polls", False),
        ("rebuild", "rerun"),
        ("repeat", "safe"),
        ("with", {}),
        *((key, [{"run": "x"}]) for key in HANDLERS),
    ],
)
def test_what_makes_no_sense_where_a_person_is_asked_is_refused(key: str, value: Any) -> None:
    step = json.dumps({"approve": "Go on?", key: value})
    assert problems_of(plan_with(f"  - {step}\n")) == [(4, f"steps[0].{key}", SENSELESS)]


@pytest.mark.parametrize("key", HANDLERS)
@pytest.mark.parametrize(
    ("handlers", "where", "message"),
    [
        ("[]", "", "must not be empty: write at least one"),
        ("", "", "has no value: write one, or remove the key"),
        ("[{run: x}" + ", {run: x}" * 20 + "]", "", "has more than 20 entries: split it up"),
        (
            "{run: x}",
            "",
            "must be a list (each item on its own line, beginning with `- `), not a mapping",
        ),
        ("[./x]", "[0]", 'must be a mapping (lines of `key: value`), not the text "./x"'),
        (
            "[{title: x}]",
            "[0].run",
            "this handler says nothing to do: add `run`, `python`, `agent` or `browser`",
        ),
        (
            "[{approve: x}]",
            "[0].approve",
            "a handler cannot wait for a person: use `run`, `python`, `agent` or `browser`",
        ),
        (
            "[{browser: x}]",
            "[0].browser",
            'must be a mapping such as {goto: https://…} or {click: Approve}, not the text "x"',
        ),
        (
            "[{run: x}, {python: 'm:f', run: x}]",
            "[1].python",
            "this handler has `run` already: keep one of the two, or make two handlers of them",
        ),
        ("[{run: x, with: {a: 1}}]", "[0].with", "is for `python` only: use `env` here"),
        ("[{run: x, outputs: {}}]", "[0].outputs", "a handler has no `outputs`: remove it"),
        ("[{run: x, max_attempts: 2}]", "[0].max_attempts", "a handler has no `max_attempts`: remove it"),
        ("[{run: x, rescue: [{run: x}]}]", "[0].rescue", "a handler has no `rescue`: remove it"),
        ("[{agnt: x, run: x}]", "[0].agnt", "unknown key: did you mean `agent`?"),
        (
            "[{run: x, frobnicate: 1}]",
            "[0].frobnicate",
            "unknown key: the keys here are `env`, `expect`, `run`, `timeout`, `title`",
        ),
        (
            "[{run: x, timeout: 0}]",
            "[0].timeout",
            "must be more than nothing (at least 1ms) and at most 30 days",
        ),
        (
            "[{run: x, env: {RECOUP_OUTPUT: x}}]",
            "[0].env.RECOUP_OUTPUT",
            "is set by Recoup for every step: choose another name",
        ),
        ("[{run: x, expect: [{diff: empty}]}]", "[0].expect[0].diff", NO_DIFF),
        ("[{run: x, expect: [{exit: 256}]}]", "[0].expect[0].exit", "must be at most 255"),
        (
            "[{agent: {cli: x}}]",
            "[0].agent.prompt",
            'is missing: add it, for example `prompt: "Make the tests pass"`',
        ),
        (
            "[{python: 'm:f', with: {a: .nan}}]",
            "[0].with.a",
            "holds a number that JSON cannot carry exactly: write it as text",
        ),
        ("[{run: x, env: {A: }}]", "[0].env.A", "has no value: write one, or remove the key"),
    ],
)
def test_each_problem_of_a_handler_is_told_in_plain_words(
    key: str, handlers: str, where: str, message: str
) -> None:
    text = plan_with(f"  - run: x\n    {key}: {handlers}\n")
    assert problems_of(text) == [(5, f"steps[0].{key}{where}", message)]


WORKS = [
    ("run: 'echo REFERENCE'", "run"),
    ("run: [echo, 'REFERENCE']", "run[1]"),
    ("run: x, env: {A: 'REFERENCE'}", "env.A"),
    ("python: 'm:f', with: {a: 'REFERENCE'}", "with.a"),
    ("python: 'm:f', with: {a: [{b: 'to REFERENCE'}]}", "with.a[0].b"),
    ("agent: {cli: x, prompt: 'REFERENCE'}", "agent.prompt"),
    ("agent: {cli: x, prompt: x, args: ['REFERENCE']}", "agent.args[0]"),
]


@pytest.mark.parametrize("key", ["", *HANDLERS])
@pytest.mark.parametrize(("work", "where"), WORKS)
def test_references_name_inputs_and_earlier_steps_wherever_they_stand(
    key: str, work: str, where: str
) -> None:
    place = f"steps[1].{key}[0].{where}" if key else f"steps[1].{where}"
    for name, wrong in [
        ("inputs.a", None),
        ("steps.first.outputs.a", None),
        ("inputs.aa", "`inputs.aa` is not an input of this plan: did you mean `a`?"),
        (
            "steps.second.outputs.a",
            "`steps.second` is this step itself, which has no outputs yet: name an earlier step",
        ),
        ("steps.third.outputs.a", "`steps.third` comes later in the plan: move it before this step"),
    ]:
        written = work.replace("REFERENCE", f"${{{{ {name} }}}}")
        second = f"run: x, {key}: [{{{written}}}]" if key else written
        steps = f"  - {{id: first, run: x}}\n  - {{id: second, {second}}}\n  - {{id: third, run: x}}\n"
        text = plan_with(steps, "inputs: {a: b}\n")
        if wrong is None:
            assert len(parse_plan(text, "plan.yaml", FOLDER).steps) == 3
        else:
            assert problems_of(text) == [(6, place, wrong)]


@pytest.mark.parametrize("key", ["", *HANDLERS])
@pytest.mark.parametrize(
    ("work", "where"),
    [
        ("agent: {cli: 'REFERENCE', prompt: x}", "agent.cli"),
        ("python: 'm:f', with: {a: {'REFERENCE': 1}}", 'with.a["${{ inputs.a }}"]'),
        ("run: x, title: 'REFERENCE'", "title"),
        (
            "run: x, expect: [{json: a, path: b, equals: {'REFERENCE': 1}}]",
            'expect[0].equals["${{ inputs.a }}"]',
        ),
    ],
)
def test_references_that_would_stay_as_they_stand_are_refused_everywhere(
    key: str, work: str, where: str
) -> None:
    written = work.replace("REFERENCE", "${{ inputs.a }}")
    step = f"run: x, {key}: [{{{written}}}]" if key else written
    [(line, place, message)] = problems_of(plan_with(f"  - {{{step}}}\n", "inputs: {a: b}\n"))
    assert (line, place) == (5, f"steps[0].{key}[0].{where}" if key else f"steps[0].{where}")
    assert message.startswith(NOT_FILLED_IN)


@pytest.mark.parametrize("name", ["inputs.pin", "steps.first.outputs.token"])
@pytest.mark.parametrize(
    ("work", "where", "instead"),
    [
        ("agent: {cli: x, prompt: 'use REFERENCE, REFERENCE'}", "agent.prompt", "pass it through `env`"),
        ("agent: {cli: x, prompt: x, args: [a, 'REFERENCE']}", "agent.args[1]", "pass it through `env`"),
        (
            "run: x, rescue: [{agent: {cli: x, prompt: 'REFERENCE'}}]",
            "rescue[0].agent.prompt",
            "pass it through `env`",
        ),
        ("run: [echo, 'x REFERENCE']", "run[1]", "pass it through `env`, or write the command as one text"),
        (
            "run: x, always: [{run: [curl, 'REFERENCE']}]",
            "always[0].run[1]",
            "pass it through `env`, or write the command as one text",
        ),
        ("approve: 'REFERENCE?'", "approve", "leave it out"),
        ("approve: {message: 'REFERENCE?'}", "approve.message", "leave it out"),
    ],
)
def test_a_secret_must_not_stand_where_others_can_read_it(
    name: str, work: str, where: str, instead: str
) -> None:
    written = work.replace("REFERENCE", f"${{{{ {name} }}}}")
    steps = f"  - {{id: first, run: x, outputs: {{token: {{secret: true}}}}}}\n  - {{{written}}}\n"
    message = f"`{name}` is a secret and must not stand here, where others can read it: {instead}"
    assert problems_of(plan_with(steps, "inputs: {pin: {secret: true}}\n")) == [
        (6, f"steps[1].{where}", message)
    ]
    open_ones = plan_with(steps.replace("secret: true", ""), "inputs: {pin: {secret: false}}\n")
    assert len(parse_plan(open_ones, "plan.yaml", FOLDER).steps) == 2


@pytest.mark.parametrize(
    "work", ["python: 'm:f', with: {a: REFERENCE}", "run: x REFERENCE", "run: x, env: {A: REFERENCE}"]
)
def test_a_secret_may_stand_where_nobody_else_reads(work: str) -> None:
    step = f"  - {{{work.replace('REFERENCE', repr('${{ inputs.pin }}'))}}}\n".replace("x '", "'x ")
    plan = parse_plan(plan_with(step, "inputs: {pin: {secret: true}}\n"), "plan.yaml", FOLDER)
    assert len(plan.steps) == 1


@pytest.mark.parametrize("script", ["echo $(( ${{ inputs.pin }} ))", "cat <<'END'\n${{ inputs.pin }}\nEND"])
def test_a_secret_that_no_variable_could_carry_is_a_problem_at_its_place(script: str) -> None:
    data = {"version": 1, "name": "x", "inputs": {"pin": {"secret": True}}, "steps": [{"run": script}]}
    [(_, where, message)] = problems_of(json.dumps(data))
    assert where == "steps[0].run"
    assert "of this text: inputs.pin is secret and bash expands no variable here" in message


@pytest.mark.parametrize("key", HANDLERS)
@pytest.mark.parametrize(
    ("handler", "where"),
    [
        ({"run": "recoup run plan.yaml"}, "run"),
        ({"run": ["recoup", "run", "plan.yaml"]}, "run"),
        ({"run": "x", "expect": [{"run": "recoup run plan.yaml"}]}, "expect[0].run"),
        ({"agent": {"cli": "recoup run plan.yaml", "prompt": "x"}}, "agent.cli"),
        ({"agent": {"cli": "recoup", "prompt": "x", "args": ["run", "plan.yaml"]}}, "agent.cli"),
    ],
    ids=str,
)
def test_a_plan_that_runs_itself_in_a_handler_is_refused(key: str, handler: Any, where: str) -> None:
    data = {"version": 1, "name": "x", "steps": [{"id": "loop", "run": "x", key: [handler]}]}
    assert problems_of(json.dumps(data), file=Path("/plans/plan.yaml")) == [
        (1, f"steps[0].{key}[0].{where}", "step `loop` runs this plan itself: it would never end")
    ]


def test_diffs_of_handlers_are_known_in_a_workspace() -> None:
    step = "  - {run: x, always: [{run: y, expect: [{diff: empty}]}]}\n"
    plan = parse_plan(plan_with(step, "workspace: {git: .}\n"), "plan.yaml", FOLDER)
    assert len(plan.steps[0].always[0].expect) == 1


def test_a_long_agent_command_is_looked_at_in_no_time() -> None:
    step = json.dumps({"agent": {"cli": "x " * 1_000_000, "prompt": "x"}})
    [(_, where, message)] = problems_of(plan_with(f"  - {step}\n"), file=Path("/plans/plan.yaml"))
    assert (where, message[:32]) == ("steps[0].agent.cli", "is longer than 131,071 bytes, mo")


@pytest.mark.parametrize("name", ["RECOUP_PROGRESS", "RECOUP_VALUE_1"])
def test_variables_that_recoup_sets_itself_are_refused(name: str) -> None:
    assert problems_of(plan_with(f"  - {{run: x, env: {{{name}: y}}}}\n")) == [
        (4, f"steps[0].env.{name}", "is set by Recoup for every step: choose another name")
    ]


@pytest.mark.parametrize(
    ("step", "place", "message"),
    [
        (
            'expect: [{run: python3 -c "from t import add; assert add(1,2)==3"}]',
            'expect[0]["2)==3\\""]',
            "unknown key: quote the text before it: a comma inside { } begins a new key",
        ),
        (
            "outputs: {bundle: {file: dist/a.js}}",
            "outputs.bundle.file",
            "does not say what to take: add `path` beside `json: FILE`, or a `regex`",
        ),
        (
            "outputs: {bundle: {secrt: true}}",
            "outputs.bundle.secrt",
            "unknown key: did you mean `secret`?",
        ),
        (
            "outputs: {bundle: {zzz: 1}}",
            "outputs.bundle.zzz",
            "unknown key: the keys here are `file`, `in`, `json`, `path`, `regex`, `secret`",
        ),
        ("if: a == b", "if", "unknown key: here it is called `when`"),
        (
            "retries: 3",
            "retries",
            "unknown key: here it is called `max_attempts`, the first attempt included; or see `retry`",
        ),
        (
            "needs: [other]",
            "needs",
            "unknown key: steps run in the order in which they are written: remove it",
        ),
        ("register: out", "register", "unknown key: here it is called `outputs`"),
        (
            "env: {A: '${{ secrets.TOKEN }}'}",
            "env.A",
            "line 1, column 1 of this text: `secrets.TOKEN` is not a reference: name the variable under `secrets:` in "
            "the plan and use it in the script, such as `$NAME`",
        ),
    ],
)
def test_what_people_bring_from_elsewhere_is_told_by_its_name_here(
    step: str, place: str, message: str
) -> None:
    [(_, where, words)] = problems_of(plan_with(f"  - {{run: x, {step}}}\n"))
    assert (where, words) == (f"steps[0].{place}", message)
