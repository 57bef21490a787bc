"""The bibliography is whole, its page is up to date, and every citation is in it."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "docs" / "references.bib").is_file():
    pytest.skip("there is no documentation here", allow_module_level=True)


def _load():
    spec = importlib.util.spec_from_file_location(
        "make_references", ROOT / "docs" / "make_references.py"
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


references = _load()
TEXT = references.BIBLIOGRAPHY.read_text(encoding="utf-8")
ENTRIES = references.read_references(TEXT)


def test_every_entry_is_read_once():
    assert len(ENTRIES) == TEXT.count("\n@")
    assert len({entry.key for entry in ENTRIES}) == len(ENTRIES)
    assert all(entry.key.endswith(entry.year) for entry in ENTRIES)


def test_the_page_is_up_to_date():
    page = references.PAGE.read_text(encoding="utf-8")
    assert page == references.make_page(), "run: python docs/make_references.py"


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("(Sinkhorn 1967)", "sinkhorn"),
        ("as Abid, Poon and Zou (2017) do", "abid"),
        ("Cornuet et al. 2012", "cornuet"),
        ("by ter Braak (2006)", "ter braak"),
        ("Grünwald and van Ommen 2017", "grunwald"),
        ("Silverman's (1986) rule", "silverman"),
        ("Miller\n  and Dunson 2019", "miller"),
    ],
)
def test_a_citation_is_found(text, first):
    assert [name for name, _ in references.find_citations(text)] == [first]


# Names before a year that cite nothing.
NO_CITATIONS = {("oopsla", "2014"), ("november", "2026"), ("python", "2024")}


@pytest.mark.parametrize("folder", ["docs", "src"])
def test_what_is_cited_is_in_the_bibliography(folder):
    known = {(references.fold(entry.surnames[0]), entry.year) for entry in ENTRIES}
    for path in sorted((ROOT / folder).rglob("*")):
        if path.suffix in (".md", ".py") and "_build" not in path.parts:
            cited = references.find_citations(path.read_text(encoding="utf-8"))
            assert cited - known - NO_CITATIONS == set(), path.relative_to(ROOT)


# Every module with an algorithm or an approximation that has a source, and the source.
ALGORITHMS = {
    "auditing/control.py": "giomi2023",
    "auditing/proportions.py": "wilson1927 newcombe1998",
    "data/blocks/row_sample.py": "cohen2007",
    "data/links.py": "mckay1979",
    "data/outliers.py": "hampel1974",
    "formulas/columns.py": "wilkinson1973",
    "inference/block_modes.py": "tierney1986",
    "inference/calibration.py": "miller2019 grunwald2017",
    "inference/chains.py": "gelman1992 vehtari2021 bennett1976 meng1996",
    "inference/importance.py": "cornuet2012",
    "inference/likelihood.py": "degroot1980",
    "inference/moves.py": "terbraak2006",
    "inference/noiseless.py": "unnikrishnan2018",
    "inference/pairing_draws.py": "wu1998 rubin1987 kitagawa1996",
    "inference/proposals.py": "tierney1986 kong1994",
    "inference/replica_exchange.py": "swendsen1986 geyer1991",
    "inference/sampler.py": "gelman1992 geyer1991",
    "kernels/cones.py": "land1960",
    "kernels/descent.py": "nocedal2006 lewis2013",
    "kernels/designing.py": "cook1980",
    "kernels/moment_losses.py": "abid2017",
    "kernels/scanning.py": "steele2014",
    "kernels/sorted_losses.py": "vallender1974",
    "kernels/swapping.py": "wu1998",
    "kernels/tempering.py": "geyer1991",
    "kernels/transport/__init__.py": "sinkhorn1967 cuturi2013 vontobel2013",
    "kernels/weighted_losses.py": "vallender1974",
    "linkage/adjusted_equations.py": "lahiri2005 chambers2009 white1980 liang1986 cameron2015",
    "linkage/given_pairs.py": "silverman1986",
    "linkage/link_quality.py": "slawski2023",
    "linkage/linked_pairings.py": "wu1998",
    "linkage/mismatch_rate.py": "allen1974 miller2019 schwarz1978",
    "linkage/regression.py": "satterthwaite1946",
    "linkage/sampler.py": "wang2023",
    "linkage/scale_mixture.py": "dempster1977 andrews1974",
    "inference/tempered_smc.py": "delmoral2006",
    "model/bag_means.py": "mundlak1978",
    "model/goodness_of_fit.py": "rosenblatt1952 dawid1984",
    "objectives/losses.py": "abid2017 vallender1974",
    "objectives/moments.py": "abid2017",
    "objectives/penalties.py": "tibshirani1996 hoerl1970",
    "objectives/problem.py": "nocedal2006",
    "results/determined.py": "cohen1988",
    "results/matching.py": "degroot1971 wu1998",
    "results/pooling.py": "rubin1987 barnard1999",
    "results/remedies.py": "bhatia2000",
    "results/verdict.py": "jeffreys1961",
    "solvers/certified.py": "land1960",
    "solvers/descent.py": "nocedal2006 lewis2013 andrew2007 kolda2003",
    "solvers/exact.py": "pananjady2018",
    "solvers/levenberg_marquardt.py": "levenberg1944 marquardt1963",
    "solvers/means.py": "goodman1953 robinson1950",
    "solvers/multistart.py": "abid2017",
    "solvers/projection.py": "abid2017",
    "solvers/local_search.py": "lourenco2003",
    "solvers/self_moments.py": "abid2017",
    "solvers/successive_halving.py": "karnin2013 jamieson2016",
}


@pytest.mark.parametrize("module", ALGORITHMS)
def test_an_algorithm_cites_its_source(module):
    keys = {(references.fold(entry.surnames[0]), entry.year): entry.key for entry in ENTRIES}
    text = (ROOT / "src" / "unshuffle" / module).read_text(encoding="utf-8")
    cited = {keys.get(each) for each in references.find_citations(text)}
    assert set(ALGORITHMS[module].split()) - cited == set()
