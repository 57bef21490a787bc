"""Wrong input of the command line: one line for every mistake."""

import os
from pathlib import Path

import pytest

from command_line import FIT, assert_one_line
from unshuffle.cli.app import run

IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
FCS_HEAD = b"FCS3.1" + b" " * 4 + b"      58    1000    1001    9000       0       0"

# Content of the file → what the one line must name.
WRONG_FILES = {
    "label missing": ("x1,lable,y\n1,2,3\n", ["data.csv", "'label'", "did you mean 'lable'"]),
    "duplicate names": ("a,a,label\n1,2,3\n", ["data.csv", "columns 1 and 2", "'a'", "rename"]),
    "empty": ("", ["data.csv", "empty"]),
    "blank": ("\n\n  \n", ["data.csv", "empty"]),
    "header only": ("a,label\n", ["data.csv", "no rows"]),
    "ragged": ("a,label\n1,2\n3,4\n5,6,7\n8,9\n", ["data.csv", "line 4", "3 fields"]),
    "open quote": ('a,label\n1,2\n"3,4\n', ["data.csv", "line 3", "quotation"]),
    "mixed types": ("a,label\n1,2\nx,4\n5,6\n", ["data.csv", "row 2", "'a'", "'x'"]),
    "text label": ("a,label\n1,2\n3,u\n5,6\n", ["data.csv", "row 2", "'label'", "'u'"]),
    "float bag": ("a,bag,label\n1,1,2\n3,1.5,4\n", ["data.csv", "row 2", "'bag'", "1.5"]),
    "missing cell": ("a,label\n1,2\n,4\n", ["data.csv", "row 2", "'a'", "missing"]),
    "infinite cell": ("a,label\n1,2\n3,inf\n", ["data.csv", "row 2", "'label'", "inf"]),
    "too few rows": ("a,b,c,label\n1,2,4,3\n", ["1", "weights"]),
    "only the label": ("label\n1\n2\n", ["data.csv", "feature"]),
    "zero byte": (b"a,label\n1,2\n\0,3\n", ["data.csv", "zero byte"]),
    "excel": (b"PK\x03\x04rest", ["data.csv", "Excel"]),
    "markup in names": ("[bold]a,[/],label\nu,v,w\n", ["data.csv", "label"]),
    "escape codes": ("\x1b[31ma,b\n1,2\n", ["data.csv", "\\x1b[31ma"]),
    "endless name": (f"{'a' * 10_000},b\n1,2\n", ["data.csv", "aaa…"]),
    "many columns": (
        ",".join(["label", *(f"x{j}" for j in range(1_999))]) + "\n" + "1," * 1_999 + "2\n",
        ["2000 weights"],
    ),
}
WRONG_ENDINGS = {
    "truncated FCS": ("data.fcs", FCS_HEAD, ["data.fcs", "FCS", "export"]),
    "text as FCS": ("data.fcs", b"a,label\n1,2\n", ["data.fcs", "not an FCS file"]),
    "text as Parquet": ("data.parquet", b"a,label\n1,2\n", ["data.parquet", "not a Parquet file"]),
    "broken Parquet": ("data.parquet", b"PAR1" + b"x" * 99, ["data.parquet", "broken"]),
    "broken gzip": ("data.csv.gz", b"\x1f\x8bxxxx", ["data.csv.gz", "gzip"]),
}


@pytest.mark.parametrize(("content", "words"), WRONG_FILES.values(), ids=WRONG_FILES)
@pytest.mark.parametrize("as_object", [[], ["--json"]], ids=["text", "json"])
def test_a_broken_file_is_one_line(content, words, as_object, folder, capsys):
    Path("data.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    bag = ["--bag", "bag"] if b"bag" in Path("data.csv").read_bytes() else []
    args = ["fit", "data.csv", "--label", "label", "--method", "ls", "--quiet"]
    assert_one_line(run([*args, *bag, *as_object]), capsys.readouterr(), words)


@pytest.mark.parametrize("command", ["fit", "audit", "match", "compare"])
def test_a_forgotten_label_is_asked_for_with_the_columns_there_are(command, folder, capsys):
    words = ["--label", "'x1', 'x2', 'bag', 'y'", "unshuffle describe"]
    assert_one_line(run([command, "data.csv"]), capsys.readouterr(), words)


def test_files_without_a_column_in_common_are_told_apart_by_name(folder, capsys):
    Path("other.csv").write_text("a-b,y\n1,2\n3,4\n")
    words = ["data.csv", "other.csv", "differ in the column"]
    code = run(["fit", "data.csv", "other.csv", "--label", "y"])
    assert_one_line(code, capsys.readouterr(), words)


@pytest.mark.parametrize(("name", "content", "words"), WRONG_ENDINGS.values(), ids=WRONG_ENDINGS)
def test_a_file_of_another_format_is_one_line(name, content, words, folder, capsys):
    pytest.importorskip("pyarrow")
    pytest.importorskip("flowio")
    Path(name).write_bytes(content)
    code = run(["fit", name, "--label", "label"])
    assert_one_line(code, capsys.readouterr(), words)


WRONG_COMMANDS = {
    "no such file": (["fit", "absent.csv", "--label", "y"], ["absent.csv", "no such file"]),
    "folder": (["fit", ".", "--label", "y"], ["folder"]),
    "no data": (["fit", "--label", "y"], ["no data", "unshuffle fit --help"]),
    "no label": (["fit", "data.csv"], ["--label"]),
    "wrong feature": ([*FIT, "--features", "x1,x02"], ["data.csv", "'x02'", "did you mean 'x2'"]),
    "wrong bag": (["fit", "data.csv", "--label", "y", "--bag", "bga"], ["'bga'", "'bag'"]),
    "label as feature": ([*FIT, "--features", "x1,y"], ["'y'", "label"]),
    "unknown command": (["fti"], ["'fti'", "did you mean 'fit'"]),
    "unknown option": ([*FIT, "--metod", "ls"], ["--metod"]),
    "unknown method": ([*FIT, "--method", "lss"], ["'lss'", "did you mean 'ls'"]),
    "level too high": ([*FIT, "--level", "95"], ["--level", "0.95"]),
    "level not a number": ([*FIT, "--level", "nan"], ["--level", "0.95"]),
    "negative noise": ([*FIT, "--noise", "-1"], ["noise", "-1"]),
    "noise not a number": ([*FIT, "--noise", "nan"], ["noise", "nan"]),
    "negative penalty": ([*FIT, "--l2", "-1", "--method", "ls"], ["l2", "-1"]),
    "negative seed": ([*FIT, "--seed", "-1"], ["--seed"]),
    "no starts": ([*FIT, "--starts", "0", "--method", "ls"], ["--starts", "0"]),
    "rows alone": (["fit", "--rows", "data.csv"], ["--rows together with --labels"]),
    "labels alone": (["fit", "--labels", "data.csv"], ["--rows together with --labels"]),
    "separate and same": ([*FIT, "--separate", "--same-individuals"], ["not both"]),
    "wrong weight": ([*FIT, "--weight", "x01"], ["data.csv", "weight column", "mean 'x1'"]),
    "weight as label": ([*FIT, "--weight", "y"], ["data.csv", "'y'", "both label and weight"]),
    "weights with a fraction": ([*FIT, "--weight", "x1"], ["data.csv", "row 1", "'x1'", "whole"]),
    "truth of separate samples": (
        ["compare", "data.csv", "--truth", "y", "--separate"],
        ["--truth", "leave --separate out"],
    ),
    "match of separate samples": (
        ["match", *FIT[1:], "--separate", "-q"],
        ["data.csv", "separate samples", "'unshuffle fit'"],
    ),
    "report in no folder": ([*FIT, "--report", "no/such/f.html"], ["no/such/f.html", "folder"]),
    "report is a folder": ([*FIT, "--report", "."], ["folder"]),
    "report is no page": ([*FIT, "--report", "f.pdf"], ["f.pdf", "HTML", "ends in .html"]),
    "audit is no page": (
        ["audit", "data.csv", "--label", "y", "--bag", "bag", "--report", "a.PDF"],
        ["a.PDF", "HTML", "ends in .html"],
    ),
    "demo is no page": (["demo", "--out", "demo.docx"], ["demo.docx", "HTML", "ends in .html"]),
    "encoding unknown": ([*FIT, "--encoding", "klingon"], ["klingon"]),
    "noise twice": ([*FIT, "--noise", "1", "--calibration", "data.csv"], ["not both"]),
    "truth absent": (["compare", "data.csv", "--truth", "Y"], ["'Y'", "did you mean 'y'"]),
    "wrong method list": (["compare", "data.csv", "--label", "y", "--methods", "l"], ["'l'"]),
    "no rows": (["simulate", "-n", "0"], ["n=0"]),
    "odd weights": (["simulate", "--weights", "1,x,2"], ["--weights", "'x'"]),
    "odd distribution": (["simulate", "--distribution", "cauchy"], ["cauchy"]),
}


@pytest.mark.parametrize(("args", "words"), WRONG_COMMANDS.values(), ids=WRONG_COMMANDS)
def test_a_wrong_command_is_one_line(args, words, folder, capsys):
    quiet = ["--quiet"] if args[0] in ("fit", "compare") else []
    assert_one_line(run([*args, *quiet]), capsys.readouterr(), words)


@pytest.mark.skipif(IS_ROOT, reason="nothing is forbidden to root")
def test_forbidden_files_are_one_line(folder, capsys):
    Path("data.csv").chmod(0)
    assert_one_line(run(FIT), capsys.readouterr(), ["data.csv", "permission"])


def test_a_mistake_of_ours_is_one_line_and_no_input_error(folder, capsys, monkeypatch):
    def fail(*args, **how):
        raise TypeError("oh")

    monkeypatch.setattr("unshuffle.cli.commands.fit.load_dataset", fail)
    assert run(FIT) == 1
    assert capsys.readouterr().err.count("\n") == 1
