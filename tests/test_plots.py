"""Laws of pictures: each draws on the axes it is given, escapes names, and scales with d."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pandas
import pytest

from unshuffle import ShuffledLinearRegression, make_shuffled
from unshuffle.core.solution import OffsetLaw
from unshuffle.errors import InputError

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")

from matplotlib import pyplot  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

from unshuffle.answers import bag_plots, drawing, plots  # noqa: E402


class Expectation:
    """What `plan_runs` expects, as far as it is drawn."""

    def __init__(self, n_runs, kind):
        self.n_runs, self.kind, self.has_offsets, self.error, self.error_mc = n_runs, kind, 0, 1, 1


class Plan:
    expectations = tuple(Expectation(n, kind) for n in (2, 4) for kind in ("random", "designed"))


class Audit:
    """What `audit` found, as far as it is drawn."""

    class planned:  # noqa: N801
        calibration = (SimpleNamespace(claimed=0.5, right=0.4, n_rows=7),)

    exposures = (
        SimpleNamespace(right=0.5, guess=0.1, known=0.6, release=SimpleNamespace(name="$a$")),
    )


class Match:
    """What `match` returns, as far as it is drawn."""

    probability = np.linspace(0.1, 0.9, 50)


@pytest.fixture(scope="module")
def fitted():
    data = make_shuffled(240, 3, noise=0.1, bags=6, rng=0)
    model = ShuffledLinearRegression("likelihood", random_state=0)
    return model.fit(data.X, data.y, groups=data.groups), data


@pytest.fixture(autouse=True)
def close_figures():
    pyplot.close("all")  # those of the doctests
    yield
    pyplot.close("all")


def offset(model):
    """Return the fit as if its bags had been seen to be offset."""
    found = model.result_
    solution = dataclasses.replace(found.solution, offsets=OffsetLaw(0.9, 0.3))
    return dataclasses.replace(found, solution=solution)


def draw_all(model, data, make_ax):
    search = ShuffledLinearRegression("ls", random_state=0).fit(data.X, data.y, groups=data.groups)
    return {
        "coefficients": plots.plot_coefficients(model, ax=make_ax()),
        "noise": plots.plot_noise(model, ax=make_ax()),
        **{
            name: getattr(bag_plots, f"plot_{name}")(
                model, data.X, data.y, data.groups, ax=make_ax()
            )
            for name in ("sorted", "bag_means", "places", "bags")
        },
        "offsets": bag_plots.plot_offsets(offset(model), data.X, data.y, data.groups, ax=make_ax()),
        "predictions": bag_plots.plot_predictions(
            model, model.match(data.X, data.y, data.groups), data.X, ax=make_ax()
        ),
        "starts": plots.plot_starts(search, ax=make_ax()),
        "candidates": plots.plot_candidates(search, ax=make_ax()),
        "posterior": plots.plot_posterior(model, ax=make_ax()),
        "matches": plots.plot_matches(Match(), ax=make_ax()),
        "exposure": plots.plot_exposure(Audit(), ax=make_ax()),
        "calibration": plots.plot_calibration(Audit(), ax=make_ax()),
        "plan": plots.plot_plan(Plan(), ax=make_ax()),
        "error": plots.plot_error_by_bags([1, 2, 4], {"ls": [1, 0.5, 0.2]}, ax=make_ax()),
    }


def test_every_plot_draws_on_the_axes_given(fitted):
    made = []

    def make_ax():
        made.append(Figure().add_subplot())
        return made[-1]

    returned = draw_all(*fitted, make_ax)
    assert list(returned.values()) == made
    assert not pyplot.get_fignums()


def test_every_plot_makes_axes_of_its_own(fitted):
    returned = draw_all(*fitted, lambda: None)
    assert len(pyplot.get_fignums()) == len(returned)
    for ax in returned.values():
        ax.figure.canvas.draw()


def test_every_plot_is_public():
    import unshuffle

    names = {name for name in (*dir(plots), *dir(bag_plots)) if name.startswith("plot_")}
    assert names <= set(unshuffle.__all__)


def test_axes_are_labelled(fitted):
    for name, ax in draw_all(*fitted, lambda: None).items():
        if name not in ("posterior", "bags"):  # their panes carry the names
            assert ax.get_xlabel()


def test_names_are_never_read_as_mathematics(fitted):
    _, data = fitted
    hostile = ["$a_1$", "$\\frac$", "<b>[x]"]
    frame = pandas.DataFrame(data.X, columns=hostile)
    named = ShuffledLinearRegression("ls", random_state=0).fit(frame, data.y, groups=data.groups)
    ax = plots.plot_coefficients(named)
    ax.figure.canvas.draw()
    shown = [label.get_text().replace("\\$", "$") for label in ax.get_yticklabels()]
    assert shown == hostile


def test_methods_without_intervals_are_drawn_without(fitted):
    _, data = fitted
    model = ShuffledLinearRegression("ls", random_state=0).fit(data.X, data.y, groups=data.groups)
    assert len(plots.plot_coefficients(model).lines) == 2  # the dots and the line of zero


def test_what_is_not_there_is_said_in_words(fitted):
    _, data = fitted
    model = ShuffledLinearRegression("means").fit(data.X, data.y, groups=data.groups)
    with pytest.raises(InputError, match="starts"):
        plots.plot_starts(model)
    model = ShuffledLinearRegression("ls", random_state=0).fit(data.X, data.y, groups=data.groups)
    with pytest.raises(InputError, match="likelihood"):
        plots.plot_posterior(model)


def test_colours_differ_also_without_hue():
    """Neighbours in the palette differ in lightness or are told apart by their markers."""
    assert len(set(drawing.PALETTE)) == len(drawing.PALETTE)
    assert len(set(drawing.MARKERS)) == len(drawing.MARKERS) >= len(drawing.PALETTE)


def test_long_data_are_thinned():
    share, values = drawing.curve(np.random.default_rng(0).normal(size=100_000))
    assert len(share) == len(values) <= 200
    assert (np.diff(values) >= 0).all() and share[0] == 0 and share[-1] == 1


def test_predictions_are_spread_like_labels():
    z = np.zeros(1000)
    assert np.std(drawing.spread(z, 0.5)) == pytest.approx(0.5, rel=0.02)
    assert len(drawing.spread(z, 0.5)) == 1000
    assert drawing.spread(z, None) is z
