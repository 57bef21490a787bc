"""Progress goes to stderr or nowhere, and is never part of the answer."""

import io
import re

import numpy as np
import pytest

from unshuffle import Bag, ShuffledLinearRegression, fit, make_shuffled, progress
from unshuffle.cli import console
from unshuffle.cli.progress import Display
from unshuffle.data.blocks.sources import ArraySource, number_bags
from unshuffle.errors import InputError
from unshuffle.methods import find_block_strategy
from unshuffle.options import FitOptions
from unshuffle.results.fit import fit_source

DATA = make_shuffled(60, 2, noise=0.1, bags=6, rng=0)


class Terminal(io.StringIO):
    """What a terminal is to a console."""

    def isatty(self):
        return True


def fit_with(**options):
    model = ShuffledLinearRegression("ls", random_state=0, **options)
    return model.fit(DATA.X, DATA.y, groups=DATA.groups)


def test_verbose_tells_stages_on_stderr_and_changes_no_digit(capsys):
    silent = fit_with()
    assert capsys.readouterr() == ("", "")
    loud = fit_with(verbose=1)
    streams = capsys.readouterr()
    assert streams.out == "" and "descending from many starts" in streams.err
    assert re.fullmatch(r"(unshuffle: +\d+\.\d s  .*\n)+", streams.err)
    assert loud.coef_.tobytes() == silent.coef_.tobytes()


def test_progress_of_bags_is_printed_as_that_of_tables(capsys):
    fit([Bag(DATA.X, DATA.y)], method="ls", rng=0, verbose=2)
    assert "% of it done" in capsys.readouterr().err


@pytest.mark.parametrize("verbose", [-1, "yes", 0.5, None])
def test_what_is_no_number_of_words_is_refused(verbose):
    with pytest.raises(InputError, match="verbose="):
        fit_with(verbose=verbose)


def test_every_stage_is_one_line_unless_shares_are_asked_for():
    said = []
    lines = progress.Lines(said.append)
    for share in (0.0, 0.5, 1.0):
        lines("looking", share)
    lines("sampling", 0.0)
    assert [line.split("s  ")[1] for line in said] == ["looking\n", "sampling\n"]


@pytest.mark.parametrize("stages", [progress.STAGES, progress.BLOCK_STAGES])
def test_the_course_of_a_fit_only_rises(stages):
    found = [
        progress.measure_course(stage, share, stages)
        for stage in stages
        for share in (0.0, 0.3, 0.5, 0.7, 1.0)
    ]
    done = [each for each, _ in found]
    assert done == sorted(done) and done[0] == 0.0 and done[-1] == pytest.approx(1.0)
    assert all(each + ahead <= 1.0 + 1e-9 for each, ahead in found)
    assert progress.measure_course("attacking", 0.4, stages) == (0.4, 0.0)


def test_a_bar_never_goes_back_in_blocks_and_other_fits_may_follow():
    display = Display(console.make_console(Terminal()), "fitting")
    seen, first = [], display._begin
    for stage, share in (
        (progress.IN_BLOCKS, 0.0), ("reading", 1.0), ("counting labels", 1.0),
        ("counting labels", 0.5), ("looking for modes", 0.0),
        ("descending from many starts", 0.9), ("looking for modes", 0.5),
        ("sampling the posterior", 1.0),
    ):  # fmt: skip
        display.report(stage, share)
        seen.append(display._done)
        assert stage in display.describe()
    assert seen == sorted(seen) and 0.04 < seen[2] < 0.06 and seen[-1] == pytest.approx(1.0)
    assert display._begin >= first
    display.report("reading", 0.25)
    assert display._done == 0.25  # by itself, as other methods have it


def test_a_fit_in_blocks_says_so_first():
    data, said = make_shuffled(20_001, 1, noise=0.1, bags=4, rng=0), []
    settings = find_block_strategy(FitOptions(), 20_001)
    source = ArraySource(data.X, data.y, *number_bags(data.groups, 20_001))
    rng = np.random.default_rng(0)
    fit_source(source, FitOptions(), settings, rng, None, lambda *each: said.append(each))
    assert said[0] == (progress.IN_BLOCKS, 0.0)
    assert {stage for stage, _ in said[1:]} >= set(progress.BLOCK_STAGES)


def test_lines_stand_above_the_bar(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with console.show_progress("fitting") as status:
        report = console.reporter(status, verbose=True)
        report("looking for modes", 0.5)
        status._progress.refresh()
    seen = terminal.getvalue()
    (line,) = [each for each in re.split("[\r\n]+", seen) if "0.0 s  looking for modes" in each]
    assert "━" not in line and "…" not in line


def test_what_is_compiled_is_announced_once_and_what_is_cached_never():
    from numba import njit

    said = []
    fresh = njit(lambda x: x + 1)
    with progress.watch_compiling(lambda stage, share: said.append((stage, share))):
        fresh(1)
        n_first = len(said)
        fresh(2)
    assert n_first >= 2 and len(said) == n_first
    assert all(stage == progress.COMPILING and 0 < share < 1 for stage, share in said[:-1])
    assert said[-1] == (progress.RESUMED, 1.0)
    njit(lambda x: x - 1)(1)
    assert len(said) == n_first  # nobody listens any more


def test_a_display_shows_stage_share_and_time_left_and_leaves_nothing():
    stream = Terminal()
    with Display(console.make_console(stream), "fitting …") as display:
        assert display.describe() == "fitting …"
        display.report("looking for modes", 1.0)
        display._begin -= 53.0  # as if it had taken so long
        assert display.describe() == "looking for modes … 53%, 47 s left"
        display.report("sampling the posterior", 0.5)
        assert re.fullmatch(r"sampling the posterior … 7\d%, \d+ s left", display.describe())
    assert stream.getvalue().endswith("\x1b[2K")  # the line is wiped


def test_compiling_has_no_part_in_the_time_left():
    display = Display(console.make_console(Terminal()), "fitting")
    display.report("looking for modes", 0.0)
    display._begin -= 10.0
    display.report(progress.COMPILING, 0.5)
    assert "compiling" in display.describe() and "50%" in display.describe()
    display._begin -= 60.0  # a minute of compiling
    display.report(progress.RESUMED, 1.0)
    assert display.describe() == "looking for modes … 8%, 2 min left"
    display.report("looking for modes", 1.0)
    spent = display._reported - display._begin
    assert 10.0 <= spent < 11.0


def test_nothing_is_shown_without_a_terminal_or_where_quiet_is_asked(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    with console.show_progress("fitting") as status:
        assert status is None
        console.reporter(status)("looking for modes", 0.5)
    assert stream.getvalue() == ""
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with console.show_progress("fitting", quiet=True) as status:
        assert status is None
    assert terminal.getvalue() == ""


def test_comparisons_tell_which_method_is_fitted():
    from unshuffle import compare_methods

    said = []
    methods = ["ls", "means"]
    rows = compare_methods(
        DATA.X, DATA.y, DATA.groups, methods=methods, random_state=0,
        report=lambda stage, share: said.append((stage, share)),
    )  # fmt: skip
    assert len(list(rows)) == 2
    assert said == [("fitting by ls, 1 of 2", 0.0), ("fitting by means, 2 of 2", 0.5)]
