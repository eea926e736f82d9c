"""Coded features represent the right columns, and the design is whitened like a dense one."""

import numpy as np
import pytest

from dconnet.encoding.design import CodedDesign, Levels, Linear, Ramps, Standardisation

RNG = np.random.default_rng(0)
VALUES = RNG.normal(size=200)
LEVELS = RNG.integers(0, 5, size=200).astype(float)


def coded(shuffled=False):
    """Return a design with a feature of each kind."""
    features = [Linear.of(VALUES), Ramps.of(VALUES**3, 5), Levels(3)]
    columns = [VALUES, VALUES**3, LEVELS]
    order = [2, 0, 1] if shuffled else [0, 1, 2]
    return CodedDesign.of([features[i] for i in order], [columns[i] for i in order])


def test_linear_features_are_standardised_and_missing_values_filled():
    values = np.append(VALUES, np.nan)
    feature = Linear.of(values)
    (column,) = feature.columns(feature.code(values)).T
    assert column.mean() == pytest.approx(0.0, abs=1e-12)
    assert column.std() == pytest.approx(1.0)
    assert column[-1] == pytest.approx((np.median(VALUES) - feature.center) / feature.scale)
    assert Linear.of(np.full(5, 3.0)).code(np.full(5, 3.0))[1].tolist() == [0.0] * 5


def test_ramps_rise_from_zero_to_one_in_their_bins_and_continue_outside():
    feature = Ramps(np.array([0.0, 1.0, 3.0]))
    columns = feature.columns(feature.code(np.array([-1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 5.0])))
    assert columns.tolist() == [[-1, 0], [0, 0], [0.5, 0], [1, 0], [1, 0.5], [1, 1], [1, 2]]


def test_ramps_have_bins_of_equal_counts_or_become_linear():
    feature = Ramps.of(VALUES, 4)
    counts = np.bincount(feature.code(VALUES)[0])
    assert set(counts.tolist()) <= {49, 50, 51}
    assert set(feature.edges) <= set(VALUES)
    assert isinstance(Ramps.of(np.array([0.0, 1.0, 0.0, 1.0]), 4), Linear)
    assert isinstance(Ramps.of(np.full(4, np.nan), 4), Linear)


def test_levels_beyond_the_columns_and_missing_ones_are_zero():
    feature = Levels(2)
    columns = feature.columns(feature.code(np.array([0.0, 1.0, 2.0, 7.0, np.nan])))
    assert columns.tolist() == [[1, 0], [0, 1], [0, 0], [0, 0], [0, 0]]


@pytest.mark.parametrize("shuffled", [False, True])
def test_the_dense_design_has_the_columns_of_all_features_by_kind(shuffled):
    design = coded(shuffled)
    M = design.dense(slice(None))
    assert M.shape == (200, design.n_columns + 1)
    np.testing.assert_allclose(M[:, 0], (VALUES - VALUES.mean()) / VALUES.std(), atol=1e-6)
    np.testing.assert_array_equal(M[:, -4:-1], LEVELS[:, None] == np.arange(3))
    np.testing.assert_array_equal(M[:, -1], 1.0)
    np.testing.assert_array_equal(design.rows(np.array([3, 5])).dense(slice(None)), M[[3, 5]])


@pytest.mark.parametrize("shrinkage", [0.0, 0.3])
def test_whitened_weights_have_the_penalty_of_the_problem(shrinkage):
    """|v|² is the weighted |M u|² plus the shrinkage of standardised weights, for the weights u = B v."""
    design, weight = coded(), RNG.uniform(0.5, 2.0, size=200)
    gram = design.gram(weight)
    scaling = Standardisation.of(gram)
    B = scaling.from_white(gram, shrinkage)
    M = design.dense(slice(None))
    standard = B[:-1] * scaling.scale[:, None]  # weights of the standardised columns
    penalty = (M @ B).T @ (weight[:, None] * (M @ B)) + shrinkage * weight.sum() * standard.T @ standard
    np.testing.assert_allclose(penalty, np.eye(B.shape[1]), atol=1e-9)


def test_dependent_columns_are_left_out():
    features = [Linear.of(VALUES), Linear.of(2.0 * VALUES), Levels(2)]
    design = CodedDesign.of(features, [VALUES, 2.0 * VALUES, (VALUES > 0).astype(float)])
    gram = design.gram(np.ones(200))
    B = Standardisation.of(gram).from_white(gram, 0.0)
    assert B.shape == (5, 3)
    assert np.isfinite(B).all()


@pytest.mark.parametrize(("n_networks", "n_hidden"), [(0, 3), (1, 1), (3, 4), (2, 37)])
def test_predictions_are_those_of_the_dense_design(n_networks, n_hidden):
    design = coded()
    U, alpha = RNG.normal(size=(n_networks, design.n_columns + 1, n_hidden)), RNG.normal(size=(n_networks, n_hidden))
    M = design.dense(slice(None))
    expected = np.einsum("kjl,kl->jk", np.maximum(M @ U, 0.0), alpha)
    outputs = design.predict(U, alpha)
    assert outputs.shape == (200, n_networks)
    np.testing.assert_allclose(outputs, expected, rtol=1e-12, atol=1e-13)
    for u in U:
        np.testing.assert_allclose(design.hidden(u[None])[0], np.maximum(M @ u, 0.0).T, rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(design.rows(np.arange(70, 90)).predict(U, alpha), outputs[70:90])
