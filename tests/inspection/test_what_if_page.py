"""The what-if tool in a browser: it predicts what Python predicts, and works without a mouse."""

import json

import numpy as np
import pandas as pd
import pytest

from browser import chromium, open_page
from dconnet import DCONRegressor
from dconnet.inspection.examine import examine
from dconnet.inspection.report import render_report
from dconnet.inspection.report.text import format_number, format_percent
from inspection_cases import (
    HOSTILE,
    examine_network,
    examine_outputs,
    examine_table,
    examine_with_held_out_rows,
    with_metadata,
)

LONG_OR_HOSTILE = [
    "</script><script>alert(1)</script>",
    "\u202e\u2067abc",
    '"><img src=x onerror=alert(2)>',
    "🙂" * 40,
    "x" * 300,
]
READ_DATA = "JSON.parse(document.getElementById('what-if-data').textContent)"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture
def show(browser, tmp_path, no_figures):
    """Open the report on an examination; in the end, the browser must have no errors and no requests."""

    def open_report(found, **options):
        return open_page(browser, tmp_path, render_report(found, **options))

    browser.get_log("browser"), browser.get_log("performance")
    yield open_report
    assert [entry["message"] for entry in browser.get_log("browser")] == []
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    urls = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    assert [url for url in urls if not url.startswith(("file:", "data:", "chrome:"))] == []  # chrome: is its first tab


def examine_units():
    """Whole numbers, small numbers, and a feature with few different values."""
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.integers(0, 60, size=70), 1e-3 * rng.normal(size=70), rng.integers(0, 3, size=70)])
    y = 3000.0 + 40.0 * np.abs(X[:, 0] - 30.0) + 1e5 * X[:, 1] - 100.0 * X[:, 2]
    fitted = DCONRegressor(4, gamma=1e-2, tol=1e-3, random_state=0).fit(X, y)
    return examine(with_metadata(fitted, ["age", "dose", "group"]), X, y)


def call(browser, script, *arguments):
    return browser.execute_script(f"return {script}", *arguments)


def element(browser, name):
    return browser.find_element("id", f"what-if-{name}")


def wait_for_drawing(browser):
    browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    return browser


def read_outputs(browser):
    return np.array(json.loads(element(wait_for_drawing(browser), "prediction").get_attribute("data-outputs")))


def compute_outputs(found, X):
    return np.column_stack([network.predict(np.asarray(X)) for network in found.model.networks_])


def typical_row(page):
    return np.array(call(page, f"{READ_DATA}.typical"))


CASES = {
    "units": examine_units,
    "two classes": lambda: examine_network(classes=["no", "yes"]),
    "many features": lambda: examine_network(40),
    "two targets": examine_outputs,
    "shared network": lambda: examine_outputs(["a", "b", "c"]),
}


@pytest.mark.parametrize("case", CASES)
def test_predictions_agree_with_python(show, case):
    found = CASES[case]()
    page = show(found)
    X, rng = found.inputs, np.random.default_rng(0)
    X = np.vstack([X, X.mean(axis=0) + 5.0 * X.std(axis=0) * rng.normal(size=(50, X.shape[1]))])
    expected = compute_outputs(found, X)
    outputs = np.array(call(page, "arguments[0].map(row => dconnet.predict(row))", X.tolist()))
    np.testing.assert_allclose(outputs, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
    if found.classes is not None:
        probabilities = call(page, "arguments[0].map(row => dconnet.probabilities(row))", X.tolist())
        np.testing.assert_allclose(probabilities, found.model.predict_proba(X), rtol=1e-7, atol=1e-12)
        assert element(page, "interval").text.startswith("probability ")
    # The contributions of all features add up to the difference from the typical row.
    typical = typical_row(page)
    for k in range(expected.shape[1]):
        parts = call(
            page, "arguments[1].map(row => dconnet.contributions(arguments[0], row, arguments[2]))",
            typical.tolist(), X[:5].tolist(), k,
        )  # fmt: skip
        difference = expected[:5, k] - compute_outputs(found, typical[None])[0, k]
        np.testing.assert_allclose(np.sum(parts, axis=1), difference, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize(
    "options",
    [{}, {"n_bins": 4}, {"n_bins": 3, "target_type": "number"}, {"target_type": "class", "labels": ["a", "b", "c"]}],
    ids=str,
)
def test_tables_are_encoded_as_in_python(show, options):
    found = examine_table(**options)
    page = show(found)
    rows, typical = call(page, f"{READ_DATA}.rows"), call(page, f"{READ_DATA}.typical")
    outputs = np.array(call(page, "arguments[0].map(row => dconnet.predict(row.values))", rows))
    expected = compute_outputs(found, found.inputs)
    tolerance = 1e-9 * np.abs(expected).max()
    np.testing.assert_allclose(outputs, expected, rtol=1e-9, atol=tolerance)
    parts = call(page, "arguments[1].map(row => dconnet.contributions(arguments[0], row.values))", typical, rows)
    reference = call(page, "dconnet.predict(arguments[0])[0]", typical)
    np.testing.assert_allclose(np.sum(parts, axis=1), outputs[:, 0] - reference, rtol=1e-9, atol=tolerance)


@pytest.mark.parametrize("make", [examine_units, lambda: examine_table(n_bins=4)], ids=["numbers", "ramps"])
def test_curves_and_slopes_are_exact(show, make):
    page = show(make())
    predict = "arguments[1].map(v => dconnet.predict([v, ...arguments[0].slice(1)])[0])"
    rows = [row["values"] for row in call(page, f"{READ_DATA}.rows") if row["values"][0] is not None]
    for row in rows[:5]:
        corners = np.array(call(page, "dconnet.curve(arguments[0], 0)", row))
        at = np.linspace(corners[0, 0], corners[-1, 0], 301)
        np.testing.assert_allclose(np.interp(at, *corners.T), call(page, predict, row, at.tolist()), rtol=1e-9)
        slope = call(page, "dconnet.slope(arguments[0], 0)", row)
        low, high = (row[0] + sign if slope[end] is None else slope[end] for end, sign in (("low", -1), ("high", 1)))
        first, last = call(page, predict, row, [low, high])
        assert (last - first) / (high - low) == pytest.approx(slope["slope"], rel=1e-6, abs=1e-6)


def test_contributions_are_integrals_of_the_gradient_and_optima_are_buttons(show):
    found = examine_network()
    page = show(found)
    (start, end), (network,) = found.inputs[:2], found.model.networks_
    points = start + ((np.arange(20_000) + 0.5) / 20_000)[:, None] * (end - start)
    gradients = (network.preactivations(points) > 0.0) @ (network.alpha[:, None] * network.W)
    parts = call(page, "dconnet.contributions(arguments[0], arguments[1])", start.tolist(), end.tolist())
    np.testing.assert_allclose(parts, gradients.mean(axis=0) * (end - start), rtol=1e-3, atol=1e-4)
    largest, smallest = element(page, "optima").find_elements("tag name", "button")
    largest.send_keys("\ue007")  # enter
    assert read_outputs(page)[0] >= found.predictions.max() - 1e-6
    smallest.click()
    assert read_outputs(page)[0] <= found.predictions.min() + 1e-6


def test_categories_gaps_and_dates_can_be_set(show):
    found = examine_table()
    page = show(found)
    names = call(page, "[...document.querySelectorAll('#what-if-fields label bdi')].map(e => e.textContent)")
    assert set(names) == {"age", "colour", "city", "sold", "day"}  # the constant column has no control
    levels = element(page, "field-1").find_elements("tag name", "option")
    assert {option.text for option in levels} == {"red", "blue", "green", "</b>", "(missing)"}
    next(option for option in levels if option.text == "red").click()
    element(page, "field-0-missing").click()
    box = element(page, "field-4-number")
    assert box.get_attribute("type") == "date"
    page.execute_script("arguments[0].value = '2020-02-29'; arguments[0].dispatchEvent(new Event('input'))", box)
    _, _, level, days, _ = typical_row(page)
    sold, city = np.datetime64(round(days * 86400.0), "s"), call(page, f"{READ_DATA}.fields[2].names[{int(level)}]")
    row = {"age": [np.nan], "colour": ["red"], "city": [city], "sold": [sold], "day": [np.datetime64("2020-02-29")]}
    assert read_outputs(page) == pytest.approx(found.estimator.predict(pd.DataFrame({**row, "same": 1.0})), rel=1e-9)


def test_a_target_can_be_chosen(show):
    found = examine_outputs()
    page = show(found)
    assert element(page, "prediction-name").text == "predicted height"
    rows = page.find_elements("css selector", "#what-if-scores tr")
    assert [row.find_element("tag name", "th").text for row in rows] == ["height", "weight"]
    element(page, "output").find_elements("tag name", "option")[1].click()
    output, half = read_outputs(page)[1], found.half_widths[1]
    assert element(page, "prediction-name").text == "predicted weight"
    assert element(page, "prediction").text == format_number(output)
    assert element(page, "interval").text.endswith(f"{format_number(output - half)} to {format_number(output + half)}")


def test_numbers_are_formatted_as_in_python(show):
    page = show(examine_network())
    rng = np.random.default_rng(0)
    values = [*(rng.normal(size=200) * 10.0 ** rng.integers(-12, 12, size=200)).tolist(), 0.0, -20.0, 9999.6, 1e9, 1e-5]
    assert call(page, "arguments[0].map(v => dconnet.format(v))", values) == [format_number(value) for value in values]


@pytest.mark.parametrize("with_rows", [True, False])
def test_tool_starts_with_the_typical_row_and_its_interval(show, with_rows):
    found, _ = examine_with_held_out_rows()
    page = show(found, with_rows=with_rows)
    (expected,), (half,) = found.model.predict(typical_row(page)[None]), found.half_widths
    assert read_outputs(page) == pytest.approx([expected], rel=1e-9)
    assert element(page, "prediction").text == format_number(expected)
    assert element(page, "interval").text.endswith(
        f"{format_number(expected - half)} to {format_number(expected + half)}"
    )
    assert element(page, "row-choice").is_displayed() == with_rows


def test_controls_obey_keyboard_and_mouse(show):
    found = examine_units()
    page, predict = show(found), found.model.predict
    typical = typical_row(page)
    before, slider = read_outputs(page), element(page, "field-0")
    slider.send_keys("\ue014")  # arrow to the right
    assert read_outputs(page) == pytest.approx(predict([[typical[0] + 1.0, *typical[1:]]]), rel=1e-9)
    assert slider.get_attribute("aria-valuetext") == element(page, "field-0-number").get_attribute("value")
    assert element(page, "field").get_attribute("value") == "0"  # the curve follows
    element(page, "reset").send_keys("\ue007")  # enter
    assert read_outputs(page) == pytest.approx(before, rel=1e-12)
    assert element(page, "field-0-number").get_attribute("value") == str(int(typical[0]))
    options = element(page, "field-2").find_elements("tag name", "option")
    assert [option.text for option in options] == ["0", "1", "2"]
    options[2].click()
    assert read_outputs(page) == pytest.approx(predict([[*typical[:2], 2.0]]), rel=1e-9)
    assert not element(page, "warning").is_displayed()
    box = element(page, "field-0-number")
    box.send_keys("\ue009a")  # select all
    box.send_keys("500")
    assert read_outputs(page) == pytest.approx(predict([[500.0, typical[1], 2.0]]), rel=1e-9)
    assert "age" in element(page, "warning").text


def test_a_row_and_its_nearest_rows_can_be_chosen(show):
    found = examine_units()
    page, X = show(found), found.inputs
    element(page, "row").find_elements("tag name", "option")[8].click()
    assert read_outputs(page) == pytest.approx(found.predictions[[7]], rel=1e-9)
    lines = element(page, "nearest").find_elements("tag name", "tr")
    distances = np.sort(np.linalg.norm((X - X[7]) / X.std(axis=0), axis=1))[:5]
    cells = [line.find_elements("tag name", "td")[0].text for line in lines]
    assert cells == [format_number(value, ".3g") for value in distances]
    lines[1].find_element("tag name", "button").click()
    assert read_outputs(page) == pytest.approx(
        found.predictions[[int(element(page, "row").get_attribute("value"))]], rel=1e-9
    )


def test_the_predicted_class_is_shown_with_all_probabilities(show):
    found = examine_network(classes=["a", "b", "c"])
    page = show(found)
    for i in (1, 20):
        element(page, "row").find_elements("tag name", "option")[i].click()
        assert element(wait_for_drawing(page), "prediction").text == found.predictions[i - 1]
    lines = element(page, "scores").find_elements("tag name", "tr")
    expected = [f"{label} {format_percent(share)}" for label, share in zip("abc", found.probabilities[19], strict=True)]
    assert [line.text for line in lines] == expected


def test_screen_readers_hear_the_prediction_after_the_last_change(show):
    page = show(examine_units())
    for _ in range(3):
        element(page, "field-0").send_keys("\ue014")
    text = element(wait_for_drawing(page), "prediction").text
    heard = page.execute_async_script(
        "const done = arguments[0]; const status = document.getElementById('what-if-status');"
        "new MutationObserver(() => done(status.textContent)).observe(status, {childList: true});"
    )
    assert heard.startswith(f"Prediction: {text}. 90 % interval: ")


def test_every_control_has_a_name(show):
    page = show(examine_network(15, names=[f"feature {i}" for i in range(15)]))
    nameless = call(
        page,
        "[...document.querySelectorAll('#what-if-tool :is(input, select, button, output)')].filter("
        "e => !(e.textContent.trim() && e.tagName === 'BUTTON') && !(e.labels && e.labels.length) "
        "&& !document.getElementById(e.getAttribute('aria-labelledby'))).map(e => e.outerHTML)",
    )
    assert nameless == []
    ids = call(page, "[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(set(ids)) == len(ids)


def test_hostile_names_stay_text(show):
    page = show(examine_network(5, names=LONG_OR_HOSTILE, target=HOSTILE[0]))
    assert call(page, "document.scripts.length") == 2
    assert call(page, "document.querySelectorAll('img[src=x]').length") == 0
    labels = call(page, "[...document.querySelectorAll('#what-if-fields label')].map(e => e.textContent)")
    assert set(labels) == {name.replace("\u202e", "\ufffd").replace("\u2067", "\ufffd") for name in LONG_OR_HOSTILE}
    assert call(page, "document.documentElement.scrollWidth <= innerWidth")
