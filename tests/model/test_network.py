"""Networks with one output and with several."""

import numpy as np
import pytest

from dconnet import Network


@pytest.fixture
def network():
    rng = np.random.default_rng(0)
    return Network(rng.normal(size=(4, 3)), rng.normal(size=4), rng.normal(size=(4, 2)), intercept=[1.0, -2.0])


def test_several_outputs_are_networks_over_the_same_neurons(network):
    X = np.random.default_rng(1).normal(size=(20, 3))
    outputs = network.predict(X)
    assert outputs.shape == (20, network.n_outputs) == (20, 2)
    for k in range(2):
        np.testing.assert_allclose(network.of_output(k).predict(X), outputs[:, k], rtol=1e-14, atol=1e-14)


def test_one_number_serves_as_intercept_of_all_outputs(network):
    np.testing.assert_array_equal(network.with_intercept(3.0).intercept, [3.0, 3.0])
    assert network.with_intercept([1.0, -2.0]) is network


def test_parameters_hold_all_weights(network):
    assert len(network.parameters) == 4 * 2 + 4 * 3 + 4


def test_a_network_of_one_output_is_its_own_output():
    network = Network([[1.0]], [0.0], [1.0])
    assert network.of_output(0) is network
    assert network.n_outputs == 1
    with pytest.raises(ValueError, match="from 0 to 0"):
        network.of_output(1)


@pytest.mark.parametrize(
    ("alpha", "intercept", "message"),
    [
        ([1.0], [1.0], "one number"),
        ([1.0], np.nan, "finite"),
        ([[1.0, 2.0]], [1.0, 2.0, 3.0], "2 entries"),
        ([[1.0, 2.0]], [1.0, np.inf], "finite"),
        ([[[1.0]]], 0.0, "dimension"),
        ([[1.0], [2.0]], 0.0, "agree on the number of neurons"),
    ],
)
def test_wrong_shapes_are_refused(alpha, intercept, message):
    with pytest.raises(ValueError, match=message):
        Network([[1.0]], [0.0], alpha, intercept)
