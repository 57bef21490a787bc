"""Properties of pictures: each draws on the axes it is given, escapes names, and scales with d."""

import dataclasses
import itertools
from io import BytesIO
from types import SimpleNamespace

import numpy as np
import pandas
import pytest

from unshuffle import ShuffledLinearRegression, make_shuffled
from unshuffle.core.solution import BagEffects
from unshuffle.errors import InputError

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")

from matplotlib import pyplot  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

from unshuffle.results.pictures import bag_plots, drawing, plots  # noqa: E402
from unshuffle.results.pictures.bag_views import view_table  # noqa: E402
from unshuffle.results.pictures.report_pictures import list_drawings  # noqa: E402


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
        SimpleNamespace(
            right=0.5,
            guess=0.1,
            known=0.6,
            release=SimpleNamespace(name="$a$"),
            risk=SimpleNamespace(value=0.4, low=0.3, high=0.5),
        ),
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
    solution = dataclasses.replace(found.solution, effects=BagEffects(0.9, 0.3))
    return dataclasses.replace(found, solution=solution)


def draw_all(model, data, make_ax):
    search = ShuffledLinearRegression("ls", random_state=0).fit(data.X, data.y, groups=data.groups)
    return {
        "coefficients": plots.plot_coefficients(model, ax=make_ax()),
        "noise": plots.plot_noise(model, ax=make_ax()),
        "offset_sd": plots.plot_offset_sd(model, ax=make_ax()),
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
    with pytest.raises(InputError, match="bag_offsets"):
        plots.plot_offset_sd(model)


def test_the_spread_of_offsets_is_drawn_as_it_was_weighed(fitted):
    effects = fitted[0].result_.effects
    ax = plots.plot_offset_sd(fitted[0])
    heights = [bar.get_height() for bar in ax.patches]
    assert heights == pytest.approx([100 * share for share in effects.shares])
    assert sum(heights) == pytest.approx(100.0)
    assert effects.sizes[0] == 0.0
    assert heights[0] == pytest.approx(100 * (1 - effects.offset_probability))
    assert sum(s * p for s, p in zip(effects.sizes, effects.shares, strict=True)) == pytest.approx(
        effects.offset_sd,
        rel=0.2,  # sizes are means over draws of the noise, which varies by less
    )


def test_every_pane_of_a_grid_has_a_scale(fitted):
    panes = plots.plot_posterior(fitted[0]).child_axes
    assert all(len(pane.get_xticks()) > 1 for pane in panes)


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


def tick_boxes(ax):
    """Return where the numbers beside each axis lie, of the axes and of its panes."""
    renderer = ax.figure.canvas.get_renderer()
    for each in [ax, *ax.child_axes]:
        for axis in (each.xaxis, each.yaxis):
            shown = [label for label in axis.get_ticklabels() if label.get_text()]
            ends = each.get_window_extent(renderer).expanded(1.01, 1.01)
            boxes = [label.get_window_extent(renderer) for label in shown if label.get_visible()]
            yield [box for box in boxes if ends.x0 <= box.x1 and box.x0 <= ends.x1]


def test_no_tick_touches_its_neighbour(fitted):
    model, data = fitted
    wide = ShuffledLinearRegression("likelihood", random_state=0)
    # Numbers of many digits: weights of columns of different sizes.
    wide.fit(data.X * [1e-4, 1.0, 3e5], 12345.0 + data.y, groups=data.groups)
    for each in (model, wide):
        for ax in draw_all(each, data, lambda: None).values():
            ax.figure.canvas.draw()
            for boxes in tick_boxes(ax):
                for first, second in itertools.pairwise(boxes):
                    assert not first.overlaps(second)
        pyplot.close("all")


def test_long_names_of_labels_stay_inside_the_pictures_of_a_report(fitted):
    model, data = fitted
    found, label = model.result_, "log10(FITC-A / PE-Texas Red-A) of every cell"
    views = view_table(found, data.X, data.y, data.groups)
    drawings = list_drawings(found, views, 0.95, label)
    assert {"Noise", "Size of the random bag effects"} <= {each.title for each in drawings}
    for drawing_ in drawings:
        with pyplot.rc_context({"font.size": 9.0}):  # as in reports
            figure = Figure(figsize=drawing_.size, layout="constrained")
            drawing_.plot(ax=figure.add_subplot())
            figure.savefig(BytesIO())
        for ax in figure.axes:
            for text in (ax.xaxis.label, ax.yaxis.label):
                box = text.get_window_extent()
                if text.get_text() and text.get_visible():
                    assert box.x0 >= 0 and box.x1 <= figure.bbox.x1, drawing_.title
                    assert box.y0 >= 0 and box.y1 <= figure.bbox.y1, drawing_.title


def test_bag_means_stand_at_the_means(fitted):
    model, data = fitted
    ax = bag_plots.plot_bag_means(model, data.X, data.y, data.groups)
    found = np.array(ax.containers[0].lines[0].get_xydata())
    z = model.predict(data.X)
    means = [(z[data.groups == g].mean(), data.y[data.groups == g].mean()) for g in range(6)]
    np.testing.assert_allclose(found, means, rtol=1e-12)


def draw_heights(found, views):
    steps = [p for p in bag_plots.draw_places(found, views).patches if hasattr(p, "get_data")]
    return steps[0].get_data().values


def test_pit_values_are_uniform_where_the_model_is_right_and_central_where_it_is_too_wide(fitted):
    """Under the true distribution one bar of twenty leaves the 95 % band, and four of 15 do so in
    one of a hundred; predictions twice as far apart leave their ends empty."""
    model, data = fitted
    views = view_table(model.result_, data.X, data.y, data.groups)
    heights = draw_heights(model.result_, views)
    band = 1.96 * np.sqrt((1 - 1 / 15) / (240 / 15))
    assert len(heights) == 15 and heights.mean() == pytest.approx(1.0)
    assert (np.abs(heights - 1) > band).sum() <= 3
    means = [view.mean_z for view in views]
    wide = [
        dataclasses.replace(view, z=mean + 2 * (view.z - mean))
        for view, mean in zip(views, means, strict=True)
    ]
    seen = draw_heights(model.result_, wide)
    assert seen[[0, -1]].max() < 0.5 < 1 + band < seen.max()


def test_panels_show_all_labels_and_the_density_adds_up_to_one(fitted):
    model, data = fitted
    ax = bag_plots.plot_bags(model, data.X, data.y, data.groups)
    assert len(ax.child_axes) == 6
    for pane in ax.child_axes:
        heights, edges, _ = pane.patches[0].get_data()
        assert (heights * np.diff(edges)).sum() == pytest.approx(1.0)
        x, density = pane.lines[0].get_data()
        # What lies beyond the frame is a few per cent.
        assert np.trapezoid(density, x) == pytest.approx(1.0, abs=0.05)


def test_many_bags_go_into_panels_and_the_largest_are_shown(fitted):
    model, _ = fitted
    data = make_shuffled(300, 3, noise=0.1, bags=30, rng=0)
    ax = bag_plots.plot_bags(model, data.X, data.y, data.groups)
    assert len(ax.child_axes) == bag_plots.SHOWN_PANELS
    assert len(bag_plots.plot_sorted(model, data.X, data.y, data.groups).lines) == 2 * 8


def test_matches_are_told_by_marks_as_well_as_colours(fitted):
    model, data = fitted
    match = model.match(data.X, data.y, data.groups)
    ax = bag_plots.plot_predictions(model, match, data.X, label="pH")
    shown = ax.lines[1:]
    assert (
        len({line.get_marker() for line in shown}) == 3 == len({line.get_color() for line in shown})
    )
    assert sum(len(line.get_xdata()) for line in shown) == len(data.y)
    assert ax.get_ylabel() == "matched pH"


def test_without_noise_there_is_no_predictive_distribution(fitted):
    _, data = fitted
    model = ShuffledLinearRegression("ls", random_state=0).fit(data.X, data.y, groups=data.groups)
    with pytest.raises(InputError, match="noise"):
        bag_plots.plot_places(model, data.X, data.y, data.groups)
    with pytest.raises(InputError, match="offsets"):
        bag_plots.plot_offsets(model, data.X, data.y, data.groups)


def test_bags_stand_beside_the_offsets_by_name_while_they_are_few(fitted):
    model, data = fitted
    names = [f"district number {g}" for g in data.groups]
    ax = bag_plots.plot_offsets(offset(model), data.X, data.y, names)
    shown = [label.get_text() for label in ax.get_yticklabels()]
    assert shown == list(dict.fromkeys(names))
    pyplot.close("all")
    many = make_shuffled(300, 3, noise=0.1, bags=50, rng=0)
    ax = bag_plots.plot_offsets(offset(model), many.X, many.y, many.groups)
    assert ax.get_xlabel() == "bag, in the order of the data"


def test_names_above_panels_never_touch(fitted):
    model, data = fitted
    for names in (data.groups, [f"Landkreis Bernkastel-Wittlich {g}" for g in data.groups]):
        ax = bag_plots.plot_bags(model, data.X, data.y, names)
        ax.figure.canvas.draw()
        renderer = ax.figure.canvas.get_renderer()
        boxes = [pane.title.get_window_extent(renderer) for pane in ax.child_axes]
        assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))


def test_names_beside_a_grid_never_touch():
    data = make_shuffled(200, 5, noise=0.5, bags=6, rng=0)
    frame = pandas.DataFrame(data.X, columns=[f"a rather long name, number {j}" for j in range(5)])
    model = ShuffledLinearRegression("likelihood", random_state=0)
    model.fit(frame, data.y, groups=data.groups)
    _, given = pyplot.subplots(figsize=(5.4, 5.1), layout="constrained")
    ax = plots.plot_posterior(model, features=range(5), ax=given)
    ax.figure.canvas.draw()
    renderer = ax.figure.canvas.get_renderer()
    labels = [axis.label for pane in ax.child_axes for axis in (pane.xaxis, pane.yaxis)]
    boxes = [each.get_window_extent(renderer) for each in labels if each.get_text()]
    assert len(boxes) == 9
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))


@pytest.mark.parametrize("base", [np.e, 10.0])
def test_factors_stand_above_the_coefficients_of_a_logarithm(base, fitted):
    model, _ = fitted
    ax = plots.plot_coefficients(model, log_base=base)
    ax.figure.canvas.draw()
    (upper,) = ax.child_axes
    assert upper.get_xlim() == pytest.approx(base ** np.array(ax.get_xlim()))
    assert len([tick for tick in upper.get_xticks() if tick > 0]) > 1
    assert not plots.plot_coefficients(model).child_axes


def test_intervals_are_never_hidden_by_their_dots(fitted):
    model, _ = fitted
    ax = plots.plot_coefficients(model)
    caps = [line for line in ax.lines if line.get_marker() == "|"]
    dots = [line for line in ax.lines if line.get_marker() == "o"]
    assert len(caps) == 3
    assert min(c.get_markersize() for c in caps) > max(d.get_markersize() for d in dots)
