"""The data of the what-if tool: networks, mean curves, optima, and rows."""

import numpy as np
import pytest
from scipy.optimize import nnls
from sklearn.inspection import partial_dependence

from dconnet import AutoDCONClassifier, AutoDCONRegressor, Network
from dconnet.inspection.examine import examine
from dconnet.inspection.report.dependence import PartialDependence, read_features
from dconnet.inspection.report.what_if import MAX_ROWS, build_what_if
from inspection_cases import examine_network, examine_table, examine_with_held_out_rows, make_table


def build(found, **options):
    return build_what_if(found, found.half_widths if found.classes is None else None, **options)


@pytest.mark.parametrize("classes", [None, ["a", "b"], ["a", "b", "c"]])
def test_page_contains_the_networks(classes):
    found = examine_network(classes=classes)
    data = build(found)
    networks = [Network(each["W"], each["b"], each["alpha"], each["intercept"]) for each in data["networks"]]
    outputs = np.hstack([network.predict(found.inputs).reshape(50, -1) for network in networks])
    expected = found.predictions if classes is None else found.model.decision_function(found.inputs)
    np.testing.assert_allclose(outputs, expected.reshape(50, -1), rtol=1e-13)
    assert data["classes"] == classes
    assert len(data["outputs"]) == outputs.shape[1]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", [AutoDCONRegressor, AutoDCONClassifier])
def test_page_of_an_ensemble_contains_a_network_that_imitates_it(kind):
    table, y = make_table()
    target = y if kind is AutoDCONRegressor else np.digitize(y, np.quantile(y, [0.3, 0.6]))
    estimator = kind(random_state=0, max_seconds=1e-6).fit(table, target)
    data = build(examine(estimator, table, target))
    assert data["fidelity"] > 0.95
    assert len(data["networks"]) == 1
    assert {field["name"] for field in data["fields"]} == {"age", "colour", "city", "sold", "day"}


def test_page_contains_some_rows_or_none():
    found = examine_network(n_rows=MAX_ROWS + 50)
    rows = build(found)["rows"]
    assert len(rows) == MAX_ROWS
    assert all(row["values"] == found.inputs[row["number"] - 1].tolist() for row in rows)
    assert build(found, with_rows=False)["rows"] is None
    found, test = examine_with_held_out_rows()
    assert [row["number"] - 1 for row in build(found)["rows"] if row["part"] == "held out"] == test.tolist()


@pytest.mark.parametrize("classes", [None, ["no", "yes"]])
def test_mean_curves_are_partial_dependence(classes):
    found = examine_network(classes=classes)
    (feature, *_), model = read_features(found), found.model
    expected = partial_dependence(model, found.inputs, [0], kind="average", percentiles=(0.0, 1.0), grid_resolution=9)
    means = PartialDependence(found).means(feature, expected["grid_values"][0])
    np.testing.assert_allclose(means[:, 0], expected["average"][0], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"n_bins": 3}, {"target_type": "number"}, {"labels": ["low", "high"]}])
def test_the_dependence_of_a_table_is_that_of_its_cells(options):
    found = examine_table(**options)
    table = found.X.drop(columns="same")
    for feature in read_features(found):
        values = feature.points[[0, -1]]
        means = PartialDependence(found).means(feature, values)
        for cell, mean in zip(feature.to_cells(values), means, strict=True):
            changed = found.X.assign(**{feature.name: np.full(len(table), cell, dtype=feature.to_cells(values).dtype)})
            predicted = (
                found.estimator.predict(changed)
                if found.classes is None
                else found.estimator.predict_proba(changed)[:, 1]
            )
            assert mean[0] == pytest.approx(predicted.mean(), rel=1e-9)


def test_optima_are_within_the_convex_hull_of_the_data():
    found = examine_network()
    largest, smallest = build(found)["optima"]
    at = found.model.predict([largest["values"], smallest["values"]])
    assert at[0] >= found.predictions.max() - 1e-6
    assert at[1] <= found.predictions.min() + 1e-6
    # A convex combination of rows: nonnegative least squares with weights that add up to one has no residual.
    rows = np.vstack([found.inputs.T, 1e3 * np.ones(len(found.y))])
    for entry in (largest, smallest):
        assert nnls(rows, [*entry["values"], 1e3])[1] < 1e-5
