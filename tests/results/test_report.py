"""The report: verdict first, everything escaped, one small file that asks for nothing."""

import copy
import dataclasses
import datetime
import functools
import http.server
import itertools
import json
import re
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest

from command_line import FIT
from page_reader import HOSTILE, Page, fit
from unshuffle import ShuffledLinearRegression, make_shuffled, write_report
from unshuffle.cli.app import run
from unshuffle.core.solution import Status
from unshuffle.core.uncertainty import Posterior
from unshuffle.errors import InputError
from unshuffle.results.determined import DETERMINED_RULE
from unshuffle.results.limits import LIMITS
from unshuffle.results.paper_text import write_paper_text
from unshuffle.results.pictures.drawing import render_figure
from unshuffle.results.report import write_report_pictures

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

CSS = Path(__file__).parents[2] / "src" / "unshuffle" / "templates" / "page.css"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def report(path, model, data, **how):
    write_report(model, path, data.X, data.y, data.groups, **how)
    return path.read_text(encoding="utf-8")


@functools.cache
def report_once(method="likelihood"):
    """Return the report of the data of `fit` by a method, written once for several tests."""
    with tempfile.TemporaryDirectory() as folder:
        return report(Path(folder) / "r.html", *fit(method))


@pytest.fixture
def without_pictures(monkeypatch):
    """Draw nothing, for tests of what is written."""
    monkeypatch.setattr("unshuffle.results.report.list_drawings", lambda *args: [])


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    model, data = fit(d=len(HOSTILE), names=HOSTILE, n=150, bags=10)
    path = tmp_path_factory.mktemp("report") / "r.html"
    origin = {"version": "1", "seed": 3, "command": "unshuffle fit '<i>.csv'", "data_sha256": "ab"}
    notes = ["column '<u>' was <b>dropped</b>"]
    return path, report(path, model, data, source="<i>.csv", notes=notes, provenance=origin)


def test_the_verdict_comes_before_everything_else():
    page, sentence = Page(report_once()), fit()[0].summary().reason
    assert page.text.index(sentence) < page.text.index("Coefficients")


def test_the_title_names_label_file_and_date(tmp_path):
    model, data = fit("ls")
    written = datetime.date(2021, 3, 4)
    text = report(tmp_path / "r.html", model, data, label="<pH>", source="a.csv", written=written)
    page = Page(text)
    beginning = page.text[: page.text.index("Not assessed", 20)]
    assert all(
        words in beginning for words in ("<pH>", "a.csv", "2021-03-04", "120 rows in 6 bags")
    )
    assert "prediction of a bag, <pH>" in page.text


def test_a_base_level_stands_above_its_category(tmp_path, without_pictures):
    model, data = fit("ls", names=["colour=red", "x"])
    text = report(tmp_path / "r.html", model, data, base_levels={"colour": "blue"})
    page = Page(text).text
    assert page.index("colour=blue base level") < page.index("colour=red")


def test_every_picture_that_the_data_allow_is_drawn():
    drawn = re.findall(r'<h3 id="[^"]*">(.*?)</h3>', report_once())
    assert drawn[:6] == [
        "Coefficients in common units",
        "Labels and predictions",
        "Means of the bags",
        "Goodness of fit",
        "Predictions and matched labels",
        "Joint posterior of coefficients",
    ]
    assert "Noise" in drawn and "Size of the random bag effects" in drawn
    assert "Offsets of the bags" not in drawn  # none were seen


def test_hostile_text_is_shown_as_it_is_and_never_obeyed(hostile):
    _, text = hostile
    page = Page(text)
    assert not {"script", "img", "i", "b", "u"} & {tag for tag, _ in page.tags}
    for name in HOSTILE[:-1]:
        assert name in page.text
    assert "49" not in re.sub(r"[\d.]{3,}", "", page.text) or "{{ 7 * 7 }}" in page.text
    assert "\x1b" not in text and "<i>.csv" in page.text


def test_tags_close_ids_are_unique_and_pictures_are_described(hostile):
    page = Page(hostile[1])
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    assert set(page.labels) <= set(page.ids)
    pictures = [attrs for tag, attrs in page.tags if tag == "svg"]
    assert len(pictures) >= 3
    assert all(a["role"] == "img" and a["aria-labelledby"] for a in pictures)
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))


def test_nothing_is_fetched_and_no_script_runs(hostile):
    page = Page(hostile[1])
    for tag, attrs in page.tags:
        assert tag not in ("script", "link", "iframe", "object")
        assert not any(name.startswith("on") for name in attrs)
        for name in ("src", "href", "xlink:href"):
            assert (attrs.get(name) or "#").startswith("#")
    assert "url(http" not in hostile[1] and "@import" not in hostile[1]
    policy = next(a for t, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy["content"].startswith("default-src 'none'")


def test_provenance_and_data_are_in_the_report(hostile):
    text = Page(hostile[1]).text
    for words in ("unshuffle fit '<i>.csv'", "<b>dropped</b>", "150", "10, of 15 rows each"):
        assert words in text


@pytest.mark.parametrize("method", ["ls", "means", "likelihood"])
def test_every_kind_of_method_can_be_reported(method):
    assert Page(report_once(method)).open == []


def test_a_posterior_that_was_not_sampled_well_is_not_identified_for_that_reason(
    tmp_path, without_pictures
):
    model, data = fit()
    rough = dataclasses.replace(model.posterior_, is_thin=True)
    model = with_solution(model, uncertainty=rough, status=Status.THIN_POSTERIOR)
    text = report(tmp_path / "r.html", model, data)
    assert "<p><strong>Not identified</strong></p>" in text
    # Intervals on one side of zero determine nothing, which the rule alone would not explain.
    findings = text.lower().partition("for a paper")[0]
    assert findings.count("the posterior was not sampled well") == 2
    assert "no finding about the data" in text


def test_one_answer_that_is_not_identified_is_a_range(tmp_path, without_pictures):
    model, data = fit()
    draws = model.posterior_.draws
    wide = dataclasses.replace(model.posterior_, draws=draws + 99.0 * (draws - draws.mean(axis=0)))
    best = (dataclasses.replace(model.solution_.candidates[0], share=1.0),)
    model = with_solution(model, uncertainty=wide, candidates=best)
    text = Page(report(tmp_path / "r.html", model, data)).text
    assert "No second answer stands out" in text and "No other answer was found" not in text


def test_the_words_of_a_report_are_those_of_the_reader(tmp_path, without_pictures):
    from unshuffle.cli.wording import rephrase

    model, data = fit()
    model = with_solution(model, status=Status.THIN_POSTERIOR)
    assert "try another random_state" in report(tmp_path / "r.html", model, data)
    assert "try another --seed" in report(tmp_path / "r.html", model, data, words=rephrase)


def with_solution(model, **changes):
    """Return the model as if its solution had been another."""
    model = copy.copy(model)
    solution = dataclasses.replace(model.solution_, **changes)
    model.result_ = dataclasses.replace(model.result_, solution=solution)
    return model


@pytest.mark.parametrize(
    "misfits", [(), ("a curved mean",), None], ids=["fits", "misfit", "unseen"]
)
@pytest.mark.parametrize("far", [False, True], ids=["identified", "not identified"])
def test_the_box_is_green_only_where_an_identified_model_was_seen_to_fit(
    far, misfits, tmp_path, without_pictures
):
    model, data = fit()
    posterior = model.posterior_
    if far:
        draws = posterior.draws
        draws = draws + 99.0 * (draws - draws.mean(axis=0))
        posterior = dataclasses.replace(posterior, draws=draws)
    model = with_solution(model, uncertainty=posterior, misfits=misfits)
    text = report(tmp_path / "r.html", model, data)
    box = re.search(r'<section class="verdict (\w+)"[^>]*>\s*<p><strong>(.*?)</strong>', text)
    assert (box[1] == "good") is (not far and misfits == ())
    assert (box[1] == "doubtful") is (far or bool(misfits))
    assert ("the model does not fit" in box[2]) is bool(misfits)
    assert ("a curved mean" in Page(text).text) is bool(misfits)
    assert model.result_.model_fits is {(): True, None: None}.get(misfits, False)


def test_coefficients_of_a_logarithm_are_shown_as_factors_too(tmp_path):
    model, data = fit()
    text = Page(report(tmp_path / "r.html", model, data, label="log10 yield")).text
    table = text.partition("Factors by which")[2]
    for row in model.summary().rows[:2]:
        factors = [10**value for value in (row.estimate, row.low, row.high, row.standardised)]
        found = re.search(rf"{row.name} ([\d.]+) ([\d.]+) ([\d.]+) ([\d.]+) ", table)
        np.testing.assert_allclose([float(each) for each in found.groups()], factors, rtol=2e-3)
    assert "factor on the label for one sd" in text
    plain = Page(report(tmp_path / "r.html", model, data, label="yield")).text
    assert "factor" not in plain.partition("How to read")[0]


def test_the_report_has_text_for_a_paper(tmp_path, without_pictures):
    model, data = fit()
    provenance = {"seed": 42}
    text = Page(report(tmp_path / "r.html", model, data, label="pH", provenance=provenance)).text
    paper = write_paper_text(model.result_, 0.95, "pH", 42)
    for part in (paper.result, paper.method, *paper.references, " ".join(paper.bibtex.split())):
        assert part in text


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_each_picture_of_the_report_is_a_file(ending, tmp_path):
    model, data = fit("ls")
    paths = write_report_pictures(model, tmp_path, data.X, data.y, data.groups, ending=ending)
    titles = re.findall(r'<h3 id="(.*?)-title">', report_once("ls"))
    assert [path.name for path in paths] == [f"{title}.{ending}" for title in titles]
    start = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}[ending]
    assert all(path.read_bytes().startswith(start) for path in paths)
    with pytest.raises(InputError, match="not 'gif'"):
        write_report_pictures(model, tmp_path, ending="gif")


def test_the_command_writes_pictures(folder, capsys):
    assert run([*FIT, "--method", "means", "--pictures", "drawn", "--picture-format", "png"]) == 0
    names = {path.name for path in Path("drawn").iterdir()}
    assert {"coefficients-in-common-units.png", "means-of-the-bags.png"} <= names
    assert f"{len(names)} pictures written to drawn" in capsys.readouterr().err


def test_the_report_says_what_is_determined_by_what_rule_and_when_this_works():
    text, summary = Page(report_once()).text, fit()[0].summary()
    assert DETERMINED_RULE in text and LIMITS in text
    for row in summary.rows:
        numbers = " ".join(f"{value:.4g}" for value in (row.estimate, row.sd, row.low, row.high))
        scaled = "–" if row.standardised is None else f"{row.standardised:.4g}"
        assert f"{row.name} {numbers} {row.determined} {scaled}" in text


def test_text_report_and_pictures_name_the_same_columns(tmp_path):
    """Ten weights, of which two that stand far from each other in the table are open."""
    names = [f"column {j}" for j in range(10)]
    model, data = fit("means", n=400, d=10, bags=40, names=names)
    rng = np.random.default_rng(0)
    draws = np.append(model.coef_, model.intercept_) + 1e-3 * rng.normal(size=(2000, 11))
    draws[:, [3, 8]] += rng.normal(size=(2000, 1)) * [1.0, -1.0] / data.X[:, [3, 8]].std(axis=0)
    posterior = Posterior(draws, np.ones(2000), np.ones(2000))
    model = with_solution(model, uncertainty=posterior, status=Status.POSTERIOR, misfits=())
    assert "column 3, column 8 are undetermined" in model.summary().explanation[0]
    text = Page(report(tmp_path / "r.html", model, data)).text
    assert "the coefficients determined least (column 3, column 8)" in text
    from unshuffle.results.pictures.plots import plot_posterior

    panes = plot_posterior(model.result_).child_axes
    shown = {pane.get_xlabel() for pane in panes} | {pane.get_ylabel() for pane in panes}
    assert shown - {""} == {"column 3", "column 8"}


def test_what_the_data_say_nothing_about_is_not_drawn(tmp_path):
    data = make_shuffled(20, 2, noise=0.1, rng=0)
    for X, y in ((np.ones((20, 2)), data.y), (data.X, np.ones(20))):
        with pytest.warns(UserWarning, match="say nothing"):
            model = ShuffledLinearRegression("likelihood", random_state=0).fit(X, y)
        text = Page(write_report(model, tmp_path / "r.html", X, y).read_text("utf-8")).text
        assert "Joint posterior of coefficients" not in text and "(bars)" not in text
        assert " nan" not in text and "inf " not in text
    assert "not seen in the labels" in text and "this method gives no" not in text


def test_forty_features_of_eighty_characters_stay_small(tmp_path):
    names = [f"{j:02d} " + "long name " * 7 + "x" * 7 for j in range(40)]
    assert {len(name) for name in names} == {80}
    model, data = fit("means", n=2000, d=40, bags=60, names=names)
    text = report(tmp_path / "r.html", model, data)
    assert len(text.encode()) < 1_000_000
    assert all(name in Page(text).text for name in names)


def test_a_report_of_the_model_alone_is_enough(tmp_path):
    model, _ = fit("ls")
    write_report(model, tmp_path / "r.html")
    assert "not handed" in Page((tmp_path / "r.html").read_text()).text


def test_only_fitted_models_are_reported(tmp_path):
    from sklearn.exceptions import NotFittedError
    from sklearn.pipeline import make_pipeline

    with pytest.raises(NotFittedError):
        write_report(ShuffledLinearRegression(), tmp_path / "r.html")
    with pytest.raises(InputError, match="last step"):
        write_report(make_pipeline(fit("ls")[0]), tmp_path / "r.html")
    assert not list(tmp_path.iterdir())


def test_frames_and_odd_bag_names_are_reported(tmp_path):
    pd = pytest.importorskip("pandas")
    model, data = fit("ls")
    X = pd.DataFrame(data.X, columns=["a", "b"])
    bags = [("pool", int(g)) for g in data.groups]
    write_report(model, tmp_path / "r.html", X, pd.Series(data.y), bags)
    assert "6, of 20 rows each" in Page((tmp_path / "r.html").read_text()).text


def test_the_same_fit_gives_the_same_file(tmp_path):
    assert report(tmp_path / "other.html", *fit("ls")) == report_once("ls")


def test_a_failure_leaves_the_old_report(tmp_path, monkeypatch, without_pictures):
    model, data = fit("ls")
    path = tmp_path / "r.html"
    path.write_text("old")

    def fail(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(InputError, match=r"r\.html: cannot be written"):
        report(path, model, data)
    assert path.read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["r.html"]


def test_the_users_figures_and_settings_are_left_alone(tmp_path):
    import matplotlib
    from matplotlib import pyplot

    before, figures = matplotlib.rcParams.copy(), pyplot.get_fignums()
    report(tmp_path / "r.html", *fit("ls"))
    assert matplotlib.rcParams == before and pyplot.get_fignums() == figures


def test_two_columns_are_for_wide_screens_and_print_has_one():
    css = re.sub(r"/\*.*?\*/", "", CSS.read_text(), flags=re.DOTALL)
    wide, printed = (css.index(start) for start in ("@media screen and (min-width", "@media print"))
    assert wide < css.index("columns: 2") < css.index("columns: 3") < printed
    pair = "grid-template-columns: minmax(0, 1fr) minmax(0, 1fr)"
    assert css.count(pair) == 1 and wide < css.index(pair) < printed


# ---- contrast -----------------------------------------------------------------------------------


def luminance(colour):
    parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.03928, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(one, other):
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("place", [0, 1, 2], ids=["light", "dark", "print"])
def test_text_and_marks_stand_out(place):
    block = re.findall(r":root \{(.*?)\}", CSS.read_text(), flags=re.DOTALL)[place]
    colours = dict(re.findall(r"--(\w+): (#\w{6})", block))
    for ground in ("paper", "panel"):
        for text in ("ink", "soft", "green", "orange"):
            assert contrast(colours[text], colours[ground]) >= 4.5
    for mark in ("blue", "orange", "green", "purple", "sky", "amber", "brown", "grey"):
        assert contrast(colours[mark], colours["paper"]) >= 3


# ---- a real browser -----------------------------------------------------------------------------

QUIET = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--window-size=900,2400",
]


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_a_browser_shows_it_without_errors_or_requests(hostile, tmp_path):
    path, _ = hostile
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, form, *args):
            asked.append(self.path)

    handler = functools.partial(Handler, directory=str(path.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/{path.name}"
        picture = tmp_path / "shot.png"
        command = [CHROMIUM, *QUIET, f"--user-data-dir={tmp_path}/profile"]
        done = subprocess.run(
            [*command, f"--screenshot={picture}", address], capture_output=True, timeout=90
        )
        server.shutdown()
    assert picture.stat().st_size > 20_000
    assert b"CONSOLE" not in done.stderr
    assert set(asked) - {"/favicon.ico"} == {f"/{path.name}"}


def browse(folder, *more):
    """Run a browser without a window; return what it printed."""
    command = [CHROMIUM, *QUIET[:-1], f"--user-data-dir={folder}/profile", *more]
    return subprocess.run(command, capture_output=True, timeout=90, check=True).stdout.decode()


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
@pytest.mark.parametrize("width", [400, 768, 1400])
def test_a_page_never_scrolls_sideways(width, tmp_path):
    model, data = fit(names=["the number of employees of the establishment", "sector=non-profit"])
    text = report(tmp_path / "r.html", model, data, label="log10 hourly wage")
    # In a frame of that width: a window has a least width of its own.
    frame = f'<iframe width="{width}" height="900" style="border: 0"></iframe>'
    measure = """
    const frame = document.querySelector("iframe");
    frame.onload = () => {
      const page = frame.contentDocument;
      const parts = [page.documentElement, ...page.querySelectorAll(".wide")];
      document.title = parts.map(each => each.scrollWidth - each.clientWidth + "/"
                                         + each.clientWidth);
    };
    """
    content = json.dumps(text).replace("</", "<\\/")
    script = f"<script>{measure} frame.srcdoc = {content};</script>"
    (tmp_path / "frame.html").write_text(f"<title></title>{frame}{script}", encoding="utf-8")
    shown = browse(tmp_path, "--dump-dom", f"file://{tmp_path}/frame.html")
    found = re.search(r"<title>(.*?)</title>", shown)[1].split(",")
    beyond, widths = zip(*(map(int, each.split("/")) for each in found), strict=True)
    assert width - 20 <= widths[0] <= width and len(widths) >= 3
    assert max(beyond) <= 0


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_a_report_has_at_most_four_printed_pages(tmp_path):
    names = [f"column with a long name, number {j}" for j in range(8)]
    model, data = fit("means", n=400, d=8, bags=40, names=names)
    report(tmp_path / "r.html", model, data, label="log10 wage")
    browse(tmp_path, f"--print-to-pdf={tmp_path}/r.pdf", f"file://{tmp_path}/r.html")
    pages = re.findall(rb"/Type\s*/Page\b", (tmp_path / "r.pdf").read_bytes())
    assert 1 <= len(pages) <= 4


def test_an_svg_file_does_not_depend_on_last_digits_of_its_coordinates():
    """They differ between processors, and matplotlib names parts by a digest of all digits."""
    from matplotlib.figure import Figure

    def draw(shift):
        figure = Figure(figsize=(3 + shift, 2))
        for ax in figure.subplots(1, 2):
            ax.plot([0.0, 1.0], [0.1 + shift, 0.3], "o-")
        return render_figure(figure, "svg", "name").decode()

    text = draw(0.0)
    assert text == draw(1e-13)
    names = re.findall(r'<clipPath id="(.*?)"', text)
    assert len(set(names)) == 2 and all(f"url(#{name})" in text for name in names)
    assert all(re.fullmatch(r"name-\d+", name) for name in names)
