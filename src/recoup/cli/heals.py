"""`heals`: what was taken for targets that had changed, looked through by people."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from recoup.cli.completing import complete_run
from recoup.cli.output import json_option, with_app
from recoup.errors import NotFound, StateError, UsageError
from recoup.kernel.wording import one_line
from recoup.terminal.moments import minute
from recoup.terminal.writer import confirmed, note, print_json, say, say_lines
from recoup.tokens import local_user

if TYPE_CHECKING:
    from recoup.app import App
    from recoup.kernel.reviewing import Word
    from recoup.operations.heals import Heal

_PICTURES = {b"\x89PNG": ".png", b"\xff\xd8\xff": ".jpg", b"RIFF": ".webp"}
_SURE_MAX = 1_000

heal_argument = click.argument("heal_name", metavar="HEAL")
plan_option = click.option(
    "--plan",
    "plan",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Where the plan is, if it was moved.",
)


@click.group()
def heals() -> None:
    """Look through what was taken for targets that had changed, and say whether it is right.

    HEAL is RUN/STEP, as `list` prints it; the beginnings of both will do, and `last` for the newest run.

    \b
    Examples:
      recoup heals list --waiting
      recoup heals show last/approve
      recoup heals accept last/approve
      recoup heals reject last/approve --reason "that is another invoice's button"
    """


@heals.command("list", short_help="List heals, newest first.")
@click.option("--workflow", help="Only heals of this workflow.")
@click.option("--run", "run_name", metavar="RUN", shell_complete=complete_run, help="Only heals of this run.")
@click.option("--waiting", is_flag=True, help="Only those that nobody has said anything about.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 1000))
@json_option
@click.pass_context
def list_heals(
    ctx: click.Context, workflow: str | None, run_name: str | None, waiting: bool, limit: int, as_json: bool
) -> None:
    """List heals, newest first: what was taken for what, how sure that was, and what became of it.

    Heals of attempts that failed afterwards are listed with --run.

    \b
    waiting    nobody has said anything yet
    applied    the workflow remembers it by itself; the plan does not say it yet
    accepted   somebody accepted it
    rejected   somebody rejected it: that element is not taken for that target any more

    \b
    Examples:
      recoup heals list
      recoup heals list --workflow invoice-sync --waiting
      recoup heals list --run last --json
    """
    from recoup.kernel.reviewing import heal_document

    async def work(app: App) -> None:
        from recoup.operations.heals import HealFilter, list_heals

        run_id = None if run_name is None else await app.runs.find(run_name)
        wanted = HealFilter(workflow=workflow, run_id=run_id, state="waiting" if waiting else None)
        found = await list_heals(app, wanted, limit)
        if as_json:
            print_json([heal_document(heal.workflow, heal.reviewed) for heal in found])
            return
        for heal in found:
            _print_line(heal)
        if not found:
            note("no heals" + (" match" if workflow or run_name or waiting else " yet"))

    with_app(ctx, work, makes_home=False)


@heals.command(short_help="Show one heal: before and after, and why.")
@heal_argument
@plan_option
@click.option("--open", "opens", is_flag=True, help="Open the picture with the boxes.")
@json_option
@click.pass_context
def show(ctx: click.Context, heal_name: str, plan: Path | None, opens: bool, as_json: bool) -> None:
    """Show one heal: before and after, the candidates, the evidence, and what accepting it would change.

    \b
    Examples:
      recoup heals show last/approve
      recoup heals show 20261115-0312/approve --json
      recoup heals show last/approve --open
    """

    async def work(app: App) -> None:
        heal = await _found(app, heal_name)
        pictures = await _pictures(app, heal)
        picture = _saved(heal, pictures) if opens else None
        diff, problem = await _would_change(app, heal, plan)
        if as_json:
            told = {"diff": diff, "problem": problem, "pictures": list(pictures), "picture": picture}
            print_json(_document(heal) | told)
        else:
            print_heal(heal, diff, problem, list(pictures))
        if picture is not None:
            note(f"picture   {picture}")
            click.launch(picture)

    with_app(ctx, work, makes_home=False)


@heals.command(short_help="Write the element that was taken into the plan.")
@click.argument("heal_name", metavar="[HEAL]", required=False)
@plan_option
@click.option(
    "--patch",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write a patch for a pull request instead of changing the plan.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--sure", is_flag=True, help="All that were verified and at least 90 % sure, instead of one.")
@click.option("--workflow", help="With --sure: only heals of this workflow.")
@click.option(
    "--dry-run", is_flag=True, help="Only show what would be accepted, changed and left alone, and why."
)
@json_option
@click.pass_context
def accept(
    ctx: click.Context,
    heal_name: str | None,
    plan: Path | None,
    patch: Path | None,
    yes: bool,
    sure: bool,
    workflow: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Accept HEAL: the step's target in the plan file becomes the element that was taken.

    Nothing else in the file is changed, not a comment and not a space. The change is shown first; on a terminal you
    are asked. The workflow remembers the element, too.

    With --sure, all heals that were verified and at least 90 % sure are accepted, where their plan is as it was run;
    the others are left alone, each with the reason.

    \b
    Examples:
      recoup heals accept last/approve
      recoup heals accept last/approve --yes --plan plans/invoices.yaml
      recoup heals accept 20261115-0312/approve --patch heal.patch
      recoup heals accept --sure --dry-run
      recoup heals accept --sure --yes --workflow invoice-sync
    """
    if (heal_name is None) != sure:
        raise UsageError(
            "name one HEAL, or give --sure for all that are", hint="List them: recoup heals list"
        )
    if workflow is not None and not sure:
        raise UsageError("--workflow belongs to --sure", hint="One HEAL is named by its run and step.")
    if patch is not None and patch.exists():
        raise UsageError(
            f"{patch} is there already", hint="Remove it first, or choose another name for --patch."
        )
    asks = not (yes or patch or dry_run)
    if asks and (as_json or not sys.stdin.isatty()):
        raise UsageError("nobody can be asked here", hint="Say --yes, or --patch FILE for a patch.")

    async def work(app: App) -> None:
        from recoup.cli import heal_accepting
        from recoup.operations.heal_acceptance import acceptance_of
        from recoup.operations.heals import unsaid_heals

        by = local_user()
        found = await unsaid_heals(app, workflow, _SURE_MAX) if sure else [await _found(app, heal_name or "")]
        acceptance = await acceptance_of(app, found, plan, heal_accepting.refused, one=not sure)
        if not as_json:
            heal_accepting.show_diffs(acceptance)
        if dry_run:
            heal_accepting.report(acceptance, by, None, as_json, dry_run=True)
            return
        if asks and acceptance.heals and not confirmed(heal_accepting.question(acceptance)):
            raise UsageError("nothing was accepted", hint="Look at each: recoup heals show RUN/STEP")
        await acceptance.carry_out(by, None if patch is None else partial(heal_accepting.write_patch, patch))
        _note(await app.chores.run())
        heal_accepting.report(acceptance, by, patch, as_json)

    with_app(ctx, work, makes_home=False)


@heals.command(short_help="Never take that element for that target again.")
@heal_argument
@click.option("--reason", required=True, help="Why; it is recorded.")
@json_option
@click.pass_context
def reject(ctx: click.Context, heal_name: str, reason: str, as_json: bool) -> None:
    """Reject HEAL: from now on that element is never taken for that target. The plan is not changed.

    \b
    Examples:
      recoup heals reject last/approve --reason "that is another invoice's button"
      recoup heals reject 20261115-0312/approve --reason "wrong row" --json
    """
    if not reason.strip():
        raise UsageError("--reason is empty", hint="Say why in a few words; it is recorded.")

    async def work(app: App) -> None:
        from recoup.operations.heals import reject_heal

        heal = await _found(app, heal_name)
        judged = await reject_heal(app, heal, local_user(), reason.strip())
        before = judged.before
        if before is not None and before.state == "accepted":
            raise UsageError(
                f"{heal.name} was accepted {_who(before)}: it cannot be rejected any more",
                hint="Change the target in the plan by hand; then this heal says nothing about it any more.",
            )
        _note(judged.troubles)
        heal = await _found(app, heal_name)
        if as_json:
            print_json(_document(heal))
        elif before is not None:
            say(f"{heal.name} was rejected {_who(before)} already: nothing is changed")
        else:
            say(f"{heal.name} is rejected: {_taken(heal)} is not taken for {heal.fact.target} any more")

    with_app(ctx, work, makes_home=False)


async def _found(app: App, name: str) -> Heal:
    run, _, rest = name.partition("/")
    step, _, number = rest.partition("/")
    if number and not number.isdecimal():
        raise UsageError(
            f"{name!r} is no heal: it is RUN/STEP, or RUN/STEP/ATTEMPT", hint="recoup heals list"
        )
    from recoup.operations.heals import find_heal

    try:
        run = await app.runs.find(run)
    except NotFound:
        if run == "last":
            raise
    return await find_heal(app, run, step, int(number) if number else None)


def _note(troubles: list[str]) -> None:
    for trouble in troubles:
        note(f"note: {trouble}")


async def _would_change(app: App, heal: Heal, plan: Path | None) -> tuple[str, str]:
    """The diff; why there is none, in words."""
    from recoup.operations.heal_acceptance import patch_for, plan_path

    try:
        path = plan_path(heal, plan)
    except UsageError as error:
        return "", error.message
    return await patch_for(app, heal, path)


async def _pictures(app: App, heal: Heal) -> dict[str, bytes]:
    """Of the evidence, by handle; without what was forgotten or is elsewhere."""
    from recoup.operations.evidence import evidence_of

    found = {}
    for handle in heal.fact.evidence:
        with contextlib.suppress(NotFound, StateError):
            content = await evidence_of(app, handle)
            if _suffix(content):
                found[handle] = content
    return found


def _suffix(content: bytes) -> str:
    """Nothing where it is no picture."""
    return next((suffix for sign, suffix in _PICTURES.items() if content.startswith(sign)), "")


def _saved(heal: Heal, pictures: dict[str, bytes]) -> str:
    """In a file of its own, that can be opened."""
    for content in pictures.values():
        with tempfile.NamedTemporaryFile(
            prefix="recoup-heal-", suffix=_suffix(content), delete=False
        ) as file:
            file.write(content)
        return file.name
    raise NotFound(f"{heal.name} has no picture", hint=f"See what there is: recoup heals show {heal.name}")


def _document(heal: Heal) -> dict[str, Any]:
    import msgspec

    from recoup.kernel.reviewing import changed_fields, heal_document

    fact = heal.fact
    changed = changed_fields(fact.before, fact.after) if fact.after else []
    document: dict[str, Any] = msgspec.to_builtins(heal_document(heal.workflow, heal.reviewed))
    return document | {
        "plan": heal.plan_source,
        "before": msgspec.to_builtins(fact.before),
        "after": msgspec.to_builtins(fact.after),
        "changed": [{"field": name, "before": old, "after": new} for name, old, new in changed],
        "runnerUp": msgspec.to_builtins(fact.runner_up),
        "runnerUpConfidence": fact.runner_up_confidence,
        "candidates": msgspec.to_builtins(fact.candidates),
    }


def _print_line(heal: Heal) -> None:
    one, fact = heal.reviewed, heal.fact
    proof = "verified" if fact.verified else "unverified"
    row = (
        f"{one.state.value:<9} {heal.name}  {minute(one.at.iso())}  {heal.workflow}: "
        f"{_taken(heal)} for {fact.target}, {proof}, {fact.confidence:.0%} sure"
    )
    say(one_line(row))


def print_heal(heal: Heal, diff: str, problem: str, pictures: list[str]) -> None:
    from recoup.kernel.reviewing import changed_fields
    from recoup.model.target import element_words

    one, fact = heal.reviewed, heal.fact
    say(f"heal      {heal.name}")
    say(f"workflow  {heal.workflow}")
    said = f" {_who(one.word)}: {one_line(one.word.reason)}" if one.word else ""
    say(f"state     {one.state.value}{said}")
    say(f"target    {fact.target}")
    proof = "verified by what the step expects" if fact.verified else "unverified: nothing proved it"
    say(f"taken     {_taken(heal)} ({fact.found_by}), {proof}")
    say(f"sure      {fact.confidence:.1%}, {fact.margin:.1%} ahead of the next")
    if fact.candidates:
        say("candidates")
        for one_of in fact.candidates:
            say(f"  {one_of.confidence:>6.1%}  {one_of.role} {one_of.name[:80]!r}")
    elif fact.runner_up is not None:
        likely = f" ({fact.runner_up_confidence:.1%})" if fact.runner_up_confidence is not None else ""
        say(f"next      {element_words(fact.runner_up)}{likely}")
    if fact.after is not None:
        say("changed" if fact.before is not None else "taken (what it was before is not known)")
        for name, old, new in changed_fields(fact.before, fact.after):
            say(f"  {name:<15} {old!r} → {new!r}" if fact.before is not None else f"  {name:<15} {new!r}")
    for handle in fact.evidence:
        boxes = f" (a picture with boxes; recoup heals show {heal.name} --open)" if handle in pictures else ""
        say(f"evidence  recoup show {fact.run_id} --evidence {handle[:19]}{boxes}")
    if problem:
        say(f"plan      {problem}")
    else:
        say("accepting it changes the plan:")
        say_lines(diff)


def _taken(heal: Heal) -> str:
    from recoup.model.target import element_words

    return element_words(heal.fact.after) if heal.fact.after else "an element of a run that was forgotten"


def _who(word: Word) -> str:
    return f"by {word.by or 'someone'} on {minute(word.at.iso())}"
