"""Networks over a grid of gamma."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.linear_model import Ridge

from dconnet import DCONClassifier, DCONRegressor, Problem
from dconnet.inspection.path import gamma_path

GAMMAS = [1e-3, 0.1, 1.0, 100.0]
FAST = {"gamma": 1e-3, "tol": 1e-3, "random_state": 0, "scale": False}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    return X, np.abs(X[:, 0]) - 0.5 * X[:, 1] + 0.1 * rng.normal(size=80)


@pytest.fixture(scope="module")
def path(data):
    X, y = data
    model = DCONRegressor(5, **FAST | {"tol": 1e-5})
    return gamma_path(model, X[:60], y[:60], gammas=GAMMAS, X_val=X[60:], y_val=y[60:])


def test_values_are_those_of_the_networks(path, data):
    X, y = data
    for i, gamma in enumerate(GAMMAS):
        network = path.networks[i][0]
        assert path.objective[i, 0] == Problem(X[:60], y[:60], gamma).objective(network)
        assert path.mse[i, 0] == pytest.approx(np.mean((y[:60] - network.predict(X[:60])) ** 2))
        assert path.validation_mse[i, 0] == pytest.approx(np.mean((y[60:] - network.predict(X[60:])) ** 2))
    assert path.best_gamma == GAMMAS[path.validation_mse[:, 0].argmin()]


def test_penalty_raises_the_loss_until_no_neuron_is_left(path, data):
    assert np.all(np.diff(path.objective[:, 0]) > 0.0)
    assert path.active[0, 0] > 0
    assert path.active[-1, 0] == 0
    assert path.mse[-1, 0] == pytest.approx(np.mean(data[1][:60] ** 2), rel=1e-6)


def test_estimator_is_unchanged_and_gammas_are_sorted(data):
    X, y = pd.DataFrame(data[0], columns=["a", "b"]), np.digitize(data[1], [0.0, 1.0])
    model = DCONClassifier(2, **FAST | {"gamma": 7.0})
    path = gamma_path(model, X, y, gammas=[1.0, 0.1, 1.0], X_val=X, y_val=y)
    assert path.gammas.tolist() == [0.1, 1.0]
    assert model.gamma == 7.0
    assert not hasattr(model, "networks_")
    assert path.mse.shape == path.objective.shape == path.active.shape == (2, 3)  # a column for each class
    np.testing.assert_allclose(path.validation_mse, path.mse)
    expected = np.mean((np.where(y == 1, 1.0, -1.0) - path.networks[0][1].predict(X.to_numpy())) ** 2)
    assert path.mse[0, 1] == pytest.approx(expected)
    with pytest.raises(ValueError, match="no validation error"):
        _ = gamma_path(model, X, y, gammas=[1.0]).best_gamma


@pytest.mark.parametrize(
    ("error", "match", "options"),
    [
        *((ValueError, "gammas must be positive", {"gammas": gammas}) for gammas in ([], [0.0, 1.0], [np.nan], [-1.0])),
        (ValueError, "given together", {"X_val": np.zeros((2, 2))}),
        (TypeError, "needed, not a Ridge", {"estimator": Ridge()}),
        (ValueError, r"sparse.*toarray", {"X": csr_matrix(np.eye(80)[:, :2])}),
    ],
)
def test_invalid_arguments_are_refused(data, error, match, options):
    arguments = {"estimator": DCONRegressor(2, **FAST), "X": data[0], "y": data[1]} | options
    with pytest.raises(error, match=match):
        gamma_path(**arguments)


def test_early_stopping_does_not_freeze_the_path(data):
    """A fit starts from the network of the previous gamma, which may have the smallest validation error."""
    plain, stopping = (
        gamma_path(DCONRegressor(4, early_stopping=early, **FAST), *data, gammas=[1e-3, 1.0, 100.0])
        for early in (False, True)
    )
    np.testing.assert_array_equal(stopping.mse, plain.mse)
    assert stopping.active[-1, 0] == 0
