"""Many rows on an NVIDIA GPU: the same digits as on the processor, in less time.

Needs a card and ``pip install 'unshuffle[gpu]'``; without them one line says so.
Twenty pools of cells were measured: five columns each, and apart from them, in an order of their
own, their labels.

Run: python examples/gpu.py                 a million rows
     python examples/gpu.py 100_000_000     5 GB on the card
"""

import sys
import time

import numpy as np

from unshuffle import ShuffledLinearRegression, make_shuffled
from unshuffle.errors import InputError

WEIGHTS = [1.0, -0.6, 0.4, 0.3, -0.2]


def main(n_rows=1_000_000):
    data = make_shuffled(n_rows, 5, noise=0.25, bags=20, weights=WEIGHTS, rng=0)
    models = []
    for device in ("cuda", "cpu"):
        model = ShuffledLinearRegression(device=device, random_state=0, n_jobs=-1)
        start = time.perf_counter()
        try:
            models.append(model.fit(data.X, data.y, data.groups))
        except InputError as exc:
            print(exc)
            return None
        print(f"{n_rows} rows on {device}: {time.perf_counter() - start:.1f} s")
    card, processor = models
    print(card.summary())
    is_same = np.array_equal(card.coef_, processor.coef_)
    print("the same digits" if is_same else "OTHER DIGITS", "on card and processor")
    return is_same


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
