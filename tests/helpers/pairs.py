"""Pairwise cases: few combinations of parameters in which every two values meet."""

from itertools import combinations, product


def cover_pairs(*parameters, where=None):
    """Return combinations in which each value of a parameter meets each value of every other.

    Most faults show where one value, or two together, go wrong (Kuhn et al. 2004). Combinations
    are taken greedily from the whole product: the one with the most pairs that are still missing.
    `where` tells which combinations are allowed; all are without it.
    """

    def values_of(places):
        return tuple(values[i] for values, i in zip(parameters, places, strict=True))

    everything = [
        places
        for places in product(*(range(len(values)) for values in parameters))
        if where is None or where(*values_of(places))
    ]
    missing = {pair for places in everything for pair in _pairs(places)}
    cases = []
    while missing:
        best = max(everything, key=lambda places: len(missing & _pairs(places)))
        missing -= _pairs(best)
        cases.append(values_of(best))
    return cases


def _pairs(places):
    """Return every two places of a combination, with the parameters that they belong to."""
    return set(combinations(enumerate(places), 2))
