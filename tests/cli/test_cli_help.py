"""Help of the command line: light, in sections, with an example, and known to the shell."""

import subprocess
import sys

import click
import pytest

from command_line import start
from unshuffle.cli.app import COMMANDS, app, run
from unshuffle.cli.sections import SECTIONS


def test_help_imports_nothing_heavy():
    code = (
        "import sys; from unshuffle.cli.app import run; run(['--help']); "
        "print(sorted({'numpy', 'scipy', 'sklearn', 'numba', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_help_answers_in_a_process_of_its_own():
    # No test asserts a time: that nothing heavy is imported, above, makes it fast.
    process = start(["--help"])
    out, err = process.communicate()
    assert process.returncode == 0
    assert b"Usage: unshuffle" in out and err == b""


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name, capsys):
    assert run([name, "--help"]) == 0
    text = capsys.readouterr().out
    assert "Example" in text and f"unshuffle {name}" in text


@pytest.mark.parametrize("name", ["fit", "match", "compare", "predict", "plan", "audit"])
def test_options_stand_in_sections_with_common_ones_first(name, capsys):
    assert run([name, "--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    heads = [line for line in lines if line in ("Options:", "Data:", "Model:", "Output:")]
    assert heads == sorted(heads, key=["Options:", "Data:", "Model:", "Output:"].index)
    assert {"Data:", "Output:"} <= set(heads)
    below = lines[lines.index(heads[0]) :]
    shown = [line.split()[0].strip(",") for line in below if line.startswith("  -")]
    command = app.get_command(None, name)
    # Each option once, whatever section it is in.
    assert (
        len(shown)
        == len(set(shown))
        == len(command.get_params(click.Context(command)))
        - sum(isinstance(param, click.Argument) for param in command.params)
    )
    if name == "fit":
        assert shown[:3] == ["--label", "--features", "--bag"] and "Options:" not in heads
        assert shown.index("--method") < shown.index("--seed") < shown.index("--report")


def test_every_option_of_a_section_is_one_of_some_command():
    commands = [app.get_command(None, name) for name in COMMANDS]
    known = {param.name for command in commands for param in command.params}
    assert {name for names in SECTIONS.values() for name in names} - known == {"help"}


def test_version_is_printed(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("unshuffle ")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(shell, capsys):
    assert run(["completion", shell]) == 0
    assert "_UNSHUFFLE_COMPLETE" in capsys.readouterr().out


def test_the_shell_completes_commands_and_methods():
    from click.shell_completion import ShellComplete

    complete = ShellComplete(app, {}, "unshuffle", "_UNSHUFFLE_COMPLETE")
    assert [each.value for each in complete.get_completions([], "sim")] == ["simulate"]
    offered = complete.get_completions(["fit", "--method"], "p")
    assert {"p1", "p2", "paper"} <= {each.value for each in offered}
