"""Pages from made-up results: the right numbers in the right places, and gaps reported."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from reproduction import (
    convergence,
    mnist,
    overparameterised,
    overregularised,
    printed,
    table1,
)
from reproduction.commands import render
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


CURVE = {"epochs": 7, "cell_seconds": 12.34, "curve_epoch": [0.0, 1.0], "curve": [1.0, 0.5]}


def test_the_page(tmp_path, monkeypatch):
    results = tmp_path / "results"
    fill(results, "table1", TABLE1)
    fill(results, "convergence", {convergence.Cell("DS1", 10): CURVES})
    fill(results, "overparameterised", {overparameterised.Cell(512, "paper"): errors(0.25, test=0.5) | CURVE})
    cells = itertools.product(("DS1", "DS7"), (0.1, 10.0))
    regularised = {overregularised.Cell(*cell): errors(1.0) | {"epochs": 3, "status": "CONVERGED"} for cell in cells}
    fill(results, "overregularised", regularised, replace(get_experiment("overregularised").settings, max_epochs=7))
    texts = {"summary": "All in all.", "mnist": "Setting.\n\n{tables}\n\nVerdict.", "left": "To be done."}
    for name, text in texts.items():
        (results / f"{name}.md").write_text(f"{text}\n")
    text = render(results).read_text()
    order = ["All in all.", *(f"## {get_experiment(name).title}" for name in NAMES), "To be done.\n"]
    assert [text.index(part) for part in order] == sorted(text.index(part) for part in order)
    parts = ["## Table 2: MNIST", "Setting.", "Not computed: none of its", "Verdict.", "## Figures 13"]
    order = [text.index(part, text.index("## Table 2")) for part in parts]
    assert order == sorted(order)
    assert "max_epochs 7 instead of 50000" in text
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
