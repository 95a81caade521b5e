"""`policy` and `schema`: how Recoup behaves, and what may stand in a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

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
@click.option("--explain", is_flag=True, help="Say what each key means, its range, and who may set it.")
@json_option
@click.pass_context
def show(ctx: click.Context, explain: bool, as_json: bool) -> None:
    """Print the policy that is in force here, as YAML, and where it differs from the defaults.

    \b
    Examples:
      recoup policy show > policy.yaml
      recoup policy show --explain
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
        document = {"digest": policy_digest(current), "source": source, "policy": body}
        print_json({**document, "keys": _key_documents(defaults)} if explain else document)
        return
    say(f"# {policy_digest(current)}  from {source or 'the defaults'}")
    for name, value in body.items():
        for line in _comment(name) if explain else ():
            say(line)
        changed = "" if value == defaults[name] else f"   # default {_yaml(defaults[name])}"
        say(f"{name}: {_yaml(value)}{changed}")


def _key_documents(defaults: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    from recoup.model.policy import POLICY_KEYS

    return {
        name: {
            "description": key.description,
            "default": defaults[name],
            "range": key.range,
            "stepKey": _step_key(name),
            "replayed": key.replayed,
        }
        for name, key in POLICY_KEYS.items()
    }


def _comment(name: str) -> Iterator[str]:
    from recoup.model.policy import POLICY_KEYS

    key, step_key = POLICY_KEYS[name], _step_key(name)
    span = "" if key.range is None else f"{key.range[0]:,} … {key.range[1]:,}"
    step = "" if step_key is None else f"`{step_key}` in a plan's defaults or a step"
    facts = "; ".join(filter(None, (span, step)))
    yield from ("", f"# == {key.opens} ==", "") if key.opens else ("",)
    yield from wrap(key.description, 100, initial_indent="# ", subsequent_indent="# ")
    if facts:
        yield f"# ({facts})"


def _step_key(name: str) -> str | None:
    from recoup.kernel.policies import STEP_KEYS

    return next((key.name for key in STEP_KEYS.values() if key.sets == name), None)


async def _followed(app: App) -> tuple[Policy, str | None]:
    """The one that a run would begin with: our file's if it was changed, else the one that everybody follows."""
    from recoup.cli.run import read_policy_of
    from recoup.errors import InvalidPolicy
    from recoup.operations.policies import seen_policy

    try:
        read_policy_of(app.settings)
    except InvalidPolicy:
        note(f"note: {app.settings.policy} cannot be used: recoup policy check {app.settings.policy}")
    return await seen_policy(app)


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
