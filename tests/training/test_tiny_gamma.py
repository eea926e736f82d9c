"""Tiny gammas: RegLoss never rises in spite of rounding, and inaccurate networks are refused."""

import numpy as np
import pytest

from dconnet import DCONRegressor, Network, PaperAlgorithm, Problem
from dconnet.convex.programme import get_backend
from dconnet.training.descent import Descent, Options


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("gamma", [1e-12, 1e-28, 1e-300])
@pytest.mark.parametrize(("solver", "seeds"), [("native", (12, 24, 29, 34, 44, 53, 57)), ("reference", (3, 6))])
def test_regloss_never_rises(solver, seeds, gamma):
    settings = {"gamma": gamma, "algorithm": PaperAlgorithm(solver=solver), "tol": 0.0, "scale": False}
    for seed in seeds:
        rng = np.random.default_rng(seed)
        n_rows, n_features, n_hidden = (int(rng.integers(*limits)) for limits in ((5, 80), (1, 6), (2, 25)))
        X = rng.normal(size=(n_rows, n_features))
        X = np.round(X) if seed % 3 == 0 else X
        y = (np.abs(X[:, 0]) + 0.1 * (seed % 2) * rng.normal(size=n_rows)) * 10.0 ** rng.choice([0, 0, -6, 6])
        model = DCONRegressor(n_hidden, max_epochs=10, random_state=seed, **settings).fit(X, y)
        assert np.all(np.diff(model.history_.objective) <= 0.0), seed


def test_inaccurate_networks_are_refused_with_a_larger_gamma():
    # Two neurons that cancel: the rounding error of their outputs has the size of the target on every processor.
    X = np.random.default_rng(0).normal(size=(40, 3))
    W = np.array([[1.0, 2.0, 3.0], [3.0, 6.0, 9.0]])
    network = Network(W=W, b=np.zeros(2), alpha=np.array([3e16, -1e16]))
    descent = Descent(Problem(X, np.abs(X[:, 0]), gamma=1e-32), get_backend("native"), Options(), None)
    with pytest.raises(ValueError, match=r"in the units of the data.* Or raise gamma to at least"):
        descent.solution(descent.init(network), None)
