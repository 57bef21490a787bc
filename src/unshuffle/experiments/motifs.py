"""Counts of motifs (k-mers) in sequences, of a simulated array or of a user's file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer

from unshuffle.errors import InputError, quote
from unshuffle.io import read_table

BASES = "ACGT"
LONGEST = 3
N_MOTIFS = 20
N_STRONGEST = 1200
# Effects of the simulated array: some motifs raise the affinity, some lower it. None is among the
# columns that `drop_redundant` takes out (T, TT, TAT, …), whose effects others would have to carry.
EFFECTS = {
    "ATC": 1.0, "CGT": 0.9, "TGC": 0.8, "GG": 0.5, "AC": 0.3,
    "CAT": -1.0, "TAC": -0.9, "GAT": -0.8, "CT": -0.5, "AAT": -0.4,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Motifs:
    """Counts of the chosen motifs (n, 20) in the best sequences, and their affinities."""

    X: np.ndarray
    y: np.ndarray
    names: tuple[str, ...]
    rows: np.ndarray


def make_microarray(
    n: int = 4000,
    length: int = 30,
    effects: Mapping[str, float] | None = None,
    noise: float = 0.5,
    rng: np.random.Generator | int | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Simulate random sequences whose affinity is the sum of their motifs' effects, and noise.

    Returns the sequences, the affinities, and the affinities without noise.

    >>> sequences, affinity, signal = make_microarray(5, 8, {"AC": 1.0}, noise=0.0, rng=0)
    >>> [sequence.count("AC") for sequence in sequences] == signal.astype(int).tolist()
    True
    """
    rng = np.random.default_rng(rng)
    effects = EFFECTS if effects is None else effects
    letters = rng.choice(list(BASES), size=(n, length))
    sequences = np.array(["".join(row) for row in letters])
    counter = CountVectorizer(
        analyzer="char", ngram_range=(1, LONGEST), lowercase=False, vocabulary=list(effects)
    )
    signal = counter.transform(sequences) @ np.array(list(effects.values()))
    return sequences, signal + noise * rng.standard_normal(n), np.asarray(signal, dtype=float)


def count_motifs(sequences: Sequence[str] | np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Count every motif of up to three bases, the short ones first.

    >>> counts, names = count_motifs(["AACC"])
    >>> dict(zip(names, counts[0].astype(int).tolist()))["AC"]
    1
    """
    counter = CountVectorizer(analyzer="char", ngram_range=(1, LONGEST), lowercase=False)
    counts = counter.fit_transform(sequences).toarray().astype(float)
    names = counter.get_feature_names_out()
    order = sorted(range(len(names)), key=lambda j: (len(names[j]), names[j]))
    return counts[:, order], [str(names[j]) for j in order]


def drop_redundant(X: np.ndarray) -> np.ndarray:
    """Return the columns that are no linear combination of a constant and earlier columns.

    Counts are collinear: in sequences of one length the single bases add up to a constant.
    """
    design = np.column_stack([np.ones(len(X)), X])
    scale = np.linalg.norm(design, axis=0)
    # Without pivoting, a column that adds nothing has a zero on the diagonal.
    diagonal = np.abs(np.diag(np.linalg.qr(design / np.where(scale == 0, 1, scale), mode="r")))
    return np.flatnonzero(diagonal[1:] > 1e-8)


def t_values(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the t statistic of every column in ordinary least squares with an intercept."""
    design = np.column_stack([X, np.ones(len(y))])
    weights = np.linalg.lstsq(design, y, rcond=None)[0]
    residuals = y - design @ weights
    variance = residuals @ residuals / max(len(y) - design.shape[1], 1)
    spread = np.sqrt(variance * np.diag(np.linalg.pinv(design.T @ design)))
    return np.asarray(weights / np.where(spread == 0, np.inf, spread))[:-1]


def choose_motifs(sequences: np.ndarray, affinity: np.ndarray) -> Motifs:
    """Take the 20 motifs with the largest |t| on all rows, then the 1200 best sequences."""
    counts, names = count_motifs(sequences)
    free = drop_redundant(counts)
    strength = np.abs(t_values(counts[:, free], affinity))
    chosen = free[np.sort(np.argsort(-strength, kind="stable")[:N_MOTIFS])]
    rows = np.sort(np.argsort(-affinity, kind="stable")[:N_STRONGEST])
    return Motifs(
        counts[np.ix_(rows, chosen)], affinity[rows], tuple(names[j] for j in chosen), rows
    )


def read_sequences(path: str | Path) -> tuple[np.ndarray, np.ndarray]:
    """Read a file with one column of sequences and one of affinities, in either order."""
    table = read_table(path)
    texts = [name for name in table.names if table.columns[name].dtype == object]
    numbers = [name for name in table.names if table.columns[name].dtype != object]
    if len(texts) != 1 or len(numbers) != 1:
        raise InputError(
            f"{table.source} has {len(texts)} columns of text and {len(numbers)} of numbers: it "
            "needs one of each, the sequence and its affinity"
        )
    affinity = np.asarray(table.columns[numbers[0]], dtype=float)
    cells = table.columns[texts[0]].tolist()
    for row, (cell, value) in enumerate(zip(cells, affinity, strict=True), start=1):
        sequence = (cell or "").upper().replace("U", "T")
        if not sequence or set(sequence) - set(BASES):
            raise InputError(
                f"{table.source}: {quote(cell)} in data row {row} is no sequence of A, C, G, T "
                "(or U): correct it or drop the row"
            )
        if not np.isfinite(value):
            raise InputError(
                f"{table.source}: data row {row} has no affinity: fill it in or drop the row"
            )
        cells[row - 1] = sequence
    # Fewer rows than this cannot fix 20 weights in several bags.
    if len(cells) < 10 * N_MOTIFS:
        raise InputError(
            f"{table.source} has {len(cells)} sequences: give at least {10 * N_MOTIFS}"
        )
    return np.array(cells), affinity
