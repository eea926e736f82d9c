"""The data of the what-if tool: networks, controls, mean curves, optima, and rows."""

import numpy as np
import pytest
from scipy.optimize import nnls
from sklearn.inspection import partial_dependence

from dconnet import DCONRegressor, Network
from dconnet.inspection.report.controls import Controls, number_field
from dconnet.inspection.report.what_if import MAX_ROWS, average_outputs, build_what_if
from inspection_cases import examine_network, examine_outputs, examine_table, examine_with_held_out_rows


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


def test_page_contains_some_rows_or_none():
    found = examine_network(n_rows=MAX_ROWS + 50)
    rows = build(found)["rows"]
    assert len(rows) == MAX_ROWS
    assert all(row["values"] == found.inputs[row["number"] - 1].tolist() for row in rows)
    assert build(found, with_rows=False)["rows"] is None
    found, test = examine_with_held_out_rows()
    assert [row["number"] - 1 for row in build(found)["rows"] if row["part"] == "held out"] == test.tolist()


def test_mean_curves_are_partial_dependence():
    X = np.random.default_rng(0).normal(size=(60, 3))
    estimator = DCONRegressor(3, gamma=0.1, tol=1e-2, random_state=0).fit(X, np.abs(X[:, 0]) + X[:, 1])
    expected = partial_dependence(estimator, X, [0], kind="average", percentiles=(0.0, 1.0), grid_resolution=9)
    found = average_outputs(estimator.networks_, X, np.array([0]), expected["grid_values"][0][:, None])
    np.testing.assert_allclose(found[:, 0], expected["average"][0], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"n_bins": 3}, {"target_type": "number"}])
def test_values_of_a_table_are_encoded_as_by_its_encoder(options):
    found = examine_table(**options)
    controls = Controls.of(found)
    for i, values in enumerate(controls.values):
        known = np.flatnonzero(~np.isnan(values))
        inputs, encoded = controls.encode_values(i, values[known])
        np.testing.assert_allclose(encoded, found.inputs[np.ix_(known, inputs)], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.linspace(0.123, 1.987, 50), {"low": 0.123, "high": 1.987, "choices": None}),
        (np.arange(40.0), {"step": 1.0, "min": 0.0, "max": 39.0, "choices": None}),
        (np.tile([3.0, 1.0, 2.5], 5), {"choices": [1.0, 2.5, 3.0]}),
        (np.array([1.0, 2.0, 3.0]), {"choices": None}),  # each value has one row only
        (np.array([7.0, np.nan]), {"choices": [7.0], "has_gaps": True}),
        (np.array([1.0, 2.0, 10.0, 20.0]), {"quartiles": [1.0, 2.0, 10.0]}),  # values of the data
    ],
)
def test_numbers_are_set_by_sliders_or_lists(values, expected):
    entry = number_field("x", values, [0])
    assert {name: entry[name] for name in expected} == expected


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


@pytest.mark.parametrize(
    ("make", "n_optima"),
    [
        (lambda: examine_network(classes=["no", "yes"]), 2),
        (lambda: examine_network(classes=["a", "b", "c"]), 3),
        (lambda: examine_outputs(["a", "b", "c"]), 3),
        (examine_outputs, 4),
        (examine_table, 0),
    ],
)
def test_optima_of_classes_targets_and_tables(make, n_optima):
    found = make()
    entries = build(found)["optima"]
    assert len(entries) == n_optima
    if found.classes is not None:
        outputs = found.model.decision_function([entry["values"] for entry in entries])
        if len(found.classes) == 2:
            assert outputs[0] > outputs[1]
        else:
            assert np.all(np.diag(outputs) >= found.model.decision_function(found.inputs).max(axis=0) - 1e-6)
