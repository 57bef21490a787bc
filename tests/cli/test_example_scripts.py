"""The scripts of commands in examples/ run, and are those of their guides."""

import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from command_line import SRC

ROOT = SRC.parent
# Script → its guide, and files that it leaves.
SCRIPTS = {
    "fcs_pools": ("cytometry", ["coefficients.csv", "coefficients.svg", "fit.html"]),
    "register_audit": ("statistics-offices", ["audit.html", "exposed.csv", "draws.csv"]),
    "plan_fit": ("plan-to-fit", ["plan.csv", "plan.svg", "measured.csv", "fit.html"]),
}
all_scripts = pytest.mark.parametrize("name", SCRIPTS)


def list_commands(text):
    """Return the commands of a script or of a guide as lists of words."""
    lines = text.replace("\\\n", " ").splitlines()
    return [shlex.split(line) for line in lines if line.startswith("unshuffle ")]


@all_scripts
def test_a_guide_has_the_commands_of_its_script(name):
    guide = (ROOT / "docs" / "guides" / f"{SCRIPTS[name][0]}.md").read_text()
    shown = list_commands("\n".join(re.findall(r"```bash\n(.*?)```", guide, re.DOTALL)))
    assert shown == list_commands((ROOT / "examples" / f"{name}.sh").read_text())


def test_the_guide_shows_the_code_that_makes_the_register():
    guide = (ROOT / "docs" / "guides" / "statistics-offices.md").read_text()
    shown = re.search(r"```python\n(.*?)```", guide, re.DOTALL)[1]
    script = (ROOT / "examples" / "make_register.py").read_text().split('"""\n\n', 1)[1]
    script = script.replace("import sys\n", "")
    assert shown == re.sub(r"sys\.argv\[1\] if .* else ", "", script)


# The audit takes 20 s of one core, and the guide runs the same commands.
# The pages of the guides run the same commands in `make test`.
@pytest.mark.slow
@all_scripts
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_a_script_runs_from_files_to_results(name, tmp_path):
    pytest.importorskip("flowio")
    pytest.importorskip("matplotlib")
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "unshuffle"
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m unshuffle "$@"\n')
    command.chmod(0o755)
    (tmp_path / "bin" / "python").symlink_to(sys.executable)
    env = {
        **os.environ,
        "PATH": os.pathsep.join([str(tmp_path / "bin"), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join([str(SRC), *sys.path]),
    }
    script = ["bash", str(ROOT / "examples" / f"{name}.sh"), str(tmp_path / "out")]
    done = subprocess.run(script, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "dentified" in done.stdout and "Traceback" not in done.stderr
    for file in SCRIPTS[name][1]:
        assert (tmp_path / "out" / file).stat().st_size > 100, file
    page = tmp_path / "out" / "fit.html"
    if name == "fcs_pools" and 'id="paper"' in page.read_text():
        # The script ends with the sentence for a paper, as the report has it.
        assert done.stdout.splitlines()[-1].endswith(".")
