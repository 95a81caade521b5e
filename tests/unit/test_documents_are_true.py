"""What the documents say is what the program does."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from tools.policy_reference import TARGET, page

from recoup.checks.registry import kind_of_key, own_keys
from recoup.cli.main import _COMMANDS, recoup
from recoup.documents.plan_file import parse_plan
from recoup.documents.schemas import plan_schema
from recoup.model.events import PAYLOADS
from recoup.runtimes.agent.clis import DIALECTS
from recoup.settings import ENVIRONMENT_ONLY, NAMES
from recoup.shapes.page_keys import VERBS
from recoup.steps.registry import BUILT_IN

PAGE_CHECK_KEYS = tuple(key for key in own_keys() if kind_of_key(key).looks_at_page)
ROOT = Path(__file__).parents[2]


def text_of(name: str) -> str:
    return (ROOT / name).read_text()


def test_the_policy_page_is_the_policy() -> None:
    assert TARGET.read_text() == page(), "run tools/policy_reference.py"


def test_the_example_of_the_readme_is_a_good_plan() -> None:
    example = re.search(r"```yaml\n(.*?)```", text_of("README.md"), re.S)
    assert example is not None
    plan = parse_plan(example[1], "README.md", str(ROOT))
    assert [step.id for step in plan.steps] == ["fetch", "build", "publish"]
    assert len(example[1].splitlines()) <= 25


def test_the_example_of_the_tutorial_is_a_good_plan() -> None:
    example = re.search(r"<<'END'\n(.*?)END\n", text_of("docs/tutorial.md"), re.S)
    assert example is not None
    assert len(parse_plan(example[1], "tutorial", str(ROOT)).steps) == 2


def test_the_plan_page_names_every_key() -> None:
    said = text_of("docs/reference/plan.md")
    schema = plan_schema()
    keys = {key for shape in (schema, *schema["$defs"].values()) for key in shape.get("properties", {})}
    assert not [key for key in keys - {"$schema"} if not re.search(rf"[`{{, ]{key}[`:,}}]", said)]


PLAN_EXAMPLES = re.findall(r"```yaml\n(.*?)```", text_of("docs/reference/plan.md"), re.S)


@pytest.mark.parametrize("example", PLAN_EXAMPLES)
def test_the_examples_of_the_plan_page_are_good_plans(example: str) -> None:
    names = dict.fromkeys(re.findall(r"inputs\.(\w+)", example), "x")
    head = f"version: 1\nname: example\ninputs: {json.dumps(names)}\n"
    assert parse_plan(head + example, "plan.md", str(ROOT)).steps


def test_the_plan_page_names_every_verb_and_every_check_of_a_page() -> None:
    said = text_of("docs/reference/plan.md")
    assert not [verb for verb in VERBS if f"`{verb}`" not in said]
    assert not [key for key in PAGE_CHECK_KEYS if f"{{{key}: " not in said]


def test_the_flow_of_the_browser_page_is_a_good_plan() -> None:
    [example] = re.findall(r"```yaml\n(.*?)```", text_of("docs/howto/browser.md"), re.S)
    plan = parse_plan(example, "browser.md", str(ROOT))
    assert [step.id for step in plan.steps if step.expect] == ["open", "log-in", "total", "approve"]


def test_the_code_of_the_browser_page_makes_a_plan() -> None:
    [example] = re.findall(r"```python\n(.*?)```", text_of("docs/howto/browser.md"), re.S)
    made: dict[str, Any] = {}
    exec(example, made)
    assert repr(made["plan"]) == "<plan approve-invoice: step-1, approve>"


def test_the_plan_page_shows_every_kind_of_step() -> None:
    assert all(any(f"{kind}:" in example for example in PLAN_EXAMPLES) for kind in BUILT_IN)


@pytest.mark.parametrize("command", list(_COMMANDS))
def test_the_readme_names_every_command(command: str) -> None:
    assert f"`{command}`" in text_of("README.md")


def test_the_settings_page_names_every_setting() -> None:
    said = set(re.findall(r"^\| `(RECOUP_\w+)`", text_of("docs/reference/settings.md"), re.M))
    assert said == {*NAMES, *ENVIRONMENT_ONLY}


def test_the_threat_model_names_files_and_tests_that_are_there() -> None:
    said = text_of("docs/threat-model.md")
    defined = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    for name in re.findall(r"`(test_\w+)`", said):
        assert re.search(rf"def {name}\(", defined), name
    for name in re.findall(r"`((?:tests|[a-z]+)/[\w/]*(?:\.py)?)`", said):
        assert (ROOT / name).exists() or (ROOT / "src" / "recoup" / name).exists(), name


def test_the_readme_leads_to_every_page() -> None:
    linked = set(re.findall(r"\]\(([^)#]+)", text_of("README.md")))
    pages = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "docs").rglob("*.md")
        if path.parent.name != "decisions"
    }
    assert pages <= linked


def test_the_architecture_has_a_line_for_every_room() -> None:
    rooms = text_of("ARCHITECTURE.md").partition("## Rooms")[2].partition("\n## ")[0]
    for path in (ROOT / "src" / "recoup").iterdir():
        name = f"{path.name}/" if path.is_dir() else path.name
        assert name.startswith("_") or name == "py.typed" or f"`{name}`" in rooms, name


@pytest.mark.parametrize("of", ["one failure", "a submitted run"])
def test_the_walks_name_files_that_are_there(of: str) -> None:
    walk = text_of("ARCHITECTURE.md").partition(f"## The walk of {of}")[2].partition("\n## ")[0]
    named = re.findall(r"`(\w+/\w+\.py)`", walk)
    assert named and all((ROOT / "src" / "recoup" / name).exists() for name in named)


def test_the_routes_of_changes_name_files_that_are_there() -> None:
    named = re.findall(r"`((?:\w+/)+\w+\.\w+)`", text_of("docs/contributing/changes.md"))
    assert len(named) > 30
    for name in (name for name in named if not re.search("NAME|KIND", name)):
        assert (ROOT / name).exists() or (ROOT / "src" / "recoup" / name).exists(), name


def test_the_page_about_agents_names_every_command_line() -> None:
    said = text_of("docs/howto/agent-steps.md")
    assert [name for name in DIALECTS if f"| `{name}` |" not in said] == []


def test_every_decision_gives_context_choice_and_cost() -> None:
    for path in (ROOT / "docs" / "decisions").glob("*.md"):
        said = path.read_text()
        assert re.match(r"# \d+\. ", said), path
        assert "libraries" in path.name or all(
            f"**{word}.**" in said for word in ("Context", "Choice", "Cost")
        ), path


def test_every_link_leads_somewhere() -> None:
    for page_path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\((?!http)([^)#]+)", page_path.read_text()):
            assert (page_path.parent / target).exists(), f"{page_path}: {target}"


@pytest.mark.parametrize(
    ("told", "file"),
    [
        ("overnight-agent.md", "overnight_agent/plan.yaml"),
        ("flapping-service.md", "flapping_service/dev.yaml"),
    ],
)
def test_what_a_story_quotes_is_what_it_runs(told: str, file: str) -> None:
    [quoted] = re.findall(r"```yaml\n(.*?)```", text_of(f"docs/stories/{told}"), re.S)
    assert quoted == text_of(f"examples/{file}")


def test_the_public_events_are_there() -> None:
    public = {
        *(
            f"task.run.{end}"
            for end in ("submitted", "started", "waiting", "blocked", "resumed", "taken_over")
        ),
        *(f"task.run.{end}" for end in ("succeeded", "failed", "cancelled", "dead_lettered")),
        *(f"task.step.attempt.{end}" for end in ("started", "launched", "finished", "failed")),
        *(f"task.self_heal.{end}" for end in ("triggered", "escalated", "exhausted")),
        *(
            "task.step.invalidated",
            "task.resume.from_step",
            "task.control",
            "secret.found",
            "policy.generation",
        ),
        *("checkpoint.stored", "checkpoint.incomplete", "checkpoint.restored", "Escalated"),
    }
    assert public <= PAYLOADS.keys()


def commands_of(page_name: str) -> list[str]:
    """Every `recoup …` of a page that stands for itself: after a prompt, or as code in a sentence or a table."""
    said = text_of(page_name)
    typed = re.findall(r"^\$ (recoup [^\n]*)", said, re.M)
    prose = re.sub(r"```.*?```", "", said, flags=re.S)
    return list(dict.fromkeys([*typed, *re.findall(r"`(recoup [^`]*)`", prose)]))


PLAYBOOK = "docs/howto/stuck-run.md"
THERE = str(ROOT / "README.md")


def test_every_command_of_the_playbook_is_taken_as_it_is_written() -> None:
    """Up to the point where it would begin; a plan file is one that is there."""
    told = commands_of(PLAYBOOK)
    assert len(told) > 30
    assert not [(words, problem) for words in told if (problem := what_is_wrong(words))]


def what_is_wrong(words: str) -> str:
    command: click.Command = recoup
    left = shlex.split(words.partition(" | ")[0])[1:]
    while isinstance(command, click.Group) and left and not left[0].startswith("-"):
        named = command.get_command(click.Context(command), left.pop(0))
        if named is None:
            return "there is no such command"
        command = named
    try:
        command.make_context(
            "recoup", [THERE if word.endswith("plan.yaml") else word for word in left]
        ).close()
    except click.UsageError as error:
        return error.format_message()
    return ""


def test_the_playbook_answers_every_symptom() -> None:
    said = text_of(PLAYBOOK)
    wanted = [
        *(
            "task.self_heal.*",
            "let it be",
            "takeover --reason",
            "hard_reset_step",
            "queue retry",
            "retry_step",
        ),
        *("cancel --reason", "--reuse", "--from-step", "--dry-run", "settle", "resume_from_step"),
    ]
    assert not [words for words in wanted if words not in said]


def test_the_story_of_the_dying_workers_shows_the_plan_that_it_runs() -> None:
    [shown] = re.findall(r"```yaml\n(.*?)```", text_of("docs/stories/dying-workers.md"), re.S)
    assert shown == text_of("examples/dying_workers/pipeline/plan.yaml")


def _options(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Each long option with its command, as a page would name it."""
    ctx = click.Context(command)
    for one in command.params:
        yield from ((" ".join(path), name) for name in one.opts if name.startswith("--"))
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            inner = command.get_command(ctx, name)
            assert inner is not None
            yield from _options(inner, (*path, name))


def test_every_option_and_every_command_stands_on_some_page() -> None:
    pages = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/recoup/cli/topics/*.md")]
    said = "\n".join(page.read_text() for page in pages)
    options = set(_options(recoup, ("recoup",)))
    assert not [one for one in options if not re.search(rf"{one[1]}(?![\w-])", said)]
    assert not [command for command, _ in options if command.removeprefix("recoup ") not in said]
