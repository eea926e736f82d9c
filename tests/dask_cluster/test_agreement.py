"""A fit on a cluster agrees with the fit on one machine."""

import numpy as np
import pytest

from dconnet import DCONClassifier, DCONRegressor, PaperAlgorithm, Problem
from dconnet.dask import DaskDCONClassifier, DaskDCONRegressor
from dconnet.model.rows import LEAF

N_ROWS = 2 * LEAF + 1808
WHOLE_LEAVES = (LEAF, LEAF, 0, N_ROWS - 2 * LEAF)
UNEVEN = (1, 0, 4000, 17, 0, 3983, N_ROWS - 8001)
OPTIONS = {"n_hidden": 4, "gamma": 0.01, "scale": False, "max_epochs": 1, "random_state": 0}
ALGORITHMS = {
    "accelerated": {"max_evaluations": 20},
    "paper": {"algorithm": "paper"},
    "net": {"algorithm": PaperAlgorithm(split="net")},
}

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_agreement_with_one_machine(client, rows, partition, algorithm):
    """To the last bit with partitions of whole leaves, and otherwise up to rounding."""
    X, y = rows(N_ROWS)
    options = OPTIONS | ALGORITHMS[algorithm]
    local = DCONRegressor(**options).fit(X, y)
    same, other = (DaskDCONRegressor(**options).fit(*partition(p, X, y)) for p in (WHOLE_LEAVES, UNEVEN))
    assert np.array_equal(same.history_.objective, local.history_.objective)
    assert np.array_equal(same.network_.parameters, local.network_.parameters)
    assert same.stationarity_ == pytest.approx(local.stationarity_, rel=1e-6, abs=1e-9)
    np.testing.assert_allclose(other.history_.objective, local.history_.objective, rtol=1e-8)


def test_a_converged_accelerated_fit_has_the_same_bits(client, rows, partition):
    """It takes more than 1,000 evaluations: random starts, hops, sweeps and Newton steps."""
    X, y = rows(N_ROWS)
    options = OPTIONS | {"n_hidden": 2, "gamma": 1.0, "tol": 1e-4, "max_epochs": None}
    local = DCONRegressor(**options).fit(X, y)
    model = DaskDCONRegressor(**options).fit(*partition(WHOLE_LEAVES, X, y))
    assert local.status_.name == "CONVERGED"
    assert local.history_.total("evaluations") > 1000
    assert np.array_equal(model.network_.parameters, local.network_.parameters)


def test_joint_steps_alone_never_raise_regloss_over_all_rows(client, rows, partition, monkeypatch):
    """Beyond the size that the driver fetches, there are no sweeps."""
    monkeypatch.setattr("dconnet.dask.problem.MAX_SWEPT_NUMBERS", 0)
    (X, y), epochs = rows(N_ROWS), []
    options = OPTIONS | {"n_hidden": 2, "gamma": 1.0, "tol": 1e-4, "max_epochs": None}
    model = DaskDCONRegressor(**options, callback=epochs.append).fit(*partition(WHOLE_LEAVES, X, y))
    problem = Problem(X, y, 1.0)
    reached = [problem.objective(epoch.network) for epoch in epochs]
    np.testing.assert_allclose(reached, model.history_.objective[1:], rtol=1e-12)
    assert np.all(np.diff(reached) <= 1e-12)
    assert model.status_.name == "CONVERGED"
    assert model.history_.total("programmes") == 0
    assert model.stationarity_ < 1e-3
    other = DaskDCONRegressor(**options).fit(*partition((0, 2 * LEAF, N_ROWS - 2 * LEAF), X, y))
    assert np.array_equal(model.network_.parameters, other.network_.parameters)


def test_algorithm_1_refuses_many_rows(client, rows, partition, monkeypatch):
    monkeypatch.setattr("dconnet.dask.problem.MAX_SWEPT_NUMBERS", 4 * 1200 - 1)
    with pytest.raises(ValueError, match=r"Algorithm 1 is not available for 1,200 rows .* algorithm='accelerated'"):
        DaskDCONRegressor(**OPTIONS, algorithm="paper").fit(*partition((500, 700), *rows(1200)))


@pytest.mark.parametrize("changes", [{"gamma": "auto", "scale": True}, {"shrinkage": 0.1}], ids=["scaled", "shrunk"])
@pytest.mark.parametrize("n_targets", [1, 2])
def test_units_weights_and_targets(client, rows, partition, changes, n_targets):
    X, y = rows(1200)
    X = X * [1.0, 1000.0, 0.01] + [0.0, 7e4, 3.0]
    X = np.column_stack([X, X[:, 0] + X[:, 1], np.ones(len(X))])  # of smaller rank
    y = 50.0 * y + 700.0 if n_targets == 1 else np.column_stack([y, 100.0 * X[:, 0] ** 2])
    weight = np.random.default_rng(1).integers(0, 3, size=len(y)).astype(float)
    options = OPTIONS | {"algorithm": "paper"} | changes
    local = DCONRegressor(**options).fit(X, y, weight)
    X_dask, *others = partition((300, 900), X, y, weight)
    model = DaskDCONRegressor(**options).fit(X_dask, *others)
    assert model.gamma_ == pytest.approx(local.gamma_, rel=1e-12)
    np.testing.assert_allclose(model.history_.objective, local.history_.objective, rtol=1e-8)
    np.testing.assert_allclose(model.predict(X_dask).compute(), local.predict(X), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("multi_class", ["ovr", "shared"])
def test_classes(client, rows, partition, multi_class):
    X, y = rows(1200)
    labels = np.array(["low", "middle", "high"])[np.digitize(y, [0.7, 1.5])]
    options = {"scale": True, "algorithm": "paper", "multi_class": multi_class, "class_weight": "balanced", "n_jobs": 2}
    local = DCONClassifier(**OPTIONS | options).fit(X, labels)
    X_dask, labels_dask = partition((500, 700), X, labels)
    model = DaskDCONClassifier(**OPTIONS | options).fit(X_dask, labels_dask)
    assert model.classes_.tolist() == ["high", "low", "middle"]
    for own, expected in zip(model.histories_, local.histories_, strict=True):
        np.testing.assert_allclose(own.objective, expected.objective, rtol=1e-8)
    assert np.mean(model.predict(X_dask).compute() == local.predict(X)) > 0.999
    for method in ("predict_proba", "predict_log_proba", "decision_function", "transform"):
        found, expected = getattr(model, method)(X_dask), getattr(local, method)(X)
        assert found.shape == expected.shape
        np.testing.assert_allclose(found.compute(), expected, rtol=1e-5, atol=1e-8)


def test_early_stopping_on_validation_data(client, rows, partition):
    (X, y), (X_val, y_val) = rows(1200), rows(400, seed=5)
    options = OPTIONS | {"algorithm": "paper", "early_stopping": True, "n_iter_no_change": 2, "max_epochs": 6}
    local = DCONRegressor(**options).fit(X, y, X_val=X_val, y_val=y_val)
    validation = dict(zip(("X_val", "y_val"), partition((100, 300), X_val, y_val), strict=True))
    model = DaskDCONRegressor(**options).fit(*partition((500, 700), X, y), **validation)
    np.testing.assert_allclose(model.history_.validation_mse, local.history_.validation_mse, rtol=1e-8)
    assert model.status_ is local.status_
    np.testing.assert_allclose(model.predict(X), local.predict(X), rtol=1e-6)
