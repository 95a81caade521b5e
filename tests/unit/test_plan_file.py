"""Plan files become plans, or all their problems at once, with line and path."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from recoup.documents.plan_file import parse_plan, plan_from_data, read_plan
from recoup.errors import InvalidPlan
from recoup.kernel.canonical import digest
from recoup.model.plan import (
    DeclaredOutput,
    DiffCheck,
    ExitCheck,
    FileCheck,
    Input,
    JsonCheck,
    JsonOutput,
    Limits,
    OutputCheck,
    Plan,
    Rebuild,
    RegexOutput,
    Repeat,
    RunAction,
    RunCheck,
    Step,
    StreamName,
    TextMatch,
)
from recoup.model.policy import IdleBy, Policy
from recoup.model.workspace import FolderSource, GitSource
from recoup.shapes.wording import PROBLEMS_MAX

FOLDER = "/plans"
NOT_FILLED_IN = (
    "`${{ … }}` is not filled in here: write the text itself, or use it in `run`, `with`, `prompt`, `args`, "
    "`message`, `browser`, `env`, `expect` or `when`"
)
Problems = list[tuple[int | None, str, str]]

FULL = """\
# yaml-language-server: $schema=plan.schema.json
version: 1
name: invoice-sync
objective: Every invoice of the month is approved
inputs: {customer: {required: true}, month: {default: 2026-11}, pin: {secret: true}, retries: 5, rate: 1.10}
workspace: {git: ., ref: main}
defaults: {timeout: 15m, idle_timeout: 5m, max_attempts: 3, no_progress_limit: 2}
secrets: [API_TOKEN]
steps:
  - id: fetch
    title: Get the invoices
    run: ./fetch.sh ${{ inputs.customer }}
    expect:
      - {file: out/invoices.json}
      - {file: out/error.log, absent: true}
      - {file: out/report.txt, contains: done}
      - {file: out/report.txt, contains: {regex: "total: [0-9]+"}}
      - {stdout: fetched}
      - {stderr: {regex: ^0 warnings$}}
      - {exit: 0}
      - {exit: [0, 3]}
      - {json: out/invoices.json, path: "items[0].name"}
      - {json: out/invoices.json, path: count, equals: 3}
      - {json: out/invoices.json, path: error, equals: null}
      - {run: pytest -q}
      - {run: [test, -s, out/invoices.json]}
      - {diff: nonempty, paths: ["out/**"]}
    outputs:
      count: {json: out/invoices.json, path: count}
      token: {regex: "token=(.*)", in: stderr, secret: true}
      total: {regex: "[0-9]+", file: out/report.txt}
      note: {secret: true}
      other: {}
    env: {PORT: 8080, VERSION: 1.10, MODE: 0755, DEBUG: true, EMPTY: "", NAME: "${{ inputs.customer }}"}
    when: ${{ inputs.month }}
    repeat: never
    timeout: 1h30m
    idle_timeout: 500ms
    idle: activity
    polls: true
    max_attempts: 5
    no_progress_limit: 3
  - run: [echo, "${{ steps.fetch.outputs.count }}", 5, off]
    rebuild: rerun
"""

FULL_PLAN = Plan(
    name="invoice-sync",
    objective="Every invoice of the month is approved",
    inputs={
        "customer": Input(required=True),
        "month": Input(default="2026-11"),
        "pin": Input(secret=True),
        "retries": Input(default="5"),
        "rate": Input(default="1.10"),
    },
    workspace=GitSource(FOLDER, "main"),
    folder=FOLDER,
    defaults=Limits(timeout_s=900, idle_timeout_s=300, max_attempts=3, no_progress_limit=2),
    secrets=("API_TOKEN",),
    steps=(
        Step(
            id="fetch",
            title="Get the invoices",
            action=RunAction("./fetch.sh ${{ inputs.customer }}"),
            expect=(
                FileCheck("out/invoices.json"),
                FileCheck("out/error.log", absent=True),
                FileCheck("out/report.txt", contains=TextMatch(text="done")),
                FileCheck("out/report.txt", contains=TextMatch(regex="total: [0-9]+")),
                OutputCheck(StreamName.STDOUT, TextMatch(text="fetched")),
                OutputCheck(StreamName.STDERR, TextMatch(regex="^0 warnings$")),
                ExitCheck((0,)),
                ExitCheck((0, 3)),
                JsonCheck("out/invoices.json", "items[0].name"),
                JsonCheck("out/invoices.json", "count", 3),
                JsonCheck("out/invoices.json", "error", None),
                RunCheck("pytest -q"),
                RunCheck(("test", "-s", "out/invoices.json")),
                DiffCheck("nonempty", ("out/**",)),
            ),
            outputs={
                "count": JsonOutput("out/invoices.json", "count"),
                "token": RegexOutput("token=(.*)", StreamName.STDERR, secret=True),
                "total": RegexOutput("[0-9]+", file="out/report.txt"),
                "note": DeclaredOutput(secret=True),
                "other": DeclaredOutput(),
            },
            env={
                "PORT": "8080",
                "VERSION": "1.10",
                "MODE": "0755",
                "DEBUG": "true",
                "EMPTY": "",
                "NAME": "${{ inputs.customer }}",
            },
            when="${{ inputs.month }}",
            repeat=Repeat.NEVER,
            limits=Limits(
                timeout_s=5_400,
                idle_timeout_s=0.5,
                max_attempts=5,
                no_progress_limit=3,
                idle=IdleBy.ACTIVITY,
                polls=True,
            ),
        ),
        Step(
            id="step-2",
            action=RunAction(("echo", "${{ steps.fetch.outputs.count }}", "5", "off")),
            rebuild=Rebuild.RERUN,
        ),
    ),
)


def plan_with(steps: str, head: str = "") -> str:
    return f"version: 1\nname: x\n{head}steps:\n{steps}"


def problems_of(text: str | bytes, **more: Any) -> Problems:
    with pytest.raises(InvalidPlan) as invalid:
        parse_plan(text, "plan.yaml", FOLDER, **more)
    return [(p.line, p.where, p.message) for p in invalid.value.problems]


def test_every_key_becomes_its_value() -> None:
    assert parse_plan(FULL, "plan.yaml", FOLDER) == FULL_PLAN


def test_a_plan_is_made_of_plain_values() -> None:
    plan = parse_plan(FULL, "plan.yaml", FOLDER)
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan
    assert digest(msgspec.to_builtins(plan)) == digest(msgspec.to_builtins(FULL_PLAN))


def test_a_plan_and_a_step_may_say_how_much_is_taken() -> None:
    head = "defaults: {max_processes: 200, max_memory: 2GB}\n"
    plan = parse_plan(plan_with("  - {run: x, max_memory: 1.5GiB}\n", head), "plan.yaml", FOLDER)
    assert plan.defaults == Limits(max_processes=200, max_memory_bytes=2 * 10**9)
    assert plan.steps[0].limits == Limits(max_memory_bytes=3 << 29)


@pytest.mark.parametrize(
    ("text", "known"),
    [
        (FULL, "sha256:4742ceba491baef9fd108bc353f232d4f92a18aca247afe96a3dc96128f92b01"),
        (
            "{version: 1, name: x, steps: [{run: true}]}",
            "sha256:16051fb66da285eb1990e7f37511449c0e4ff53362cb29c0e258be2203c6a8ed",
        ),
    ],
    ids=["full", "smallest"],
)
def test_a_plan_of_the_first_version_keeps_its_digest(text: str, known: str) -> None:
    assert digest(msgspec.to_builtins(parse_plan(text, "plan.yaml", FOLDER))) == known


def test_json_and_data_give_the_same_plan_as_yaml() -> None:
    data = yaml.safe_load(FULL)
    data["inputs"]["rate"] = data["steps"][0]["env"]["VERSION"] = "1.10"
    data["steps"][0]["env"]["MODE"] = "0755"
    data["steps"][1]["run"][3] = "off"
    assert parse_plan(json.dumps(data, indent="\t"), "plan.json", FOLDER) == FULL_PLAN
    assert plan_from_data(data, folder=FOLDER) == FULL_PLAN


def test_the_smallest_plan_is_one_step() -> None:
    plan = parse_plan("{version: 1, name: x, steps: [{run: true}]}", "plan.yaml", FOLDER)
    assert plan == Plan(name="x", folder=FOLDER, steps=(Step(id="step-1", action=RunAction("true")),))


def test_words_that_older_yaml_took_for_booleans_stay_text() -> None:
    plan = parse_plan(plan_with("  - {run: off, env: {A: yes, B: on, C: no}}\n"), "plan.yaml", FOLDER)
    assert plan.steps[0].action == RunAction("off")
    assert plan.steps[0].env == {"A": "yes", "B": "on", "C": "no"}


@pytest.mark.parametrize(
    ("written", "source"),
    [
        ("{git: .}", GitSource("/plans")),
        ("{git: ../repo, ref: 1.10}", GitSource("/repo", "1.10")),
        ("{git: /srv/repo, ref: 0012345}", GitSource("/srv/repo", "0012345")),
        ("{folder: site}", FolderSource("/plans/site")),
    ],
)
def test_paths_of_a_workspace_are_taken_from_the_folder_of_the_plan(written: str, source: Any) -> None:
    plan = parse_plan(plan_with("  - run: x\n", f"workspace: {written}\n"), "plan.yaml", FOLDER)
    assert plan.workspace == source


def test_all_problems_are_told_at_once_with_line_and_path() -> None:
    text = """\
version: "1"
nmae: sync
inputs:
  9lives: 1
  pin: {secret: true, default: abc}
  both: {required: true, default: a}
  none:
workspace: {git: ., folder: .}
defaults:
  timeout: 0
  tiemout: 5m
  max_attempts: "3"
secrets: [API-TOKEN]
steps:
  - id: a b
    run: ./x ${{ inputs.missing }}
    expect:
      - {file: x, absent: yes}
      - {jsn: out.json, path: a}
      - {stdout: {regex: "(?=a)b"}}
      - {exit: 256}
      - {file: a, run: b}
      - {url: "**"}
      - x
    outputs: {a: {json: x}, b: {regex: "(a)\\\\1"}, c: 5}
    env: {A-B: 1, RECOUP_OUTPUT: x, C: [1]}
  - id: a
    browser: {goto: x}
    heal: off
  - id: a
    run: ""
    repeat: maybe
    polls: 1
    timeout: 5 minutes
    no_progress_limit: 1
    max_attempts: 1.5
  - title: nothing
  - echo hello
"""
    assert problems_of(text) == [
        (1, "version", "must be 1, the only version of this format that this Recoup reads"),
        (1, "name", 'is missing: add it, for example `name: "invoice-sync"`'),
        (2, "nmae", "unknown key: did you mean `name`?"),
        (
            4,
            "inputs.9lives",
            "must be a name of at most 100 letters, digits, `_` or `-`, beginning with a letter or `_`",
        ),
        (5, "inputs.pin", "a secret has no default: remove `default` and pass the value with --input"),
        (6, "inputs.both", "an input with a default is never missing: keep `required` or `default`"),
        (7, "inputs.none", "has no value: write `{required: true}`, or a default"),
        (8, "workspace", "is two workspaces: keep `git` or `folder`"),
        (10, "defaults.timeout", "must be more than nothing (at least 1ms) and at most 30 days"),
        (11, "defaults.tiemout", "unknown key: did you mean `timeout`?"),
        (12, "defaults.max_attempts", 'must be a whole number, not the text "3": remove the quotes'),
        (
            13,
            "secrets[0]",
            "must be the name of an environment variable: letters, digits and `_`, not beginning with a "
            "digit",
        ),
        (
            15,
            "steps[0].id",
            "must be at most 100 letters, digits, `.`, `_`, `:` or `-`, beginning with a letter or digit",
        ),
        (16, "steps[0].run", "`inputs.missing` is not an input of this plan: add it under `inputs`"),
        (18, "steps[0].expect[0].absent", 'must be `true` or `false`, not the text "yes"'),
        (19, "steps[0].expect[1]", "unknown check `jsn`: did you mean `json`?"),
        (
            20,
            "steps[0].expect[2].stdout.regex",
            "is not a regular expression that can be used: invalid perl operator: "
            "(?= (lookaround and backreferences do not exist in RE2: say it without)",
        ),
        (21, "steps[0].expect[3].exit", "must be at most 255"),
        (22, "steps[0].expect[4]", "holds 2 checks (`file`, `run`): make each an item of the list"),
        (
            23,
            "steps[0].expect[5].url",
            "looks at a page, and no browser step comes before: add one, or name another check",
        ),
        (24, "steps[0].expect[6]", 'must be a mapping such as {file: out.txt}, not the text "x"'),
        (25, "steps[0].outputs.a.path", 'is missing: add it, for example `path: "count"`'),
        (
            25,
            "steps[0].outputs.b.regex",
            "is not a regular expression that can be used: invalid escape sequence: \\1 "
            "(lookaround and backreferences do not exist in RE2: say it without)",
        ),
        (25, "steps[0].outputs.c", "must be a mapping such as {json: out.json, path: count}, not a number"),
        (
            26,
            "steps[0].env.A-B",
            "must be the name of an environment variable: letters, digits and `_`, not beginning "
            "with a digit",
        ),
        (26, "steps[0].env.RECOUP_OUTPUT", "is set by Recoup for every step: choose another name"),
        (26, "steps[0].env.C", "must be text, not a list"),
        (
            28,
            "steps[1].browser.goto",
            "must be a whole address: begin with https:// or http://",
        ),
        (29, "steps[1].heal", "`goto` names no target here, and only targets heal: remove `heal`"),
        (30, "steps[2].id", "id `a` is already used by steps[1] (line 27): ids must differ"),
        (31, "steps[2].run", "must not be empty"),
        (32, "steps[2].repeat", "must be `safe` or `never`"),
        (33, "steps[2].polls", "must be `true` or `false`, not a number"),
        (
            34,
            "steps[2].timeout",
            "must be a duration such as 500ms, 90s, 15m, 1h30m or 2d, the largest unit first",
        ),
        (35, "steps[2].no_progress_limit", "must be at least 2"),
        (36, "steps[2].max_attempts", "must be a whole number, not a number with a fraction"),
        (
            37,
            "steps[3].run",
            "this step says nothing to do: add `run`, `python`, `agent`, `browser` or `approve`",
        ),
        (38, "steps[4]", 'must be a mapping (lines of `key: value`), not the text "echo hello"'),
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", (None, "", "the file is empty: a plan has `version: 1`, `name` and `steps`")),
        ("# only words\n---\n", (None, "", "the file is empty: a plan has `version: 1`, `name` and `steps`")),
        (
            "- run: x\n",
            (
                1,
                "",
                "a plan is a mapping with `version: 1`, `name` and `steps`, not a list or a single value",
            ),
        ),
        (
            "hello",
            (
                1,
                "",
                "a plan is a mapping with `version: 1`, `name` and `steps`, not a list or a single value",
            ),
        ),
        (b"version: 1\nname: caf\xe9\n", (2, "", "this is not UTF-8 text: save the file as UTF-8")),
        ("version: 1\nname: \ud800\n", (2, "", "this is not UTF-8 text: save the file as UTF-8")),
        (
            "version: 1\nname: x\n\tsteps: []\n",
            (3, "", "this line is indented with a tab: YAML wants spaces"),
        ),
        ("version: 1\nname: x\nsteps: []\n", (3, "steps", "a plan needs at least one step: add `- run: …`")),
        (
            "version: 1\nname: x\nsteps: {run: x}\n",
            (3, "steps", "must be a list (each item on its own line, beginning with `- `), not a mapping"),
        ),
        ("version: 1\nname: x\nsteps:\n", (3, "steps", "has no value: write one, or remove the key")),
        (
            "version: 2\nname: x\nsteps: [{run: x}]\n",
            (1, "version", "must be 1, the only version of this format that this Recoup reads"),
        ),
        (
            "version: true\nname: x\nsteps: [{run: x}]\n",
            (1, "version", "must be 1, the only version of this format that this Recoup reads"),
        ),
        (
            "version: 1\nversion: 1\nname: x\nsteps: [{run: x}]\n",
            (2, "version", "this key stands here twice, first on line 1: keep one of the two"),
        ),
        (
            "version: 1\nname: a/b\nsteps: [{run: x}]\n",
            (
                2,
                "name",
                "must be at most 100 letters, digits, `.`, `_` or `-`, beginning with a letter or digit",
            ),
        ),
        (plan_with("  - run: []\n"), (4, "steps[0].run", "must not be empty: write at least one")),
        (plan_with("  - run: ['', a]\n"), (4, "steps[0].run", "must begin with the program to run")),
        (plan_with("  - run: {a: b}\n"), (4, "steps[0].run", "must be text, not a mapping")),
        (
            plan_with("  - run: x\n    id: step-2\n  - run: y\n"),
            (6, "steps[1].id", "id `step-2` is already used by steps[0] (line 5): ids must differ"),
        ),
        (
            plan_with("  - run: x\n    expect: {file: a}\n"),
            (
                5,
                "steps[0].expect",
                "must be a list (each item on its own line, beginning with `- `), not a mapping",
            ),
        ),
        (
            plan_with("  - run: x\n    expect: [{diff: nonempty}]\n"),
            (
                5,
                "steps[0].expect[0].diff",
                "nothing is known about changes without a workspace: add `workspace: {git: .}` to the plan",
            ),
        ),
        (
            plan_with("  - run: x\n    repeat: never\n    rebuild: rerun\n"),
            (
                6,
                "steps[0].rebuild",
                "a step with `repeat: never` cannot be run again after a restore: remove `rebuild`, "
                "or say `repeat: safe`",
            ),
        ),
        (
            plan_with("  - run: x\n    expect: [{diff: empty, paths: [a]}]\n", "workspace: {git: .}\n"),
            (6, "steps[0].expect[0]", "an empty diff has no paths: remove `paths`, or say `diff: nonempty`"),
        ),
        (
            plan_with("  - run: x\n    expect: [{file: a, absent: true, contains: b}]\n"),
            (5, "steps[0].expect[0]", "a file that is absent contains nothing: keep `absent` or `contains`"),
        ),
        (
            plan_with("  - run: x\n    expect: [{json: a, path: a..b}]\n"),
            (5, "steps[0].expect[0].path", "must be the way to a value, such as `count` or `items[0].name`"),
        ),
        (
            plan_with("  - run: x\n    expect: [{json: a, path: b, equals: {c: [9007199254740993]}}]\n"),
            (
                5,
                "steps[0].expect[0].equals",
                "holds a number that JSON cannot carry exactly: compare it as text",
            ),
        ),
        (
            plan_with(f"  - run: x\n    expect: [{{json: a, path: b, equals: {'9' * 300}}}]\n"),
            (
                5,
                "steps[0].expect[0].equals",
                "holds a number that JSON cannot carry exactly: compare it as text",
            ),
        ),
        (
            plan_with(f"  - run: x\n    timeout: {'9' * 300}\n"),
            (5, "steps[0].timeout", "must be more than nothing (at least 1ms) and at most 30 days"),
        ),
        (
            plan_with("  - run: x\n    expect: [{json: a, path: b, equals: .inf}]\n"),
            (
                5,
                "steps[0].expect[0].equals",
                "holds a number that JSON cannot carry exactly: compare it as text",
            ),
        ),
        (
            plan_with("  - run: x\n    outputs: {a: {regex: b, in: stdout, file: c}}\n"),
            (5, "steps[0].outputs.a", "looks in two places: keep `in` or `file`"),
        ),
        (
            plan_with("  - run: x\n    outputs: {a: {regex: b, json: c}}\n"),
            (5, "steps[0].outputs.a", "is found in two ways: keep `json` or `regex`"),
        ),
        (
            plan_with("  - run: x\n    timeout: '90'\n"),
            (5, "steps[0].timeout", "has no unit: write 90s for seconds or 90m for minutes"),
        ),
        (
            plan_with("  - run: x\n    max_attempts: 101\n"),
            (5, "steps[0].max_attempts", "must be at most 100"),
        ),
        (
            plan_with("  - run: x\n    when:\n"),
            (5, "steps[0].when", "has no value: write one, or remove the key"),
        ),
        (
            plan_with("  - run: x\n", "workspace: {ref: main}\n"),
            (
                3,
                "workspace",
                "must have `git: PATH` (a repository to clone) or `folder: PATH` (a folder to copy)",
            ),
        ),
        (
            plan_with("  - run: x\n", "workspace: {git: 'https://example.org/r.git'}\n"),
            (
                3,
                "workspace.git",
                "must be a repository on this machine: clone it first, then name its folder",
            ),
        ),
        (
            plan_with("  - run: x\n", "workspace: {git: ., ref: --upload-pack=x}\n"),
            (3, "workspace.ref", "must not begin with `-`"),
        ),
        (
            plan_with("  - run: x\n", "workspace: {folder: '~nobody-of-that-name/x'}\n"),
            (
                3,
                "workspace.folder",
                "begins with the home folder of somebody unknown here: write the whole path",
            ),
        ),
        (
            plan_with("  - run: x\n", "objective: for ${{ inputs.a }}\n"),
            (3, "objective", NOT_FILLED_IN),
        ),
        (
            plan_with("  - run: x\n", "defaults: {max_memory: lots}\n"),
            (3, "defaults.max_memory", "must be a size such as 512MB, 2GB or 1.5GiB"),
        ),
        (
            plan_with("  - run: x\n    max_processes: 0\n"),
            (5, "steps[0].max_processes", "must be at least 1"),
        ),
        (
            plan_with("  - run: x\n    frobnicate: 1\n"),
            (
                5,
                "steps[0].frobnicate",
                "unknown key: the keys here are `always`, `env`, `expect`, `id`, `idle`, `idle_timeout`, "
                "`max_attempts`, `max_memory`, `max_processes`, `no_progress_limit`, `on_empty`, `outputs`, `polls`, "
                "`rebuild`, "
                "`repeat`, `rescue`, `retry`, `run`, `timeout`, `title`, `when`",
            ),
        ),
    ],
)
def test_each_problem_is_told_in_plain_words(text: str | bytes, problem: tuple[int | None, str, str]) -> None:
    assert problems_of(text) == [problem]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("inputs.custmer", "`inputs.custmer` is not an input of this plan: did you mean `customer`?"),
        ("inputs.zzz", "`inputs.zzz` is not an input of this plan: add it under `inputs`"),
        (
            "steps.second.outputs.a",
            "`steps.second` is this step itself, which has no outputs yet: name an earlier step",
        ),
        ("steps.third.outputs.a", "`steps.third` comes later in the plan: move it before this step"),
        ("steps.frist.outputs.a", "`steps.frist` is not a step of this plan: did you mean `first`?"),
        ("steps.zzz.outputs.a", "`steps.zzz` is not a step of this plan: name an earlier step by its id"),
    ],
)
@pytest.mark.parametrize(
    ("key", "where"),
    [
        ("run: 'echo ${{ REFERENCE }}'", "run"),
        ("run: [echo, '${{ REFERENCE }}']", "run[1]"),
        ("run: x, env: {A: '${{ REFERENCE }}'}", "env.A"),
        ("run: x, when: '${{ REFERENCE }}'", "when"),
        ("run: x, expect: [{stdout: '${{ REFERENCE }}'}]", "expect[0].stdout"),
        ("run: x, expect: [{run: 'test ${{ REFERENCE }}'}]", "expect[0].run"),
        ("run: x, expect: [{json: a, path: b, equals: ['${{ REFERENCE }}']}]", "expect[0].equals[0]"),
    ],
)
def test_references_name_inputs_and_earlier_steps(written: str, message: str, key: str, where: str) -> None:
    step = f"{{id: second, {key.replace('REFERENCE', written)}}}"
    steps = f"  - {{id: first, run: x}}\n  - {step}\n  - {{id: third, run: x}}\n"
    assert problems_of(plan_with(steps, "inputs: {customer: a}\n")) == [(6, f"steps[1].{where}", message)]


@pytest.mark.parametrize(
    ("key", "where"),
    [
        ("title: REFERENCE", "title"),
        ("outputs: {a: {regex: REFERENCE}}", "outputs.a.regex"),
    ],
)
def test_references_that_would_stay_as_they_stand_are_refused(key: str, where: str) -> None:
    step = f"  - {{run: x, {key.replace('REFERENCE', repr('${{ inputs.a }}'))}}}\n"
    assert problems_of(plan_with(step, "inputs: {a: b}\n")) == [(5, f"steps[0].{where}", NOT_FILLED_IN)]


def test_an_escaped_reference_is_text() -> None:
    plan = parse_plan(plan_with("  - run: echo '\\${{ inputs.none }}'\n"), "plan.yaml", FOLDER)
    assert plan.steps[0].action == RunAction("echo '\\${{ inputs.none }}'")


def test_references_to_earlier_steps_need_no_declared_output() -> None:
    steps = "  - {id: a, run: x}\n  - run: echo ${{ steps.a.outputs.any }} ${{ steps.step-2.outputs.x }}\n"
    assert [where for _, where, _ in problems_of(plan_with(steps))] == ["steps[1].run"]
    assert parse_plan(plan_with(steps.replace("step-2", "a")), "plan.yaml", FOLDER).steps[1].id == "step-2"


@pytest.mark.parametrize(
    ("step", "where", "words"),
    [
        (
            "run: |\n      echo\n      echo ${{ inputs. }}",
            "run",
            "line 2, column 6 of this text: `inputs.` is not a",
        ),
        (
            "run: |\n      cat <<${{ inputs.a }}\n      x",
            "run",
            "line 1, column 5 of this text: the delimiter",
        ),
        (
            "run: x\n    env: {A: '${{ inputs.a '}",
            "env.A",
            "line 1, column 1 of this text: `${{` is not closed",
        ),
        ("run: x\n    when: a ==", "when", "line 1, column 5 of this text: a value is missing"),
        (
            "run: x\n    when: ${{ inputs }}",
            "when",
            "line 1, column 1 of this text: `inputs` is not a reference",
        ),
    ],
)
def test_what_could_not_be_filled_in_is_a_problem_at_its_place(step: str, where: str, words: str) -> None:
    [(line, place, message)] = problems_of(plan_with(f"  - {step}\n", "inputs: {a: b}\n"))
    assert (line, place) == (5 if where == "run" else 6, f"steps[0].{where}")
    assert message.startswith(words)


@pytest.mark.parametrize(
    "command",
    [
        "recoup run plan.yaml",
        "recoup submit ./plan.yaml --json",
        "exec /usr/bin/recoup --json run --input a=b plan.yaml",
        "cd x; RECOUP_HOME=/tmp/h python3 -m recoup run '/plans/plan.yaml' &",
        "if ! recoup run \\\n  sub/../plan.yaml; then exit 1; fi",
        "echo $(recoup run plan.yaml)",
        "echo \"it's\nrecoup run plan.yaml",
        ["recoup", "run", "plan.yaml"],
        ["bash", "-c", "recoup run plan.yaml && true"],
    ],
)
def test_a_plan_that_runs_itself_is_refused(command: Any) -> None:
    data = {"version": 1, "name": "x", "steps": [{"id": "loop", "run": command}]}
    message = "step `loop` runs this plan itself: it would never end"
    assert problems_of(json.dumps(data), file=Path("/plans/plan.yaml")) == [(1, "steps[0].run", message)]
    data["steps"] = [{"id": "loop", "run": "x", "expect": [{"run": command}]}]
    assert problems_of(json.dumps(data), file=Path("/plans/plan.yaml")) == [
        (1, "steps[0].expect[0].run", message)
    ]


@pytest.mark.parametrize(
    "command",
    [
        "recoup run other.yaml\ncat plan.yaml",
        "recoup run other.yaml && cat plan.yaml",
        "recoup check plan.yaml",
        "recoup show plan.yaml",
        "cat plan.yaml | recoup run other.yaml",
        "echo recoup",
        "recoup run sub/plan.yaml",
        "# recoup run plan.yaml",
        ["recoup", "check", "plan.yaml"],
        ["echo", "recoup", 5],
    ],
)
def test_a_plan_that_runs_another_one_is_fine(command: Any) -> None:
    data = {"version": 1, "name": "x", "steps": [{"run": command}]}
    plan = parse_plan(json.dumps(data), "plan.yaml", FOLDER, file=Path("/plans/plan.yaml"))
    assert len(plan.steps) == 1


def test_a_plan_that_runs_itself_is_found_through_links(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    (real / "plan.yaml").write_text(plan_with(f"  - run: recoup run {real}/plan.yaml\n"))
    with pytest.raises(InvalidPlan, match="it would never end"):
        read_plan(tmp_path / "link" / "plan.yaml")


def test_a_plan_that_runs_itself_is_found_from_the_root_of_its_workspace(tmp_path: Path) -> None:
    (tmp_path / "plans").mkdir()
    path = tmp_path / "plans" / "plan.yaml"
    path.write_text(plan_with("  - run: recoup run plans/plan.yaml\n", "workspace: {git: ..}\n"))
    with pytest.raises(InvalidPlan, match="it would never end"):
        read_plan(path)


def test_a_plan_is_read_from_a_file_and_knows_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + plan_with("  - run: x\n", "workspace: {git: .}\n").encode())
    plan = read_plan(path)
    assert (plan.folder, plan.workspace) == (str(tmp_path), GitSource(str(tmp_path)))


def test_a_relative_path_gives_an_absolute_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plan.yaml").write_text(plan_with("  - run: x\n"))
    monkeypatch.chdir(tmp_path)
    assert read_plan("plan.yaml").folder == str(tmp_path)


def test_a_plan_may_come_through_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_text, args=(plan_with("  - run: x\n"),))
    writer.start()
    assert read_plan(tmp_path / "pipe").folder == str(tmp_path)
    writer.join()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.yaml", "there is no such file: check the path"),
        ("", "this is a folder: name the file inside it"),
        ("a\0b", "this is not a path: it holds a NUL character"),
        ("x" * 5_000, "this file cannot be read: File name too long"),
    ],
    ids=["missing", "folder", "nul", "long"],
)
def test_a_file_that_cannot_be_read_is_a_problem_like_any_other(
    tmp_path: Path, name: str, message: str
) -> None:
    with pytest.raises(InvalidPlan) as invalid:
        read_plan(tmp_path / name)
    assert [problem.message for problem in invalid.value.problems] == [message]
    assert invalid.value.exit_code == 3


def test_a_file_that_is_too_large_is_not_read_to_its_end() -> None:
    with pytest.raises(InvalidPlan, match="larger than 4,194,304 bytes: split it up"):
        read_plan("/dev/zero")


def test_the_message_names_the_file_the_line_and_the_path() -> None:
    with pytest.raises(InvalidPlan) as invalid:
        parse_plan(plan_with("  - run: x\n    tiemout: 5\n  - {}\n"), "sync.yaml", FOLDER)
    assert str(invalid.value) == (
        "invalid plan: 2 problems in sync.yaml\n"
        "  sync.yaml:5: steps[0].tiemout: unknown key: did you mean `timeout`?\n"
        "  sync.yaml:6: steps[1].run: this step says nothing to do: add `run`, `python`, `agent`, `browser` or `approve`"
    )


def test_ten_thousand_steps_are_refused_quickly() -> None:
    steps = "".join(f"  - {{id: s{n}, run: echo {n}, timeout: 5m}}\n" for n in range(10_000))
    began = time.process_time()
    [(line, where, message)] = problems_of(plan_with(steps))
    assert time.process_time() - began < 5
    assert (line, where) == (3, "steps")
    assert message.startswith("10,000 steps are more than 1,000 (plan_steps_max): split the plan up")


def test_the_limits_of_a_plan_come_from_the_policy() -> None:
    two = plan_with("  - run: x\n  - run: y\n")
    assert len(parse_plan(two, "plan.yaml", FOLDER, policy=Policy(plan_steps_max=2)).steps) == 2
    assert "2 steps are more than 1" in problems_of(two, policy=Policy(plan_steps_max=1))[0][2]
    assert "larger than 10 bytes" in problems_of(two, policy=Policy(plan_bytes_max=10))[0][2]


@pytest.mark.parametrize(
    "key", ["run: %s", "run: [a, %s]", "run: x, env: {A: %s}", "run: x, expect: [{run: %s}]"]
)
def test_what_no_process_can_be_given_is_refused(key: str) -> None:
    [(_, _, message)] = problems_of(plan_with(f"  - {{{key.replace('%s', 'x' * 131_072)}}}\n"))
    assert message == "is longer than 131,071 bytes, more than a process can be given: use a file"
    longest = plan_with(f"  - {{{key.replace('%s', 'x' * 131_071)}}}\n")
    assert len(parse_plan(longest, "plan.yaml", FOLDER).steps) == 1


def test_a_thousand_steps_are_a_plan() -> None:
    steps = "".join(
        f"  - {{id: s{n}, run: 'echo ${{{{ steps.s{n - 1}.outputs.a }}}}'}}\n" for n in range(1, 1_000)
    )
    assert len(parse_plan(plan_with(f"  - {{id: s0, run: x}}\n{steps}"), "plan.yaml", FOLDER).steps) == 1_000


def test_more_problems_than_a_person_would_read_are_counted() -> None:
    keys = "".join(f"    key{n}: 1\n" for n in range(5_000))
    problems = problems_of(plan_with(f"  - run: x\n{keys}"))
    assert len(problems) == PROBLEMS_MAX + 1
    assert problems[-1] == (None, "", "and 4,900 more problems: correct these first")


def test_no_value_of_an_input_or_a_variable_is_shown() -> None:
    hidden = "h1dden" + "-value"
    text = plan_with(
        f"  - run: x\n    env: {{A: [{hidden}], B-C: {hidden}}}\n",
        f"inputs: {{pin: {{secret: true, default: {hidden}}}}}\n",
    )
    with pytest.raises(InvalidPlan) as invalid:
        parse_plan(text, "plan.yaml", FOLDER)
    assert len(invalid.value.problems) == 3
    assert hidden not in str(invalid.value)


KEYS = st.sampled_from(
    [
        "version",
        "name",
        "objective",
        "inputs",
        "workspace",
        "git",
        "ref",
        "folder",
        "defaults",
        "secrets",
        "steps",
        "id",
        "title",
        "run",
        "expect",
        "exit",
        "file",
        "absent",
        "contains",
        "regex",
        "stdout",
        "stderr",
        "json",
        "path",
        "equals",
        "diff",
        "paths",
        "outputs",
        "in",
        "secret",
        "env",
        "when",
        "repeat",
        "rebuild",
        "timeout",
        "idle_timeout",
        "max_attempts",
        "no_progress_limit",
        "max_processes",
        "max_memory",
        "idle",
        "polls",
        "required",
        "default",
        "python",
        "with",
        "agent",
        "cli",
        "prompt",
        "args",
        "resume",
        "approve",
        "message",
        "browser",
        "rescue",
        "on_empty",
        "always",
        "$schema",
    ]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(
        [
            "x",
            "5m",
            "main",
            ".",
            "nonempty",
            "${{ inputs.a }}",
            "${{ steps.a.outputs.b }}",
            "${{",
            "safe",
            "m:f",
            "fresh",
        ]
    )
)
DATA = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)
KINDS = {
    "run": DATA,
    "python": DATA | st.just("m:f"),
    "with": st.dictionaries(KEYS, DATA, max_size=3) | DATA,
    "agent": DATA | st.fixed_dictionaries({"cli": DATA, "prompt": DATA}, optional={"args": DATA}),
}
HANDLERS = st.lists(
    st.fixed_dictionaries({}, optional={**KINDS, "timeout": DATA, "title": DATA}) | DATA, max_size=2
)
STEPS = st.fixed_dictionaries(
    {},
    optional={
        **KINDS,
        "approve": DATA,
        "rescue": HANDLERS,
        "always": HANDLERS,
        "id": DATA,
        "expect": st.lists(st.dictionaries(KEYS, DATA, max_size=3), max_size=3),
        "when": DATA,
        "outputs": st.dictionaries(KEYS, st.dictionaries(KEYS, DATA, max_size=3), max_size=2),
        "env": DATA,
        "timeout": DATA,
        "max_attempts": DATA,
        "title": DATA,
    },
)
PLANS = st.fixed_dictionaries(
    {"version": st.just(1), "name": st.just("x"), "steps": st.lists(STEPS | DATA, max_size=3)},
    optional={"inputs": DATA, "workspace": DATA, "defaults": DATA, "secrets": DATA, "objective": DATA},
)


@given(PLANS | DATA)
@settings(deadline=None)
def test_any_data_is_a_plan_or_refused(data: Any) -> None:
    plan = plan_or_refusal(lambda: plan_from_data(data))
    if isinstance(plan, Plan):
        assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan
        assert digest(msgspec.to_builtins(plan))


@given(
    st.integers(0, len(FULL)),
    st.integers(0, 6),
    st.text(max_size=3) | st.sampled_from(["\t", ": ", "- ", "&a ", "*a"]),
)
@settings(deadline=None)
def test_a_damaged_plan_is_a_plan_or_refused(at: int, removed: int, added: str) -> None:
    damaged = FULL[:at] + added + FULL[at + removed :]
    plan_or_refusal(lambda: parse_plan(damaged, "plan.yaml", FOLDER))


@given(st.text(max_size=100) | st.binary(max_size=100))
def test_any_text_is_a_plan_or_refused(text: str | bytes) -> None:
    plan_or_refusal(lambda: parse_plan(text, "plan.yaml", FOLDER))


def plan_or_refusal(make: Callable[[], Plan]) -> Plan | None:
    """Nothing else may come out; a refusal has words of its own for every problem."""
    try:
        return make()
    except InvalidPlan as refusal:
        told = refusal
    assert told.problems
    assert all(problem.message for problem in told.problems)
    assert "Input should" not in str(told)
    assert "something else" not in str(told)
    return None
