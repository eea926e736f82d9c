"""Tiny gammas: RegLoss never rises in spite of rounding, and no solver fails."""

import numpy as np
import pytest

from dconnet import DCONRegressor, Network, PaperAlgorithm, Problem
from dconnet.convex.backend import get_backend
from dconnet.training.descent import Descent, Options

SPOILED = "Rounding makes the network inaccurate in the units of the data.* Or raise gamma to at least"


def fitted(seed, gamma, algorithm):
    rng = np.random.default_rng(seed)
    m, n, n_hidden = int(rng.integers(5, 80)), int(rng.integers(1, 6)), int(rng.integers(2, 25))
    X = rng.normal(size=(m, n))
    X = np.round(X) if seed % 3 == 0 else X
    y = (np.abs(X[:, 0]) + 0.1 * (seed % 2) * rng.normal(size=m)) * 10.0 ** rng.choice([0, 0, -6, 6])
    model = DCONRegressor(
        n_hidden,
        gamma=gamma,
        algorithm=algorithm,
        max_epochs=12,
        tol=0.0,
        random_state=seed,
        scale=False,
    )
    return model.fit(X, y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("gamma", [1e-12, 1e-28, 1e-300])
@pytest.mark.parametrize(
    ("solver", "seeds"), [("native", (12, 24, 27, 29, 34, 44, 49, 53, 57)), ("reference", (2, 3, 6))]
)
def test_regloss_never_rises(solver, seeds, gamma):
    for seed in seeds:
        history = fitted(seed, gamma, PaperAlgorithm(solver=solver)).history_
        assert np.all(np.diff(history.objective) <= 0.0), seed


def test_inaccurate_networks_are_refused_with_a_larger_gamma():
    # Two neurons that cancel: the rounding error of their outputs has the size of the target on every processor.
    X = np.random.default_rng(0).normal(size=(40, 3))
    W = np.array([[1.0, 2.0, 3.0], [3.0, 6.0, 9.0]])
    network = Network(W=W, b=np.zeros(2), alpha=np.array([3e16, -1e16]))
    descent = Descent(Problem(X, np.abs(X[:, 0]), gamma=1e-32), get_backend("native"), Options(), None)
    with pytest.raises(ValueError, match=SPOILED):
        descent.solution(descent.init(network), None)
