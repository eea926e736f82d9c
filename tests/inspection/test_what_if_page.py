"""The what-if tool in a browser: it predicts what Python predicts, and its controls work."""

import json

import numpy as np
import pandas as pd
import pytest

from browser import evaluate
from dconnet import DCONRegressor
from dconnet.inspection.examine import examine
from dconnet.inspection.report import render_report
from inspection_cases import (
    HOSTILE,
    examine_network,
    examine_outputs,
    examine_table,
    with_metadata,
)

pytestmark = pytest.mark.slow  # every test starts a browser

LONG_OR_HOSTILE = [
    "</script><script>alert(1)</script>",
    "\u202e\u2067abc",
    '"><img src=x onerror=alert(2)>',
    "🙂" * 40,
    "x" * 300,
]
HELPERS = """
const data = JSON.parse(document.getElementById('what-if-data').textContent);
const get = (id) => document.getElementById(`what-if-${id}`);
const drawn = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
const outputs = async () => { await drawn(); return JSON.parse(get('prediction').getAttribute('data-outputs')); };
const set = (id, value, event = 'input') => { get(id).value = value; get(id).dispatchEvent(new Event(event)); };
"""


@pytest.fixture
def ask(tmp_path, no_figures):
    """Return a function that runs a script in the report on an examination; keywords are constants of the script."""

    def run(found, script, *, with_rows=True, **constants):
        given = "".join(f"const {name} = {json.dumps(value)};" for name, value in constants.items())
        return evaluate(render_report(found, with_rows=with_rows), given + HELPERS + script, tmp_path)

    return run


def examine_units():
    """Whole numbers, small numbers, and a feature with few different values."""
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.integers(0, 60, size=70), 1e-3 * rng.normal(size=70), rng.integers(0, 3, size=70)])
    y = 3000.0 + 40.0 * np.abs(X[:, 0] - 30.0) + 1e5 * X[:, 1] - 100.0 * X[:, 2]
    fitted = DCONRegressor(4, gamma=1e-2, tol=1e-3, random_state=0).fit(X, y)
    return examine(with_metadata(fitted, ["age", "dose", "group"]), X, y)


def compute_outputs(found, X):
    return np.column_stack([network.predict(np.asarray(X)) for network in found.model.networks_])


CASES = {
    "units": examine_units,
    "two classes": lambda: examine_network(classes=["no", "yes"]),
    "many features": lambda: examine_network(40),
    "two targets": examine_outputs,
    "shared network": lambda: examine_outputs(["a", "b", "c"]),
}


@pytest.mark.parametrize("case", CASES)
def test_predictions_and_contributions_agree_with_python(ask, case):
    found = CASES[case]()
    X, rng = found.inputs, np.random.default_rng(0)
    X = np.vstack([X, X.mean(axis=0) + 5.0 * X.std(axis=0) * rng.normal(size=(50, X.shape[1]))])
    script = """
    const parts = data.outputs.map((_, k) => X.slice(0, 5).map((row) => dconnet.contributions(data.typical, row, k)));
    return [X.map(dconnet.predict), X.map(dconnet.probabilities), data.typical, parts, get('interval').textContent];"""
    outputs, probabilities, typical, parts, text = ask(found, script, X=X.tolist())
    expected = compute_outputs(found, X)
    close = {"rtol": 1e-9, "atol": 1e-9 * np.abs(expected).max()}
    np.testing.assert_allclose(outputs, expected, **close)
    if found.classes is not None:
        np.testing.assert_allclose(probabilities, found.model.predict_proba(X), rtol=1e-7, atol=1e-12)
        assert text.startswith("probability ")
    # The contributions of all features add up to the difference from the typical row.
    differences = expected[:5] - compute_outputs(found, [typical])
    np.testing.assert_allclose(np.sum(parts, axis=2), differences.T, **close)


@pytest.mark.parametrize(
    "options",
    [{}, {"n_bins": 4}, {"n_bins": 3, "target_type": "number"}, {"target_type": "class", "labels": ["a", "b", "c"]}],
    ids=str,
)
def test_tables_are_encoded_as_in_python(ask, options):
    found = examine_table(**options)
    outputs = ask(found, "return data.rows.map((row) => dconnet.predict(row.values));")
    expected = compute_outputs(found, found.inputs)
    np.testing.assert_allclose(outputs, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("make", [examine_units, lambda: examine_table(n_bins=4)], ids=["numbers", "ramps"])
def test_curves_and_slopes_are_exact(ask, make):
    script = """
    return data.rows.filter((row) => row.values[0] !== null).slice(0, 5).map(({ values }) => {
      const curve = dconnet.curve(values, 0);
      const { slope, low, high } = dconnet.slope(values, 0);
      const [first, last] = [curve[0][0], curve.at(-1)[0]];
      const at = Array.from({ length: 301 }, (_, i) => first + ((last - first) * i) / 300);
      const ends = [low === -Infinity ? values[0] - 1 : low, high === Infinity ? values[0] + 1 : high];
      const predict = (value) => dconnet.predict([value, ...values.slice(1)])[0];
      return [curve, at, at.map(predict), slope, ends, ends.map(predict)];
    });"""
    for curve, at, values, slope, (low, high), (first, last) in ask(make(), script):
        np.testing.assert_allclose(np.interp(at, *np.transpose(curve)), values, rtol=1e-9)
        assert (last - first) / (high - low) == pytest.approx(slope, rel=1e-6, abs=1e-6)


def test_contributions_are_integrals_of_the_gradient_and_optima_are_buttons(ask):
    found = examine_network()
    (start, end), (network,) = found.inputs[:2], found.model.networks_
    points = start + ((np.arange(20_000) + 0.5) / 20_000)[:, None] * (end - start)
    gradients = (network.preactivations(points) > 0.0) @ (network.alpha[:, None] * network.W)
    script = """
    const optima = [];
    for (const button of get('optima').querySelectorAll('button')) {
      button.click();
      optima.push((await outputs())[0]);
    }
    return [dconnet.contributions(start, end), optima];"""
    parts, (largest, smallest) = ask(found, script, start=start.tolist(), end=end.tolist())
    np.testing.assert_allclose(parts, gradients.mean(axis=0) * (end - start), rtol=1e-3, atol=1e-4)
    assert largest >= found.predictions.max() - 1e-6
    assert smallest <= found.predictions.min() + 1e-6


def test_categories_gaps_and_dates_can_be_set(ask):
    found = examine_table()
    script = """
    const names = [...document.querySelectorAll('#what-if-fields label bdi')].map((label) => label.textContent);
    const levels = [...get('field-1').options].map((option) => option.text);
    set('field-1', levels.indexOf('red'), 'change');
    get('field-0-missing').click();
    set('field-4-number', '2020-02-29');
    return [names, levels, data.typical[3], data.fields[2].names[data.typical[2]], await outputs()];"""
    names, levels, days, city, outputs = ask(found, script)
    assert set(names) == {"age", "colour", "city", "sold", "day"}  # the constant column has no control
    assert levels == ["(missing)", "</b>", "blue", "green", "red"]
    sold, day = np.datetime64(round(days * 86400.0), "s"), np.datetime64("2020-02-29")
    row = {"age": [np.nan], "colour": ["red"], "city": [city], "sold": [sold], "day": [day]}
    assert outputs == pytest.approx(found.estimator.predict(pd.DataFrame({**row, "same": 1.0})), rel=1e-9)


def test_sliders_lists_and_boxes_set_values(ask):
    found = examine_units()
    script = """
    const seen = [await outputs()];
    set('field-0', data.typical[0] + 1);
    seen.push(await outputs(), get('field-0').getAttribute('aria-valuetext'), get('field-0-number').value);
    seen.push(get('field').value);
    get('reset').click();
    seen.push(await outputs(), get('field-0-number').value);
    set('field-2', '2', 'change');
    seen.push([...get('field-2').options].map((option) => option.text), await outputs(), get('warning').hidden);
    set('field-0-number', '500');
    return [data.typical, ...seen, await outputs(), get('warning').textContent];"""
    typical, first, moved, spoken, shown, curve, back, box, choices, listed, hidden, far, warning = ask(found, script)

    def predict(age, group):
        return pytest.approx(found.model.predict([[age, typical[1], group]]), rel=1e-9)

    age, _, group = typical
    assert first == back == predict(age, group)
    assert moved == predict(age + 1.0, group)
    assert (spoken, shown, curve, box) == (str(int(age) + 1), str(int(age) + 1), "0", str(int(age)))
    assert choices == ["0", "1", "2"]
    assert listed == predict(age, 2.0)
    assert far == predict(500.0, 2.0)
    assert hidden
    assert "age" in warning


def test_every_control_has_a_name_and_hostile_names_stay_text(ask):
    script = """
    const controls = [...document.querySelectorAll('#what-if-tool :is(input, select, button, output)')];
    const nameless = controls.filter((e) => !(e.textContent.trim() && e.tagName === 'BUTTON')
      && !(e.labels && e.labels.length) && !document.getElementById(e.getAttribute('aria-labelledby')));
    const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
    const labels = [...document.querySelectorAll('#what-if-fields label')].map((e) => e.textContent);
    return [nameless.map((e) => e.outerHTML), ids.length - new Set(ids).size, labels,
      document.querySelectorAll('img[src=x]').length, document.documentElement.scrollWidth <= innerWidth];"""
    found = examine_network(5, names=LONG_OR_HOSTILE, target=HOSTILE[0])
    nameless, n_repeated, labels, n_images, fits = ask(found, script)
    assert (nameless, n_repeated, n_images, fits) == ([], 0, 0, True)
    assert set(labels) == {name.replace("\u202e", "\ufffd").replace("\u2067", "\ufffd") for name in LONG_OR_HOSTILE}
