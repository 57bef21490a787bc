"""``unshuffle completion``: completion of commands and options in the shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_EPILOG = """\b
Examples:
  eval "$(unshuffle completion bash)"     in ~/.bashrc
  eval "$(unshuffle completion zsh)"      in ~/.zshrc
  unshuffle completion fish | source      in ~/.config/fish/config.fish"""


@click.command(epilog=_EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell."""
    kind = get_completion_class(shell)
    assert kind is not None
    root = click.get_current_context().find_root().command
    click.echo(kind(root, {}, "unshuffle", "_UNSHUFFLE_COMPLETE").source())
