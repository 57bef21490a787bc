"""What is released says the same everywhere: version, dependencies, licence."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

import unshuffle

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(
    not (ROOT / "packaging").exists(), reason="an installed package has no packaging folder"
)


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def project() -> dict:
    return tomllib.loads(read("pyproject.toml"))["project"]


def test_the_version_is_the_same_everywhere():
    version = unshuffle.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    assert f'{{% set version = "{version}" %}}' in read("packaging/conda/meta.yaml")
    assert f"version: {version}\n" in read("CITATION.cff")
    assert re.search(rf"^## {re.escape(version)} ", read("CHANGELOG.md"), re.MULTILINE)


def test_the_conda_recipe_needs_what_the_wheel_needs():
    needed = {re.sub(r"\s", "", each) for each in project()["dependencies"]}
    recipe = read("packaging/conda/meta.yaml").split("  run:\n")[1].split("\ntest:")[0]
    listed = {re.sub(r"\s", "", line)[1:] for line in recipe.splitlines() if line.strip()}
    assert listed == needed | {f"python{project()['requires-python']}"}


def test_the_conda_recipe_renders_and_builds_from_the_sdist():
    jinja2 = pytest.importorskip("jinja2", reason="jinja2 comes with the extra report")
    yaml = pytest.importorskip("yaml", reason="pyyaml comes with Dask")
    text = jinja2.Template(read("packaging/conda/meta.yaml"), undefined=jinja2.StrictUndefined)
    recipe = yaml.safe_load(text.render(PYTHON="python"))
    name = f"unshuffle-{unshuffle.__version__}.tar.gz"
    sdist = (ROOT / "packaging" / "conda" / recipe["source"]["url"]).resolve()
    assert sdist == (ROOT / "dist" / name).resolve()
    scripts = [" = ".join(pair) for pair in project()["scripts"].items()]
    assert recipe["build"]["entry_points"] == scripts
    built_by = tomllib.loads(read("pyproject.toml"))["build-system"]["requires"]
    assert {*built_by, "pip"} <= set(recipe["requirements"]["host"])
    assert recipe["about"]["license"] == project()["license"]
    assert recipe["about"]["summary"] == project()["description"]


def test_every_python_that_is_promised_is_tested():
    promised = {
        each.rsplit(" ", 1)[1]
        for each in project()["classifiers"]
        if re.search(r":: 3\.\d+$", each)
    }
    workflow = read(".github/workflows/ci.yml")
    listed = re.search(r"python: \[(.*)\]", workflow)[1]
    assert set(re.findall(r'"([\d.]+)"', listed)) == promised
    assert f">={min(promised, key=lambda v: int(v.split('.')[1]))}" == project()["requires-python"]


@pytest.mark.parametrize("name", ["ci.yml", "docs.yml", "publish.yml"])
def test_workflows_are_yaml_whose_steps_do_something(name):
    yaml = pytest.importorskip("yaml", reason="pyyaml comes with Dask")
    workflow = yaml.safe_load(read(f".github/workflows/{name}"))
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 30
        assert all(("run" in step) != ("uses" in step) for step in job["steps"])


def test_files_that_the_image_copies_are_there():
    copied = re.findall(r"^COPY (.*) \S+$", read("Dockerfile"), re.MULTILINE)
    names = [name for line in copied for name in line.split()]
    assert names and all((ROOT / name).exists() for name in names)
    extras = re.search(r"/src\[(.*?)\]", read("Dockerfile"))[1].split(",")
    assert set(extras) <= set(project()["optional-dependencies"])


def test_the_image_runs_the_demo_where_its_user_may_write():
    lines = [line for line in read("Dockerfile").splitlines() if line and line[0] != "#"]
    place = lines.index("RUN unshuffle demo && rm unshuffle-demo.html")
    workdir = next(line for line in lines if line.startswith("WORKDIR")).split()[1]
    assert lines.index("USER 1000") < place and lines.index(f"WORKDIR {workdir}") < place
    assert workdir.startswith("/home/") and f"={workdir}/" in read("Dockerfile")


def test_an_interpreter_that_only_has_a_name_is_left_out(tmp_path):
    """Version managers put commands into the PATH that end with 127 where none is active."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash to run the script")
    for name in ("python3", "python3.98", "python3.99"):
        (tmp_path / name).write_text("#!/bin/sh\necho 'not active' >&2\nexit 127\n")
        (tmp_path / name).chmod(0o755)
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    found = subprocess.run(
        [bash, ROOT / "packaging" / "check_dist.sh", "newest", "python3.98", "python3.99"],
        env={**os.environ, "PATH": path}, capture_output=True, text=True,
    )  # fmt: skip
    assert found.returncode == 1
    assert "python3.98: does not run here, left out" in found.stdout
    assert found.stderr == "none of python3.98 python3.99 runs here: name an interpreter\n"
