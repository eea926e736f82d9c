"""Examinations and reports of one network with several outputs."""

import json

import numpy as np
import pytest

from dconnet.certificates import certify
from dconnet.inspection.examination import examine, in_data_units
from dconnet.inspection.report import report_page
from dconnet.inspection.report.figures import MAX_TARGETS, prediction_figures
from dconnet.inspection.report.inputs import influences
from dconnet.inspection.report.predictions import Predictions
from dconnet.inspection.report.what_if import what_if
from dconnet.io.parts import Score
from inspection_cases import Page, attributes_that_act, examined_outputs

CLASSES = ["a", "b", "c"]
CASES = {
    "targets": examined_outputs,
    "targets, unscaled": lambda: examined_outputs(scale=False),
    "classes": lambda: examined_outputs(CLASSES),
    "targets over one input": lambda: examined_outputs(n_features=1),
    "targets over two inputs": lambda: examined_outputs(n_features=2),
}


@pytest.mark.parametrize("case", CASES)
def test_the_certificate_is_that_of_the_estimator(case):
    found = CASES[case]()
    assert found.is_training_data
    (finding,) = found.findings
    (expected,) = certify(found.model.to_estimator(), found.X, found.y)
    assert finding.certificate.objective == pytest.approx(expected.objective, rel=1e-12)
    assert finding.certificate.stationarity.norm == pytest.approx(expected.stationarity.norm, rel=1e-6, abs=1e-14)
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert [network["class"] for network in told["networks"]] == [None]


def test_networks_in_data_units_predict_the_same():
    found = examined_outputs()
    networks, offsets = in_data_units(found.model)
    outputs = np.column_stack([network.predict(found.X) for network in networks]) + offsets
    np.testing.assert_allclose(outputs, found.model.predict(found.X), rtol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_the_page_is_whole(case):
    found = CASES[case]()
    page = Page(report_page(found))
    assert page.open == []
    assert attributes_that_act(page) == []
    n_pictures = 2 if found.model.classes is None else 1
    assert len(page.all("img")) == 2 * n_pictures + 1  # predictions, networks, and the training
    text = " ".join(page.text)
    for name in found.model.names_of_targets:
        assert ("R² of " + name in text) is (found.model.classes is None)
    assert "with 2 outputs" in text or "with 3 outputs" in text


def test_scores_are_those_of_each_target():
    found = examined_outputs()
    predicted = found.model.predict(found.X)
    each = [Score.between(found.y[:, k], predicted[:, k], is_class=False) for k in range(2)]
    assert found.score.each == tuple(each)
    assert found.score.mse == pytest.approx(np.mean([score.mse for score in each]))
    predictions = Predictions.of(found)
    assert [predictions.of_target(k).score for k in range(2)] == each
    np.testing.assert_array_equal(predictions.of_target(1).predicted, predicted[:, 1])


def test_a_target_without_spread_has_no_r2_and_neither_has_the_mean():
    y = np.column_stack([np.arange(4.0), np.ones(4)])
    score = Score.between(y, y + 1.0, is_class=False)
    assert [own.r2 is None for own in score.each] == [False, True]
    assert (score.mse, score.r2) == (1.0, None)
    huge = Score.between(y, y + np.array([1e200, 0.0]), is_class=False)
    assert (huge.mse, huge.each[0].mse, huge.each[1].mse) == (None, None, 0.0)


def test_influence_does_not_depend_on_the_units_of_targets():
    found = examined_outputs()
    (first, *_), scaled = influences(found.model, found.X, found.y), found.model.target_scaling
    assert first.feature == 0  # the one that both depend on
    assert 0.1 < first.rise < 3.0  # in standard deviations, though one target is in thousands
    assert scaled.mean.shape == (2,)


def test_the_page_explains_every_output():
    found = examined_outputs()
    told = what_if(found, Predictions.of(found), [0, 1, 2])
    assert told["outputs"] == ["height", "weight"]
    assert len(told["interval"]["half_widths"]) == 2
    assert [entry["output"] for entry in told["optima"]] == [0, 0, 1, 1]
    shared = examined_outputs(CLASSES)
    told = what_if(shared, Predictions.of(shared), [0, 1, 2])
    assert told["outputs"] == ["class a", "class b", "class c"]
    assert [entry["label"] for entry in told["optima"]] == [f"Largest output for {name}" for name in CLASSES]


def test_the_training_is_repeated():
    from dconnet.io.tables import Table

    found = examined_outputs()
    columns = (*found.X.T, *found.y.T)
    table = Table((*found.model.feature_names, *found.model.target_names), columns, "data.csv")
    (finding,) = examine(found.model, table, repeat=True).findings
    assert finding.trajectory is not None
    np.testing.assert_array_equal(finding.trajectory.networks[-1].W, found.model.networks[0].W)


def test_pictures_are_of_the_first_targets():
    observed = np.random.default_rng(0).normal(size=(20, MAX_TARGETS + 2))
    each = tuple(Score.between(column, column, is_class=False) for column in observed.T)
    every = np.ones(20, dtype=bool)
    predictions = Predictions(observed, observed, every, every, Score(20, each=each))
    assert len(prediction_figures(predictions, [f"t{k}" for k in range(MAX_TARGETS + 2)])) == MAX_TARGETS
