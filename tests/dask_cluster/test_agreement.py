"""A fit on a cluster agrees with the fit on one machine."""

import dask.array as da
import numpy as np
import pytest

from dconnet import DCONClassifier, DCONRegressor, PaperAlgorithm
from dconnet.dask import DaskDCONClassifier, DaskDCONRegressor
from dconnet.dask.preprocessing import fix_signs
from dconnet.model.rows import LEAF, joined_triangle, leaf_triangle, leaves, tree_of, triangle_of

N_ROWS = 2 * LEAF + 1808
WHOLE_LEAVES = (LEAF, LEAF, 0, N_ROWS - 2 * LEAF)
UNEVEN = (1, 0, 4000, 17, 0, 3983, N_ROWS - 8001)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

ALGORITHMS = {
    "accelerated": {"max_evaluations": 20},
    "paper": {"algorithm": "paper"},
    "net": {"algorithm": PaperAlgorithm(split="net")},
}


def settings(**changes):
    return {"n_hidden": 4, "gamma": 0.01, "scale": False, "max_epochs": 1, "random_state": 0} | changes


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_partitions_of_whole_leaves_give_the_same_bits(client, rows, partition, algorithm):
    X, y = rows(N_ROWS)
    options = settings(**ALGORITHMS[algorithm])
    local = DCONRegressor(**options).fit(X, y)
    model = DaskDCONRegressor(**options).fit(*partition(WHOLE_LEAVES, X, y))
    assert np.array_equal(model.history_.objective, local.history_.objective)
    assert np.array_equal(model.network_.parameters, local.network_.parameters)
    assert model.objective_ == pytest.approx(local.objective_, rel=1e-12)
    assert model.stationarity_ == pytest.approx(local.stationarity_, rel=1e-6, abs=1e-9)
    assert model.history_.total("rounds") > model.history_.total("programmes") > 0
    assert model.history_.total("traffic") > 1000
    assert local.history_.total("rounds") == 0


def test_a_converged_accelerated_fit_has_the_same_bits(client, rows, partition):
    """It takes more than 1,000 evaluations: random starts, hops, sweeps and Newton steps."""
    X, y = rows(N_ROWS)
    options = settings(n_hidden=2, gamma=1.0, tol=1e-4, max_epochs=None)
    local = DCONRegressor(**options).fit(X, y)
    model = DaskDCONRegressor(**options).fit(*partition(WHOLE_LEAVES, X, y))
    assert local.status_.name == "CONVERGED"
    assert local.history_.total("evaluations") > 1000
    assert np.array_equal(model.history_.objective, local.history_.objective)
    assert np.array_equal(model.network_.parameters, local.network_.parameters)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_other_partitions_agree_to_rounding(client, rows, partition, algorithm):
    X, y = rows(N_ROWS)
    options = settings(**ALGORITHMS[algorithm])
    local = DCONRegressor(**options).fit(X, y)
    model = DaskDCONRegressor(**options).fit(*partition(UNEVEN, X, y))
    np.testing.assert_allclose(model.history_.objective, local.history_.objective, rtol=1e-8)
    assert model.history_.objective[-1] < 0.5 * model.history_.objective[0]


class OnePartition:
    """All rows of a design in one partition."""

    def __init__(self, M):
        self.M, self.n_rows = M, len(M)

    def split_row_numbers(self, numbers):
        return {0: numbers}

    def map(self, function, scale, own):
        return [self.M[numbers] / scale for (numbers,) in own.values()]


@pytest.mark.parametrize("n_rows", [3, 500, LEAF, LEAF + 600, 5 * LEAF + 1])
def test_signs_of_whitened_columns_are_those_of_one_machine(n_rows):
    M, scale = np.random.default_rng(n_rows).normal(size=(n_rows, 4)), np.ones(4)
    local = tree_of((leaf_triangle(lambda rows: M[rows], leaf, 4) for leaf in leaves(n_rows)), joined_triangle).total()
    assert np.array_equal(fix_signs(local, OnePartition(M), scale), local)
    for length in [5, 700, 3000]:
        other = triangle_of(M[first : first + length] for first in range(0, n_rows, length))
        fixed = fix_signs(other, OnePartition(M), scale)
        np.testing.assert_allclose(fixed, local if n_rows > 3 else other, atol=1e-9)


REGRESSIONS = {
    "chosen gamma": {"gamma": "auto", "scale": True},
    "shrinkage": {"shrinkage": 0.1},
    "scaled shrinkage": {"shrinkage": 0.1, "scale": True},
}


@pytest.mark.parametrize("case", REGRESSIONS)
def test_units_and_weights(client, rows, partition, case):
    X, y = rows(1200)
    X, y = X * [1.0, 1000.0, 0.01] + [0.0, 7e4, 3.0], 50.0 * y + 700.0
    X = np.column_stack([X, X[:, 0] + X[:, 1], np.ones(len(X))])  # of smaller rank
    weight = np.random.default_rng(1).integers(0, 3, size=len(y)).astype(float)
    options = settings(algorithm="paper", **REGRESSIONS[case])
    local = DCONRegressor(**options).fit(X, y, weight)
    model = DaskDCONRegressor(**options).fit(*partition((300, 900), X, y, weight))
    assert model.gamma_ == pytest.approx(local.gamma_, rel=1e-12)
    np.testing.assert_allclose(model.history_.objective, local.history_.objective, rtol=1e-8)
    np.testing.assert_allclose(model.predict(X), local.predict(X), rtol=1e-6)


def test_several_targets(client, rows, partition):
    X, y = rows(1200)
    Y = np.column_stack([y, 100.0 * X[:, 0] ** 2])
    options = settings(scale=True, algorithm="paper")
    local = DCONRegressor(**options).fit(X, Y)
    model = DaskDCONRegressor(**options).fit(*partition((500, 700), X, Y))
    np.testing.assert_allclose(model.history_.objective, local.history_.objective, rtol=1e-8)
    predictions = model.predict(partition((500, 700), X)[0])
    assert isinstance(predictions, da.Array)
    assert predictions.shape == (1200, 2)
    np.testing.assert_allclose(predictions.compute(), local.predict(X), rtol=1e-6)


@pytest.mark.parametrize("multi_class", ["ovr", "shared"])
def test_classes(client, rows, partition, multi_class):
    X, y = rows(1200)
    labels = np.array(["low", "middle", "high"])[np.digitize(y, [0.7, 1.5])]
    options = settings(scale=True, algorithm="paper", multi_class=multi_class, class_weight="balanced", n_jobs=2)
    local = DCONClassifier(**options).fit(X, labels)
    model = DaskDCONClassifier(**options).fit(*partition((500, 700), X, labels))
    assert model.classes_.tolist() == ["high", "low", "middle"]
    for own, expected in zip(model.histories_, local.histories_, strict=True):
        np.testing.assert_allclose(own.objective, expected.objective, rtol=1e-8)
    (X_dask,) = partition((500, 700), X)
    assert np.mean(model.predict(X_dask).compute() == local.predict(X)) > 0.999
    np.testing.assert_allclose(model.predict_proba(X_dask).compute(), local.predict_proba(X), rtol=1e-6, atol=1e-9)
    outputs = model.decision_function(X_dask).compute()
    np.testing.assert_allclose(outputs, local.decision_function(X), rtol=1e-5, atol=1e-9)


def test_early_stopping_on_validation_data(client, rows, partition):
    (X, y), (X_val, y_val) = rows(1200), rows(400, seed=5)
    options = settings(algorithm="paper", early_stopping=True, n_iter_no_change=2, max_epochs=6)
    local = DCONRegressor(**options).fit(X, y, X_val=X_val, y_val=y_val)
    X_val_dask, y_val_dask = partition((100, 300), X_val, y_val)
    model = DaskDCONRegressor(**options).fit(*partition((500, 700), X, y), X_val=X_val_dask, y_val=y_val_dask)
    np.testing.assert_allclose(model.history_.validation_mse, local.history_.validation_mse, rtol=1e-8)
    assert model.status_ is local.status_
    np.testing.assert_allclose(model.predict(X), local.predict(X), rtol=1e-6)
