"""The moment conditions, written out."""

import numpy as np


def moment_gaps(X, y, w, n_moments, noise_moments=(0.0, 0.0, 0.0)):
    """Return E[(Xw + e)ᵏ] − mean yᵏ, written out for the first three k."""
    z, (e1, e2, e3) = X @ w, noise_moments
    fitted = [
        np.mean(z) + e1,
        np.mean(z**2) + 2 * np.mean(z) * e1 + e2,
        np.mean(z**3) + 3 * np.mean(z**2) * e1 + 3 * np.mean(z) * e2 + e3,
    ]
    return np.array([fitted[k] - np.mean(y ** (k + 1)) for k in range(n_moments)])
