"""Before a register is released with its labels shuffled: what could an outsider recover?

An office wants to release measurements of patients with the outcome shuffled inside clinics, so
that nobody's outcome is known. The audit attacks that release as an outsider would, counts how many
rows get their own outcome back, and shows how far larger bags, rounded outcomes or added noise
lower the risk. The table is scikit-learn's on diabetes. The same from the command line:

    unshuffle audit register.csv --label outcome --bag clinic --report audit.html

Run: python examples/audit.py
"""

import numpy as np
from sklearn.datasets import load_diabetes

from unshuffle import audit

N, PER_CLINIC = 120, 6


def main(method="auto"):
    X, y = load_diabetes(return_X_y=True)
    chosen = np.random.default_rng(0).permutation(len(y))[:N]
    clinic = np.arange(N) // PER_CLINIC
    columns = [2, 3, 8]  # body mass, blood pressure and a serum value, which say most
    found = audit(X[chosen][:, columns], y[chosen], clinic, method=method, rng=0)
    print(found)
    return found


if __name__ == "__main__":
    main()
