"""Several targets: one network with as many outputs, whatever their units."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.metrics import r2_score

from dconnet import (
    AutoDCONClassifier,
    AutoDCONRegressor,
    DCONClassifier,
    DCONRegressor,
    LayerwiseDCONRegressor,
    Network,
    Problem,
)
from dconnet.certificates import certify
from dconnet.inspection.plotting import NetworkDisplay
from dconnet.inspection.replay import replay


def data(n_rows=90, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 2)) * [1.0, 50.0]
    Y = np.column_stack([np.abs(X[:, 0]), 3.0 + X[:, 1] * 20.0, np.maximum(X[:, 0] + X[:, 1] / 50.0, 0.0) / 1000.0])
    return X, Y + 0.05 * Y.std(axis=0) * rng.normal(size=Y.shape)


def fitted(**options):
    X, Y = data()
    return X, Y, DCONRegressor(**{"n_hidden": 6, "gamma": 0.1, "random_state": 0, "tol": 1e-4} | options).fit(X, Y)


def test_one_network_predicts_all_targets():
    X, Y, model = fitted()
    (network,) = model.networks_
    assert network is model.network_
    assert (network.n_outputs, network.alpha.shape, network.intercept.shape) == (3, (6, 3), (3,))
    np.testing.assert_array_equal(model.predict(X), network.predict(X))
    assert model.score(X, Y) == pytest.approx(r2_score(Y, model.predict(X)))
    assert model.score(X, Y) > 0.9


def test_objective_and_stationarity_are_those_of_the_problem():
    X, Y, model = fitted()
    (problem,) = model.problems(X, Y)
    np.testing.assert_allclose(model.target_scale_, Y.std(axis=0))
    np.testing.assert_allclose(model.network_.intercept, Y.mean(axis=0))
    errors = (Y - model.predict(X)) / Y.std(axis=0)
    assert problem.mse(model.network_) == pytest.approx(np.mean(np.sum(errors**2, axis=1)))
    assert model.gamma_ == 0.1  # a pure number
    assert problem.objective(model.network_) == pytest.approx(model.objective_)
    assert problem.zero_objective == pytest.approx(3.0)
    assert model.stationarity_ < 1e-4
    (found,) = certify(model, X, Y)
    assert found.gap.exact
    assert found.gap.bound <= found.objective == pytest.approx(model.objective_)


@pytest.mark.parametrize(
    "options", [{}, {"algorithm": "paper", "max_epochs": 5}, {"gamma": "auto"}, {"shrinkage": 1.0}]
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_units_of_single_targets_do_not_matter(options):
    X, Y, model = fitted(**options)
    factors = np.array([2.0**20, 1.0, 2.0**-30])  # powers of two round nothing
    other = clone(model).fit(X, Y * factors)
    np.testing.assert_array_equal(model.predict(X) * factors, other.predict(X))
    assert (other.gamma_, other.objective_) == (model.gamma_, model.objective_)
    near = clone(model).fit(X, Y * [3.0, 1.0, 1e-5] + [7.0, 0.0, 1.0])
    assert near.objective_ == pytest.approx(model.objective_, rel=0.05)


def test_the_choice_of_gamma_sums_the_relative_errors_of_the_targets():
    X, Y = data()
    options = {"n_hidden": 5, "gamma": [0.01, 1.0, 100.0], "cv": [(np.arange(45), np.arange(45, 90))], "tol": 1e-2}
    model = DCONRegressor(**options, random_state=0).fit(X, Y)
    alone = [DCONRegressor(**options, random_state=0).fit(X, y) for y in Y.T]
    expected = sum(one.mse_path_ / y.var() for one, y in zip(alone, Y.T, strict=True))
    np.testing.assert_allclose(model.mse_path_, expected, rtol=1e-6)
    np.testing.assert_array_equal(model.gammas_, [0.01, 1.0, 100.0])
    assert model.gamma_ == model.gammas_[np.argmin(model.mse_path_[:, 0])]
    assert DCONRegressor(5, random_state=0, tol=1e-2).fit(X, Y).mse_path_.shape == (7, 5)


def test_weights_are_copies():
    X, Y = data(40)
    weight = np.random.default_rng(1).integers(0, 3, size=40)
    copies = np.repeat(np.arange(40), weight)
    model = DCONRegressor(4, gamma=0.1, random_state=0, max_epochs=3, max_evaluations=50)
    with pytest.warns(match="not converged"):
        weighted = clone(model).fit(X, Y, sample_weight=weight)
    with pytest.warns(match="not converged"):
        repeated = clone(model).fit(X[copies], Y[copies])
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(weighted.target_scale_, repeated.target_scale_)


def test_starts_have_as_many_outputs():
    X, Y, model = fitted(warm_start=True, init=Network(np.eye(6, 2), np.zeros(6), np.ones((6, 3))))
    again = model.fit(X, Y)
    assert again.history_.objective[0] == pytest.approx(model.objective_)
    with pytest.raises(ValueError, match="number of targets"):
        model.fit(X, Y[:, :2])
    one = Network(np.eye(6, 2), np.zeros(6), np.ones(6))
    with pytest.raises(ValueError, match="output weights of shape"):
        DCONRegressor(6, gamma=0.1, init=one).fit(X, Y)


@pytest.mark.parametrize(
    "estimator", [LayerwiseDCONRegressor(), AutoDCONRegressor(), AutoDCONClassifier(), DCONClassifier()]
)
def test_other_estimators_refuse_several_targets(estimator):
    X, _ = data(20)
    with pytest.raises(ValueError, match=f"{type(estimator).__name__} takes one target.* DCONRegressor"):
        estimator.fit(X, np.ones((20, 2), dtype=int))


def test_wrong_targets_are_refused():
    X, Y, model = fitted()
    with pytest.raises(ValueError, match="y must have 3 columns"):
        model.problems(X, Y[:, :2])
    with pytest.raises(ValueError, match="NaN"):
        DCONRegressor().fit(X, np.full((90, 2), np.nan))


# --- classes that share a network ---


def shared(**options):
    X, y = load_iris(return_X_y=True)
    options = {"n_hidden": 6, "gamma": 0.1, "multi_class": "shared", "random_state": 0, "tol": 1e-3} | options
    return X, np.array(["setosa", "versicolor", "virginica"])[y], options


def test_classes_share_a_network():
    X, y, options = shared()
    model = DCONClassifier(**options).fit(X, y)
    (network,) = model.networks_
    assert model.network_ is network
    assert network.n_outputs == 3
    np.testing.assert_array_equal(model.decision_function(X), network.predict(X))
    np.testing.assert_array_equal(model.predict(X), model.classes_[network.predict(X).argmax(axis=1)])
    assert model.score(X, y) > 0.95
    signs = np.where(y[:, None] == model.classes_, 1.0, -1.0)
    own = Problem(X, signs, model.gamma_, intercept=signs.mean(axis=0))
    assert own.objective(network) == pytest.approx(model.objective_[0])
    assert model.gamma_ == pytest.approx(0.1 * np.sqrt(np.mean(signs.var(axis=0))))
    assert len(model.histories_) == len(model.objectives_) == len(certify(model, X, y)) == 1
    replay(model, X, y)
    drawn = NetworkDisplay.from_estimator(model, X, y, classes=["virginica"], features=[0])
    assert list(drawn.labels) == ["class virginica"]


def test_each_class_has_a_network_of_its_own_unless_they_share():
    X, y, options = shared(multi_class="ovr", max_evaluations=50)
    with pytest.warns(match="not converged"):
        model = DCONClassifier(**options).fit(X, y)
    with pytest.raises(AttributeError, match="network of its own"):
        _ = model.network_
    with pytest.raises(ValueError, match="needs the classes"):
        model.set_params(warm_start=True, multi_class="shared").fit(X, y)
    with pytest.raises(ValueError, match="multi_class"):
        DCONClassifier(multi_class="softmax").fit(X, y)


def test_shared_networks_with_the_choice_of_gamma_weights_and_early_stopping():
    X, y, options = shared(gamma=[0.01, 0.3], cv=3, class_weight="balanced", early_stopping=True)
    model = DCONClassifier(**options).fit(X, y)
    assert model.mse_path_.shape == (2, 3)
    assert model.network_.n_outputs == 3
    assert model.score(X, y) > 0.9


def test_validation_errors_that_overflow_are_infinite(tmp_path):
    """A checkpoint keeps the best network also where none has a finite error."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    Y = np.column_stack([np.abs(X[:, 0]), X[:, 1]])
    options = {"gamma": 0.1, "tol": 1e-2, "early_stopping": True, "random_state": 0}
    model = DCONRegressor(2, **options, checkpoint=tmp_path / "state")
    model.fit(X, Y, X_val=1e300 * X, y_val=Y)
    assert np.isinf(model.history_.validation_mse).all()
    assert np.isfinite(model.predict(X)).all()


# --- names ---


def named(names=("height", "weight", "share")):
    X, Y = data()
    return X, pd.DataFrame(Y, columns=list(names))


def quick(**options):
    return DCONRegressor(**{"n_hidden": 2, "gamma": 1.0, "random_state": 0, "tol": 1e-2} | options)


def test_names_of_the_targets_are_kept():
    X, Y = named()
    model = quick().fit(X, Y)
    assert model.target_names_in_.tolist() == ["height", "weight", "share"]
    assert model.to_chain().output_names == ("height", "weight", "share")
    np.testing.assert_array_equal(model.predict(X), quick().fit(X, Y.to_numpy()).predict(X))


def test_other_columns_of_targets_are_refused():
    X, Y = named()
    turned = Y[["weight", "height", "share"]]
    with pytest.raises(ValueError, match="same order: height, weight, share; got weight, height, share"):
        quick().fit(X, Y, X_val=X, y_val=turned)
    model = quick().fit(X, Y, X_val=X, y_val=Y)
    with pytest.raises(ValueError, match="same order"):
        model.problems(X, turned)
    assert model.problems(X, Y)[0].objective(model.network_) == pytest.approx(model.objective_)
