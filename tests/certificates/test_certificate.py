"""The whole certificate: one table, and the same for machines."""

import json

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale

from dconnet import DCONClassifier, DCONRegressor, LayerwiseDCONRegressor, Network, Problem, certify
from dconnet.certificates import Certificate, certificate, trace
from dconnet.training.descent import Options
from dconnet.training.initialization import xavier


def fitted():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 2))
    y = np.abs(X[:, 0])
    weight = rng.uniform(0.5, 2.0, size=50)
    model = DCONRegressor(n_hidden=3, gamma=0.5, random_state=0, scale=False).fit(X, y, sample_weight=weight)
    return model, X, y, weight


def test_a_regressor_has_one_certificate():
    model, X, y, weight = fitted()
    (found,) = certify(model, X, y, weight)
    assert isinstance(found, Certificate)
    assert found.objective == pytest.approx(model.objective_, rel=1e-12)
    assert found.stationarity.norm == pytest.approx(model.stationarity_, rel=1e-9)
    assert found.critical.norm <= found.stationarity.norm
    assert found.gap.exact
    assert found.order is not None
    assert found.decrease is None


def test_a_network_is_certified_with_its_gamma():
    model, X, y, weight = fitted()
    (found,) = certify(model.network_, X, y, weight, gamma=0.5)
    (of_model,) = certify(model, X, y, weight)
    assert found.objective == of_model.objective
    assert found.gap.bound == of_model.gap.bound
    with pytest.raises(ValueError, match="Pass gamma="):
        certify(model.network_, X, y)
    with pytest.raises(ValueError, match="belongs to the fitted estimator"):
        certify(model, X, y, gamma=0.5)


def test_a_classifier_has_one_for_each_network():
    X, y = load_iris(return_X_y=True)
    X = scale(X)
    model = DCONClassifier(n_hidden=2, gamma=1.0, tol=1e-3, random_state=0, scale=False).fit(X, y)
    found = certify(model, X, y)
    assert [each.label for each in found] == ["class 0", "class 1", "class 2"]
    np.testing.assert_allclose([each.objective for each in found], model.objective_, rtol=1e-12)
    two = y < 2
    model = DCONClassifier(n_hidden=2, gamma=1.0, tol=1e-3, random_state=0, scale=False).fit(X[two], y[two])
    (only,) = certify(model, X[two], y[two])
    assert only.label == "class 1"
    assert only.objective == pytest.approx(model.objective_[0], rel=1e-12)


def test_the_report_is_one_aligned_table():
    model, X, y, weight = fitted()
    report = certify(model, X, y, weight)[0].report()
    lines = report.splitlines()
    assert lines[0] == "Certificate: 3 neurons, 50 rows, 2 inputs"
    table = lines[2:]
    for name in ("RegLoss", "stationarity", "local minima", "dead neurons", "global gap", "KL exponent 1/2"):
        assert sum(line.startswith(name) for line in table) == 1
    assert any("proved" in line for line in table if line.startswith("global gap"))
    assert not any("estimate" in line for line in table)
    assert max(map(len, lines)) < 120


def test_an_estimate_is_called_one():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(40, 5)), rng.normal(size=40)
    network = Network(rng.normal(size=(2, 5)), rng.normal(size=2), rng.normal(size=2))
    table = certificate(Problem(X, y, 0.1), network).report()
    assert "estimate, not proved" in table
    assert "  proved bound" in table


def test_a_run_adds_its_conditions():
    _, X, y, weight = fitted()
    problem = Problem(X, y, 0.5, weight)
    run = trace(problem, xavier(2, 3, np.random.default_rng(0)), Options(split="net", max_epochs=5))
    found = certificate(problem, run.networks[-1], trajectory=run)
    assert found.decrease is not None
    assert found.decrease.holds
    assert "held in every epoch" in found.report()


def test_the_dictionary_is_json():
    model, X, y, weight = fitted()
    (found,) = certify(model, X, y, weight)
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["objective"] == found.objective
    assert plain["stationarity"]["norm"] == found.stationarity.norm
    assert plain["gap"]["kind"] == "proved"
    assert plain["local"]["verdicts"] == list(found.local.verdicts)
    assert plain["kl"]["holds"] == found.kl.holds
    assert plain["constants"]["sigma_min"] == found.constants.sigma_min
    assert plain["decrease"] is None
    assert len(plain["subgradient"]["hidden"]) == 3


def test_what_is_not_a_number_is_none():
    problem = Problem([[0.0], [1.0]], [0.0, 1.0], 0.1)
    found = certificate(problem, Network([[1.0]], [0.0], [1.0]), objectives=[1.0])
    assert found.to_dict()["order"]["all"] is None


def test_a_network_with_many_weights_skips_the_hessian():
    rng = np.random.default_rng(2)
    problem = Problem(rng.normal(size=(30, 40)), rng.normal(size=30), 0.1)
    network = Network(rng.normal(size=(40, 40)), rng.normal(size=40), rng.normal(size=40))
    found = certificate(problem, network)
    assert found.kl is None
    assert "not checked" in found.report()


def test_an_estimator_must_be_fitted():
    with pytest.raises(ValueError, match="not fitted yet"):
        certify(DCONRegressor(), [[1.0]], [1.0])


def test_of_a_layerwise_model_the_top_layer_is_certified():
    _, X, y, weight = fitted()
    model = LayerwiseDCONRegressor((4, 3), gamma=0.5, tol=1e-4, random_state=0).fit(X, y, sample_weight=weight)
    (found,) = certify(model, X, y, weight)
    assert (found.n_hidden, found.n_features) == (3, 4)
    assert found.objective == pytest.approx(model.objective_, rel=1e-9)
    assert found.stationarity.norm == pytest.approx(model.stationarity_, rel=1e-6, abs=1e-12)


def test_unknown_labels_pipelines_and_unfitted_models_are_refused():
    X, y = load_iris(return_X_y=True)
    model = DCONClassifier(n_hidden=2, gamma=1.0, tol=1e-2, random_state=0, scale=False)
    with pytest.raises(NotFittedError):
        certify(model, X, y)
    with pytest.raises(TypeError, match="For a pipeline, pass its last step"):
        certify(make_pipeline(StandardScaler(), model).fit(X, y), X, y)
    with pytest.raises(ValueError, match="did not have: 7"):
        certify(model, X, np.where(y == 2, 7, y))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_figures_that_overflow_are_none_for_machines():
    X = np.random.default_rng(0).normal(size=(20, 2))
    network = Network(W=[[1e80, 0.0]], b=[0.0], alpha=[1e70])
    plain = certificate(Problem(X, 1e150 * np.abs(X[:, 0]), 0.1), network).to_dict()
    assert plain["stationarity"]["norm"] is None
    json.dumps(plain, allow_nan=False)


def test_too_few_epochs_for_an_order_are_said_in_words():
    model, X, y, weight = fitted()
    found = certificate(Problem(X, y, 0.5, weight), model.network_, objectives=[2.0, 1.0])
    assert ("convergence order", "unknown", "too few epochs") in found.lines()
