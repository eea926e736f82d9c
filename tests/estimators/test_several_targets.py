"""Several targets, or classes that share neurons: one network with several outputs, for any units."""

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
from dconnet.inspection.replay import replay

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 2)) * [1.0, 50.0]
Y = np.column_stack([np.abs(X[:, 0]), 3.0 + X[:, 1] * 20.0, np.maximum(X[:, 0] + X[:, 1] / 50.0, 0.0) / 1000.0])
Y += 0.05 * Y.std(axis=0) * RNG.normal(size=Y.shape)
TABLE = pd.DataFrame(Y, columns=["height", "weight", "share"])


def regressor(**options):
    return DCONRegressor(**{"n_hidden": 6, "gamma": 0.1, "random_state": 0, "tol": 1e-4} | options)


@pytest.fixture(scope="module")
def fitted():
    return regressor().fit(X, TABLE)


def test_one_network_predicts_all_targets(fitted):
    (network,) = fitted.networks_
    assert (network.n_outputs, network.alpha.shape, network.intercept.shape) == (3, (6, 3), (3,))
    np.testing.assert_array_equal(fitted.predict(X), network.predict(X))
    assert fitted.score(X, Y) == pytest.approx(r2_score(Y, fitted.predict(X)))
    assert fitted.score(X, Y) > 0.9
    np.testing.assert_array_equal(regressor().fit(X, Y).predict(X), fitted.predict(X))


def test_objective_and_stationarity_are_those_of_the_problem(fitted):
    (problem,) = fitted.problems(X, TABLE)
    np.testing.assert_allclose(fitted.target_scale_, Y.std(axis=0))
    np.testing.assert_allclose(fitted.network_.intercept, Y.mean(axis=0))
    errors = (Y - fitted.predict(X)) / Y.std(axis=0)
    assert problem.mse(fitted.network_) == pytest.approx(np.mean(np.sum(errors**2, axis=1)))
    assert fitted.gamma_ == 0.1  # without unit
    assert problem.objective(fitted.network_) == pytest.approx(fitted.objective_)
    assert problem.zero_objective == pytest.approx(3.0)
    assert fitted.stationarity_ < 1e-4
    (found,) = certify(fitted, X, TABLE)
    assert found.gap.exact
    assert found.gap.bound <= found.objective == pytest.approx(fitted.objective_)


@pytest.mark.parametrize(
    "options", [{}, {"algorithm": "paper", "max_epochs": 5}, {"gamma": "auto"}, {"shrinkage": 1.0}]
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_units_of_single_targets_do_not_matter(options):
    model = regressor(**options).fit(X, Y)
    factors = np.array([2.0**20, 1.0, 2.0**-30])  # powers of two round nothing
    other = clone(model).fit(X, Y * factors)
    np.testing.assert_array_equal(model.predict(X) * factors, other.predict(X))
    assert (other.gamma_, other.objective_) == (model.gamma_, model.objective_)
    near = clone(model).fit(X, Y * [3.0, 1.0, 1e-5] + [7.0, 0.0, 1.0])
    assert near.objective_ == pytest.approx(model.objective_, rel=0.05)


def test_the_choice_of_gamma_sums_the_relative_errors_of_the_targets():
    options = {"n_hidden": 5, "gamma": [0.01, 1.0, 100.0], "cv": [(np.arange(45), np.arange(45, 90))], "tol": 1e-2}
    model = DCONRegressor(**options, random_state=0).fit(X, Y)
    alone = [DCONRegressor(**options, random_state=0).fit(X, y) for y in Y.T]
    expected = sum(one.mse_path_ / y.var() for one, y in zip(alone, Y.T, strict=True))
    np.testing.assert_allclose(model.mse_path_, expected, rtol=1e-6)
    np.testing.assert_array_equal(model.gammas_, [0.01, 1.0, 100.0])
    assert model.gamma_ == model.gammas_[np.argmin(model.mse_path_[:, 0])]


def test_starts_need_the_same_number_of_outputs():
    start = Network(np.eye(6, 2), np.zeros(6), np.ones((6, 3)))
    model = regressor(warm_start=True, init=start).fit(X, Y)
    reached = model.objective_
    assert model.fit(X, Y).history_.objective[0] == pytest.approx(reached)
    with pytest.raises(ValueError, match="number of targets"):
        model.fit(X, Y[:, :2])
    with pytest.raises(ValueError, match="output weights of shape"):
        regressor(init=Network(np.eye(6, 2), np.zeros(6), np.ones(6))).fit(X, Y)


@pytest.mark.parametrize(
    "estimator", [LayerwiseDCONRegressor(), AutoDCONRegressor(), AutoDCONClassifier(), DCONClassifier()]
)
def test_other_estimators_refuse_several_targets(estimator):
    with pytest.raises(ValueError, match=f"{type(estimator).__name__} takes one target.* DCONRegressor"):
        estimator.fit(X, np.ones((90, 2), dtype=int))


def test_names_and_number_of_targets_are_checked(fitted):
    assert fitted.target_names_in_.tolist() == ["height", "weight", "share"]
    assert fitted.to_chain().output_names == ("height", "weight", "share")
    with pytest.raises(ValueError, match="y must have 3 columns"):
        fitted.problems(X, Y[:, :2])
    turned = TABLE[["weight", "height", "share"]]
    with pytest.raises(ValueError, match="same order"):
        fitted.problems(X, turned)
    with pytest.raises(ValueError, match="same order: height, weight, share; got weight, height, share"):
        regressor().fit(X, TABLE, X_val=X, y_val=turned)


def test_validation_errors_that_overflow_are_infinite(tmp_path):
    """A checkpoint keeps the best network also where none has a finite error."""
    model = regressor(n_hidden=2, tol=1e-2, early_stopping=True, checkpoint=tmp_path / "state")
    model.fit(X, Y, X_val=1e300 * X, y_val=Y)
    assert np.isinf(model.history_.validation_mse).all()
    assert np.isfinite(model.predict(X)).all()


# --- classes that share neurons ---

FLOWERS, CODES = load_iris(return_X_y=True)
LABELS = np.array(["setosa", "versicolor", "virginica"])[CODES]


def classifier(**options):
    options = {"n_hidden": 6, "gamma": 0.1, "multi_class": "shared", "random_state": 0, "tol": 1e-2} | options
    return DCONClassifier(**options)


def test_classes_share_a_network():
    model = classifier().fit(FLOWERS, LABELS)
    (network,) = model.networks_
    assert model.network_ is network
    np.testing.assert_array_equal(model.decision_function(FLOWERS), network.predict(FLOWERS))
    np.testing.assert_array_equal(model.predict(FLOWERS), model.classes_[network.predict(FLOWERS).argmax(axis=1)])
    assert model.score(FLOWERS, LABELS) > 0.95
    signs = np.where(LABELS[:, None] == model.classes_, 1.0, -1.0)
    problem = Problem(FLOWERS, signs, model.gamma_, intercept=signs.mean(axis=0))
    assert problem.objective(network) == pytest.approx(model.objective_[0])
    assert model.gamma_ == pytest.approx(0.1 * np.sqrt(np.mean(signs.var(axis=0))))
    assert len(model.histories_) == len(model.objectives_) == len(certify(model, FLOWERS, LABELS)) == 1
    assert len(replay(model, FLOWERS, LABELS)) == 1


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_each_class_has_its_own_network_unless_they_share():
    model = classifier(multi_class="ovr", max_evaluations=50).fit(FLOWERS, LABELS)
    with pytest.raises(AttributeError, match="network of its own"):
        _ = model.network_
    with pytest.raises(ValueError, match="needs the classes"):
        model.set_params(warm_start=True, multi_class="shared").fit(FLOWERS, LABELS)
    with pytest.raises(ValueError, match="multi_class"):
        classifier(multi_class="softmax").fit(FLOWERS, LABELS)
