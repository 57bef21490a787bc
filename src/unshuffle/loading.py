"""Loading of saved models."""

from __future__ import annotations

import os

import numpy as np

from unshuffle.errors import InputError
from unshuffle.estimator import ShuffledLinearRegression
from unshuffle.io.table import source_name
from unshuffle.results.storage import read_model


def load(path: str | os.PathLike[str]) -> ShuffledLinearRegression:
    """Return the fitted model that `save`, or ``unshuffle fit --save``, wrote to a file.

    It predicts, summarises and matches as the one that was saved, bit for bit.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    ShuffledLinearRegression
        The fitted estimator.

    Raises
    ------
    InputError
        Where the file is no model, or that of a later version.

    Examples
    --------
    >>> import tempfile
    >>> from unshuffle import make_shuffled
    >>> data = make_shuffled(n=60, d=2, bags=6, rng=0)
    >>> model = ShuffledLinearRegression("ls", random_state=0).fit(data.X, data.y, data.groups)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/model.json")
    ...     kept = load(f"{folder}/model.json")
    >>> bool((kept.predict(data.X) == model.predict(data.X)).all())
    True
    """
    kept = read_model(path)
    model = ShuffledLinearRegression()
    unknown = set(kept.params) - set(model.get_params(deep=False))
    if unknown:
        raise InputError(
            f"{source_name(path)}: the model has the parameter '{min(unknown)}', which this "
            "version does not know; install the version that wrote it, or fit and save again"
        )
    model.set_params(**kept.params)
    model._set_results(kept.result)
    model.n_features_in_ = len(kept.result.facts.scales)
    if kept.feature_names is not None:
        model.feature_names_in_ = np.array(kept.feature_names, dtype=object)
    return model
