"""Chains against the networks and estimators that they describe."""

import numpy as np
import pytest

from chains import random_chain
from dconnet import DCONRegressor, Network
from dconnet.export.chain import Affine, Chain, ClassifierChain, dtype_name, select_output
from dconnet.model.network import Stack

RNG = np.random.default_rng(0)
X = 3.0 * RNG.normal(size=(40, 3))


def network(n_features, n_hidden, n_outputs=None, seed=1):
    rng = np.random.default_rng(seed)
    shape = n_hidden if n_outputs is None else (n_hidden, n_outputs)
    intercept = 0.7 if n_outputs is None else rng.normal(size=n_outputs)
    return Network(
        rng.normal(size=(n_hidden, n_features)), rng.normal(size=n_hidden), rng.normal(size=shape), intercept
    )


def assert_same(chain, expected, rows=X):
    outputs = chain(rows)
    np.testing.assert_allclose(outputs, np.reshape(expected, outputs.shape), rtol=1e-12, atol=1e-12)


class TestNetworks:
    @pytest.mark.parametrize("n_outputs", [None, 1, 4])
    def test_one_or_several_outputs(self, n_outputs):
        own = network(3, 5, n_outputs)
        assert_same(own.to_chain(), own.predict(X))
        assert own.to_chain().widths == (5,)

    def test_without_neurons_the_intercept_is_left(self):
        empty = Network(np.zeros((0, 3)), [], np.zeros((0, 2)), [1.0, -2.0])
        assert_same(empty.to_chain(), empty.predict(X))

    @pytest.mark.parametrize("skip", [False, True])
    @pytest.mark.parametrize("n_layers", [1, 2, 3])
    def test_stacks(self, skip, n_layers):
        stack, seen = Stack(skip), 3
        for depth in range(n_layers):
            stack = stack.with_layer((network(seen, 4, seed=2 * depth), network(seen, 2, seed=2 * depth + 1)))
            seen = 6 + 3 * skip
        assert_same(stack.chain(), stack.outputs(X))
        assert stack.chain().widths == (*[6 + 6 * skip] * (n_layers - 1), 6)
        top = (network(seen, 3, 2), network(seen, 2))  # several outputs in the last layer
        assert_same(stack.with_layer(top).chain(), stack.with_layer(top).outputs(X))


class TestEstimators:
    def test_regressors_are_in_the_units_of_the_data(self):
        rows = X * [1e-3, 1.0, 50.0] + [0.0, 10.0, 1000.0]
        model = DCONRegressor(3, gamma=0.1, tol=0.1, random_state=0).fit(rows, 1e4 * np.abs(X[:, 0]))
        np.testing.assert_allclose(model.to_chain()(rows)[:, 0], model.predict(rows), rtol=1e-11)
        assert model.to_chain().feature_names == ()

    def test_several_targets_share_a_hidden_layer(self):
        model = DCONRegressor(4, gamma=0.1, tol=0.1, random_state=0).fit(X, np.abs(X))
        assert_same(model.to_chain(), model.predict(X))
        assert model.to_chain().widths == (4,)
        np.testing.assert_allclose(model.to_sklearn().predict(X), model.predict(X), rtol=1e-10)


class TestClassifierChains:
    def test_two_classes_have_two_probabilities(self):
        scores = random_chain(0, [3, 4, 1])
        found = ClassifierChain(scores, ("no", "yes"), Affine.diagonal(2.0, -0.5, 1)).probabilities
        share = 1.0 / (1.0 + np.exp(-(2.0 * scores(X)[:, 0] - 0.5)))
        assert_same(found, np.column_stack([1.0 - share, share]))
        assert found.output_names == ("no", "yes")

    def test_more_classes_have_a_softmax(self):
        scores = random_chain(1, [3, 4, 3])
        found = ClassifierChain(scores, (1, 2, 3), Affine.diagonal(1.5, [0.0, 1.0, 2.0], 3)).probabilities
        powers = np.exp(1.5 * scores(X) + [0.0, 1.0, 2.0])
        assert_same(found, powers / powers.sum(axis=1, keepdims=True))


SMALL = random_chain(0, [3, 1])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: select_output(ClassifierChain(SMALL, (0, 1)), "probabilities"), "no probabilities: use output='raw'"),
        (lambda: select_output(SMALL, "probabilities"), "Only classifiers have probabilities"),
        (lambda: select_output(SMALL, "logits"), "output must be 'raw' or 'probabilities', got 'logits'"),
        (lambda: DCONRegressor().to_chain(), "not fitted"),
        (lambda: SMALL.then(Affine([[1e308]], [0.0])).then(Affine([[1e308]], [0.0])), "too large or too small"),
        (lambda: Chain(()), "at least one affine map"),
        (lambda: Chain((Affine(np.ones((2, 4)), [0.0] * 2), *SMALL.layers)), "3 inputs cannot follow one of 2"),
        (lambda: Affine(np.ones((2, 4)), [0.0]), "needs inputs and outputs"),
        (lambda: SMALL.with_names(["a", "b"]), "2 feature names were given for 3 features"),
        (lambda: SMALL.with_names(output_names=["a", "b"]), "2 output names were given for 1 outputs"),
        (lambda: dtype_name("float16"), "dtype must be 'float64' or 'float32', got 'float16'"),
        (lambda: Chain((Affine([[1e39]], [0.0]),)).weights("float32"), "too large for single precision"),
    ],
)
def test_bad_chains_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()
