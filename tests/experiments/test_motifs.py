"""The motif study: counts, redundancy, known effects, and files of one's own."""

import numpy as np
import pytest

from unshuffle.errors import InputError
from unshuffle.experiments import load_experiment, motifs, runner
from unshuffle.experiments.rows import row_key
from unshuffle.experiments.runner import Scope


def count_slowly(sequence, motif):
    return sum(sequence.startswith(motif, i) for i in range(len(sequence)))


def test_motif_counts_are_those_of_a_slow_count():
    sequences, _, _ = motifs.make_microarray(20, 15, rng=3)
    counts, names = motifs.count_motifs(sequences)
    expected = [[count_slowly(s, motif) for motif in names] for s in sequences]
    np.testing.assert_array_equal(counts, expected)


def test_dropping_redundant_columns_keeps_the_rank():
    sequences, _, _ = motifs.make_microarray(500, 20, rng=1)
    counts, names = motifs.count_motifs(sequences)
    kept = motifs.drop_redundant(counts)
    design = np.column_stack([np.ones(500), counts])
    assert np.linalg.matrix_rank(design) == len(kept) + 1 < len(names) + 1
    assert np.linalg.matrix_rank(np.column_stack([np.ones(500), counts[:, kept]])) == len(kept) + 1


def test_the_known_effects_of_a_simulated_array_are_recovered_with_the_links():
    sequences, affinity, _ = motifs.make_microarray(noise=0.1, rng=0)
    counts, names = motifs.count_motifs(sequences)
    kept = motifs.drop_redundant(counts)
    design = np.column_stack([counts[:, kept], np.ones(len(affinity))])
    weights = dict(
        zip(
            [names[j] for j in kept], np.linalg.lstsq(design, affinity, rcond=None)[0], strict=False
        )
    )
    for motif, effect in motifs.EFFECTS.items():
        # Six standard errors of the worst motif: a false alarm once in 10⁸.
        assert abs(weights[motif] - effect) < 0.06
    assert set(motifs.EFFECTS) <= set(motifs.choose_motifs(sequences, affinity).names)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sequence,affinity\n" + "ACGT,1\n" * 5, "5 sequences"),
        ("sequence,affinity\nACGT,1\nAXGT,2\n", "data row 2 is no sequence"),
        ("sequence,affinity\nACGT,1\nACGT,\n", "data row 2 has no affinity"),
        ("a,b\n1,2\n3,4\n", "one of each"),
    ],
)
def test_bad_sequence_files_are_named(tmp_path, text, message):
    path = tmp_path / "mine.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        motifs.read_sequences(path)
    assert "mine.csv" in str(caught.value)


def test_a_users_file_joins_table_3(tmp_path):
    sequences, affinity, _ = motifs.make_microarray(300, 12, rng=0)
    path = tmp_path / "mine.csv"
    lines = [f"{s},{a}" for s, a in zip(sequences, affinity, strict=True)]
    path.write_text("sequence,affinity\n" + "\n".join(lines) + "\n")
    tasks = runner.plan_tasks(["table3"], Scope(quick=True, sequences=str(path)))
    mine = [t for t in tasks if t.settings["data"] == "file" and t.settings["method"] == "control"]
    row = runner.compute_row(mine[0], 0)
    assert len(row["ranked"].split()) == 20
    moved = path.rename(tmp_path / "renamed.csv")
    again = runner.plan_tasks(["table3"], Scope(quick=True, sequences=str(moved)))
    keys = load_experiment("table3").keys
    # The content tells its rows, not the name or the place of the file.
    assert [row_key(t.settings, keys) for t in again] == [row_key(t.settings, keys) for t in tasks]
    with pytest.raises(InputError, match="cannot be read"):
        runner.plan_tasks(["table3"], Scope(sequences=str(tmp_path / "none.csv")))
