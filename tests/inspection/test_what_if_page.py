"""The page at work, in a browser: it predicts what Python predicts, and can be used without a mouse."""

import json
import re

import numpy as np
import pytest
from scipy.special import softmax

from browser import chromium, opened
from dconnet import DCONRegressor, Network
from dconnet.inspection.report import report_page
from dconnet.inspection.report.numbers import number
from dconnet.inspection.report.predictions import Predictions
from dconnet.inspection.report.what_if import Interval
from dconnet.io.model_file import SavedModel, Scaling
from dconnet.io.tables import Frame
from inspection_cases import EVIL, examined, examined_model, examined_outputs, examined_table, with_held_out_rows

HOSTILE = [
    "</script><script>alert(1)</script>",
    "\u202e\u2067abc",
    '"><img src=x onerror=alert(2)>',
    "🙂" * 40,
    "x" * 300,
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture
def show(browser, tmp_path):
    """Opens the report of an examination, and looks for complaints of the browser at the end."""

    def showing(found, **options):
        return opened(browser, tmp_path, report_page(found, **options))

    browser.get_log("browser"), browser.get_log("performance")
    yield showing
    assert [entry["message"] for entry in browser.get_log("browser")] == []
    asked = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    urls = [event["params"]["request"]["url"] for event in asked if event["method"] == "Network.requestWillBeSent"]
    assert [url for url in urls if not url.startswith(("file:", "data:", "chrome:"))] == []  # chrome: is its first tab


def scaled_model():
    """A network in scaled units, and rows in units of their own: whole numbers, small ones, and few different ones."""
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.integers(0, 60, size=70), 1e-3 * rng.normal(size=70), rng.integers(0, 3, size=70)])
    y = 3000.0 + 40.0 * np.abs(X[:, 0] - 30.0) + 1e5 * X[:, 1] - 100.0 * X[:, 2]
    features, target = Scaling.of(X), Scaling.of(y[:, None])
    fitted = DCONRegressor(4, gamma=1e-2, tol=1e-3, random_state=0, scale=False).fit(features.apply(X), target.apply(y))
    model = SavedModel.from_estimator(
        fitted, feature_names=["age", "dose", "group"], feature_scaling=features, target_scaling=target
    )
    return examined_model(model, X, y)


def in_page(browser, script, *arguments):
    return browser.execute_script(f"return {script}", *arguments)


def element(browser, name):
    return browser.find_element("id", f"what-if-{name}")


def settled(browser):
    """Waits until the page has drawn what was asked for."""
    browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    return browser


def shown_outputs(browser):
    return np.array(json.loads(element(settled(browser), "prediction").get_attribute("data-outputs")))


def values_in_units(model, X):
    outputs = model.outputs(X)
    return model.target_scaling.undo(outputs) if model.classes is None else outputs


CASES = {
    "numbers": lambda: examined(),
    "scaled": scaled_model,
    "two classes": lambda: examined(classes=["no", "yes"]),
    "three classes": lambda: examined(classes=["a", "b", "c"]),
    "many features": lambda: examined(40),
    "two targets": examined_outputs,
    "classes that share a network": lambda: examined_outputs(["a", "b", "c"]),
}


@pytest.mark.parametrize("case", CASES)
def test_predictions_are_those_of_python(show, case):
    found = CASES[case]()
    page = show(found)
    rng = np.random.default_rng(0)
    X = np.vstack([found.X, found.X.mean(axis=0) + 5.0 * found.X.std(axis=0) * rng.normal(size=(50, found.X.shape[1]))])
    expected = values_in_units(found.model, X)
    outputs = np.array(in_page(page, "arguments[0].map(row => dconnet.predict(row))", X.tolist()))
    np.testing.assert_allclose(outputs, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


def test_the_reader_chooses_which_target_is_explained(show):
    found = examined_outputs()
    page = show(found)
    assert element(page, "prediction-name").text == "predicted height"
    rows = page.find_elements("css selector", "#what-if-scores tr")
    assert [row.find_element("tag name", "th").text for row in rows] == ["height", "weight"]
    choice = element(page, "output")
    choice.find_elements("tag name", "option")[1].click()
    outputs = shown_outputs(page)
    assert element(page, "prediction-name").text == "predicted weight"
    assert element(page, "prediction").text == number(outputs[1])
    half = Interval.of(Predictions.of(found)).half_widths[1]
    assert element(page, "interval").text.endswith(f"{number(outputs[1] - half)} to {number(outputs[1] + half)}")
    labels = [button.text for button in element(page, "optima").find_elements("tag name", "button")]
    assert labels == ["Largest height", "Smallest height", "Largest weight", "Smallest weight"]


TABLES = {
    "plain": {},
    "ramps": {"n_bins": 4},
    "means of the target": {"target_type": "number"},
    "ramps and means": {"n_bins": 3, "target_type": "number"},
    "means of classes": {"target_type": "class", "labels": ["a", "b", "c"]},
}


@pytest.mark.parametrize("case", TABLES)
def test_tables_are_encoded_as_in_python(show, case):
    found = examined_table(**TABLES[case])
    page = show(found)
    rows = in_page(page, "JSON.parse(document.getElementById('what-if-data').textContent).rows")
    outputs = np.array(in_page(page, "arguments[0].map(row => dconnet.predict(row.values))", rows))
    expected = found.of_table.outputs(found.frame)
    if found.model.classes is None:
        expected = found.model.target_scaling.undo(expected)
    np.testing.assert_allclose(outputs, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
    typical = in_page(page, "JSON.parse(document.getElementById('what-if-data').textContent).typical")
    parts = in_page(page, "arguments[1].map(row => dconnet.contributions(arguments[0], row.values))", typical, rows)
    reference = in_page(page, "dconnet.predict(arguments[0])[0]", typical)
    np.testing.assert_allclose(
        np.sum(parts, axis=1), outputs[:, 0] - reference, rtol=1e-9, atol=1e-9 * np.abs(expected).max()
    )


def test_the_curve_and_the_slope_of_ramps_are_exact(show):
    page = show(examined_table(n_bins=4))
    rows = in_page(page, "JSON.parse(document.getElementById('what-if-data').textContent).rows")
    row = next(row["values"] for row in rows if row["values"][0] is not None)
    corners = np.array(in_page(page, "dconnet.curve(arguments[0], 0)", row))
    at = np.linspace(corners[0, 0], corners[-1, 0], 301)
    script = "arguments[1].map(v => dconnet.predict([v, ...arguments[0].slice(1)])[0])"
    np.testing.assert_allclose(np.interp(at, *corners.T), in_page(page, script, row, at.tolist()), rtol=1e-9)
    told = in_page(page, "dconnet.slope(arguments[0], 0)", row)
    ends = [told["low"] if told["low"] is not None else row[0] - 1.0, told["high"] or row[0] + 1.0]
    first, last = in_page(page, script, row, ends)
    assert (last - first) / (ends[1] - ends[0]) == pytest.approx(told["slope"], rel=1e-6, abs=1e-9)


def test_categories_are_lists_and_gaps_and_dates_can_be_set(show):
    found = examined_table()
    page = show(found)
    names = in_page(page, "[...document.querySelectorAll('#what-if-fields label bdi')].map(e => e.textContent)")
    assert set(names) == {"age", "colour", "city", "sold", "day"}  # the constant column tells nothing
    before = shown_outputs(page)
    levels = element(page, "field-1").find_elements("tag name", "option")
    assert {"red", "blue", "green", "</b>", "(missing)"} == {option.text for option in levels}
    next(option for option in levels if option.text == "red").click()
    red = shown_outputs(page)
    element(page, "field-0-missing").click()
    missing = shown_outputs(page)
    assert element(page, "field-0-number").get_attribute("value") == ""
    box = element(page, "field-4-number")
    assert box.get_attribute("type") == "date"
    page.execute_script("arguments[0].value = '2020-02-29'; arguments[0].dispatchEvent(new Event('input'))", box)
    dated = shown_outputs(page)
    assert len({value[0] for value in (before, red, missing, dated)}) >= 3
    values = in_page(page, "JSON.parse(document.getElementById('what-if-data').textContent).typical")
    levels = found.of_table.encoding.schema.columns[1].levels
    sold = np.datetime64(round(values[3] * 86400.0), "s")
    row = {"age": [np.nan], "colour": ["red"], "city": [found.of_table.encoding.schema.columns[2].levels[0]],
           "sold": [sold], "day": [np.datetime64("2020-02-29")], "same": [1.0]}  # fmt: skip
    typed = [np.array(cells, dtype=object if isinstance(cells[0], str) else None) for cells in row.values()]
    frame = Frame(tuple(row), tuple(typed))
    assert dated == pytest.approx(found.of_table.predict(frame), rel=1e-9)


@pytest.mark.parametrize("case", ["scaled", "three classes"])
def test_contributions_add_up_to_the_difference_from_the_typical_row(show, case):
    found = CASES[case]()
    page = show(found)
    typical = np.quantile(found.X, 0.5, axis=0, method="inverted_cdf")
    rows = found.X[:10]
    expected = values_in_units(found.model, rows) - values_in_units(found.model, typical[None])
    for k in range(expected.shape[1]):
        parts = in_page(
            page, "arguments[1].map(row => dconnet.contributions(arguments[0], row, arguments[2]))",
            typical.tolist(), rows.tolist(), k,
        )  # fmt: skip
        np.testing.assert_allclose(np.sum(parts, axis=1), expected[:, k], rtol=1e-9, atol=1e-9 * np.abs(expected).max())


def test_contributions_are_the_integral_of_the_gradient(show):
    found = examined()
    page = show(found)
    start, end = found.X[0], found.X[1]
    network: Network = found.model.networks[0]
    middles = (np.arange(20_000) + 0.5) / 20_000
    points = start + middles[:, None] * (end - start)
    gradients = (network.preactivations(points) > 0.0) @ (network.alpha[:, None] * network.W)
    parts = in_page(page, "dconnet.contributions(arguments[0], arguments[1])", start.tolist(), end.tolist())
    np.testing.assert_allclose(parts, gradients.mean(axis=0) * (end - start), rtol=1e-3, atol=1e-4)


def test_slopes_hold_as_far_as_they_say(show):
    found = scaled_model()
    page = show(found)
    for row in found.X[:8]:
        for i in range(3):
            told = in_page(page, "dconnet.slope(arguments[0], arguments[1])", row.tolist(), i)
            low, high = (
                told[end] if told[end] is not None else row[i] + sign for end, sign in (("low", -1), ("high", 1))
            )
            ends = np.tile(row, (2, 1))
            ends[:, i] = low, high
            at_ends = found.model.predict(ends)
            assert (at_ends[1] - at_ends[0]) / (high - low) == pytest.approx(told["slope"], rel=1e-6, abs=1e-6)


def test_the_curve_of_a_row_is_exact_between_its_corners(show):
    found = scaled_model()
    page = show(found)
    corners = np.array(in_page(page, "dconnet.curve(arguments[0], 0)", found.X[0].tolist()))
    at = np.linspace(found.X[:, 0].min(), found.X[:, 0].max(), 301)
    rows = np.tile(found.X[0], (301, 1))
    rows[:, 0] = at
    np.testing.assert_allclose(np.interp(at, *corners.T), found.model.predict(rows), rtol=1e-9)


def test_numbers_are_written_as_in_the_rest_of_the_report(show):
    page = show(examined())
    rng = np.random.default_rng(0)
    values = [
        *(rng.normal(size=200) * 10.0 ** rng.integers(-12, 12, size=200)).tolist(),
        0.0,
        1.0,
        -20.0,
        9999.6,
        1e9,
        1e-5,
    ]
    assert in_page(page, "arguments[0].map(v => dconnet.format(v))", values) == [number(value) for value in values]


def test_starts_with_the_typical_row_and_its_interval(show):
    found, _ = with_held_out_rows()
    page = show(found)
    typical = np.quantile(found.X, 0.5, axis=0, method="inverted_cdf")
    expected = float(found.model.predict(typical[None])[0])
    assert shown_outputs(page) == pytest.approx([expected], rel=1e-9)
    assert element(page, "prediction").text == number(expected)
    half = Interval.of(Predictions.of(found)).half_widths[0]
    assert element(page, "interval").text == f"90 % interval: {number(expected - half)} to {number(expected + half)}"
    assert element(page, "tool").is_displayed()


def test_sliders_obey_the_keyboard(show):
    found = scaled_model()
    page = show(found)
    before = shown_outputs(page)
    slider = element(page, "field-0")
    slider.send_keys("\ue014")  # arrow to the right
    typical = np.quantile(found.X, 0.5, axis=0, method="inverted_cdf")
    moved = typical + np.array([1.0, 0.0, 0.0])
    assert shown_outputs(page) == pytest.approx(found.model.predict(moved[None]), rel=1e-9)
    assert shown_outputs(page) != pytest.approx(before, rel=1e-6)
    assert slider.get_attribute("aria-valuetext") == element(page, "field-0-number").get_attribute("value")
    assert element(page, "field").get_attribute("value") == "0"  # the curve follows
    element(page, "reset").send_keys("\ue007")  # enter
    assert shown_outputs(page) == pytest.approx(before, rel=1e-12)
    assert element(page, "field-0-number").get_attribute("value") == str(int(typical[0]))


def test_a_typed_number_may_lie_outside_the_data(show):
    found = scaled_model()
    page = show(found)
    assert not element(page, "warning").is_displayed()
    box = element(page, "field-0-number")
    box.send_keys("\ue009a")  # select all
    box.send_keys("500")
    typical = np.quantile(found.X, 0.5, axis=0, method="inverted_cdf")
    assert shown_outputs(page) == pytest.approx(found.model.predict([[500.0, *typical[1:]]]), rel=1e-9)
    assert "Outside the range of the data: age." in element(page, "warning").text
    assert "No row of the data is near." in element(page, "warning").text


def test_few_values_are_chosen_from_a_list(show):
    found = scaled_model()
    page = show(found)
    options = element(page, "field-2").find_elements("tag name", "option")
    assert [option.text for option in options] == ["0", "1", "2"]
    options[2].click()
    typical = np.quantile(found.X, 0.5, axis=0, method="inverted_cdf")
    assert shown_outputs(page) == pytest.approx(found.model.predict([[*typical[:2], 2.0]]), rel=1e-9)


def test_a_row_of_the_data_can_be_taken_and_is_its_own_nearest(show):
    found = scaled_model()
    page = show(found)
    element(page, "row").find_elements("tag name", "option")[8].click()
    assert shown_outputs(page) == pytest.approx(found.model.predict(found.X[7:8]), rel=1e-9)
    lines = element(page, "nearest").find_elements("tag name", "tr")
    scale = found.X.std(axis=0)
    distances = np.sort(np.linalg.norm((found.X - found.X[7]) / scale, axis=1))[:5]
    cells = [line.find_elements("tag name", "td")[0].text for line in lines]
    assert cells == [number(value, ".3g") for value in distances]
    assert lines[0].find_element("tag name", "button").text == "row 8"
    lines[1].find_element("tag name", "button").click()
    number_of_row = int(element(page, "row").get_attribute("value"))
    assert shown_outputs(page) == pytest.approx(found.model.predict(found.X[[number_of_row]]), rel=1e-9)


def test_an_optimum_is_one_click_away(show):
    found = examined()
    page = show(found)
    predicted = found.model.predict(found.X)
    largest, smallest = element(page, "optima").find_elements("tag name", "button")
    assert (largest.text, smallest.text) == ("Largest prediction", "Smallest prediction")
    largest.send_keys("\ue007")  # enter
    assert shown_outputs(page)[0] >= predicted.max() - 1e-6
    smallest.click()
    assert shown_outputs(page)[0] <= predicted.min() + 1e-6


def test_classes_have_their_outputs_and_the_winner_is_named(show):
    found = examined(classes=["a", "b", "c"])
    page = show(found)
    for i in (1, 7, 20):
        element(page, "row").find_elements("tag name", "option")[i].click()
        settled(page)
        assert element(page, "prediction").text == found.model.predict(found.X[i - 1 : i])[0]
    lines = element(page, "scores").find_elements("tag name", "tr")
    outputs = found.model.outputs(found.X[19:20])[0]
    assert [line.text.split()[:2] for line in lines] == [
        [label, number(value, ".3g")] for label, value in zip("abc", outputs, strict=True)
    ]


@pytest.mark.parametrize("classes", [["no", "yes"], ["a", "b", "c"]])
def test_probabilities_are_those_of_the_calibration(browser, tmp_path, classes):
    found = examined(classes=classes)
    n_outputs = 1 if len(classes) == 2 else len(classes)
    calibration = {"slope": [2.5] * n_outputs, "offset": [0.25] * n_outputs}
    text, n_replaced = re.subn(
        r'"calibration":(null|\{.*?\})', f'"calibration":{json.dumps(calibration)}', report_page(found)
    )
    assert n_replaced == 1
    page = opened(browser, tmp_path, text)
    logits = 2.5 * found.model.outputs(found.X) + 0.25
    logits = np.column_stack([np.zeros(len(logits)), logits]) if n_outputs == 1 else logits
    probabilities = in_page(page, "arguments[0].map(row => dconnet.probabilities(row))", found.X.tolist())
    np.testing.assert_allclose(probabilities, softmax(logits, axis=1), rtol=1e-9)
    assert element(page, "interval").text.startswith("probability ")


def test_the_calibration_of_a_model_is_in_its_page():
    found = examined(classes=["a", "b", "c"])
    calibration = getattr(found.model, "calibration", None)
    page = report_page(found)
    assert ("share observed" in page or "Observed shares" in page) == (calibration is not None)
    assert ('"calibration":null' in page) == (calibration is None)


def test_screen_readers_are_told_once_the_values_rest(show):
    page = show(scaled_model())
    for _ in range(3):
        element(page, "field-0").send_keys("\ue014")
    text = element(settled(page), "prediction").text
    told = page.execute_async_script(
        "const done = arguments[0]; const status = document.getElementById('what-if-status');"
        "new MutationObserver(() => done(status.textContent)).observe(status, {childList: true});"
    )
    assert told.startswith(f"Prediction: {text}. 90 % interval: ")


def test_every_control_has_a_name(show):
    page = show(examined(15, names=[f"feature {i}" for i in range(15)]))
    nameless = in_page(
        page,
        "[...document.querySelectorAll('#what-if-tool :is(input, select, button, output)')].filter("
        "e => !(e.textContent.trim() && e.tagName === 'BUTTON') && !(e.labels && e.labels.length) "
        "&& !document.getElementById(e.getAttribute('aria-labelledby'))).map(e => e.outerHTML)",
    )
    assert nameless == []
    ids = in_page(page, "[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(set(ids)) == len(ids)


def test_hostile_names_stay_text(show):
    found = examined(5, names=HOSTILE, target=EVIL[0])
    page = show(found)
    assert in_page(page, "document.scripts.length") == 2
    assert in_page(page, "document.querySelectorAll('img[src=x]').length") == 0
    labels = in_page(page, "[...document.querySelectorAll('#what-if-fields label')].map(e => e.textContent)")
    assert set(labels) == {name.replace("\u202e", "\ufffd").replace("\u2067", "\ufffd") for name in HOSTILE}
    assert in_page(page, "document.documentElement.scrollWidth <= innerWidth")


def test_without_rows_the_page_still_predicts(show):
    found = examined()
    page = show(found, with_rows=False)
    assert not element(page, "row-choice").is_displayed()
    typical = np.quantile(found.X, 0.5, axis=0, method="inverted_cdf")
    assert shown_outputs(page) == pytest.approx(found.model.predict(typical[None]), rel=1e-9)


@pytest.mark.parametrize("width", [420, 1400])
def test_fits_narrow_and_wide_windows(show, width):
    page = show(scaled_model())
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        assert in_page(page, "document.documentElement.scrollWidth") <= width
        inside = in_page(
            page,
            "[...document.querySelectorAll('#what-if-tool :is(.field, .prediction, svg)')]"
            ".every(e => e.getBoundingClientRect().right <= document.documentElement.clientWidth)",
        )
        assert inside
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
