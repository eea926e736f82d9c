"""The whole certificate: public function, report and dictionary."""

import json

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dconnet import DCONClassifier, DCONRegressor, LayerwiseDCONRegressor, Problem, certify
from dconnet.certificates import certificate


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 2))
    y, weight = np.abs(X[:, 0]), rng.uniform(0.5, 2.0, size=50)
    model = DCONRegressor(n_hidden=3, gamma=0.5, random_state=0, scale=False).fit(X, y, sample_weight=weight)
    return model, X, y, weight


def test_certificate_of_a_regressor_and_its_network(fitted):
    model, X, y, weight = fitted
    (found,) = certify(model, X, y, weight)
    assert found.objective == pytest.approx(model.objective_, rel=1e-12)
    assert found.stationarity.norm == pytest.approx(model.stationarity_, rel=1e-9)
    assert found.critical.norm <= found.stationarity.norm
    assert found.gap.exact
    assert found.order is not None
    assert found.decrease is None
    (of_network,) = certify(model.network_, X, y, weight, gamma=0.5)
    assert of_network.objective == found.objective
    assert of_network.gap.bound == found.gap.bound


def test_one_certificate_for_each_network_of_a_classifier(fitted):
    _, X, y, _ = fitted
    for classes, labels in [(y > 0.5, ["class True"]), (np.digitize(y, [0.3, 0.8]), ["class 0", "class 1", "class 2"])]:
        model = DCONClassifier(n_hidden=2, gamma=1.0, tol=1e-3, random_state=0, scale=False).fit(X, classes)
        found = certify(model, X, classes)
        assert [each.label for each in found] == labels
        np.testing.assert_allclose([each.objective for each in found], model.objective_, rtol=1e-12)


def test_top_layer_of_layers(fitted):
    _, X, y, weight = fitted
    model = LayerwiseDCONRegressor((4, 3), gamma=0.5, tol=1e-4, random_state=0).fit(X, y, sample_weight=weight)
    (found,) = certify(model, X, y, weight)
    assert (found.n_hidden, found.n_features) == (3, 4)
    assert found.objective == pytest.approx(model.objective_, rel=1e-9)


def test_dictionary_is_json(fitted):
    model, X, y, weight = fitted
    (found,) = certify(model, X, y, weight)
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["objective"] == found.objective
    assert plain["stationarity"]["norm"] == found.stationarity.norm
    assert plain["gap"]["kind"] == "proved"
    assert plain["local"]["verdicts"] == list(found.local.verdicts)
    assert plain["decrease"] is None
    short = certificate(Problem(X, y, 0.5, weight), model.network_, objectives=[2.0, 1.0])
    assert short.to_dict()["order"]["all"] is None
    assert ("convergence order", "unknown", "too few epochs") in short.lines()


def test_invalid_models_are_refused(fitted):
    model, X, y, _ = fitted
    with pytest.raises(ValueError, match="Pass gamma="):
        certify(model.network_, X, y)
    with pytest.raises(ValueError, match="belongs to the fitted estimator"):
        certify(model, X, y, gamma=0.5)
    with pytest.raises(NotFittedError):
        certify(DCONRegressor(), X, y)
    with pytest.raises(TypeError, match="For a pipeline, pass its last step"):
        certify(make_pipeline(StandardScaler(), model), X, y)
    classifier = DCONClassifier(n_hidden=2, gamma=1.0, tol=1e-2, random_state=0).fit(X, y > 0.5)
    with pytest.raises(ValueError, match="did not have: 7"):
        certify(classifier, X, np.where(y > 0.5, 7, 0))
