"""What `--help` and `recoup help` show is what the commands take."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from recoup.cli.main import recoup
from recoup.cli.topics import page, topics
from recoup.documents.schemas import plan_schema
from recoup.errors import RecoupError
from recoup.kernel import documents
from recoup.kernel.controls import CONTROLS
from recoup.model.failure import FailureClass
from recoup.model.policy import Policy
from recoup.model.probe import Action
from recoup.model.run import RunStatus
from recoup.settings import ENVIRONMENT_ONLY, NAMES

Found = tuple[tuple[str, ...], click.Command]
ROOT = click.Context(recoup, info_name="recoup")
SCREEN_ROWS, SCREEN_COLUMNS = 24, 80
MADE_UP = {"RUN": "last", "ACTION": "pause", "STEP": "build", "TOPIC": "plans", "COMMAND": "run"}
"""Words in capitals stand for something that fits."""


def walk(command: click.Command, ctx: click.Context, path: tuple[str, ...]) -> Iterator[Found]:
    yield path, command
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            inner = command.get_command(ctx, name)
            assert inner is not None
            yield from walk(inner, click.Context(inner, info_name=name, parent=ctx), (*path, name))


TREE = dict(walk(recoup, ROOT, ("recoup",)))


def examples(command: click.Command) -> list[str]:
    _, _, after = re.sub("Examples?:", "Examples:", command.help or "").partition("Examples:")
    return [line.strip() for line in after.splitlines() if line.strip()]


def words_of(line: str) -> list[str]:
    """The words behind `recoup`, up to a pipe or a redirection; none if nothing of it is ours."""
    lexed = shlex.shlex(line.replace("'...'", "x"), posix=True, punctuation_chars="|<>&;()")
    lexed.whitespace_split = True
    lexed.commenters = "#"
    words = list(lexed)
    if "recoup" not in words:
        return []
    ours = words[len(words) - words[::-1].index("recoup") :]
    ends = [place for place, word in enumerate(ours) if re.fullmatch(r"[|<>&;()]+", word)]
    return [MADE_UP.get(word, word) for word in ours[: min(ends, default=len(ours))]]


def parse(words: list[str]) -> tuple[str, ...]:
    """As click does before it calls anybody. Raises ClickException. Gives the command's path."""
    command: click.Command = recoup
    ctx, path = ROOT, ["recoup"]
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name, words = words[0], words[1:]
        inner = command.get_command(ctx, name)
        if inner is None:
            raise click.UsageError(f"no command {name!r} in {path}")
        path.append(name)
        ctx, command = click.Context(inner, info_name=name, parent=ctx), inner
    if not isinstance(command, click.Group):
        command.make_context(path[-1], list(words), parent=ctx.parent)
    return tuple(path)


@pytest.mark.parametrize("path", TREE, ids=" ".join)
def test_every_command_shows_examples_of_itself_that_parse(path: tuple[str, ...]) -> None:
    shown = examples(TREE[path])
    assert shown, f"{' '.join(path)} --help has no part that begins with Example: or Examples:"
    parsed = [parsed_path(line) for line in shown]
    assert any(one is not None and one[: len(path)] == path for one in parsed), shown


def parsed_path(line: str) -> tuple[str, ...] | None:
    words = words_of(line)
    try:
        return parse(words) if words else None
    except click.ClickException as error:
        if "does not exist" not in error.format_message():
            pytest.fail(f"{line}: {error.format_message()}")
        return ("recoup", *words[:1])  # a folder of the example that is not here


def test_an_option_that_does_not_exist_is_noticed() -> None:
    with pytest.raises(click.NoSuchOption):
        parse(words_of("recoup run plan.yaml --nonsense | jq ."))
    with pytest.raises(click.UsageError):
        parse(words_of("recoup memory forget x"))


@pytest.mark.parametrize("path", [path for path in TREE if isinstance(TREE[path], click.Group)], ids=" ".join)
def test_a_list_of_commands_says_of_each_what_it_does_to_the_end(path: tuple[str, ...]) -> None:
    ctx = click.Context(TREE[path], info_name=" ".join(path), terminal_width=SCREEN_COLUMNS)
    _, _, listed = TREE[path].get_help(ctx).partition("\nCommands:\n")
    assert listed and not [
        line for line in listed.splitlines() if line.endswith(("...", "…")) and " ..." not in line
    ]


@pytest.mark.parametrize("path", TREE, ids=" ".join)
def test_usage_is_not_broken_in_the_midst_of_a_word(path: tuple[str, ...]) -> None:
    ctx = click.Context(TREE[path], info_name=" ".join(path), terminal_width=SCREEN_COLUMNS)
    whole = " ".join(TREE[path].collect_usage_pieces(ctx))
    assert whole in " ".join(TREE[path].get_usage(ctx).split())


@pytest.mark.parametrize("topic", topics())
def test_a_topic_fits_on_one_screen(topic: str) -> None:
    lines = page(topic).splitlines()
    assert lines[0].startswith("# ")
    assert len(lines) < SCREEN_ROWS
    assert max(map(len, lines)) <= SCREEN_COLUMNS


@pytest.mark.parametrize("topic", topics())
def test_the_commands_of_a_topic_parse(topic: str) -> None:
    for line in re.findall(r"^ +(recoup .*?)(?:$| {3,})", page(topic), re.M):
        parsed_path(line)


@pytest.mark.parametrize("topic", topics())
def test_a_topic_names_commands_that_are_there(topic: str) -> None:
    named = set(re.findall(r"\brecoup ([a-z]+)\b", page(topic)))
    assert named
    assert named <= set(recoup.list_commands(ROOT))


def test_the_page_about_plans_names_every_key_of_a_plan_and_of_a_step() -> None:
    schema = plan_schema()
    steps = [
        shape["properties"] for shape in schema["$defs"].values() if "when" in shape.get("properties", {})
    ]
    keys = {key for step in steps for key in step} | set(schema["properties"]) - {"$schema"}
    assert keys - set(re.findall(r"[a-z_]+", page("plans"))) == set()


def test_the_page_about_the_browser_names_every_verb_and_how_targets_are_said() -> None:
    schema = plan_schema()["$defs"]
    shapes = [shape.get("properties", {}) for shape in schema.values()]
    verbs = {key for shape in shapes if "dialog" in shape for key in shape} - {"dialog"}
    target = set(schema["TargetShape"]["properties"])
    told = set(re.findall(r"[a-z_]+", page("browser")))
    assert (verbs | target) - told - {"recorded", "frame"} == set()


def exit_codes() -> dict[int, str]:
    return {int(code): words for code, words in re.findall(r"^  (\d+) +(\S.*)$", page("exit-codes"), re.M)}


def kinds(kind: type[RecoupError]) -> Iterator[type[RecoupError]]:
    yield kind
    for inner in kind.__subclasses__():
        yield from kinds(inner)


def test_the_exit_codes_are_those_of_the_code() -> None:
    of_runs = {
        *documents._EXIT_CODES.values(),
        documents.EXIT_RETRYABLE,
        documents.EXIT_INTERRUPTED,
    }
    of_errors = {kind.exit_code for kind in kinds(RecoupError)}
    assert set(exit_codes()) == of_runs | of_errors


def test_each_exit_code_means_what_its_line_says() -> None:
    said, by_status = exit_codes(), documents._EXIT_CODES
    assert "succeeded" in said[by_status[RunStatus.SUCCEEDED]]
    assert "blocked" in said[by_status[RunStatus.BLOCKED]]
    assert "waits" in said[by_status[RunStatus.WAITING]]
    assert "cancelled" in said[by_status[RunStatus.CANCELLED]]
    assert "delivery" in said[documents.EXIT_RETRYABLE]
    assert "interrupted" in said[documents.EXIT_INTERRUPTED]


def test_the_settings_page_names_every_setting() -> None:
    said = set(re.findall(r"RECOUP_\w+", page("settings")))
    assert said == {*NAMES, *ENVIRONMENT_ONLY}


def test_the_controls_page_names_every_control() -> None:
    said = set(re.findall(r"[a-z_]+", page("controls")))
    assert set(CONTROLS) <= said


def test_the_recovery_page_names_every_class() -> None:
    said = page("recovery")
    assert all(f"  {cls.value} " in said for cls in FailureClass if not cls.is_deterministic)
    assert "deterministic_*" in said


def test_the_policy_page_names_keys_of_the_policy() -> None:
    named = set(re.findall(r"^  ([a-z]+_[a-z_]+)", page("policy"), re.M)) | {"text_rules", "exit_codes"}
    assert len(named) > 5
    assert named <= set(Policy.__struct_fields__)


def test_the_probe_page_names_every_action() -> None:
    assert all(action.value in page("probes") for action in Action)


def test_the_pages_that_topics_lead_to_are_there() -> None:
    root = Path(__file__).parents[2]
    for topic in topics():
        for name in re.findall(r"docs/[a-z/-]+\.md|SECURITY\.md", page(topic)):
            assert (root / name).exists(), f"{topic}: {name}"
