"""A simulated pooled cytometry experiment: FCS files of cells, and the shares of constructs."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unshuffle.cli.tables import format_csv
from unshuffle.errors import InputError, import_extra

if TYPE_CHECKING:
    import numpy as np

N_CONSTRUCTS = 12
CHANNELS = ("FSC-A", "FITC-A", "PE-Texas Red-A")
LABEL = "log10(FITC-A / PE-Texas Red-A)"
# Cells of the run of a single construct, from which the noise is measured.
N_SINGLE = 500
# Shares of a pool are drawn from a Dirichlet distribution: the smaller, the more unequal.
_CONCENTRATION = 0.5
# Means and sds of log10 of forward scatter and of the red reference colour.
_SCATTER, _RED = (4.8, 0.1), (3.0, 0.2)


@dataclass(frozen=True, eq=False)
class Pools:
    """Constructs in rows with their features, their shares in each pool, and the truth."""

    features: np.ndarray
    shares: np.ndarray
    weights: np.ndarray
    intercept: float
    noise: float


def draw_pools(options: dict[str, Any], rng: np.random.Generator) -> Pools:
    """Draw constructs, the shares of each in every pool, and the true coefficients."""
    import numpy as np

    from unshuffle.simulate import make_shuffled

    if options["n"] < options["bags"]:
        raise InputError(f"{options['n']} cells are too few for {options['bags']} pools")
    names = ("d", "noise", "snr_db", "weights", "intercept")
    asked = {name: options[name] for name in names}
    made = make_shuffled(N_CONSTRUCTS, **asked, features=options["distribution"], rng=rng)
    shares = rng.dirichlet(np.full(N_CONSTRUCTS, _CONCENTRATION), options["bags"]).round(4)
    return Pools(made.X.round(4), shares, made.weights, made.intercept, made.noise)


def make_fcs(pools: Pools, share: np.ndarray, n_cells: int, rng: np.random.Generator) -> bytes:
    """Return an FCS file of cells that carry constructs in these shares."""
    import numpy as np

    flowio = import_extra("flowio", "fcs", "writing FCS files")
    carried = rng.choice(len(share), n_cells, p=share / share.sum())
    brightness = pools.features[carried] @ pools.weights + pools.intercept
    noise = pools.noise * rng.standard_normal(n_cells)
    scatter, red = (10 ** rng.normal(*each, n_cells) for each in (_SCATTER, _RED))
    events = np.column_stack([scatter, red * 10 ** (brightness + noise), red])
    file = io.BytesIO()
    flowio.create_fcs(file, events.ravel(), list(CHANNELS))
    return file.getvalue()


def write_pools(folder: str, options: dict[str, Any]) -> tuple[Pools, list[str]]:
    """Write the files of an experiment; return it with their names."""
    import numpy as np

    from unshuffle.io.writing import make_folder, write_whole

    import_extra("flowio", "fcs", "writing FCS files")
    target, rng = make_folder(folder), np.random.default_rng(options["seed"])
    pools = draw_pools(options, rng)
    n_pools, d = options["bags"], pools.features.shape[1]
    names = [f"pool{r:0{len(str(n_pools))}d}" for r in range(1, n_pools + 1)]
    sizes = np.bincount(np.arange(options["n"]) % n_pools, minlength=n_pools).tolist()
    written = []
    for name, share, n_cells in zip(names, pools.shares, sizes, strict=True):
        write_whole(target / f"{name}.fcs", make_fcs(pools, share, n_cells, rng))
        written.append(f"{name}.fcs")
    single = np.zeros(N_CONSTRUCTS)
    single[0] = 1.0
    write_whole(target / "single.fcs", make_fcs(pools, single, N_SINGLE, rng))
    head = ["pool", "construct", *(f"x{j}" for j in range(1, d + 1)), "share"]
    rows = [
        (name, f"c{k}", *features, share)
        for name, own in zip(names, pools.shares.tolist(), strict=True)
        for k, (features, share) in enumerate(
            zip(pools.features.tolist(), own, strict=True), start=1
        )
    ]
    write_whole(target / "pools.csv", format_csv(head, rows))
    return pools, [*written, "single.fcs", "pools.csv"]
