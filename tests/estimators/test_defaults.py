"""`scale=True` and `gamma="auto"`: units do not matter, and gamma_ is the candidate of least error."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, make_friedman1
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold, cross_val_predict

from dconnet import DCONClassifier, DCONRegressor, Network, Problem, Status
from dconnet.certificates import certify, stationarity
from dconnet.estimators.gamma_choice import GAMMAS, stratified_folds

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 3))
Y = np.abs(X[:, 0]) + X[:, 1]
LABELS = np.digitize(X[:, 0], [-0.5, 0.5])
WEIGHT = RNG.uniform(0.5, 2.0, size=80)

# Powers of two change no bit of the standardised data.
FACTORS, FACTOR = np.array([2.0**-10, 2.0**20, 4.0]), 2.0**12


def regressor(**changes):
    return DCONRegressor(**({"n_hidden": 4, "gamma": 0.1, "random_state": 0} | changes))


@pytest.fixture(scope="module")
def default():
    return DCONRegressor(4, random_state=0).fit(X, Y)


# --- units ---


def test_without_scaling_the_problem_is_that_of_the_data():
    model = regressor(scale=False).fit(X, Y)
    problem = Problem(X, Y, 0.1)
    assert (model.gamma_, model.target_scale_, model.network_.intercept) == (0.1, 1.0, 0.0)
    assert (model.gammas_, model.mse_path_) == (None, None)
    assert model.objective_ == problem.objective(model.network_)
    assert model.stationarity_ == stationarity(problem, model.network_).norm


def test_powers_of_two_change_no_bit(default):
    scaled = DCONRegressor(4, random_state=0).fit(X * FACTORS, Y * FACTOR)
    root = np.sqrt(FACTOR)
    np.testing.assert_array_equal(scaled.network_.alpha, root * default.network_.alpha)
    np.testing.assert_array_equal(scaled.network_.W * FACTORS, root * default.network_.W)
    np.testing.assert_array_equal(scaled.predict(X * FACTORS), FACTOR * default.predict(X))
    assert scaled.gamma_ == FACTOR * default.gamma_
    assert scaled.objective_ == pytest.approx(FACTOR**2 * default.objective_, rel=1e-12)


def test_shrinkage_acts_on_standardised_columns():
    plain, scaled = (regressor(shrinkage=0.3).fit(inputs, Y) for inputs in (X, X * FACTORS))
    np.testing.assert_array_equal(plain.predict(X), scaled.predict(X * FACTORS))
    problem, network = scaled.problems(X * FACTORS, Y)[0], scaled.network_
    standard = (X - X.mean(axis=0)) / X.std(axis=0)
    W = network.W * (X * FACTORS).std(axis=0)
    b = network.b + network.W @ (X * FACTORS).mean(axis=0)
    same = Problem(standard, Y, scaled.gamma_, shrinkage=0.3)
    expected = same.objective(Network(W, b, network.alpha, network.intercept))
    assert problem.objective(network) == pytest.approx(expected, rel=1e-9)
    assert scaled.objective_ == problem.objective(network)


def test_gamma_is_in_units_of_the_standard_deviation_of_the_target():
    model = regressor(gamma=0.3).fit(X, Y, sample_weight=WEIGHT)
    mean = np.average(Y, weights=WEIGHT)
    deviation = np.sqrt(np.average((Y - mean) ** 2, weights=WEIGHT))
    assert model.target_scale_ == pytest.approx(deviation)
    assert model.gamma_ == pytest.approx(0.3 * deviation)
    assert model.network_.intercept == pytest.approx(mean)


@pytest.mark.parametrize("offset", [0.0, 5e5, -1e-8])
def test_a_constant_target_is_the_intercept(offset):
    model = DCONRegressor(3, random_state=0).fit(X, np.full(80, offset))
    np.testing.assert_array_equal(model.predict(X), offset)


def test_certificates_hold_in_the_units_of_the_data():
    model = DCONRegressor(4, tol=1e-9, random_state=0).fit(X, Y + 100.0)
    problem = Problem(X, Y + 100.0, model.gamma_, intercept=model.network_.intercept)
    assert problem.objective(model.network_) == pytest.approx(model.objective_, rel=1e-12)
    assert stationarity(problem, model.network_).norm < 1e-6
    assert stationarity(model.problems(X, Y + 100.0)[0], model.network_).norm < 1e-6
    assert certify(model, X, Y + 100.0)


# --- choice of gamma ---


def test_gamma_has_the_least_error(default):
    np.testing.assert_allclose(default.gammas_, np.array(GAMMAS) * default.target_scale_)
    sizes = [len(test) for _, test in stratified_folds(Y[:, None], 5, np.random.default_rng(0))]
    assert default.gammas_[np.argmin(default.mse_path_ @ sizes)] == default.gamma_


def test_errors_of_gammas_are_out_of_fold_errors():
    """Long fits of each fold, by the estimator itself, have nearly the errors of the short fits."""
    noisy = Y + 0.5 * np.random.default_rng(1).normal(size=80)
    model = DCONRegressor(4, gamma=[0.3, 3.0], cv=KFold(4), random_state=0).fit(X, noisy)
    for k, gamma in enumerate([0.3, 3.0]):
        predicted = cross_val_predict(regressor(gamma=gamma), X, noisy, cv=KFold(4))
        assert model.mse_path_[k].mean() == pytest.approx(np.mean((predicted - noisy) ** 2), rel=0.1)


def test_folds_test_every_row_once_and_are_stratified():
    labels = np.repeat([0.0, 1.0], [7, 50])[:, None]
    folds = stratified_folds(labels, 5, np.random.default_rng(0))
    np.testing.assert_array_equal(np.sort(np.concatenate([test for _, test in folds])), np.arange(57))
    assert {int(labels[test].size - labels[test].sum()) for _, test in folds} == {1, 2}
    for train, test in folds:
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(57))


@pytest.mark.parametrize(
    "data",
    [
        load_diabetes(return_X_y=True),
        make_friedman1(200, noise=1.0, random_state=0),
        (X[:, :2], X[:, 0] + RNG.normal(size=80)),
        (RNG.normal(size=(60, 5)), RNG.normal(size=60)),
    ],
    ids=["diabetes", "friedman", "linear", "noise"],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_errors_are_never_much_above_those_of_ridge_in_any_units(data):
    inputs, target = data
    folds = KFold(3, shuffle=True, random_state=0)
    factors = 10.0 ** np.random.default_rng(0).uniform(-3.0, 6.0, size=inputs.shape[1])
    standard = (inputs - inputs.mean(axis=0)) / inputs.std(axis=0)
    ridge = cross_val_predict(RidgeCV(np.logspace(-3, 4, 15)), standard, target, cv=folds)
    model = DCONRegressor(max_evaluations=200, random_state=0)
    ours = cross_val_predict(model, inputs * factors, target + 5e5, cv=folds)
    assert np.mean((ours - 5e5 - target) ** 2) < 1.1 * np.mean((ridge - target) ** 2)


@pytest.mark.parametrize("load", [load_iris, load_breast_cancer])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_classes_are_found_in_any_units(load):
    inputs, labels = load(return_X_y=True)
    factors = 10.0 ** np.random.default_rng(0).uniform(-3.0, 6.0, size=inputs.shape[1])
    model = DCONClassifier(8, max_evaluations=300, random_state=0)
    assert np.mean(cross_val_predict(model, inputs * factors, labels, cv=3) == labels) > 0.93


@pytest.mark.parametrize("distance", [30.0, 300.0])
def test_one_outlier_does_not_decide_the_choice_of_gamma(distance):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = 3.0 * X[:, 0] + 0.1 * rng.normal(size=400)
    X[5, 0] = distance
    others = np.arange(400) != 5
    assert DCONRegressor(random_state=0).fit(X, y).score(X[others], y[others]) > 0.98


# --- candidates and folds of the user ---


@pytest.mark.parametrize("cv", [3, KFold(3), list(KFold(3).split(X))])
def test_folds_can_be_given(cv):
    model = DCONRegressor(3, gamma=[1.0, 0.1], cv=cv, random_state=0).fit(X, Y)
    assert model.mse_path_.shape == (2, 3)
    np.testing.assert_allclose(model.gammas_, np.array([0.1, 1.0]) * model.target_scale_)


def test_folds_by_row_numbers_are_refused_if_rows_are_set_aside():
    folds = [(np.arange(30), np.arange(30, 60)), (np.arange(30, 60), np.arange(30))]
    model = DCONRegressor(3, gamma=[1.0, 0.1], cv=folds, early_stopping=True, tol=1e-2, random_state=0)
    with pytest.raises(ValueError, match="early_stopping sets some rows aside"):
        model.fit(X, Y)
    assert model.fit(X, Y, X_val=X[60:], y_val=Y[60:]).mse_path_.shape == (2, 2)


def test_a_classifier_chooses_one_gamma_for_all_classes():
    model = DCONClassifier(3, gamma=[0.03, 0.3], cv=3, random_state=0).fit(X, LABELS)
    assert model.mse_path_.shape == (2, 3)
    assert {problem.gamma for problem in model.problems(X, LABELS)} == {model.gamma_}


@pytest.mark.parametrize("gammas", [[], [0.0, 1.0], [np.nan], [[0.1, 1.0]]])
def test_invalid_candidates_are_refused(gammas):
    with pytest.raises(ValueError, match="gamma must hold positive finite numbers"):
        DCONRegressor(gamma=gammas).fit(X, Y)


@pytest.mark.parametrize("limit", [1, 300, 2000])
def test_max_evaluations_ends_the_fit(limit):
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(300, 6))
    target = np.sin(2.0 * inputs[:, 0]) + inputs[:, 1] * inputs[:, 2] + rng.normal(size=300)
    with pytest.warns(match="Raise max_evaluations or tol"):
        model = DCONRegressor(20, gamma=1e-3, max_evaluations=limit, random_state=0).fit(inputs, target)
    assert model.status_ is Status.EVALUATION_LIMIT
    # The fit ends after the current burst of 50 iterations; above 1,200 evaluations, after the current hop.
    assert limit <= model.history_.total("evaluations") <= (limit + 150 if limit < 1200 else 3 * limit)
    assert np.all(np.diff(model.history_.objective) <= 0.0)


def test_folds_may_be_masks_and_may_share_rows():
    inputs, target = np.repeat(X[:40], 2, axis=0), np.repeat(Y[:40], 2)
    train, test = np.arange(80) < 60, np.arange(80) >= 20

    def errors(*fold):
        return DCONRegressor(3, gamma=[1.0, 0.1], cv=[fold], random_state=0).fit(inputs, target).mse_path_

    both = errors(np.flatnonzero(train), np.flatnonzero(test))
    np.testing.assert_array_equal(errors(train, test), both)
    assert np.all(both < errors(~test, test))  # rows in both parts are trained on


@pytest.mark.parametrize(
    ("cv", "message"),
    [([], "cv holds no folds"), ([([0, 1], [2, 500])], "numbered from 0 to .*500"), ([0, 1], "pairs of training")],
)
def test_invalid_folds_are_refused(cv, message):
    with pytest.raises(ValueError, match=message):
        DCONRegressor(3, gamma=[1.0, 0.1], cv=cv).fit(X, Y)
