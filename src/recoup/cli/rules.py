"""`policy` and `schema`: how Recoup behaves, and what may stand in a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from recoup.cli.output import json_option, settings_of, with_app
from recoup.terminal.writer import note, print_json, say

if TYPE_CHECKING:
    from recoup.app import App
    from recoup.model.policy import Policy


@click.group()
def policy() -> None:
    """Show or check the policy: every limit, with its default.

    \b
    Examples:
      recoup policy show
      recoup policy check policy.yaml
    """


@policy.command("show", short_help="Print the policy that is in force here, as YAML.")
@json_option
@click.pass_context
def show(ctx: click.Context, as_json: bool) -> None:
    """Print the policy that is in force here, as YAML, and where it differs from the defaults.

    \b
    Example:
      recoup policy show > policy.yaml
    """
    import msgspec

    from recoup.cli.run import read_policy_of
    from recoup.kernel.policies import policy_digest
    from recoup.model.policy import Policy

    settings = settings_of(ctx)
    if settings.database.exists():
        current, source = with_app(ctx, _followed)
    else:
        current, source = read_policy_of(settings), str(settings.policy) if settings.policy else None
    body, defaults = msgspec.to_builtins(current, str_keys=True), msgspec.to_builtins(Policy(), str_keys=True)
    if as_json:
        print_json({"digest": policy_digest(current), "source": source, "policy": body})
        return
    say(f"# {policy_digest(current)}  from {source or 'the defaults'}")
    for key, value in body.items():
        changed = "" if value == defaults[key] else f"   # default {_yaml(defaults[key])}"
        say(f"{key}: {_yaml(value)}{changed}")


async def _followed(app: App) -> tuple[Policy, str | None]:
    """The one that a run would begin with: our file's if it was changed, else the one that everybody follows."""
    from recoup.cli.run import read_policy_of
    from recoup.errors import InvalidPolicy

    try:
        read_policy_of(app.settings)
    except InvalidPolicy:
        note(f"note: {app.settings.policy} cannot be used: recoup policy check {app.settings.policy}")
    return await app.generations.seen()


def _yaml(value: object) -> str:
    """JSON is YAML."""
    import msgspec

    return msgspec.json.encode(value).decode()


@policy.command("check", short_help="Say everything that is wrong with a policy file.")
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def check(file: Path, as_json: bool) -> None:
    """Say everything that is wrong with a policy file, or that nothing is.

    \b
    Example:
      recoup policy check policy.yaml
    """
    from recoup.documents.policy_file import read_policy
    from recoup.errors import NotFound
    from recoup.kernel.policies import policy_digest

    if not file.exists():
        raise NotFound(f"there is no policy file {file}", hint="Give the path of a YAML or JSON file.")
    digest = policy_digest(read_policy(file))
    if as_json:
        print_json({"valid": True, "digest": digest, "problems": []})
    else:
        say(f"{file}: nothing wrong, {digest}")


@click.command()
@click.argument("kind", type=click.Choice(["plan", "policy", "probe"]))
@json_option
def schema(kind: str, as_json: bool) -> None:
    """Print the JSON Schema of a plan, policy or probe file, for editors.

    \b
    Example:
      recoup schema plan > plan.schema.json
      # then begin a plan with:  # yaml-language-server: $schema=plan.schema.json
    """
    import json

    from recoup.documents.schemas import plan_schema, policy_schema, probe_schema

    document = {"plan": plan_schema, "policy": policy_schema, "probe": probe_schema}[kind]()
    say(json.dumps(document, indent=None if as_json else 2))
