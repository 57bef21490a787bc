"""Shared parts of pictures: colours, axes, names beside rows, curves of many points.

Colours are those of Okabe and Ito, which differ for every kind of colour vision, and three more.
Markers, line styles and positions carry the meaning of every colour as well.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from unshuffle.errors import import_extra, shorten

BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
SKY, AMBER, BROWN, GREY = "#56B4E9", "#E69F00", "#8C5A3C", "#6E7378"
# The colours of series in one picture; more series need panels.
PALETTE = (BLUE, ORANGE, GREEN, PURPLE, SKY, AMBER, BROWN, GREY)
MARKERS = "osD^vPX*"
GRID = "#c8c9ca"

# A line of more points looks the same and makes the file large.
CURVE_POINTS = 200
# Without these a file would carry the time and matplotlib's version.
_NO_METADATA = {
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}
# Names that matplotlib gives to parts of an SVG file: a kind and a digest of their coordinates.
_PART = re.compile(r'(id="|#)(\w*[0-9a-f]{10})(?=["\)])')
# Most ticks on an axis: their numbers never touch on three inches or more.
_N_TICKS = 6


def prepare(ax: Any, size: tuple[float, float]) -> Any:
    """Return the given axes, or new ones, without the frame's upper and right side."""
    if ax is None:
        pyplot = import_extra("matplotlib.pyplot", "plots", "drawing")
        _, ax = pyplot.subplots(figsize=size, layout="constrained")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def render_figure(figure: Any, ending: str, name: str = "part", **how: Any) -> bytes:
    """Return a figure as the content of an SVG, PDF or PNG file, the same on every machine.

    The parts of an SVG file are numbered: matplotlib names them by a digest of coordinates whose
    last digits differ between processors. `name` keeps them apart from those of another file on
    the same page; `how` is handed to ``savefig``.
    """
    buffer = io.BytesIO()
    figure.savefig(buffer, format=ending, metadata=_NO_METADATA[ending], **how)
    content = buffer.getvalue()
    if ending != "svg":
        return content
    numbers: dict[str, int] = {}

    def number(found: re.Match[str]) -> str:
        return f"{found[1]}{name}-{numbers.setdefault(found[2], len(numbers) + 1)}"

    return _PART.sub(number, content.decode("utf-8")).encode("utf-8")


def space_ticks(ax: Any, n_x: int = _N_TICKS) -> None:
    """Leave so few ticks on linear axes that none touches its neighbour."""
    ticker = import_extra("matplotlib.ticker", "plots", "drawing")
    for axis, n_ticks in ((ax.xaxis, n_x), (ax.yaxis, _N_TICKS)):
        if axis.get_scale() == "linear":
            axis.set_major_locator(ticker.MaxNLocator(n_ticks, steps=[1, 2, 2.5, 5, 10]))


def space_pane_ticks(pane: Any) -> None:
    """Leave two or three ticks of a small pane, none near an end: the next pane begins there."""
    ticker = import_extra("matplotlib.ticker", "plots", "drawing")
    for axis, (low, high) in ((pane.xaxis, pane.get_xlim()), (pane.yaxis, pane.get_ylim())):
        kept = np.empty(0)
        for n_ticks in (4, 6, 9):  # finer steps where the coarse ones leave one: it has no scale
            ticks = ticker.MaxNLocator(n_ticks).tick_values(low, high)
            found = _keep_apart(ticks, low, high)
            kept = found if len(found) > len(kept) else kept
            if len(kept) > 1:
                break
        axis.set_ticks(kept)


def _keep_apart(ticks: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return the ticks inside a pane whose numbers do not touch; long numbers are two at most."""
    room = 0.15 * (high - low)
    inner = ticks[(ticks >= low + room) & (ticks <= high - room)]
    longest = max((len(f"{tick:.6g}") for tick in inner), default=0)
    if longest <= 4:
        return inner
    ends = inner[:: max(len(inner) - 1, 1)]
    return ends[:1] if ends[-1] - ends[0] < 0.065 * longest * (high - low) else ends


def row_height(n_rows: int) -> float:
    """Return the height of a picture with so many named rows."""
    return 0.9 + 0.28 * max(n_rows, 2)


def name_rows(ax: Any, names: Sequence[str]) -> None:
    """Write the names at the left, the first on top."""
    # Long names are cut; the table holds them in full.
    ax.set_yticks(np.arange(len(names)), [plain(name) for name in shorten_apart(names, 28)])
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.grid(axis="y", color=GRID, lw=0.5)
    ax.set_axisbelow(True)
    ax.tick_params(axis="y", length=0)


def shorten_apart(names: Sequence[str], limit: int) -> list[str]:
    """Shorten names, in the middle where they would be alike with their ends cut off.

    >>> shorten_apart(["temperature at noon", "temperature at night"], 12)
    ['tempe…t noon', 'tempe… night']
    """
    shown = [shorten(name, limit) for name in names]
    if len(set(shown)) == len(set(names)):
        return shown
    whole = [shorten(name, len(name) + 1) for name in names]
    head = (limit - 1) // 2
    return [
        name if len(name) <= limit else f"{name[:head]}…{name[head + 1 - limit :]}"
        for name in whole
    ]


def plain(text: str) -> str:
    """Escape dollar signs, which matplotlib reads as mathematics."""
    return text.replace("$", r"\$")


def name_label(label: object, limit: int = 40) -> str:
    """Return the label's name for an axis; where it has none, that it is the label."""
    return "label" if label is None else plain(shorten(label, limit))


def draw_interval(ax: Any, ends: tuple[float, float], place: float) -> None:
    """Draw an interval with ends that stand out above any mark inside it."""
    ax.plot(ends, [place, place], color=BLUE, lw=2, solid_capstyle="butt")
    ax.plot(ends, [place, place], "|", color=BLUE, ms=11, mew=1.4)


def make_panes(ax: Any, n_panes: int, n_columns: int) -> list[Any]:
    """Cut axes into panes, row by row from the top; the axes become an empty frame."""
    ax.axis("off")
    n_rows = -(-n_panes // n_columns)
    width, height = 1 / n_columns, 1 / n_rows
    panes = []
    for k in range(n_panes):
        row, column = divmod(k, n_columns)
        place = (column * width, 1 - (row + 1) * height, width * 0.95, height * 0.78)
        pane = ax.inset_axes(place)
        pane.spines[["top", "right"]].set_visible(False)
        panes.append(pane)
    return panes


def take_quantiles(
    values: np.ndarray, masses: np.ndarray, n_points: int = CURVE_POINTS
) -> np.ndarray:
    """Return quantiles of a weighted sample at even shares of its mass."""
    order = np.argsort(values, kind="stable")
    sums = np.cumsum(masses[order])
    shares = (np.arange(n_points) + 0.5) / n_points
    return values[order][np.searchsorted(sums, shares * sums[-1])]


def curve(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the quantile function of a sample at a few hundred points: shares and values."""
    ordered = np.sort(np.asarray(values, dtype=float))
    places = np.unique(np.linspace(0, len(ordered) - 1, min(len(ordered), CURVE_POINTS)).round())
    share = places / max(len(ordered) - 1, 1)
    return share, ordered[places.astype(int)]


def spread(z: np.ndarray, noise: float | None) -> np.ndarray:
    """Return quantiles of predictions plus Gaussian noise, as many as there are rows."""
    if not noise:
        return z
    from unshuffle.objectives.noise import GaussianNoise

    everything = np.sort((z[:, None] + GaussianNoise(noise).atoms()).ravel())
    # One value of each slice makes as many as there are rows.
    n_atoms = len(everything) // len(z)
    return everything[n_atoms // 2 :: n_atoms]
