"""Repeated fits pass through the same networks."""

import numpy as np
import pytest

from dconnet import DCONClassifier, DCONRegressor, LayerwiseDCONRegressor, PaperAlgorithm
from dconnet.inspection.replay import replay


@pytest.fixture(scope="module")
def data():
    X = np.random.default_rng(0).normal(size=(50, 2))
    return X, np.abs(X[:, 0]) + X[:, 1]


@pytest.mark.parametrize("algorithm", ["paper", PaperAlgorithm(split="net"), "accelerated"], ids=str)
def test_networks_are_those_of_the_history(data, algorithm):
    X, y = data
    extra = {"sample_weight": np.linspace(0.5, 2.0, 40), "X_val": X[40:], "y_val": y[40:]}
    model = DCONRegressor(3, gamma=0.1, algorithm=algorithm, tol=1e-3, random_state=0).fit(X[:40], y[:40], **extra)
    before = dict(vars(model))
    (run,) = replay(model, X[:40], y[:40], fit_params=extra)
    objectives = [run.problem.objective(network) for network in run.networks]
    np.testing.assert_allclose(objectives, model.history_.objective, rtol=1e-9)
    np.testing.assert_array_equal(run.history.validation_mse, model.history_.validation_mse)
    assert np.array_equal(run.networks[-1].parameters, model.network_.parameters)
    assert vars(model) == before


def test_classes_have_a_run_each(data):
    X, y = data
    labels = np.digitize(y, [0.0, 1.0])
    model = DCONClassifier(2, gamma=0.1, tol=1e-2, random_state=0).fit(X, labels)
    for k, run in enumerate(replay(model, X, labels)):
        np.testing.assert_array_equal(run.problem.y, np.where(labels == k, 1.0, -1.0))
        assert np.array_equal(run.networks[-1].parameters, model.networks_[k].parameters)


def test_fits_that_cannot_be_repeated_are_refused(data):
    model = DCONRegressor(2, tol=1e-2, random_state=np.random.RandomState(0)).fit(*data)
    with pytest.raises(ValueError, match="ended at another network"):
        replay(model, *data)
    with pytest.raises(TypeError, match="not a LayerwiseDCONRegressor"):
        replay(LayerwiseDCONRegressor(), *data)
