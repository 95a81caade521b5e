"""The `recoup` command. Commands are imported when they are called, so that `--help` is quick."""

from __future__ import annotations

import gc
import importlib
import os
import sys
import types
from typing import TYPE_CHECKING, NoReturn

import click

from recoup import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

OBJECTS_LOADED = 250_000
"""Before the collector looks for cycles for the first time: more than a short command makes in its whole life."""
OBJECTS_MADE = 20_000
"""Before it looks again; Python's own is 700."""

_COMMANDS = {
    "run": ("recoup.cli.run:run", "Run a plan in the foreground."),
    "check": ("recoup.cli.check:check", "Say everything that is wrong with a plan."),
    "resume": ("recoup.cli.run:resume", "Go on with a run: in place, or, if it has ended, in a new one."),
    "submit": ("recoup.cli.submit:submit", "Submit a plan to a queue, for workers."),
    "worker": ("recoup.cli.worker:worker", "Drive what was submitted, until told to stop."),
    "workers": ("recoup.cli.worker:workers", "List the workers and what they drive."),
    "serve": ("recoup.gateway.command:serve", "Serve the HTTP API, with workers if you like."),
    "tokens": ("recoup.gateway.command:tokens", "Make, list and revoke the tokens of the HTTP API."),
    "mcp": ("recoup.mcp.command:mcp", "Serve MCP: tools for agents, inside a step or outside."),
    "webhooks": ("recoup.gateway.hook_command:webhooks", "Tell others of events as they come."),
    "queue": ("recoup.cli.queue:queue", "Show what waits and what was given up; try it again."),
    "runs": ("recoup.cli.look:runs", "List runs, newest first."),
    "show": ("recoup.cli.look:show", "Show one run, or a piece of its evidence."),
    "events": ("recoup.cli.look:events", "Print the facts of a run, as they come with --follow."),
    "ledger": ("recoup.cli.look:ledger", "Show the known-good prefix and the frontier of a run."),
    "logs": ("recoup.cli.look:logs", "Print what the steps of a run printed, redacted."),
    "report": ("recoup.cli.report:report", "Write one page about a run, or Markdown for a pull request."),
    "redact": ("recoup.cli.redact:redact", "Print a text without the secrets in it."),
    "control": ("recoup.cli.control:control", "Steer a run: pause, resume, take over, approve, cancel ..."),
    "escalations": (
        "recoup.cli.escalations:escalations",
        "What waits for a person; take it on, be done with it.",
    ),
    "import": ("recoup.cli.importing:importing", "Turn another program's plan into a plan of Recoup."),
    "heals": ("recoup.cli.heals:heals", "Look through what was taken for targets that had changed."),
    "mode": ("recoup.cli.mode:mode", "Show or set the mode of a workflow: running, degraded, paused ..."),
    "memory": ("recoup.cli.memory:memory", "Show what a workflow has learned, and take it back."),
    "audit": ("recoup.cli.audit:audit", "Export every event to files with a hash chain, and verify them."),
    "prune": ("recoup.cli.prune:prune", "Forget runs that ended long ago, with everything of theirs."),
    "probe": ("recoup.cli.probe:probe", "Look after processes and channels here, within strict limits."),
    "simulate": ("recoup.cli.simulate:simulate", "Say what another policy would have decided."),
    "policy": ("recoup.cli.rules:policy", "Show or check the policy."),
    "schema": ("recoup.cli.rules:schema", "Print the JSON Schema of a file that people write."),
    "record": ("recoup.cli.record:record", "Write a plan of what you do in a browser."),
    "browser": ("recoup.cli.browser:browser", "Get the browser that `browser:` steps need."),
    "doctor": ("recoup.cli.doctor:doctor", "Say what this machine can and cannot do."),
    "demo": ("recoup.cli.demo:demo", "Watch a plan get through a hang, a loop and a leak."),
    "help": ("recoup.cli.helping:helping", "Short pages: plans, recovery, a stuck run, exit codes ..."),
    "completion": ("recoup.cli.completion:completion", "Let bash, zsh or fish complete what you type."),
}


class LazyGroup(click.Group):
    """Knows its commands by name; loads the one that is called."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, words) in _COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """By their names alone: click itself would load every command for its help."""
        from click.shell_completion import CompletionItem

        near = [(name, words) for name, (_, words) in _COMMANDS.items() if name.startswith(incomplete)]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*(CompletionItem(name, help=words) for name, words in near), *options]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name and name not in _COMMANDS and not name.startswith("-"):
            import difflib

            near = difflib.get_close_matches(name, _COMMANDS, 1)
            ctx.fail(f"No such command {name!r}." + (f" Did you mean {near[0]!r}?" if near else ""))
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="recoup %(version)s")
@click.option("--home", metavar="DIR", help="Where state lives (RECOUP_HOME).")
@click.option("--utc", is_flag=True, help="Show times in UTC, not in the zone of this machine.")
@click.pass_context
def recoup(ctx: click.Context, home: str | None, utc: bool) -> None:
    """Get long automated work through failure.

    Recoup runs plans of steps, notices that a step is stuck or broken, says why, applies one bounded recovery
    action, proves that it worked, and hands over to a person rather than loop.

    \b
    Examples:
      recoup run plan.yaml --input customer=acme
      recoup runs
      recoup show last
      recoup help stuck-run
    """
    ctx.obj = {"home": home}
    if utc:
        from recoup.terminal.moments import use_utc

        use_utc()


def main() -> NoReturn:
    """The entry point: errors become words and an exit code."""
    gc.set_threshold(OBJECTS_LOADED)
    gc.callbacks.append(_loaded)
    _leave_plugins_out()
    from recoup.errors import MachineTrouble, RecoupError, StateError

    try:
        code = recoup.main(standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.ClickException as error:
        from io import StringIO

        from recoup.terminal.writer import note_lines

        error.show(told := StringIO())
        note_lines(told.getvalue())
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # also for what is flushed at the end
        sys.exit(0)
    except (RecoupError, OSError) as error:
        from recoup.cli.output import print_error

        # The disk may fail anywhere: people can fix that, and our program cannot.
        sys.exit(print_error(StateError.of(error) if isinstance(error, OSError) else error))
    except (MemoryError, RuntimeError) as error:
        from recoup.cli.output import print_error
        from recoup.machine import lack_behind

        if (lack := lack_behind(error)) is None:
            raise
        sys.exit(print_error(MachineTrouble(lack)))
    except ImportError as error:
        from recoup.cli.output import print_error

        if isinstance(error, ModuleNotFoundError):
            raise
        # The loader says why in words only: no descriptor or no memory left, or a library that does not fit.
        hint = "Raise the limit on open files or memory if it says so; otherwise install Recoup again."
        sys.exit(print_error(MachineTrouble(f"a library cannot be loaded: {error}", hint=hint)))
    finally:
        gc.freeze()  # at the end Python would look through all that was ever loaded once more: a tenth of a short run


def _leave_plugins_out() -> None:
    """Plugins of pydantic: it would look for them in every package that is installed, which takes longer than to read a
    plan, and none of them shall have a say in what a plan means. Where it asks by another name it looks as before."""
    none = types.ModuleType("pydantic.plugin._loader")
    vars(none)["get_plugins"] = tuple
    sys.modules.setdefault(none.__name__, none)


def _loaded(phase: str, _told: dict[str, int]) -> None:
    """Loading makes a great many objects that stay: to look through them all again and again is for nothing."""
    if phase == "stop":
        gc.callbacks.remove(_loaded)
        gc.freeze()
        gc.set_threshold(OBJECTS_MADE)


if __name__ == "__main__":
    main()
