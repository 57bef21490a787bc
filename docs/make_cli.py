"""Put the help texts of the commands into their page, `reference/commands.md`.

They stand between comments (``<!-- options of fit -->`` and ``<!-- end of options of fit -->``);
what stands outside is written by hand.

Run: python docs/make_cli.py
"""

import re
from pathlib import Path

import click

from unshuffle.cli.app import app

PAGE = Path(__file__).with_name("reference") / "commands.md"
WIDTH = 96


def make_page() -> str:
    """Return the page with the help of every command as it is now."""
    settings = {**app.context_settings, "terminal_width": WIDTH, "max_content_width": WIDTH}
    root = click.Context(app, info_name="unshuffle", **settings)
    text = _replace(PAGE.read_text(encoding="utf-8"), "unshuffle", app.get_help(root))
    for name in app.list_commands(root):
        command = app.get_command(root, name)
        assert command is not None
        context = click.Context(command, info_name=name, parent=root)
        text = _replace(text, name, command.get_help(context))
    return text


def _replace(page: str, name: str, shown: str) -> str:
    """Return the page with another help text of a command."""
    mark = f"options of {name}"
    block = f"<!-- {mark} -->\n\n```text\n{shown.strip()}\n```\n\n<!-- end of {mark} -->"
    pattern = f"<!-- {mark} -->.*?<!-- end of {mark} -->"
    if not re.search(pattern, page, re.DOTALL):
        raise SystemExit(f"{PAGE.name} has no marks called '{mark}'")
    return re.sub(pattern, lambda _: block, page, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(make_page(), encoding="utf-8")
