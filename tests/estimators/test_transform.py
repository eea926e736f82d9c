"""The hidden layer as features, as scikit-learn's transformers have them."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from dconnet import DCONClassifier, DCONRegressor, LayerwiseDCONRegressor

X = np.random.default_rng(0).normal(size=(60, 2))
Y = np.abs(X[:, 0]) - 0.5 * X[:, 1]
QUICK = {"gamma": 0.05, "tol": 1e-2, "random_state": 0}


@pytest.mark.parametrize("scale", [True, False])
def test_outputs_are_a_linear_map_of_the_features(scale):
    model = DCONRegressor(4, scale=scale, **QUICK).fit(X, Y)
    features = model.transform(X)
    assert features.shape == (60, 4)
    assert (features >= 0.0).all()
    network = model.network_
    np.testing.assert_allclose(features @ network.alpha + network.intercept, model.predict(X), rtol=1e-13)
    np.testing.assert_array_equal(features, DCONRegressor(4, scale=scale, **QUICK).fit_transform(X, Y))


def test_neurons_of_all_classes_one_after_the_other():
    inputs, labels = load_iris(return_X_y=True)
    model = DCONClassifier(2, **QUICK).fit(inputs, labels)
    features = model.transform(inputs)
    assert features.shape == (150, 6)
    np.testing.assert_array_equal(features[:, 2:4], model.networks_[1].hidden(inputs))
    assert list(model.get_feature_names_out()) == [f"dconclassifier{j}" for j in range(6)]


@pytest.mark.parametrize("skip", [True, False])
def test_of_several_layers_the_last(skip):
    model = LayerwiseDCONRegressor((4, 3), skip=skip, lower_epochs=2, max_epochs=50, tol=1e-2, random_state=0).fit(X, Y)
    features = model.transform(X)
    assert features.shape == (60, 3)
    top = model.solutions_[0].network
    np.testing.assert_allclose(features @ top.alpha + top.intercept, model.predict(X), rtol=1e-12)
    assert list(model.get_feature_names_out()) == [f"layerwisedconregressor{j}" for j in range(3)]


def test_features_that_overflow_are_refused():
    model = DCONRegressor(3, **QUICK).fit(1e-6 * X, Y)
    with pytest.raises(OverflowError, match="row 1"):
        model.transform([[0.0, 0.0], [1.7e308, -1.7e308]])
