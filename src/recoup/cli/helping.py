"""`help`: short pages in the terminal."""

from __future__ import annotations

import click

from recoup.cli.completing import complete_topic
from recoup.cli.output import json_option
from recoup.cli.topics import page, topics
from recoup.errors import NotFound
from recoup.terminal.writer import hand_over, print_json, say, say_lines


@click.command("help")
@click.argument("topic", required=False, shell_complete=complete_topic)
@json_option
@click.pass_context
def helping(ctx: click.Context, topic: str | None, as_json: bool) -> None:
    """Print one screen about TOPIC, or list the topics. The name of a command prints its --help.

    \b
    Examples:
      recoup help
      recoup help stuck-run
      recoup help run
    """
    if topic is None:
        _list(as_json)
    elif topic in topics():
        print_json({"topic": topic, "text": page(topic)}) if as_json else hand_over(page(topic))
    else:
        say_lines(_command_help(ctx, topic))


def _list(as_json: bool) -> None:
    if as_json:
        print_json(topics())
        return
    for name, title in topics().items():
        say(f"{name:<12} {title}")
    say()
    say("Read one: recoup help TOPIC. Each command has its own: recoup COMMAND --help")


def _command_help(ctx: click.Context, name: str) -> str:
    root = ctx.find_root()
    assert isinstance(root.command, click.Group)
    command = root.command.get_command(root, name)
    if command is None:
        raise _unknown(name, [*topics(), *root.command.list_commands(root)])
    return command.get_help(click.Context(command, info_name=name, parent=root))


def _unknown(name: str, known: list[str]) -> NotFound:
    import difflib

    near = difflib.get_close_matches(name, known, 1)
    meant = f"Did you mean {near[0]}? " if near else ""
    return NotFound(f"there is no topic or command {name!r}", hint=f"{meant}List the topics: recoup help")
