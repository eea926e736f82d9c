"""What the page is given to answer "what if": the model, the features, the interval and rows of the data."""

import base64
import hashlib
import json
import re

import numpy as np
import pytest
from scipy.optimize import nnls
from sklearn.inspection import partial_dependence as of_sklearn

from dconnet import DCONRegressor, Network
from dconnet.inspection.report import report_page
from dconnet.inspection.report.controls import number_field
from dconnet.inspection.report.embedding import json_block, security_policy
from dconnet.inspection.report.optima import optima
from dconnet.inspection.report.predictions import Predictions
from dconnet.inspection.report.what_if import MAX_ROWS, Interval, partial_dependence, what_if
from dconnet.io.model_file import SavedModel, Scaling
from inspection_cases import EVIL, Page, examined, examined_model, examined_table, with_held_out_rows


def data_of(page):
    return json.loads(Page(page).scripts[0])


def computed(data, X):
    """Outputs by the numbers of the page."""
    columns = data["columns"]
    Z = np.column_stack([(X[:, c["field"]] - c["steps"][0][0]) / c["steps"][0][1] for c in columns])
    raw = [Network(n["W"], n["b"], n["alpha"], n["intercept"]).predict(Z).reshape(len(X), -1) for n in data["networks"]]
    return np.array(data["scaling"]["mean"]) + np.array(data["scaling"]["scale"]) * np.hstack(raw)


@pytest.mark.parametrize("classes", [None, ["a", "b"], ["a", "b", "c"]])
def test_the_page_carries_the_model(classes):
    found = examined(classes=classes)
    data = data_of(report_page(found))
    outputs = computed(data, found.X)
    np.testing.assert_array_equal(outputs, found.model.outputs(found.X))
    assert data["classes"] == classes
    assert len(data["outputs"]) == outputs.shape[1]


def test_the_scaling_is_part_of_the_model():
    rng = np.random.default_rng(0)
    X = [100.0, -3.0] + [10.0, 0.01] * rng.normal(size=(40, 2))
    y = 5000.0 + 20.0 * np.abs(X[:, 0] - 100.0)
    features, target = Scaling.of(X), Scaling.of(y[:, None])
    fitted = DCONRegressor(2, gamma=0.1, tol=1e-2, random_state=0, scale=False).fit(features.apply(X), target.apply(y))
    model = SavedModel.from_estimator(fitted, feature_scaling=features, target_scaling=target)
    found = examined_model(model, X, y)
    data = what_if(found, Predictions.of(found), [0, 1])
    np.testing.assert_allclose(computed(data, X)[:, 0], model.predict(X), rtol=1e-13)


def test_rows_may_be_left_out():
    found = examined()
    with_rows, without = data_of(report_page(found)), data_of(report_page(found, with_rows=False))
    assert without["rows"] is None
    assert [row["values"] for row in with_rows["rows"]] == found.X.tolist()
    assert [row["number"] for row in with_rows["rows"]] == list(range(1, len(found.X) + 1))
    assert "most alike" not in "".join(Page(report_page(found, with_rows=False)).text)


def test_of_many_rows_some_are_drawn():
    found = examined(n_rows=MAX_ROWS + 50)
    rows = data_of(report_page(found))["rows"]
    assert len(rows) == MAX_ROWS
    for row in rows:
        assert row["values"] == found.X[row["number"] - 1].tolist()
    assert f"{MAX_ROWS} of the {MAX_ROWS + 50} rows" in "".join(Page(report_page(found)).text)


def test_rows_of_the_test_are_told_apart():
    found, test = with_held_out_rows()
    rows = data_of(report_page(found))["rows"]
    assert [row["number"] - 1 for row in rows if row["part"] == "held out"] == test.tolist()


def test_interval_is_the_conformal_one_of_the_rows_held_out():
    found, test = with_held_out_rows()
    interval = Interval.of(Predictions.of(found))
    residuals = np.sort(np.abs(found.y - found.model.predict(found.X))[test])
    assert interval.half_widths == (residuals[18],)  # the 19th of 20: 0.9 times 21, rounded up
    assert (interval.rows, interval.kind) == (20, "held-out")
    assert Interval.of(Predictions.of(examined())).kind == "training"


def test_interval_of_few_rows_is_the_largest_residual():
    found = examined(n_rows=5)
    interval = Interval.of(Predictions.of(found))
    assert interval.half_widths == (np.abs(found.y - found.model.predict(found.X)).max(),)


def test_partial_dependence_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    estimator = DCONRegressor(3, gamma=0.1, tol=1e-2, random_state=0).fit(X, np.abs(X[:, 0]) + X[:, 1])
    expected = of_sklearn(estimator, X, [0], kind="average", percentiles=(0.0, 1.0), grid_resolution=9)
    found = partial_dependence(
        SavedModel.from_estimator(estimator), X, np.array([0]), expected["grid_values"][0][:, None]
    )
    np.testing.assert_allclose(found[:, 0], expected["average"][0], rtol=1e-10, atol=1e-12)


def test_a_slider_covers_the_data_in_round_steps():
    entry = number_field("x", np.linspace(0.123, 1.987, 50), [0])
    assert (entry["low"], entry["high"]) == (0.123, 1.987)
    assert (entry["min"], entry["max"], entry["step"]) == (0.12, 2.0, 0.02)
    assert entry["choices"] is None


def test_whole_numbers_have_whole_steps():
    entry = number_field("x", np.arange(40.0), [0])
    assert (entry["step"], entry["min"], entry["max"]) == (1.0, 0.0, 39.0)
    assert number_field("x", 1000.0 * np.arange(40.0), [0])["step"] == 500.0


def test_few_values_make_a_list():
    assert number_field("x", np.tile([3.0, 1.0, 2.5], 5), [0])["choices"] == [1.0, 2.5, 3.0]
    assert number_field("x", np.array([1.0, 2.0, 3.0]), [0])["choices"] is None  # each value has one row only
    assert number_field("x", np.array([7.0, 7.0]), [0])["choices"] == [7.0]


def test_quartiles_are_values_of_the_data():
    values = np.array([1.0, 2.0, 10.0, 20.0])
    assert set(number_field("x", values, [0])["quartiles"]) <= set(values.tolist())


def test_the_policy_knows_style_and_script_by_their_hashes():
    page = report_page(examined())
    policy = next(meta["content"] for meta in Page(page).all("meta") if "http-equiv" in meta)
    for tag, directive in (("style", "style-src"), ("script", "script-src")):
        content = re.search(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


def test_a_page_without_a_script_allows_none():
    assert "script-src" not in security_policy("p {}", None)


def test_data_cannot_end_their_element():
    hostile = ["</script><script>alert(1)</script>", "<!--", "\u2028\u2029", "]]>", "a & b", '"\\', "🙂"]
    text = json_block(hostile)
    assert json.loads(text) == hostile
    assert text.isascii()
    assert not set(text) & set("<>&")


def test_names_reach_the_page_without_control_characters():
    names = [EVIL[0], "\u202etxt.exe", "a\x00b"]
    data = data_of(report_page(examined(names=names)))
    assert [entry["name"] for entry in data["fields"]] == [EVIL[0], "\ufffdtxt.exe", "a\ufffdb"]


def test_optima_are_those_of_optimise_within_the_hull_of_the_data():
    found = examined()
    largest, smallest = optima(found, ["y"])
    assert (largest["label"], smallest["label"]) == ("Largest prediction", "Smallest prediction")
    predicted = found.model.predict(found.X)
    at = found.model.predict([largest["values"], smallest["values"]])
    assert at[0] >= predicted.max() - 1e-6
    assert at[1] <= predicted.min() + 1e-6
    # A convex combination of rows: the least squares with weights that are not negative and sum to one leave nothing.
    rows = np.vstack([found.X.T, 1e3 * np.ones(len(found.X))])
    for entry in (largest, smallest):
        assert nnls(rows, [*entry["values"], 1e3])[1] < 1e-5


def test_optima_of_whole_numbers_are_whole():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 20, size=60), rng.normal(size=60)]).astype(float)
    estimator = DCONRegressor(3, gamma=1e-2, tol=1e-2, random_state=0).fit(X, -np.abs(X[:, 0] - 7.4) + X[:, 1])
    for entry in optima(examined_model(SavedModel.from_estimator(estimator), X, estimator.predict(X)), ["y"]):
        assert entry["values"][0] == pytest.approx(round(entry["values"][0]), abs=1e-6)


@pytest.mark.parametrize(
    ("classes", "labels"),
    [
        (["no", "yes"], ["Most clearly yes", "Most clearly no"]),
        (["a", "b", "c"], [f"Largest output for {name}" for name in "abc"]),
    ],
)
def test_optima_of_classes(classes, labels):
    found = examined(classes=classes)
    entries = optima(found, found.model.targets.labels)
    assert [entry["label"] for entry in entries] == labels
    if len(classes) == 2:
        outputs = found.model.outputs([entry["values"] for entry in entries])[:, 0]
        assert outputs[0] > outputs[1]
    else:
        best = found.model.outputs(found.X).max(axis=0)
        at = found.model.outputs([entry["values"] for entry in entries])
        assert np.all(np.diag(at) >= best - 1e-6)


def test_an_encoded_table_has_no_optima():
    assert optima(examined_table(), ["y"]) == []
