"""Pages from made-up results: the right numbers in the right places, and gaps reported."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from reproduction import (
    baselines,
    convergence,
    mnist,
    overparameterised,
    overregularised,
    printed,
    table1,
)
from reproduction.commands import render
from reproduction.comparison import Comparison
from reproduction.experiment import NAMES, get_experiment
from reproduction.page import MISSING, Picture, Table, mean_and_spread, with_spread
from reproduction.store import Store

pytest.importorskip("matplotlib")


def fill(folder, name, results, settings=None):
    store = Store(folder, name)
    store.claim(get_experiment(name).settings if settings is None else settings)
    for cell, result in results.items():
        store.write(cell, result)


@pytest.fixture
def tables_of(tmp_path):
    """Return a function that stores results and returns the tables of a section."""

    def make(name, results):
        fill(tmp_path, name, results)
        return [part for part in get_experiment(name).section(tmp_path).parts if isinstance(part, Table)]

    return make


def rows_of(table):
    return {row[0]: row for row in table.rows}


def errors(training, validation=1.0, test=1.0):
    return {"training": training, "validation": validation, "test": test}


TABLE1 = {
    table1.Cell("DS1", 10, split, method): errors(training, test=training + 1.0)
    for method, values in {"adam": (4.0, 9.0, 5.0), "paper": (1.0, 3.0), "accelerated": (2.0,)}.items()
    for split, training in enumerate(values)
}


def test_table1(tables_of):
    training, test, accelerated, *_, summary = tables_of("table1", TABLE1)
    # 4 / 1 - 1 = 3 and 9 / 3 - 1 = 2; the third split has no DCON.
    assert rows_of(training)["DS1"][1:4] == ["2.50 (0.71)", "3.69 (9.27)", MISSING]
    assert test.rows[0][1] == with_spread(mean_and_spread([5 / 2 - 1, 10 / 4 - 1]))
    assert accelerated.rows[0][1] == "1.00"
    assert summary.rows[0] == ["Algorithm 1", "training", "2.50", "2.46", "2.50", "1 of 1"]  # the root of 4 times 3


def test_averages():
    values = {("DS1", 10): [3.0, 0.0], ("DS2", 10): [-0.75], ("DS1", 20): [8.0, -0.5, -0.5]}
    comparison = Comparison("adam", "paper", "test", values)
    found = comparison.averages(10)
    assert found.geometric == pytest.approx(np.sqrt(2.0 * 0.25) - 1.0)
    assert found.mean == found.median == pytest.approx((1.5 - 0.75) / 2)
    assert (found.ahead, found.combinations) == (1, 2)
    # Ahead by the mean alone does not count.
    assert (comparison.averages().ahead, comparison.averages().combinations) == (1, 3)
    rows = {row[0]: row for row in comparison.rows}
    assert rows["geometric"][1:5] == ["-0.29", MISSING, "0.31", MISSING]  # the root of 1/2; the cube root of 9/4
    assert rows["median"][3] == "-0.50"


def test_baselines_are_compared_on_common_splits(tmp_path, tables_of):
    fill(tmp_path, "table1", TABLE1)
    found = {
        baselines.Cell("DS1", split, "ridge"): errors(training, test=test) | {"chosen": "alpha=1"}
        for split, training, test in ((1, 6.0, 4.0), (2, 100.0, 50.0), (7, 1.0, 1.0))
    }
    tables = tables_of("baselines", found)
    ridge = next(table for table in tables if "over ridge" in table.caption and "training" in table.caption)
    assert ridge.rows[0][1:3] == ["1.00", "3.13 (1.10)"]  # split 1 alone: 6 / 3 - 1
    summary = next(table for table in tables if table.header[0] == "Algorithm 1 over")
    assert rows_of(summary)["ridge"][1:] == [*["1.00"] * 3, "1 of 1", *["0.00"] * 3, "0 of 1"]  # test: 4 / 4 - 1


CURVES = {
    "gamma": 0.01,
    "epochs": 40,
    "status": "CONVERGED",
    "order_early": None,
    "order": 1.0004,
    "epoch": [1, 2, 40],
    "step_norm": [1.0, 0.1, 1e-6],
    "subgradient": [1.0, 0.5, 1e-5],
    "error": [1.0, 0.1],
    "next_error": [0.1, 0.01],
    "dcon_mse": [1.0, 0.1],
    "adam_mse": [1.0, 0.9],
}


def test_convergence(tmp_path, tables_of):
    epochs = [int(k) for k in np.unique(np.geomspace(1, 5000, 60).round())]
    k = np.array([0, *epochs[:-1]])  # the last epoch represents the limit and has no error
    found = {
        convergence.Cell("DS1", n): CURVES | {"epoch": epochs, "error": errors.tolist(), "status": "EPOCH_LIMIT"}
        for n, errors in ((10, (1.0 + k) ** -0.7), (20, 0.99**k))
    }
    _, laws = tables_of("convergence", found | {convergence.Cell("DS1", 30): CURVES})
    row = laws.rows[0]
    assert [row[1], row[4], row[7]] == ["power", "exponential", "unknown"]  # the last fit has too few epochs
    assert float(row[3]) == pytest.approx(0.7, abs=0.05)
    assert row[6] == MISSING
    (sheet,) = get_experiment("convergence").section(tmp_path).sheets
    lines = {line[1]: dict(zip(sheet.header, line, strict=True)) for line in sheet.rows}
    assert lines[20]["factor"] == pytest.approx(0.99, abs=1e-3)


def digits(training, validation, test):
    return {"seconds": 12.4, "training": training, "validation": validation, "test": test, "epochs": [1] * 10}


def test_mnist_chooses_by_validation_and_compares_with_the_chosen_adam(tables_of):
    found = {
        mnist.Cell("subset", 10, "accelerated", (0.1,)): digits([0.05] * 10, 0.95, 0.91),
        mnist.Cell("subset", 10, "accelerated", (1.0,)): digits([0.05] * 10, 0.94, 0.99),
        mnist.Cell("subset", 10, "adam", (0.1, 0.9, 64, 0.01)): digits([0.02, 0.04] * 5, 0.95, 0.96),
        mnist.Cell("subset", 10, "adam", (0.2, 0.9, 64, 0.01)): digits([9.0] * 10, 0.94, 0.97),
        mnist.Cell("subset", 10, "paper", (0.01,)): digits([0.04, 0.02] * 5, 0.9, 0.912),
        mnist.Cell("subset", 28, "accelerated", (0.01,)): digits([0.01] * 10, 0.9, 0.99),
    }
    subset, complete = map(rows_of, tables_of("mnist", found))
    assert subset["10x10, accelerated"][-4:] == ["0.9100", "12", "0.1", "2"]
    assert subset["10x10, Algorithm 1: improvement"][1:12] == ["-0.50", "1.00"] * 5 + ["-0.05"]
    assert "28x28, accelerated: improvement" not in subset  # Adam has no images of this size
    assert "10x10, accelerated" not in complete


CURVE = {"epochs": 7, "cell_seconds": 12.34, "curve_epoch": [0.0, 1.0], "curve": [1.0, 0.5]}


def test_the_page(tmp_path, monkeypatch):
    results = tmp_path / "results"
    fill(results, "table1", TABLE1)
    fill(results, "convergence", {convergence.Cell("DS1", 10): CURVES})
    fill(results, "overparameterised", {overparameterised.Cell(512, "paper"): errors(0.25, test=0.5) | CURVE})
    cells = itertools.product(("DS1", "DS7"), (0.1, 10.0))
    regularised = {overregularised.Cell(*cell): errors(1.0) | {"epochs": 3, "status": "CONVERGED"} for cell in cells}
    fill(results, "overregularised", regularised, replace(get_experiment("overregularised").settings, max_epochs=7))
    for name, text in (("remarks", "All in all."), ("mnist", "About digits."), ("left", "To be done.")):
        (results / f"{name}.md").write_text(f"{text}\n")
    text = render(results).read_text()
    order = ["All in all.", *(f"## {get_experiment(name).title}" for name in NAMES), "To be done.\n"]
    assert [text.index(part) for part in order] == sorted(text.index(part) for part in order)
    assert text.index("## MNIST") < text.index("About digits.") < text.index("## Run times")
    assert "Not computed: none of its" in text
    assert "max_epochs 7 in the place of 50000" in text
    for picture in ("convergence", "overparameterised", "overregularised"):
        assert f"](results/{picture}.png)" in text
        assert (results / f"{picture}.png").read_bytes().startswith(b"\x89PNG")
    monkeypatch.setattr(Picture, "save", lambda self, folder: None)
    for name in NAMES:
        Store(results, name).pack()
    assert render(results).read_text() == text


@pytest.mark.parametrize("baseline", printed.IMPROVEMENTS)
@pytest.mark.parametrize("part", [0, 1])
def test_printed_averages_follow_from_the_printed_numbers(baseline, part):
    table = printed.IMPROVEMENTS[baseline]
    rows = np.array([columns[part] for name, columns in table.items() if name != printed.AVERAGE])
    assert rows.shape == (9, 3, 2)
    # Each number is rounded to two digits, the average once more.
    np.testing.assert_allclose(rows.mean(axis=0), table[printed.AVERAGE][part], atol=0.0101)


@pytest.mark.parametrize("images", mnist.IMAGES)
def test_printed_improvements_of_mnist_follow_from_the_errors(images):
    (adam, adam_accuracy), (dcon, dcon_accuracy) = (printed.MNIST[images, method] for method in ("adam", "paper"))
    errors, accuracy = printed.MNIST_IMPROVEMENTS[images]
    np.testing.assert_allclose(np.array(adam) / dcon - 1.0, errors, atol=0.0051)
    assert dcon_accuracy / adam_accuracy - 1.0 == pytest.approx(accuracy, abs=0.0051)
