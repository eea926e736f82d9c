"""A fit on a cluster is the fit on one machine."""

import dask.array as da
import numpy as np
import pytest

from dconnet import DCONClassifier, DCONRegressor
from dconnet.dask import DaskDCONClassifier, DaskDCONRegressor
from dconnet.dask.posing import _signed_as_here
from dconnet.model.rows import LEAF, joined_triangle, leaf_triangle, leaves, tree_of, triangle_of

N_ROWS = 2 * LEAF + 1808
WHOLE_LEAVES = [(N_ROWS,), (LEAF, LEAF, 0, N_ROWS - 2 * LEAF)]
OTHERS = [(1, 0, 4000, 17, 0, 3983, N_ROWS - 8001), (N_ROWS - 10, 10)]

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def rows(n_rows=N_ROWS, n_features=3, seed=0):
    """Rows that are sorted, as one machine has them in any case."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    X = X[np.lexsort(X.T[::-1])]
    y = np.abs(X[:, 0]) + np.maximum(X[:, 1] - X[:, 2], 0.0) + 0.1 * rng.normal(size=n_rows)
    return X, y


def spread(chunks, *arrays):
    return [da.from_array(a, chunks=(chunks, *a.shape[1:])) for a in arrays]


def settings(**changes):
    return {"n_hidden": 4, "gamma": 0.01, "scale": False, "max_epochs": 2, "random_state": 0} | changes


ALGORITHMS = [
    {"max_evaluations": 20},
    {"algorithm": "paper", "split": "paper"},
    {"algorithm": "paper", "split": "net"},
]
NAMES = ["accelerated", "paper", "net"]


@pytest.mark.parametrize("options", ALGORITHMS, ids=NAMES)
def test_partitions_of_whole_leaves_give_the_same_bits(client, options):
    X, y = rows()
    local = DCONRegressor(**settings(**options)).fit(X, y)
    for chunks in WHOLE_LEAVES if "algorithm" in options else WHOLE_LEAVES[-1:]:
        model = DaskDCONRegressor(**settings(**options)).fit(*spread(chunks, X, y))
        assert np.array_equal(model.history_.objective, local.history_.objective)
        assert np.array_equal(model.network_.parameters, local.network_.parameters)
        assert model.objective_ == pytest.approx(local.objective_, rel=1e-12)
        assert model.stationarity_ == pytest.approx(local.stationarity_, rel=1e-6, abs=1e-9)
    assert model.history_.total("rounds") > model.history_.total("programmes") > 0
    assert model.history_.total("traffic") > 1000
    assert local.history_.total("rounds") == 0


def test_a_whole_accelerated_fit_has_the_same_bits(client):
    """From the race of random starts to convergence: more than a thousand evaluations, hops, sweeps, Newton steps."""
    X, y = rows()
    options = settings(n_hidden=2, gamma=1.0, tol=1e-4, max_epochs=None)
    local = DCONRegressor(**options).fit(X, y)
    model = DaskDCONRegressor(**options).fit(*spread(WHOLE_LEAVES[-1], X, y))
    assert local.status_.name == "CONVERGED"
    assert local.history_.total("evaluations") > 1000
    assert np.array_equal(model.history_.objective, local.history_.objective)
    assert np.array_equal(model.network_.parameters, local.network_.parameters)


@pytest.mark.parametrize("options", ALGORITHMS, ids=NAMES)
@pytest.mark.parametrize("chunks", OTHERS, ids=["uneven", "two"])
def test_other_partitions_agree_to_rounding(client, options, chunks):
    X, y = rows()
    # Joint steps double rounding every few evaluations: see benchmarks/dask_rounding.py.
    few = {} if "algorithm" in options else {"max_epochs": 1}
    local = DCONRegressor(**settings(**options | few)).fit(X, y)
    model = DaskDCONRegressor(**settings(**options | few)).fit(*spread(chunks, X, y))
    np.testing.assert_allclose(model.history_.objective, local.history_.objective, rtol=1e-8)
    assert model.history_.objective[-1] < 0.5 * model.history_.objective[0]


class OnePart:
    """All rows of a design in one part."""

    def __init__(self, M):
        self.M, self.n_rows = M, len(M)

    def numbers_in_parts(self, numbers):
        return {0: numbers}

    def ask(self, name, scale, own):
        assert name == "design_rows"
        return [self.M[numbers] / scale for (numbers,) in own.values()]


@pytest.mark.parametrize("n_rows", [3, 500, LEAF, LEAF + 600, 5 * LEAF + 1])
def test_signs_of_whitened_columns_are_those_of_one_machine(n_rows):
    M, scale = np.random.default_rng(n_rows).normal(size=(n_rows, 4)), np.ones(4)
    here = tree_of((leaf_triangle(lambda rows: M[rows], leaf, 4) for leaf in leaves(n_rows)), joined_triangle).total()
    assert np.array_equal(_signed_as_here(here, OnePart(M), scale), here)
    for length in [5, 700, 3000]:
        there = triangle_of(M[first : first + length] for first in range(0, n_rows, length))
        signed = _signed_as_here(there, OnePart(M), scale)
        np.testing.assert_allclose(signed, here if n_rows > 3 else there, atol=1e-9)


def test_units_of_the_data_and_the_choice_of_gamma(client):
    X, y = rows(1500)
    X, y = X * [1.0, 1000.0, 0.01] + [0.0, 7e4, 3.0], 50.0 * y + 700.0
    options = settings(gamma="auto", scale=True, algorithm="paper", max_epochs=2)
    local = DCONRegressor(**options).fit(X, y)
    model = DaskDCONRegressor(**options).fit(*spread((700, 800), X, y))
    assert model.gamma_ == pytest.approx(local.gamma_, rel=1e-12)
    np.testing.assert_allclose(model.mse_path_, local.mse_path_, rtol=1e-3)
    np.testing.assert_allclose(model.history_.objective, local.history_.objective, rtol=1e-8)
    np.testing.assert_allclose(model.predict(X), local.predict(X), rtol=1e-6)


@pytest.mark.parametrize("changes", [{"shrinkage": 0.1}, {"scale": True, "shrinkage": 0.1}], ids=["plain", "scaled"])
def test_weights_and_shrinkage(client, changes):
    X, y = rows(1500)
    weight = np.random.default_rng(1).integers(0, 3, size=len(y)).astype(float)
    options = settings(algorithm="paper", **changes)
    local = DCONRegressor(**options).fit(X, y, weight)
    model = DaskDCONRegressor(**options).fit(*spread((300, 1200), X, y, weight))
    np.testing.assert_allclose(model.history_.objective, local.history_.objective, rtol=1e-8)


def test_a_design_of_smaller_rank(client):
    X, y = rows(1000)
    X = np.column_stack([X, X[:, 0] + X[:, 1], np.ones(len(X))])
    options = settings(algorithm="paper", scale=True)
    local = DCONRegressor(**options).fit(X, y)
    model = DaskDCONRegressor(**options).fit(*spread((600, 400), X, y))
    np.testing.assert_allclose(model.history_.objective, local.history_.objective, rtol=1e-8)


def test_several_targets(client):
    X, y = rows(1200)
    Y = np.column_stack([y, 100.0 * X[:, 0] ** 2])
    options = settings(scale=True, algorithm="paper")
    local = DCONRegressor(**options).fit(X, Y)
    model = DaskDCONRegressor(**options).fit(*spread((500, 700), X, Y))
    np.testing.assert_allclose(model.history_.objective, local.history_.objective, rtol=1e-8)
    lazily = model.predict(spread((500, 700), X)[0])
    assert isinstance(lazily, da.Array)
    assert lazily.shape == (1200, 2)
    np.testing.assert_allclose(lazily.compute(), local.predict(X), rtol=1e-6)


@pytest.mark.parametrize("multi_class", ["ovr", "shared"])
def test_classes(client, multi_class):
    X, y = rows(1200)
    labels = np.array(["low", "middle", "high"])[np.digitize(y, [0.7, 1.5])]
    options = settings(scale=True, algorithm="paper", multi_class=multi_class, class_weight="balanced", n_jobs=2)
    local = DCONClassifier(**options).fit(X, labels)
    model = DaskDCONClassifier(**options).fit(*spread((500, 700), X, labels))
    assert model.classes_.tolist() == ["high", "low", "middle"]
    for ours, theirs in zip(model.histories_, local.histories_, strict=True):
        np.testing.assert_allclose(ours.objective, theirs.objective, rtol=1e-8)
    X_far = spread((500, 700), X)[0]
    assert np.mean(model.predict(X_far).compute() == local.predict(X)) > 0.999
    assert np.allclose(model.predict_proba(X_far).compute(), local.predict_proba(X), rtol=1e-6, atol=1e-9)
    assert np.allclose(model.decision_function(X_far).compute(), local.decision_function(X), rtol=1e-5, atol=1e-9)


def test_early_stopping_on_validation_data(client):
    X, y = rows(1200)
    X_val, y_val = rows(400, seed=5)
    options = settings(algorithm="paper", early_stopping=True, n_iter_no_change=2, max_epochs=6)
    local = DCONRegressor(**options).fit(X, y, X_val=X_val, y_val=y_val)
    far, far_val = spread((500, 700), X, y), spread((100, 300), X_val, y_val)
    model = DaskDCONRegressor(**options).fit(*far, X_val=far_val[0], y_val=far_val[1])
    np.testing.assert_allclose(model.history_.validation_mse, local.history_.validation_mse, rtol=1e-8)
    assert model.status_ is local.status_
    np.testing.assert_allclose(model.predict(X), local.predict(X), rtol=1e-6)
