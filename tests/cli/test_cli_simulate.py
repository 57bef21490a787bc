"""Simulated files have the truth that is printed."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from command_line import assert_one_line
from unshuffle.cli.app import run
from unshuffle.io import read_table
from unshuffle.io.columns.label_column import add_label

POOLS = ["simulate", "-n", "4000", "-d", "2", "--bags", "5", "--noise", "0.2", "--json"]


def read_rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_pools_are_the_shares_of_their_constructs(tmp_path, monkeypatch, capsys):
    pytest.importorskip("flowio")
    monkeypatch.chdir(tmp_path)
    assert run([*POOLS, "--pools", "one"]) == 0
    found = json.loads(capsys.readouterr().out)
    weights, noise = np.array(list(found["truth"]["weights"].values())), found["truth"]["noise"]
    rows = read_rows("one/pools.csv")
    for pool in ("pool1", "pool2", "pool3", "pool4", "pool5"):
        own = [row for row in rows if row["pool"] == pool]
        X = np.array([[float(row["x1"]), float(row["x2"])] for row in own])
        share = np.array([float(row["share"]) for row in own])
        assert share.sum() == pytest.approx(1.0, abs=1e-3)
        share /= share.sum()
        table = add_label(read_table(f"one/{pool}.fcs"), found["label"])
        labels = table.columns[found["label"]]
        z = X @ weights + found["truth"]["intercept"]
        sd = np.sqrt(share @ (z - share @ z) ** 2 + noise**2)
        # 5 standard errors: false alarms in 3 of a million pools.
        assert abs(labels.mean() - share @ z) < 5 * sd / np.sqrt(800) and len(labels) == 800
    single = add_label(read_table("one/single.fcs"), found["label"]).columns[found["label"]]
    assert single.std() == pytest.approx(noise, rel=0.15)
    assert run([*POOLS, "--pools", "two"]) == 0
    for path in Path("one").iterdir():
        assert path.read_bytes() == (Path("two") / path.name).read_bytes()


def test_samples_of_a_table_get_labels_inside_their_bags(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    lines = [f"{a:.3f},{b:.3f},{k % 3},x" for k, (a, b) in enumerate(rng.normal(size=(30, 2)))]
    Path("samples.csv").write_text("\n".join(["a,b,run,note", *lines]) + "\n")
    how = ["simulate", "--samples", "samples.csv", "--features", "a,b", "--bag", "run"]
    truth = ["--weights", "2,-1", "--intercept", "3", "--noise", "0"]
    assert run([*how, *truth, "--linked", "--out", "out.csv"]) == 0
    assert "a 2, b -1" in capsys.readouterr().out
    rows = read_rows("out.csv")
    for row, line in zip(rows, lines, strict=True):
        a, b, bag, _ = line.split(",")
        assert (float(row["a"]), float(row["b"]), row["run"]) == (float(a), float(b), bag)
        assert float(row["linked"]) == pytest.approx(2 * float(a) - float(b) + 3)
    for bag in "012":
        own = [row for row in rows if row["run"] == bag]
        assert sorted(row["y"] for row in own) == sorted(row["linked"] for row in own)
    assert any(row["y"] != row["linked"] for row in rows)


def test_the_old_name_of_distribution_works_and_says_the_new_one(capsys):
    assert run(["simulate", "-n", "6", "--distribution", "normal"]) == 0
    new = capsys.readouterr()
    assert run(["simulate", "-n", "6", "--law", "normal"]) == 0
    old = capsys.readouterr()
    assert old.out == new.out
    assert "--law is now called --distribution" in old.err and "--law" not in new.err


WRONG = {
    "pools and out": (["--pools", "p", "--out", "a.csv"], ["--pools", "--out"]),
    "bag without samples": (["--bag", "run"], ["--bag", "--samples"]),
    "few cells": (["--pools", "p", "-n", "3", "--bags", "5"], ["3 cells", "5 pools"]),
    "no such distribution": (["--distribution", "norml"], ["'norml'", "'normal'"]),
}


@pytest.mark.parametrize(("more", "words"), WRONG.values(), ids=WRONG)
def test_a_wrong_option_is_one_line(more, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert_one_line(run(["simulate", *more]), capsys.readouterr(), words)
