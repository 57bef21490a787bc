"""Help of the command line: light, in sections, with an example, and known to the shell."""

import re
import subprocess
import sys

import pytest

from command_line import start
from unshuffle.cli.app import COMMANDS, app, run


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


SECTIONS = {
    "Data": ["--label", "--base", "--id", "--labels", "--weight"],
    "Links between rows and labels": ["--mislinked"],
    "Model": ["--method", "--noise", "--seed"],
    "Reading files": ["--na", "--dates", "--delimiter"],
    "Results": ["--out", "--draws", "--figure", "--report", "--json", "--help"],
}


def test_help_lists_every_option_once_in_its_section(capsys):
    assert run(["fit", "--help"]) == 0
    text = capsys.readouterr().out
    places = [text.index(f"\n{name}:\n") for name in SECTIONS]
    assert places == sorted(places)
    for (name, options), start_, stop in zip(
        SECTIONS.items(), places, [*places[1:], len(text)], strict=True
    ):
        for option in options:
            lines = [
                line
                for line in text.splitlines()
                if re.match(rf"  (-., )?{option}[ ,]", f"{line} ")
            ]
            lines = [line for line in lines if "in numbers of their own" not in line]
            assert len(lines) == 1 and lines[0] in text[start_:stop], (name, option)
