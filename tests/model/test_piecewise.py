"""Hinges and partial dependences against brute force."""

import numpy as np
import pytest

from dconnet import Network
from dconnet.model.piecewise import hinges, partial_dependence
from tolerances import ROUNDING


def random_network(n_features, n_hidden=5, seed=0):
    rng = np.random.default_rng(seed)
    return Network(rng.normal(size=(n_hidden, n_features)), rng.normal(size=n_hidden), rng.normal(size=n_hidden))


def averaged(network, X, feature, points):
    """Average the predictions with the feature set to each value in all rows."""
    values = []
    for point in points:
        moved = np.array(X)
        moved[:, feature] = point
        values.append(network.predict(moved).mean())
    return np.array(values)


class TestPartialDependence:
    @pytest.mark.parametrize("feature", [0, 1, 2])
    @pytest.mark.parametrize("max_points", [4000, 50])
    def test_is_the_average_by_definition(self, feature, max_points):
        network, X = random_network(3), np.random.default_rng(1).normal(size=(40, 3))
        curve = partial_dependence(network, X, feature, max_points=max_points)
        np.testing.assert_allclose(
            curve.values, averaged(network, X, feature, curve.points), rtol=ROUNDING, atol=ROUNDING
        )
        assert curve.through_breakpoints == (max_points == 4000)
        if curve.through_breakpoints:  # the curve is straight between its points
            between = np.linspace(curve.points[0], curve.points[-1], 97)
            expected = averaged(network, X, feature, between)
            np.testing.assert_allclose(np.interp(between, curve.points, curve.values), expected, rtol=1e-9, atol=1e-9)

    @pytest.mark.parametrize(("feature", "max_points"), [(-1, 10), (3, 10), (0, 1)])
    def test_refuses_invalid_arguments(self, feature, max_points):
        with pytest.raises(ValueError, match="must be"):
            partial_dependence(random_network(3), np.zeros((2, 3)), feature, max_points=max_points)


class TestHinges:
    def test_on_a_line_are_where_the_slope_changes(self):
        network = random_network(1, n_hidden=20)
        found = hinges(network, [-1.0], [2.0])
        roots = -network.b / network.W[:, 0]
        assert sorted(found.neurons) == np.flatnonzero((roots >= -1.0) & (roots <= 2.0)).tolist()
        np.testing.assert_allclose(found.places, roots[found.neurons], rtol=1e-12)
        around = found.places[:, None] + 1e-6 * np.array([-1.0, 0.0, 1.0])
        values = network.predict(around.reshape(-1, 1)).reshape(-1, 3)
        np.testing.assert_allclose(found.bends, (values[:, 0] - 2.0 * values[:, 1] + values[:, 2]) / 1e-6, atol=1e-6)

    def test_in_the_plane_are_segments_from_edge_to_edge(self):
        network = random_network(2, n_hidden=30)
        low, high = np.array([-1.0, 0.0]), np.array([1.0, 0.1])
        found = hinges(network, low, high)
        assert 0 < len(found.neurons) < 30
        for neuron, ends in zip(found.neurons, found.places, strict=True):
            assert np.abs(network.preactivations(ends)[:, neuron]).max() < 1e-12
            at_edge = np.isclose(ends, low, rtol=0, atol=1e-12) | np.isclose(ends, high, rtol=0, atol=1e-12)
            assert at_edge.any(axis=1).all()
        grid = np.stack(np.meshgrid(np.linspace(-1, 1, 60), np.linspace(0, 0.1, 60)), axis=-1).reshape(-1, 2)
        signs = np.sign(network.preactivations(grid))
        assert set(np.flatnonzero(signs.min(axis=0) < signs.max(axis=0))) <= set(found.neurons)

    def test_lines_along_the_axes(self):
        network = Network(W=[[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], b=[-0.5, 0.25, -5.0], alpha=[1.0, -1.0, 1.0])
        found = hinges(network, [0, -1], [1, 1])
        assert found.neurons.tolist() == [0, 1]
        assert sorted(map(tuple, found.places[0].tolist())) == [(0.5, -1.0), (0.5, 1.0)]
        assert sorted(map(tuple, found.places[1].tolist())) == [(0.0, -0.25), (1.0, -0.25)]
        with pytest.raises(ValueError, match="one or two inputs, not 3"):
            hinges(random_network(3), [0, 0, 0], [1, 1, 1])
