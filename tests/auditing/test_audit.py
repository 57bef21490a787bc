"""Properties of the audit: it counts what is right, finds risk, and states what it omits."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest

from command_line import assert_one_line
from unshuffle import (
    Likelihood,
    ShuffledLinearRegression,
    audit,
    make_shuffled,
    shuffle_labels,
)
from unshuffle.auditing import findings
from unshuffle.auditing.control import choose_control
from unshuffle.auditing.exposure import calibrate, count_levels, link
from unshuffle.auditing.findings import CONFIDENTIAL, NOT_SHOWN
from unshuffle.auditing.proportions import Proportion, find_risk
from unshuffle.auditing.releases import list_releases, nice_number, number_bags
from unshuffle.cli.app import run
from unshuffle.errors import InputError


def make_linked(n=120, d=2, noise=0.05, bags=12, rng=0):
    data = make_shuffled(n, d, noise=noise, bags=bags, intercept=1.0, rng=rng)
    return data.X, data.linked_y, data.groups


# Ten releases are attacked in each audit: little effort is enough where one posterior is as good
# as another.
LIGHT = Likelihood(
    n_starts=8, n_refined=4, n_components=4, n_draws=100, max_rounds=2, least_draws=30.0
)


@pytest.fixture(scope="module")
def found():
    return audit(*make_linked(n=72), rng=0, method=LIGHT)


@pytest.fixture
def planned_only(monkeypatch):
    """Attack the release as planned alone, for tests that look at no other."""
    monkeypatch.setattr(findings, "list_releases", lambda *args: list_releases(*args)[:1])


@pytest.fixture
def one_of_each(monkeypatch):
    """Attack one release of each kind."""

    def list_few(*args):
        return list({each.kind: each for each in list_releases(*args)}.values())

    monkeypatch.setattr(findings, "list_releases", list_few)


def test_low_noise_in_small_bags_exposes_rows(found):
    planned = found.planned
    # Six rows a bag, gaps between labels far above the noise: nearly all is found.
    assert planned.error < 0.05 and planned.right > 0.6
    assert planned.guess == pytest.approx(1 / 6)
    assert planned.right <= planned.known + 0.1
    assert "recovers the coefficients" in found.verdict[0]
    assert "Most exposed" in " ".join(found.verdict)


def test_claimed_probabilities_hold_on_simulated_data(planned_only):
    claimed, right, n = 0.0, 0, 0
    for seed in range(3):
        planned = audit(*make_linked(n=150, noise=0.15, bags=15, rng=seed), rng=0).planned
        claimed += planned.probability.sum()
        right += int(planned.is_right.sum())
        n += planned.n
    # 450 matches inside bags, dependent in pairs: the share is known to about 0.03.
    assert right / n == pytest.approx(claimed / n, abs=0.1)


def test_levels_and_bins_count_every_row(found):
    planned = found.planned
    assert sum(b.n_rows for b in planned.calibration) == planned.n
    for level in planned.levels:
        assert level.n_rows == (planned.probability >= level.at_least).sum()
        assert level.n_right <= level.n_rows
    assert planned.share_at(0.5) >= planned.share_at(0.8) >= planned.share_at(0.95)
    probability, is_right = np.array([0.05, 0.5, 0.97, 1.0]), np.array([False, True, True, True])
    assert [each.n_rows for each in count_levels(probability, is_right)] == [3, 2, 2]
    assert [(b.low, b.n_rows, b.right) for b in calibrate(probability, is_right)] == [
        (0.0, 1, 0.0), (0.5, 1, 1.0), (0.95, 2, 1.0)
    ]  # fmt: skip


def test_the_risk_falls_with_protection(found):
    by_kind = {}
    for each in found.exposures:
        by_kind.setdefault(each.release.kind, []).append(each)
    planned = found.planned
    merged = by_kind["bags merged"]
    assert [each.release.n_bags for each in merged] == [6, 3, 1]
    assert merged[-1].guess < planned.guess and merged[-1].right < planned.right
    noisy = by_kind["noise added"]
    assert noisy[-1].right < 0.7 * planned.right
    assert noisy[-1].label_gap > noisy[0].label_gap > planned.label_gap
    # Rounded labels are found more often, and each says less.
    rounded = by_kind["labels rounded"]
    assert rounded[-1].guess > planned.guess and rounded[-1].label_gap > planned.label_gap


def test_exposed_rows_are_right_and_go_by_their_names(planned_only):
    X, y, groups = make_linked()
    names = np.arange(len(y)) + 1000
    found = audit(X, y, groups, rows=names, rng=0)
    assert found.exposed
    for each in found.exposed:
        assert y[each.row - 1000] == each.label and each.probability >= 0.5
    shown = [each.probability for each in found.exposed]
    assert shown == sorted(shown, reverse=True)


def test_an_audit_is_the_same_for_any_order_of_rows_and_number_of_threads(one_of_each):
    X, y, groups = make_linked(n=40, bags=4)
    one = audit(X, y, groups, rng=0, n_jobs=1, method="ls").to_dict()
    assert audit(X, y, groups, rng=0, n_jobs=2, method="ls").to_dict() == one
    order = np.random.default_rng(1).permutation(40)
    turned = audit(X[order], y[order], groups[order], rng=0, rows=order, method="ls")
    assert turned.to_dict() == one


def test_the_truth_is_least_squares_on_the_linked_table():
    X, y, _ = make_linked()
    truth = link(X, y)
    known = np.linalg.lstsq(np.column_stack([X, np.ones(len(y))]), y, rcond=None)[0]
    np.testing.assert_allclose([*truth.weights, truth.intercept], known, rtol=1e-9)
    left = y - X @ truth.weights - truth.intercept
    assert truth.noise == pytest.approx(np.sqrt(left @ left / (len(y) - 3)))


def test_variances_of_the_noise_and_of_what_is_added_to_the_labels_add_up():
    X, y, groups = make_linked()
    truth, rng = link(X, y), np.random.default_rng(0)
    noisy = [each for each in list_releases(X, y, groups, rng) if each.kind == "noise added"]
    for release in noisy:
        sigma = truth.make_posterior(release).sigma
        assert sigma**2 == pytest.approx(truth.noise**2 + release.amount**2)
    assert len(noisy) == 3


def test_a_method_without_probabilities_is_audited_by_what_is_right(planned_only):
    found = audit(*make_linked(n=40, bags=4), rng=0, method="ls")
    assert found.planned.levels is None and found.shown == ()
    assert len(found.exposed) == found.planned.is_right.sum()
    assert "no probabilities" in " ".join(found.verdict)
    assert 0 < found.planned.right <= 1


def test_a_real_table_is_audited(planned_only):
    sm = pytest.importorskip("statsmodels.api")
    table = sm.datasets.stackloss.load_pandas()
    y = table.endog.to_numpy()
    found = audit(table.exog.to_numpy(), y, [i % 3 for i in range(len(y))], rng=0, scale="as is")
    assert found.r2 == pytest.approx(0.914, abs=0.002)  # as printed in every textbook
    # Labels repeat inside bags, so that guessing gets more than one in seven.
    assert found.planned.guess > 1 / 7
    assert found.planned.right > found.planned.guess


def test_bags_are_numbered_and_merged_by_name():
    assert number_bags([10, 9, 10], 3).tolist() == [1, 0, 1]
    assert number_bags(["10", "9", "a"], 3).tolist() == [0, 1, 2]
    X, y, groups = make_linked(n=50, bags=5)
    merged = [
        each.groups for each in list_releases(X, y, groups, np.random.default_rng(0))
        if each.kind == "bags merged"
    ]  # fmt: skip
    assert [len(set(each.tolist())) for each in merged] == [3, 2, 1]
    for each in merged:  # a bag is never parted
        assert all(len(set(each[groups == r].tolist())) == 1 for r in range(5))


@pytest.mark.parametrize("value", [1e-9, 0.3, 7.0, 12345.0])
def test_nice_numbers_are_near(value):
    assert 0.7 < nice_number(value) / value < 1.5


X, Y, GROUPS = make_linked(n=40, bags=4)
WRONG = {
    "constant labels": (lambda: audit(X, np.ones(40)), "every label is 1"),
    "no link": (
        lambda: audit(X, np.random.default_rng(0).standard_normal(40)), "shuffled already"
    ),
    "shuffled already": (lambda: audit(X, shuffle_labels(Y, None, rng=0)), "no link to the label"),
    "few rows": (lambda: audit(X[:4], Y[:4]), "4 rows with 2 features"),
    "lengths": (lambda: audit(X, Y[:5]), "a label beside every row"),
    "accept": (lambda: audit(X, Y, accept=1.5), "accept must be a share"),
    "known rows": (lambda: audit(X, Y, known=Y[:5]), "known columns need 40 rows"),
    "known gaps": (lambda: audit(X, Y, known=np.append(Y[1:], np.nan)), "missing or infinite"),
    "known label": (lambda: audit(X, Y, known=Y), "nothing is left to audit"),
    "known noise": (lambda: audit(X, Y, known=X, known_noise=-1.0), "at least 0"),
    "noise of nothing": (lambda: audit(X, Y, known_noise=0.5), "name some"),
    "groups": (lambda: audit(X, Y, [1, 2]), "groups has 2 entries"),
    "ids": (lambda: audit(X, Y, ids=[1, 2]), "ids has 2 entries"),
    "not finite": (lambda: audit(X, np.append(Y[1:], np.nan)), "nan"),
}  # fmt: skip


@pytest.mark.parametrize(("call", "words"), WRONG.values(), ids=WRONG)
def test_wrong_input_is_said_in_one_line(call, words):
    with pytest.raises(InputError, match=re.compile(words, re.IGNORECASE)) as error:
        call()
    assert "\n" not in str(error.value)


def test_labels_shuffled_inside_bags_are_not_taken_for_linked(planned_only):
    # Bags whose means differ keep a link between them, whatever is shuffled inside.
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(8), 10)
    X = rng.standard_normal((80, 1)) * 0.3 + groups[:, None]
    y = X[:, 0] + 0.05 * rng.standard_normal(80)
    with pytest.raises(InputError, match="inside the bags"):
        audit(X, shuffle_labels(y, groups, rng=1), groups, method="ls")
    assert audit(X, y, groups, method="ls", rng=0).planned.right > 0.3


def test_single_rows_are_remarked(planned_only):
    found = audit(X, Y, [0] * 39 + [1], method="ls", rng=0)
    assert "One bag holds a single row" in " ".join(found.remarks)


# ---- shares, control rows and side information --------------------------------------------------


@pytest.mark.parametrize(("n_right", "n"), [(0, 9), (1, 30), (15, 30), (400, 420), (9, 9)])
def test_the_interval_of_a_share_is_wilsons(n_right, n):
    share = Proportion(n_right, n)
    known = binomtest(n_right, n).proportion_ci(method="wilson")
    assert (share.low, share.high) == pytest.approx((known.low, known.high), abs=1e-12)


def test_the_risk_lies_in_its_interval_and_falls_with_the_control_rows():
    risks = [find_risk(Proportion(60, 100), Proportion(k, 40), 0.8) for k in (0, 10, 20, 30, 40)]
    values = [each.value for each in risks]
    assert values == sorted(values, reverse=True) and values[0] == 0.6 and values[-1] == 0.0
    assert all(0 <= each.low <= each.value <= each.high <= 1 for each in risks)
    # Without control rows it is the share itself.
    alone = find_risk(Proportion(60, 100), Proportion(0, 0), 0.8)
    share = Proportion(60, 100)
    assert (alone.value, alone.low, alone.high) == (0.6, share.low, share.high)


def test_the_interval_of_the_risk_covers():
    """Of 2000 intervals of 95 % between 92 and 98 % cover: less happens by chance once in 10⁶."""
    rng = np.random.default_rng(0)
    released, control = rng.binomial(200, 0.35, 2000), rng.binomial(50, 0.1, 2000)
    true = (0.35 - 0.1) / 0.9
    pairs = zip(released.tolist(), control.tolist(), strict=True)
    risks = [find_risk(Proportion(a, 200), Proportion(c, 50), 0.0) for a, c in pairs]
    assert 0.92 <= np.mean([each.low <= true <= each.high for each in risks]) <= 0.98


@pytest.mark.parametrize("sizes", [[1, 1, 2, 3], [8] * 5, [40], [1] * 9, [2] * 8])
def test_control_rows_are_a_quarter_and_empty_no_bag(sizes):
    groups = np.repeat(np.arange(len(sizes)), sizes)
    chosen = choose_control(groups, np.random.default_rng(0))
    left = np.bincount(np.delete(groups, chosen), minlength=len(sizes))
    assert (left > 0).all() and len(set(chosen.tolist())) == len(chosen)
    assert len(chosen) <= len(groups) / 4 + 1
    if min(sizes) > 1:
        assert len(chosen) >= len(groups) // 4


def test_what_the_model_tells_about_anybody_is_no_risk(planned_only):
    """Two labels that the features settle: rows left out are told as well as those released."""
    rng = np.random.default_rng(0)
    y = np.repeat([0.0, 1.0], 60)
    X = (y + rng.normal(0, 0.6, 120))[:, None]
    groups = rng.permutation(np.arange(120) % 10)
    planned = audit(X, y, groups, method="ls", rng=0).planned
    assert planned.right > 0.7 > planned.guess
    assert planned.control_right.value > 0.6
    # Of labels that nobody else has, a row left out tells nothing: the risk is the share itself.
    unique = audit(*make_linked(), method="ls", rng=0).planned
    assert unique.control_right.value == 0.0 and unique.risk.value == unique.right
    assert planned.risk.value < 0.7 * planned.right
    assert unique.control.gap > unique.label_gap * unique.label_sd


def make_tied(seed):
    """Rows of six values: which of equal rows has which label nobody can tell."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 6, 120).astype(float)[:, None]
    return X, X[:, 0] + 0.2 * rng.standard_normal(120), rng.permutation(np.arange(120) % 6)


def test_the_share_stated_is_what_matching_the_release_achieves(planned_only):
    n_inside = 0
    for seed in range(6):
        X, y, groups = make_tied(seed) if seed % 2 else make_linked(rng=seed)
        stated = audit(X, y, groups, rng=0, method="ls", scale="as is").planned.matched
        released = shuffle_labels(y, groups, rng=seed)
        model = ShuffledLinearRegression("ls", random_state=1).fit(X, released, groups)
        match = model.match(X, released, groups)
        n_inside += stated.low <= np.mean(released[match.order] == y) <= stated.high
    # Of tied rows both shares are random: two 95 % intervals of six fail once in 500.
    assert n_inside >= 5


def test_a_rough_label_from_elsewhere_raises_the_risk_the_less_rough_the_more(planned_only):
    X, y, groups = make_linked(noise=1.0)
    known = [
        audit(X, y, groups, known=y, known_noise=noise, method="ls", rng=0)
        for noise in (0.02, 0.3, 5.0)
    ]
    shares = [each.planned.right for each in known]
    assert shares[0] > 0.6 and shares[0] > shares[1] > shares[2]
    for each in known:
        assert each.unaided.right == known[0].unaided.right  # the release itself is the same
        assert each.d == 2 and each.known == ("known 1",)
        assert any(line.startswith("Without the known columns") for line in each.verdict)
    assert audit(X, y, groups, method="ls", rng=0).unaided is None


@pytest.fixture
def linked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [
        f"{a:.4f},{b:.4f},{g},{y:.4f}"
        for (a, b), g, y in zip(X.tolist(), GROUPS.tolist(), Y.tolist(), strict=True)
    ]
    Path("linked.csv").write_text("\n".join(["age,rent,district,income", *lines]) + "\n")
    return tmp_path


AUDIT = ["audit", "linked.csv", "--label", "income"]


def test_the_command_prints_what_was_found_and_what_was_not_shown(linked, capsys):
    assert run([*AUDIT, "--bag", "district", "--method", "ls"]) == 0
    streams = capsys.readouterr()
    assert "An outsider recovers the coefficients" in streams.out
    assert "merged into 2 bags" in streams.out
    for sentence in NOT_SHOWN:
        assert sentence in streams.out
    assert "40 rows, label 'income', bag 'district', 2 features: age, rent" in streams.err


def test_the_exit_code_compares_the_risk_with_the_accepted_one(linked, capsys, planned_only):
    command = [*AUDIT, "--bag", "district", "--method", "ls", "--json", "-q"]
    for accept, code in (("0.01", 3), ("1", 0)):
        assert run([*command, "--accept", accept]) == code
        found = json.loads(capsys.readouterr().out)
        assert found["acceptable"] is (found["risk"]["value"] <= float(accept)) is (code == 0)
        where = "within" if code == 0 else "above"
        assert f"The risk is {where} the accepted" in " ".join(found["verdict"])
    assert run(command) == 0
    assert json.loads(capsys.readouterr().out)["acceptable"] is None


def test_exposed_rows_are_written_with_their_ids(linked, capsys, planned_only):
    head, *lines = Path("linked.csv").read_text().split()
    named = [f"{line},{100 + i}" for i, line in enumerate(lines)]
    Path("linked.csv").write_text("\n".join([f"{head},person", *named]) + "\n")
    how = ["--bag", "district", "--id", "person", "--exposed", "rows.csv", "--json"]
    assert run([*AUDIT, *how]) == 0
    streams = capsys.readouterr()
    assert "confidential" in streams.err and "2 features: age, rent" in streams.err
    rows = list(csv.DictReader(Path("rows.csv").read_text().splitlines()))
    assert list(rows[0]) == ["row", "id", "bag", "label", "probability"]
    for row in rows:
        _, _, bag, label = lines[int(row["row"]) - 1].split(",")
        assert (row["id"], row["bag"], float(row["label"])) == (
            str(99 + int(row["row"])), bag, float(label),
        )  # fmt: skip
    sure = [float(row["probability"]) for row in rows]
    assert sure == sorted(sure, reverse=True) and min(sure) >= 0.5
    found = json.loads(streams.out)
    assert found["levels"][0]["right"] == len(rows)
    assert [each["id"] for each in found["exposed"]] == [row["id"] for row in rows][:20]


def test_known_columns_are_not_released(linked, capsys, planned_only):
    how = ["--bag", "district", "--method", "ls", "--json"]
    assert run([*AUDIT, *how, "--known", "age", "--known-noise", "0.2"]) == 0
    streams = capsys.readouterr()
    found = json.loads(streams.out)
    assert "1 feature: rent" in streams.err and found["d"] == 1
    assert found["known"]["columns"] == ["age"] and found["known"]["noise"] == 0.2
    assert found["known"]["risk_without"]["value"] <= found["risk"]["value"]
    assert run([*AUDIT, *how, "--features", "rent"]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert alone["known"]["risk_without"] is None
    # Without the known column it is the same attack, on rows in another order.
    assert alone["risk"]["value"] == pytest.approx(found["known"]["risk_without"]["value"], abs=0.2)


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_each_picture_is_a_file(ending, linked, capsys, planned_only):
    pytest.importorskip("jinja2")
    command = [*AUDIT, "--bag", "district", "--method", "ls", "--pictures", "pictures", "-q"]
    assert run([*command, "--picture-format", ending]) == 0
    (path,) = Path("pictures").iterdir()
    assert path.name == f"how-the-risk-changes.{ending}"
    start = {"svg": b"<?xml", "png": b"\x89PNG"}[ending]
    assert path.read_bytes().startswith(start)


def test_the_report_holds_what_was_found(linked, capsys, one_of_each):
    pytest.importorskip("jinja2")
    assert run([*AUDIT, "--bag", "district", "--report", "audit.html", "--json", "-q"]) == 0
    found = json.loads(capsys.readouterr().out)
    page = Path("audit.html").read_text(encoding="utf-8")
    assert page.index(CONFIDENTIAL) < page.index(found["verdict"][0])
    for sentence in (*found["verdict"], *NOT_SHOWN):
        assert sentence.replace("'", "&#39;") in page
    assert (
        page.count("<figure>") == 2
        and "<script" not in page
        and "http://" not in page.replace("http://www.w3.org", "")
    )
    assert found["provenance"]["command"] in page.replace("&#39;", "'")
    assert {each["kind"] for each in found["releases"]} == {
        "as planned", "bags merged", "labels rounded", "noise added"
    }  # fmt: skip
    assert [each["at_least"] for each in found["levels"]] == [0.5, 0.8, 0.95]
    assert all(1 <= each["row"] <= 40 for each in found["exposed"])


def test_the_report_names_label_file_and_date(linked, capsys, one_of_each, monkeypatch):
    pytest.importorskip("jinja2")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    assert run([*AUDIT, "--bag", "district", "--method", "ls", "--report", "audit.html", "-q"]) == 0
    head = Path("audit.html").read_text(encoding="utf-8").split("<header>")[1].split("</header>")[0]
    assert "income: audit of a release" in head and "1970-01-02" in head
    assert AUDIT[1] in head


def test_names_in_a_report_are_text(linked, capsys, one_of_each):
    pytest.importorskip("jinja2")
    text = Path("linked.csv").read_text().replace("income", "<b>$x$")
    Path("linked.csv").write_text(text)
    command = ["audit", "linked.csv", "--label", "<b>$x$", "--bag", "district", "--method", "ls"]
    assert run([*command, "--report", "a.html", "-q"]) == 0
    assert "<b>" not in Path("a.html").read_text(encoding="utf-8")


@pytest.fixture
def wages(tmp_path):
    """Wages are linear in the columns after a logarithm; eight people a firm."""
    rng = np.random.default_rng(2)
    age, school = rng.uniform(20, 65, 96), rng.integers(8, 20, 96)
    wage = np.exp(1.2 + 0.04 * age + 0.2 * school + rng.normal(0, 0.25, 96))
    lines = [
        f"{a:.2f},{s},{w:.3f},f{i // 8}"
        for i, (a, s, w) in enumerate(zip(age, school, wage, strict=True))
    ]
    path = tmp_path / "wages.csv"
    path.write_text("\n".join(["age,school,wage,firm", *lines]) + "\n")
    return ["audit", str(path), "--label", "wage", "--bag", "firm", "-q"]


def test_the_worst_scale_of_the_label_is_reported(wages, capsys, planned_only):
    command = [*wages, "--method", "ls"]
    assert run(command) == 0
    told = capsys.readouterr().out
    assert "log10" in told and "sqrt" in told and "the worst" in told
    assert run([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    scales = {each["scale"]: each["right"] for each in found["scales"]}
    assert scales.keys() == {"as is", "log10", "sqrt"}
    assert found["matches"]["right"] == scales[found["scale"]] == max(scales.values())
    assert re.search(rf"as planned +\S+ +{100 * max(scales.values()):.1f}% ", told)
    assert run([*command, "--log10", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["scales"] == [{**found["scales"][0], "scale": "log10", "right": scales["log10"]}]


def test_what_raises_the_risk_is_not_advised(wages, capsys, monkeypatch):
    def list_rounded(*args):
        planned, *others = list_releases(*args)
        return [planned, *(each for each in others if each.kind == "labels rounded")]

    monkeypatch.setattr(findings, "list_releases", list_rounded)
    assert run([*wages, "--log10", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)

    def share(release):
        return next(each["right"] for each in release["levels"] if each["at_least"] == 0.8)

    planned = share(found["releases"][0])
    rounded = [share(each) for each in found["releases"] if each["kind"] == "labels rounded"]
    assert min(rounded) > planned
    risks = [each["risk"]["value"] for each in found["releases"]]
    verdict = " ".join(found["verdict"])
    assert ("Rounding labels raises the risk" in verdict) is (max(risks) > max(risks[0], 0.01))
    # No step that raises the risk is among those advised.
    advised = re.search(r"Steps that lower the risk .*?: (.*?)\.", verdict)
    assert advised is None or min(risks[1:]) <= 0.01
    assert min(risks[1:]) < risks[0] or "No step tried lowers the risk" in verdict


def test_labels_without_a_logarithm_are_refused_with_their_row(linked, capsys):
    text = Path("linked.csv").read_text().splitlines()
    Path("linked.csv").write_text("\n".join([*text[:3], "1,1,0,-2.5", *text[3:], ""]))
    code = run([*AUDIT, "--log10", "-q"])
    assert_one_line(code, capsys.readouterr(), ["'income'", "no logarithm (first: row", "--log10"])


def test_a_noise_in_units_of_the_label_leaves_the_label_as_it_is(planned_only):
    y = Y - Y.min() + 1.0
    assert {each.scale for each in audit(X, y, GROUPS, rng=0, method="ls").scales} == {
        "as is", "log10", "sqrt"
    }  # fmt: skip
    found = audit(X, y, GROUPS, rng=0, method="ls", noise=0.05)
    assert [each.scale for each in found.scales] == ["as is"]
    with pytest.raises(InputError, match="unknown scale 'log'"):
        audit(X, y, GROUPS, scale="log")
    with pytest.raises(InputError, match="have no log10"):
        audit(X, Y - Y.min(), GROUPS, scale="log10")


BAD = {
    "no label": (["audit", "linked.csv"], ["--label"]),
    "unknown label": (["audit", "linked.csv", "--label", "incom"], ["'incom'", "'income'"]),
    "unknown bag": ([*AUDIT, "--bag", "distrikt"], ["'distrikt'", "'district'"]),
    "no file": (["audit", "none.csv", "--label", "y"], ["none.csv", "no such file"]),
    "constant": (
        ["audit", "constant.csv", "--label", "y"],
        ["constant.csv, label 'y'", "every label is 2"],
    ),
    "already shuffled": (["audit", "shuffled.csv", "--label", "y"], ["shuffled already"]),
    "text": (["audit", "text.csv", "--label", "y"], ["row 1", "'y'", "'low'"]),
    "no place": ([*AUDIT, "--report", "no/a.html"], ["no/a.html", "folder"]),
    "method": ([*AUDIT, "--method", "lz"], ["unknown method 'lz'"]),
    "known twice": ([*AUDIT, "--features", "age", "--known", "age"], ["'age'", "is released"]),
    "known noise": ([*AUDIT, "--known-noise", "1"], ["--known-noise", "--known"]),
    "known label": ([*AUDIT, "--known", "income"], ["the label itself", "--known-noise"]),
    "no category": (
        ["audit", "named.csv", "--label", "y", "--known", "who", "--known-noise", "1"],
        ["--known-noise", "categories"],
    ),
    "unknown id": ([*AUDIT, "--id", "person"], ["'person'", "column of ids"]),
    "accept": ([*AUDIT, "--accept", "2"], ["--accept", "2"]),
    "no folder": ([*AUDIT, "--exposed", "no/a.csv"], ["no/a.csv", "folder"]),
}


@pytest.mark.parametrize(("command", "words"), BAD.values(), ids=BAD)
def test_bad_input_is_one_line(command, words, linked, capsys):
    Path("constant.csv").write_text("x,y\n" + "".join(f"{i},2\n" for i in range(9)))
    labels = [3, 1, 2, 2, 3, 1, 1, 3, 2]
    Path("shuffled.csv").write_text("x,y\n" + "".join(f"{i},{y}\n" for i, y in enumerate(labels)))
    named = "".join(f"{i},{'ab'[i % 2]},{2 * i}\n" for i in range(9))
    Path("named.csv").write_text("x,who,y\n" + named)
    Path("text.csv").write_text("x,y\n1,low\n2,high\n")
    code = run([*command, "-q"])
    assert_one_line(code, capsys.readouterr(), words)
