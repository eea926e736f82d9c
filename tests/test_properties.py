"""Properties for any data: whitening, invariances of training, and valid and invalid inputs."""

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.exceptions import ConvergenceWarning

from dconnet import DCONClassifier, DCONRegressor, Network, Problem

NUMBERS = st.floats(-100.0, 100.0, allow_subnormal=False)
# Zero, or large enough that the rounding of a random start does not hide their squares.
TARGETS = st.floats(1e-4, 100.0).flatmap(lambda size: st.sampled_from([size, -size, 0.0]))
SHAPES = st.tuples(st.integers(1, 12), st.integers(1, 5))
MATRICES = hnp.arrays(np.float64, SHAPES, elements=NUMBERS)
QUICK = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


def seeded(seed, n_rows=30, n_features=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    return X, np.abs(X[:, 0]) - X[:, -1] + 0.1 * rng.normal(size=n_rows), rng


def trained(X, y, **changes):
    parameters = {"n_hidden": 3, "gamma": 0.1, "max_epochs": 3, "random_state": 0} | changes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return DCONRegressor(**parameters).fit(X, y)


@QUICK
@given(st.integers(0, 1000), st.randoms(use_true_random=False))
def test_training_does_not_depend_on_the_order_of_the_rows(seed, shuffler):
    X, y, _ = seeded(seed)
    order = list(range(len(y)))
    shuffler.shuffle(order)
    first, second = trained(X, y), trained(X[order], y[order])
    np.testing.assert_array_equal(first.network_.parameters, second.network_.parameters)


@QUICK
@given(st.integers(0, 1000), st.integers(0, 1000))
def test_regloss_does_not_depend_on_invertible_maps_of_the_features(seed, map_seed):
    """The penalty depends on preactivations alone, so another basis of [X 1] gives the same problem."""
    X, y, _ = seeded(seed)
    rng = np.random.default_rng(map_seed)
    A, c = rng.normal(size=(3, 3)) + 3.0 * np.eye(3), rng.normal(size=3)
    network = trained(X, y, scale=False).network_
    # f(x) with x = A'^-1 (x' - c): the same function of the mapped features
    W = np.linalg.solve(A, network.W.T).T
    mapped = Network(W, network.b - W @ c, network.alpha)
    here, there = Problem(X, y, 0.1).objective(network), Problem(X @ A + c, y, 0.1).objective(mapped)
    assert there == pytest.approx(here, rel=1e-8)


@QUICK
@given(
    MATRICES,
    st.data(),
    st.sampled_from(["accelerated", "paper"]),
    st.sampled_from([1e-6, 0.01, 1.0, 100.0]),
    st.sampled_from([0.0, 0.1]),
)
def test_any_numbers_are_fitted_and_regloss_never_rises(X, data, algorithm, gamma, shrinkage):
    y = data.draw(hnp.arrays(np.float64, len(X), elements=TARGETS))
    model = trained(X, y, algorithm=algorithm, gamma=gamma, shrinkage=shrinkage)
    history = model.history_.objective
    assert np.all(np.diff(history) <= 1e-12 * np.abs(history[:-1]) + 1e-300)
    assert np.isfinite(model.predict(X)).all()
    assert model.objective_ == pytest.approx(history[-1], rel=1e-6, abs=1e-12 * (1.0 + np.abs(y).max() ** 2))


@QUICK
@given(MATRICES, st.data())
def test_any_labels_are_classified(X, data):
    kinds = st.sampled_from([[0, 1], ["a", "b", "c"], [False, True], [-1.0, 0.0, 2.0, 7.0]])
    classes = data.draw(kinds)
    labels = np.array(data.draw(st.lists(st.sampled_from(classes), min_size=len(X), max_size=len(X))))
    model = DCONClassifier(2, max_epochs=1, random_state=0, gamma=1e-3, scale=False)
    if len(np.unique(labels)) < 2:
        with pytest.raises(ValueError, match="only one class"):
            model.fit(X, labels)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, labels)
    assert set(model.predict(X).tolist()) <= set(labels.tolist())
    assert model.classes_.tolist() == sorted(set(labels.tolist()))
