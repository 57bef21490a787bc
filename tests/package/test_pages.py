"""The documentation runs, is whole, and quotes the figures that the benchmarks have."""

import ast
import importlib.util
import re
import sys
from pathlib import Path

import pytest

import unshuffle
from printed import find_difference, find_json_difference
from unshuffle import METHODS, design
from unshuffle.cli.app import COMMANDS
from unshuffle.results.limits import LIMITS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
if not DOCS.is_dir():  # the source distribution has none
    pytest.skip("there is no documentation here", allow_module_level=True)


def load(name):
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


run_pages, check_links, benchmark_tables, plain_links, site_figures = map(
    load, ("run_pages", "check_links", "benchmark_tables", "plain_links", "site_figures")
)

# Pages that simulate experiments, or sample an audit, take more than ten seconds.
LONG = ("guides/planning.md", "guides/statistics-offices.md", "reference/python.md")
PAGES = [page.relative_to(DOCS).as_posix() for page in run_pages.find_pages()]
GALLERY = sorted((DOCS / "gallery").glob("plot_*.py"))
# What a test cannot run: installing, other people's files, schedulers elsewhere.
NOT_RUN = re.compile(r"^(pip install |unshuffle fit (run1\.fcs|'runs/))")


needs_results = pytest.mark.skipif(
    not site_figures.RESULTS.is_dir(), reason="the benchmarks' results are not here"
)


def read(name):
    return (DOCS / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "name", [pytest.param(p, marks=[pytest.mark.slow] if p in LONG else []) for p in PAGES]
)
def test_a_page_prints_what_it_shows(name, monkeypatch):
    for needed in re.findall(r"^import (pandas|flowio|pyarrow|dask)", read(name), re.MULTILINE):
        pytest.importorskip(needed)
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.setenv("UNSHUFFLE_DATA", "")
    _, differences = run_pages.run_page(DOCS / name)
    assert not differences, "run: make expected\n\n" + "\n".join(map(str, differences))


@pytest.mark.parametrize("name", [p for p in PAGES if not p.startswith("reference")])
def test_every_block_of_code_is_run_or_cannot_be(name):
    blocks = re.findall(r"^```(\S*)\n(.*?)^```", read(name), re.DOTALL | re.MULTILINE)
    assert blocks
    for kind, code in blocks:
        assert kind in ("python", "bash", "text", "sh", "{toctree}"), kind
        if kind == "sh":
            assert all(NOT_RUN.match(line) for line in code.splitlines()), code


ALIKE = {
    "widths": ("error 0.100 of 12 rows\n───\n", "error  0.101 of 12 rows\n────\n"),
    "two percent": ("error 1.019.", "error 1.000."),
    "the last decimal": ("0.1 ± 0.02", "0.1 ± 0.03"),
    "a power of ten": ("1.2e-08, 1e+03", "1.3e-08, 1.01e+03"),
    "percentages": ("16%, 7 %", "17%, 8 %"),
}
UNLIKE = {
    "the second digit": ("error 0.100", "error 0.104"),
    "two units": ("0.1 ± 0.02", "0.1 ± 0.04"),
    "counts": ("of 12 rows", "of 13 rows"),
    "percentages": ("16%", "18%"),
    "signs": ("error 0.1", "error -0.1"),
    "words": ("error 0.100", "gap 0.100"),
    "more words": ("error 0.100", "error 0.100 of"),
    "a number less": ("1, 2", "1, –"),
}


def test_outputs_agree_in_words_exactly_and_in_numbers_as_far_as_they_are_meant():
    for name, pair in ALIKE.items():
        assert not find_difference(*pair), name
    for name, pair in UNLIKE.items():
        assert find_difference(*pair), name
    assert not find_difference("took 3 s", "took 9 s", has_numbers=False)
    assert find_difference("took 3 s", "took 9 min", has_numbers=False)
    known = {"a": [0.5, 3, None], "said": "error 0.100"}
    assert not find_json_difference({"a": [0.505, 3, None], "said": "error 0.101"}, known)
    for found in ([0.5, 4, None], [0.5, 3.0, None], [0.6, 3, None], [0.5, 3], [0.5, 3, 0.0]):
        assert find_json_difference({**known, "a": found}, known), found
    for found in ({**known, "said": "gap 0.100"}, {"said": "error 0.100"}, []):
        assert find_json_difference(found, known), found


def test_a_page_that_shows_something_else_is_found_and_mended(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n")
    text, differences = run_pages.run_page(page)
    assert len(differences) == 1 and "```text\n2\n```\n" in text
    page.write_text(text)
    assert run_pages.run_page(page) == (text, [])


@pytest.mark.parametrize("name", METHODS)
def test_every_method_is_described(name):
    section = re.search(rf"^### {re.escape(name)}\n(.*?)(?=^##)", read("methods.md"), re.S | re.M)
    assert section, f"methods.md has no section '{name}'"
    if METHODS[name].place is not None:
        for word in ("Idea", "Formula", "Assumption", "Cost", "When"):
            assert re.search(rf"\*\*[^*]*{word}", section[1], re.I), f"{name} says no {word}"


def test_every_public_name_is_in_the_reference():
    listed = set(re.findall(r"^   (\w+)$", read("reference/python.md"), re.MULTILINE))
    public = {*unshuffle._NAMES, *design.__all__} - {"METHODS"}
    assert public - listed == set() and listed - public == set()


def test_every_picture_is_drawn_in_the_reference():
    page = read("reference/python.md")
    pictures = [name for name in unshuffle._NAMES if name.startswith("plot_")]
    assert [name for name in pictures if f"un.{name}(" not in page] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_shows_what_it_prints(name):
    section = read("reference/commands.md").split(f"\n## {name}\n")[1].split("\n## ")[0]
    assert f"unshuffle {name}" in section
    assert re.search(r"```text\n[^`]", section)


def test_the_gallery_has_a_dozen_scripts_of_one_picture_each():
    assert len(GALLERY) >= 12
    for script in GALLERY:
        text = script.read_text(encoding="utf-8")
        title, rule, *_ = ast.get_docstring(ast.parse(text)).splitlines()
        assert rule == "=" * len(title), script.name
        assert text.count("plt.show()") == 1 and text.endswith("plt.show()\n"), script.name


def test_pictures_that_pages_show_are_in_the_repository():
    scripts = {script.stem for script in GALLERY}
    shown = set()
    for page in DOCS.rglob("*.md"):
        for target in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).is_file(), f"{page.name} shows {target}"
            shown.add(Path(target))
    drawn = {path.stem for path in shown if path.parent.name == "gallery"}
    assert drawn and drawn <= scripts


def test_pages_read_well_without_the_site():
    for page in DOCS.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        assert not plain_links.ROLE.search(text), f"{page.name}: run: docs/site_figures.py"
        assert "{{" not in text, f"{page.name} shows a placeholder"


def test_sentences_of_readme_and_pages_are_short(capsys):
    path = ROOT / "packaging" / "sentence_length.py"
    if not path.is_file():
        pytest.skip("the source distribution has no script for this")
    spec = importlib.util.spec_from_file_location("sentence_length", path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.main(["README.md", "docs"]) == 0, capsys.readouterr().out


def test_pages_that_the_code_names_exist():
    named = re.compile(r"\bdocs/[\w/-]+\.md\b")
    files = [ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "Makefile"]
    for folder in ("src", "benchmarks", "examples", "docs"):
        files += [
            path for path in (ROOT / folder).rglob("*.py") if "auto_gallery" not in path.parts
        ]
    for path in files:
        if path.is_file():
            for page in named.findall(path.read_text(encoding="utf-8")):
                assert (ROOT / page).is_file(), f"{path.relative_to(ROOT)} names {page}"


def test_roles_become_links(tmp_path):
    page = DOCS / "guides" / "register.md"
    text = "{term}`bags <bag>` {doc}`../start` {doc}`here </auto_gallery/plot_10_anchors>`"
    assert plain_links.link_page(text, page) == (
        "[bags](../glossary.md#bag) [Quick start](../start.md) "
        "[here](../gallery/plot_10_anchors.py)"
    )


def test_terms_that_pages_link_to_are_in_the_glossary():
    terms = {plain_links.slug(t) for t in re.findall(r"^### (.+)$", read("glossary.md"), re.M)}
    for page in DOCS.rglob("*.md"):
        linked = re.findall(r"glossary\.md#([\w-]+)\)", page.read_text(encoding="utf-8"))
        assert set(linked) <= terms, page.name


@needs_results
def test_the_page_of_benchmarks_has_every_table():
    page = read("benchmarks.md")
    for name in benchmark_tables.TABLES:
        section = page.split(f"<!-- {name} -->")[1].split(f"<!-- end of {name} -->")[0]
        assert section.count("\n|") > 2 or "```text" in section, name
        assert not re.search(r"\bnan\b", section), name


def test_samples_of_pages_name_no_folder_of_the_machine(tmp_path):
    pytest.importorskip("jinja2")
    site_figures.write_samples(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"demo.html", "audit.html"}
    for page in tmp_path.iterdir():
        assert str(tmp_path) not in page.read_text(encoding="utf-8")


@needs_results
def test_pages_hold_the_figures_that_they_quote_as_they_are():
    quotes, texts = site_figures.quote_all(), site_figures.quote_texts()
    n_quoted = 0
    for page in DOCS.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        assert site_figures.quote_page(text, quotes, texts) == text, "run: docs/site_figures.py"
        n_quoted += len(site_figures.QUOTE.findall(text))
    assert n_quoted > 40


def test_figures_that_changed_are_put_into_pages():
    old = "in 3<!-- a --> of 86 to 88<!-- b --> (–<!-- a -->)\n<!-- c -->\nx<!-- end of c -->"
    new = "in 0.5<!-- a --> of –<!-- b --> (0.5<!-- a -->)\n<!-- c -->\n\ny\n\n<!-- end of c -->"
    assert site_figures.quote_page(old, {"a": "0.5", "b": "–"}, {"c": "y"}) == new


@needs_results
def test_the_readme_quotes_the_benchmarks_as_they_are():
    quotes = site_figures.quote_corpus()
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())

    def list_all(name):
        return [quotes[f"{name}_{bags}"] for bags in site_figures.BAGS]

    for corpus in site_figures.CORPORA:
        for words, name in (("signs determined, %", "signs"), ("mean relative error", "error")):
            assert f"| {words} | {' | '.join(list_all(f'{corpus}_{name}'))} |" in readme
    (low, high), (least, most) = (
        (min(shares), max(shares))
        for shares in ([int(x) for x in list_all(f"{c}_coverage")] for c in site_figures.CORPORA)
    )
    said = (
        f"covered {low} to {high} % of these OLS coefficients at the higher R², {least} to {most} %"
    )
    assert said in readme
    # Random bags divide every table, natural ones only some.
    n_tables = sum(int(quotes[f"{corpus}_fits_1"]) for corpus in site_figures.CORPORA)
    assert f"On {n_tables} real tables" in readme


@needs_results
def test_the_sentences_on_limits_quote_the_benchmarks_as_they_are():
    quotes = site_figures.quote_all()
    clean, noisy = (
        [quotes[f"{corpus}_signs_{bags}"] for bags in ("1", "4", "10")]
        for corpus in site_figures.CORPORA
    )
    one, four, ten = clean
    assert f"on {quotes['tables_1']} real tables" in LIMITS
    said = f"{one} % of the coefficients with one bag, {four} % with four bags and {ten} % with ten"
    assert said in LIMITS
    assert f"it was {noisy[0]}, {noisy[1]} and {noisy[2]} %" in LIMITS


def test_the_readme_quotes_the_errors_on_the_papers_data_from_the_decision():
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    decision = " ".join(read("decisions/001-one-posterior.md").split())
    now, before = re.search(
        r"mean error (\.\d+) over the 65 cells .*? where version 0\.1\.0 had (\.\d+)", decision
    ).groups()
    assert f"the mean error is {now}, where version 0.1.0 had {before} " in readme


def test_indices_of_accented_letters_stand_beside_them():
    pytest.importorskip("docutils.utils.math.latex2mathml")
    make_formula = load("mathml").make_formula
    plain = make_formula(r"\bar y_r").split(">", 1)[1]
    assert plain == (
        '<msub><mover accent="false"><mi>y</mi><mo stretchy="false">‾</mo></mover>'
        "<mi>r</mi></msub></math>"
    )
    assert "munderover" in make_formula(r"\sum_{i=1}^n i", is_block=True)  # limits stay limits
    assert "log" in make_formula(r"n \log n")  # of which docutils makes an entity of HTML


def test_a_link_that_leads_nowhere_is_found(tmp_path):
    (tmp_path / "a.html").write_text('<a href="b.html#x">b</a><a href="https://x.org">x</a>')
    (tmp_path / "b.html").write_text('<p id="x"><img src="gone.png"><a href="a.html#y">a</a></p>')
    found = check_links.find_broken(tmp_path)
    assert found == [
        "b.html: a.html#y is no place on that page",
        "b.html: gone.png is no file",
    ]
