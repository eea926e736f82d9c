"""The path over gamma."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import load_iris
from sklearn.linear_model import Ridge
from sklearn.preprocessing import scale

from dconnet import DCONClassifier, DCONRegressor, Problem
from dconnet.inspection.path import count_active, gamma_path

GAMMAS = [1e-3, 0.1, 1.0, 100.0]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    return X, np.abs(X[:, 0]) - 0.5 * X[:, 1] + 0.1 * rng.normal(size=80)


@pytest.fixture(scope="module")
def path(data):
    X, y = data
    return gamma_path(
        DCONRegressor(5, tol=1e-5, random_state=0, gamma=1e-3, scale=False),
        X[:60],
        y[:60],
        gammas=GAMMAS,
        X_val=X[60:],
        y_val=y[60:],
    )


def test_holds_what_the_networks_reach(path, data):
    X, y = data
    for i, gamma in enumerate(GAMMAS):
        network = path.networks[i][0]
        problem = Problem(X[:60], y[:60], gamma)
        assert path.objective[i, 0] == problem.objective(network)
        assert path.mse[i, 0] == pytest.approx(np.mean((y[:60] - network.predict(X[:60])) ** 2))
        assert path.validation_mse[i, 0] == pytest.approx(np.mean((y[60:] - network.predict(X[60:])) ** 2))


def test_more_penalty_means_a_larger_loss_and_in_the_end_no_neuron(path, data):
    y = data[1][:60]
    assert np.all(np.diff(path.objective[:, 0]) > 0.0)
    assert path.active[0, 0] > 0
    assert path.active[-1, 0] == 0
    assert path.mse[-1, 0] == pytest.approx(np.mean(y**2), rel=1e-6)


def test_best_gamma_has_the_least_validation_error(path):
    assert path.best_gamma == GAMMAS[path.validation_mse[:, 0].argmin()]


def test_active_neurons_are_counted_by_what_they_add():
    problem = Problem([[1.0], [-1.0]], [1.0, 1.0], gamma=1.0)
    from dconnet import Network

    network = Network(W=[[1.0], [1.0], [0.0]], b=[0.0, 0.0, -1.0], alpha=[1.0, 1e-5, 1.0])
    assert count_active(problem, network) == 1


def test_estimator_is_left_alone_and_gammas_are_sorted(data):
    model = DCONRegressor(2, gamma=7.0, tol=1e-2, random_state=0, scale=False)
    path = gamma_path(model, *data, gammas=[1.0, 0.1, 1.0])
    assert path.gammas.tolist() == [0.1, 1.0]
    assert model.gamma == 7.0
    assert not hasattr(model, "network_")
    assert path.validation_mse is None
    with pytest.raises(ValueError, match="no validation error"):
        _ = path.best_gamma


def test_classifier_has_one_column_a_class():
    X, y = load_iris(return_X_y=True)
    model = DCONClassifier(2, tol=1e-2, random_state=0, gamma=1e-3, scale=False)
    path = gamma_path(model, scale(X), y, gammas=[0.1, 10.0], X_val=scale(X), y_val=y)
    assert path.mse.shape == path.objective.shape == path.active.shape == (2, 3)
    np.testing.assert_allclose(path.validation_mse, path.mse)
    target = np.where(y == 1, 1.0, -1.0)
    expected = np.mean((target - path.networks[0][1].predict(scale(X))) ** 2)
    assert path.mse[0, 1] == pytest.approx(expected)


@pytest.mark.parametrize("gammas", [[], [0.0, 1.0], [np.nan], [-1.0]])
def test_bad_grids_are_refused(data, gammas):
    with pytest.raises(ValueError, match="gammas must be positive"):
        gamma_path(DCONRegressor(2, gamma=1e-3, scale=False), *data, gammas=gammas)


def test_half_of_the_validation_data_is_refused(data):
    with pytest.raises(ValueError, match="given together"):
        gamma_path(DCONRegressor(2, gamma=1e-3, scale=False), *data, X_val=data[0])


def test_other_estimators_are_refused(data):
    with pytest.raises(TypeError, match="DCONRegressor or DCONClassifier is needed, not a Ridge"):
        gamma_path(Ridge(), *data)


def test_weights_count_in_training_and_validation(data):
    X, y = data
    weight, validation_weight = np.arange(60) % 3, np.arange(20) % 2
    model = DCONRegressor(3, tol=1e-3, random_state=0, gamma=1e-3, scale=False)
    weighted = gamma_path(
        model,
        X[:60],
        y[:60],
        gammas=[0.1, 1.0],
        sample_weight=weight,
        X_val=X[60:],
        y_val=y[60:],
        sample_weight_val=validation_weight,
    )
    repeated = gamma_path(
        model,
        np.repeat(X[:60], weight, axis=0),
        np.repeat(y[:60], weight),
        gammas=[0.1, 1.0],
        X_val=X[60:][validation_weight > 0],
        y_val=y[60:][validation_weight > 0],
    )
    np.testing.assert_allclose(weighted.objective, repeated.objective, rtol=1e-8)
    np.testing.assert_allclose(weighted.mse, repeated.mse, rtol=1e-6)
    np.testing.assert_allclose(weighted.validation_mse, repeated.validation_mse, rtol=1e-5)


def test_sparse_inputs_are_refused_with_a_remedy(data):
    with pytest.raises(ValueError, match=r"sparse.*toarray"):
        gamma_path(DCONRegressor(2, gamma=1e-3, scale=False), csr_matrix(data[0]), data[1])


def test_frames_are_taken(data):
    frame = pd.DataFrame(data[0], columns=["a", "b"])
    model = DCONRegressor(2, tol=1e-2, random_state=0, gamma=1e-3, scale=False)
    paths = [gamma_path(model, X, data[1], gammas=[0.1], X_val=X, y_val=data[1]) for X in (frame, data[0])]
    np.testing.assert_array_equal(paths[0].validation_mse, paths[1].validation_mse)


def test_early_stopping_does_not_freeze_the_path(data):
    """The network of the gamma before is where a fit starts, and may have the least validation error."""
    plain, stopping = (
        gamma_path(
            DCONRegressor(4, tol=1e-3, random_state=0, early_stopping=early, gamma=1e-3, scale=False),
            *data,
            gammas=[1e-3, 1.0, 100.0],
        )
        for early in (False, True)
    )
    np.testing.assert_array_equal(stopping.mse, plain.mse)
    assert stopping.active[-1, 0] == 0
