"""`completion`: a script for the shell, by which it asks `recoup` itself what can follow."""

from __future__ import annotations

import click

from recoup.terminal.writer import hand_over

_VARIABLE = "_RECOUP_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script that lets SHELL complete commands, options, runs, steps, plans and topics.

    \b
    bash, for this shell alone:
      source <(recoup completion bash)
    bash, from now on:
      recoup completion bash > ~/.recoup-completion.bash
      echo 'source ~/.recoup-completion.bash' >> ~/.bashrc
    zsh, from now on (after compinit in ~/.zshrc):
      recoup completion zsh > ~/.recoup-completion.zsh
      echo 'source ~/.recoup-completion.zsh' >> ~/.zshrc
    fish, from now on:
      recoup completion fish > ~/.config/fish/completions/recoup.fish

    Runs and steps are those whose files are on this machine. An update of Recoup needs no new script.

    \b
    Examples:
      recoup completion bash
      recoup completion fish > ~/.config/fish/completions/recoup.fish
    """
    from click.shell_completion import get_completion_class

    maker = get_completion_class(shell)
    assert maker is not None, f"click knows {shell}"
    script = maker(ctx.find_root().command, {}, "recoup", _VARIABLE).source()
    # What is offered may hold a comma itself: the name of a plan, a sentence about a command.
    hand_over(script.replace('string split "," $', 'string split --max 1 "," $') + "\n")
