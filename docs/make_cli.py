"""Write `cli.md`, the page of the commands, from their own help texts.

Run: python docs/make_cli.py
"""

from pathlib import Path

import click

from unshuffle.cli.app import app

PAGE = Path(__file__).with_name("cli.md")
WIDTH = 96

HEAD = """# The command line

<!-- Written by docs/make_cli.py from the help texts of the commands: change those, not this. -->

Results go to stdout, messages and progress to stderr; `--json` prints one JSON object and nothing
else. There is no colour where `NO_COLOR` is set or the output is no terminal.

What the objects of `describe`, `fit` (and `demo`), `compare`, `plan`, `audit` and `predict` hold
is described key by key in JSON Schemas that come with the package: `schema/fit.schema.json`,
`describe.schema.json`, `compare.schema.json`, `plan.schema.json`, `audit.schema.json` and
`predict.schema.json`, for instance
`importlib.resources.files("unshuffle") / "schema" / "plan.schema.json"`.
"""


def make_page() -> str:
    """Return the page: the help of every command, in the order of the table."""
    settings = {**app.context_settings, "terminal_width": WIDTH, "max_content_width": WIDTH}
    root = click.Context(app, info_name="unshuffle", **settings)
    parts = [HEAD, _block(app.get_help(root))]
    for name in app.list_commands(root):
        command = app.get_command(root, name)
        assert command is not None
        context = click.Context(command, info_name=name, parent=root)
        parts += [f"## unshuffle {name}", _block(command.get_help(context))]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _block(text: str) -> str:
    return f"```text\n{text.rstrip()}\n```"


if __name__ == "__main__":
    PAGE.write_text(make_page(), encoding="utf-8")
